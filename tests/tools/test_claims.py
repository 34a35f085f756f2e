"""A verdict follows the numbers: the same claim is upheld by points that meet it and refused by points that do not."""

from dataclasses import replace

import pytest

from tools.figures.claims import judge
from tools.figures.grid import CURVES, LAWS, PHIS, FigurePoint, gather, policies_of


def points(value):
    """Every point of every figure, at the value that `value(curve, law, policy, phi)` gives."""
    return [
        FigurePoint(curve, law, policy, phi, (value(curve, law, policy, phi),))
        for curve in CURVES
        for law in LAWS
        for policy in policies_of(curve.figure)
        for phi in PHIS
    ]


def verdict(claim, found):
    (match,) = [v for v in found if claim in v.claim]
    return match


def at_full_wait(label, level):
    return points(lambda curve, law, policy, phi: level if (curve.label, phi) == (label, 100) else 1.0)


@pytest.mark.parametrize(("level", "agrees"), [(29.9, False), (30, True), (50, True), (50.1, False)])
def test_a_stated_range_is_checked_at_both_ends(level, agrees):
    found = judge(at_full_wait("DPC1", level))
    assert verdict("DPC1 at φ = 100%", found).agrees is agrees


def test_orderings_follow_the_numbers():
    rising = judge(points(lambda curve, *_: float(CURVES.index(curve))))
    falling = judge(points(lambda curve, *_: 100.0 - CURVES.index(curve)))
    assert verdict("DAPW rises with ε/δ", rising).agrees
    assert not verdict("DAPW rises with ε/δ", falling).agrees
    assert verdict("CBD falls with ε/δ", falling).agrees
    assert not verdict("CBD falls with ε/δ", rising).agrees


def test_an_order_of_magnitude_is_ten_times():
    for factor, agrees in ((9.0, False), (11.0, True)):
        found = judge(points(lambda curve, law, policy, phi, f=factor: f if policy == "dapw" else 1.0))
        assert verdict("order of magnitude", found).agrees is agrees


def test_seeds_of_a_point_are_gathered():
    one = points(lambda *_: 1.0)
    three = [replace(point, values=(3.0,)) for point in one]
    both = gather([one, three])
    assert len(both) == len(one)
    assert all(point.values == (1.0, 3.0) and point.mean == 2.0 for point in both)
