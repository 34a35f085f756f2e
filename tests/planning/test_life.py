"""The model of how long cells last, beside the simulation that the schedule was designed with."""

from dataclasses import replace

import pytest

from basestation.planning import life
from basestation.planning.budget import PlannedNetwork
from basestation.planning.life import ScheduleError, life_of, schedule_for
from packet_formats.boards import BOARDS
from packet_formats.schedule import ms

MICAZ = PlannedNetwork(10, "micaz", 0.1, 3, data_bytes=13, stamp_bytes=2)
MICA2 = PlannedNetwork(10, "mica2", 0.1, 3, data_bytes=7, stamp_bytes=2)


@pytest.fixture
def as_designed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Motes that take no time for a frame, two messages in a frame of a CC1000, and all as the arithmetic says."""
    for board in BOARDS.values():
        quick = replace(board, radio=replace(board.radio, processing_ms=0.0))
        monkeypatch.setitem(BOARDS, board.name, quick)
    monkeypatch.setattr(life, "MESSAGES_IN_FRAME", {"CC2420": 1, "CC1000": 2})


@pytest.mark.parametrize(
    ("network", "period", "mean", "worst", "lossy_mean", "lossy_worst"),
    [
        (MICAZ, 4, 176, 137, 154, 126),
        (MICAZ, 8, 264, 207, 232, 188),
        (MICAZ, 16, 398, 311, 337, 273),
        (MICAZ, 32, 521, 417, 424, 348),
        (MICA2, 8, 177, 141, 150, 120),
        (MICA2, 16, 251, 201, 211, 171),
        (MICA2, 32, 322, 254, 258, 209),
        (replace(MICAZ, rate=0.5), 4, 102, 78, 84, 66),
    ],
)
def test_days_are_within_a_fifth_of_the_designs_simulation(
    network: PlannedNetwork,
    period: int,
    mean: float,
    worst: float,
    lossy_mean: float,
    lossy_worst: float,
    as_designed: None,
) -> None:
    schedule = schedule_for(network, 1000 * period)
    clear, lossy = (life_of(network, schedule, loss) for loss in (0.0, 0.1))
    found = [clear.days, clear.worst_days, lossy.days, lossy.worst_days]
    assert found == pytest.approx([mean, worst, lossy_mean, lossy_worst], rel=0.2)
    assert clear.worst.level == 2  # it hears three levels


def test_always_on_is_what_the_testbed_measured() -> None:
    assert life_of(MICAZ, None).days == pytest.approx(4.5, abs=0.1)
    assert life_of(MICA2, None).days == pytest.approx(9.4, abs=0.1)


def test_the_parts_add_up_and_cells_count() -> None:
    found = life_of(MICAZ, schedule_for(MICAZ, 16000))
    assert sum(found.ma_of.values()) == pytest.approx(found.ma)
    assert found.ma_of["watchdog"] == pytest.approx(0.010, abs=0.001)
    small = life_of(MICAZ, found.schedule, mah=1250)
    assert small.days == pytest.approx(found.days / 2)


def test_looks_for_urgent_messages_take_days_but_not_of_the_last_hop() -> None:
    plain = schedule_for(MICAZ, 16000)
    often = schedule_for(replace(MICAZ, urgent_ms=2000), 16000)
    assert (often.window, often.urgent_windows) == (plain.window, 7)
    without, with_looks = life_of(MICAZ, plain), life_of(MICAZ, often)
    for before, after in zip(without.levels, with_looks.levels, strict=True):
        more = 1000 * (after.ma - before.ma)  # uA
        assert more == pytest.approx(7 / 16 * 185 if after.level < 3 else 0, rel=0.1)
    assert life_of(MICAZ, schedule_for(replace(MICAZ, urgent_ms=8000), 16000)).days > with_looks.days
    with pytest.raises(ScheduleError, match="urgent_ms: must be one of 2000, 4000, 8000:"):
        schedule_for(replace(MICAZ, urgent_ms=16000), 16000)


def test_the_window_has_room_for_what_a_period_brings() -> None:
    short, long = (schedule_for(MICAZ, period) for period in (8000, 32000))
    assert (ms(short.phase), ms(long.phase)) == (pytest.approx(64, rel=0.1), pytest.approx(160, rel=0.1))
    with pytest.raises(ScheduleError, match="does not fit the period of 2000 ms"):
        schedule_for(MICA2, 2000)
