"""The kernels compute what the plain objects do, on sound and on broken streams alike."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from hashlib import sha256
from itertools import product

import numpy as np
import pytest

from basestation.causality.stream import Stream
from basestation.simulator import engine
from basestation.simulator.corruption import corrupt_stream, draw_corruption
from basestation.simulator.options import WorldOptions
from tests.simulator import oracle
from tests.simulator.worlds import DELAY_CLOCKS, RECEPTIONS, dpc, every_option, hlc, kn

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
    stamped = engine.stamp_by_objects(stream, scheme, corruption)
    assert_same(stamped, engine.stamp(stream, scheme, corruption))
    observed = oracle.observe(stream, stamped, scheme)
    assert_same(observed, engine.observe(stream, stamped, scheme))
    for (policy, knob), ties in product(policies, ("sequence", "arrival")):
        asked = (policy, 100, ties, None, knob) if policy == "ledger" else (policy, knob, ties)
        delivered = oracle.deliver(stream, observed, scheme, *asked)
        assert_same(delivered, engine.deliver(stream, observed, scheme, *asked))
        assert sorted(delivered.order.tolist()) == list(range(stream.arrivals))


# Of the streams below. An implementation in plain Python, the last in commit 292801a1, gave the same.
DIGESTS = {
    ("fastest", "tick"): "03a9182d2e5e",
    ("fastest", "message"): "c3a304b3b36f",
    ("fastest", "immediate"): "8f88b5ea5833",
    ("sender", "tick"): "af62be63be87",
    ("sender", "message"): "e3a7662437b9",
    ("sender", "immediate"): "0776a5c193cd",
    ("global", "tick"): "976028f68411",
    ("global", "message"): "1f33c41dbfd2",
    ("global", "immediate"): "ed738c64daba",
}


def digest(stream: Stream) -> str:
    found = sha256()
    for column in fields(stream):
        value = getattr(stream, column.name)
        found.update(value.astype("<i8").tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return found.hexdigest()[:12]


@pytest.mark.parametrize(("delay_clock", "reception"), READINGS)
def test_a_seed_gives_the_same_stream_as_ever(delay_clock, reception):
    worlds = every_option(60, ["paper", "enforce"], delay_clock=delay_clock, reception=reception)[::5]
    found = [
        digest(engine.generate(replace(options, gateways=1 + 2 * (i % 2), sends=("tick", "any")[i % 3 == 0])))
        for i, options in enumerate(worlds)
    ]
    assert sha256("".join(found).encode()).hexdigest()[:12] == DIGESTS[delay_clock, reception]


@pytest.mark.few(4)
@pytest.mark.parametrize(("delay_clock", "reception"), READINGS)
def test_both_engines_stamp_deliver_and_count_alike(delay_clock, reception):
    """Every twentieth combination of the other options, under all schemes and policies."""
    worlds = every_option(60, ["paper", "enforce"], delay_clock=delay_clock, reception=reception)
    for i, options in enumerate(worlds[READINGS.index((delay_clock, reception)) :: 20]):
        options = replace(options, gateways=1 + 2 * (i % 2))
        stream = engine.generate(options)
        vectors = oracle.vector_clocks(stream)
        np.testing.assert_array_equal(vectors, engine.vector_clocks(stream))
        for number, scheme in enumerate(schemes_of(options)):
            some = POLICIES[number % 5 :: 5]
            assert_engines_agree(stream, scheme, policies=some)
        arrivals = stream.arrival_message
        for order in (arrivals, arrivals[::-1], arrivals[::2], arrivals[:0]):
            assert asdict(oracle.violations(stream, vectors, order)) == asdict(
                engine.violations(stream, vectors, order)
            )


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
    stream = engine.generate(options)
    corruption = draw_corruption(6, 3, after=40, seed=seed)
    corrupted, _ = corrupt_stream(stream, corruption, list(range(6)) if seed % 2 else [seed % 6])
    np.testing.assert_array_equal(oracle.vector_clocks(corrupted), engine.vector_clocks(corrupted))
    for number, scheme in enumerate(schemes_of(options)):
        assert_engines_agree(corrupted, scheme, corruption, POLICIES[number % 5 :: 5])


@pytest.mark.parametrize("seed", range(5))
def test_violations_are_counted_alike_in_any_order(seed):
    random = np.random.default_rng(seed)
    stream = engine.generate(WorldOptions(motes=5, rate=0.5, messages=300, seed=seed, epsilon=4, delta=5))
    vectors = engine.vector_clocks(stream)
    shuffled = random.permutation(stream.messages)
    for order in (shuffled, shuffled[:100], np.sort(shuffled[:200])[::-1].copy()):
        ours = oracle.violations(stream, vectors, order)
        assert ours == engine.violations(stream, vectors, order)
        assert ours.pairs > 0
    nearly = np.argsort(np.arange(stream.messages) + random.normal(0, 5, stream.messages))
    assert oracle.violations(stream, vectors, nearly) == engine.violations(stream, vectors, nearly)


def test_a_network_that_loses_everything():
    options = WorldOptions(motes=3, messages=20, loss=1.0)
    stream = engine.generate(options)
    assert stream.arrivals == 0
    for scheme in schemes_of(options):
        assert_engines_agree(stream, scheme)
    assert engine.violations(stream, engine.vector_clocks(stream), stream.arrival_message).delivered == 0


@pytest.mark.parametrize("motes", [2, 50])
def test_the_smallest_and_a_large_network(motes):
    options = WorldOptions(motes=motes, messages=120, rate=0.3, seed=2, epsilon=5, delta=5)
    stream = engine.generate(options)
    for scheme in schemes_of(options):
        assert_engines_agree(stream, scheme, policies=[("cbd", 60), ("dapw", 60)])


def test_a_read_only_package_still_compiles(monkeypatch):
    """numba refuses to cache where it finds no place to; the kernel then works without."""
    import numba

    from basestation.causality.kernels.compiled import compiled

    def refuse_to_cache(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", refuse_to_cache)
    assert compiled(lambda x: x + 1)(2) == 3
