"""The short barrier: exact at the limits of G1 and G2, wrong as soon as one constant is, and fast equal to literal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from basestation.causality.ledger import Ledger
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Delivery, make_rule
from basestation.causality.schemes import Setting
from basestation.causality.schemes.barrier import Barrier, BarrierProgram
from basestation.causality.schemes.barrier_rule import BarrierRule
from basestation.causality.schemes.barrier_stamp import NO_AGE, BarrierConstants, names_of
from packet_formats.layout import stamp_layout

from ..barrier_world import BarrierWorld, Limits, Observed, deliveries, violated

SETTINGS = [(3, 8), (1, 10), (4, 2), (2, 1)]  # epsilon, delta
WORLDS = {
    "quiet": Limits(rate=0.03, loss=0.0),
    "lossy": Limits(rate=0.1, loss=0.3),
    "bursts": Limits(rate=0.1, bursts=True),
    "busy": Limits(motes=6, rate=0.3, steps=120),
    "many": Limits(motes=12, rate=0.05, steps=120),
    "partial": Limits(motes=6, rate=0.1, hears=0.4),
    "two gateways": Limits(rate=0.1, loss=0.3, gateways=2),
    "slow lines": Limits(motes=6, rate=0.15, loss=0.3, hears=0.6, gateways=2, line=12),
    "three gateways": Limits(rate=0.05, loss=0.3, gateways=3, line=4),
    "reboots": Limits(rate=0.15, reboots=0.01),
    "lost sync": Limits(rate=0.15, lost_syncs=0.01),
}
SEEDS = range(max(6, settings().max_examples // 20))  # 50 in `make test-all`


def scheme(epsilon: int, delta: int, motes: int = 12, kind: type[Barrier] = Barrier, **more: Any) -> Barrier:
    return kind(Setting(motes, epsilon, delta, **more))


# ---- The rules, written out ----


@dataclass(eq=False)
class Literal:
    """Rules 0 to 5 as docs/evidence/algorithms.md states them: whenever something happens, the least that may leave
    does."""

    constants: BarrierConstants
    wait: int
    came: list[Message] = field(default_factory=list)
    left: list[tuple[Message, int]] = field(default_factory=list)
    floors: dict[Message, int] = field(default_factory=dict)

    def run(self, observed: Observed) -> list[tuple[Message, int]]:
        clock = 0
        for now, message in observed.arrivals:
            for tick in range(clock, now + 1):
                self._let_go(tick)
            clock = now
            self.came.append(message)
            heard = now if message.heard is None else message.heard
            latest = message.stamp.top - self.constants.epsilon
            self.floors[message] = latest if message.guessed else min(heard, latest)
            self._let_go(now)
        while len(self.left) < len(self.came):
            clock += 1
            self._let_go(clock)
        return self.left

    def _let_go(self, now: int) -> None:
        while True:
            gone = [message for message, _ in self.left]
            held = sorted((m for m in self.came if m not in gone), key=key)
            chosen = next((m for m in held if self._may_leave(m, held, gone, now)), None)
            if chosen is None:
                return
            self.left.append((chosen, now))

    def _may_leave(self, m: Message, held: list[Message], gone: list[Message], now: int) -> bool:
        if m is held[0] and now > m.stamp.r + self.wait:
            return True
        if now < self.floors[m]:
            return False
        bounds = []
        for cause, b in self._links(m):
            if cause is not None and cause not in gone:
                return False
            if cause is None:
                bounds.append(b)
        if any(now <= b + self.wait for b in bounds):
            return False
        return not bounds or m is held[0] or held[0].stamp.r > max(bounds)

    def _links(self, m: Message) -> list[tuple[Message | None, int]]:
        top, (_, cut, _, age), constants = m.stamp.top, m.stamp.kn[:4], self.constants
        links: list[tuple[Message | None, int]] = []
        if not cut and age < constants.P:
            before = [
                x
                for x in self.came
                if (x.source, x.number) == (m.source, m.number - 1)
                and top - constants.WIN - constants.Y <= x.stamp.r <= top
            ]
            links.append((max(before, key=key, default=None), top - age * constants.u))
        newest = top if cut or not constants.P <= age < NO_AGE else top - (age - constants.P) * constants.v
        for name in names_of(m.stamp):
            if name[0] != m.source:
                cause = self._named(name, top)
                newest = newest if cause is None else cause.stamp.top
                links.append((cause, min(self._least_namer(name, top), newest)))
        if cut:
            links.append((None, top - age % NO_AGE * constants.u))
        return links

    def _named(self, name: tuple[int, int], top: int) -> Message | None:
        found = [
            x
            for x in self.came
            if not x.stamp.kn[2]
            and (x.source, (x.number - 1) % 16) == name
            and top - self.constants.Z <= x.stamp.r <= top
        ]
        return max(found, key=key, default=None)

    def _least_namer(self, name: tuple[int, int], top: int) -> int:
        namers = (x.stamp.r for x in self.came if name in names_of(x.stamp) and x.source != name[0])
        return min(one for one in namers if top - self.constants.Z <= one <= top)


def key(message: Message) -> tuple[int, ...]:
    return (message.stamp.r, message.stamp.kn[0], message.source, message.number)


def played(one: Barrier, observed: Observed) -> list[Delivery]:
    return list(deliveries(one.rule(), observed))


# ---- Exact at the limits ----


@pytest.mark.few(11)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("ticks", SETTINGS)
def test_nothing_leaves_before_a_cause_that_comes(world: str, ticks: tuple[int, int]) -> None:
    one = scheme(*ticks)
    bound = one.constants.W + one.constants.Y + 1
    for seed in SEEDS:
        observed = BarrierWorld(one, WORLDS[world], seed).run()
        out = played(one, observed)
        assert len(out) == len(observed.arrivals) > 5
        assert not violated(observed, out)
        assert max(d.left - d.message.heard for d in out) <= bound
        assert not any(d.late for d in out)


@pytest.mark.parametrize("world", WORLDS)
def test_the_fast_rule_delivers_what_the_rules_say(world: str) -> None:
    for seed, ticks in enumerate(SETTINGS):
        one = scheme(*ticks)
        observed = BarrierWorld(one, replace(WORLDS[world], steps=60), seed).run()
        literal = Literal(one.constants, one.constants.W).run(observed)
        assert [(d.message, d.left) for d in played(one, observed)] == literal


@st.composite
def nonsense(draw: st.DrawFn) -> Observed:
    """Arrivals that no sound mote sends: any l in reach, any names, many with the same residue."""
    constants = BarrierConstants.of(2, 3)
    now, arrivals = 100, []
    for number in range(draw(st.integers(1, 14))):
        now += draw(st.integers(0, 4))
        names = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=3))
        head = (draw(st.integers(0, 7)), draw(st.integers(0, 1)), draw(st.integers(0, 1)))
        age = draw(st.sampled_from([0, 1, 4, 7, 8, 9, 12, NO_AGE]))
        top = now + draw(st.integers(-constants.WIN, constants.Y))
        stamp = Stamp(top, 0, (*head, age, *(part for name in names for part in name)))
        which = draw(st.sampled_from([1, 2, 17, 18, 33, 34]))
        heard = draw(st.none() | st.integers(now, now + 12))
        guessed = draw(st.booleans())
        arrivals.append(
            (
                now,
                Message(
                    draw(st.integers(0, 2)), which, stamp, above=64 * number, heard=heard, guessed=guessed
                ),
            )
        )
    return Observed(arrivals, {}, [])


@given(nonsense(), st.sampled_from([0, 2, 5]))
@settings(max_examples=max(120, settings().max_examples))
def test_the_fast_rule_is_equal_for_any_stamps_and_any_wait(observed: Observed, wait: int) -> None:
    constants = BarrierConstants.of(2, 3)
    rule = BarrierRule(4, constants, Ledger(0.0, wait))
    literal = Literal(constants, wait).run(observed)
    assert [(d.message, d.left) for d in deliveries(rule, observed)] == literal


@pytest.mark.parametrize("world", ["lossy", "busy", "reboots"])
def test_held_messages_leave_as_pending_says(world: str) -> None:
    """If nothing more comes, each message leaves in the tick and in the order that `pending` gave."""
    one = scheme(3, 8)
    observed = BarrierWorld(one, replace(WORLDS[world], steps=80), 1).run()
    for count in range(0, len(observed.arrivals), 7):
        rule = one.rule()
        begun = Observed(observed.arrivals[:count], observed.sends, [])
        for now, message in begun.arrivals:
            rule.receive(message, now)
            rule.due(now)
        expected = [(p.message, p.leaves) for p in rule.pending()]
        rest = []
        while (at := rule.next_due()) is not None:
            rest += [(d.message, d.left) for d in rule.due(at)]
        assert rest == expected


# ---- Wrong with a wrong constant ----


def with_constants(**wrong: Callable[[BarrierConstants], int]) -> type[Barrier]:
    class Wrong(Barrier):
        @cached_property
        def constants(self) -> BarrierConstants:
            right = BarrierConstants.of(self.setting.epsilon, self.setting.delta)
            return replace(right, **{name: change(right) for name, change in wrong.items()})

    return Wrong


def with_stamps(change: Callable[[Stamp, bool], Stamp]) -> type[Barrier]:
    class WrongProgram(BarrierProgram):
        def on_send(self, rt: int, number: int) -> Stamp:
            first = self._first
            return change(super().on_send(rt, number), first)

    class Wrong(Barrier):
        def start(self, mote: int) -> BarrierProgram:
            return WrongProgram(self, mote)

    return Wrong


class HalfModulus(Barrier):
    @cached_property
    def modulus(self) -> int:
        return super().modulus // 2


class ShortSilence(Barrier):
    def start(self, mote: int) -> BarrierProgram:
        class Hasty(BarrierProgram):
            def restart(self, rt: int) -> None:
                super().restart(rt)
                self._up = rt

        return Hasty(self, mote)


def unmarked(stamp: Stamp, first: bool) -> Stamp:
    """Nothing is close, so two messages may share a name."""
    return stamp._replace(kn=(*stamp.kn[:2], 0, *stamp.kn[3:]))


def uncut(stamp: Stamp, first: bool) -> Stamp:
    """The stamp leaves out that it has causes without a name."""
    return stamp._replace(kn=(stamp.kn[0], 0, *stamp.kn[2:]))


def uncut_first(stamp: Stamp, first: bool) -> Stamp:
    """The first message after a start mentions nothing."""
    return stamp._replace(kn=(stamp.kn[0], 0, stamp.kn[2], NO_AGE, *stamp.kn[4:])) if first else stamp


class NoFloor(Barrier):
    def rule(self) -> BarrierRule:
        class Hasty(BarrierRule):
            def _floor(self, message: Message) -> int:
                return self._clock

        return Hasty(self.setting.motes, self.constants, Ledger(0.0, self.constants.W))


CROWDED = (Limits(rate=0.7, steps=150, loss=0.5), (1, 20))  # a mote's numbers go round modulo 16 within 2 Z
STARTS = (Limits(rate=0.3, reboots=0.02), (2, 1))
CONTROLS: dict[str, tuple[type[Barrier], Limits, tuple[int, int]]] = {
    "W one less": (with_constants(W=lambda c: c.W - 1), WORLDS["lossy"], (3, 8)),
    "WIN one less": (
        with_constants(WIN=lambda c: c.WIN - 1),
        Limits(rate=0.06, loss=0.3, late_share=0.7),
        (2, 1),
    ),
    "B halved": (HalfModulus, WORLDS["lossy"], (3, 8)),
    "no close": (with_stamps(unmarked), *CROWDED),
    "no cut": (with_stamps(uncut), *CROWDED),
    "no cut after a start": (with_stamps(uncut_first), *STARTS),
    "no silence after a start": (ShortSilence, *STARTS),
    "no floor": (NoFloor, WORLDS["slow lines"], (3, 8)),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_a_wrong_constant_is_seen(control: str) -> None:
    kind, limits, ticks = CONTROLS[control]
    right, wrong = scheme(*ticks), scheme(*ticks, kind=kind)
    for seed in range(100):
        observed = BarrierWorld(wrong, limits, seed).run()
        if violated(observed, played(wrong, observed)):
            break
    else:
        pytest.fail("no run shows a violation, so the tests above could not see one")
    observed = BarrierWorld(right, limits, seed).run()
    assert not violated(observed, played(right, observed))


class DeafWhileSilent(Barrier):
    def start(self, mote: int) -> BarrierProgram:
        class Deaf(BarrierProgram):
            def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
                if not self.is_silent(rt):
                    super().on_receive(rt, messages)

        return Deaf(self, mote)


@pytest.mark.parametrize(("kind", "order"), [(Barrier, [1, 0]), (DeafWhileSilent, [0, 1])])
def test_a_silent_mote_listens(kind: type[Barrier], order: list[int]) -> None:
    """Mote 0 boots at 0 and is silent to 5. It hears mote 1 at 4; what it sends long after is an effect all the same.

    The clocks are two ticks apart, and mote 1's message comes to the observer in the last tick that is allowed.
    """
    one = scheme(2, 1, motes=2, kind=kind)
    program, peer = one.start(0), one.start(1)
    program.restart(0)
    peer.on_send(6, 1)
    cause = Message(1, 2, peer.on_send(6, 2))
    program.on_receive(4, [cause])
    effect = Message(0, 1, program.on_send(11, 1))
    observed = Observed([(9, effect), (9, cause)], {}, [])
    assert [d.message.source for d in played(one, observed)] == order


# ---- Damage and cost ----


def test_damaged_memory_is_forgotten() -> None:
    """After all of a mote's memory was overwritten, whatever is wrong was sent within 3 Z."""
    one = scheme(3, 8)
    wrong = faults = 0
    for seed in range(35):
        observed = BarrierWorld(one, Limits(rate=0.2, damage=0.002), seed).run()
        out = played(one, observed)
        faults += len(observed.faults)
        numbers = {(s.source, s.index): name for name, s in observed.sends.items()}
        tops = {(d.message.source, d.message.number): d.message.stamp.top for d in out}
        for found in violated(observed, out):
            top = tops[numbers[found]]
            wrong += 1
            assert any(fault - one.constants.Y <= top + one.constants.Z for fault in observed.faults)
            assert min(abs(top - fault) for fault in observed.faults) <= 3 * one.constants.Z + one.constants.Y
    assert faults > 30
    assert wrong > 0  # otherwise the bound was not tried


def test_hostile_names_cost_no_more_than_what_is_held() -> None:
    """Every message names six others that never come, or one that all name: the work of an arrival stays bounded."""
    one = scheme(3, 32, motes=50)
    rule = one.rule()
    assert isinstance(rule, BarrierRule)
    worst = total = 0
    for number in range(1, 3001):
        now = number // 2
        names = [part for source in range(6) for part in (source, 3)]
        stamp = Stamp(now, 0, (number % 2, 0, 0, 1, *names))
        before = rule.evaluations
        rule.receive(Message(10 + number % 40, 4 + 16 * number, stamp), now)
        rule.due(now)
        worst, total = max(worst, rule.evaluations - before), total + rule.evaluations - before
    held = len(rule.pending())
    assert held <= 2 * (one.constants.W + one.constants.Y + 1)
    assert worst <= 4 * held
    assert sum(map(len, rule._missed.values())) < 50_000


# ---- The spec's examples, the widths and the ledger ----


def test_a_counter_that_is_full_carries_into_the_clock() -> None:
    one = scheme(3, 32, motes=10)
    program = one.start(0)
    stamps = [program.on_send(100, number) for number in range(1, 40)]
    assert [(s.r, s.kn[0]) for s in stamps[:8]] == [(100, c) for c in range(7)] + [(101, 0)]
    assert max(s.r for s in stamps) == 103  # no further than epsilon ahead of its own clock
    assert [one.codec().saturated(s) for s in stamps].index(True) == 4 * 7


def test_the_age_of_the_newest_cause_ends_a_wait_for_it() -> None:
    """A mote whose previous message is old sends the age of the newest cause: if that is lost, the wait is shorter."""
    one = scheme(3, 32, motes=3)
    program, peer = one.start(0), one.start(1)
    lost = Message(1, 1, peer.on_send(100, 1))
    program.on_receive(110, [lost])
    effect = Message(0, 1, program.on_send(120, 1))
    assert (one.constants.P, one.constants.v) == (20, 4)
    assert effect.stamp.kn[3] == 20 + (120 - 100) // 4
    (delivery,) = played(one, Observed([(122, effect)], {}, []))
    assert delivery.left == 100 + one.constants.W + 1
    soon = Message(0, 2, program.on_send(130, 2))
    assert soon.stamp.kn[3] == (130 - 120) // one.constants.u  # its previous message is not old


@pytest.mark.parametrize("motes", [10, 16, 17, 50, 64, 65, 200])
@pytest.mark.parametrize("ticks", [(3, 32), (10, 10), (1, 1), (40, 200)])
def test_the_program_and_the_layout_agree_on_widths(motes: int, ticks: tuple[int, int]) -> None:
    epsilon, delta = ticks
    one = scheme(epsilon, delta, motes)
    layout = stamp_layout("barrier", epsilon=epsilon, delta=delta, motes=motes)
    fields = dict(layout.head) | dict(layout.item)
    widths = (fields["clock"], 2 ** fields["counter"] - 1, fields["source{}"])
    assert (one.clock_bits, one.counter_top, one.source_bits) == widths
    for names in range(7):
        stamp = Stamp(0, 0, (0, 0, 0, 0, *(0,) * (2 * names)))
        assert one.stamp_bits(stamp) == 8 * layout.size_of(names)


@pytest.mark.parametrize("motes", [10, 50])
def test_the_stamp_is_as_documented(motes: int) -> None:
    """docs/reference/formats.md has these two in full."""
    layout = stamp_layout("barrier", epsilon=3, delta=32, motes=motes)
    second = 7 if motes == 10 else 42
    raw = layout.pack((1043 % 64, 2, 0, 0, 17 // 2, 3, 5, second, 14))
    assert raw.hex() == {10: "4d08357e", 50: "4d080d6ae0"}[motes]


def test_the_ledger_spends_what_is_allowed() -> None:
    """Late causes of which effects have left are counted; the wait shortens, and what was seen stays in bounds."""
    exact = scheme(3, 32, motes=6)
    loose = replace(exact, tolerate=2.0)
    limits = Limits(motes=6, rate=0.1, loss=0.1, steps=4000, late_share=0.002, mean_delay=0.05)
    observed = BarrierWorld(exact, limits, 1).run()
    rule = loose.rule()
    assert isinstance(rule, BarrierRule)
    out = list(deliveries(rule, observed))
    mean = [sum(d.left - d.arrived for d in one) / len(one) for one in (out, played(exact, observed))]
    assert mean[0] < 0.8 * mean[1]
    assert 0 < rule.late <= rule.ledger.spent
    # It starts with the whole wait to spend, and one give-up may cost more than is left.
    assert rule.ledger.spent <= rule.ledger.allowed + exact.constants.W / 4 + 20
    share = 100 * len(violated(observed, out)) / len(out)
    assert 0.5 < share < 4.0


def test_another_tolerance_forgets_nothing_that_has_left() -> None:
    """A rule that is given a new ledger delivers as before; a new rule would wait for what has left."""
    one = scheme(3, 8)
    observed = BarrierWorld(one, WORLDS["lossy"], 5).run()
    rule, out = one.rule(), []
    for place, (now, message) in enumerate(observed.arrivals):
        out += rule.due(now)
        rule.receive(message, now)
        if place % 7 == 0:
            assert rule.retune(one.rule())
        out += rule.due(now)
    while (at := rule.next_due()) is not None:
        out += rule.due(at)
    assert [(d.message, d.left) for d in out] == [(d.message, d.left) for d in played(one, observed)]
    assert not rule.retune(make_rule("cbd", 100, 3, 8))
