"""Boots and sequence numbers unwrapped for each mote, and copies recognised, before a message meets a rule."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from .modular import unwrap

ROUND = 256  # numbers of a sequence field
WINDOW = ROUND // 2
SEEN = (1 << WINDOW) - 1
BOOTS = 8  # boot counts that the wire distinguishes
UNTIMED = -1  # the tick of a message that came before the time was known
NO_BYTES = 0  # in place of a digest: the bytes of the message are unknown
VARIANTS = 4  # kept of one number; with more, the last place holds the newest
FIRST = 4  # messages of a mote that starts with an erased memory: one of them should come
NEVER = -(1 << 62)  # below every number
FAR = 16  # numbers; a smaller step means a few lost or late messages

# Digests of 32 bits of one boot's messages: `VARIANTS` for each sequence field, `NO_BYTES` in free places.
Contents: TypeAlias = "array[int]"


def no_contents() -> Contents:
    return array("I", [NO_BYTES]) * (ROUND * VARIANTS)


NO_VARIANTS = no_contents()[1:VARIANTS]


def may_be_anew(boot: int, field: int, ahead: int) -> bool:
    """Whether a message `ahead` of the newest number may be one of the first after a mote's memory was erased."""
    return boot == 0 and field < FIRST and abs(ahead) > FAR


# A message's life (the boot count, unwrapped), its sequence number, and whether it is a copy, the first message of its
# boot, the first message after a reboot.
Numbering = tuple[int, int, bool, bool, bool]


@dataclass(slots=True)
class MoteBoots:
    """One mote's boots, and the sequence numbers of each boot, heard at ticks of the observer's clock.

    Copies that took different ways arrive out of order, but no more than `patience` ticks apart. Messages that arrived
    before the time was known, at tick `UNTIMED`, do not begin a silence. `digest` stands for all bytes of a message
    except its hops, which relays change. The first row that fits counts:

    | boot count on the wire                              | boot                                          |
    |-----------------------------------------------------|-----------------------------------------------|
    | the present one                                     | the present one                               |
    | heard within the patience                           | that one: the message took long               |
    | up to 3 before the present one, which is that young | that one                                      |
    | any other                                           | a new one: the mote has started               |

    | sequence number in that boot                        | message                                       |
    |-----------------------------------------------------|-----------------------------------------------|
    | the first one                                       | new                                           |
    | after a silence the next with its field             | new; or the mote has started anew             |
    | else the nearest to the newest, which has not come  | new; or the mote has started anew             |
    | which came before the last silence, the same bytes  | new: a whole round of numbers was lost in it  |
    | which came with the same bytes                      | copy                                          |
    | which came with other bytes                         | new, and `differs`: another sender used the   |
    |                                                     | number; or the mote has started anew          |

    A mote that starts anew has an erased memory, and counts boots and messages from 0 again (`_is_anew`). That is as
    if it had booted eight times.

    `sequences` has for each boot count on the wire the newest number, its tick, which came (a bit each, from the newest
    downwards), and the newest number before the last silence with its tick. `bases` has what is added to a sequence
    number of each boot, so that no two messages of the mote share a number, and `newest` the largest number so far (see
    `Numbers`).
    """

    life: int
    booted: int  # the tick when its present boot was first heard of
    sequences: dict[int, list[int]] = field(default_factory=dict)
    bases: dict[int, int] = field(default_factory=dict)
    newest: int | None = None
    contents: dict[int, Contents] = field(default_factory=dict)  # of the same boots as `sequences`
    first: int = 0  # the number of its present boot that was heard first
    differs: bool = False  # the last message taken had another message's number

    def accept(self, boot: int, field: int, now: int, patience: int, digest: int = NO_BYTES) -> Numbering:
        """Take the message with this boot count and sequence field on the wire, heard at tick `now`."""
        self.differs = False
        if self.booted == UNTIMED:
            self.booted = now
        life, known = self._life_of(boot, now, patience), self.sequences.get(boot)
        if known is None or life > self.life:
            return self._begin(life, field, now, digest)
        newest, heard, seen, floor, floor_heard = known
        if heard == UNTIMED:
            known[1] = heard = now
        silent = now != UNTIMED and now - heard > patience
        sequence = unwrap(field, newest + (ROUND if silent else WINDOW), ROUND)
        ahead = sequence - newest
        came = ahead <= 0 and bool(seen >> -ahead & 1)
        if came and self._has_bytes(boot, field, digest):
            if sequence > floor or now - floor_heard <= patience:
                return life, sequence, True, False, False
            # A copy cannot come so late: a whole round was lost in the silence, and what came since is of the next.
            seen &= ~(-1 << newest - floor)
            newest, sequence, came = newest + ROUND, sequence + ROUND, False
            known[0], known[2] = newest, seen
        if life == self.life and self._is_anew(field, ahead, came, now):
            return self._begin(life + BOOTS, field, now, digest)
        self._keep(boot, field, digest, came)
        self.differs = came
        if ahead > 0:
            known[:3] = sequence, now, (seen << ahead | 1) & SEEN
            if silent:
                known[3:] = newest, heard
        else:
            known[2] = seen | 1 << -ahead
        return life, sequence, False, False, False

    def _life_of(self, boot: int, now: int, patience: int) -> int:
        """Unwrap a boot count: the present life, an earlier life, or a new one."""
        later = (boot - self.life) % BOOTS
        if not later:
            return self.life
        young = now == UNTIMED or now - self.booted <= patience
        before = not self.is_silent(boot, now, patience) or (later > BOOTS // 2 and young)
        return self.life + later - before * BOOTS

    def _is_anew(self, field: int, ahead: int, came: bool, now: int) -> bool:
        """Whether one of the first messages of boot 0 shows that the mote has started with an erased memory.

        Otherwise the mote gave one number twice, or lost `ahead` messages in less than half or more than twice the time
        that it takes to send them.
        """
        if not may_be_anew(self.life % BOOTS, field, ahead):
            return False
        newest, heard, *_ = self.sequences[0]
        sent, lost = (newest - self.first) * (now - heard), ahead * (heard - self.booted)
        return came or (ahead > 0 and not lost <= 2 * sent <= 4 * lost)

    def _begin(self, life: int, field: int, now: int, digest: int) -> Numbering:
        """Begin a boot with its first message, and forget the boot eight boots ago, which had the same count."""
        boot, started = life % BOOTS, life > self.life
        if started:
            self.life, self.booted = life, now
        if life == self.life:
            self.first = field
        self.sequences[boot], self.contents[boot] = [field, now, 1, NEVER, NEVER], no_contents()
        self._keep(boot, field, digest, False)
        return life, field, False, True, started

    def _has_bytes(self, boot: int, field: int, digest: int) -> bool:
        """Whether a message with this number had the same bytes; if the bytes are not known, it counts as the same."""
        digests = self.contents[boot][field * VARIANTS : (field + 1) * VARIANTS]
        return digest in digests or NO_BYTES in (digest, digests[0])

    def _keep(self, boot: int, field: int, digest: int, came: bool) -> None:
        """Keep the digest of a message, beside those of other messages with its number (`came`)."""
        digests, place = self.contents[boot], field * VARIANTS
        if came:
            others = digests[place + 1 : place + VARIANTS]
            digests[place + min(VARIANTS - others.count(NO_BYTES), VARIANTS - 1)] = digest
        else:
            digests[place] = digest
            digests[place + 1 : place + VARIANTS] = NO_VARIANTS

    def shift(self, ticks: int) -> None:
        """Move all kept ticks when the observer's clock jumps."""
        if self.booted != UNTIMED:
            self.booted += ticks
        for known in self.sequences.values():
            if known[1] != UNTIMED:
                known[1] += ticks
            known[4] += ticks

    def is_silent(self, boot: int, now: int, patience: int) -> bool:
        """Whether this boot was silent for longer than the patience: any number of messages may have been lost."""
        heard = self.sequences[boot][1] if boot in self.sequences else UNTIMED
        return UNTIMED in (now, heard) or now - heard > patience

    def number(self, boot: int, sequence: int, fresh: bool, known: int | None) -> int:
        """The number of a message that was accepted, and not as a copy."""
        if fresh:
            self.bases[boot] = 0 if self.newest is None else (self.newest // ROUND + 2) * ROUND
        number = self.bases[boot] + sequence + 1
        present = boot == self.life % BOOTS  # `known` is of no boot before
        if known is not None and present and not fresh and known - number >= ROUND // 2:
            # More than half a round of messages was lost: the field wrapped unseen.
            rounds = (known - number + ROUND // 2) // ROUND * ROUND
            self.bases[boot] += rounds
            number += rounds
        if self.newest is None or number > self.newest:
            self.newest = number
        return number


class Numbered(NamedTuple):
    """The place of a message among its mote's: its unwrapped boot, its number in that boot, and its number over all
    boots."""

    life: int
    sequence: int
    number: int | None  # None: a copy. Below 1: it was sent before the first message that was heard
    fresh: bool = False  # it opens a boot
    before: int | None = None  # the boot count before, if the mote has started
    differs: bool = False  # another message had this number before


class Numbers:
    """Numbers all messages of each mote, boot after boot, such that no two share one.

    A boot's numbers begin at one more than a multiple of 256, so that a sequence field is always one less than the
    number modulo 256. They begin at least 256 after those of the boot before, so that a counter of the old boot, read
    as the nearest number, never gives a number of the new boot.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._motes: dict[int, MoteBoots] = {}

    def accept(
        self,
        source: int,
        boot: int,
        field: int,
        now: int,
        known: int | None = None,
        digest: int = NO_BYTES,
    ) -> Numbered:
        """Number a message. `known`: the newest number of that mote that other motes have named."""
        mote = self._motes.get(source)
        if mote is None:
            mote = self._motes[source] = MoteBoots(boot, now)
        before = mote.life % BOOTS
        if not mote.is_silent(boot, now, self._patience):
            known = None  # the mote cannot have sent that many since: the name is wrong
        life, sequence, copy, fresh, rebooted = mote.accept(boot, field, now, self._patience, digest)
        if copy:
            return Numbered(life, sequence, None)
        number = mote.number(boot, sequence, fresh, known)
        return Numbered(life, sequence, number, fresh, before if rebooted else None, mote.differs)

    @property
    def newest(self) -> dict[int, int]:
        """The largest number of each mote."""
        return {source: mote.newest for source, mote in self._motes.items() if mote.newest is not None}

    def shift(self, ticks: int) -> None:
        """Move all kept ticks when the observer's clock jumps, so that ages stay the same."""
        for mote in self._motes.values():
            mote.shift(ticks)

    def named(self, source: int, number: int) -> tuple[int, int]:
        """The boot of a number, and its sequence number in that boot."""
        mote = self._motes.get(source)
        boots = mote.bases if mote else {0: 0}
        boot = max(boots, key=lambda boot: (boots[boot] < number, boots[boot]))
        return boot, number - boots[boot] - 1
