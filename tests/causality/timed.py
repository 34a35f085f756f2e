"""Timed schemes from their widths, for tests without a deployment."""

from basestation.causality.schemes import Setting, TimedScheme, timed_scheme
from packet_formats.schemes import descriptor


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
    lead = descriptor(name).lead_ticks(epsilon, delta, modulus, carry)
    widths = {"modulus": modulus, "lead": lead, "entries": entries, "entry_max": entry_max}
    return timed_scheme(name, Setting(0, epsilon, delta, **widths, count=count, carry=carry))  # type: ignore[arg-type]
