"""A trial of a policy on the last minutes: how many messages out of order, and how long a hold?

The newest lines are kept, packed. A process of its own plays them through one station for each policy, so that no
delivery is delayed: `python -m basestation.web.trial` reads the question from standard input and prints the answer.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, TypeVar

from basestation.arrivals import Arrival, Gap, Line, PolicyChange
from basestation.journal.decision import Decision, Noted
from basestation.live.happenings import Delivered
from basestation.live.runner import LineLog, past_due
from basestation.live.station import Station
from packet_formats import deployment as deployments
from packet_formats.keys import Key
from packet_formats.phrases import many
from packet_formats.schemes import LEDGER, TIMED_POLICIES

T = TypeVar("T")

SECONDS = 300
LINES = 100_000
WORDS = ("-m", "basestation.web.trial")
PATIENCE = 120.0  # seconds for a trial
SECOND = 1_000_000_000


def pack(line: Line) -> bytes:
    """A line as bytes: small, and no work for the garbage collector."""
    return marshal.dumps((isinstance(line, Gap), *line))


def unpack(raw: bytes) -> Iterator[Line]:
    packed = BytesIO(raw)
    while packed.tell() < len(raw):
        is_gap, *fields = marshal.load(packed)
        yield Gap(*fields) if is_gap else Arrival(*fields)


class RecentLines:
    """A log in front of another log, or of none: it keeps the lines of the last minutes in memory.

    `pause` is called after each line: there a recording that is played as fast as possible can be held up.
    """

    def __init__(self, log: LineLog | None = None, pause: Callable[[], None] = lambda: None) -> None:
        self._log, self._pause = log, pause
        self._lines: deque[tuple[int, bytes]] = deque(maxlen=LINES)

    def keep(self, line: Line) -> None:
        self._lines.append((line.mono_ns, pack(line)))
        while line.mono_ns - self._lines[0][0] > SECONDS * SECOND:
            self._lines.popleft()
        self._pause()

    def packed(self) -> bytes:
        return b"".join([packed for _, packed in self._lines])

    def through(self, lines: Iterable[tuple[T, Noted | None]]) -> Iterator[tuple[T, Noted | None]]:
        """Pass the lines of a recording on, and keep them."""
        for line, noted in lines:
            if isinstance(line, Arrival | Gap):
                self.keep(line)
            yield line, noted

    # ---- A log ----

    def append(self, line: Line) -> int:
        self.keep(line)
        return 0 if self._log is None else self._log.append(line)

    def append_decision(self, number: int, arrival: Arrival, decision: Decision) -> int:
        return 0 if self._log is None else self._log.append_decision(number, arrival, decision)

    def append_counters(self, gateway: int, counters: Any, mono_ns: int, wall_ns: int) -> int:
        return 0 if self._log is None else self._log.append_counters(gateway, counters, mono_ns, wall_ns)

    def append_policy(self, change: PolicyChange, clock: int | None) -> int:
        return 0 if self._log is None else self._log.append_policy(change, clock)

    def append_note(self, text: str, mono_ns: int, wall_ns: int) -> int:
        return 0 if self._log is None else self._log.append_note(text, mono_ns, wall_ns)


@dataclass(frozen=True, slots=True)
class PolicyTried:
    """A policy and its result on the lines."""

    policy: str
    phi: int
    tolerate: float | None
    messages: int = 0
    out_of_order: int = 0
    out_of_order_most: int = 0
    mean_hold_ms: float = 0.0
    p95_hold_ms: float = 0.0


def ask(station: Station, lines: bytes, policy: str, phi: int, tolerate: float | None) -> bytes:
    """The question for the process: this policy against the station's own."""
    question: dict[str, Any] = {
        "deployment": station.deployment.to_toml(),
        "allowance_ns": station.timeline.clock.allowance_ns,
        "tried": [policy, phi, tolerate],
        "now": [station.policy, station.phi, station.tolerate],
    }
    if station.deployment.key is not None:  # through a pipe to our own child process only
        question["key"] = station.deployment.key.secret.hex()
    return json.dumps(question).encode() + b"\n" + lines


class TrialError(Exception):
    """Why a process did not answer."""


class Apart:
    """Runs Python in a process of its own, one at a time, until `end` is called."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()

    def run(self, words: Sequence[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
        """Run Python with these arguments and this input; `TrialError` if it does not start or end."""
        try:
            process = subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C must not reach it
            )
        except OSError as error:
            raise TrialError(f"the process can't be started: {error.strerror}") from None
        self._process = process
        if self._ended.is_set():  # `end` was called meanwhile
            process.kill()
        with process:
            try:
                stdout, stderr = process.communicate(given, PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise TrialError(f"the process did not end within {PATIENCE:g} s") from None
            finally:
                self._process = None
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def end(self) -> None:
        """End the process that runs, and those that start later. Callable from any thread."""
        self._ended.set()
        process = self._process
        if process is not None:
            process.kill()


def last_line(output: bytes) -> str:
    return output.decode(errors="replace").strip().rpartition("\n")[2]


def carry_out(apart: Apart, question: bytes) -> dict[str, Any]:
    """Let a process of its own find the answer; `TrialError` says why it could not."""
    done = apart.run(WORDS, question)
    if done.returncode != 0:
        raise TrialError(f"the trial failed: {last_line(done.stderr)}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def answer_to(question: bytes) -> dict[str, Any]:
    """Play the lines by each of the two policies."""
    head, _, packed = question.partition(b"\n")
    asked = json.loads(head)
    deployment = deployments.parse(asked["deployment"])
    if "key" in asked:
        deployment = replace(deployment, key=Key(bytes.fromhex(asked["key"])))
    lines = list(unpack(packed))
    tried, now = (
        play(Station(deployment, *asked[which], allowance_ns=asked["allowance_ns"]), lines)
        for which in ("tried", "now")
    )
    seconds = (lines[-1].mono_ns - lines[0].mono_ns) / SECOND if lines else 0.0
    return {
        "policy": tried.policy,
        "phi": tried.phi,
        "tolerate": tried.tolerate,
        "seconds": round(seconds, 1),
        "messages": tried.messages,
        "out_of_order": tried.out_of_order,
        "out_of_order_most": tried.out_of_order_most,
        "before": now.out_of_order,
        "before_most": now.out_of_order_most,
        "mean_hold_ms": tried.mean_hold_ms,
        "p95_hold_ms": tried.p95_hold_ms,
        "mean_hold_now_ms": now.mean_hold_ms,
        "text": _in_words(tried, now, seconds),
    }


def play(station: Station, lines: Iterable[Line]) -> PolicyTried:
    """Play lines through a station with a punctual timer."""
    held: list[float] = []
    for line in lines:
        for happening in (*past_due(station, line.mono_ns), *station.take(line)):
            if isinstance(happening, Delivered):
                held.append(happening.held_ms)
    station.finish()
    held.sort()
    found = station.snapshot(station.timeline.mono_ns).delivery
    return PolicyTried(
        station.policy,
        station.phi,
        station.tolerate,
        station.received,
        found.overtaken,
        found.most,
        round(sum(held) / len(held), 1) if held else 0.0,
        round(held[(len(held) - 1) * 95 // 100], 1) if held else 0.0,
    )


def _in_words(tried: PolicyTried, now: PolicyTried, seconds: float) -> str:
    if not tried.messages:
        return "No message came in the last minutes: there is nothing to try the policy on."
    by = f"By {tried.policy}"
    if tried.policy == LEDGER:
        by = f"With {tried.tolerate:g}% tolerated"
    elif tried.policy in TIMED_POLICIES:
        by = f"At phi = {tried.phi}%"
    span = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"
    wrong = f"{_between(tried) or 'none'} of {many(tried.messages, 'message')} out of order"
    return (
        f"{by} the last {span} would have had {wrong} (now {_between(now) or 0}); "
        f"held {tried.mean_hold_ms:.0f} ms on average (now {now.mean_hold_ms:.0f})."
    )


def _between(tried: PolicyTried) -> str:
    """The bounds of the messages out of order; empty if there were none."""
    least, most = tried.out_of_order, tried.out_of_order_most
    return f"at least {least}, at most {most}" if least < most else str(least or "")


def main() -> None:
    with contextlib.suppress(AttributeError):  # Windows
        os.nice(10)  # deliveries have priority
    print(json.dumps(answer_to(sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
