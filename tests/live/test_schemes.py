"""The papers' schemes live: by the simulator's line, by the log of it, and played in memory, the same deliveries."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from basestation.causality.order import Message, Stamp
from basestation.cli.listen import command as listen
from basestation.cli.replay import command as replay
from basestation.deployed import rule_of, scheme_of
from basestation.live import delivering
from basestation.live.counters import RuleCounts
from basestation.live.delivering import listed, shown_names, why_waits
from basestation.live.happenings import Delivered, Discarded, GaveUp, Reboot
from basestation.live.station import Station
from basestation.observer import Observer
from basestation.simulator.scheme_run import stamp_messages
from basestation.simulator.simulation import generate
from basestation.sources.base import Spec
from basestation.sources.simulated_source import world_of
from packet_formats.deployment import Deployment, DeploymentError, from_dict
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.schemes import descriptor, names
from tests.live.world import Gateway

EARLIER = 1 << 32 - 7  # ticks: network time wraps, and the station starts a round ahead
SOURCE = "simulate@?messages=150&rate=0.1&loss=0.1&pace=0"

RULES = [name for name in names() if not descriptor(name).is_ordered]


def deployment(scheme: str, **tables: dict[str, object]) -> Deployment:
    wanted: dict[str, dict[str, object]] = {
        "network": {"name": "papers", "board": "micaz", "motes": 4, "data_bytes": 4},
        "clock": {"tick_log2": 7, "epsilon": 4, "delta": 8},
        "stamp": {"scheme": scheme},
    }
    return from_dict(wanted | tables)


class Spied(Observer):
    """An observer that keeps what it was given, and when."""

    taken: list[tuple[int, int, int]]

    def receive(self, data, now, *more):
        reception = super().receive(data, now, *more)
        assert reception.message is not None
        type(self).taken.append((data.source, reception.message.number, now))
        return reception


def in_memory(setup: Deployment, policy: str, taken: list[tuple[int, int, int]]):
    """The same arrivals under the rule, with stamps as the motes' programs made them and no wire between."""
    stream = generate(world_of(Spec.parse(SOURCE), setup)).stream
    sent = {(m.source, m.sequence): m for m in stamp_messages(stream, scheme_of(setup))}
    rule = rule_of(setup, policy)
    rule.begin()
    here: set[int] = set()
    out, discarded = [], 0
    for source, number, tick in taken:
        now = tick - EARLIER
        if source not in here:
            here.add(source)
            rule.join(source, number)
        out += rule.due(now)
        discarded += not rule.receive(sent[source, number], now)
        out += rule.due(now)
    while (at := rule.next_due()) is not None:
        out += rule.due(at)
    return out, discarded


def events(output: str, kind: str) -> list[dict]:
    return [item for item in map(json.loads, output.splitlines()) if item["event"] == kind]


def out_of(output: str) -> list[tuple[object, ...]]:
    return [
        (item["name"]["source"], item["name"]["sequence"], item["left"], item["late"], item["concurrent"])
        for item in events(output, "delivered")
    ]


@pytest.mark.few(4)
@pytest.mark.parametrize("scheme", RULES)
def test_live_replayed_and_in_memory_deliver_the_same(scheme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("basestation.live.station.Observer", Spied)
    Spied.taken = []
    setup = deployment(scheme)
    Path("net.toml").write_text(setup.to_toml())
    live = CliRunner().invoke(listen, [SOURCE, "-d", "net.toml", "--log", "logs", "--json"])
    assert live.exit_code == 0, live.stderr
    out, discarded = in_memory(setup, scheme, Spied.taken)
    expected = [(d.message.source, d.message.sequence - 1, d.left + EARLIER) for d in out]
    assert [row[:3] for row in out_of(live.stdout)] == expected
    assert len(expected) > 110
    for noticed, event in ((sum(bool(d.missing) for d in out), "gaveup"), (discarded, "discarded")):
        told = len(events(live.stdout, event))
        # A name that is too old to matter is not on the wire, so no rule gives it up.
        assert told <= noticed if descriptor(scheme).has_clock else told == noticed
    assert sum(row[4] for row in out_of(live.stdout)) == sum(d.concurrent for d in out)
    again = CliRunner().invoke(replay, ["logs", "--json"])
    assert again.exit_code == 0, again.stderr
    assert out_of(again.stdout) == out_of(live.stdout)
    for event in ("gaveup", "discarded"):
        assert [(item["message"], item["text"]) for item in events(again.stdout, event)] == [
            (item["message"], item["text"]) for item in events(live.stdout, event)
        ]


@pytest.mark.parametrize("scheme", RULES)
def test_what_is_pending_stands_as_it_would_leave_if_nothing_more_came(scheme):
    setup = deployment(scheme)
    stream = generate(world_of(Spec.parse("simulate@?messages=150&rate=0.4&loss=0.15"), setup)).stream
    sent, rule, compared = stamp_messages(stream, scheme_of(setup)), rule_of(setup), 0
    for index, now in zip(stream.arrival_message.tolist(), stream.arrival_clock.tolist(), strict=True):
        rule.due(now)
        rule.receive(sent[index], now)
        rule.due(now)
        pending, left, twin = rule.pending(), [], copy.deepcopy(rule)
        while (at := twin.next_due()) is not None:
            left += twin.due(at)
        assert [(one.message, one.leaves) for one in pending] == [(one.message, one.left) for one in left]
        compared += len(pending) > 1
    assert compared > 20


def test_any_stamp_can_be_delivered_by_its_numbers_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for scheme in ("shlc", "vector", "two-hop"):
        Path("net.toml").write_text(deployment(scheme).to_toml())
        live = CliRunner().invoke(listen, [SOURCE, "-d", "net.toml", "--policy", "sequence", "--json"])
        assert live.exit_code == 0, live.stderr
        rows = [row for row in out_of(live.stdout) if not row[3]]
        for mote in range(4):
            numbers = [row[1] for row in rows if row[0] == mote]
            assert numbers == sorted(numbers)
            assert len(numbers) > 20


def test_a_rule_that_cannot_read_the_stamp_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.toml").write_text(deployment("vector").to_toml())
    done = CliRunner().invoke(listen, [SOURCE, "-d", "net.toml", "--policy", "cbd"])
    assert done.exit_code == 2
    assert "the stamp here is vector, which allows none, vector, sequence" in " ".join(done.stderr.split())
    with pytest.raises(ValueError, match="the stamp here is vector"):
        Station(deployment("vector")).set_policy("cbd", 100)
    with pytest.raises(DeploymentError, match="needs stamps of vector"):
        deployment("shlc", observer={"policy": "vector"})


# ---- One mote after another ----


def vector_data(source: int, sequence: int, known: dict[int, int], boot: int = 0) -> Data:
    """`known`: how many of each other mote's messages."""
    others = [mote for mote in range(4) if mote != source]
    fields = tuple(known.get(mote, 0) % 256 for mote in others)
    return Data(source, sequence % 256, fields, boot=boot, data=bytes(4))


class Live:
    """A station that hears one gateway, tick by tick."""

    def __init__(self, setup: Deployment) -> None:
        self.station = Station(setup)
        self.gateway = Gateway(setup)
        self.found = []

    def hear(self, tick: int, data: Data) -> None:
        for line in self.gateway.hear(data, tick << 7):
            self.found += self.station.take(line)

    def finish(self) -> None:
        self.found += self.station.finish()

    def out(self) -> list[str]:
        return [str(item.name) for item in self.found if isinstance(item, Delivered)]

    def of(self, kind):
        return [item for item in self.found if isinstance(item, kind)]


@pytest.fixture
def live() -> Live:
    return Live(deployment("vector"))


def test_what_is_held_says_for_whom_it_waits(live):
    live.hear(100, vector_data(0, 0, {}))
    live.hear(100, vector_data(1, 5, {0: 1}))
    live.hear(103, vector_data(1, 6, {0: 3}))
    assert live.out() == ["0#0", "1#5"]
    (row,) = live.station.snapshot(live.gateway.last_ns).queue
    assert row.name == "1#6"
    assert row.why == f"for 0#1..2, at most until tick {EARLIER + 115} is over"
    live.hear(104, vector_data(0, 1, {}))
    (row,) = live.station.snapshot(live.gateway.last_ns).queue
    assert row.why == f"for 0#2, at most until tick {EARLIER + 115} is over"
    live.hear(105, vector_data(0, 2, {}))
    assert live.out() == ["0#0", "1#5", "0#1", "0#2", "1#6"]
    assert not live.of(GaveUp)


def test_what_does_not_come_is_given_up_by_name(live):
    live.hear(100, vector_data(0, 0, {}))
    live.hear(100, vector_data(1, 5, {0: 3}))
    live.finish()
    (gave_up,) = live.of(GaveUp)
    assert str(gave_up.message) == "1#5"
    assert gave_up.missing == ("0#1..2",)
    assert gave_up.text == "leaves without 0#1..2"
    assert live.out() == ["0#0", "1#5"]
    assert live.station.snapshot(0).noticed == RuleCounts(gave_up=1)


def test_nothing_before_the_first_message_heard_is_waited_for(live):
    live.hear(100, vector_data(0, 57, {1: 30, 2: 200}))
    live.hear(101, vector_data(1, 200, {0: 58, 3: 9}))
    assert live.out() == ["0#57", "1#200"]


def test_a_mote_that_boots_numbers_anew_and_nobody_waits_for_its_old_ones(live):
    for number in range(5):
        live.hear(100 + number, vector_data(0, number, {}))
    live.hear(105, vector_data(1, 0, {0: 5}))
    live.hear(106, vector_data(1, 1, {0: 7}))  # waits for 0#5 and 0#6, which never come
    live.hear(107, vector_data(0, 0, {}, boot=1))
    assert len(live.of(Reboot)) == 1
    assert live.out()[-2:] == ["1#1", "0#0"]
    live.hear(108, vector_data(1, 2, {0: 2}))
    (row,) = live.station.snapshot(live.gateway.last_ns).queue
    assert row.why.startswith("for 0#1,")
    live.hear(109, vector_data(0, 1, {}, boot=1))
    assert live.out()[-2:] == ["0#1", "1#2"]
    assert not live.of(GaveUp)
    # A mote that has not heard of the boot yet sends the old counter: shortly before the new numbers, and no message's.
    live.hear(110, vector_data(2, 0, {0: 250}))
    assert live.out()[-1] == "2#0"


def test_so_many_were_lost_that_the_field_has_gone_round(live):
    """Others name them all the while: the mote's own next number is read near those, and names still fit."""
    live.hear(100, vector_data(0, 0, {}))
    for number in range(60):
        live.hear(200 + 100 * number, vector_data(1, number, {0: 1 + 5 * number}))
    live.hear(7000, vector_data(0, 296, {}))
    live.hear(7001, vector_data(1, 60, {0: 297}))
    live.hear(7002, vector_data(1, 61, {0: 298}))
    (row,) = live.station.snapshot(live.gateway.last_ns).queue
    assert row.why.startswith("for 0#")
    live.hear(7003, vector_data(0, 297, {}))
    assert live.out()[-1] == "1#61"
    late = [item for item in live.of(Delivered) if item.name.source == 0 and item.late]
    assert not late


def test_what_comes_too_late_is_discarded_and_said():
    live = Live(deployment("delta-vector"))
    old = Data(0, 0, (100 % 32, 31, 31, 31, 31), data=bytes(4))
    live.hear(113, old)
    (discarded,) = live.of(Discarded)
    sent, end, heard = EARLIER + 100, EARLIER + 112, EARLIER + 113
    assert discarded.text == f"sent at tick {sent}, of use until {end}, heard at {heard}"
    assert live.out() == []
    shot = live.station.snapshot(0)
    assert (shot.held, shot.noticed.discarded, shot.motes[0].late) == (0, 1, 1)


def test_a_new_policy_may_discard_what_was_held():
    live = Live(deployment("delta-vector", observer={"policy": "sequence", "give_up": 100}))
    for tick, source, sequence in ((100, 0, 0), (101, 0, 2), (150, 1, 0)):
        live.hear(tick, Data(source, sequence, (tick % 32, 31, 31, 31, 31), data=bytes(4)))
    assert live.out() == ["0#0", "1#0"]
    live.found += live.station.set_policy("delta-vector", 100)
    (discarded,) = live.of(Discarded)
    assert str(discarded.message) == "0#2"
    live.finish()
    shot = live.station.snapshot(0)
    assert (shot.held, shot.delivered, shot.motes[0].held, shot.noticed.discarded) == (0, 2, 0, 1)


def test_the_policy_changes_and_what_is_held_waits_on(live):
    live.hear(100, vector_data(0, 0, {}))
    live.hear(100, vector_data(1, 5, {0: 1}))
    live.hear(103, vector_data(1, 6, {0: 2}))
    assert live.station.snapshot(0).policies == ("none", "vector", "sequence")
    live.found += live.station.set_policy("sequence", 100)
    assert live.out() == ["0#0", "1#5", "1#6"]
    live.found += live.station.set_policy("vector", 100)
    live.hear(104, vector_data(1, 7, {0: 2}))
    live.hear(105, vector_data(0, 1, {}))
    assert live.out()[-2:] == ["0#1", "1#7"]


def test_names_in_words():
    named = lambda source, number: (0, number - 1)  # noqa: E731
    assert shown_names([(3, 5), (3, 4), (1, 9)], "vector", named) == ("1#8", "3#3..4")
    assert shown_names([(-1, 5), (-1, 6)], "scalar", named) == ("number 5..6",)
    assert shown_names([(2, 77)], "two-hop", named) == ("what mote 2 sent at tick 77",)
    assert listed(tuple("abcdefghij")) == "a, b, c, d, e, f, g, h, 2 more"
    assert why_waits((), 8) == "until tick 7 is over"
    assert why_waits(("1#2",), 1 << 62) == "for 1#2"


def test_numbers_of_two_boots_never_meet():
    setup = deployment("vector")
    observer = Observer(setup)
    numbers = []
    for boot in range(3):
        for sequence in range(300):
            data = replace(vector_data(0, sequence, {}), boot=boot)
            message = observer.receive(data, 10 * sequence).message
            assert message is not None
            assert message.sequence == sequence
            assert (message.number - 1) % 256 == sequence % 256
            assert observer.named(0, message.number) == (boot, sequence)
            numbers.append(message.number)
    assert numbers == sorted(set(numbers))


@settings(max_examples=12)
@given(data=st.data())
@pytest.mark.parametrize("scheme", RULES)
def test_whatever_comes_leaves_again_or_is_discarded(scheme, data):
    """Any fields, any boots, numbers that jump, times that do: nothing is held for ever, nothing is lost."""
    setup = deployment(scheme)
    tops = [field.top for field in layout_of(setup).stamp.fields]
    live, tick = Live(setup), 1000
    for _ in range(data.draw(st.integers(1, 10))):
        tick += data.draw(st.sampled_from([0, 1, 2, 20, 5000]))
        fields = tuple(data.draw(st.integers(0, top)) for top in tops)
        source, sequence, boot = (data.draw(st.integers(0, most)) for most in (3, 255, 2))
        live.hear(tick, Data(source, sequence, fields, boot=boot, data=bytes(4)))
        live.station.snapshot(live.gateway.last_ns)
    live.finish()
    came = live.station.snapshot(0).received
    assert len(live.out()) + len(live.of(Discarded)) == came
    assert live.station.snapshot(0).held == 0
    assert all(mote.held == 0 for mote in live.station.snapshot(0).motes)


@pytest.mark.parametrize("scheme", RULES)
def test_boots_that_flip_with_every_message_break_nothing(scheme):
    """Each boot goes on where it was, so that in the end two of them number messages alike."""
    setup = deployment(scheme)
    tops = [field.top for field in layout_of(setup).stamp.fields]
    chance, live = random.Random(1), Live(setup)
    for number in range(200):
        fields = tuple(chance.randrange(top + 1) for top in tops)
        sequence = chance.choice((0, 200, chance.randrange(256)))
        source, boot = chance.randrange(4), number % 8
        live.hear(1000 + number // 4, Data(source, sequence, fields, boot=boot, data=bytes(4)))
    live.finish()
    came = live.station.snapshot(0).received
    assert came > 100
    assert len(live.out()) + len(live.of(Discarded)) == came


def test_messages_that_name_each_other_are_let_go_before_there_are_too_many(monkeypatch):
    """One lost message, and a time to give up in that never comes: the first go early, and are counted."""
    monkeypatch.setattr(delivering, "MOST_NAMED", 50)
    live = Live(deployment("sequence", observer={"give_up": 1 << 30}))
    for number in range(400):
        if number != 5:
            live.hear(1000 + number, Data(0, number % 256, (), data=bytes(4)))
        assert live.station.snapshot(0).held <= 50
    live.finish()
    assert len(live.out()) == 399
    assert live.station.snapshot(0).forced > 0


def test_many_held_by_name_take_no_long_time():
    """In steps, not in seconds: each message may name all others, and must not be reckoned for all of them again."""
    rule = rule_of(deployment("sequence", observer={"give_up": 1 << 30}))
    reckoned = 0

    def expires(name: tuple[int, int], here: bool, known=rule._expires) -> int:
        nonlocal reckoned
        reckoned += 1
        return known(name, here)

    rule._expires = expires
    for number in range(2, 502):
        rule.receive(Message(0, number, Stamp(0, 0, ()), True), number)
    while (at := rule.next_due()) is not None:
        rule.due(at)
    assert reckoned < 500 * 10
