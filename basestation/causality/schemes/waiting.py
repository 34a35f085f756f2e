"""Rules that wait for messages by their numbers, up to the time to give up in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from basestation.causality.causal_graph import AHEAD
from basestation.causality.order import Message
from basestation.causality.rules import NEVER, Name

from .holding import Held, Holding, since
from .scheme import Setting

MEMORY = 256  # numbers of one source: beyond that an 8-bit counter could not name a message anyway


class Settled:
    """The messages that no rule need wait for, by source: all up to a floor, and single ones above it."""

    def __init__(self, motes: int) -> None:
        self._floor = [0] * motes
        self._above = [0] * motes  # bit i: number floor + 1 + i

    def has(self, source: int, number: int) -> bool:
        place = number - self._floor[source] - 1
        return place < 0 or bool(self._above[source] >> place & 1)

    def add(self, source: int, number: int) -> None:
        if self.has(source, number):
            return
        above = self._above[source] | 1 << number - self._floor[source] - 1
        rise = max((~above & above + 1).bit_length() - 1, above.bit_length() - MEMORY)
        self._floor[source] += rise
        self._above[source] = above >> rise

    def up_to(self, source: int, number: int) -> Iterator[Name]:
        """Those of a source up to a number that are not settled, as far back as any can be under way."""
        for one in range(max(self._floor[source], number - AHEAD) + 1, number + 1):
            if not self.has(source, one):
                yield source, one

    def among(self, source: int, numbers: int) -> Iterator[Name]:
        """Those of a source in a set of numbers, given as bits, that are not settled."""
        left = numbers >> self._floor[source] + 1 & ~self._above[source]
        while left:
            place = (left & -left).bit_length() - 1
            yield source, self._floor[source] + 1 + place
            left &= left - 1

    def start_at(self, source: int, number: int) -> None:
        """Everything before that number is settled, and nothing from it on."""
        self._floor[source], self._above[source] = number - 1, 0


class WaitingByName(Holding):
    """Waits for messages by source and number, and gives up a message that is missing for the time to give up in.

    The time runs from the arrival of the first message that names the missing one: that was sent earlier, so it is on
    its way already. A message in the buffer is not missing, since it will leave in its turn. But its own causes were
    sent even earlier, so no message stays longer than the time to give up in; held causes leave before it. That also
    ends circles of names, which come from a liar, or from a mote that has lost its memory or started anew.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._motes, self._patience = setting.motes, setting.patience
        self._gone = Settled(setting.motes)
        self._missed: dict[Name, int] = {}

    def begin(self) -> None:
        for mote in range(self._motes):
            self.leave(mote)

    def join(self, mote: int, number: int) -> None:
        self._gone.start_at(mote, number)
        self._missed = {name: at for name, at in self._missed.items() if not self._settled(name)}
        self._strike(self._all_settled())

    def leave(self, mote: int) -> None:
        self.join(mote, NEVER)

    def _name(self, message: Message) -> Name:
        return message.source, message.number

    def _names(self, message: Message, now: int) -> Iterator[Name]:
        own = self._name(message)
        for name in self._causes(message):
            if name != own:
                self._missed.setdefault(name, since(message, now))
                yield name

    @abstractmethod
    def _causes(self, message: Message) -> Iterator[Name]:
        """Which messages its stamp says come before it, of those that are not settled."""

    def _settled(self, name: Name) -> bool:
        return self._gone.has(*name)

    def _settled_by(self, gone: Held) -> Iterator[Name]:
        yield self._name(gone.message)
        yield from gone.missing

    def _expires(self, name: Name, here: bool) -> int:
        return NEVER if here else self._missed[name] + self._patience + 1

    def _longest(self, held: Held) -> int:
        return since(held.message, held.arrived) + self._patience + 1

    def _leaves(self, held: Held, at: int) -> bool:
        for name in held.missing:
            self._gone.add(*name)
            self._missed.pop(name, None)
        name = self._name(held.message)
        late = self._gone.has(*name)
        self._gone.add(*name)
        self._missed.pop(name, None)
        return late
