"""Boots and sequence numbers unwrapped for each mote, and copies recognised, before a message meets a rule.

The live observer and the journal's tables step the same state, message by message.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from .modular import unwrap

ROUND = 256  # numbers of a sequence field
WINDOW = ROUND // 2
SEEN = (1 << WINDOW) - 1
BOOTS = 8  # boot counts that the wire tells apart
UNTIMED = -1  # the tick of a message that came before the time was known
NO_BYTES = 0  # in place of a digest: nobody knows what a message says
VARIANTS = 4  # of one number that are told apart; of more, the last place is the newest's
NEAR = 16  # numbers; a mote that says what it said a round before, and is no further on, may be a dull one

# What the messages of one boot say: of each sequence field `VARIANTS` digests of 32 bits, `NO_BYTES` where none is.
Contents: TypeAlias = "array[int]"


def no_contents() -> Contents:
    return array("I", [NO_BYTES]) * (ROUND * VARIANTS)


NOTHING = no_contents()[:VARIANTS]

# Which message of its mote one is: its life (boots counted on from the count first heard of), its sequence number,
# whether it is a copy, whether it is the first one of its boot, whether the mote has started anew since its last one.
Numbering = tuple[int, int, bool, bool, bool]


@dataclass(slots=True)
class MoteBoots:
    """One mote's boots, and the sequence numbers of each boot, heard at ticks of the observer's clock.

    A new boot count is a reboot; an older one soon after a reboot is that of a copy which took long. Copies that took
    different ways arrive out of order, but not long apart: within `patience` ticks of the newest number a field is
    read as the nearest one, and the same one twice is a copy. After a longer silence everything older is settled, and
    the next number is a later one, however many were lost. What came before the time was known, at tick `UNTIMED`, is
    no silence: the first time known says nothing of when it came.

    `digest` stands for all that a message says but for its hops, which relays change. One with the number of another
    and other bytes is no copy: both are messages, and one of them is somebody else's. One with the bytes of the last
    that had its sequence field is a replay if it would be far ahead, or one that is missing: after a silence, too. That
    proves nothing of a mote whose own messages repeat after a round.

    `sequences` has for each boot count on the wire the newest number, its tick, and which came: a bit each, from the
    newest downwards. `bases` has what is added to a sequence number of each boot, so that no two messages of the mote
    share a number, and `newest` the largest number so far (see `Numbers`).
    """

    life: int
    booted: int  # the tick when its present boot was first heard of
    sequences: dict[int, list[int]] = field(default_factory=dict)
    bases: dict[int, int] = field(default_factory=dict)
    newest: int | None = None
    contents: dict[int, Contents] = field(default_factory=dict)  # by boot
    repeats: bool = False  # its messages say the same again after a round
    differs: bool = field(default=False, compare=False)  # the last one taken had another's number

    def copy(self) -> MoteBoots:
        sequences = {boot: list(known) for boot, known in self.sequences.items()}
        contents = {boot: told[:] for boot, told in self.contents.items()}
        bases = dict(self.bases)
        return MoteBoots(self.life, self.booted, sequences, bases, self.newest, contents, self.repeats)

    def accept(self, boot: int, field: int, now: int, patience: int, digest: int = NO_BYTES) -> Numbering:
        """Take the message with this boot count and sequence field on the wire, heard at tick `now`."""
        life, rebooted, self.differs = self.life, False, False
        if self.booted == UNTIMED:
            self.booted = now
        before = self._said(boot, field)
        again = digest != NO_BYTES and digest in before
        if boot != life % BOOTS:
            later = (boot - life) % BOOTS
            if again and not self.repeats and later > BOOTS // 2 and boot in self.sequences:
                return life - BOOTS + later, unwrap(field, self.sequences[boot][0], ROUND), True, False, False
            life, rebooted = self._other_boot(boot, now, patience)
        known = self.sequences.get(boot)
        if known is None:
            self.sequences[boot] = [field, now, 1]
            self._keep(boot, field, digest)
            return life, field, False, True, rebooted
        newest, heard, seen = known
        silent = UNTIMED not in (now, heard) and now - heard > patience
        if heard == UNTIMED:
            known[1] = now
        sequence = unwrap(field, newest + (ROUND if silent else WINDOW), ROUND)
        ahead = sequence - newest
        here = ahead <= 0 and bool(seen >> -ahead & 1)
        if again and not here and not self.repeats and not 0 < ahead <= NEAR:
            return life, sequence - ROUND, True, False, False
        if here:
            if again or digest == NO_BYTES or before[0] == NO_BYTES:
                return life, sequence, True, False, False
            self.differs = True
            self._keep(boot, field, digest, min(VARIANTS - before.count(NO_BYTES), VARIANTS - 1))
            return life, sequence, False, False, False
        self._keep(boot, field, digest)
        if ahead > 0:
            self.repeats |= again
            known[0], known[1], known[2] = sequence, now, (seen << ahead | 1) & SEEN
        else:
            known[2] = seen | 1 << -ahead
        return life, sequence, False, False, False

    def _said(self, boot: int, field: int) -> Contents:
        """The digests of the messages with this sequence field."""
        told = self.contents.get(boot)
        return NOTHING if told is None else told[field * VARIANTS : (field + 1) * VARIANTS]

    def _keep(self, boot: int, field: int, digest: int, variant: int = 0) -> None:
        """What the newest message with this sequence field says; as the first one of its number, it is alone."""
        told = self.contents.get(boot)
        if told is None:
            told = self.contents[boot] = no_contents()
        place = field * VARIANTS
        if variant == 0:
            told[place : place + VARIANTS] = NOTHING
        told[place + variant] = digest

    def is_silent(self, boot: int, now: int, patience: int) -> bool:
        """Whether nothing of this boot was heard for so long that any number of messages may have been lost."""
        heard = self.sequences[boot][1] if boot in self.sequences else UNTIMED
        return UNTIMED in (now, heard) or now - heard > patience

    def number(self, boot: int, sequence: int, fresh: bool, known: int | None = None) -> int | None:
        """The number of a message that was accepted; None if its boot began before the numbers were kept."""
        if fresh and self.newest is not None:
            self.bases[boot] = (self.newest // ROUND + 2) * ROUND
        elif fresh and len(self.sequences) == 1:
            self.bases[boot] = 0
        if boot not in self.bases:
            return None
        number = self.bases[boot] + sequence + 1
        present = boot == self.life % BOOTS  # `known` is of no boot before
        if known is not None and present and not fresh and known - number >= ROUND // 2:
            # So many were lost that the field has gone round unseen.
            rounds = (known - number + ROUND // 2) // ROUND * ROUND
            self.bases[boot] += rounds
            number += rounds
        if self.newest is None or number > self.newest:
            self.newest = number
        return number

    def _other_boot(self, boot: int, now: int, patience: int) -> tuple[int, bool]:
        """The life that another boot count means, and whether the mote has started anew."""
        later = (boot - self.life) % BOOTS
        if later > BOOTS // 2 and (now == UNTIMED or abs(now - self.booted) <= patience):
            return self.life - BOOTS + later, False
        # The same boot count eight boots ago has nothing to do with this one.
        self.life, self.booted = self.life + later, now
        self.sequences.pop(boot, None)
        self.contents.pop(boot, None)
        return self.life, True


class Numbered(NamedTuple):
    """A message's number in its boot, its number among all of its mote, and whether it opens a boot."""

    sequence: int
    number: int
    fresh: bool
    before: int | None  # the boot count before, if the mote has started anew
    differs: bool = False  # another message had this number before


class Numbers:
    """Numbers all messages of each mote, boot after boot, such that no two share one.

    A boot's numbers begin at one more than a multiple of 256, so that a sequence field is always one less than the
    number modulo 256; and at least 256 after those of the boot before, so that a counter of that one, read as the
    nearest to the new numbers, is none of them.
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
    ) -> Numbered | None:
        """None for a copy. `known`: the newest of that mote that others are known to have heard of."""
        mote = self._motes.get(source)
        if mote is None:
            mote = self._motes[source] = MoteBoots(boot, now)
        before = mote.life % BOOTS
        if not mote.is_silent(boot, now, self._patience):
            known = None  # it cannot have sent so many since: whoever says so is wrong
        _, sequence, copy, fresh, rebooted = mote.accept(boot, field, now, self._patience, digest)
        if copy:
            return None
        number = mote.number(boot, sequence, fresh, known)
        assert number is not None  # numbers are kept from the first message on
        return Numbered(sequence, number, fresh, before if rebooted else None, mote.differs)

    @property
    def newest(self) -> dict[int, int]:
        """The largest number of each mote."""
        return {source: mote.newest for source, mote in self._motes.items() if mote.newest is not None}

    def named(self, source: int, number: int) -> tuple[int, int]:
        """The boot and the sequence number in it that a number means."""
        mote = self._motes.get(source)
        boots = mote.bases if mote else {0: 0}
        boot = max(boots, key=lambda boot: (boots[boot] < number, boots[boot]))
        return boot, number - boots[boot] - 1
