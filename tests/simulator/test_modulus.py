"""The paper's B = epsilon + delta + 1 is too small; delta + 2*epsilon + 1 is what it takes."""

from __future__ import annotations

import pytest

from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from packet_formats.layout import stamp_layout
from packet_formats.schemes import LayoutError
from tests.causality.oracles import least_modulus
from tests.simulator.worlds import hlc, kn, outcome

SCHEMES = {
    "kn": lambda options, modulus: kn(options, modulus=modulus),
    "hlc": lambda options, modulus: hlc(options, modulus=modulus),
    "shlc": lambda options, modulus: hlc(options, "shlc", modulus=modulus),
    "shlc-sum": lambda options, modulus: hlc(options, "shlc", modulus=modulus, carry="sum"),
}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(("epsilon", "delta"), [(10, 10), (10, 5), (8, 7)])
def test_the_papers_modulus_fails_and_ours_holds(name, epsilon, delta):
    options = WorldOptions(
        epsilon=epsilon,
        delta=delta,
        messages=10_000,
        delay_clock="sender",
        reception="immediate",
        g2="enforce",
    )
    stream = engine.generate(options)
    ours = outcome(stream, SCHEMES[name](options, least_modulus(epsilon, delta)))
    assert (ours.stamped.wrong_unwraps, ours.observed.wrong_unwraps, ours.violations.pairs) == (0, 0, 0)
    paper = outcome(stream, SCHEMES[name](options, epsilon + delta + 1))
    assert paper.stamped.wrong_unwraps > 0
    assert paper.observed.wrong_unwraps > 0
    assert paper.violations.pairs > 0


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1), (1, 3), (2, 2)])
def test_the_least_modulus_is_the_least(name, epsilon, delta):
    """With one residue less some stamp is misread, in a network so small that the window's ends are often met."""
    options = WorldOptions(
        motes=2,
        epsilon=epsilon,
        delta=delta,
        messages=5000,
        rate=0.5,
        delay="each",
        delay_clock="sender",
        reception="message",
        g2="enforce",
    )
    stream = engine.generate(options)
    modulus = least_modulus(epsilon, delta)
    assert outcome(stream, SCHEMES[name](options, modulus)).wrong_unwraps == 0
    assert outcome(stream, SCHEMES[name](options, modulus - 1)).wrong_unwraps > 0


@pytest.mark.parametrize(("epsilon", "delta"), [(10, 5), (8, 7), (20, 11), (4, 3)])
@pytest.mark.parametrize("scheme", ["kn", "dpc1", "dpc2", "hlc", "shlc"])
def test_a_layout_with_the_papers_modulus_is_refused(scheme, epsilon, delta):
    paper = epsilon + delta + 1
    clock_bits = (paper - 1).bit_length()
    assert paper == 1 << clock_bits < least_modulus(epsilon, delta)
    settings = {"scheme": scheme, "epsilon": epsilon, "delta": delta, "motes": 10}
    with pytest.raises(LayoutError, match=r"below delta \+ 2\*epsilon \+ 1") as refused:
        stamp_layout(**settings, clock_bits=clock_bits)
    assert refused.value.key == "clock_bits"
    accepted = stamp_layout(**settings)
    assert accepted.modulus >= least_modulus(epsilon, delta) > accepted.modulus // 2
