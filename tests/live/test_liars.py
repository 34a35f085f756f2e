"""One mote of a network without a key lies: what a frame costs, and how long the honest messages are held.

Steps are lines of Python that were run, so nothing here depends on the machine.
"""

import pytest

from tests.soak.hostile_costs import Cost, cost, faults, lied, ordinary


def both(scheme: str, lie: str, steps: bool, messages: int, **world) -> tuple[Cost, Cost, int]:
    deployment, frames = ordinary(scheme, messages=messages, **world)
    hostile = cost(deployment, lied(deployment, frames, lie, seed=1, each=1), steps)
    return cost(deployment, frames, steps), hostile, deployment.observer.give_up


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("scheme", "lie"),
    [
        ("vector", "random"),
        ("vector", "next"),
        ("matrix", "random"),
        ("history", "next"),
        ("last-sender", "next"),
    ],
)
def test_a_liar_holds_nobody_longer_than_the_rule_waits(scheme: str, lie: str) -> None:
    deployment, frames = ordinary(scheme, messages=150)
    hostile = cost(deployment, lied(deployment, frames, lie, seed=1, each=1), steps=False)
    assert hostile.hold_worst <= deployment.observer.give_up + 1


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["vector", "scalar"])
def test_numbers_that_nobody_has_sent_hold_nobody_for_long(scheme: str) -> None:
    plain, hostile, _ = both(scheme, "random", False, 200)
    assert hostile.hold <= 10 * plain.hold


@pytest.mark.few(1)
@pytest.mark.parametrize(("scheme", "lie"), [("vector", "random"), ("barrier", "all")])
def test_a_frame_costs_at_most_ten_times_the_ordinary(scheme: str, lie: str) -> None:
    plain, hostile, give_up = both(scheme, lie, True, 120)
    assert list(faults(hostile, plain, give_up)) == []


@pytest.mark.wide
def test_receipts_of_what_is_to_come_cost_at_most_ten_times_the_ordinary() -> None:
    """The graph of many motes is dense: each receipt of the next message changes many nodes."""
    plain, hostile, give_up = both("shlc", "next", True, 2500, motes=50, receipts=6, rate=0.01)
    assert list(faults(hostile, plain, give_up)) == []
