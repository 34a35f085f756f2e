"""Alarms: raised when something is amiss for a while, cleared when it is well again."""

from __future__ import annotations

from collections.abc import Mapping

from basestation.arrivals import Gap
from basestation.live.counters import SECOND, GatewayCounts, MoteCounts
from basestation.live.happenings import Alarm, Happening

GATEWAY_SILENCE_NS = 30 * SECOND  # a gateway reports every ten seconds
SILENT_PERIODS = 5
LEAST_SILENCE_NS = 2 * SECOND


class Alarms:
    """`next_check` is the first time at which anything that is well now could have been silent for too long."""

    def __init__(self) -> None:
        self.next_check: int | None = None
        self._raised: dict[tuple[str, int], str] = {}

    def texts(self) -> tuple[str, ...]:
        return tuple(self._raised.values())

    def gateway_seen(
        self, gateway: int, counts: GatewayCounts, mono_ns: int, wall_ns: int
    ) -> list[Happening]:
        self._expect(mono_ns + GATEWAY_SILENCE_NS)
        if not counts.silent:
            return []
        counts.silent = False
        return self._clear("gateway", gateway, mono_ns, wall_ns)

    def expect_gateway(self, counts: GatewayCounts, mono_ns: int) -> None:
        """From now on a gateway should be heard of."""
        counts.seen_ns = mono_ns
        self._expect(mono_ns + GATEWAY_SILENCE_NS)

    def mote_seen(self, mote: int, counts: MoteCounts, mono_ns: int, wall_ns: int) -> list[Happening]:
        counts.seen_ns = mono_ns
        if counts.period_ns:
            self._expect(mono_ns + mote_limit_ns(counts))
        if not counts.silent:
            return []
        counts.silent = False
        return self._clear("mote", mote, mono_ns, wall_ns)

    def line(
        self, gateway: int, counts: GatewayCounts, gap: Gap, mono_ns: int, wall_ns: int
    ) -> list[Happening]:
        if gap.back:
            self.expect_gateway(counts, mono_ns)
            return self._clear("line", gateway, mono_ns, wall_ns)
        cleared = self._clear("gateway", gateway, mono_ns, wall_ns)  # a lost line says it all
        text = f"the line of {counts.name or f'gateway {gateway}'} is lost: {gap.reason}"
        return cleared + self._raise("line", gateway, text, mono_ns, wall_ns)

    def layout(
        self, mote: int, counts: MoteCounts, wrong: bool, mono_ns: int, wall_ns: int
    ) -> list[Happening]:
        counts.wrong_layout = wrong
        if not wrong:
            return self._clear("layout", mote, mono_ns, wall_ns)
        text = f"mote {mote} was built for another layout than this deployment's"
        return self._raise("layout", mote, text, mono_ns, wall_ns)

    def check(
        self,
        motes: Mapping[int, MoteCounts],
        gateways: Mapping[int, GatewayCounts],
        mono_ns: int,
        wall_ns: int,
    ) -> list[Happening]:
        """Raise what is due. Motes are not blamed for a line that is gone or silent."""
        if self.next_check is None or mono_ns < self.next_check:
            return []
        self.next_check = None
        found: list[Happening] = []
        for number, gateway in gateways.items():
            quiet = mono_ns - gateway.seen_ns
            if not gateway.live or gateway.silent or not gateway.seen_ns:
                continue
            if quiet < GATEWAY_SILENCE_NS:
                self._expect(gateway.seen_ns + GATEWAY_SILENCE_NS)
                continue
            gateway.silent = True
            name = gateway.name or f"gateway {number}"
            text = f"{name} has been silent for {quiet / SECOND:.0f} s"
            found += self._raise("gateway", number, text, mono_ns, wall_ns)
        heard = any(gateway.live and not gateway.silent for gateway in gateways.values())
        return found + (self._check_motes(motes, mono_ns, wall_ns) if heard else [])

    def _check_motes(self, motes: Mapping[int, MoteCounts], mono_ns: int, wall_ns: int) -> list[Happening]:
        found: list[Happening] = []
        for number, mote in motes.items():
            if mote.silent or not mote.period_ns:
                continue
            limit = mote_limit_ns(mote)
            if mono_ns - mote.seen_ns < limit:
                self._expect(mote.seen_ns + limit)
                continue
            mote.silent = True
            quiet, period = (mono_ns - mote.seen_ns) / SECOND, mote.period_ns / SECOND
            text = f"mote {number} has been silent for {quiet:.1f} s; it sent every {period:.1f} s"
            found += self._raise("mote", number, text, mono_ns, wall_ns)
        return found

    def _expect(self, mono_ns: int) -> None:
        if self.next_check is None or mono_ns < self.next_check:
            self.next_check = mono_ns

    def _raise(self, what: str, subject: int, text: str, mono_ns: int, wall_ns: int) -> list[Happening]:
        known = (what, subject) in self._raised
        self._raised[what, subject] = text
        return [] if known else [Alarm(mono_ns, wall_ns, what, subject, True, text)]

    def _clear(self, what: str, subject: int, mono_ns: int, wall_ns: int) -> list[Happening]:
        text = self._raised.pop((what, subject), None)
        return [] if text is None else [Alarm(mono_ns, wall_ns, what, subject, False, f"over: {text}")]


def mote_limit_ns(counts: MoteCounts) -> int:
    return max(LEAST_SILENCE_NS, int(SILENT_PERIODS * counts.period_ns))
