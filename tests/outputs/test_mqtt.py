"""A run over MQTT, with a real broker: what is published, kept, found by Home Assistant, and said when we are gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from basestation.live.happenings import Alarm, Delivered
from basestation.live.station import Station
from basestation.outputs import mqtt, mqtt_link, outbox
from basestation.outputs.mqtt import MqttOutput
from basestation.views.ndjson import to_plain
from packet_formats.deployment import load
from packet_formats.layout import layout_of
from tests.live.world import Gateway, Motes, arrival, deployment, health, play
from tests.outputs.receivers import Mosquitto, Subscriber
from tests.waiting import wait_until

SENSORS = load("examples/sensors.toml")
PLAIN = deployment(policy="none")
SETUP = replace(
    PLAIN, data=SENSORS.data, network=replace(PLAIN.network, data_bytes=SENSORS.network.data_bytes)
)
LAYOUT = layout_of(SETUP)
START = 100 * 32768
BASE = "causeway/test"


def run_of(count: int) -> tuple[list[Delivered], Station]:
    station, motes, gateway = Station(SETUP), Motes(SETUP, START), Gateway(SETUP)
    found = play(station, [arrival(replace(health(0, START, SETUP), battery=140), 10**9, setup=SETUP)])
    for number in range(count):
        at = START + number * 4096
        found += play(station, gateway.hear(motes.send(number % 4, at), at + 128))
    return [item for item in found if isinstance(item, Delivered)], station


def output_to(broker: Mosquitto, said: list[str], user: str = "") -> MqttOutput:
    url = f"mqtt://{user}127.0.0.1:{broker.port}"
    return MqttOutput(url, SETUP, lambda item: to_plain(item, LAYOUT), said.append)


@pytest.fixture
def started(mosquitto: Mosquitto) -> Iterator[tuple[Mosquitto, Subscriber]]:
    mosquitto.start()
    subscriber = Subscriber(mosquitto.port)
    yield mosquitto, subscriber
    subscriber.close()


def test_deliveries_values_health_and_alarms_come_and_the_newest_are_kept(started):
    broker, subscriber = started
    said: list[str] = []
    delivered, station = run_of(40)
    output = output_to(broker, said)
    for item in delivered:
        output.take(item)
    output.take(Alarm(1, 2, "mote", 3, True, "silent"))
    output.take_snapshot(station.snapshot(0))
    output.close()
    wait_until(lambda: subscriber.on(f"{BASE}/status")[-1:] == ["offline"], "the end")
    first = json.loads(subscriber.on(f"{BASE}/motes/1/message")[0])
    assert first["event"] == "delivered"
    assert first["name"] == {"source": 1, "boot": 0, "sequence": 0}
    assert sum(len(subscriber.on(f"{BASE}/motes/{mote}/message")) for mote in range(4)) == 40
    assert set(json.loads(subscriber.on(f"{BASE}/motes/1/values")[-1])) == {
        "time",
        *(v.name for v in SETUP.data),
    }
    assert json.loads(subscriber.on(f"{BASE}/motes/0/health")[-1])["battery_mv"] == 2800
    assert json.loads(subscriber.on(f"{BASE}/state")[-1])["delivered"] == 40
    assert json.loads(subscriber.on(f"{BASE}/alarms")[0])["text"] == "silent"
    assert subscriber.on(f"{BASE}/status") == ["online", "offline"]
    late = Subscriber(broker.port, f"{BASE}/#")
    wait_until(lambda: len(late.found) >= 10, "what the broker keeps")
    late.close()
    kept = {topic.removeprefix(f"{BASE}/") for topic, _, _ in late.found}
    motes = {f"motes/{mote}/{what}" for mote in range(4) for what in ("values", "health")}
    assert kept == motes | {"status", "state"}
    assert said == []


def test_home_assistant_finds_each_value(started):
    broker, subscriber = started
    delivered, _ = run_of(8)
    output = output_to(broker, [])
    for item in delivered:
        output.take(item)
    output.close()
    wait_until(lambda: subscriber.on(f"{BASE}/status")[-1:] == ["offline"], "the end")
    found = {
        topic: json.loads(content)
        for topic, content, _ in subscriber.found
        if topic.startswith("homeassistant/")
    }
    assert len(found) == 4 * (len(SETUP.data) + 4)
    value = SETUP.data[0]
    own = f"causeway_test_2_{value.name}"
    config = found[f"homeassistant/sensor/{own}/config"]
    assert config["unique_id"] == own
    assert config["value_template"] == f"{{{{ value_json.{value.name} }}}}"
    assert config["state_topic"] == f"{BASE}/motes/2/values"
    assert subscriber.on(config["state_topic"]), "there is something at the topic"
    assert config["availability_topic"] == f"{BASE}/status"
    assert config["device"]["identifiers"] == ["causeway_test_2"]
    assert config.get("unit_of_measurement") == (value.unit or None)


def test_a_broker_that_goes_and_comes_back_gets_all_in_order(mosquitto, monkeypatch):
    monkeypatch.setattr(mqtt_link, "LONGEST_RETRY_S", 1)
    said: list[str] = []
    delivered, _ = run_of(30)
    output = output_to(mosquitto, said)
    for item in delivered[:10]:
        output.take(item)
    wait_until(lambda: said, "it is said that the broker is away")
    found: list[int] = []
    for end in (10, 20, 30):
        mosquitto.start()
        subscriber = Subscriber(mosquitto.port)
        wait_until(lambda: places(subscriber)[-1:] == [end], lambda: places(subscriber))  # noqa: B023
        if end < 30:
            mosquitto.stop()
        subscriber.close()
        found += places(subscriber)
        for item in delivered[end : end + 10]:
            output.take(item)
    output.close()
    assert sorted(set(found)) == list(range(1, 31))
    assert found == sorted(found)
    assert len(said) == 6, "three times away, three times there"
    assert "trying again until it works" in said[0]
    assert said[1] == f"mqtt://127.0.0.1:{mosquitto.port}/: reconnected"


def places(subscriber: Subscriber) -> list[int]:
    return [json.loads(text)["place"] for topic, text, _ in subscriber.found if topic.endswith("/message")]


def test_a_broker_that_never_answers_is_reported_with_the_lost_items(mosquitto, monkeypatch):
    monkeypatch.setattr(outbox, "CLOSING_S", 0.1)
    monkeypatch.setattr(mqtt, "QUEUED", 20)
    said: list[str] = []
    delivered, _ = run_of(30)
    output = output_to(mosquitto, said)
    for item in delivered:
        output.take(item)
    wait_until(lambda: len(said) >= 2, lambda: said)
    output.close()
    told = "\n".join(said)
    assert "can't connect: Connection refused; trying again until it works" in told
    assert "not sent: the receiver is too slow, or away" in told
    assert "items could not be sent" in told


def test_a_password_is_used_and_a_wrong_one_is_said(mosquitto, require_tool):
    passwords = mosquitto.folder / "passwords"
    subprocess.run([require_tool("mosquitto_passwd"), "-b", "-c", passwords, "me", "s cret"], check=True)
    mosquitto.more = f"allow_anonymous false\npassword_file {passwords}"
    mosquitto.start()
    subscriber = Subscriber(mosquitto.port, user="me", password="s cret")
    said: list[str] = []
    wrong = output_to(mosquitto, said, "me:wrong@")
    wait_until(lambda: said, "it is refused")
    wrong.close()
    right = output_to(mosquitto, [], "me:s%20cret@")
    wait_until(lambda: subscriber.on(f"{BASE}/status"), "online")
    right.close()
    subscriber.close()
    assert "the broker refuses: " in said[0]
    assert "wrong@" not in "".join(said)


def test_a_broker_over_tls_must_have_a_certificate_that_the_machine_trusts(
    mosquitto, require_tool, monkeypatch
):
    key, certificate = mosquitto.folder / "key.pem", mosquitto.folder / "cert.pem"
    make = [require_tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key]
    make += [
        "-out",
        certificate,
        "-days",
        "36500",
        "-subj",
        "/CN=broker",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run(make, check=True, capture_output=True)
    mosquitto.more = f"allow_anonymous true\ncertfile {certificate}\nkeyfile {key}"
    mosquitto.start()
    said: list[str] = []
    url = f"mqtts://127.0.0.1:{mosquitto.port}"
    stranger = MqttOutput(url, SETUP, lambda item: to_plain(item, LAYOUT), said.append)
    wait_until(lambda: said, "it is refused")
    stranger.close()
    assert "certificate verify failed" in said[0]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    trusted = MqttOutput(url, SETUP, lambda item: to_plain(item, LAYOUT), said.append)
    wait_until(lambda: trusted._link.connected, "it is trusted")
    trusted.close()
    assert len(said) == 1


@pytest.mark.wide
def test_a_killed_listener_is_offline_by_its_last_will(started):
    """The whole program: `listen --mqtt` publishes, and dies."""
    broker, subscriber = started
    command = [sys.executable, "-m", "basestation", "listen", "simulate@?messages=100000&rate=0.05&pace=1"]
    command += ["-d", "examples/sensors.toml", "--view", "none"]
    command += ["--mqtt", f"mqtt://127.0.0.1:{broker.port}/field"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: any(topic.endswith("/message") for topic, _, _ in subscriber.found), "a delivery")
    finally:
        process.kill()
        process.wait(30)
    (status,) = {topic for topic, _, _ in subscriber.found if topic.endswith("/status")}
    assert status.startswith("field/")
    wait_until(lambda: subscriber.on(status) == ["online", "offline"], lambda: subscriber.on(status))
