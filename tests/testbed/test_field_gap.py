"""What `examples.field_gap` changes in a run, and what it leaves."""

from random import Random

from basestation.simulator.measured_delays import LOST
from examples.field_gap import Passage, at_any_time, percent_on_arrival, with_ways_apart
from tools.field_table import MOTES


def way(arrives: float, **heard: float) -> tuple[float, ...]:
    return (*(heard.get(f"by{mote}", LOST) for mote in range(MOTES)), arrives)


def test_an_effect_that_arrives_first_is_counted():
    cause = Passage(0.0, 0, way(9.0, by1=1.0))
    effect = Passage(2.0, 1, way(3.0))
    assert percent_on_arrival([cause, effect]) == 50.0  # one of two is overtaken, one overtakes
    assert percent_on_arrival([cause._replace(way=way(1.0, by1=1.0)), effect]) == 0.0
    assert percent_on_arrival([cause._replace(way=way(9.0)), effect]) == 0.0  # nobody heard it: no cause


def test_ways_change_hands_within_a_mote_and_times_do_not():
    passages = [Passage(float(i), i % 2, way(float(i))) for i in range(20)]
    mixed = with_ways_apart(passages, Random(1))
    assert mixed != passages
    assert [(p.sent, p.source) for p in mixed] == [(p.sent, p.source) for p in passages]
    assert sorted((p.source, p.way) for p in mixed) == sorted((p.source, p.way) for p in passages)


def test_times_of_sending_stay_within_the_run_and_ways_with_their_messages():
    passages = [Passage(float(i), i % 2, way(float(i))) for i in range(20)]
    moved = at_any_time(passages, Random(1))
    assert moved == sorted(moved)
    assert all(0 <= p.sent <= 19 for p in moved)
    assert sorted((p.source, p.way) for p in moved) == sorted((p.source, p.way) for p in passages)
    assert {p.sent for p in moved}.isdisjoint(p.sent for p in passages)
