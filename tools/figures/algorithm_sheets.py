"""Results beyond the paper: exactness under loss, the modulus, faults in memory, counter widths."""

from __future__ import annotations

from collections.abc import Iterator

from basestation.causality.policy_choice import PolicyChoice
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulation import (
    Measurement,
    MemoryFault,
    SimulatedRun,
    build_scheme,
    generate,
    measure,
)

from .sheet import Sheet

# The exact stamps, each with the width of its counter; None: what a deployment has.
EXACT = {"kn": ("kn", None), "hlc": ("hlc", None), "shlc": ("shlc", None), "shlc, two bytes": ("shlc", 7)}
NEVER_FULL = {"kn": None, "hlc": 7, "shlc": 7}  # in the runs with faults
CAUSAL = PolicyChoice("causal", 100)
FAULT_RUNS, FAULT_MESSAGES, FAULT_AFTER = 100, 4_000, 1_500


def _causal(
    run: SimulatedRun, name: str, *, modulus: int | None = None, counter_bits: int | None = None
) -> Measurement:
    scheme = build_scheme(run.options, name, modulus=modulus, counter_bits=counter_bits)
    return next(measure(run, scheme, [CAUSAL]))


def loss_sheet(messages: int) -> Sheet:
    rows = []
    for motes in (10, 50):
        for loss in (0.0, 0.01, 0.1, 0.5):
            run = generate(WorldOptions(motes=motes, messages=messages, loss=loss))
            found = [_causal(run, name, counter_bits=bits) for name, bits in EXACT.values()]
            cells = [f"{m.violations.pairs}, {m.saturated} full ({m.stamp_bits} bits)" for m in found]
            rows.append((str(motes), f"{loss:.0%}", f"{found[0].delivered}", *cells))
    columns = ("n", "copies lost", "delivered", *EXACT)
    return Sheet(
        "Violated pairs at φ = 100%, and stamps whose counter is full, rate 0.1", columns, tuple(rows)
    )


def modulus_sheet(messages: int) -> Sheet:
    run = generate(WorldOptions(messages=messages, delay_clock="sender"))
    rows = []
    for modulus, what in (
        (21, "ε + δ + 1, the paper's"),
        (30, "one less than δ + 2ε + 1"),
        (31, "δ + 2ε + 1"),
        (32, "the power of two that stamps use"),
    ):
        found = [_causal(run, name, modulus=modulus) for name in ("kn", "shlc")]
        cells = [f"{m.wrong_unwraps}, {m.violations.percent()['any']:.1f}%" for m in found]
        rows.append((str(modulus), what, *cells))
    return Sheet(
        "Stamps misread, and messages in a violation, at φ = 100% with delays in the sender's clock",
        ("B", "", "kn, all entries", "one-byte shlc"),
        tuple(rows),
    )


def fault_sheet() -> Sheet:
    rows = []
    for which, motes in (("one mote", (0,)), ("all motes", tuple(range(10)))):
        runs = [
            generate(WorldOptions(messages=FAULT_MESSAGES, seed=seed), MemoryFault(motes, FAULT_AFTER))
            for seed in range(1, FAULT_RUNS + 1)
        ]
        for name, bits in NEVER_FULL.items():
            found = [_causal(run, name, counter_bits=bits) for run in runs]
            hit = sum(m.violations.pairs > 0 for m in found)
            longest = max(m.recovery_ticks or 0 for m in found)
            fewest = min(m.messages_after_recovery or 0 for m in found)
            rows.append((which, name, f"{hit} of {len(found)}", str(longest), str(fewest)))
    columns = ("state overwritten in", "scheme", "runs with a violation", "ticks to the last one, at most")
    return Sheet(
        "Faults in memory, φ = 100%", (*columns, "messages after it without one, at least"), tuple(rows)
    )


def width_sheet(messages: int) -> Sheet:
    widths = ((3, 32), (4, 32), (5, 32), (7, 32), (3, 64))  # of the counter; B
    rows = []
    for motes, rate, turns in (
        (10, 0.1, 1),
        (50, 0.1, 1),
        (10, 0.5, 1),
        (50, 0.5, 1),
        (10, 0.1, 4),
        (50, 0.1, 4),
    ):
        run = generate(WorldOptions(motes=motes, rate=rate, messages=messages, events_per_tick=turns))
        found = [_causal(run, "shlc", counter_bits=bits, modulus=modulus) for bits, modulus in widths]
        cells = [f"{m.violations.percent()['mean']:.2f}%" if m.violations.pairs else "0" for m in found]
        rows.append((str(motes), f"{rate:g}", str(turns), *cells))
    columns = ("n", "rate", "turns a tick", *(f"{bits} bits, B = {modulus}" for bits, modulus in widths))
    return Sheet(
        "Violations (mean) of shlc at φ = 100%, by the width of its counter and B", columns, tuple(rows)
    )


def sheets(messages: int) -> Iterator[Sheet]:
    """All tables; `messages` is the length of the larger runs."""
    yield loss_sheet(5 * messages)
    yield modulus_sheet(messages)
    yield fault_sheet()
    yield width_sheet(2 * messages)
