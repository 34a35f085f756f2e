"""The causal graph of a log: sure causes are true, and complete where the graph marks them so."""

import numpy as np
import pyarrow as pa
import pytest

from basestation.causality.causal_graph import LOOKED_AT, SETTLED_AT_ONCE, CausalGraph, Words
from basestation.causality.order import Message, Stamp
from basestation.causality.schemes import Setting, make_scheme
from basestation.comparing.recorded_run import recorded_in
from basestation.journal.field_truth import with_field_truth
from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, build_scheme, generate
from basestation.traces.files import Trace
from packet_formats.schemes import descriptor

FIELD = {"motes": 6, "epsilon": 3, "delta": 32, "rate": 0.0156, "messages": 800}
DENSE = {"motes": 6, "epsilon": 10, "delta": 10, "rate": 0.1, "messages": 800}
SCHEMES = ("shlc", "kn", "sequence", "scalar", "last-sender", "vector", "delta-vector", "barrier")


def graph_of(scheme="last-sender", motes=4, window=100):
    setting = Setting(motes, epsilon=2, delta=10)
    return CausalGraph(make_scheme(scheme, setting), motes, patience=40, wait=15, window=window)


def message(source, number, *names, above=1):
    return Message(source, number - above, Stamp(0, 0, names), above=above)


# ---- A simulated run without its truth, against its truth ----


def simulated(name, seed=1, **options):
    world = WorldOptions(**options, seed=seed)
    ordered = descriptor(name).is_ordered
    scheme = build_scheme(world, name) if ordered else build_named(world, name)
    return trace_of(generate(world), deployment_for(world, scheme, "cbd", 100))


def untold(messages):
    place = messages.schema.get_field_index("vector")
    field = messages.schema.field(place)
    return messages.set_column(place, field, pa.nulls(len(messages), field.type))


def vectors(column):
    return [None if value is None else np.frombuffer(value, "<i4") for value in column.to_pylist()]


def may_be_late(messages, deployment):
    """For each message of a mote, by number: the last tick in which it may have left."""
    clock = deployment.clock
    wait = clock.delta + 2 * clock.epsilon + 1
    names = ("source", "sequence", "heard", "stamp")
    rows = zip(*(messages[name].to_pylist() for name in names), strict=True)
    return {(source, sequence + 1): max(heard, stamp["r"] + wait) for source, sequence, heard, stamp in rows}


@pytest.mark.few(10)
@pytest.mark.parametrize("options", [FIELD, DENSE], ids=["field", "dense"])
@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sure_causes_are_true_and_true_causes_are_possible(scheme, loss, options):
    trace = simulated(scheme, loss=loss, **options)
    made = pa.concat_tables(with_field_truth([untold(trace.messages)], trace.deployment))
    left = may_be_late(trace.messages, trace.deployment)
    truth, sure, most = (vectors(c) for c in (trace.messages["vector"], made["vector"], made["vector_most"]))
    for row, (true, ours, more) in enumerate(zip(truth, sure, most, strict=True)):
        heard = trace.messages["heard"][row].as_py()
        known = ours if more is None else more
        assert (ours <= true).all()
        missed = [
            (mote, number)
            for mote in np.flatnonzero(known < true)
            for number in range(known[mote] + 1, true[mote] + 1)
        ]
        assert not [name for name in missed if left.get(name, -1) >= heard]
    share = sum(more is None for more in most) / len(most)
    if scheme in ("vector", "delta-vector"):
        assert share > 0.95
    if scheme == "barrier" and not loss:
        assert share > 0.95
    if scheme == "sequence":
        assert share < 0.1


def test_tables_in_pieces_get_the_vectors_of_the_whole():
    trace = simulated("barrier", loss=0.05, **FIELD)
    messages = untold(trace.messages)
    pieces = [messages.slice(at, 37) for at in range(0, len(messages), 37)]
    whole = pa.concat_tables(with_field_truth([messages], trace.deployment))
    assert pa.concat_tables(with_field_truth(pieces, trace.deployment)).equals(whole)
    assert pa.concat_tables(with_field_truth([trace.messages], trace.deployment)).equals(trace.messages)


@pytest.mark.parametrize("scheme", ["vector", "barrier"])
def test_a_stream_made_from_the_graph_has_its_causes(scheme):
    trace = simulated(scheme, loss=0.05, **FIELD)
    made = pa.concat_tables(with_field_truth([untold(trace.messages)], trace.deployment))
    field = recorded_in(Trace(trace.run, trace.deployment, trace.origin, made, None))
    assert field.stream.arrivals == len(made)
    assert len(made) < field.stream.messages  # those that never came were sent all the same
    assert (field.vectors <= field.most).all()
    # The events of the stream hold nearly all causes that the graph knows of the arrived messages.
    found = engine.vector_clocks(field.stream)[field.stream.arrival_message]
    assert (found >= field.vectors[field.stream.arrival_message]).mean() > 0.99


# ---- By hand ----


def test_names_and_program_order_lead_to_a_message():
    graph = graph_of()
    for source in (0, 1, 2):
        graph.add(message(source, 1), 0)
    first, _ = graph.add(message(0, 2), 1)
    second, _ = graph.add(message(1, 2, 0, 2), 2)
    third, _ = graph.add(message(2, 2, 1, 2), 3)
    assert third.vector == [2, 2, 2, 0]
    assert Words().why(first, third) == (
        "mote 1 knew of 0#1 when it sent 1#1; mote 2 knew of 1#1 when it sent 2#1"
    )
    assert second in third.causes


def test_words_for_what_one_arrival_shows_are_bounded():
    """A long way is searched once: then no more messages are searched."""
    graph = graph_of(window=5000)
    nodes = [graph.add(message(0, number), number)[0] for number in range(1, 4 * LOOKED_AT)]
    stranger, _ = graph.add(message(1, 1), 5000)
    words = Words()
    assert words.why(nodes[0], nodes[1]) == "mote 0 sent 0#0 before 0#1"
    assert words.why(stranger, nodes[-1]) == f"1#0 led to {nodes[-1]} over others"
    assert words.left == 0
    assert words.why(nodes[0], nodes[1]) == "0#0 led to 0#1 over others"


def test_one_message_settles_a_bounded_number_of_others():
    """Each names the next of another mote, which comes later: a chain that only a liar makes."""
    graph = graph_of(window=5000)
    nodes = [graph.add(message(0, 1), 0)[0], graph.add(message(1, 1), 0)[0]]
    nodes += [graph.add(message(n % 2, n, (n + 1) % 2, n + 1), 1)[0] for n in range(2, 300)]
    graph._settle(nodes[2])
    assert sum(node.settled for node in nodes) <= SETTLED_AT_ONCE


def test_one_that_arrives_late_hands_its_causes_on():
    graph = graph_of()
    for source in (0, 1, 2):
        graph.add(message(source, 1), 0)
    third, _ = graph.add(message(2, 2, 1, 2), 3)
    assert third.vector == [0, 2, 2, 0]
    graph.add(message(0, 2), 4)
    _, grown = graph.add(message(1, 2, 0, 2), 5)
    assert third.vector == [2, 2, 2, 0]
    assert grown == [(third, {0: 0})]


def test_a_circle_of_names_is_refused():
    graph = graph_of()
    for source in (0, 1):
        graph.add(message(source, 1), 0)
    one, _ = graph.add(message(0, 2, 1, 2), 1)
    other, _ = graph.add(message(1, 2, 0, 2), 2)
    graph.finish()
    assert graph.refused == 1
    assert one.vector == [2, 2, 0, 0]
    assert other.vector == [0, 2, 0, 0]


def test_receipts_of_a_mote_not_heard_yet_are_read_when_it_is():
    graph = graph_of("sequence")
    early, _ = graph.add(message(0, 1), 0, receipts=[(1, 4)], complete=True)
    assert early.vector == [1, 0, 0, 0]
    graph.add(message(1, 5), 1)
    assert early.vector == [1, 5, 0, 0]


def test_complete_receipts_make_complete_causes_and_a_lost_one_undoes_it():
    graph = graph_of("sequence")
    first, _ = graph.add(message(0, 1), 0, complete=True)
    graph.add(message(1, 1), 1, complete=True)
    named, _ = graph.add(message(2, 1), 2, receipts=[(0, 0)], complete=True)
    lost, _ = graph.add(message(3, 1), 3, receipts=[(0, 1)], complete=True)  # 0#1 never comes
    graph.finish()
    assert first.complete
    assert named.complete
    assert not lost.complete
    assert lost.vector == [2, 0, 0, 1]
    assert lost.most == [2, 1, 1, 1]  # 1#0 and 2#0 may have led to 0#1


def test_a_boot_goes_on_above_the_one_before_and_has_forgotten():
    graph = graph_of("vector")
    graph.add(message(0, 1, 1, 0, 0, 0), 0)
    graph.add(message(1, 1, 0, 1, 0, 0), 1)
    again, _ = graph.add(message(0, 513, 513, 0, 0, 0, above=513), 5)
    graph.finish()
    assert str(again) == "0#0"
    assert again.vector == [513, 0, 0, 0]
    assert again.most == [513, 1, 0, 0]  # it may have received 1#0 before it started anew


def test_two_messages_of_one_number_stay_apart():
    """Boots that come again after many others may number alike."""
    graph = graph_of()
    graph.add(message(1, 1), 0)
    one, _ = graph.add(message(0, 7), 1)
    other, grown = graph.add(message(0, 7, 1, 1), 2, receipts=[(1, 0)])
    graph.finish()
    assert one is not other
    assert grown == []
    assert (one.vector, other.vector) == ([7, 0, 0, 0], [7, 0, 0, 0])
    assert not other.complete


def test_memory_is_bounded_whatever_the_names():
    graph = graph_of("delta-vector", window=50)
    for number in range(1, 400):
        stamp = Stamp(number * 3, 0, (number * 3 - 1, number * 3 - 2, number, number))
        graph.add(Message(number % 4, number // 4, stamp, above=1), number * 3)
        graph.settled.clear()
    assert len(graph) <= 50
    assert sum(map(len, graph._chains)) <= 54
    assert sum(map(len, graph._known.values())) <= 54
    assert sum(map(len, graph._wanted.values())) <= 4 * 54


def test_messages_heard_at_no_time_can_be_settled():
    """All are heard at tick 0: none of them is ever old enough to be settled by its age."""
    graph = graph_of(window=50)
    for number in range(1, 1000):
        graph.add(message(number % 4, number // 4 + 1), 0)
    assert len(graph._unsettled) > 500
    graph.settle_all_but(50)
    assert len(graph._unsettled) == 50
