"""Happened-before by vector clocks, and the violations counted against it."""

from dataclasses import asdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.truth import Send, VectorTruth
from basestation.causality.violations import Violations, count_violations
from tests.causality.kernels.streams import random_sends
from tests.causality.oracles import brute_force, happened_before
from tests.causality.runs import SEND, Run, legal_runs


def sends_of(run: Run) -> list[Send]:
    truth = VectorTruth(run.motes)
    sends: list[Send] = []
    for step in run.steps:
        if step.kind == SEND:
            sends.append(truth.on_send(step.process))
        elif step.process < run.motes:
            truth.on_receive(step.process, [sends[message] for message in step.messages])
    return sends


@given(legal_runs(100))
def test_vector_clocks_say_what_the_graph_of_events_says(run):
    sends, causes = sends_of(run), run.reachable()
    for effect in range(len(sends)):
        for cause in range(len(sends)):
            assert happened_before(sends[cause], sends[effect]) == (cause in causes[effect])


@given(run=legal_runs(100), data=st.data())
def test_violations_are_those_of_all_pairs(run, data):
    """Any order of delivery, any of the messages lost."""
    sends = sends_of(run)
    order = data.draw(st.permutations(sends))[: data.draw(st.integers(0, len(sends)))]
    assert asdict(count_violations(order)) == brute_force(order)


def test_violations_of_a_known_order():
    """0 sends a, 1 hears it and sends b, 0 sends d; 2, which heard b, sends c. Delivered: c, a, d, b."""
    a, b = Send(0, 1, (1, 0, 0)), Send(1, 1, (1, 1, 0))
    c, d = Send(2, 1, (1, 1, 1)), Send(0, 2, (2, 0, 0))
    counted = count_violations([c, a, d, b])
    assert counted == Violations(delivered=4, pairs=2, backward=2, forward=1, any=3, related_pairs=4)
    assert counted.percent() == {
        "pairs": 50.0,
        "backward": 50.0,
        "forward": 25.0,
        "mean": 37.5,
        "any": 75.0,
        "related": 50.0,
    }


@pytest.mark.parametrize("seed", range(12))
def test_violations_of_long_runs_are_those_of_all_pairs(seed):
    """Shuffled near and far, with losses."""
    random, reach = Random(seed), (2, 10, 100)[seed % 3]
    sends = random_sends(random, motes=2 + seed % 4, count=80)
    kept = [i for i in range(len(sends)) if random.random() < (1, 0.7)[seed % 2]]
    order = [sends[i] for i in sorted(kept, key=lambda i: i + random.uniform(0, reach))]
    counted = count_violations(order)
    assert asdict(counted) == brute_force(order)
    assert counted.pairs > 0 or reach == 2


def test_nothing_delivered_is_no_violation():
    assert set(count_violations([]).percent().values()) == {0.0}


@given(run=legal_runs(100))
def test_the_order_of_the_sends_themselves_has_no_violation(run):
    counted = count_violations(sends_of(run))
    assert (counted.pairs, counted.backward, counted.forward, counted.any) == (0, 0, 0, 0)
    assert counted.related_pairs == sum(map(len, run.reachable()))
