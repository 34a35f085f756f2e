"""Settings that the page sends to motes while somebody else reads the lines."""

from __future__ import annotations

import asyncio

import pytest
from basestation.web.control import MoteCommands

from basestation.live.commands import OrderError
from basestation.live.happenings import Acknowledged
from basestation.sources.base import SourceError
from basestation.web import control
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.records import Command, Downlink
from packet_formats.tinyos import ActiveMessage, decode_packet
from tests.live.test_runner import FakeSource
from tests.live.world import deployment

SETUP = deployment()


class Line(FakeSource):
    """A line whose gateway acknowledges from the second packet on."""

    acknowledges = True

    def begin(self, commands: MoteCommands) -> None:
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
    monkeypatch.setattr(control, "PATIENCE", 0.01)
    line = Line([])
    commands = MoteCommands([line], SETUP)
    line.begin(commands)
    told = asyncio.run(commands.send(2, "blink red,green"))
    assert told == "blink red,green to mote 2: the gateway at fake@ has it."
    assert len(line.sent) == 2
    record = decode_message(line.sent[0], layout_of(SETUP))
    assert isinstance(record, Downlink)
    assert (record.target, record.command, record.argument) == (2, Command.BLINK, 3)


def test_what_went_wrong_is_said() -> None:
    class Broken(FakeSource):
        async def send(self, packet: bytes) -> None:
            raise SourceError("fake@: unplugged")

    told = asyncio.run(MoteCommands([Broken([])], SETUP).send(1, "report"))
    assert told == "report to mote 1: fake@: unplugged."


@pytest.mark.parametrize("text", ["", "explode", "blink", "report reboot", "rate x"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(OrderError):
        asyncio.run(MoteCommands([FakeSource([])], SETUP).send(1, text))
