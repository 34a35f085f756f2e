"""What a simulated stream must keep, and what the stamps promise on it, under every option."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.order import Message, Stamp, key
from basestation.causality.stream import MERGE, RECEIVE, SEND, Stream
from basestation.simulator import engine
from basestation.simulator.options import OptionError, WorldOptions
from basestation.simulator.results import Stamped
from tests.simulator.worlds import DELAY_CLOCKS, RECEPTIONS, every_option, exact_schemes, relayed_network

READINGS = list(product(DELAY_CLOCKS, RECEPTIONS))


def assert_clocks_keep_g1(stream: Stream, epsilon: int) -> None:
    """Clocks never fall, and none is seen more than epsilon behind the furthest one seen before."""
    for mote in range(stream.motes):
        assert (np.diff(stream.event_clock[stream.event_mote == mote]) >= 0).all()
    assert (np.diff(stream.arrival_clock) >= 0).all()
    furthest = np.maximum.accumulate(stream.event_clock)
    assert (stream.event_clock >= furthest - epsilon).all()


def g2_breaks(stream: Stream, delta: int) -> int:
    """Receptions while the sender's clock, as far as its events show, was beyond the send by more than delta."""
    last_seen = np.zeros(stream.motes, np.int64)
    breaks = 0
    rows = zip(stream.event_kind, stream.event_mote, stream.event_clock, stream.event_message, strict=True)
    for kind, mote, clock, message in rows:
        last_seen[mote] = clock
        if kind != SEND:
            breaks += last_seen[stream.sent_by[message]] > stream.sent_at[message] + delta
    return breaks


def assert_within_reach(stream: Stream, epsilon: int, delta: int) -> None:
    """G1 and G2 together: a receiver's clock lies in [send - epsilon, send + delta + epsilon]."""
    took = stream.event_kind != SEND
    waits = stream.event_clock[took] - stream.sent_at[stream.event_message[took]]
    waits = np.concatenate((waits, stream.read_at - stream.sent_at[stream.arrival_message]))
    assert ((waits >= -epsilon) & (waits <= delta + epsilon)).all()


def assert_each_message_once(stream: Stream, options: WorldOptions) -> None:
    sends = stream.event_message[stream.event_kind == SEND]
    assert sends.tolist() == list(range(options.messages))
    receives = stream.event_kind != SEND
    pairs = list(
        zip(stream.event_mote[receives].tolist(), stream.event_message[receives].tolist(), strict=True)
    )
    assert len(set(pairs)) == len(pairs)
    assert len(set(stream.arrival_message.tolist())) == stream.arrivals
    for receiver, message in pairs:
        assert receiver in options.network.peers[stream.sent_by[message]]
    if options.recipients == "one":
        assert len({message for _, message in pairs}) == len(pairs)
    for mote in range(stream.motes):
        own = stream.sent_index[stream.sent_by == mote]
        assert own.tolist() == list(range(1, len(own) + 1))


def assert_events_a_tick(stream: Stream, options: WorldOptions) -> None:
    """A mote has at most K turns in a tick: K sends, and K receive events where a tick is one of these."""
    kinds = [SEND, RECEIVE] if options.reception == "tick" else [SEND]
    for kind in kinds:
        rows = stream.event_kind == kind
        place = stream.event_mote[rows].astype(np.int64) * (1 << 40) + stream.event_clock[rows]
        assert np.unique(place, return_counts=True)[1].max(initial=0) <= options.events_per_tick
    if options.reception != "tick":
        assert not (stream.event_kind == MERGE).any()


def assert_order_embeds_happened_before(stream: Stream, stamped: Stamped, vectors: np.ndarray) -> None:
    keys = [
        key(Message(source, number, Stamp(r, c, tuple(kn))))
        for source, number, r, c, kn in zip(
            stream.sent_by.tolist(),
            stream.sent_index.tolist(),
            stamped.r.tolist(),
            stamped.c.tolist(),
            stamped.kn.tolist(),
            strict=True,
        )
    ]
    rank = np.empty(stream.messages, np.int64)
    rank[sorted(range(stream.messages), key=keys.__getitem__)] = np.arange(stream.messages)
    cause_known = vectors[:, stream.sent_by] >= stream.sent_index  # [effect, cause]
    np.fill_diagonal(cause_known, False)
    effect, cause = np.nonzero(cause_known)
    assert len(effect) > stream.messages
    assert (rank[cause] < rank[effect]).all()


@pytest.mark.few(4)
@pytest.mark.parametrize(("delay_clock", "reception"), READINGS)
def test_under_every_option_the_guarantees_hold_and_full_stamps_embed_causality(delay_clock, reception):
    for options in every_option(150, ["enforce"], delay_clock=delay_clock, reception=reception):
        stream = engine.generate(options)
        assert_clocks_keep_g1(stream, options.epsilon)
        assert g2_breaks(stream, options.delta) == 0
        assert_within_reach(stream, options.epsilon, options.delta)
        assert_each_message_once(stream, options)
        assert_events_a_tick(stream, options)
        vectors = engine.vector_clocks(stream)
        for scheme in exact_schemes(options).values():
            stamped = engine.stamp(stream, scheme)
            observed = engine.observe(stream, stamped, scheme)
            assert (stamped.wrong_unwraps, observed.wrong_unwraps) == (0, 0)
            assert (stamped.bounded, observed.bounded) == (0, 0)
            assert_order_embeds_happened_before(stream, stamped, vectors)


worlds = st.builds(
    WorldOptions,
    motes=st.integers(2, 12),
    epsilon=st.integers(1, 12),
    delta=st.integers(1, 15),
    rate=st.floats(0.02, 1),
    messages=st.integers(100, 250),
    seed=st.integers(0, 1 << 30),
    delay_law=st.sampled_from(["half", "quarter"]),
    recipients=st.sampled_from(["all", "one"]),
    delay=st.sampled_from(["shared", "each"]),
    delay_clock=st.sampled_from(DELAY_CLOCKS),
    reception=st.sampled_from(RECEPTIONS),
    g2=st.just("enforce"),
    loss=st.sampled_from([0, 0.01, 0.3]),
    gateways=st.integers(1, 3),
    events_per_tick=st.integers(1, 4),
    sends=st.sampled_from(["tick", "any"]),
    second_send=st.sampled_from(["goes", "waits"]),
)


@given(worlds)
def test_any_network_that_keeps_g1_and_g2(options):
    stream = engine.generate(options)
    assert_clocks_keep_g1(stream, options.epsilon)
    assert_within_reach(stream, options.epsilon, options.delta)
    vectors = engine.vector_clocks(stream)
    cause_known = vectors[:, stream.sent_by] >= stream.sent_index
    for scheme in exact_schemes(options).values():
        stamped = engine.stamp(stream, scheme)
        observed = engine.observe(stream, stamped, scheme)
        assert (stamped.wrong_unwraps, observed.wrong_unwraps) == (0, 0)
        if cause_known.sum() > 2 * stream.messages:
            assert_order_embeds_happened_before(stream, stamped, vectors)


def test_as_drawn_the_global_clock_breaks_g2_and_enforcing_it_costs_receptions():
    drawn = engine.generate(WorldOptions(delay_clock="global", messages=3000, g2="paper"))
    enforced = engine.generate(WorldOptions(delay_clock="global", messages=3000, g2="enforce"))
    assert g2_breaks(drawn, 10) > 0
    assert g2_breaks(enforced, 10) == 0
    assert len(enforced.event_kind) < len(drawn.event_kind)


def test_the_delay_law_is_the_papers():
    """Delays N(delta/2, delta/4), over delta lost: 2.3% of the copies; at delta/4, delta/8 next to none."""
    messages = 20_000
    half = engine.generate(WorldOptions(messages=messages, delay_clock="sender", delta=20))
    quarter = engine.generate(
        WorldOptions(messages=messages, delay_clock="sender", delta=20, delay_law="quarter")
    )
    assert 1 - half.arrivals / messages == pytest.approx(0.0233, abs=0.004)
    assert quarter.arrivals == messages


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.5])
def test_copies_are_lost_one_by_one(loss):
    stream = engine.generate(WorldOptions(messages=5000, loss=loss, delay_law="quarter"))
    heard = 1 - (stream.event_kind != SEND).sum() / (9 * 5000)
    assert heard == pytest.approx(loss, abs=0.01)
    assert 1 - stream.arrivals / 5000 == pytest.approx(loss, abs=0.03)


def test_the_seed_decides_everything():
    first, again = (engine.generate(WorldOptions(messages=200, seed=7)) for _ in range(2))
    other = engine.generate(WorldOptions(messages=200, seed=8))
    assert first.event_message.tolist() == again.event_message.tolist()
    assert first.event_message.tolist() != other.event_message.tolist()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("motes", 1),
        ("epsilon", 0),
        ("delta", 0),
        ("rate", 0),
        ("rate", 1.5),
        ("messages", 0),
        ("seed", -1),
        ("loss", -0.1),
        ("loss", 1.1),
        ("gateways", 0),
        ("gateways", 257),
        ("events_per_tick", 0),
    ],
)
def test_options_no_network_could_have_are_refused(option, value):
    with pytest.raises(OptionError, match=f"^{option} = ") as refused:
        WorldOptions(**{option: value})
    assert refused.value.option == option


def test_a_topology_of_another_size_is_refused():
    with pytest.raises(OptionError, match="motes = 5"):
        WorldOptions(motes=5, topology=relayed_network())
