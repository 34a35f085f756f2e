"""Tentative and final: what waits by name is shown on arrival, and once more when it leaves."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from basestation.cli.listen import command as listen
from basestation.cli.replay import command as replay
from basestation.live import delivering
from basestation.live.happenings import Arrived, Delivered, Discarded, Happening, Tentative
from basestation.live.station import Station
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from tests.live.test_schemes import EARLIER, RULES, Live, deployment, vector_data
from tests.live.world import Gateway, Motes, play
from tests.live.world import deployment as clocked

NAMING = ("sequence", "last-sender", "vector", "delta-vector", "barrier")  # what the firmware has
SOURCE = "simulate@?messages=200&rate=0.1&loss=0.1&pace=0"
# Live in real time: messages wait, and some are given up by a timer with no frame to wake it.
IN_TIME = "simulate@?messages=150&rate=0.05&loss=0.1&pace=4"


@pytest.fixture
def live() -> Live:
    return Live(deployment("vector"))


def rows(found: list[Happening]) -> list[tuple[str, str, int]]:
    """Tentative and final rows as they were shown, each with its place."""
    return [
        (type(item).__name__, str(item.name), item.place)
        for item in found
        if isinstance(item, Tentative | Delivered)
    ]


def test_what_may_leave_on_arrival_is_final_and_nothing_else_is_told_of_it(live):
    live.hear(100, vector_data(0, 0, {}))
    live.hear(101, vector_data(1, 5, {0: 1}))
    assert rows(live.found) == [("Delivered", "0#0", 1), ("Delivered", "1#5", 2)]
    assert not any(item.tentative for item in live.of(Delivered))
    assert live.station.snapshot(0).final_on_arrival == 1


def test_what_waits_is_tentative_at_once_and_final_when_it_leaves(live):
    live.hear(100, vector_data(0, 0, {}))
    live.hear(101, vector_data(1, 5, {0: 3}))
    (told,) = live.of(Tentative)
    assert (str(told.name), told.number, told.place, told.data.sequence) == ("1#5", 2, 2, 5)
    assert told.missing == ("0#1..2",)
    assert told.text == f"waits for 0#1..2, at most until tick {EARLIER + 113} is over"
    (row,) = live.station.snapshot(live.gateway.last_ns).queue
    assert row.tentative
    for number in (1, 2):
        live.hear(102, vector_data(0, number, {}))
    assert live.of(Tentative) == [told]
    assert [(str(item.name), item.tentative) for item in live.of(Delivered)] == [
        ("0#0", False),
        ("0#1", False),
        ("0#2", False),
        ("1#5", True),
    ]
    assert live.station.snapshot(0).final_on_arrival == 0.75


def test_a_late_cause_stands_just_above_its_effects(live):
    for source in range(4):
        live.hear(100, vector_data(source, 0, {}))
    live.hear(101, vector_data(3, 1, {2: 2}))  # waits for 2#1
    live.hear(102, vector_data(1, 1, {0: 3}))  # waits for 0#1 and 0#2
    live.hear(103, vector_data(0, 2, {}))  # waits for 0#1, and is waited for
    told = rows(live.found)[4:]
    assert told == [("Tentative", "3#1", 5), ("Tentative", "1#1", 6), ("Tentative", "0#2", 6)]
    queue = live.station.snapshot(live.gateway.last_ns).queue
    assert [row.name for row in queue] == ["3#1", "0#2", "1#1"]
    live.finish()
    assert live.out()[4:] == ["3#1", "0#2", "1#1"]


@pytest.mark.parametrize("policy", ["cbd", "dapw", "causal", "none"])
def test_a_policy_that_waits_for_the_time_alone_has_no_tentative_rows(policy):
    setup = clocked()
    station, motes, gateway = Station(setup, policy, 100), Motes(setup), Gateway(setup)
    for number in range(20):
        gateway.hear(motes.send(number % 4, 1000 + 300 * number, (0, 1, 2, 3)), 1100 + 300 * number)
    found = play(station, gateway.out) + station.finish()
    assert len(rows(found)) == 20
    assert {kind for kind, _, _ in rows(found)} == {"Delivered"}
    assert station.snapshot(0).final_on_arrival is None


def test_a_change_to_a_policy_that_waits_by_name_shows_what_is_held():
    setup = clocked(policy="cbd")
    station, motes, gateway = Station(setup), Motes(setup), Gateway(setup)
    for source, at in ((0, 1000), (1, 1010), (0, 1020), (0, 1030)):
        data = motes.send(source, at)
        if at != 1020:  # 0#1 is lost
            gateway.hear(data, at + 10)
    assert rows(play(station, gateway.out, timers=False)) == []
    found = station.set_policy("sequence", 100)
    assert rows(found) == [("Delivered", "0#0", 1), ("Delivered", "1#0", 2), ("Tentative", "0#2", 3)]
    found = station.set_policy("cbd", 100) + station.set_policy("sequence", 100) + station.finish()
    assert rows(found) == [("Delivered", "0#2", 3)]
    assert station.snapshot(0).final_on_arrival is None  # nothing came under such a policy


def test_what_was_shown_and_is_discarded_by_a_new_policy_says_so():
    live = Live(deployment("delta-vector", observer={"policy": "sequence", "give_up": 100}))
    for tick, source, sequence in ((100, 0, 0), (101, 0, 2), (150, 1, 0)):
        live.hear(tick, Data(source, sequence, (tick % 32, 31, 31, 31, 31), data=bytes(4)))
    live.found += live.station.set_policy("delta-vector", 100)
    live.finish()
    assert [str(item.name) for item in live.of(Tentative)] == ["0#2"]
    assert [str(item.message) for item in live.of(Discarded)] == ["0#2"]
    assert live.out() == ["0#0", "1#0"]


def test_where_very_many_wait_a_row_has_no_place(live, monkeypatch):
    monkeypatch.setattr(delivering, "MOST_PLACED", 2)
    live.hear(100, vector_data(0, 0, {}))
    for number in range(3):
        live.hear(101, vector_data(1, number, {0: 2}))
    *_, told = live.of(Tentative)
    assert (told.place, told.missing, told.text) == (0, (), "is one of 3 that wait")
    live.finish()
    assert all(item.tentative for item in live.of(Delivered)[1:])


def check_rows(found: list[Happening]) -> None:
    """Each message ends once; a tentative row comes between its arrival and its end; final rows are numbered."""
    arrived, shown, ended = Counter(), Counter(), Counter()
    for item in found:
        if isinstance(item, Arrived) and item.name is not None and not item.copy:
            arrived[item.name] += 1
        elif isinstance(item, Tentative):
            shown[item.name] += 1
            assert ended[item.name] < shown[item.name] <= arrived[item.name]
        elif isinstance(item, Delivered | Discarded):
            name = item.name if isinstance(item, Delivered) else item.message
            ended[name] += 1
            assert ended[name] <= arrived[name]
    assert ended == arrived
    assert shown <= ended
    delivered = [item for item in found if isinstance(item, Delivered)]
    assert [item.place for item in delivered] == list(range(1, len(delivered) + 1))
    assert sum(item.tentative for item in delivered) <= shown.total()


@settings(max_examples=12)
@given(data=st.data())
@pytest.mark.parametrize("scheme", RULES)
def test_whatever_comes_a_tentative_row_has_one_end(scheme, data):
    setup = deployment(scheme)
    stamp = layout_of(setup).stamp
    live, tick = Live(setup), 1000
    for number in range(data.draw(st.integers(1, 12))):
        tick += data.draw(st.sampled_from([0, 1, 2, 20]))
        fields = tuple(data.draw(st.integers(0, field.top)) for field in stamp.fields)
        # A source's numbers go up, so that no name comes twice.
        live.hear(tick, Data(data.draw(st.integers(0, 3)), 2 * number, fields, data=bytes(4)))
    live.finish()
    check_rows(live.found)


def told(output: str) -> list[tuple[object, ...]]:
    """Tentative rows and ends in the order in which they were printed."""
    found = [json.loads(line) for line in output.splitlines()]
    return [
        (item["event"], *item.get("name", item.get("message")).values(), item.get("place"), item.get("text"))
        for item in found
        if item["event"] in ("tentative", "delivered", "discarded")
    ]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("scheme", "source"),
    [*((scheme, SOURCE) for scheme in NAMING), ("vector", IN_TIME), ("barrier", IN_TIME)],
)
def test_a_replay_tells_the_same_tentative_and_final_rows(scheme, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.toml").write_text(deployment(scheme).to_toml())
    run = CliRunner().invoke
    shown = run(listen, [source, "-d", "net.toml", "--log", "logs", "--json"])
    assert shown.exit_code == 0, shown.stderr
    again = run(replay, ["logs", "--json"])
    assert told(again.stdout) == told(shown.stdout)
    kinds = Counter(row[0] for row in told(shown.stdout))
    assert kinds["tentative"] > 3
    final = run(replay, ["logs", "--json", "--final"])
    assert told(final.stdout) == [row for row in told(shown.stdout) if row[0] != "tentative"]
    share = 100 * (1 - kinds["tentative"] / kinds["delivered"])
    assert f"{share:.0f}% of messages were final on arrival" in again.stderr
