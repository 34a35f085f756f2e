"""A trace in segments is counted as the whole: with loss, late arrivals, broken clocks, and borders everywhere."""

from functools import reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings

from basestation.analysis.deliveries import ARRIVAL, StampReading
from basestation.analysis.tally import Tally
from basestation.causality.policy_choice import PolicyChoice
from basestation.simulator.options import WorldOptions
from spark_jobs.measuring.measure import MeasureTask, measure
from spark_jobs.measuring.measured_traces import deliveries
from spark_jobs.traces.segments import cut, cut_at, plan
from spark_jobs.traces.trace_files import open_trace
from tests.spark.broken_traces import CASES, Case, Damage, by_the_objects, damaged, write

DELIVERIES = tuple(
    PolicyChoice(policy, phi)
    for policy, phi in [("causal", 100), *((p, f) for p in ("dapw", "cbd") for f in (0, 1, 40, 100))]
) + tuple(PolicyChoice("ledger", 100, share) for share in (0.0, 0.5, 20.0))
CALM = Damage([], [], 0, [], 0.0)


def one_by_one(function, tasks):
    return map(function, tasks)


def measured(folder: Path, borders) -> list[Tally]:
    """The tally of arrival order, then those of `DELIVERIES`."""
    trace = open_trace(folder)
    clock = trace.deployment.clock
    reading = StampReading(None, True, clock.epsilon + 1, 1 << 15, clock.epsilon, clock.delta)
    planned = plan(cut_at(trace, borders), one_by_one)
    with TemporaryDirectory() as place:
        made = deliveries(trace, [reading], DELIVERIES, "sequence", one_by_one, Path(place))
        work = {None: [ARRIVAL], reading: list(dict.fromkeys(made.values()))}
        found = reduce(add, (measure(MeasureTask(part, work)) for part in planned.parts))
        return [found.tallies[one] for one in (ARRIVAL, *(made[reading, rule] for rule in DELIVERIES))]


def same(one: Tally, other: Tally) -> bool:
    return (
        one.violations == other.violations and one.late == other.late and np.array_equal(one.held, other.held)
    )


@pytest.mark.wide
@settings(max_examples=max(10, settings.default.max_examples // 4))
@given(CASES)
@example(Case(WorldOptions(motes=3, messages=80, epsilon=1, delta=1, rate=1.0), CALM, 7, []))
@example(
    Case(
        WorldOptions(motes=3, messages=90, epsilon=1, delta=1, rate=0.5),
        Damage([(0.1, 60), (0.2, 60), (0.3, 20)], [(0.5, 200)], 0, [], 0.1),
        5,
        [i / 90 for i in range(90)],
    )
)
def test_any_borders_give_what_the_objects_give(case):
    trace, _ = damaged(case)
    if not len(trace.messages):
        return
    with TemporaryDirectory() as place:
        folder = write(trace, Path(place) / "trace", case.row_group)
        rows = len(trace.messages)
        cut_up = measured(folder, [int(share * rows) for share in case.borders])
    assert cut_up[0].violations == by_the_objects(trace, "none", 0)[0]
    for delivery, tally in zip(DELIVERIES, cut_up[1:], strict=True):
        violations, hold, late = by_the_objects(trace, delivery.policy, delivery.phi, delivery.tolerate)
        assert (tally.violations, tally.late) == (violations, late), delivery
        assert np.array_equal(np.bincount(hold, minlength=len(tally.held)), tally.held), delivery


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory):
    """Longer than many horizons, with a few messages that come very late."""
    damage = Damage([(0.05, 900), (0.3, 400), (0.31, 55), (0.8, 30)], [(0.4, 5000), (0.6, 7)], 0, [0.5], 0.1)
    case = Case(WorldOptions(motes=5, epsilon=2, delta=3, messages=1500, loss=0.05, rate=0.3), damage, 64, [])
    trace, _ = damaged(case)
    return trace, write(trace, tmp_path_factory.mktemp("long") / "trace", case.row_group)


@pytest.mark.parametrize(
    "parts", [1, 7, *(pytest.param(parts, marks=pytest.mark.wide) for parts in (2, 40, 300))]
)
def test_any_number_of_segments_gives_the_same(long_trace, parts):
    trace, folder = long_trace
    rows = len(trace.messages)
    whole = measured(folder, [])
    parted = measured(folder, [rows * i // parts for i in range(parts)])
    assert len(whole) == 1 + len(DELIVERIES)
    assert all(map(same, parted, whole))


def test_the_whole_is_what_the_objects_give(long_trace):
    trace, folder = long_trace
    whole = measured(folder, [])
    for delivery, tally in zip(DELIVERIES, whole[1:], strict=True):
        violations, hold, late = by_the_objects(trace, delivery.policy, delivery.phi, delivery.tolerate)
        assert (tally.violations, tally.late, tally.delivered) == (violations, late, len(hold)), delivery
        assert tally.hold_mean == np.mean(hold)
        for percent in (0, 1, 50, 95, 99, 100):
            assert tally.hold_percentile(percent) == np.percentile(hold, percent)


def test_late_messages_are_stragglers_and_reach_far(long_trace):
    """The test above would be worth little if none of them came from another segment."""
    _, folder = long_trace
    trace = open_trace(folder)
    planned = plan(cut_at(trace, range(0, trace.rows, 50)), one_by_one)
    rows = {row for part in planned.parts for row in part.context.stragglers.row.tolist()}
    assert len(rows) >= 3
    far = [
        p for p in planned.parts for row in p.context.stragglers.row.tolist() if row > p.segment.last + 200
    ]
    assert far


def test_a_halo_is_all_that_is_read(long_trace):
    """Memory of a task does not grow with the trace."""
    _, folder = long_trace
    trace = open_trace(folder)
    sizes = []
    for part in plan(cut_at(trace, range(0, trace.rows, 100)), one_by_one).parts:
        sizes.append(len(part.load([]).rows))
    assert max(sizes) < trace.rows / 2


def test_segments_are_equal_and_as_many_as_workers_can_share():
    class Rows:
        rows = 5_000_000

    segments = cut(Rows(), 2, 1_000_000)
    assert len(segments) == 6
    assert {segment.last - segment.first for segment in segments} <= {833_333, 833_334}
    Rows.rows = 3
    assert len(cut(Rows(), 8, 1_000_000)) == 3
