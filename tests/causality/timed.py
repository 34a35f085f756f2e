"""Timed schemes by their widths alone, for tests that need no deployment."""

from basestation.causality.schemes import Setting, TimedScheme, timed_scheme


def timed(
    name: str,
    epsilon: int,
    delta: int,
    modulus: int,
    entries: int,
    entry_max: int,
    count: str = "events",
    carry: str = "pair",
) -> TimedScheme:
    setting = Setting(
        0, epsilon, delta, modulus=modulus, entries=entries, entry_max=entry_max, count=count, carry=carry
    )
    return timed_scheme(name, setting)
