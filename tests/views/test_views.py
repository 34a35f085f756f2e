"""Lines, JSON and the full screen."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from basestation.cli.common import plain
from basestation.live.alarms import MOTE
from basestation.live.counters import Snapshot
from basestation.live.happenings import (
    Alarm,
    ClockChanged,
    Delivered,
    Discarded,
    Happening,
    Name,
    Note,
    Reboot,
    Restarted,
    Strange,
    Tentative,
    Violation,
)
from basestation.live.station import Station
from basestation.views import terminal
from basestation.views.dialogs import KEYS, Help, Question
from basestation.views.lines import FinalRows, LinesView, row_of, shown_age, shown_move, shown_time, summary
from basestation.views.mote_table import STATES, by_trouble, mote_table, shown_rssi, shown_since, trouble
from basestation.views.ndjson import JsonView, to_plain
from basestation.views.streams import StreamsView
from basestation.views.terminal import TerminalView, chosen_news, delivery_line, status
from packet_formats.deployment import CRYSTAL_HZ, RadioSettings, from_dict
from packet_formats.json_form import message_to_plain
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.records import Health
from tests.journal.logs import with_values
from tests.live.test_guard import attacked, honest_line
from tests.live.test_guard import deployment as guarded
from tests.live.test_guard import play as guard_play
from tests.live.world import MS, TICK, WALL, Gateway, Motes, arrival, deployment, gap, health, play
from tests.waiting import PATIENCE, until

SETUP = deployment(policy="cbd", phi=100)
START = 100 * CRYSTAL_HZ


def busy(policy: str = "cbd") -> tuple[Station, list[Happening], int]:
    """A short run with something of everything, the last messages still held."""
    station, motes, gateway = Station(SETUP, policy, 100), Motes(SETUP, START), Gateway(SETUP)
    station.add_gateway(0, "serial@/dev/ttyUSB1:micaz")
    heard = []
    for number in range(40):
        at = START + number * 6 * TICK
        heard.append((at + (9 if number % 2 == 0 else 1) * TICK, motes.send(number % 4, at, (0, 1, 2, 3))))
    for cycles, data in sorted(heard, key=lambda item: item[0]):
        gateway.hear(data, cycles)
    found = play(station, gateway.out)
    now = gateway.last_ns + MS
    found += station.take(arrival(b"\x99\x00", now))
    found += station.take(arrival(health(2, START, SETUP, layout=5), now))
    return station, found, now


def waiting() -> tuple[Station, list[Happening], int]:
    """A short run under a rule that waits by name: 1#0 is final, 0#2 waits for 0#1, and 0#3 for both."""
    station, motes, gateway = Station(SETUP, "sequence"), Motes(SETUP, START), Gateway(SETUP)
    for number, mote in enumerate((0, 0, 0, 0, 1)):
        data = motes.send(mote, START + number * TICK)
        if number != 1:
            gateway.hear(data, START + (number + 2) * TICK)
    return station, play(station, gateway.out), gateway.last_ns


class FakeStage:
    def __init__(self, run: Callable[[], tuple[Station, list[Happening], int]]) -> None:
        self.station, self.found, self.mono_ns = run()

    def snapshot(self) -> Snapshot:
        return self.station.snapshot(self.mono_ns)

    def set_policy(self, name: str, phi: int, tolerate: float | None = None) -> None:
        self.station.set_policy(name, phi, tolerate)


# ---- Lines ----


def test_the_summary_tells_of_a_line_that_was_too_slow():
    shot = FakeStage(busy).snapshot()
    gateways = [replace(gateway, lags=2) for gateway in shot.gateways]
    assert "slower" not in "".join(summary(shot))
    assert ", slower than allowed for 2 times" in "".join(summary(replace(shot, gateways=gateways)))


def shown(found: list[Happening]) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    notes: list[str] = []
    view = LinesView(lambda line, style: lines.append(line), notes.append)
    for happening in found:
        view.take(happening)
    view.close()
    return lines, notes


def test_lines_are_aligned_and_say_what_matters():
    lines, _ = shown(busy()[1])
    delivered = [line for line in lines if "deliver" in line]
    assert len(delivered) > 20
    assert len({line.index(" ms") for line in delivered}) == 1
    assert any("↑" in line for line in delivered)
    assert any("↓" in line for line in delivered)
    assert any("strange" in line and "9900" in line for line in lines)
    assert any(line.split()[1] == "ALARM" and "another layout" in line for line in lines)
    assert any("health" in line and "3000 mV" in line for line in lines)


def test_violations_that_were_delivered_are_shown_and_those_of_arrival_only_counted():
    found = busy("none")[1]
    assert [item for item in found if isinstance(item, Violation) and item.order == "arrival"]
    lines, _ = shown(found)
    violations = [line for line in lines if "violation" in line]
    assert violations
    assert len(violations) == len([v for v in found if isinstance(v, Violation) and v.order == "delivery"])


def test_a_row_is_marked_until_it_is_final_and_final_rows_can_be_had_alone():
    station, found, now = waiting()
    found += station.finish()
    lines, _ = shown(found)
    kinds = [line.split()[1:3] for line in lines if "gave up" not in line]
    tentative, delivered = (
        [["tentative", "0#2"], ["tentative", "0#3"]],
        [["deliver", "0#2"], ["deliver", "0#3"]],
    )
    assert kinds == [["deliver", "0#0"], *tentative, ["deliver", "1#0"], *delivered]
    assert "waits for 0#1, at most until tick" in next(line for line in lines if "tentative" in line)
    final: list[str] = []
    view = FinalRows(LinesView(lambda line, style: final.append(line), final.append))
    for happening in found:
        view.take(happening)
    view.close()
    assert final == [line for line in lines if "tentative" not in line]
    assert "50% of messages were final on arrival" in summary(station.snapshot(now))


def test_notes_go_where_chatter_goes():
    lines, notes = shown([Note(0, 0, "the gateway is foreign")])
    assert not lines
    assert notes == ["the gateway is foreign"]


def test_every_kind_of_happening_has_its_line():
    station = Station(SETUP)
    found: list[Happening] = [
        *station.take(gap(1, back=False)),
        *station.take(gap(2, back=True)),
        *station.set_policy("dapw", 40),
        Reboot(1, 2, 3, 4, 5),
        Restarted(1, 2, 7, 12, "brown-out"),
        ClockChanged(1, 2, 0, "epoch", "time has started afresh"),
        Strange(1, 2, 0, "no packet", b"\x01"),
        Alarm(1, 2, "mote", 3, False, "over: silence"),
    ]
    assert all(row_of(item) is not None for item in found)
    lines, _ = shown(found)
    assert len(lines) == len(found) - 1  # that a line is lost, an alarm says
    assert sum("unplugged" in line for line in lines) == 2, "when it is raised, and when it is over"
    assert "dapw, phi 40%; 0 messages moved over" in "\n".join(lines)
    assert any(line.split()[-3:] == ["7", "restarted:", "brown-out"] for line in lines)


def test_moves_and_times_are_short():
    assert (shown_move(3), shown_move(-2), shown_move(0)) == ("↑3", "↓2", "")
    assert shown_time(WALL + 7 * MS).endswith(".007")


def test_a_late_message_says_so():
    data = Data(1, 2, (0, 0), data=b"\x01")
    late = Delivered(0, WALL, Name(1, 0, 2), data, 5, 5, 10, 20, 3.0, 0.0, True, False)
    row = row_of(late)
    assert row is not None
    assert row.text.endswith("late, out of sync")


def test_values_with_names_take_the_place_of_hex():
    layout = layout_of(with_values(SETUP))
    data = Data(1, 2, (0, 0), data=bytes([0x10, 0x10, 7, 0xFF]))
    left = Delivered(0, WALL, Name(1, 0, 2), data, 5, 4, 10, 20, 3.0, 0.0, False, True)
    row, tentative = (
        row_of(left, layout),
        row_of(Tentative(0, WALL, Name(1, 0, 2), data, 1, 2, (), "waits"), layout),
    )
    assert row is not None
    assert tentative is not None
    assert row.text == 'held     3.0 ms  light 411.2 lx, count 7 a, "b", t -1  ↑1'
    assert tentative.text == 'light 411.2 lx, count 7 a, "b", t -1  waits'
    assert to_plain(left, layout)["data"]["values"] == {"light": 411.2, "count": 7, "t": -1}
    lines: list[str] = []
    LinesView(lambda line, style: lines.append(line), lines.append, layout).take(left)
    assert row.text in lines[0]
    assert "101007ff" in row_of(left, layout_of(SETUP)).text


def test_an_age_that_may_be_more_says_so():
    scheduled, data = layout_of(replace(SETUP, radio=RadioSettings(16000, 1152))), Data(1, 2, (0, 0))
    ages = [shown_age(replace(data, age=code), scheduled) for code in (8, 191, 193, 255)]
    assert ages == [
        ["1.0 s old"],
        ["23.9 s old or more"],
        ["1.0 s old", "again"],
        ["63.0 s old or more", "again"],
    ]


def test_the_summary_counts_both_orders():
    station, _, now = busy()
    text = "\n".join(summary(station.snapshot(now)))
    assert "40 messages from 4 motes" in text
    assert "arrival order: at least" in text
    assert "delivered by cbd, phi 100%: no message is known to be out of causal order" in text
    assert "% of messages could be checked fully: all their causes are known" in text
    assert "serial@/dev/ttyUSB1:micaz" in text


@pytest.mark.parametrize(("scheme", "unordered"), [("shlc", True), ("barrier", True), ("vector", False)])
def test_the_summary_says_that_nothing_was_ordered_if_stamps_need_a_time_and_none_is_known(scheme, unordered):
    setup = from_dict(
        {
            "network": {"name": "test", "board": "micaz", "motes": 4},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},
            "stamp": {"scheme": scheme},
        }
    )
    station, stamp = Station(setup), {"shlc": (0, 0), "barrier": (0,) * 5, "vector": (0, 0, 0)}[scheme]
    assert not station.snapshot(0).unordered
    for sequence in range(3):
        station.take(arrival(Data(0, sequence, stamp, data=bytes(4)), sequence * MS, setup=setup))
    text = "\n".join(summary(station.snapshot(0)))
    assert ("nothing was ordered: no time is known" in text) == unordered
    assert ("causal order" in text) != unordered
    assert ("final on arrival" in text) == (scheme == "vector")


def test_the_summary_says_that_all_messages_were_sent_before_their_motes_had_the_time():
    station, setup = Station(SETUP), SETUP
    for sequence in range(3):
        data = Data(0, sequence, (0, 0), in_sync=False, data=bytes(4))
        station.take(arrival(data, sequence * MS, setup=setup))
    station.take(arrival(health(0, 5 * CRYSTAL_HZ, setup), 5000 * MS, setup=setup))
    said = "nothing was ordered: all 3 messages were sent before their motes had the network's time"
    assert said in list(summary(station.snapshot(6000 * MS)))
    station.take(arrival(Data(0, 3, (0, 0), data=bytes(4)), 6001 * MS, setup=setup))
    assert not station.snapshot(6002 * MS).unordered


def test_the_summary_of_a_run_names_every_policy_that_delivered():
    station, _, now = busy()
    station.set_policy("sequence", 100)
    station.set_policy("dapw", 50)
    text = "\n".join(summary(station.snapshot(now)))
    assert "delivered by dapw, phi 50% (before that by cbd, phi 100%; sequence): " in text


# ---- JSON ----


def test_each_happening_is_one_object():
    _, found, _ = busy()
    out: list[str] = []
    view = JsonView(lambda item: out.append(json.dumps(plain(item), allow_nan=False)), layout_of(SETUP))
    for happening in found:
        view.take(happening)
    view.close()
    objects = [json.loads(line) for line in out]
    assert len(objects) == len(found)
    kinds = {item["event"] for item in objects}
    assert {"arrived", "delivered", "violation", "strange", "alarm"} <= kinds
    delivered = next(item for item in objects if item["event"] == "delivered")
    assert delivered["name"] == {"source": 0, "boot": 0, "sequence": 0}
    assert delivered["data"]["stamp"].keys() == {"clock", "counter"}
    arrived = next(item for item in objects if item["event"] == "arrived" and item["heard"])
    assert arrived["heard"]["rssi"] == -60
    assert {"mono_ns", "wall_ns"} <= arrived.keys()


def test_tentative_rows_are_objects_of_their_own():
    _, found, _ = waiting()
    told = [to_plain(item, layout_of(SETUP)) for item in found if isinstance(item, Tentative | Delivered)]
    assert [item["event"] for item in told] == ["delivered", "tentative", "tentative", "delivered"]
    tentative = told[1]
    assert tentative["name"] == {"source": 0, "boot": 0, "sequence": 2}
    assert (tentative["place"], tentative["number"], tentative["missing"]) == (2, 2, ("0#1",))
    assert tentative["data"] == message_to_plain(found_data(found, "0#2"), layout_of(SETUP))
    assert told[0]["tentative"] is False


def found_data(found: list[Happening], name: str) -> Data:
    (data,) = (item.data for item in found if isinstance(item, Tentative) and str(item.name) == name)
    return data


# ---- Both streams side by side ----


def test_the_streams_show_what_waits_below_what_has_left():
    console = Console(file=io.StringIO(), width=100, color_system=None)
    view, (station, found, _) = StreamsView(console), waiting()

    def right() -> list[str]:
        with console.capture() as captured:
            console.print(view.picture())
        cells = [line.split("│")[2].split() for line in captured.get().splitlines() if line.startswith("│")]
        return [f"{cell[1]} {cell[2]}" for cell in cells if cell]

    for happening in found:
        view.take(happening)
    assert right() == ["0#0 held", "1#0 held", "0#2 tentative,", "0#3 tentative,"]
    for happening in station.finish():
        view.take(happening)
    assert right() == ["0#0 held", "1#0 held", "0#2 held", "0#3 held"]
    view.take(replace(next(item for item in found if isinstance(item, Tentative)), place=0))
    view.take(Discarded(0, WALL, Name(0, 0, 2), "came too late"))
    assert right() == ["0#0 held", "1#0 held", "0#2 held", "0#3 held"]
    view.close()


# ---- The full screen ----


def text_of(app: TerminalView, name: str) -> str:
    widget = app.query_one(f"#{name}")
    console = Console(width=160, height=60, color_system=None)
    with console.capture() as captured:
        console.print(widget.content)  # type: ignore[attr-defined]
    return captured.get()


SMALL, WIDE, LARGE = (80, 24), (150, 24), (150, 48)  # the smaller, the faster to draw


def on_screen(script, size: tuple[int, int] = SMALL, run=busy, final: bool = False, order=None) -> None:
    """Run a script with the view on a made-up terminal, once its first picture is complete."""

    async def work() -> None:
        stage = FakeStage(run)
        app = TerminalView(stage, final, order=order)
        app.NOTIFICATION_TIMEOUT = 5 * PATIENCE  # a busy machine may look for it late
        for happening in stage.found:
            app.take(happening)
        async with app.run_test(size=size, notifications=True) as pilot:
            await shows(app, "too small" if app.screen.has_class("small") else "q Quit")
            await script(app, pilot, stage)

    asyncio.run(asyncio.wait_for(work(), 5 * PATIENCE))  # a script waits for several things


def picture(app: TerminalView) -> str:
    """What is really on the terminal, after all clipping."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def shows(app: TerminalView, *texts: str) -> None:
    """Wait until the terminal shows these texts."""

    def is_shown() -> bool:
        seen = picture(app)
        return all(text in seen for text in texts)

    await until(
        is_shown,
        lambda: f"{texts} in\n{picture(app)}",
        look=0.05,  # a picture takes some milliseconds to draw
    )


async def redrawn(app: TerminalView) -> None:
    """Wait for a picture that was drawn after this call."""
    drawn, again = app._draw, asyncio.Event()

    def draw(*args, **more):
        drawn(*args, **more)
        again.set()

    app._draw = draw  # type: ignore[method-assign]
    app.call_later(draw)
    await asyncio.wait_for(again.wait(), PATIENCE)
    app._draw = drawn  # type: ignore[method-assign]


def test_a_screen_on_which_nothing_happens_is_drawn_at_every_fifth_look(monkeypatch):
    monkeypatch.setattr(terminal, "LOOK_SECONDS", 5 * PATIENCE)  # the test looks

    async def script(app, pilot, stage):
        drawn = []
        monkeypatch.setattr(stage, "snapshot", lambda: drawn.append(0) or FakeStage.snapshot(stage))
        app._draw()
        for looks, pictures in ((4, 1), (1, 2), (4, 2), (1, 3)):
            for _ in range(looks):
                app._look()
            assert len(drawn) == pictures
        app.take(stage.found[-1])
        app._look()
        assert len(drawn) == 4

    on_screen(script)


def test_the_screen_shows_motes_streams_queue_rates_and_alarms():
    async def script(app, pilot, stage):
        status = text_of(app, "status")
        assert "policy cbd  phi 100%" in status
        assert "serial@/dev/ttyUSB1:micaz" in status
        assert "≥" in status
        assert "layout?" in text_of(app, "mote-table")
        assert "#" in text_of(app, "arrivals")
        assert "↑" in text_of(app, "deliveries")
        queue = text_of(app, "queue")
        assert "until tick" in queue
        assert "why it waits" in queue
        assert app.query_one("#alarms").display
        assert "another layout" in text_of(app, "alarms")
        assert "strange" in text_of(app, "news")

    on_screen(script, LARGE)


def rows_of(app: TerminalView) -> list[str]:
    """The marks and names of the deliveries' rows: `?` where a row is tentative."""
    words = [line.split() for line in text_of(app, "deliveries").splitlines()]
    return [f"? {row[1]}" if row[0] == "?" else row[1] for row in words]


def test_the_screen_shows_values_beside_deliveries():
    def line(layout) -> str:
        left = next(item for item in busy()[1] if isinstance(item, Delivered))
        view = TerminalView(None, layout=layout)
        return str(delivery_line(left, view.layout))

    assert 'light 0.0 lx, count 0 a, "b", t 0' in line(layout_of(with_values(SETUP)))
    assert line(layout_of(SETUP)) == line(None)
    assert "0000" not in line(layout_of(SETUP))


@pytest.mark.parametrize("columns", [80, 140])
def test_there_is_room_for_a_value_beside_a_delivery(columns):
    async def script(app, pilot, stage):
        app.layout = layout_of(with_values(SETUP))
        await shows(app, "light 0.0 lx")

    on_screen(script, (columns, 42))


def test_tentative_rows_stand_below_the_final_ones_until_they_leave():
    async def script(app, pilot, stage):
        await shows(app, "50% final on arrival")
        assert rows_of(app) == ["0#0", "1#0", "? 0#2", "? 0#3"]
        assert "for 0#1, at most until tick" in text_of(app, "deliveries")
        assert "tentative" not in text_of(app, "news")
        for happening in stage.station.finish():
            app.take(happening)
        await redrawn(app)
        assert rows_of(app) == ["0#0", "1#0", "0#2", "0#3"]

    on_screen(script, run=waiting)


def test_a_screen_of_final_rows_has_no_others():
    async def script(app, pilot, stage):
        await redrawn(app)
        assert rows_of(app) == ["0#0", "1#0"]
        assert "0#2" in text_of(app, "queue")

    on_screen(script, run=waiting, final=True)


def test_keys_change_policy_and_phi():
    async def script(app, pilot, stage):
        await pilot.press("o", "enter")
        assert (stage.station.policy, stage.station.tolerate) == ("ledger", 0)
        await shows(app, "policy ledger  tolerate 0%")
        await pilot.press("plus", "plus", "y")
        assert stage.station.tolerate == 0.2
        await shows(
            app, "policy ledger  tolerate 0.2%", "the ledger waits", "of 59 ms", "in a violation", "allowed"
        )
        await pilot.press("o", "enter")
        assert stage.station.policy == "sequence"
        await pilot.press("o", "o", "o", "enter")
        assert stage.station.policy == "dapw"
        await pilot.press("minus", "minus", "enter")
        assert stage.station.phi == 90
        await pilot.press("plus", "enter")
        assert stage.station.phi == 95
        await shows(app, "policy dapw  phi 95%")

    on_screen(script, WIDE)


@pytest.mark.parametrize(
    "keys",
    [
        ["o", "minus"],
        *(pytest.param(keys, marks=pytest.mark.slow) for keys in (["o"], ["minus"], ["minus", "plus"])),
    ],
)
def test_a_stray_key_does_not_change_a_run(keys):
    """It asks, and shows what it would be; any answer but yes leaves all as it was."""

    async def script(app, pilot, stage):
        for no in ("escape", "n", "q"):
            await pilot.press(*keys)
            await shows(app, "from now on?", "So far: cbd, phi 100%.")
            await pilot.press(no)
            assert not isinstance(app.screen, Question)
        assert (stage.station.policy, stage.station.phi) == ("cbd", 100)
        assert not stage.station.earlier

    on_screen(script)


def test_at_its_limit_a_step_is_not_asked_for():
    async def script(app, pilot, stage):
        await pilot.press("plus")
        await shows(app, "cbd, phi 100%: that is the limit already")
        assert not isinstance(app.screen, Question)

    on_screen(script, WIDE)


def test_where_a_policy_has_no_phi_the_keys_say_so_and_change_nothing():
    async def script(app, pilot, stage):
        stage.station.set_policy("causal", 100)
        await shows(app, "policy causal")
        await pilot.press("minus")
        await shows(app, "phi does nothing")
        assert (stage.station.policy, stage.station.phi) == ("causal", 100)
        assert "policy causal  " in text_of(app, "status")
        assert "phi" not in text_of(app, "status")

    on_screen(script)


@pytest.mark.parametrize(("size", "rows"), [((60, 16), 2), ((60, 20), 2), ((80, 24), 4), ((140, 42), 15)])
def test_each_panel_has_room_on_small_and_large_terminals(size, rows):
    async def script(app, pilot, stage):
        texts = ("policy cbd", "another layout", "mote ", "state", "2#9", "39 ms ↑1", "until tick", "q Quit")
        await shows(app, *texts)
        for name in ("motes", "arrivals", "deliveries"):
            assert app.query_one(f"#{name}").size.height >= rows, name
        assert app.query_one("#arrivals").region.y == app.query_one("#deliveries").region.y
        assert app.query_one("#queue").size.height >= 2
        assert app.query_one("#queue").outer_size.height <= size[1] / 4
        assert not app.query_one("#small").display

    on_screen(script, size)


def test_the_queue_grows_with_what_is_held():
    async def script(app, pilot, stage):
        queue = app.query_one("#queue")
        await until(lambda: queue.size.height == 3, "three messages")
        full = queue.outer_size.height
        stage.station.set_policy("none", 100)
        app._queue_heights.clear()
        await until(lambda: queue.outer_size.height == full - 2, "a low queue")
        await shows(app, "nothing")

    on_screen(script)


def crowd(count: int = 20, quiet: tuple[int, ...] = ()) -> tuple[Station, list[Happening], int]:
    """So many motes that send in turn, and some that fell silent."""
    setup = replace(SETUP, network=replace(SETUP.network, motes=count))
    station, motes, gateway = Station(setup), Motes(setup, START), Gateway(setup)
    station.add_gateway(0, "serial@/dev/ttyUSB1:micaz")
    for number in range(24 * count):
        mote, at = number % count, START + number * 20 * TICK
        if mote not in quiet or number < 12 * count:
            gateway.hear(motes.send(mote, at), at + TICK)
    found = play(station, gateway.out)
    found += station.advance(gateway.last_ns + MS)
    return station, found, gateway.last_ns + MS


@pytest.mark.parametrize(("size", "least"), [((60, 20), 7), ((80, 24), 20), ((160, 50), 20)])
def test_as_many_motes_as_can_be_are_shown_and_those_in_trouble_first(size, least):
    async def script(app, pilot, stage):
        motes = app.query_one("#motes")
        fit = f"{least} of 20 motes" if least < 20 else "20 motes"
        await until(lambda: motes.border_title == fit, lambda: f"{fit}:\n{picture(app)}")
        await shows(app, "silent", "policy cbd  phi 100%", "out of order: arrived 0  delivered 0")
        lines, place = picture(app).splitlines(), motes.content_region
        rows = [line[place.x : place.right] for line in lines[place.y : place.bottom]]
        assert [line.split()[0] for line in rows[1:4]] == ["3", "7", "11"]
        assert "\n".join(rows).count(" ok") == least - 3
        assert not any("…" in line for line in lines[:3]), "the head is cut"

    on_screen(script, size, run=lambda: crowd(quiet=(3, 7, 11)))


def test_a_mote_is_chosen_with_arrows_and_the_table_follows():
    async def script(app, pilot, stage):
        motes = app.query_one("#motes")
        await until(lambda: motes.max_scroll_y > 0, "more motes than fit")
        assert "b Blink" not in picture(app)
        await pilot.press("down", "down")
        assert app.chosen == 0  # 11 is silent, and first
        await pilot.press("up", "up", "up")
        assert app.chosen == 11
        await pilot.press("pagedown", "pagedown")
        assert app.chosen == 10
        await until(lambda: motes.scroll_y > 0, "motes scrolled")
        await shows(app, "10 ")
        await pilot.press("f")
        await shows(app, "only mote 10")
        await pilot.press("escape")
        assert (app.chosen, app.mote) == (None, None)

    on_screen(script, (60, 16), run=lambda: crowd(12, (11,)))


def test_a_chosen_mote_blinks_reports_and_reboots():
    sent: list[tuple[str, int]] = []

    async def order(words: str, mote: int) -> str:
        sent.append((words, mote))
        return f"[b]{words}[/b] was received"

    async def script(app, pilot, stage):
        await pilot.press("b", "r", "R")
        assert not sent
        await pilot.press("down", "b")
        await shows(app, "b Blink", "r Report", "R Reboot", "[b]blink all[/b] was received")
        await pilot.press("r", "R")
        await shows(app, "Reboot mote 2?")
        await pilot.press("n", "R", "y")
        await until(lambda: len(sent) == 3, "three orders")
        assert sent == [("blink all", 2), ("report", 2), ("reboot", 2)]
        app.take(next(item for item in stage.found if isinstance(getattr(item, "message", None), Health)))
        await shows(app, "health")

    on_screen(script, LARGE, order=order)


def test_a_recording_has_nobody_to_send_to():
    async def script(app, pilot, stage):
        await pilot.press("down", "b")
        await shows(app, "nobody is there to take it")

    on_screen(script)


def test_what_is_known_of_a_mote_is_in_few_letters():
    station, _, now = busy()
    first, second, *_ = station.snapshot(now).motes
    assert (first.rssi, first.relayed, shown_rssi(first)) == (-60, None, "-60?")
    assert [shown_rssi(replace(first, relayed=relayed)) for relayed in (True, False)] == ["-60r", "-60"]
    assert shown_rssi(replace(first, rssi=None)) == "-"
    assert [shown_since(seconds) for seconds in (0.4, 99, 300, 7200, 360_000)] == [
        "0s",
        "99s",
        "5m",
        "2h",
        "100h",
    ]
    lossy, silent = replace(first, alarms=("battery", "losing")), replace(second, alarms=("losing", "mote"))
    assert [mote.mote for mote in by_trouble([replace(first, mote=5), lossy, silent])] == [1, 0, 5]
    assert [trouble(mote) for mote in (first, lossy, silent)] == ["", "losing", "silent"]
    assert {kind.what for kind in MOTE} == set(STATES), "a word for each kind of alarm"


def test_a_mote_with_a_name_is_shown_with_it():
    station, _, now = busy()
    motes = station.snapshot(now).motes
    console = Console(width=100, color_system=None)

    def drawn(names: dict[int, str], room: int = 100) -> str:
        with console.capture() as captured:
            console.print(mote_table(motes, None, room, 30, names))
        return captured.get()

    assert "name" not in drawn({})
    assert "oak" in drawn({2: "oak"})
    assert "[b]by the…" in drawn({2: "[b]by the old bridge"})  # text, never markup
    assert "oak" not in drawn({2: "oak"}, 30)


def test_the_rssi_of_a_relayed_message_is_known_for_the_relays():
    """A mote three hops away gives its messages two hops; what comes with fewer has passed a relay."""
    station, motes, gateway = Station(SETUP), Motes(SETUP, START), Gateway(SETUP)
    gateway.hear(replace(health(1, START, SETUP), hops=3), START)
    for number, (hops, relayed) in enumerate(((2, False), (0, True), (1, True))):
        gateway.hear(motes.send(1, START + number * TICK, hops=hops), START + (number + 2) * TICK)
        play(station, gateway.out[-2:] if number else gateway.out)
        assert station.snapshot(gateway.last_ns).motes[0].relayed is relayed


def test_news_do_not_push_alarms_out():
    alarms = [Alarm(number, WALL, "mote", number, True, f"mote {number} is silent") for number in range(3)]
    news = [Reboot(100 + number, WALL, 1, 2, 1) for number in range(50)]
    assert chosen_news(news, alarms, 6) == [*alarms, *news[-3:]]
    assert chosen_news(news, alarms, 4) == [*alarms[1:], *news[-2:]]
    assert chosen_news(news[:1], alarms, 6) == [*alarms, news[0]]
    assert chosen_news(news, alarms, 1) == [news[-1]]
    assert chosen_news([], alarms, 1) == [alarms[-1]]


def test_a_window_that_is_too_small_says_so_until_it_grows():
    async def script(app, pilot, stage):
        assert picture(app).strip() == "the window is too small: 60 by 16 at least"
        await pilot.resize_terminal(80, 24)
        await shows(app, "deliveries")
        assert "too small" not in picture(app)

    on_screen(script, (59, 24))


def test_the_help_fits_and_names_columns_and_marks():
    async def script(app, pilot, stage):
        await pilot.press("question_mark")
        await shows(app, "boot: restarts", "nosync: ", "sat:", "hop: ", "rssi: dBm")
        await pilot.press("end")
        await shows(app, "∥ concurrent", "at least two")

    on_screen(script)


def test_keys_filter_one_mote_after_another():
    async def script(app, pilot, stage):
        await pilot.press("f")
        assert app.mote == 2  # of another layout, and first
        await shows(app, "only mote 2")
        names = {line.split()[1].split("#")[0] for line in text_of(app, "arrivals").splitlines()}
        assert names == {"2"}
        await pilot.press("f")
        assert app.mote is None
        await pilot.press("down", "f")
        assert app.mote == 0

    on_screen(script)


def test_pause_holds_the_picture_and_loses_nothing():
    async def script(app, pilot, stage):
        await pilot.press("p")
        before = text_of(app, "deliveries")
        last = [item for item in stage.found if isinstance(item, Delivered)][-1]
        app.take(replace(last, name=Name(3, 0, 7777)))
        await redrawn(app)
        assert text_of(app, "deliveries") == before
        assert "paused" in text_of(app, "status")
        await pilot.press("p")
        await shows(app, "3#7777")

    on_screen(script)


def test_help_and_quit():
    async def script(app, pilot, stage):
        assert {"p", "f", "+ -", "o", "q", "b r R"} <= {key for key, _ in KEYS}
        behind = ["p", "f", "o", "plus", "down", "b"]  # where nothing happens meanwhile
        for keys, close in ((behind, "escape"), ([], "question_mark"), ([], "q")):
            await pilot.press("question_mark", *keys)
            assert isinstance(app.screen, Help)
            await pilot.press(close)
            assert not isinstance(app.screen, Help)
        assert (app.paused, app.mote, app.chosen, app.is_running) == (False, None, None, True)
        assert not stage.station.earlier
        await pilot.press("q")
        assert not app.is_running or app._exit

    on_screen(script)


def test_a_flood_keeps_only_the_newest():
    app = TerminalView()
    data = Data(1, 2, (0, 0), data=b"\x01")
    for number in range(5000):
        app.take(Delivered(0, WALL, Name(1, 0, number), data, 1, 1, 1, 1, 0.0, 0.0, False, True))
    assert len(app._delivered) == 500


def test_text_from_outside_does_not_steer_the_terminal():
    """A line's reason is what another machine said; a source's name is what a deployment says."""

    async def script(app, pilot, stage):
        app.take(ClockChanged(1 << 62, WALL, 0, "lag", "\x1b[2J\x9bgone"))
        await redrawn(app)
        await shows(app, "␛[2J")
        assert not re.search("[\x1b\x9b]", picture(app))

    on_screen(script)


def test_the_head_of_the_screen_counts_strangers_where_there_is_a_key():
    network = guarded()
    station, _ = guard_play(network, attacked(network, honest_line(network, 30)))
    said = [str(text) for text in status(station.snapshot(0), False, None, False)]
    counts = station.snapshot(0).refused
    assert f"{counts['forged']} forged, {counts['replayed']} replayed, 0 unprotected" in said
    assert counts["forged"] > 30
    keyless = Station(replace(network, key=None)).snapshot(0)
    assert "0 unchecked" in [str(text) for text in status(keyless, False, None, False)]
