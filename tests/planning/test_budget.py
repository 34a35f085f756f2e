"""Delay budgets."""

import math
import re
from pathlib import Path

import pytest

from basestation.planning.budget import QUEUE_SLOTS, BudgetError, PlannedNetwork, make_budget

MEADOW = PlannedNetwork(motes=20, board="micaz", rate=0.5, hops=3, data_bytes=8, receipts=2)
STREAM = PlannedNetwork(motes=8, board="mica2", rate=0.1, hops=2, data_bytes=6)


def test_airtime_is_bytes_times_the_radio() -> None:
    # 6 + 9 + (3 + 2 * 2 + 8 + 8) + 2 bytes of 32 us; 20 + 5 + (3 + 6 + 8) + 4 bytes at 19200 bit/s
    assert (MEADOW.air_bytes, STREAM.air_bytes) == (40, 46)
    assert MEADOW.airtime_ms == pytest.approx(1.28)
    assert STREAM.airtime_ms == pytest.approx(46 * 8 / 19.2)
    longest = PlannedNetwork(motes=2, board="micaz", rate=1, tinyos=2, data_bytes=24)
    assert longest.air_bytes == 6 + 11 + 28 + 2


def test_the_parts_add_up_to_delta_and_epsilon() -> None:
    for network in (MEADOW, STREAM):
        budget = make_budget(network)
        clock = budget.clock
        assert budget.delay_ms == pytest.approx(sum(row.ms for row in budget.delay if row.counts))
        assert clock.delta == math.ceil(budget.delay_ms / clock.tick_ms)
        assert (clock.epsilon - 1) * clock.tick_ms >= budget.sync_ms
        assert clock.delta + 2 * clock.epsilon + 1 <= 32
        assert budget.warnings == budget.refusals == []


def test_the_budget_agrees_with_the_examples() -> None:
    """examples/micaz.toml and mica2.toml were worked out by hand, with slightly other frames."""
    assert make_budget(MEADOW).delay_ms == pytest.approx(123, rel=0.15)
    assert make_budget(STREAM).delay_ms == pytest.approx(248, rel=0.15)
    assert make_budget(STREAM).clock.tick_log2 == 9


def test_the_line_counts_only_behind_a_foreign_gateway() -> None:
    own, foreign = (
        make_budget(PlannedNetwork(motes=5, board="micaz", rate=0.1, foreign_gateway=foreign))
        for foreign in (False, True)
    )
    line = next(row for row in own.delay if row.name == "serial line")
    assert not line.counts
    assert line.ms == pytest.approx(own.network.line_bytes * 10 / 57.6)
    assert foreign.network.line_bytes < own.network.line_bytes
    assert foreign.delay_ms > own.delay_ms


def test_overrides_are_kept_and_judged() -> None:
    clock = make_budget(MEADOW, tick_log2=7, epsilon=3, delta=32).clock
    assert (clock.tick_log2, clock.epsilon, clock.delta) == (7, 3, 32)
    tight = make_budget(MEADOW, tick_log2=7, epsilon=1, delta=4)
    assert [warning.split(" ")[0] for warning in tight.warnings] == ["delta", "epsilon"]
    stretched = make_budget(MEADOW, delta=20)
    assert stretched.clock.delta == 20
    assert stretched.clock.tick_ms * 20 >= stretched.delay_ms
    assert make_budget(MEADOW, epsilon=20).clock.epsilon == 20


def test_load_warns_and_refuses() -> None:
    busy = make_budget(PlannedNetwork(motes=20, board="mica2", rate=1))
    assert "channel is busy 37%" in busy.warnings[0]
    over = make_budget(PlannedNetwork(motes=20, board="mica2", rate=5))
    assert "channel would be busy" in over.refusals[0]
    line = make_budget(PlannedNetwork(motes=50, board="micaz", rate=5))
    assert "serial line" in line.refusals[0]
    relay = make_budget(PlannedNetwork(motes=30, board="micaz", rate=3.5, hops=3))
    assert any("relay" in warning for warning in relay.warnings)
    queue = next(row for row in relay.delay if row.name == "queueing")
    assert queue.why.startswith(f"{QUEUE_SLOTS} frames")


def test_a_clock_that_no_field_holds_is_refused() -> None:
    for settings in ({"delta": 65535, "epsilon": 300}, {"tick_log2": 0, "epsilon": 32767}):
        with pytest.raises(BudgetError, match="16 bits"):
            make_budget(MEADOW, **settings)


@pytest.mark.parametrize(
    ("setting", "changes"),
    [
        ("motes", {"motes": 1}),
        ("hops", {"hops": 6}),
        ("rate", {"rate": 0.0}),
        ("rate", {"rate": math.nan}),
        ("beacon", {"beacon_seconds": 0.0}),
        ("data-bytes", {"data_bytes": 26}),
    ],
)
def test_what_cannot_be_is_refused(setting: str, changes: dict[str, float]) -> None:
    with pytest.raises(BudgetError) as caught:
        PlannedNetwork(**{"motes": 5, "board": "micaz", "rate": 1.0} | changes)  # type: ignore[arg-type]
    assert caught.value.setting == setting


def test_the_examples_say_what_the_budget_of_their_network_is(root: Path) -> None:
    micaz = make_budget(PlannedNetwork(motes=20, board="micaz", rate=0.5, hops=3, data_bytes=8, receipts=2))
    mica2 = make_budget(
        PlannedNetwork(motes=8, board="mica2", rate=0.1, hops=2, data_bytes=6, beacon_seconds=60)
    )
    paper = make_budget(PlannedNetwork(motes=10, board="micaz", rate=1))
    page = (root / "docs" / "guide" / "planning.md").read_text()
    for name, budget in (("micaz", micaz), ("mica2", mica2), ("paper", paper)):
        assert f"{budget.delay_ms:.0f} ms" in (root / "examples" / f"{name}.toml").read_text()
    for budget in (micaz, mica2):
        assert re.search(rf"ms instead\s+of {budget.clock.delta * budget.clock.tick_ms:.0f}:", page)
