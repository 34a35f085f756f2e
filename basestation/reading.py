"""Messages for a program, in causal order: live from a gateway, or of a log.

    import basestation

    for message in basestation.listen("serial@/dev/ttyUSB1", "site.toml"):
        print(message.name, message.values, message.held_ms)

What the commands print on standard error (notes and alarms) goes to the logger `basestation`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from basestation.journal.reader import read_journal
from basestation.journal.record_format import JournalError
from basestation.live.deciding import station_of
from basestation.live.happenings import Alarm, Delivered, Happening, Note
from basestation.live.run_log import open_log
from basestation.live.runner import Player, Runner, Stage
from basestation.live.station import Station
from basestation.sources import SourceError, SourceOptions, open_source
from packet_formats import deployment as deployments
from packet_formats import keys
from packet_formats.deployment import Deployment, DeploymentError
from packet_formats.layout import layout_of
from packet_formats.phrases import many
from packet_formats.values import values_in

LOGGER = logging.getLogger("basestation")
WAITING = 1024  # messages of a recording that are read ahead; messages of a live network all wait in memory
STOP_LOOK_SECONDS = 0.05

Messages = Generator["Message", None, None]


class BasestationError(Exception):
    """A deployment, a source, a key or a log that cannot be used. The message says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the base station delivers it: after its causes, and before its effects."""

    name: str
    """`7#12` is message 12 of mote 7. If the mote's memory was erased, its messages count from 0 again."""
    mote: int
    sequence: int
    values: dict[str, float | None]
    """The values that `[[data]]` of the deployment names; None where the sensor gave no reading."""
    data: bytes
    """The application's bytes as the mote sent them."""
    delivered: datetime
    """When the base station delivered the message, by the host's clock, in UTC."""
    held_ms: float
    """How long the message waited here for earlier ones."""
    late: bool
    """The message came after its deadline, so an effect of it may have been delivered before."""


def listen(
    source: str | Sequence[str],
    deployment: str | Path,
    *,
    log: str | Path | None = None,
    seconds: float | None = None,
) -> Messages:
    """The messages of a network, live, until its sources end, or for some seconds.

    `source` is as in `basestation listen`, such as `serial@/dev/ttyUSB1`; several are gateways of one network. A key
    lies beside the deployment's file. Frames are logged only if `log` names a folder: each run gets a folder inside it,
    as `basestation listen --log` makes it.

    Bad input raises `BasestationError`. The sources are read in a thread of their own, so a slow program delays no
    message. Leaving the loop, closing the iterator, or Ctrl-C closes sources and log.
    """
    described = _described(Path(deployment))
    texts = [source] if isinstance(source, str) else list(source)
    options = SourceOptions(deployment=described, say=LOGGER.warning)
    try:
        sources = [open_source(text, gateway, options) for gateway, text in enumerate(texts)]
    except SourceError as error:
        raise BasestationError(str(error)) from None

    async def run(sink: _Handover) -> None:
        station = Station(described)
        with contextlib.ExitStack() as stack:
            folder = None if log is None else Path(log)
            kept = (
                open_log(stack, station, sources, folder, "interval", None, LOGGER.info) if folder else None
            )
            runner = Runner(station, sources, [sink], kept, folder)
            sink.stop_by(runner)
            await runner.run(seconds)
        if runner.unlogged or runner.unsynced:
            lost = f"{many(runner.unlogged, 'record')} not written" if runner.unlogged else runner.unsynced
            raise BasestationError(f"the log in {folder} is not complete: {lost}")

    return _handed_over(run, described, 0 if any(one.live for one in sources) else WAITING)


def replay(log: str | Path, deployment: str | Path | None = None) -> Messages:
    """The messages of a log, by the policy and in the order of the run that made it.

    `log` is a run's folder, or a folder that holds one run. A `deployment` takes the place of the one in the log; the
    key of a network with MICs lies beside its file. Without the key MICs are not checked. Bad input raises
    `BasestationError`.
    """
    try:
        journal = read_journal(Path(log))
        described = journal.deployment if deployment is None else _described(Path(deployment))
        station = station_of(journal, described)
    except (JournalError, DeploymentError, ValueError) as error:
        raise BasestationError(str(error)) from None

    async def run(sink: _Handover) -> None:
        steps = journal.steps(lambda fault: LOGGER.warning(str(fault)), described)
        player = Player(station, steps, [sink])
        sink.stop_by(player)
        await player.run()

    return _handed_over(run, described, WAITING)


def _described(path: Path) -> Deployment:
    try:
        return keys.with_key(deployments.load(path), path, None)
    except OSError as error:
        raise BasestationError(f"{path}: {error.strerror or error}") from None
    except keys.KeyFault as error:
        raise BasestationError(str(error)) from None
    except DeploymentError as error:
        raise BasestationError(f"{path}: {error}") from None


class _Handover:
    """A sink in the thread of the run. It hands messages to the thread of the program, and notes to the logger."""

    def __init__(self, deployment: Deployment, hand: Callable[[Message], None]) -> None:
        self._layout, self._hand = layout_of(deployment), hand
        self._stop: Callable[[], object] = lambda: None
        self._asked = False

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered):
            self._hand(self._message(happening))
        elif isinstance(happening, Note | Alarm):
            LOGGER.warning(happening.text)

    def close(self) -> None:
        pass

    def stop_by(self, stage: Stage) -> None:
        """Call `stage.stop` when the program asks to stop, or has asked already."""
        loop = asyncio.get_running_loop()
        self._stop = partial(loop.call_soon_threadsafe, stage.stop)
        if self._asked:
            stage.stop()

    def stop(self) -> None:
        """From the program's thread."""
        self._asked = True
        with contextlib.suppress(RuntimeError):  # the run is over
            self._stop()

    def _message(self, delivered: Delivered) -> Message:
        name, data = delivered.name, delivered.data.data
        return Message(
            name=str(name),
            mote=name.source,
            sequence=name.sequence,
            values=values_in(self._layout, data),
            data=data,
            delivered=datetime.fromtimestamp(delivered.wall_ns / 1e9, UTC),
            held_ms=delivered.held_ms,
            late=delivered.late,
        )


def _handed_over(
    run: Callable[[_Handover], Coroutine[Any, Any, None]], deployment: Deployment, most: int
) -> Messages:
    """Run in a thread, and give the messages from there: at most `most` of them wait, 0 for any number."""
    waiting: Queue[Message | None] = Queue(most)
    sink = _Handover(deployment, waiting.put)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(run(sink))
        except (SourceError, JournalError, OSError) as error:
            faults.append(BasestationError(str(error)))
        except BaseException as error:  # passed on to the program
            faults.append(error)
        finally:
            waiting.put(None)

    def end() -> None:
        sink.stop()
        while thread.is_alive():
            with contextlib.suppress(Empty):
                waiting.get(timeout=STOP_LOOK_SECONDS)  # the run delivers more messages at its end
        thread.join()

    thread = Thread(target=work, name="basestation", daemon=True)
    thread.start()
    atexit.register(end)  # for a program that ends without leaving its loop
    try:
        while (message := waiting.get()) is not None:
            yield message
    finally:
        atexit.unregister(end)
        end()
    if faults:
        raise faults[0]
