"""The full screen: what it shows, on small and large terminals."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.console import Console

from basestation.live.alarms import MOTE
from basestation.live.happenings import (
    Alarm,
    ClockChanged,
    Delivered,
    Name,
    Reboot,
)
from basestation.live.station import Station
from basestation.views import terminal
from basestation.views.mote_table import STATES, by_trouble, mote_table, shown_rssi, shown_since, trouble
from basestation.views.terminal import TerminalView, chosen_news, delivery_line, status
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from tests.journal.logs import with_values
from tests.live.test_guard import attacked, honest_line
from tests.live.test_guard import deployment as guarded
from tests.live.test_guard import play as guard_play
from tests.live.world import TICK, WALL, Gateway, Motes, health, play
from tests.views.runs import SETUP, START, FakeStage, busy, waiting
from tests.views.screen import LARGE, crowd, on_screen, picture, redrawn, rows_of, shows, text_of
from tests.waiting import PATIENCE, until


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


@pytest.mark.few(1)
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
        await shows(app, "boot:", "nosync:", "sat:", "hop:", "rssi:")
        await pilot.press("end")
        await shows(app, "∥:", "≥ 2 ≤ 5")

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
