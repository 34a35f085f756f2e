"""Health reports: copies of them, and which starts of nodes they show. Messages show a new boot sooner, but only
health says why it began."""

from __future__ import annotations

from dataclasses import replace

from basestation.causality.boots import BOOTS
from basestation.live.alarms import Alarms
from basestation.live.counters import MoteCounts
from basestation.live.guard import limit_others
from basestation.live.happenings import Happening, Reboot, Restarted
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.records import Health

LONG_WAY_NS = 60_000_000_000  # relays keep a report for less
BOOT_COUNTS = 1 << 16


class HealthReports:
    """Takes the reports of all nodes. `motes` are the station's counts, `alarms` its alarms."""

    def __init__(self, deployment: Deployment, motes: dict[int, MoteCounts], alarms: Alarms) -> None:
        self._count, self._motes, self._alarms = deployment.network.motes, motes, alarms
        self._layout, self._needs_time = layout_of(deployment).hash, deployment.scheme.has_clock
        self._boots: dict[int, int] = {}  # of each node, by its last report,
        self._reported_ns: dict[int, int] = {}  # and when that came
        self._anew: set[int] = (
            set()
        )  # motes whose messages count from 0 again, which health has not reported yet

    def is_copy(self, health: Health) -> bool:
        """Whether the same report came over another way; relays change only its flags."""
        counts = self._motes.get(health.source)
        known = counts.health if counts else None
        return known is not None and replace(known, flags=health.flags) == health

    def take(self, health: Health, mono_ns: int, wall_ns: int) -> list[Happening]:
        mote, found = health.source, list[Happening]()
        if self._has_started(health, mono_ns):
            found.append(Restarted(mono_ns, wall_ns, mote, health.boots, health.start_cause.words))
        if mote >= self._count:
            return found
        counts = self._motes[mote]
        counts.take_health(health, self._layout, mono_ns)
        if self._needs_time:
            counts.sync.update(health.in_sync, mono_ns)
        found += self._alarms.mote_seen(mote, counts, mono_ns, wall_ns)
        found += self._alarms.mote_changed(mote, counts, mono_ns, wall_ns)
        return found

    def note(self, reboot: Reboot) -> None:
        """The messages of a mote show that it has started."""
        mote = reboot.mote
        if reboot.is_anew and (reboot.before == 0 or self._boots.get(mote, reboot.before) % BOOTS):
            self._anew.add(mote)

    def _has_started(self, health: Health, mono_ns: int) -> bool:
        """Whether a report shows that its node has started; the starts are counted."""
        node, boots = health.source, health.boots
        before, counts = self._boots.get(node), self._motes.get(node)
        times = self._times(health, counts)
        again = 0 < times < BOOT_COUNTS // 2  # else the same boot, or an older report on a long way
        if times >= BOOT_COUNTS // 2 and mono_ns - self._reported_ns[node] > LONG_WAY_NS:
            again, times = True, 1  # its count was erased, or another mote is in its place
        if before is None or again or times == 0:
            self._boots[node], self._reported_ns[node] = boots, mono_ns
            limit_others(self._count, self._boots, self._reported_ns)
        if again and counts is not None:
            unseen = times - (counts.reboots - counts.reboots_reported)
            counts.restarts.add(mono_ns, max(0, unseen))
            counts.reboots_reported = counts.reboots
        return again

    def _times(self, health: Health, counts: MoteCounts | None) -> int:
        """How often a node has started since its last report, modulo 65,536."""
        node, boots = health.source, health.boots
        before = self._boots.get(node)
        if before is None:
            times = int(counts is not None and counts.reboots > 0 and counts.boot == boots % BOOTS)
        else:
            times = (boots - before) % BOOT_COUNTS
        if (node in self._anew and boots % BOOTS == 0) or (counts and _counts_anew(health, counts.health)):
            self._anew.discard(node)
            times = times if 0 < times < BOOT_COUNTS // 2 else 1
        return times


def _counts_anew(health: Health, last: Health | None) -> bool:
    """Whether a mote of the same boot count has sent less than before: its memory was erased in between."""
    if last is None or (health.boots, health.epoch) != (last.boots, last.epoch):
        return False
    is_later = health.in_sync and last.in_sync and (health.time - last.time) % 2**32 < 2**31
    return is_later and (health.sent - last.sent) % 65536 >= 32768
