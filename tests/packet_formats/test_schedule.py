"""The schedule of a deployment: its times are the board's, and a wrong one is refused with what to write."""

import re
from typing import Any

import pytest

from packet_formats import cheader
from packet_formats.boards import BOARDS, MICA2, MICAZ
from packet_formats.deployment import Deployment, DeploymentError, from_dict, parse
from packet_formats.layout import layout_of
from packet_formats.records import Beacon
from packet_formats.schedule import ScheduleError, least_window_ms, ms, schedule_of
from tests.packet_formats.strategies import tables


def scheduled(board: str = "micaz", **radio: Any) -> Deployment:
    wanted = tables(scheme="shlc")
    wanted["network"] |= {"board": board, "hops": 3}
    wanted["clock"] = {"tick_log2": 8, "epsilon": 2, "delta": 900}
    return from_dict(wanted | {"radio": radio})


def refused(**radio: Any) -> str:
    with pytest.raises(DeploymentError) as caught:
        scheduled(**radio)
    return str(caught.value)


def test_the_times_are_those_of_the_design() -> None:
    micaz = schedule_of(MICAZ, 10, 3, 1, 16000, 1152)
    assert (micaz.period, micaz.delta_ticks(8), round(ms(micaz.phase))) == (1 << 19, 148, 96)
    assert [round(ms(each)) for each in (micaz.quiet, micaz.beacon_slot)] == [11, 16]
    mica2 = schedule_of(MICA2, 10, 3, 1, 16000, 6144)
    assert (mica2.delta_ticks(10), mica2.beacon_every) == (197, 2)
    assert [round(ms(each)) for each in (mica2.quiet, mica2.beacon_slot)] == [26, 64]


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: str(board.name))
@pytest.mark.parametrize("motes", [1, 10, 20, 60])
def test_senders_of_neighbouring_mini_slots_see_each_other_and_beacons_fit(board: Any, motes: int) -> None:
    slots = board.radio.slots
    assert slots.mini_slot > slots.turn + slots.detect + slots.clocks
    schedule = schedule_of(board, motes, 3, 1, 64000, least_window_ms(board, motes, 3, 1))
    assert schedule.slot_ids >= motes
    assert schedule.beacon_slot > schedule.guard + schedule.slot_ids * schedule.mini_slot
    assert schedule.phase > schedule.guard + schedule.quiet
    assert schedule.end < schedule.period


def test_a_wrong_schedule_is_refused_with_what_to_write() -> None:
    assert "the nearest is 8000" in refused(period_ms=8192, window_ms=1152)
    assert "radio.window_ms: this key is required" in refused(period_ms=8000)
    least = least_window_ms(MICAZ, 10, 3, 1)
    assert f"must be at least {least}" in refused(period_ms=8000, window_ms=least - 1)
    assert scheduled(period_ms=8000, window_ms=least).schedule
    too_long = refused(period_ms=2000, window_ms=3000)
    most = int(re.findall(r"period_ms = 4000, or window_ms = (\d+) at most", too_long)[0])
    assert scheduled(period_ms=2000, window_ms=most).schedule
    assert "at most" in refused(period_ms=2000, window_ms=most + 1)
    assert "at most 17999, since" in refused(period_ms=64000, window_ms=18001)
    assert "generic board" in refused(board="generic", period_ms=8000, window_ms=1152)
    assert "known: period_ms, window_ms" in refused(power_dbm=0)


def test_delta_covers_the_window() -> None:
    wanted = scheduled(period_ms=16000, window_ms=1152).to_dict()
    wanted["clock"] |= {"delta": 147}
    del wanted["clock"]["clock_bits"], wanted["observer"]
    with pytest.raises(DeploymentError, match=r"clock.delta = 147: .* set delta = 148 or more"):
        from_dict(wanted)
    wanted["clock"]["delta"] = 148
    assert from_dict(wanted).clock.clock_bits == 8


def test_it_is_part_of_the_layout_and_of_the_header() -> None:
    always, every16, every8 = (
        scheduled(),
        scheduled(period_ms=16000, window_ms=1152),
        scheduled(period_ms=8000, window_ms=1152),
    )
    assert len({layout_of(each).hash for each in (always, every16, every8)}) == 3
    assert "schedule" not in layout_of(always).canonical
    assert layout_of(every16).canonical.endswith(" schedule=19,3145,3,10 age=1 repair=5")
    assert "CAUSEWAY_SCHEDULED                  0" in cheader.render(always)
    header = cheader.render(every16)
    found = dict(re.findall(r"^#define CAUSEWAY_(\w+) +([^ \n]+)", header, re.MULTILINE))
    assert (found["SCHEDULED"], found["PERIOD_LOG2"], found["PHASE"]) == ("1", "19", "3145")
    assert int(found["WINDOW_END"].rstrip("UL")) == int(found["DATA_START"]) + 4 * 3 * 3145


def test_it_is_written_and_read_again() -> None:
    deployment = scheduled(period_ms=16000, window_ms=1152)
    assert parse(deployment.to_toml()) == deployment
    assert "[radio]" not in scheduled().to_toml()


@pytest.mark.parametrize(
    ("motes", "board", "period_ms", "expected"),
    [(10, "micaz", 16000, 5), (30, "micaz", 16000, 15), (31, "micaz", 16000, 0), (15, "mica2", 16000, 15)],
)
def test_the_list_of_what_arrived_fits_a_beacon_or_is_left_out(
    motes: int, board: str, period_ms: int, expected: int
) -> None:
    """Four messages in a window of 16 s; a MICA2's beacon comes every second window."""
    wanted: dict[str, Any] = {
        "network": {"name": "list", "board": board, "motes": motes, "hops": 3},
        "clock": {"tick_log2": 10, "epsilon": 2, "delta": 480},
        "stamp": {"scheme": "shlc"},
        "radio": {"period_ms": period_ms, "window_ms": 15000 if board == "mica2" else 8000},
    }
    layout = layout_of(from_dict(wanted))
    assert layout.repair == expected
    assert layout.record_bytes(Beacon) == 14 + expected
    assert ("REPAIR_BITS" in cheader.render(from_dict(wanted))) == bool(expected)
    never = from_dict(wanted | {"radio": wanted["radio"] | {"repair": False}})
    assert layout_of(never).repair == 0
    assert from_dict(never.to_dict()) == never
    with pytest.raises(DeploymentError, match="must be true or false"):
        from_dict(wanted | {"radio": wanted["radio"] | {"repair": 1}})


def test_urgent_windows_open_between_the_others_and_have_as_many_rounds_as_fit() -> None:
    micaz = schedule_of(MICAZ, 10, 3, 1, 16000, 1152, urgent_ms=2000)
    assert (micaz.urgent_first, micaz.urgent_windows, micaz.urgent_rounds) == (1, 7, 4)
    assert micaz.urgent_end == micaz.window, "so delta does not change"
    assert micaz.urgent_wait_ms == pytest.approx(2000 + 48 + 288, abs=5)
    # a MICA2's window is longer than the time between two of them
    mica2 = schedule_of(MICA2, 10, 3, 1, 16000, 6144, urgent_ms=4000)
    assert (mica2.urgent_first, mica2.urgent_windows, mica2.urgent_rounds) == (2, 2, 2)
    assert mica2.urgent_first * mica2.urgent > mica2.end + mica2.guard
    assert mica2.urgent_end + mica2.guard <= mica2.urgent
    for schedule in (micaz, mica2):
        assert schedule.urgent_quiet < schedule.quiet
        assert schedule.all_most > schedule.own_most


@pytest.mark.parametrize("urgent_ms", [1000, 3000, 8000, 16000])
def test_a_wrong_time_between_urgent_windows_is_refused_with_what_to_write(urgent_ms: int) -> None:
    text = refused(period_ms=8000, window_ms=1152, urgent_ms=urgent_ms)
    assert f"radio.urgent_ms = {urgent_ms}: must be one of 2000, 4000: shorter than the period" in text


def test_urgent_windows_need_room_and_three_hops_at_most() -> None:
    assert "set a longer period_ms" in refused(period_ms=2000, window_ms=500, urgent_ms=2000)
    assert "this key is required" in refused(urgent_ms=2000)
    with pytest.raises(ScheduleError, match="urgent_ms: is for networks of 3 hops at most"):
        schedule_of(MICAZ, 10, 4, 1, 16000, 1152, urgent_ms=2000)


def test_urgent_windows_are_part_of_the_layout_only_where_there_are_any() -> None:
    plain, urgent = (scheduled(period_ms=16000, window_ms=1152, **more) for more in ({}, {"urgent_ms": 2000}))
    assert layout_of(plain).hash != layout_of(urgent).hash
    assert layout_of(scheduled(period_ms=16000, window_ms=1152, urgent_ms=0)).hash == layout_of(plain).hash
    assert "URGENT" not in cheader.render(plain)
    assert re.search(r"CAUSEWAY_URGENT_LOG2 +16\b", cheader.render(urgent))
    assert parse(urgent.to_toml()) == urgent
    assert "urgent_ms" not in plain.to_toml()
