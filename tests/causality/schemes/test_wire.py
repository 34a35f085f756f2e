"""The papers' stamps on the wire: what a receiver reads is enough for the rule, over any run and across every wrap."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule
from basestation.causality.schemes import Scheme, Setting, make_scheme
from basestation.causality.schemes.scheme import LONG_AGO, Program, StampCodec
from basestation.simulator.options import WorldOptions
from basestation.simulator.scheme_run import play as play_stream
from basestation.simulator.simulation import generate
from packet_formats.layout import StampLayout, stamp_layout
from packet_formats.schemes import age_bits, descriptor, names
from tests.causality.runs import Run, legal_runs
from tests.causality.schemes.played import play, stamped

NAMES = [name for name in names() if not descriptor(name).is_ordered]
AGED = [name for name in NAMES if descriptor(name).has_clock]
HISTORY = 4


def method_of(name: str, setting: Setting) -> Scheme:
    return make_scheme(name, replace(setting, entries=HISTORY) if name == "history" else setting)


def layout_of(name: str, setting: Setting) -> StampLayout:
    return stamp_layout(scheme=name, epsilon=setting.epsilon, delta=setting.delta, motes=setting.motes)


class FromFirstHeard(Rule):
    """A rule that comes upon a network at work: each mote joins with the first message heard of it."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._here: set[int] = set()
        rule.begin()

    def receive(self, message, now):
        if message.source not in self._here:
            self._here.add(message.source)
            self._rule.join(message.source, message.number)
        return self._rule.receive(message, now)

    def due(self, now):
        return self._rule.due(now)

    def next_due(self):
        return self._rule.next_due()


class Reading(Rule):
    """A rule behind the wire: stamps are packed, unpacked and read; the messages come out as they went in."""

    def __init__(self, rule: Rule, wire: StampCodec, layout: StampLayout) -> None:
        self._rule, self._wire, self._layout = rule, wire, layout
        self._reader = wire.reader()
        self._sent: dict[tuple[int, int], Message] = {}

    def receive(self, message, now):
        fields = self._wire.encode(message.stamp, message.source, message.sequence)
        assert self._layout.unpack(self._layout.pack(fields)) == fields
        self._sent[message.source, message.sequence] = message
        heard = now if message.heard is None else message.heard
        stamp = self._reader.read(fields, message.source, message.sequence, heard)
        return self._rule.receive(message._replace(stamp=stamp), now)

    def due(self, now):
        return [self._as_sent(delivery) for delivery in self._rule.due(now)]

    def next_due(self):
        return self._rule.next_due()

    def _as_sent(self, delivery):
        message = delivery.message
        return delivery._replace(message=self._sent[message.source, message.sequence])


@dataclass
class FromTheMiddle:
    """A scheme whose observer joins a running network, and reads stamps from the wire, or as they were made."""

    name: str
    setting: Setting
    wired: bool

    def start(self, mote: int) -> Program:
        return method_of(self.name, self.setting).start(mote)

    def codec(self) -> StampCodec:
        return method_of(self.name, self.setting).codec()

    def as_read(self, stamp: Stamp, now: int) -> Stamp:
        return stamp

    as_observed = as_read

    def rule(self) -> Rule:
        rule = FromFirstHeard(method_of(self.name, self.setting).rule())
        if not self.wired:
            return rule
        wire = method_of(self.name, self.setting).codec()
        return Reading(rule, wire, layout_of(self.name, self.setting))

    def stamp_bits(self, stamp: Stamp) -> int:
        return method_of(self.name, self.setting).stamp_bits(stamp)


def both(name: str, setting: Setting) -> tuple[FromTheMiddle, FromTheMiddle]:
    return FromTheMiddle(name, setting, False), FromTheMiddle(name, setting, True)


@pytest.mark.few(5)
@settings(max_examples=60)
@given(run=legal_runs())
@pytest.mark.parametrize("name", NAMES)
def test_a_rule_does_the_same_behind_the_wire(name: str, run: Run) -> None:
    if run.motes**2 > 25:
        return
    plain, wired = both(name, Setting(run.motes, run.epsilon, run.delta))
    assert play(run, wired).deliveries == play(run, plain).deliveries


@pytest.mark.few(5)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gateways", [1, 3])
@pytest.mark.parametrize("loss", [0.1, pytest.param(0.0, marks=pytest.mark.wide)])
def test_wrapping_counters_change_no_delivery(name: str, loss: float, gateways: int) -> None:
    """Each mote sends some seven hundred messages: every counter goes round twice and more."""
    network = {"motes": 4, "epsilon": 4, "delta": 8, "gateways": gateways}
    options = WorldOptions(**network, messages=2800, loss=loss, seed=3)
    plain, wired = both(name, Setting(4, 4, 8))
    stream = generate(options).stream
    expected, found = play_stream(stream, plain), play_stream(stream, wired)
    assert found.order.tolist() == expected.order.tolist()
    assert found.hold.tolist() == expected.hold.tolist()
    assert len(found.order) > 2000
    assert max(stream.sent_index) > 600


@settings(max_examples=60)
@given(run=legal_runs())
def test_delta_vector_delivers_as_delta_causal(run: Run) -> None:
    setting = Setting(run.motes, run.epsilon, run.delta)
    one, other = (play(run, make_scheme(name, setting)) for name in ("delta-vector", "delta-causal"))
    assert [(d.message.source, d.message.sequence, d.left) for d in one.deliveries] == [
        (d.message.source, d.message.sequence, d.left) for d in other.deliveries
    ]
    assert (one.gave_up, one.discarded) == (other.gave_up, other.discarded)


@settings(max_examples=60)
@given(run=legal_runs())
def test_a_history_that_is_long_enough_is_the_whole_history(run: Run) -> None:
    setting = Setting(run.motes, run.epsilon, run.delta)
    short, whole = (
        play(run, make_scheme("history", replace(setting, entries=10_000))),
        play(run, make_scheme("history", setting)),
    )
    assert short.order == whole.order
    assert short.left == whole.left


@given(run=legal_runs())
@pytest.mark.parametrize("name", NAMES)
def test_a_stamp_is_as_wide_as_its_layout(name: str, run: Run) -> None:
    setting = Setting(run.motes, run.epsilon, run.delta)
    if run.motes**2 > 25:
        return
    layout, method = layout_of(name, setting), method_of(name, setting)
    wire = method_of(name, setting).codec()
    for message in stamped(run, method):
        items = layout.items_of(len(wire.encode(message.stamp, message.source, message.sequence)))
        assert items is not None
        if name not in ("last-sender", "history"):  # whose sources take whole bytes
            bits = 8 * layout.size_of(items) if layout.is_variable else layout.bits
            assert method.stamp_bits(message.stamp) == bits


@given(st.integers(1, 2000), st.integers(1, 20000))
def test_both_sides_agree_on_the_width_of_an_age(epsilon: int, delta: int) -> None:
    assert age_bits(epsilon, delta) == Setting(2, epsilon, delta).age_bits


def test_a_counter_for_a_mote_not_heard_yet_reads_as_nothing() -> None:
    vector = make_scheme("vector", Setting(3, 1, 1)).codec().reader()
    assert vector.read((57, 200), 0, 1, 0).kn == (1, 0, 0)
    assert vector.newest(1) is None
    assert vector.read((1, 0), 1, 55, 0).kn == (1, 55, 0)
    assert vector.read((57, 200), 0, 2, 0).kn == (2, 57, 0)
    assert vector.newest(1) == 57
    names = make_scheme("last-sender", Setting(3, 1, 1)).codec().reader()
    assert names.read((1, 56), 0, 1, 0).kn == ()
    names.read((1, 54), 1, 55, 0)
    assert names.read((1, 56), 0, 2, 0).kn == (1, 57)


def test_a_number_far_ahead_needs_a_second_mote() -> None:
    reader = make_scheme("vector", Setting(4, 1, 1)).codec().reader()
    for mote in range(4):
        reader.read((0, 0, 0), mote, 10, 0)
    assert reader.read((10, 110, 10), 0, 11, 0).kn == (11, 10, 0, 10)  # mote 2 has sent 10
    assert reader.read((10, 120, 10), 0, 12, 0).kn == (12, 10, 0, 10)
    assert (reader.newest(2), reader.bounded) == (10, 2)
    assert reader.read((12, 121, 10), 1, 11, 0).kn == (12, 11, 121, 10)  # another one says so, too
    assert reader.newest(2) == 121
    reader.read((12, 11, 10), 2, 12, 0)
    assert reader.newest(2) == 12  # it knows best itself


def test_no_liar_lifts_a_scalar_clock_by_a_round() -> None:
    reader = make_scheme("scalar", Setting(4, 1, 1)).codec().reader()
    reader.read((10,), 0, 1, 0)
    for number in range(5):
        assert reader.read((110 + 100 * number & 255,), 3, 1 + number, 0).kn[0] <= 10
    assert reader.read((12,), 0, 2, 0).kn == (12,)
    assert reader.read((90,), 1, 1, 0).kn == (12,)
    assert reader.read((91,), 2, 1, 0).kn == (91,)  # many were lost: two of them say so


def test_the_numbers_of_a_mote_that_started_anew_are_read_anew() -> None:
    reader = make_scheme("vector", Setting(2, 1, 1)).codec().reader()
    reader.read((0,), 1, 200, 0)
    assert reader.read((200,), 0, 1, 0).kn == (1, 200)
    reader.forget(1)
    reader.read((0,), 1, 513, 0)
    # The old boot's last counter reads as a number before the new boot's first message: no message waits for it.
    assert reader.read((200,), 0, 2, 0).kn == (2, 456)
    assert reader.newest(1) == 513


def test_a_history_that_is_full_says_so() -> None:
    wire = make_scheme("history", Setting(3, 1, 1, entries=2)).codec()
    assert not wire.saturated(Stamp(0, 0, (1, 1)))
    assert wire.saturated(Stamp(0, 0, (1, 1, 2, 1)))
    assert wire.encode(Stamp(0, 0, (1, 1)), 0, 300) == (1, 0, 0, 43)


def test_ages_keep_what_matters_and_no_more() -> None:
    setting = Setting(3, 4, 8)
    wire = make_scheme("delta-vector", setting).codec()
    last = 100 - setting.lifetime - setting.epsilon
    fields = wire.encode(Stamp(100, 0, (104, last, last - 1)), 0, 1)
    assert fields == (4, 0, setting.lifetime + 2 * setting.epsilon, 31)
    assert wire.reader().read(fields, 0, 1, 103) == Stamp(100, 0, (104, last, LONG_AGO))


@pytest.mark.parametrize("gateways", [1, 3])
@pytest.mark.parametrize("name", AGED)
def test_left_out_causes_change_no_delivery_even_if_clocks_differ_by_much(name: str, gateways: int) -> None:
    network = {"motes": 4, "epsilon": 10, "delta": 10, "gateways": gateways}
    options = WorldOptions(**network, messages=1200, loss=0.2, rate=0.2, seed=7)
    plain, wired = both(name, Setting(4, 10, 10))
    stream = generate(options).stream
    expected, found = play_stream(stream, plain), play_stream(stream, wired)
    assert (found.order.tolist(), found.hold.tolist()) == (expected.order.tolist(), expected.hold.tolist())
