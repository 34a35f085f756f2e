"""The client's side of the serial forwarder protocol, byte by byte."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from basestation.sources import SourceError, open_source, sf
from packet_formats.deployment import load
from packet_formats.framing import FrameCounters
from tests.sources.ends import QUICK, accounted, message

# A message of each version as the protocol carries it, and as a packet.
ONE = bytes.fromhex("09 ffff 04 7d 04 04000100")
TWO = bytes.fromhex("0a 00 ffff 0001 02 22 06 0001")
PACKET_ONE, PACKET_TWO = b"\x42" + ONE[1:], b"\x45" + TWO[1:]


class Script:
    """A server that follows a transcript: what it sends, what it must then receive, and so on."""

    def __init__(self, *steps: tuple[str, str]) -> None:
        self.steps = steps
        self.done = asyncio.Event()
        self.seen: list[bytes] = []
        self.visits = 0
        self.writers = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)

    async def _meet(self, reader, writer):
        self.visits += 1
        self.writers.append(writer)
        try:
            for verb, text in self.steps:
                if verb == "waits":
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), float(text))
                    continue
                raw = bytes.fromhex(text)
                if verb == "sends":
                    writer.write(raw)
                else:
                    got = await reader.readexactly(len(raw))
                    self.seen.append(got)
                    if got != raw:
                        return
            self.done.set()
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()


def talk(script: Script, *, text: str = "sf@127.0.0.1:{}", options=QUICK, sending=(), expect=()):
    async def scene():
        async with script:
            source = open_source(text.format(script.port), 0, options)
            lines = source.lines()
            await source.open()
            for packet in sending:
                await source.send(packet)
            for packet in expect:
                assert (await anext(lines)).packet == packet
            await asyncio.wait_for(script.done.wait(), 5)
            await source.close()

    asyncio.run(asyncio.wait_for(scene(), 20))


def test_transcript_of_2x():
    script = Script(
        ("sends", "55 20"), ("gets", "55 20"), ("sends", TWO.hex()), ("gets", TWO.hex()), ("sends", TWO.hex())
    )
    talk(script, sending=[PACKET_TWO], expect=[PACKET_TWO, PACKET_TWO])


def test_transcript_of_1x(root):
    script = Script(
        ("sends", "54 21"),
        ("gets", "54 21 01 00 00 00"),
        ("sends", "03 00 00 00" + ONE.hex()),
        ("gets", ONE.hex()),
    )
    options = replace(QUICK, deployment=load(root / "examples" / "mica2.toml"))
    talk(script, options=options, sending=[PACKET_ONE], expect=[PACKET_ONE])


def test_older_and_newer_forms_of_the_greeting():
    talk(Script(("sends", "54 20"), ("gets", "54 21"), ("sends", ONE.hex())), expect=[PACKET_ONE])
    talk(Script(("sends", "55 54"), ("gets", "55 20"), ("sends", TWO.hex())), expect=[PACKET_TWO])


def test_a_greeting_in_pieces_with_the_first_message_behind_it():
    script = Script(("sends", "54"), ("waits", "0.05"), ("sends", "21"), ("waits", "0.05"))
    script.steps += (("sends", "0300"), ("waits", "0.05"), ("sends", "0000" + ONE.hex() * 3))
    talk(script, expect=[PACKET_ONE] * 3)


def test_a_token_is_left_out_since_the_forwarder_has_its_own():
    script = Script(("sends", "55 20"), ("gets", "55 20"), ("gets", TWO.hex()))
    talk(script, sending=[b"\x44\x07" + TWO[1:]])


def test_a_server_that_waits_is_greeted_as_its_port_suggests(monkeypatch):
    monkeypatch.setattr(sf, "SILENCE_SECONDS", 0.1)
    talk(Script(("gets", "55 20"), ("sends", "55 20" + TWO.hex())), expect=[PACKET_TWO])


def test_a_server_that_waits_for_the_other_version_is_greeted_again(monkeypatch):
    monkeypatch.setattr(sf, "SILENCE_SECONDS", 0.1)
    script = Script(("gets", "54 21"), ("sends", "54 21 03 00 00 00" + ONE.hex()))
    talk(script, expect=[PACKET_ONE])
    assert (script.visits, script.seen) == (2, [b"U ", b"T!"])


def test_a_version_that_was_said_is_kept_to():
    async def scene():
        async with Script(("sends", "54 21"), ("waits", "1")) as script:
            with pytest.raises(SourceError, match="it speaks TinyOS 1, not 2"):
                await open_source(f"sf@127.0.0.1:{script.port}?tinyos=2", 0, QUICK).open()

    asyncio.run(scene())


@pytest.mark.parametrize("greeting", ["48 54 54 50", "55 19", "00 00"])
def test_another_server_is_recognised(greeting):
    async def scene():
        async with Script(("sends", greeting), ("waits", "1")) as script:
            with pytest.raises(SourceError, match="not a serial forwarder that we understand: greeted with"):
                await open_source(f"sf@127.0.0.1:{script.port}", 0, QUICK).open()

    asyncio.run(scene())


def test_a_server_that_says_nothing_at_all(monkeypatch):
    monkeypatch.setattr(sf, "SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(sf, "HELLO_SECONDS", 0.2)

    async def scene():
        async with Script(("waits", "5")) as script:
            with pytest.raises(SourceError, match="sent no greeting within"):
                await open_source(f"sf@127.0.0.1:{script.port}", 0, QUICK).open()

    asyncio.run(scene())


@pytest.mark.parametrize(("host", "hints"), [("192.0.2.1", True), ("localhost", False), ("127.0.0.1", False)])
def test_a_machine_elsewhere_that_refuses_may_serve_itself_alone(host, hints, monkeypatch):
    async def scene():
        async def refused(*_):
            raise ConnectionRefusedError

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refused)
        with pytest.raises(SourceError, match="nothing listens on port 9001") as caught:
            await open_source(f"sf@{host}:9001", 0, QUICK).open()
        assert (f"--serve {host}:9001" in str(caught.value)) is hints

    asyncio.run(scene())


def test_a_message_of_the_other_version_is_not_sent():
    async def scene():
        async with Script(("sends", "55 20"), ("gets", "55 20")) as script:
            source = open_source(f"sf@127.0.0.1:{script.port}", 0, QUICK)
            await source.open()
            with pytest.raises(SourceError, match="takes only messages of TinyOS 2"):
                await source.send(message(1, 1))
            await source.close()

    asyncio.run(scene())


def test_every_byte_of_every_cut_is_counted():
    stream = TWO * 3 + b"\x00" + TWO + TWO[:4]
    for size in range(1, len(stream)):
        counters = FrameCounters()
        wire = sf.ForwarderWire(2, counters)
        packets = [p for at in range(0, len(stream), size) for p in wire.feed(stream[at : at + size])]
        wire.end()
        assert packets == [PACKET_TWO] * 4
        assert (counters.fed, counters.frames, counters.flags) == (len(stream), 4, 5)
        assert counters.partial.bytes == 4
        assert accounted(type("Source", (), {"counters": counters}))


@pytest.mark.parametrize(("tinyos", "port"), [(1, 9001), (2, 9002)])
def test_the_port_is_that_of_the_deployments_tinyos(root, monkeypatch, tinyos, port):
    """As `listen --serve` of the same deployment takes it."""

    async def dial(text, host, port, hint):
        raise SourceError(f"{host}:{port}")

    monkeypatch.setattr(sf, "dial", dial)
    theirs = load(root / "examples/micaz.toml")
    theirs = replace(theirs, network=replace(theirs.network, tinyos=tinyos))
    source = open_source("sf@field", options=replace(QUICK, deployment=theirs))
    with pytest.raises(SourceError, match=f"^field:{port}$"):
        asyncio.run(source.open())
