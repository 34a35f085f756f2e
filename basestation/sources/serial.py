"""`serial@PORT[:BAUD-or-platform]`: a gateway's UART, by pyserial."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

import serial

from basestation.sources import attached_ports
from basestation.sources.base import Source, SourceError, SourceOptions, Spec
from basestation.sources.inbox import Inbox, LineLost, Moment, TimedBytes, now, stamped
from basestation.sources.line import Connection, FrameWire, LineSource
from packet_formats.boards import BOARDS, DEFAULT_BOARD, GENERIC
from packet_formats.framing import FrameCounters
from packet_formats.phrases import did_you_mean

# By platform: the boards that have our firmware, and others whose gateways can be listened to.
_OURS = {name: board.baud for name, board in BOARDS.items()}
BAUD = (
    _OURS
    | {
        "mica": 19200,
        "mica2dot": 19200,
        "iris": 57600,
        "telos": 115200,
        "telosb": 115200,
        "tmote": 115200,
    }
    | _OURS
)  # a board that has a row is what its row says
MOST_DIGITS = 8  # of a speed: no UART is faster
CHUNK = 4096
CHUNKS_AHEAD = 32  # read ahead; beyond that the kernel's buffer fills
WAIT_SECONDS = 0.2  # between two looks at whether to stop
SEND_SECONDS = 1.0
GONE = "the port is gone: unplugged, or another program uses it"


def make(spec: Spec, gateway: int, options: SourceOptions) -> Source:
    spec.known()
    device, baud = _device_and_baud(spec, options)
    opener = _Opener(spec.text, device, baud)

    async def connect(counters: FrameCounters) -> Connection:
        port = await asyncio.to_thread(opener.open)
        return Connection(SerialLink(port), FrameWire(counters))

    return LineSource(spec.text, gateway, connect, options)


def _device_and_baud(spec: Spec, options: SourceOptions) -> tuple[str, int]:
    """Split PORT[:SPEED]. A port's name may hold colons: the last part is a speed only if it looks like one."""
    board = options.deployment.network.board if options.deployment else DEFAULT_BOARD.name
    device, colon, speed = spec.where.rpartition(":")
    if not colon or not speed.isalnum() or os.path.exists(spec.where):
        device, speed = spec.where, board
    if not device:
        raise spec.misused(
            "should name a port, as in serial@/dev/ttyUSB1:micaz; `basestation ports` lists them"
        )
    if speed.isdecimal() and len(speed) <= MOST_DIGITS and int(speed) > 0:
        return device, int(speed)
    if speed == GENERIC:
        raise spec.misused(
            "needs the speed of your gateway, as in serial@/dev/ttyUSB1:115200: the board is generic"
        )
    if speed not in BAUD:
        hint = did_you_mean(speed, BAUD) or f"; known: {', '.join(BAUD)}"
        raise spec.misused(f"{speed!r} is neither a speed nor a platform{hint}")
    return device, BAUD[speed]


class _Opener:
    """Opens the port, and finds it again if it comes back under another name."""

    def __init__(self, text: str, device: str, baud: int) -> None:
        self._text, self._device, self._baud = text, device, baud
        self._identity: attached_ports.Identity | None = None

    def open(self) -> serial.Serial:
        device = self._place()
        try:
            port = serial.Serial(
                device, self._baud, timeout=WAIT_SECONDS, write_timeout=SEND_SECONDS, exclusive=True
            )
        except ValueError:
            raise SourceError(f"{self._text}: the port does not support {self._baud} baud") from None
        except OSError as error:
            raise SourceError(f"{self._text}: {_why(device, error)}") from None
        with contextlib.suppress(AttributeError, NotImplementedError, ValueError):
            port.set_low_latency_mode(True)  # else an FTDI chip keeps bytes back for up to 16 ms
        if self._identity is None:
            self._identity = attached_ports.identity_of(device)
        return port

    def _place(self) -> str:
        """The device name to open. The old name may belong to another board by now."""
        if self._identity is None:
            return self._device
        device = attached_ports.device_of(self._identity)
        if device is None:
            raise SourceError(f"{self._text}: the board {self._identity.serial_number} is not plugged in")
        return device


def _why(device: str, error: OSError) -> str:
    if error.errno is not None:
        return attached_ports.explain(device, error).text
    trouble = attached_ports.trouble_with(device)  # pyserial keeps some reasons to itself
    return trouble.text if trouble else str(error)


class SerialLink:
    """A link to a serial port. A thread reads and stamps the bytes, so that the port never blocks the event loop."""

    def __init__(self, port: serial.Serial) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        self._since: Moment | None = None  # from when on what comes may have waited for us
        self._stop = threading.Event()
        self._sending = asyncio.Lock()
        self._thread = threading.Thread(target=self._read, name=f"reads {port.name}", daemon=True)
        self._thread.start()

    async def receive(self) -> TimedBytes:
        chunk = await self._inbox.get()
        self._room.release()
        return chunk

    async def send(self, data: bytes) -> None:
        async with self._sending:
            try:
                await asyncio.to_thread(self._port.write, data)
            except serial.SerialTimeoutException:
                raise LineLost("the port accepts no data") from None
            except (OSError, TypeError):  # TypeError: closed under way
                raise LineLost(GONE) from None

    async def close(self) -> None:
        self._stop.set()
        with contextlib.suppress(OSError, AttributeError, TypeError):  # nothing to interrupt
            self._port.cancel_read()
        await asyncio.to_thread(self._thread.join)
        with contextlib.suppress(OSError):
            self._port.close()
        self._inbox.end("closed")

    def _read(self) -> None:
        reason = "closed"
        try:
            while not self._stop.is_set():
                if self._has_room():
                    self._take()
        except (OSError, TypeError):  # pyserial's words for it are a riddle
            reason = GONE
        with contextlib.suppress(RuntimeError):  # the loop has ended before us
            self._loop.call_soon_threadsafe(self._inbox.end, reason)

    def _has_room(self) -> bool:
        if self._room.acquire(blocking=False):
            return True
        self._since = self._since or now()
        return self._room.acquire(timeout=WAIT_SECONDS)

    def _take(self) -> None:
        """Read what has come, and at least a byte unless none comes for a while."""
        data = self._port.read(1)
        if data:
            data += self._port.read(min(self._port.in_waiting, CHUNK))
            self._loop.call_soon_threadsafe(self._inbox.put, stamped(data, self._since))
            if len(data) <= CHUNK:
                self._since = None
        else:
            self._room.release()
