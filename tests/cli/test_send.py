"""`basestation send`: to a gateway that answers, one that does not, and the real firmware."""

import asyncio
import json
import os
import select
import socket
import struct
from dataclasses import replace

import pytest
from click.testing import CliRunner

from basestation.cli import send_session
from basestation.cli.send import command
from basestation.cli.send_session import motes_there
from basestation.live.commands import ALL, Dispatch, OrderError, numbers, settings_of, told_message
from basestation.live.downlink import Orders
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.sources import SourceOptions, open_source
from packet_formats.deployment import load
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Command, Downlink
from packet_formats.tinyos import BROADCAST
from tests.cli.gateways import Forwarder, Line, Socket, gateway, network


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("CAUSEWAY_", "BASESTATION_", "MOTECOM")):
            monkeypatch.delenv(name)
    (tmp_path / "deployment.toml").write_text(network().to_toml())
    (tmp_path / "two.toml").write_text(network(2).to_toml())
    return tmp_path


def send(*words):
    return CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)


def orders(end):
    return [decode_message(frame, end.layout) for frame in end.got]


# What goes down


@pytest.mark.parametrize("line", [Line, Socket])
def test_a_setting_goes_down_and_the_acknowledgement_is_told_for_what_it_is(line):
    with gateway(network(), line) as end:
        done = send(end.text, "rate", "0.5")
    assert done.exit_code == 0, done.stderr
    (frame,) = end.got
    assert (frame.kind, frame.dest, frame.group) == ("data-ack", BROADCAST, 0x7D)
    (order,) = orders(end)
    assert order == Downlink(BROADCAST, order.sequence, 2, Command.RATE, 65536)
    said = f"rate 0.5 to all motes: the gateway at {end.text} received it with the right check sum (1 try, "
    assert done.stdout.startswith(said)
    assert "Only the motes' rates show whether they received it" in done.stderr


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["rate", "4"], "`basestation listen {} --view terminal`"),
        (
            ["-d", "deployment.toml", "rate", "4", "report"],
            "`basestation send {} -d deployment.toml report --wait 10`",
        ),
    ],
)
def test_the_advice_names_the_same_network(words, advice):
    with gateway(network()) as end:
        done = send(end.text, *words)
    assert advice.format(end.text) in " ".join(done.stderr.split())


def test_a_source_in_the_deployment_and_in_motecom(here, monkeypatch):
    with gateway(network()) as end:
        kept = replace(network(), observer=replace(network().observer, source=(end.text,)))
        (here / "deployment.toml").write_text(kept.to_toml())
        done = send("report")
        assert done.exit_code == 0, done.stderr
        assert f"the deployment says {end.text}" in done.stderr
    assert len(end.got) == 1
    with gateway(network()) as other:
        monkeypatch.setenv("MOTECOM", other.text)
        assert send("report").exit_code == 0
    assert len(other.got) == 1


def test_each_mote_named_gets_each_setting_with_a_number_of_its_own():
    with gateway(network()) as end:
        done = send(end.text, "rate", "0", "blink", "red,yellow", "-m", "0", "-m", "2", "--hops", "1")
    assert done.exit_code == 0, done.stderr
    sent = orders(end)
    assert [(o.target, o.command, o.argument, o.hops) for o in sent] == [
        (0, Command.RATE, 0, 1),
        (2, Command.RATE, 0, 1),
        (0, Command.BLINK, 5, 1),
        (2, Command.BLINK, 5, 1),
    ]
    assert [(o.sequence - sent[0].sequence) % 65536 for o in sent] == [0, 1, 2, 3]
    assert len({frame.token for frame in end.got}) == 4


def test_numbers_start_at_random():
    assert len({next(numbers()) for _ in range(50)}) > 40


@pytest.mark.parametrize("deployment", [network(1), network(2)])
def test_a_message_of_any_type(deployment, here):
    (here / "deployment.toml").write_text(deployment.to_toml())
    limit = {1: 29, 2: 28}[deployment.network.tinyos]
    with gateway(deployment) as end:
        done = send(end.text, "--type", "0x42", "--hex", "7e 7d" + "00" * (limit - 2), "--mote", "2")
        assert done.exit_code == 0, done.stderr
        refused = send(end.text, "--type", "0x42", "--hex", "00" * (limit + 1))
        assert refused.exit_code == 2
        assert f"at most {limit} bytes" in refused.stderr
    (frame,) = end.got
    assert (frame.type, frame.dest, frame.group) == (0x42, 2, deployment.network.group)
    assert frame.data == b"\x7e\x7d" + bytes(limit - 2)


# When it does not arrive


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(send_session, "PATIENCE", 0.05)
    monkeypatch.setattr(send_session, "TRIES", 3)


def test_a_packet_is_repeated_unchanged_until_it_is_acknowledged(monkeypatch):
    monkeypatch.setattr(send_session, "PATIENCE", 0.2)
    with gateway(network(), deaf=2) as end:
        done = send(end.text, "report")
    assert done.exit_code == 0, done.stderr
    assert "(3 tries, " in done.stdout
    assert len(end.got) == 3
    assert len(set(end.got)) == 1


def test_a_gateway_that_never_acknowledges_is_a_fault(hasty):
    with gateway(network(), deaf=99) as end:
        done = send(end.text, "report", "--wait", "5", "--json")
    assert done.exit_code == 1
    assert "no acknowledgement within 0.05 s" in done.stderr
    assert len(end.got) == 3
    (told,) = map(json.loads, done.stdout.splitlines())
    assert told["gateways"] == [
        {
            "source": end.text,
            "acknowledged": False,
            "tries": 3,
            "ms": None,
            "error": "no acknowledgement within 0.05 s",
        }
    ]


def test_one_of_two_gateways_is_deaf(hasty):
    with gateway(network()) as end, gateway(network(), deaf=99) as other:
        done = send(end.text, other.text, "report")
    assert done.exit_code == 1
    assert f"the gateway at {end.text} received it" in done.stdout
    assert f"not acknowledged by {other.text} (3 tries)" in done.stdout
    assert end.got[0] == other.got[0]


def test_the_token_of_another_packet_is_no_acknowledgement(hasty):
    class Confused(Socket):
        def write(self, packet):
            super().write(bytes([packet[0], packet[1] ^ 1]) if packet[0] == 0x40 else packet)

    with gateway(network(), Confused) as end:
        done = send(end.text, "report")
    assert done.exit_code == 1


def test_through_a_forwarder_nobody_can_tell(here):
    with gateway(network(2), Forwarder) as end:
        done = send(end.text, "blink", "green", "-d", "two.toml")
        assert done.exit_code == 0, done.stderr
        wrong = send(end.text, "blink", "green")
    assert "which does not say whether the gateway received it" in done.stdout
    assert orders(end)[0].argument == 2
    assert wrong.exit_code == 1


def test_an_order_goes_down_while_a_run_listens():
    """As the full screen sends it: the run reads the line, and reports the acknowledgement."""

    async def scene(end):
        source = open_source(end.text, 0, SourceOptions(network()))
        await source.open()
        live = Orders([source], network())
        runner = Runner(Station(network()), [source], [live])
        running = asyncio.create_task(runner.run())
        told = [await live.send("blink all", 2), await live.send("reboot", 1)]
        runner.stop()
        await running
        return told, await live.send("report", 0)

    with gateway(network()) as end:
        told, late = asyncio.run(asyncio.wait_for(scene(end), 60))
    assert told[0].startswith(f"blink all to mote 2: the gateway at {end.text} received it with the right")
    sent = [(order.target, order.command, order.argument) for order in orders(end)]
    assert sent == [(2, Command.BLINK, 7), (1, Command.REBOOT, 0)]
    assert "report to mote 0: not connected" in late


def test_a_command_of_another_client_is_shown_as_people_type_it():
    for text in ("rate 2", "rate 0", "rate 0.1234", "rate 4e-05", "blink red,yellow", "blink all", "report"):
        (setting,) = settings_of(text.split())
        assert told_message(Dispatch(text, ALL, setting).message(network(), 7), network()) in (
            text,
            f"{text} to all motes",
        )
        one = Dispatch(text, 2, setting).message(network(), 7)
        assert told_message(one, network()) == f"{text} to mote 2"


class Busy(Forwarder):
    """Floods its client, and reads nothing before that has ended its side."""

    waited = False

    def read(self):
        if self._client is not None and not self.waited:
            ended = select.poll()
            ended.register(self._client, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
            while not ended.poll(0):
                self._client.sendall(100 * (b"\x08" + bytes(8)))
            self.waited = True
        return super().read() if self._client is not None else self.greet()

    def greet(self):
        self._client = self._server.accept()[0]
        self.meet(self._client)
        return []


def test_a_forwarder_that_reads_late_still_gets_every_command(here):
    """To close with something unread would reset the connection: it would find nothing to read."""
    with gateway(network(2), Busy) as end:
        done = send(end.text, "-d", "two.toml", "rate", "1", "rate", "2", "blink", "red")
    assert done.exit_code == 0, done.stderr
    assert [order.command for order in orders(end)] == [Command.RATE, Command.RATE, Command.BLINK]
    assert f"{end.text} has read it all" in done.stderr


class Unwilling(Forwarder):
    """Resets the connection instead of reading."""

    def read(self):
        client = self._server.accept()[0]
        self.meet(client)
        client.recv(1, socket.MSG_PEEK)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        raise OSError("gone")


def test_a_forwarder_that_did_not_read_is_a_fault(here):
    with gateway(network(2), Unwilling) as end:
        done = send(end.text, "-d", "two.toml", "report", "blink", "red")
    assert done.exit_code == 1
    assert "--serve-control" in done.stderr or "not connected" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "nothing to send"),
        (["/dev/no-such-port", "report"], 1, "is not there: plug it in"),
        (["foo@bar", "report"], 2, "no kind of source is named 'foo'"),
        (["rate"], 2, "rate needs a value"),
        (["rate", "fast"], 2, "messages a second"),
        (["rate", "1e9"], 2, "a mote takes 0.00003 to 128"),
        (["rate", "inf"], 2, "a mote takes"),
        (["rate", "nan"], 2, "messages a second"),
        (["--", "rate", "-1"], 2, "a mote takes"),
        (["blink", "blue"], 2, "no LED is named 'blue'"),
        (["repot"], 2, "did you mean report"),
        (["report", "sf@x"], 2, "sources come first"),
        (["reboot"], 2, "which motes to reboot?"),
        (["report", "-m", "all", "-m", "3"], 2, "includes every other"),
        (["report", "-m", "65535"], 2, "neither an id"),
        (
            ["rate", "2", "-m", "77"],
            2,
            "rate 2: there is no mote 77; the deployment has 0 to 2, and gateways know only",
        ),
        (["report", "blink", "red", "-m", "8"], 2, "blink red: there is no mote 8"),
        (["--hex", "00"], 2, "--hex needs --type"),
        (["--type", "256"], 2, "not a number from 0 to 255"),
        (["--type", "1", "--hex", "0"], 2, "not in hex"),
        (["--type", "1", "report"], 2, "--type sends no setting"),
        (
            ["simulate@?messages=5", "report"],
            1,
            "Error: simulate@?messages=5: the simulator hears nothing that is sent; the motes of testbed@ do",
        ),
        (["network@127.0.0.1:1", "report"], 1, "refused"),
        (["report", "-d", "missing.toml"], 1, "missing.toml"),
    ],
)
def test_what_is_wrong_is_said(words, code, said):
    done = send(*words)
    assert done.exit_code == code
    assert said in " ".join(done.stderr.split())


def test_settings_are_read_in_the_order_given():
    found = settings_of(["report", "rate", "2", "reboot"])
    assert [(s.text, s.argument) for s in found] == [("report", 0), ("rate 2", 16384), ("reboot", 0)]
    with pytest.raises(OrderError):
        settings_of(["rate", "report"])


# Answers


def test_reports_are_waited_for_until_all_are_there():
    with gateway(network()) as end:
        done = send(end.text, "report", "--wait", "20")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "mote 1 answers: boot 4, in sync, 1 hop from the root, 2.98 V" in lines
    assert not done.stderr.count("only their answers")


def test_who_does_not_answer_is_named():
    with gateway(network()) as end:
        end.reached = {1, 3}
        done = send(end.text, "report", "--wait", "0.5", "--json")
    assert done.exit_code == 1
    assert "no answer within 0.5 s: motes 0, 2" in done.stderr
    (told,) = map(json.loads, done.stdout.splitlines())
    assert [answer["mote"] for answer in told["answers"]] == [1, 3]
    assert told["missing"] == [0, 2]


def test_a_mote_of_another_layout_is_told():
    with gateway(network()) as end:
        end.health = lambda node, make=end.health: replace(make(node), layout=0x1234)
        done = send(end.text, "report", "--wait", "20", "-m", "2")
    assert (
        f"built for another deployment (layout 00001234, ours {layout_of(network()).hash:08x})" in done.stdout
    )


def test_a_reboot_is_seen_by_the_boot_count():
    with gateway(network()) as end:
        done = send(end.text, "reboot", "--mote", "1", "--wait", "20")
    assert done.exit_code == 0, done.stderr
    assert "mote 1 has started again: boot 5" in done.stdout
    assert [order.command for order in orders(end)] == [Command.REPORT, Command.REBOOT]
    assert len({order.sequence for order in orders(end)}) == 2


def test_a_reboot_that_did_not_happen_is_not_seen():
    with gateway(network()) as end:
        end.boots = {0: 4, 1: 4, 2: 4, 3: 4}
        real = end._obey
        end._obey = lambda order: real(replace(order, command=Command.REPORT))
        done = send(end.text, "reboot", "--mote", "1", "--wait", "0.5")
    assert done.exit_code == 1
    assert "no reboot seen within 0.5 s: mote 1" in done.stderr
    assert "before the reboot either" not in done.stderr


def test_data_messages_show_a_reboot_too():
    with gateway(network()) as end:

        def obey(order):
            data = Data(2, 0, (0, 0), boot=3 if order.command == Command.REPORT else 4, data=bytes(4))
            end.put_heard(encode_message(data, end.layout))

        end._obey = obey
        done = send(end.text, "reboot", "--mote", "2", "--wait", "20")
    assert done.exit_code == 0, done.stderr
    assert "mote 2 has started again" in done.stdout


def test_a_setting_without_an_answer_is_not_waited_for():
    with gateway(network()) as end:
        done = send(end.text, "blink", "red", "--wait", "60")
    assert done.exit_code == 0
    assert "motes do not answer this" in done.stderr


@pytest.mark.parametrize(
    ("sources", "motes"),
    [
        (["testbed@?motes=2"], 2),
        (["testbed@"], 3),
        (["testbed@many.toml?motes=9"], 3),
        (["testbed@?motes=1", "testbed@?motes=2"], 2),
        (["testbed@?motes=2", "sf@localhost"], 3),
    ],
)
def test_only_motes_that_a_testbed_runs_are_waited_for(sources, motes):
    assert motes_there(sources, network()) == motes


@pytest.mark.usefixtures("testbed", "platformio")
def test_the_real_firmware(root):
    """Motes under the emulator: one reports, one starts again."""
    path = root / "examples" / "micaz.toml"
    done = send(
        *("testbed@?motes=3&seed=3&rate=1&pace=3", "-d", path),
        *("report", "reboot", "--mote", "1", "--wait", "20", "--json"),
    )
    assert done.exit_code == 0, done.stderr
    report, reboot = map(json.loads, done.stdout.splitlines())
    assert report["gateways"][0]["acknowledged"] is reboot["gateways"][0]["acknowledged"] is True
    (answer,) = report["answers"]
    assert (answer["mote"], answer["health"]["layout"]) == (1, layout_of(load(path)).hash)
    assert reboot["missing"] == []
