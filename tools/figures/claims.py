"""The paper's claims about its figures, each checked against our points.

The paper's text gives ranges and orders, not the curves themselves. Every verdict is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from basestation.simulator.options import DelayLaw

from .grid import PHIS, FigurePoint, Policy


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """A claim, what we measured, and whether that agrees."""

    figure: str
    claim: str
    ours: str
    agrees: bool


class Figures:
    """Points by figure, curve, law, policy and phi."""

    def __init__(self, points: Iterable[FigurePoint]) -> None:
        self._mean = {(p.curve.figure, p.curve.label, p.law, p.policy, p.phi): p.mean for p in points}

    def at(self, figure: int, label: str, law: DelayLaw, policy: Policy, phi: int) -> float:
        return self._mean[figure, label, law, policy, phi]

    def labels(self, figure: int) -> list[str]:
        return list(dict.fromkeys(label for found, label, *_ in self._mean if found == figure))

    def all(self, figure: int, law: DelayLaw, policy: Policy, phis: Iterable[int] = PHIS) -> list[float]:
        return [self.at(figure, label, law, policy, phi) for label in self.labels(figure) for phi in phis]


def judge(points: Iterable[FigurePoint]) -> list[ClaimVerdict]:
    """Every claim of the paper's section 6, in its order."""
    figures = Figures(points)
    return [check(figures) for check in CHECKS]


def _range(values: Iterable[float]) -> str:
    found = list(values)
    return f"{min(found):.1f}–{max(found):.1f}%"


def _series(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in values)


def _within(values: Iterable[float], low: float, high: float) -> bool:
    return all(low <= value <= high for value in values)


def _rises(values: list[float]) -> bool:
    return all(a < b for a, b in pairwise(values))


def _axis(figure: int, policy: Policy, top: float) -> Callable[[Figures], ClaimVerdict]:
    def check(figures: Figures) -> ClaimVerdict:
        values = figures.all(figure, "half", policy) + figures.all(figure, "quarter", policy)
        return ClaimVerdict(
            str(figure), f"{policy.upper()}'s axis ends at {top:.0f}%", _range(values), max(values) <= top
        )

    return check


def _order_of_magnitude(figures: Figures) -> ClaimVerdict:
    middle = (80, 60, 40, 20)
    dapw, cbd = (figures.all(2, "half", policy, middle) for policy in ("dapw", "cbd"))
    ratio = sum(dapw) / max(sum(cbd), 1e-9)
    return ClaimVerdict(
        "2", "CBD an order of magnitude below DAPW", f"DAPW/CBD over φ 20–80%: {ratio:.0f} times", ratio >= 10
    )


def _dapw_rises_with_ratio(figures: Figures) -> ClaimVerdict:
    values = [figures.at(2, label, "half", "dapw", 40) for label in figures.labels(2)]
    return ClaimVerdict("2", "DAPW rises with ε/δ", f"φ = 40%, ε = 5…30: {_series(values)}%", _rises(values))


def _cbd_falls_with_ratio(figures: Figures) -> ClaimVerdict:
    values = [figures.at(2, label, "half", "cbd", 0) for label in figures.labels(2)]
    return ClaimVerdict(
        "2", "CBD falls with ε/δ", f"φ = 0, ε = 5…30: {_series(values)}%", _rises(values[::-1])
    )


def _jump(figure: int, label: str, below: int) -> Callable[[Figures], ClaimVerdict]:
    """Whether violations jump below a threshold: almost none at it, several times as many at the next phi."""

    def check(figures: Figures) -> ClaimVerdict:
        before, after = (figures.at(figure, label, "half", "dapw", phi) for phi in (below, below - 20))
        shown = f"φ = {below}%: {_series([before])}%, φ = {below - 20}%: {_series([after])}%"
        return ClaimVerdict(
            str(figure), f"DAPW at {label} jumps below φ = {below}%", shown, after > 2 * before and after > 1
        )

    return check


def _rises_with(figure: int, what: str, reverse: bool) -> Callable[[Figures], ClaimVerdict]:
    def check(figures: Figures) -> ClaimVerdict:
        labels = figures.labels(figure)[:: -1 if reverse else 1]
        dapw = [figures.at(figure, label, "half", "dapw", 40) for label in labels]
        cbd = [figures.at(figure, label, "half", "cbd", 0) for label in labels]
        shown = f"DAPW φ = 40%: {_series(dapw)}%; CBD φ = 0: {_series(cbd)}%"
        return ClaimVerdict(str(figure), f"violations rise with {what}", shown, _rises(dapw) and _rises(cbd))

    return check


def _cbd_quarter(figure: int, top: float, over: str) -> Callable[[Figures], ClaimVerdict]:
    def check(figures: Figures) -> ClaimVerdict:
        values = figures.all(figure, "quarter", "cbd")
        return ClaimVerdict(
            f"{figure} (d)",
            f"CBD under N(δ/4, δ/8): 0–{top:.0f}% over {over}",
            _range(values),
            max(values) <= top,
        )

    return check


def _alike_at_low_rate(figures: Figures) -> ClaimVerdict:
    dapw, cbd = (
        [figures.at(4, "rate = 0.01", "half", policy, phi) for phi in PHIS] for policy in ("dapw", "cbd")
    )
    apart = max(abs(a - b) for a, b in zip(dapw, cbd, strict=True))
    return ClaimVerdict(
        "4", "at rate 0.01 DAPW and CBD are nearly equal", f"at most {apart:.2f} points apart", apart <= 1
    )


def _laws(policy: Policy, more: bool) -> Callable[[Figures], ClaimVerdict]:
    def check(figures: Figures) -> ClaimVerdict:
        half, quarter = (sum(figures.all(2, law, policy)) for law in ("half", "quarter"))
        word = "more" if more else "fewer"
        shown = f"quarter/half: {quarter / max(half, 1e-9):.2f}"
        return ClaimVerdict(
            "2",
            f"{policy.upper()}: N(δ/4, δ/8) gives {word} than N(δ/2, δ/4)",
            shown,
            (quarter > half) == more,
        )

    return check


def _stamp(figure: int, label: str, claim: str, low: float, high: float) -> Callable[[Figures], ClaimVerdict]:
    def check(figures: Figures) -> ClaimVerdict:
        values = [figures.at(figure, label, law, "cbd", 100) for law in ("half", "quarter")]
        return ClaimVerdict(
            str(figure), f"{label} at φ = 100%: {claim}", f"{_series(values)}%", _within(values, low, high)
        )

    return check


def _six_is_full(figure: int) -> Callable[[Figures], ClaimVerdict]:
    def check(figures: Figures) -> ClaimVerdict:
        six, full = (
            [figures.at(figure, label, "half", "cbd", phi) for phi in PHIS]
            for label in ("6 kn entries", "all kn entries")
        )
        apart = max(abs(a - b) for a, b in zip(six, full, strict=True))
        return ClaimVerdict(
            str(figure), "6 kn entries give the same as all", f"up to {apart:.2f} points apart", apart < 0.05
        )

    return check


CHECKS: tuple[Callable[[Figures], ClaimVerdict], ...] = (
    _dapw_rises_with_ratio,
    _cbd_falls_with_ratio,
    _order_of_magnitude,
    _laws("dapw", True),
    _laws("cbd", False),
    _jump(2, "ε = 5", 40),
    _axis(2, "dapw", 80),
    _axis(2, "cbd", 10),
    _jump(3, "δ = 20", 60),
    _jump(3, "δ = 30", 40),
    _rises_with(4, "the rate", True),
    _alike_at_low_rate,
    _cbd_quarter(4, 2, "rates"),
    _rises_with(5, "n", False),
    _axis(5, "dapw", 60),
    _cbd_quarter(5, 3, "n up to 50"),
    _stamp(6, "DPC1", "30–50%", 30, 50),
    _stamp(6, "DPC2", "30–50%", 30, 50),
    _stamp(6, "2 kn entries", "10–15%", 10, 15),
    _six_is_full(6),
    _stamp(6, "all kn entries", "0", 0, 0),
    _stamp(7, "all kn entries", "0", 0, 0),
    _six_is_full(7),
)
