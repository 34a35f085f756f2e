"""Delivers one configuration once more, and counts by mote, by link and by hour."""

from __future__ import annotations

from pathlib import Path

from basestation.analysis.breakdown import DetailRow, Groups, detail_rows
from basestation.analysis.choices import Choice, one_choice
from basestation.analysis.deliveries import ARRIVAL
from basestation.analysis.outcome import ContinuumRow
from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice
from spark_jobs.engines import Spread
from spark_jobs.measuring.measure import MeasureTask, delivered, read_stamps
from spark_jobs.measuring.measured_traces import prepared
from spark_jobs.traces.field import with_causes
from spark_jobs.traces.segments import ROWS
from spark_jobs.traces.trace_files import TraceFiles, located


def details(
    trace: TraceFiles,
    row: ContinuumRow,
    spread: Spread,
    scratch: Path,
    *,
    workers: int = 1,
    ties: Ties = "sequence",
) -> list[DetailRow]:
    """Deliver a trace once more, by one configuration that it answers, and count by mote, link and hour."""
    made = prepared(with_causes(trace, scratch), only(row), spread, scratch, ties)
    wanted = PolicyChoice(row.policy, row.phi, row.tolerate)
    delivery = next((answer.delivery for _, rule, answer in made.answers if rule == wanted), None) or ARRIVAL
    _, *found = made.counted(of_part, {delivery.reading: (delivery,)}, spread, workers, ROWS)
    least, most = map(Groups.together, found)
    tick_ms = 1000 * trace.deployment.clock.tick_seconds
    return list(detail_rows(row, least, most, tick_ms, made.trace.has_truth))


def only(row: ContinuumRow) -> Choice:
    """The choice of this one configuration."""
    rule = row.policy, row.phi, row.tolerate
    return one_choice(row, row.entries, row.counter_bits, *rule, row.has_own_rule)


def of_part(task: MeasureTask) -> Groups:
    """Count a part's own rows under its one delivery."""
    ((reading, (delivery,)),) = task.work.items()
    view, tick_log2 = task.load("gateway", "wall_ns"), task.trace.deployment.clock.tick_log2
    with located(task.trace.folder):
        stamps = None if reading is None else read_stamps(task.trace, view, reading, task.ties)
        return Groups.of(view, task.part.context, delivered(view, delivery, stamps), tick_log2)
