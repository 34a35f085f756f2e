"""Plays stamps that name causes on a trace, each by its own rule.

They have no kernels: the objects of `basestation.comparing` stamp the whole run again and deliver it, so a trace must
be short. Each message's place is written to a file, and counted like every other delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from basestation.analysis.choices import Candidate
from basestation.analysis.deliveries import Delivery
from basestation.analysis.outcome import Answer
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.stream import Stream
from basestation.simulator.scheme_run import play
from packet_formats.schemes import descriptor
from spark_jobs.engines import Spread
from spark_jobs.measuring.measure import write_whole
from spark_jobs.traces.field import known_stream, rows_in
from spark_jobs.traces.trace_files import TraceFault, TraceFiles

MOST_PLAYED = 50_000  # messages: some ten seconds of Python for each rule


@dataclass(frozen=True, slots=True)
class PlayTask:
    trace: TraceFiles
    stamp: Candidate
    rule: PolicyChoice
    path: Path


def play_all(
    trace: TraceFiles,
    asked: Sequence[tuple[Candidate, PolicyChoice]],
    no_events: Callable[[], str | None],
    spread: Spread,
    scratch: Path,
) -> list[Answer]:
    """Play each stamp by each rule. `no_events` gives the reason why this trace can't be played at all."""
    fault = f"our Python plays this rule, on {MOST_PLAYED} messages at most, and here are {trace.rows}"
    if asked and (trace.rows > MOST_PLAYED or (fault := no_events() or "")):
        return [Answer(reason=fault)] * len(asked)
    places = (scratch / f"played-{number}.bin" for number in range(len(asked)))
    tasks = [PlayTask(trace, *rule, path) for rule, path in zip(asked, places, strict=True)]
    return list(spread(play_rule, tasks))


def play_rule(task: PlayTask) -> Answer:
    """Write the order in which a rule delivers a trace."""
    scheme = task.stamp.scheme
    try:
        stream = known_stream(task.trace).stream
    except TraceFault as fault:
        return Answer(reason=str(fault))
    if descriptor(scheme.name).one_send_a_tick and _sends_twice(stream):
        return Answer(reason="a mote sent twice in a tick, and this stamp names a send by its tick")
    played = play(stream, scheme if task.rule.tolerate is None else scheme.tolerating(task.rule.tolerate))
    if gone := stream.arrivals - len(played.order):
        return Answer(reason=f"its rule discards messages that come too late: {gone} here")
    row_of = np.zeros(stream.messages, np.int64)
    row_of[stream.arrival_message] = rows_in(task.trace)
    write_whole(task.path, task.trace.rows, row_of[played.order], played.left)
    figures: dict[str, float] = {"late": played.late, "saturated": played.saturated}
    if task.stamp.layout.is_variable:
        figures["bytes_mean"] = float((-(-played.bits[stream.arrival_message] // 8)).mean())
    return Answer("played", None, None, Delivery(path=task.path), figures, int(played.hold.max()))


def _sends_twice(stream: Stream) -> bool:
    sends = np.stack([stream.sent_by.astype(np.int64), stream.sent_at])
    return bool(np.unique(sends, axis=1).shape[1] < stream.messages)
