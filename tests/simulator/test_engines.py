"""The kernels compute what the plain objects do, on sound and on broken streams alike."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, fields, replace
from itertools import product

import numpy as np
import pytest

from basestation.causality.stream import Stream
from basestation.simulator import engine_numba, engine_objects, simulation
from basestation.simulator.corruption import corrupt_stream, draw_corruption
from basestation.simulator.engine import IS_FAST
from basestation.simulator.options import WorldOptions
from tests.simulator.worlds import DELAY_CLOCKS, RECEPTIONS, dpc, every_option, hlc, kn, relayed_network

READINGS = list(product(DELAY_CLOCKS, RECEPTIONS))
LEDGERS = [("ledger", share) for share in (0.0, 0.3, 5.0, 100.0)]  # a share to tolerate in place of phi
POLICIES = [("none", 0), ("causal", 0), *product(["dapw", "cbd"], [0, 1, 40, 100]), *LEDGERS]


def assert_same(ours: object, theirs: object) -> None:
    for column in fields(ours):  # type: ignore[arg-type]
        a, b = getattr(ours, column.name), getattr(theirs, column.name)
        np.testing.assert_array_equal(a, b, err_msg=column.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, column.name


def schemes_of(options: WorldOptions) -> list:
    """Sound ones, narrow ones that saturate, and moduli far too small: wrong, and wrong in the same way."""
    epsilon, delta = options.epsilon, options.delta
    paper = epsilon + delta + 1
    return [
        kn(options),
        kn(options, 2, count="sends"),
        kn(options, 1, entry_max=3),
        kn(options, entry_max=2, modulus=paper),
        kn(options, modulus=2),
        dpc(options, 1),
        dpc(options, 2),
        hlc(options),
        hlc(options, entry_max=1),
        hlc(options, entry_max=3, modulus=paper, carry="sum"),
        hlc(options, "shlc"),
        hlc(options, "shlc", entry_max=3, carry="sum"),
        hlc(options, "shlc", entry_max=1, modulus=3, carry="sum"),
    ]


def assert_engines_agree(stream: Stream, scheme, corruption=None, policies=POLICIES) -> None:
    stamped = engine_objects.stamp(stream, scheme, corruption)
    assert_same(stamped, engine_numba.stamp(stream, scheme, corruption))
    observed = engine_objects.observe(stream, stamped, scheme)
    assert_same(observed, engine_numba.observe(stream, stamped, scheme))
    for (policy, knob), ties in product(policies, ("sequence", "arrival")):
        asked = (policy, 100, ties, None, knob) if policy == "ledger" else (policy, knob, ties)
        delivered = engine_objects.deliver(stream, observed, scheme, *asked)
        assert_same(delivered, engine_numba.deliver(stream, observed, scheme, *asked))
        assert sorted(delivered.order.tolist()) == list(range(stream.arrivals))


@pytest.mark.few(6)
@pytest.mark.parametrize(("delay_clock", "reception"), READINGS)
@pytest.mark.parametrize("gateways", [1, 3])
def test_both_engines_make_the_same_stream(gateways, delay_clock, reception):
    readings = {"delay_clock": delay_clock, "reception": reception}
    worlds = every_option(50, ["paper", "enforce"], gateways=gateways, **readings)
    for options in worlds:
        assert_same(engine_objects.generate(options), engine_numba.generate(options))


@pytest.mark.few(4)
@pytest.mark.parametrize(("delay_clock", "reception"), READINGS)
def test_both_engines_stamp_deliver_and_count_alike(delay_clock, reception):
    """Every twentieth combination of the other options, under all schemes and policies."""
    worlds = every_option(60, ["paper", "enforce"], delay_clock=delay_clock, reception=reception)
    for i, options in enumerate(worlds[READINGS.index((delay_clock, reception)) :: 20]):
        options = replace(options, gateways=1 + 2 * (i % 2))
        stream = engine_numba.generate(options)
        vectors = engine_objects.vector_clocks(stream)
        np.testing.assert_array_equal(vectors, engine_numba.vector_clocks(stream))
        for number, scheme in enumerate(schemes_of(options)):
            some = POLICIES[number % 5 :: 5]
            assert_engines_agree(stream, scheme, policies=some)
        arrivals = stream.arrival_message
        for order in (arrivals, arrivals[::-1], arrivals[::2], arrivals[:0]):
            assert asdict(engine_objects.violations(stream, vectors, order)) == asdict(
                engine_numba.violations(stream, vectors, order)
            )


@pytest.mark.parametrize("reception", RECEPTIONS)
def test_deliveries_of_a_longer_run_are_alike(reception):
    options = WorldOptions(
        motes=8, epsilon=4, delta=6, rate=0.4, messages=700, seed=5, reception=reception, events_per_tick=2
    )
    stream = engine_numba.generate(options)
    for scheme in (kn(options), dpc(options, 1), hlc(options, "shlc", entry_max=3)):
        assert_engines_agree(stream, scheme)


@pytest.mark.parametrize("seed", range(8))
def test_engines_agree_about_corrupted_motes(seed):
    options = WorldOptions(
        motes=6,
        epsilon=3,
        delta=5,
        rate=0.4,
        messages=160,
        seed=seed,
        reception=RECEPTIONS[seed % 3],
        delay_clock=DELAY_CLOCKS[seed % 2],
    )
    stream = engine_numba.generate(options)
    corruption = draw_corruption(6, 3, after=40, seed=seed)
    corrupted, _ = corrupt_stream(stream, corruption, list(range(6)) if seed % 2 else [seed % 6])
    np.testing.assert_array_equal(
        engine_objects.vector_clocks(corrupted), engine_numba.vector_clocks(corrupted)
    )
    for number, scheme in enumerate(schemes_of(options)):
        assert_engines_agree(corrupted, scheme, corruption, POLICIES[number % 5 :: 5])


@pytest.mark.parametrize("seed", range(5))
def test_violations_are_counted_alike_in_any_order(seed):
    random = np.random.default_rng(seed)
    stream = engine_numba.generate(
        WorldOptions(motes=5, rate=0.5, messages=300, seed=seed, epsilon=4, delta=5)
    )
    vectors = engine_numba.vector_clocks(stream)
    shuffled = random.permutation(stream.messages)
    for order in (shuffled, shuffled[:100], np.sort(shuffled[:200])[::-1].copy()):
        ours = engine_objects.violations(stream, vectors, order)
        assert ours == engine_numba.violations(stream, vectors, order)
        assert ours.pairs > 0
    nearly = np.argsort(np.arange(stream.messages) + random.normal(0, 5, stream.messages))
    assert engine_objects.violations(stream, vectors, nearly) == engine_numba.violations(
        stream, vectors, nearly
    )


def test_a_network_that_loses_everything():
    options = WorldOptions(motes=3, messages=20, loss=1.0)
    stream = engine_numba.generate(options)
    assert_same(engine_objects.generate(options), stream)
    assert stream.arrivals == 0
    for scheme in schemes_of(options):
        assert_engines_agree(stream, scheme)
    assert (
        engine_numba.violations(stream, engine_numba.vector_clocks(stream), stream.arrival_message).delivered
        == 0
    )


@pytest.mark.parametrize("motes", [2, 50])
def test_the_smallest_and_a_large_network(motes):
    options = WorldOptions(motes=motes, messages=120, rate=0.3, seed=2, epsilon=5, delta=5)
    stream = engine_numba.generate(options)
    assert_same(engine_objects.generate(options), stream)
    for scheme in schemes_of(options):
        assert_engines_agree(stream, scheme, policies=[("cbd", 60), ("dapw", 60)])


@pytest.mark.wide
@pytest.mark.parametrize(("delay_clock", "reception"), READINGS)
def test_both_engines_make_the_same_long_stream(delay_clock, reception):
    for seed, network in enumerate([None, relayed_network()]):
        options = WorldOptions(
            motes=6,
            messages=20_000,
            rate=0.3,
            loss=0.05,
            delay="each",
            seed=seed,
            delay_clock=delay_clock,
            reception=reception,
            topology=network,
        )
        stream = engine_objects.generate(options)
        assert_same(stream, engine_numba.generate(options))
        for scheme in (kn(options), one := hlc(options, "shlc", entry_max=7, carry="sum")):
            assert_engines_agree(stream, scheme, policies=[("cbd", 50), ("dapw", 50)])
        assert one.bits == 8


def test_a_package_that_nobody_may_write_to_still_compiles(monkeypatch):
    """numba refuses to cache where it finds no place to; the kernel then works without."""
    import numba

    from basestation.causality.kernels.compiled import compiled

    def refuse_to_cache(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", refuse_to_cache)
    assert compiled(lambda x: x + 1)(2) == 3


def test_the_kernels_are_used_where_numba_is_installed():
    assert simulation.engine is engine_numba
    assert IS_FAST


def test_the_objects_are_used_where_it_is_not(root):
    program = (
        "import sys; sys.modules['numba'] = None\n"
        "from basestation.simulator.engine import IS_FAST, engine\n"
        "print(engine.__name__, IS_FAST)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["basestation.simulator.engine_objects", "False"]
