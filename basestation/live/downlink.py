"""Speaking to gateways: a packet down each line, its acknowledgement, and what comes up meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from basestation.arrivals import Arrival
from basestation.live.commands import Envelopes, NetworkTime, OrderError, name_of, set_order, settings_of
from basestation.live.happenings import Acknowledged, Happening
from basestation.live.timeline import PacketReader, Timeline
from basestation.sources.base import Finishing, Source, SourceError
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout
from packet_formats.messages import Data, Message, Unknown
from packet_formats.phrases import many
from packet_formats.records import Health
from packet_formats.tinyos import Ack, ActiveMessage, encode_packet

MOST_HEARD = 4096  # messages that were not taken yet
PATIENCE, TRIES = 1.0, 5  # seconds for an acknowledgement, and how often


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a packet on one line. An acknowledgement says that its check sum was right, and no more."""

    source: str
    acknowledged: bool | None  # None: this source has no acknowledgements, as a serial forwarder
    tries: int
    ms: float | None = None
    error: str | None = None


def told(receipt: Receipt) -> str:
    """A receipt in words."""
    tries = many(receipt.tries, "try", "tries")
    if receipt.acknowledged is None:
        return f"handed to {receipt.source}, which does not say whether the gateway received it"
    if receipt.acknowledged:
        return f"the gateway at {receipt.source} received it with the right check sum ({tries}, {receipt.ms:.0f} ms)"
    return f"not acknowledged by {receipt.source} ({tries})"


class Dispatcher:
    """Sends packets down lines. The reader of the lines calls `acknowledged` for each acknowledgement."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._acks: dict[tuple[int, int], asyncio.Event] = {}
        self.unsure: set[str] = set()  # lines on which something was sent that nobody acknowledges

    def acknowledged(self, gateway: int, token: int) -> None:
        if (gateway, token) in self._acks:
            self._acks[gateway, token].set()

    async def send(
        self, message: ActiveMessage, token: int, patience: float, tries: int
    ) -> tuple[Receipt, ...]:
        """The message down every line, again and again until its acknowledgement comes."""
        packet = encode_packet(replace(message, kind="data-ack", token=token))
        sent = [self._send(gateway, packet, token, patience, tries) for gateway in range(len(self._sources))]
        return tuple(await asyncio.gather(*sent))

    async def _send(self, gateway: int, packet: bytes, token: int, patience: float, tries: int) -> Receipt:
        source = self._sources[gateway]
        seen = self._acks[gateway, token] = asyncio.Event()
        for attempt in range(1, tries + 1):
            began = time.monotonic()
            try:
                await source.send(packet)
            except SourceError as error:
                reason = str(error).removeprefix(f"{source.text}: ")  # the receipt names the source itself
                return Receipt(source.text, False, attempt, error=reason)
            if not source.acknowledges:
                self.unsure.add(source.text)
                return Receipt(source.text, None, attempt)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(seen.wait(), patience)
                return Receipt(source.text, True, attempt, (time.monotonic() - began) * 1000)
        return Receipt(source.text, False, tries, error=f"no acknowledgement within {patience:g} s")


class Orders:
    """Settings for motes while a run goes on: a sink, since the run reads the acknowledgements."""

    def __init__(
        self,
        sources: Sequence[Source],
        deployment: Deployment,
        network_time: Callable[[int], NetworkTime | None] = lambda mono_ns: None,
    ) -> None:
        """`network_time` returns the network's time at a time of the host: a network with a key needs it."""
        self._dispatcher, self._deployment = Dispatcher(sources), deployment
        self._envelopes, self._network_time = Envelopes(deployment), network_time

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Acknowledged):
            self._dispatcher.acknowledged(happening.gateway, happening.token)

    def close(self) -> None:
        pass

    async def send(self, words: str, mote: int) -> str:
        """Send a setting, such as `blink red`, to a mote; what became of it, in words. `OrderError` if it is none."""
        settings = settings_of(words.split())
        if len(settings) != 1:
            raise OrderError("say one setting, such as report, blink red, reboot or rate 0.5")
        order = set_order(settings[0], mote, self._deployment.network.hops)
        number, message = self._envelopes.make(order, self._network_time(time.monotonic_ns()))
        receipts = await self._dispatcher.send(message, number % 256, PATIENCE, TRIES)
        what = f"{order.text} to {name_of(mote, self._deployment)}"
        return f"{what}: " + "; ".join(receipt.error or told(receipt) for receipt in receipts)


class Talk:
    """Lines that are read all the time, so that an acknowledgement is seen when it comes."""

    def __init__(
        self, sources: Sequence[Source], layout: DataLayout, deployment: Deployment | None = None
    ) -> None:
        """`deployment`: if it has a key, what comes is checked, and the network's time is kept."""
        self._sources, self._reader = sources, PacketReader(layout)
        guarded = deployment is not None and deployment.key is not None
        self._timeline = Timeline(deployment) if deployment is not None and guarded else None
        self._dispatcher = Dispatcher(sources)
        self.send, self.acknowledged = self._dispatcher.send, self._dispatcher.acknowledged
        self._heard: asyncio.Queue[Message] = asyncio.Queue(MOST_HEARD)
        self._pumps: list[asyncio.Task[None]] = []
        self._time_known = asyncio.Event()

    def _network_time(self) -> NetworkTime | None:
        return self._timeline.network_time(time.monotonic_ns()) if self._timeline else None

    async def network_time(self, seconds: float) -> NetworkTime | None:
        """The network's time, for which it waits at most `seconds`; None if that stays unknown."""
        if self._timeline is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._time_known.wait(), seconds)
        return self._network_time()

    async def __aenter__(self) -> Talk:
        try:
            for source in self._sources:
                await source.open()
        except BaseException:
            await self._close()
            raise
        self._pumps = [asyncio.create_task(self._pump(*each)) for each in enumerate(self._sources)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def finish(self) -> dict[str, bool]:
        """Of each line without acknowledgements on which something was sent: whether the other end has read it all."""
        unsure = self._dispatcher.unsure
        silent = [one for one in self._sources if one.text in unsure and isinstance(one, Finishing)]
        return {one.text: await one.finish() for one in silent}

    async def _close(self) -> None:
        for source in self._sources:
            await source.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def heard(self, seconds: float) -> AsyncIterator[Message]:
        """What has come since the last call, then what comes within `seconds`."""
        with contextlib.suppress(TimeoutError):
            end = asyncio.get_running_loop().time() + seconds
            while True:
                async with asyncio.timeout_at(end):
                    message = await self._heard.get()
                yield message

    def forget(self) -> None:
        """Drop what has come so far."""
        while not self._heard.empty():
            self._heard.get_nowait()

    async def _pump(self, gateway: int, source: Source) -> None:
        async for line in source.lines():
            if isinstance(line, Arrival):
                self._take(gateway, line.packet, line.mono_ns)

    def _take(self, gateway: int, packet: bytes, mono_ns: int = 0) -> None:
        frame, message, _ = self._reader.read(packet)
        if self._timeline is not None:
            self._timeline.advance(mono_ns)
            read = self._timeline.read(Arrival(gateway, mono_ns, mono_ns, packet))
            if not read.verdict.is_let_in:
                return
            if self._network_time() is not None:
                self._time_known.set()
        if isinstance(frame, Ack):
            self.acknowledged(gateway, frame.token)
        if message is None or isinstance(message, Unknown):
            return
        if self._heard.full():
            self._heard.get_nowait()  # whoever listens takes the newest: a line that floods must not fill the memory
        self._heard.put_nowait(message)


class Reports:
    """Who of those asked has sent a health message; if all were, a gateway's is an answer too."""

    def __init__(self, asked: Iterable[int], of_all: bool = True) -> None:
        self.missing = set(asked)
        self._only = None if of_all else frozenset(self.missing)
        self.answers: dict[int, Health] = {}

    def take(self, message: Message) -> int | None:
        """The mote that this message is an answer of, if it is one."""
        if not isinstance(message, Health) or (self._only and message.source not in self._only):
            return None
        known = message.source in self.answers
        self.answers[message.source] = message
        self.missing.discard(message.source)
        return None if known else message.source


class Reboots:
    """Who of those asked has another boot count than at first sight. Data messages have its last three bits."""

    def __init__(self, asked: Iterable[int]) -> None:
        self.missing = set(asked)
        self.unknown = set(asked)  # whose count before the reboot has not been seen
        self.answers: dict[int, Health | None] = {}
        self._boots: dict[int, int] = {}

    def take(self, message: Message) -> int | None:
        if not isinstance(message, Health | Data):
            return None
        mote = message.source
        boot = (message.boots if isinstance(message, Health) else message.boot) % 8
        if mote not in self.missing or self._boots.setdefault(mote, boot) == boot:
            self.unknown.discard(mote)
            return None
        self.missing.discard(mote)
        self.answers[mote] = message if isinstance(message, Health) else None
        return mote
