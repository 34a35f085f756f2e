"""Metrics: names and numbers, a scrape from another thread, and the real Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from basestation.cli import listen
from basestation.live.happenings import Alarm
from basestation.outputs import OutputError
from basestation.outputs.metrics import AT_ONCE, MetricsOutput
from tests.outputs.receivers import free_port, is_open
from tests.outputs.test_example_files import queries
from tests.outputs.test_mqtt import SETUP, run_of
from tests.waiting import wait_until


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def samples(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^([a-z].*) (\S+)$", text, re.MULTILINE)}


@pytest.fixture
def metrics() -> Iterator[MetricsOutput]:
    delivered, station = run_of(40)
    output = MetricsOutput("127.0.0.1", 0, SETUP, lambda: station.snapshot(0))
    for item in delivered:
        output.take(item)
    output.take(Alarm(1, 2, "mote", 3, True, "silent"))
    output.take(Alarm(1, 2, "mote", 1, True, "silent"))
    output.take(Alarm(1, 3, "mote", 1, False, "over"))
    yield output
    output.close()


def test_a_client_that_hangs_or_disconnects_harms_no_other(
    metrics: MetricsOutput, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("basestation.outputs.metrics._Handler.timeout", 0.1)
    address = ("127.0.0.1", metrics.port)
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(40)]
        for line in lines:
            with contextlib.suppress(OSError):
                line.sendall(b"GET /met")
        for line in lines:  # some are turned away, the others are too slow
            with contextlib.suppress(ConnectionResetError):
                assert line.recv(1) == b""
    with socket.create_connection(address, 30) as line:
        line.sendall(b"GET /met")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset
    wait_until(lambda: metrics._server._room._value == AT_ONCE, "all have ended")
    assert "causeway_build" in get(f"http://127.0.0.1:{metrics.port}/metrics")
    assert capfd.readouterr().err == ""


def test_the_numbers_are_those_of_the_station(metrics):
    text = get(f"http://127.0.0.1:{metrics.port}/metrics")
    found = samples(text)
    assert found["causeway_messages_received_total"] == 40
    assert found['causeway_mote_received_total{mote="3"}'] == 10
    assert found['causeway_mote_battery_volts{mote="0"}'] == 2.8
    assert 'causeway_mote_battery_volts{mote="1"}' not in found, "not known"
    assert found['causeway_gateway_up{gateway="0",source="gateway 0"}'] == 1
    assert found['causeway_alarm{subject="3",what="mote"}'] == 1
    assert found['causeway_alarm{subject="1",what="mote"}'] == 0
    assert found['causeway_alarms_raised_total{what="mote"}'] == 2
    assert found['causeway_messages_out_of_order_total{order="delivery"}'] == 0
    assert found['causeway_messages_out_of_order_most_total{order="delivery"}'] == 0
    assert found["causeway_hold_seconds_count"] == 40
    assert len([name for name in found if name.startswith("causeway_value{")]) >= 4
    for name in re.findall(r"# TYPE (\S+) counter", text):
        assert name.endswith("_total"), "Prometheus' conventions"
    for name in re.findall(r"# TYPE (\S+) gauge", text):
        assert not name.endswith("_total")


def test_a_port_that_is_taken_is_said(metrics):
    with pytest.raises(OutputError, match=rf"--metrics: can't serve on 127.0.0.1:{metrics.port}: .*in use"):
        MetricsOutput("127.0.0.1", metrics.port, SETUP, lambda: None)


@pytest.mark.parametrize(("where", "code"), [("127.0.0.1:x", 2), ("127.0.0.1:TAKEN", 1)])
def test_wrong_usage_and_a_fault_have_their_exit_codes(metrics, where, code):
    words = ["simulate@?messages=4&pace=0", "-d", "examples/micaz.toml", "--settings", os.devnull]
    done = CliRunner().invoke(
        listen.command,
        [*words, "--metrics", where.replace("TAKEN", str(metrics.port)), "--mqtt", "mqtt://127.0.0.1:1"],
    )
    assert done.exit_code == code, done.stderr
    assert "--metrics" in done.stderr


def ask(port: int, query: str) -> list[dict[str, Any]]:
    try:
        answer = json.loads(
            get(f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        )
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None
    except urllib.error.URLError:
        return []  # it is starting
    return answer["data"]["result"]


@pytest.mark.wide
def test_prometheus_scrapes_a_run(require_tool, tmp_path):
    """The whole program: `listen --metrics`, scraped by the real Prometheus and asked through its API."""
    program, ours, theirs = require_tool("prometheus"), free_port(), free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: causeway, static_configs: [{{targets: ['127.0.0.1:{ours}']}}]}}]\n"
    )
    listen = [sys.executable, "-m", "basestation", "listen", "simulate@?messages=100000&rate=0.05&pace=1"]
    listen += ["-d", "examples/sensors.toml", "--view", "none", "--metrics", f"127.0.0.1:{ours}"]
    scrape = [program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    scrape += [f"--web.listen-address=127.0.0.1:{theirs}", "--log.level=warn"]
    with (tmp_path / "log").open("wb") as log:
        running = [subprocess.Popen(command, stdout=log, stderr=log) for command in (listen, scrape)]
    try:
        wait_until(lambda: is_open(ours) and is_open(theirs), "both serve")
        values = 'sum by (name) (count_over_time(causeway_value{mote="1"}[10m]) > 0)'
        wait_until(lambda: {one["metric"]["name"] for one in ask(theirs, values)} >= {"light", "count"})
        assert float(ask(theirs, "causeway_messages_delivered_total")[0]["value"][1]) > 0
        for query in queries():
            ask(theirs, query)  # of the dashboard: each can be read
        assert ask(theirs, "up{job='causeway'}")[0]["value"][1] == "1"
    finally:
        for process in running:
            process.terminate()
        ended = [process.wait(60) for process in running]
    assert ended == [0, 0]
