"""Which stamp to choose."""

from dataclasses import replace
from functools import cache

import pytest

from basestation.planning.budget import Budget, PlannedNetwork, make_budget
from basestation.planning.candidates import candidates
from basestation.planning.chosen_stamp import deployment_of, simulate_command
from basestation.planning.stamp_choice import CandidateRow, Comparison, upper_bound_percent, worth_it
from basestation.planning.stamp_trials import Effort, compare, steps_of, topology_of, world_of
from packet_formats.deployment import parse
from packet_formats.layout import layout_of

EFFORT = Effort(messages=1500, seeds=2)


@cache
def plan(tolerance: float = 0.0, data_bytes: int = 8) -> tuple[Budget, Comparison]:
    network = PlannedNetwork(motes=12, board="micaz", rate=2, hops=3, data_bytes=data_bytes)
    budget = make_budget(network)
    return budget, compare(budget, tolerance, effort=EFFORT)


def test_every_scheme_and_packing_is_a_candidate() -> None:
    found = candidates(make_budget(PlannedNetwork(motes=10, board="micaz", rate=1), 8, 10, 10))
    names = {(one.name, one.layout.packing) for one in found}
    for entries in ("1", "2", "4", "6", "all"):
        for count in ("events", "sends"):
            assert {(f"kn {entries} {count}", packing) for packing in ("bits", "bytes")} <= names
    assert {("shlc 3", "bits"), ("hlc", "bits"), ("dpc1", "bytes"), ("dpc2", "bytes")} <= names
    assert len(found) == len(names)


def test_stamps_that_name_causes_are_measured_by_their_own_rules() -> None:
    budget, comparison = plan()
    assert {row.policy for row in comparison.named} == {"delta-vector", "barrier"}
    assert all(row.violations["any"] == 0 for row in comparison.named)
    quick, small = comparison.quickest, comparison.choice
    assert quick is not None
    assert small is not None
    assert (quick.policy, small.policy) == ("barrier", "cbd")
    assert quick.hold_mean < 0.2 * small.hold_mean
    assert small.candidate.layout.size < quick.mean_bits / 8 < 5
    assert "--messages 1000" in simulate_command(comparison, quick, 3)
    assert deployment_of(budget, quick, "quick").observer.policy == "barrier"


def test_a_tolerance_offers_the_barrier_with_a_ledger() -> None:
    _, comparison = plan(1.0)
    assert [(row.policy, row.tolerate) for row in comparison.named if row.candidate.name == "barrier"] == [
        ("barrier", None),
        ("ledger", 1.0),
    ]


def test_among_equals_the_provable_one_and_no_sub_millisecond_decides() -> None:
    budget, comparison = plan(1.0)
    rows = [row for row in comparison.measured if row.policy == "cbd" and row.phi == 100]
    exact = next(row for row in rows if row.candidate.exact)
    size = exact.candidate.layout.size
    other = next(row for row in rows if not row.candidate.exact and row.candidate.layout.size == size)
    tick_ms = budget.clock.tick_ms
    for longer_ms, wanted in ((0.0, exact), (0.9, exact), (1.1, other)):
        pair = (replace(other, hold_mean=10.0), replace(exact, hold_mean=10.0 + longer_ms / tick_ms))
        choice = replace(comparison, measured=pair, tolerance=100.0).choice
        assert choice is not None
        assert choice.candidate == wanted.candidate


def test_the_world_is_this_network() -> None:
    budget = make_budget(PlannedNetwork(motes=9, board="micaz", rate=2, hops=3))
    world = world_of(budget, Effort())
    assert world.rate == pytest.approx(2 * budget.clock.tick_ms / 1000)
    assert world.network.hops == (1, 1, 1, 2, 2, 2, 3, 3, 3)
    assert set(world.network.peers[0]) == {1, 2, 3, 4, 5}
    assert topology_of(replace(budget.network, hops=1)) is None
    assert topology_of(PlannedNetwork(motes=200, board="micaz", rate=0.01, hops=15)) is not None


def test_a_rate_above_one_a_tick_takes_several_turns() -> None:
    budget = make_budget(PlannedNetwork(motes=2, board="micaz", rate=30), tick_log2=11, epsilon=2, delta=4)
    world = world_of(budget, Effort())
    assert world.events_per_tick == 2
    assert world.rate * world.events_per_tick == pytest.approx(30 * budget.clock.tick_ms / 1000)


def test_a_very_low_rate_is_raised_unless_the_effort_is_given() -> None:
    budget = make_budget(PlannedNetwork(motes=5, board="micaz", rate=0.001))
    asked = 0.001 * budget.clock.tick_ms / 1000
    assert world_of(budget, Effort()).rate > asked
    assert world_of(budget, Effort(messages=10)).rate == pytest.approx(asked)


def test_the_choice_is_the_smallest_then_the_soonest() -> None:
    budget, comparison = plan(tolerance=0.5)
    choice = comparison.choice
    assert choice is not None
    good = [row for row in comparison.rows if row.candidate.left >= 0 and comparison.of(row) <= 0.5]
    assert choice in good
    assert choice.candidate.layout.size == min(row.candidate.layout.size for row in good)
    same = [row for row in good if row.candidate.layout.size == choice.candidate.layout.size]
    shortest = min(row.hold_mean for row in same)
    assert choice.hold_mean <= shortest + 1 / budget.clock.tick_ms  # less than a millisecond decides nothing


def test_guaranteed_stamps_have_no_violation() -> None:
    _, comparison = plan()
    sure = [row for row in comparison.measured if row.guaranteed]
    assert {row.candidate.layout.scheme for row in sure} == {"kn", "hlc", "shlc"}
    assert all(row.violations["pairs"] == 0 for row in sure)
    choice = comparison.guaranteed_choice
    assert choice is not None
    assert (choice.candidate.layout.scheme, choice.phi) == ("shlc", 100)
    assert comparison.of(choice) == 0 < comparison.of(comparison.arrival)


@pytest.mark.parametrize("strain", ["saturated", "bounded", "wrong_unwraps"])
def test_nothing_that_came_to_its_limits_is_guaranteed(strain: str) -> None:
    _, comparison = plan()
    for row in comparison.measured:
        assert not replace(row, **{strain: 1}).guaranteed  # type: ignore[arg-type]
        assert not replace(row, phi=80).guaranteed


def test_a_dense_network_fills_the_counter_and_guarantees_nothing_of_it() -> None:
    """As in the last table of docs/figures/tables.md: 3 bits are too few there, and `saturated` alone may not
    say so."""
    budget = make_budget(PlannedNetwork(motes=50, board="micaz", rate=64), 8, 10, 10)
    rows = compare(budget, effort=Effort(messages=3000, seeds=1)).measured
    for row in rows:
        if row.guaranteed:
            assert row.violations["pairs"] == 0
    narrow = [row for row in rows if row.candidate.name == "shlc 2"]
    assert not any(row.guaranteed for row in narrow)


def test_of_equals_in_the_same_bytes_the_widest_is_chosen() -> None:
    _, comparison = plan()
    choice = comparison.choice
    assert choice is not None
    assert (choice.candidate.name, [one.name for one in comparison.narrower(choice)]) == (
        "shlc 3",
        ["shlc 2"],
    )


def test_no_phi_that_is_worth_it_is_beaten() -> None:
    _, comparison = plan()
    for row in comparison.rows:
        for other in comparison.rows:
            if other is not row and (other.candidate, other.policy) == (row.candidate, row.policy):
                assert comparison.of(other) > comparison.of(row) or other.hold_mean > row.hold_mean


def test_of_equal_phis_the_first_is_kept() -> None:
    _, comparison = plan()
    row = comparison.measured[0]
    equal = [replace(row, phi=phi) for phi in (20, 40)]
    longer: CandidateRow = replace(row, phi=60, hold_mean=row.hold_mean + 1)
    assert worth_it([*equal, longer]) == [equal[0]]


def test_a_stamp_that_does_not_fit_is_never_chosen() -> None:
    budget, comparison = plan(data_bytes=25)
    assert all(one.left == 1 - one.layout.size for one in candidates(budget))
    assert comparison.choice is not None
    assert comparison.choice.candidate.left == 0
    assert any(row.candidate.left < 0 for row in comparison.rows)


def test_the_nearest_fit_and_have_the_fewest_violations() -> None:
    _, comparison = plan()
    nearest = replace(comparison, tolerance=-1.0).nearest
    assert len({row.candidate for row in nearest}) == len(nearest)
    assert comparison.of(nearest[0]) == 0


def test_rule_of_three() -> None:
    _, comparison = plan()
    assert upper_bound_percent(replace(comparison.measured[0], delivered=3000)) == pytest.approx(0.1)


def test_every_row_makes_a_deployment() -> None:
    budget, comparison = plan()
    for row in comparison.rows:
        deployment = deployment_of(budget, row, "field")
        assert parse(deployment.to_toml()) == deployment
        assert layout_of(deployment).stamp == row.candidate.layout
        assert layout_of(deployment).left == row.candidate.left


def test_the_ledger_is_offered_at_the_tolerance() -> None:
    budget, comparison = plan(0.5)
    ledgers = [row for row in comparison.measured if row.policy == "ledger"]
    assert {row.tolerate for row in ledgers} == {0.5}
    assert {row.candidate for row in ledgers} == {row.candidate for row in comparison.measured}
    assert not any(row.guaranteed for row in ledgers)
    for row in ledgers:
        observer = deployment_of(budget, row, "field").observer
        assert (observer.policy, observer.tolerate) == ("ledger", 0.5)
    shlc = next(row for row in ledgers if row.candidate.exact)
    assert shlc.violations["any"] <= 0.5
    full = next(row for row in comparison.measured if row.candidate == shlc.candidate and row.phi == 100)
    assert shlc.hold_mean < full.hold_mean
    assert all(row.tolerate is None for row in plan()[1].measured)


def test_progress_is_reported_step_by_step() -> None:
    budget = make_budget(PlannedNetwork(motes=3, board="micaz", rate=5))
    effort, calls = Effort(messages=100, seeds=1), []
    comparison = compare(budget, effort=effort, advance=lambda: calls.append(1))
    assert {row.policy for row in comparison.measured} == {"cbd"}
    assert len(calls) == steps_of(budget, effort)
