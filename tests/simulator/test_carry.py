"""A full HLC counter that carries into l keeps the order that one which merely saturates loses."""

import pytest

from basestation.causality.schemes import shlc
from basestation.causality.schemes.hlc import HlcProgram
from basestation.causality.schemes.shlc import ShlcProgram
from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulation import build_scheme
from tests.simulator import oracle


class SaturatingShlc(ShlcProgram):
    """sHLC as it is without the carry: a full counter stays full."""

    def _step(self, rt: int, known: int, counter: int) -> None:
        if rt > known:
            self.l, self.counter = rt, 0
        else:
            self.l, self.counter = known, min(counter + 1, self._entry_max)


def violated_pairs(options: WorldOptions, counter_bits: int) -> int:
    stream = engine.generate(options)
    scheme = build_scheme(options, "shlc", counter_bits=counter_bits, modulus=64)  # room for all of epsilon
    observed = oracle.observe(stream, engine.stamp_by_objects(stream, scheme), scheme)
    delivered = oracle.deliver(stream, observed, scheme, "causal", 100)
    order = stream.arrival_message[delivered.order]
    return oracle.violations(stream, oracle.vector_clocks(stream), order).pairs


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(WorldOptions(motes=50, messages=3000), marks=pytest.mark.wide),
        WorldOptions(rate=0.5, messages=3000),
    ],
)
def test_three_bits_are_exact_with_the_carry_and_not_without(monkeypatch, options):
    assert violated_pairs(options, 3) == 0
    monkeypatch.setattr(shlc, "ShlcProgram", SaturatingShlc)
    assert violated_pairs(options, 3) > 0


def test_the_carry_stops_at_the_bound_and_then_saturates():
    """B = 8 leaves room for 1 of epsilon = 2."""
    options = WorldOptions(epsilon=2, delta=2)
    scheme = build_scheme(options, "shlc", counter_bits=2)
    program = scheme.start(0)
    assert isinstance(program, HlcProgram)
    sent = [program.on_send(0) for _ in range(12)]
    keys = [(stamp.r, stamp.kn[0]) for stamp in sent]
    assert keys[:5] == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert keys[5:] == [(1, 3)] * 7
    assert [scheme.saturated(stamp) for stamp in sent] == [False] * 5 + [True] * 7
