"""Settings that views send to motes while a run reads the lines."""

from __future__ import annotations

import asyncio

import pytest

from basestation.live import downlink
from basestation.live.commands import OrderError
from basestation.live.downlink import Orders
from basestation.live.happenings import Acknowledged
from basestation.sources.base import SourceError
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.records import Command, Downlink
from packet_formats.seal import Seal, command_time
from packet_formats.tinyos import ActiveMessage, decode_packet
from tests.live.test_guard import deployment as guarded
from tests.live.test_runner import FakeSource
from tests.live.world import deployment

SETUP = deployment()


class Line(FakeSource):
    """A line whose gateway acknowledges from the second packet on."""

    acknowledges = True

    def begin(self, commands: Orders) -> None:
        self.sent: list[ActiveMessage] = []
        self.commands = commands

    async def send(self, packet: bytes) -> None:
        frame = decode_packet(packet)
        assert isinstance(frame, ActiveMessage)
        self.sent.append(frame)
        if len(self.sent) > 1:
            assert frame.token is not None
            self.commands.take(Acknowledged(0, 0, 0, frame.token))


def test_a_setting_goes_down_until_it_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downlink, "PATIENCE", 0.01)
    line = Line([])
    commands = Orders([line], SETUP)
    line.begin(commands)
    told = asyncio.run(commands.send("blink red,green", 2))
    assert told.startswith(
        "blink red,green to mote 2: the gateway at fake@ received it with the right check sum (2 tries"
    )
    assert len(line.sent) == 2
    record = decode_message(line.sent[0], layout_of(SETUP))
    assert isinstance(record, Downlink)
    assert (record.target, record.command, record.argument) == (2, Command.BLINK, 3)


def test_what_went_wrong_is_said() -> None:
    class Broken(FakeSource):
        async def send(self, packet: bytes) -> None:
            raise SourceError("fake@: unplugged")

    told = asyncio.run(Orders([Broken([])], SETUP).send("report", 1))
    assert told == "report to mote 1: unplugged"


@pytest.mark.parametrize("text", ["", "explode", "blink", "report reboot", "rate x"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(OrderError):
        asyncio.run(Orders([FakeSource([])], SETUP).send(text, 1))


def test_with_a_key_a_setting_is_sealed_by_the_networks_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downlink, "PATIENCE", 0.01)
    network, line = guarded(), Line([])
    with pytest.raises(OrderError, match="the network's time is not known yet"):
        asyncio.run(Orders([line], network).send("report", 2))
    commands = Orders([line], network, lambda mono_ns: (7, 1_000_000))
    line.begin(commands)
    for _ in range(2):
        asyncio.run(commands.send("blink red", 2))
    assert network.key is not None
    layout = layout_of(network)
    seal, numbers = Seal(network.key, layout), []
    for frame in line.sent:
        record = decode_message(frame, layout)
        assert isinstance(record, Downlink)
        number = command_time(1_000_000) & ~0xFFFF | record.sequence
        assert seal.downlink(frame.data, 2, 7, number) == record.mic
        numbers.append(record.sequence)
    assert numbers[-1] == numbers[0] + 1  # each has a number of its own, if they are made at the same time
