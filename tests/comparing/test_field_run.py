"""Schemes played on a field log: near what they are on the run's true events, also where messages were lost."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from basestation.causality.causal_graph import Alias
from basestation.causality.order import Message, Stamp
from basestation.causality.schemes import Setting, make_scheme
from basestation.comparing.catalogue import Terms
from basestation.comparing.comparison import measure
from basestation.comparing.field_run import Chain, lost_names
from basestation.comparing.recorded_run import place_in, recorded_in
from basestation.journal.field_truth import with_field_truth
from basestation.traces.files import Trace
from tests.causality.test_causal_graph import simulated, untold

FIELD = {"motes": 10, "epsilon": 3, "delta": 32, "rate": 0.0156, "messages": 2000, "loss": 0.1}


def told_and_true(scheme):
    """A run as its log shows it, without events, and the true run."""
    true = simulated(scheme, **FIELD)
    told = pa.concat_tables(with_field_truth([untold(true.messages)], true.deployment))
    return Trace(true.run, true.deployment, true.origin, told, None), true


def measured(trace, scheme):
    return measure(place_in(trace.deployment), [recorded_in(trace)], scheme, Terms())


@pytest.fixture(scope="module")
def barrier_log():
    return told_and_true("barrier")


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["barrier", "vector", "delta-vector", "shlc"])
def test_a_log_of_barrier_stamps_shows_the_causes_that_rules_wait_for(scheme, barrier_log):
    """Causes that were lost are what a rule waits for: without them the barrier's hold was a fifth of this."""
    told, true = (measured(trace, scheme) for trace in barrier_log)
    assert told.hold_mean == pytest.approx(true.hold_mean, rel=0.2)
    assert told.gave_up == pytest.approx(true.gave_up, rel=0.2)
    assert told.violations.pairs == true.violations.pairs == 0


@pytest.mark.parametrize("scheme", ["barrier", "shlc"])
def test_a_log_of_stamps_without_a_clock_makes_no_violation_up(scheme):
    """When a message was sent is a guess there, and a cause that seems to come from the future would break order."""
    told, _ = told_and_true("vector")
    assert measured(told, scheme).violations.pairs == 0


@pytest.mark.parametrize("scheme", ["barrier", "vector", "shlc"])
def test_a_mote_may_have_been_silent(scheme):
    true = simulated(scheme, **FIELD | {"messages": 200})
    heard = true.messages.filter(pc.not_equal(true.messages["source"], 0))
    told = pa.concat_tables(with_field_truth([untold(heard)], true.deployment))
    trace = Trace(true.run, true.deployment, true.origin, told, None)
    assert measured(trace, "shlc").arrived == len(heard)


def test_lost_names_are_those_of_messages_that_were_sent_and_received(barrier_log):
    told, true = barrier_log
    vectors = [memoryview(value).cast("i") for value in true.messages["vector"].to_pylist()]
    numbers = list(
        zip(true.messages["source"].to_pylist(), true.messages["sequence"].to_pylist(), strict=True)
    )
    keys = [(source, sequence + 1) for source, sequence in numbers]
    sent = dict(zip(keys, pc.struct_field(told.messages["stamp"], "r").to_pylist(), strict=True))
    found = lost_names(told, sent, dict.fromkeys(keys, 1))
    assert sum(map(len, found.values())) > 100
    causes = dict(zip(keys, vectors, strict=True))
    for key, named in found.items():
        for lost in named:
            assert lost.key not in sent
            assert lost.key[1] <= causes[key][lost.key[0]]


def chain_of(*came, above=1):
    """What came of mote 0: sequence numbers, each sent at ten times as many ticks; from a boot on if it is a pair."""
    scheme = make_scheme("barrier", Setting(2, epsilon=3, delta=32))
    messages = [
        Message(0, sequence, Stamp(10 * sequence, 0, (0, 0, 0, 31)), above=above) for sequence in came
    ]
    return Chain(scheme, messages, [message.stamp.r for message in messages])


def test_a_name_is_read_only_where_one_number_fits():
    assert chain_of(4, 6).lost(Alias(0, 5, 45, 55)) == 6  # the number, one above its sequence
    assert chain_of(4, 5, 6).lost(Alias(0, 5, 45, 55)) is None  # it came
    assert chain_of(4, 6).lost(Alias(0, 7, 45, 55)) is None  # no such number was lost
    assert chain_of(4, 22).lost(Alias(0, 5, 45, 55)) is None  # 5 or 21
    assert chain_of(6).lost(Alias(0, 5, 45, 55)) is None  # nothing says what was sent before
    assert chain_of(4).lost(Alias(0, 5, 45, 55)) is None  # nor what after


def test_a_name_is_not_read_across_a_restart():
    before, after = chain_of(4), chain_of(6, above=3)
    both = Chain(before.scheme, before.messages + after.messages, before.sent + after.sent)
    assert both.lost(Alias(0, 5, 45, 55)) is None
