"""Plays stamps that name causes on a trace, each by its own rule.

They have no kernels: the objects of `basestation.comparing` stamp the whole run again and deliver it, so a trace must
be short. What each message's fate was is written to a file, and counted like every other delivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import Scheme
from basestation.causality.stream import Stream
from basestation.comparing.comparison import KnownStream
from basestation.comparing.recorded_run import COLUMNS, FIELD_COLUMNS, recorded_in
from basestation.simulator.scheme_run import play
from basestation.traces.files import TraceError
from basestation.traces.schema import LATER
from packet_formats.schemes import descriptor
from spark_jobs.engine import Spread
from spark_jobs.measuring.choices import NamedCandidate
from spark_jobs.traces.field import causes_in
from spark_jobs.traces.files import TraceFault, TraceFiles, read_whole

MOST_PLAYED = 50_000  # messages: some ten seconds of Python for each rule


@dataclass(frozen=True, slots=True)
class PlayTask:
    trace: TraceFiles
    scheme: Scheme
    tolerate: float | None
    path: Path


@dataclass(frozen=True, slots=True)
class PlayedRule:
    """A rule on a whole trace: the file of what was delivered, or the reason why there is none."""

    path: Path | None = None
    reason: str | None = None
    bytes_mean: float = 0.0
    saturated: int = 0
    late: int = 0
    longest: int = 0  # hold, in ticks


def play_all(
    trace: TraceFiles,
    asked: Sequence[tuple[NamedCandidate, PolicyChoice]],
    fault: str | None,
    spread: Spread,
    scratch: Path,
) -> list[PlayedRule]:
    """Play each stamp by each rule. `fault` says why this trace can't be played at all."""
    if trace.rows > MOST_PLAYED:
        fault = f"our Python plays this rule, on {MOST_PLAYED} messages at most, and here are {trace.rows}"
    if fault:
        return [PlayedRule(reason=fault) for _ in asked]
    tasks = [
        PlayTask(trace, stamp.scheme, rule.tolerate, scratch / f"played-{number}.bin")
        for number, (stamp, rule) in enumerate(asked)
    ]
    return list(spread(play_rule, tasks))


def play_rule(task: PlayTask) -> PlayedRule:
    """Write each row's place in the order of delivery and the tick in which it left, as `deliver_whole` does."""
    scheme = task.scheme if task.tolerate is None else task.scheme.tolerating(task.tolerate)
    try:
        stream = _recorded(task.trace).stream
    except TraceFault as fault:
        return PlayedRule(reason=str(fault))
    if descriptor(scheme.name).one_send_a_tick and _sends_twice(stream):
        return PlayedRule(reason="a mote sent twice in a tick, and this stamp names a send by its tick")
    played = play(stream, scheme)
    if len(played.order) < stream.arrivals:
        gone = stream.arrivals - len(played.order)
        return PlayedRule(reason=f"its rule discards messages that come too late: {gone} here")
    row_of = np.zeros(stream.messages, np.int64)
    row_of[stream.arrival_message] = np.arange(stream.arrivals)
    found = np.zeros((3, stream.arrivals), np.int64)
    found[0, row_of[played.order]] = np.arange(len(played.order))
    found[1, row_of[played.order]] = played.left
    found.tofile(task.path)
    size = float((-(-played.bits // 8)).mean())
    return PlayedRule(task.path, None, size, played.saturated, played.late, int(played.hold.max()))


def _sends_twice(stream: Stream) -> bool:
    sends = np.stack([stream.sent_by.astype(np.int64), stream.sent_at])
    return bool(np.unique(sends, axis=1).shape[1] < stream.messages)


@lru_cache(maxsize=1)
def _recorded(trace: TraceFiles) -> KnownStream:
    """The stream of a trace. A worker plays several rules on it, and reads it once."""
    try:
        if trace.events is not None:
            return recorded_in(read_whole(trace, list(COLUMNS)))
        later = [LATER] if trace.unsure else []
        return recorded_in(causes_in(read_whole(trace, [*FIELD_COLUMNS, *later])))
    except TraceError as error:
        raise TraceFault(f"{trace.folder}: {error}") from None
