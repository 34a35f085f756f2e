"""The keys of the full screen: policies, motes, pause, help."""

from __future__ import annotations

from dataclasses import replace

from basestation.live.happenings import (
    Delivered,
    Name,
)
from basestation.views.dialogs import KEYS, Help, Question
from packet_formats.records import Health
from tests.views.screen import LARGE, WIDE, crowd, on_screen, picture, redrawn, shows, text_of
from tests.waiting import until


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


def test_a_stray_key_does_not_change_a_run():
    """It asks, and shows what it would be; any answer but yes leaves all as it was."""

    async def script(app, pilot, stage):
        for no in ("escape", "n", "q"):
            await pilot.press("o", "minus")
            await shows(app, "from now on?", "So far: cbd, phi 100%.")
            await pilot.press(no)
            assert not isinstance(app.screen, Question)
        assert (stage.station.policy, stage.station.phi) == ("cbd", 100)
        assert not stage.station.earlier

    on_screen(script)


def test_at_its_limit_a_step_is_not_asked_for():
    async def script(app, pilot, stage):
        await pilot.press("plus")
        await shows(app, "cbd, phi 100%: this is the limit")
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
        await shows(app, "not sent: this is a recording")

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
