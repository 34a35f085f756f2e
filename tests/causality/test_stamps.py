"""The stamp programs against the papers' own text, saturation, the bound, and the wire fields."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.order import Message, Stamp, key
from basestation.causality.schemes import TimedScheme
from basestation.causality.schemes.kn import KnProgram
from tests.causality.oracles import ArrayStamp, Figure1, TextbookHlc, TextbookShlc, carried, least_modulus
from tests.causality.runs import SEND, Run, legal_runs
from tests.causality.timed import timed

WIDE = (1 << 16) - 1


def kn_scheme(
    epsilon: int, delta: int, entries: int, count: str = "events", entry_max: int = WIDE
) -> TimedScheme:
    return timed("kn", epsilon, delta, least_modulus(epsilon, delta), entries, entry_max, count)


def hlc_scheme(
    name: str, epsilon: int, delta: int, entry_max: int = WIDE, carry: str = "pair", spare: int = 0
) -> TimedScheme:
    return timed(name, epsilon, delta, least_modulus(epsilon, delta) + spare, 1, entry_max, carry=carry)


class Stepped:
    """A run stamped by a scheme, everything read off the wire modulo B."""

    def __init__(self, run: Run, scheme: TimedScheme) -> None:
        self.stamps: list[Stamp] = []
        self.wrong_unwraps = 0
        self.programs = [scheme.start(0) for _ in range(run.motes)]
        for step in run.steps:
            if step.kind == SEND:
                self.stamps.append(self.programs[step.process].on_send(step.clock))
                continue
            meant = [self.stamps[message] for message in step.messages]
            read = [scheme.decode(scheme.encode(stamp), step.clock) for stamp in meant]
            self.wrong_unwraps += sum(a != b for a, b in zip(meant, read, strict=True))
            if step.process < run.motes:
                self.programs[step.process].merge(step.clock, read)
            else:
                self.wrong_unwraps += sum(scheme.observe(stamp, step.clock) != stamp for stamp in read)
        self.bounded = sum(program.bounded for program in self.programs)


def keys_of(run: Run, stamps: list[Stamp]) -> list[tuple[int, ...]]:
    return [
        key(Message(source, number, stamp))
        for number, ((source, _), stamp) in enumerate(zip(run.sent, stamps, strict=True))
    ]


# kn against ACO figure 1


@given(run=legal_runs(), count=st.sampled_from(["events", "sends"]), data=st.data())
def test_the_window_is_figure_1_for_any_number_of_entries(run, count, data):
    entries = data.draw(st.integers(0, run.epsilon + 1))
    stepped = Stepped(run, kn_scheme(run.epsilon, run.delta, entries, count))
    oracles = [Figure1(run.epsilon, 0, count == "events") for _ in range(run.motes)]
    full: list[ArrayStamp] = []
    for step in run.steps:
        if step.kind == SEND:
            full.append(oracles[step.process].send(step.clock))
        elif step.process < run.motes:
            oracles[step.process].receive(step.clock, [full[message] for message in step.messages])
    assert stepped.stamps == [carried(stamp, entries) for stamp in full]
    assert (stepped.bounded, stepped.wrong_unwraps) == (0, 0)


garbage_events = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 9)),
        st.tuples(
            st.just("receive"),
            st.integers(0, 9),
            st.lists(st.tuples(st.integers(-12, 12), st.integers(0, 15), st.integers(0, 9)), max_size=3),
        ),
        st.tuples(st.just("corrupt"), st.integers(-30, 30), st.integers(0, 9), st.integers(0, 9)),
    ),
    max_size=40,
)


@given(epsilon=st.integers(1, 5), events=garbage_events, counts_receives=st.booleans())
def test_the_window_is_figure_1_on_garbage_too(epsilon, events, counts_receives):
    """Any clock steps, any stamps and any state: what the bound cuts, and how often, is the same."""
    count = "events" if counts_receives else "sends"
    program = KnProgram(kn_scheme(epsilon, 10, epsilon + 1, count), 0)
    oracle = Figure1(epsilon, 0, counts_receives)
    rt = 0
    for kind, *rest in events:
        if kind == "corrupt":
            ahead, c, seed = rest
            state = rt + ahead, min(c, epsilon), [(seed * (i + 3)) % 11 for i in range(epsilon + 1)]
            program.corrupt(*state)
            oracle.corrupt(*state)
            continue
        rt += rest[0]
        if kind == "send":
            assert program.on_send(rt) == carried(oracle.send(rt), epsilon + 1)
        else:
            # The receiver unwraps r to rt + epsilon at the most, whatever was sent.
            read = [(min(rt + r, rt + epsilon), c, seed) for r, c, seed in rest[1]]
            stamps = [
                Stamp(r, c, tuple((seed * (i + 2)) % 7 for i in range(epsilon + 1))) for r, c, seed in read
            ]
            program.merge(rt, stamps)
            oracle.receive(
                rt, [ArrayStamp(s.r, s.c, {s.c - i: v for i, v in enumerate(s.kn)}) for s in stamps]
            )
        assert 0 <= program.c <= epsilon
        assert program.bounded == oracle.bounded


def test_c_reaches_epsilon_and_the_entry_there_is_counted():
    """A message received before any clock ticks: the paper's range [-epsilon, epsilon) has no place for it."""
    scheme = kn_scheme(2, 3, 3)
    ahead, behind = scheme.start(0), scheme.start(0)
    sent = ahead.on_send(2)
    behind.merge(0, [sent])
    assert behind.on_send(0) == Stamp(0, 2, (1, 0, 3))


@pytest.mark.parametrize(("count", "expected"), [("events", (5,)), ("sends", (4,))])
def test_a_receive_counts_only_among_events(count, expected):
    scheme = kn_scheme(2, 3, 1, count)
    a, b = scheme.start(0), scheme.start(0)
    a.on_send(0)
    b.merge(0, [a.on_send(0)])
    assert b.on_send(0).kn == expected


# The hybrid clocks


@given(run=legal_runs(), carry=st.sampled_from(["pair", "sum"]))
@pytest.mark.parametrize(("name", "oracle"), [("hlc", TextbookHlc), ("shlc", TextbookShlc)])
def test_hybrid_clocks_are_the_textbooks_while_counters_are_wide(name, oracle, run, carry):
    stepped = Stepped(run, hlc_scheme(name, run.epsilon, run.delta, carry=carry))
    clocks = [oracle(0) for _ in range(run.motes)]
    pairs: list[tuple[int, int]] = []
    for step in run.steps:
        if step.kind == SEND:
            pairs.append(clocks[step.process].send(step.clock))
        elif step.process < run.motes:
            clocks[step.process].receive(step.clock, [pairs[message] for message in step.messages])
    assert [(stamp.top, *stamp.kn) for stamp in stepped.stamps] == pairs
    assert (stepped.bounded, stepped.wrong_unwraps) == (0, 0)
    expected_c = [
        0 if carry == "sum" else top - at for (top, _), (_, at) in zip(pairs, run.sent, strict=True)
    ]
    assert [stamp.c for stamp in stepped.stamps] == expected_c


@given(
    run=legal_runs(),
    name=st.sampled_from(["kn", "hlc", "shlc"]),
    entry_max=st.sampled_from([1, 2, 3, 4, 7, WIDE]),
    carry=st.sampled_from(["pair", "sum"]),
    spare=st.integers(0, 5),
)
def test_happened_before_implies_less_unless_the_effect_is_saturated(run, name, entry_max, carry, spare):
    if name == "kn":
        scheme = kn_scheme(run.epsilon, run.delta, run.epsilon + 1, entry_max=entry_max)
    else:
        scheme = hlc_scheme(name, run.epsilon, run.delta, entry_max, carry, spare)
    stepped = Stepped(run, scheme)
    assert (stepped.bounded, stepped.wrong_unwraps) == (0, 0)
    keys = keys_of(run, stepped.stamps)
    for effect, causes in enumerate(run.reachable()):
        if not scheme.saturated(stepped.stamps[effect]):
            assert all(keys[cause][:-2] < keys[effect][:-2] for cause in causes)
        if entry_max == WIDE:
            assert not scheme.saturated(stepped.stamps[effect])


@pytest.mark.parametrize("name", ["hlc", "shlc"])
def test_a_full_counter_carries_into_l_and_saturates_when_that_is_used_up(name):
    program = hlc_scheme(name, epsilon=2, delta=3, entry_max=3, carry="sum", spare=2).start(0)
    pairs = [(stamp.top, *stamp.kn) for stamp in (program.on_send(0) for _ in range(11))]
    assert pairs == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3), (2, 3), (2, 3)]
    assert program.bounded == 0
    assert [(s.top, *s.kn) for s in (program.on_send(1), program.on_send(3))] == [(3, 0), (3, 1)]


@pytest.mark.parametrize("carry", ["pair", "sum"])
@pytest.mark.parametrize(("epsilon", "delta"), [(2, 27), (1, 29), (10, 10), (2, 26), (4, 19)])
@pytest.mark.parametrize("name", ["hlc", "shlc"])
def test_a_burst_of_a_sender_that_is_epsilon_ahead_is_read_right_in_one_byte(name, epsilon, delta, carry):
    """B = 32. The sender carries no further than a receiver whose clock is epsilon behind can read."""
    scheme = timed(name, epsilon, delta, 32, 1, 7, carry=carry)
    ahead, behind = scheme.start(0), scheme.start(1)
    for _ in range(8 * epsilon + 8):
        sent = ahead.on_send(100 + epsilon)
        assert scheme.as_observed(sent, 100) == sent
        behind.merge(100, [scheme.as_read(sent, 100)])
        answer = behind.on_send(100)
        assert scheme.saturated(answer) or (answer.top, answer.kn) > (sent.top, sent.kn)
    assert (scheme.saturated(sent), ahead.bounded, behind.bounded) == (True, 0, 0)


@pytest.mark.parametrize(("spare", "room"), [(0, 0), (1, 1), (3, 3), (4, 4), (9, 4)])
def test_the_room_to_carry_is_what_b_leaves_of_epsilon(spare, room):
    program = hlc_scheme("shlc", epsilon=4, delta=6, entry_max=3, carry="sum", spare=spare).start(0)
    assert max(program.on_send(0).top for _ in range(20)) == room


# Saturation, the bound, the wire


@given(
    run=legal_runs(),
    name=st.sampled_from(["kn", "hlc", "shlc"]),
    entry_max=st.integers(1, 4),
    count=st.sampled_from(["events", "sends"]),
)
def test_saturation_never_wraps_and_is_flagged(run, name, entry_max, count):
    """A narrow field is the wide one cut at its top code (for kn), and a stamp with a top code says so."""
    entries = run.epsilon + 1 if name == "kn" else 1
    modulus = least_modulus(run.epsilon, run.delta)
    narrow = timed(name, run.epsilon, run.delta, modulus, entries, entry_max, count)
    wide = timed(name, run.epsilon, run.delta, modulus, entries, WIDE, count)
    for cut, whole in zip(Stepped(run, narrow).stamps, Stepped(run, wide).stamps, strict=True):
        assert all(0 <= value <= entry_max for value in cut.kn)
        assert narrow.saturated(cut) == (max(cut.kn) == entry_max)
        if name == "kn":
            assert cut == Stamp(whole.r, whole.c, tuple(min(value, entry_max) for value in whole.kn))
        else:
            assert (cut.top, *cut.kn) >= (whole.top, min(whole.kn[0], entry_max)) or cut.top > whole.top


@pytest.mark.parametrize("name", ["kn", "hlc", "shlc"])
def test_a_thousand_events_in_one_tick_stay_at_the_top_code(name):
    scheme = timed(name, 2, 3, 8, 1, 7)
    program = scheme.start(5)
    stamps = [program.on_send(5) for _ in range(1000)]
    assert [stamp.kn for stamp in stamps[50:]] == [(7,)] * 950
    assert scheme.saturated(stamps[-1])
    assert not scheme.saturated(stamps[0])
    program.merge(5, [stamps[-1]])
    assert program.on_send(5) == stamps[-1]


def test_schemes_without_entries_are_never_saturated():
    assert not timed("dpc2", 2, 3, 8, 0, 0).saturated(Stamp(5, 1, ()))


schemes = st.builds(
    lambda name, epsilon, delta, spare, entries, bits, carry: timed(
        name,
        epsilon,
        delta,
        least_modulus(epsilon, delta) + spare,
        {"kn": min(entries, epsilon + 1), "hlc": 1, "shlc": 1}.get(name, 0),
        (1 << bits) - 1,
        carry=carry if name in ("hlc", "shlc") else "pair",
    ),
    st.sampled_from(["kn", "dpc1", "dpc2", "hlc", "shlc"]),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(0, 9),
    st.integers(1, 20),
    st.integers(1, 8),
    st.sampled_from(["pair", "sum"]),
)


@given(scheme=schemes, now=st.integers(0, 1 << 34), data=st.data())
def test_the_wire_fields_bring_every_legal_stamp_back(scheme, now, data):
    r = data.draw(st.integers(now - scheme.delta - scheme.epsilon, now + scheme.epsilon))
    c = data.draw(st.integers(0, scheme.epsilon)) if scheme.carries_c else 0
    entries = st.lists(st.integers(0, scheme.entry_max), min_size=scheme.entries, max_size=scheme.entries)
    stamp = Stamp(r, c, tuple(data.draw(entries)))
    fields = scheme.encode(stamp)
    assert len(fields) == 1 + scheme.carries_c + scheme.entries
    assert 0 <= fields[0] < scheme.modulus
    assert scheme.decode(fields, now) == stamp
    widths = [(scheme.modulus - 1).bit_length()]
    widths += [scheme.epsilon.bit_length()] * scheme.carries_c + [
        scheme.entry_max.bit_length()
    ] * scheme.entries
    assert scheme.bits == sum(widths)
    assert all(value < 1 << width for value, width in zip(fields, widths, strict=True))


@given(run=legal_runs(), scheme=schemes)
def test_stamps_of_the_programs_fit_the_wire(run, scheme):
    """Also dpc1 and dpc2: r is the clock, c only where it is carried."""
    own = timed(
        scheme.name,
        run.epsilon,
        run.delta,
        least_modulus(run.epsilon, run.delta),
        min(scheme.entries, run.epsilon + 1),
        scheme.entry_max,
        carry=scheme.carry,
    )
    for stamp, (_, at) in zip(Stepped(run, own).stamps, run.sent, strict=True):
        assert 0 <= stamp.c <= run.epsilon
        assert len(stamp.kn) == own.entries
        if own.carry == "sum":
            assert (stamp.c, at <= stamp.r <= at + run.epsilon) == (0, True)
        else:
            assert stamp.r == at
        if own.name == "dpc1":
            assert stamp == Stamp(at, 0, ())


def test_dpc2_is_kn_without_entries():
    scheme = timed("dpc2", 4, 5, 14, 0, 0)
    ahead, behind = scheme.start(0), scheme.start(0)
    behind.merge(1, [ahead.on_send(4)])
    assert behind.on_send(2) == Stamp(2, 2, ())
    assert behind.on_send(9) == Stamp(9, 0, ())


FAR = 1 << 30


@pytest.mark.parametrize(
    ("name", "ahead", "carry"), list(product(["kn", "hlc", "shlc"], [6, FAR], ["pair", "sum"]))
)
def test_own_state_beyond_the_bound_is_forgotten_and_counted(name, ahead, carry):
    entries = 6 if name == "kn" else 1
    scheme = timed(name, 5, 10, 21, entries, 15, carry="pair" if name == "kn" else carry)
    program = scheme.start(0)
    program.corrupt(100 + ahead, 0, [9] * entries)
    stamp = program.on_send(100)
    assert program.bounded == 1
    assert stamp.top == 100
    assert stamp.kn == (1,) + (0,) * (entries - 1)
    program.on_send(101)
    assert program.bounded == 1


@pytest.mark.parametrize("name", ["kn", "hlc", "shlc"])
def test_own_state_at_the_bound_is_kept(name):
    scheme = timed(name, 5, 10, 21, 6 if name == "kn" else 1, 15)
    program = scheme.start(0)
    program.corrupt(105, 0, [9] * scheme.entries)
    assert program.on_send(100).top == 105
    assert program.bounded == 0


@pytest.mark.parametrize("name", ["hlc", "shlc"])
def test_a_received_l_beyond_the_bound_is_ignored_and_counted(name):
    program = hlc_scheme(name, 5, 10).start(0)
    program.merge(100, [Stamp(100, 6, (9,)), Stamp(100, 7, (9,))])
    assert program.bounded == 2
    sound = hlc_scheme(name, 5, 10).start(0)
    sound.merge(100, [])
    assert program.on_send(100) == sound.on_send(100)
    program.merge(100, [Stamp(100, 5, (9,))])
    assert program.bounded == 2
    assert program.on_send(100).top == 105


def test_of_a_received_kn_stamp_beyond_the_bound_r_alone_is_taken():
    program = kn_scheme(5, 10, 6).start(0)
    program.merge(100, [Stamp(103, 4, (9,) * 6)])
    assert program.bounded == 1
    assert program.on_send(100) == Stamp(100, 3, (0, 0, 0, 2, 0, 0))


@given(scheme=schemes, now=st.integers(0, 10_000), data=st.data())
def test_the_observer_cuts_at_its_bound(scheme, now, data):
    fields = scheme.encode(
        Stamp(data.draw(st.integers(0, 10_000)), data.draw(st.integers(0, 40)), (1,) * scheme.entries)
    )
    read = scheme.decode(fields, now)
    taken = scheme.observe(read, now)
    if read.top <= now + scheme.lead:
        assert taken == read
    else:
        assert (taken.r, taken.top, taken.kn) == (read.r, now + scheme.lead, (0,) * scheme.entries)
