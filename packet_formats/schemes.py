"""The descriptor of every stamp scheme: what its stamp holds and what it can do. Standard library only.

Layouts, deployments, the C header, `describe`, planning, the testbed, the live station and the analysis all ask the
descriptors. What a scheme does is in `basestation/causality/schemes/NAME.py`. Another package adds a scheme by an entry
point in the group `causeway.schemes`; its value is an object with a `descriptor` like these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from itertools import product
from math import isqrt
from typing import TYPE_CHECKING

from packet_formats.phrases import did_you_mean

if TYPE_CHECKING:
    from packet_formats.layout import StampLayout

PACKINGS = ("bits", "bytes")
COUNTS = ("events", "sends")
CARRIES = ("pair", "sum")
TIMED_POLICIES = ("causal", "dapw", "cbd")  # they compare stamps, and wait for the clock
PHI_POLICIES = ("dapw", "cbd")  # those of them whose wait can be a part of the safe one
SEQUENCE = "sequence"  # each mote's own order: its rule reads only the header, so it takes every stamp
LEDGER = "ledger"  # the policy whose wait keeps a promised share of violations

COUNTER_BITS = 8  # of a message's number or name: as wide as the sequence in each header
MAX_FIELD_BITS = 16  # a field spans at most three bytes, and fits an AVR register pair
WIDE_SOURCE_FROM = 240  # motes; below that number, one byte leaves 16 ids for gateways
NAMES = 4  # how many names a history carries by default
ENTRY_POINTS = "causeway.schemes"
SMALLEST = "shlc"  # one or two bytes, whatever the network: what to advise where another stamp does not fit

Fields = tuple[tuple[str, int], ...]  # names and bits


class LayoutError(ValueError):
    """A layout is impossible: the setting at fault, its value, and why."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"{key} = {value!r}: {reason}")
        self.key, self.value, self.reason = key, value, reason


@dataclass(frozen=True, slots=True)
class StampChoice:
    """The settings that decide a stamp's widths: the network, and the keys of [stamp] as they were given."""

    epsilon: int
    delta: int
    motes: int
    entries: int | str = "all"
    packing: str = "bits"
    count: str = "events"
    events_per_tick: int = 1
    counter_bits: int | None = None
    carry: str | None = None
    clock_bits: int | None = None

    @property
    def most_bits(self) -> int:
        """The width that one field may have."""
        return 8 if self.packing == "bytes" else MAX_FIELD_BITS


@dataclass(frozen=True, slots=True)
class StampForm:
    """The fields of a stamp: a head, then `least` to `most` items of the same fields.

    `{}` in the name of an item's field is replaced by the item's index.
    """

    head: Fields = ()
    item: Fields = ()
    least: int = 0
    most: int = 0
    carry: str = "pair"
    count: str = "events"


@dataclass(frozen=True, slots=True)
class SchemeDescriptor:
    """The facts about a scheme that the other packages ask for.

    `form` computes the fields for a choice of settings. `meaning` explains a field of an item: it is given the field's
    name, the item's index and the layout. `settings` are the optional keys of [stamp] that the scheme takes.
    """

    name: str
    summary: str
    form: Callable[[StampChoice], StampForm]
    meaning: Callable[[str, int, StampLayout], str]
    settings: tuple[str, ...] = ()
    has_clock: bool = True  # the stamp carries the sender's clock
    is_ordered: bool = False  # any two stamps compare, so the timed policies can use them
    takes_ledger: bool = False  # its own rule can wait by a ledger; the rules of ordered stamps all can
    lead: int = 1  # how many epsilon its clock may be ahead of a receiver's, at least: B must allow it
    carries: bool = False  # a full counter carries into the clock, which may then be 2 epsilon ahead
    exact: Callable[[StampLayout, int], bool] = lambda layout, epsilon: False
    """Whether its rule delivers in causal order while G1 and G2 hold, for a layout and an epsilon."""
    one_send_a_tick: bool = False  # it names a send by the sender's clock: a second one in a tick must wait
    in_firmware: bool = False  # firmware/core/stamp_*.c has it
    worth_trying: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    """The values of its settings that planning and the analysis compare; other settings keep their default."""

    def trials(self) -> Iterator[dict[str, int | str]]:
        """All combinations of settings worth trying."""
        for values in product(*self.worth_trying.values()):
            yield dict(zip(self.worth_trying, values, strict=True))

    def lead_ticks(self, epsilon: int, delta: int, modulus: int, carry: str) -> int:
        """How far ahead of its own clock a receiver reads a stamp's clock: as far as is needed and B allows.

        A stamp with r and c apart has no room for a c above epsilon.
        """
        further = self.carries and carry == "sum"
        wanted, allowed = (1 + further) * epsilon, modulus - 1 - delta - epsilon
        return max(self.lead * epsilon, min(wanted, allowed))

    @property
    def waits_by_name(self) -> bool:
        """Whether its own rule waits for particular messages, which may never come."""
        return not self.is_ordered and not self.has_clock

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies that can read its stamp; `none` and `sequence` read only the header."""
        own = TIMED_POLICIES if self.is_ordered else (self.name,)
        ledger = (LEDGER,) if self.is_ordered or self.takes_ledger else ()
        return tuple(dict.fromkeys(("none", *own, *ledger, SEQUENCE)))

    @property
    def policy(self) -> str:
        """The policy of a deployment that names none."""
        return "cbd" if self.is_ordered else self.name


def source_bytes(motes: int) -> int:
    """The bytes of a mote's id."""
    return 1 if motes < WIDE_SOURCE_FROM else 2


def least_clock_bits(epsilon: int, delta: int, lead: int = 1) -> int:
    """The fewest bits for which B >= delta + (lead + 1)*epsilon + 1, so that every legal stamp unwraps."""
    return (delta + (lead + 1) * epsilon).bit_length()


def age_bits(epsilon: int, delta: int) -> int:
    """The width of an age of -epsilon..delta + 2*epsilon, below the code for "too old to matter"."""
    return (delta + 3 * epsilon + 1).bit_length()


# ---- Widths of fields ----


def clock_bits(choice: StampChoice, lead: int = 1) -> int:
    """The width of the clock; `LayoutError` where a receiver could take one time for another."""
    epsilon, delta, most = choice.epsilon, choice.delta, choice.most_bits
    need, least = delta + (lead + 1) * epsilon + 1, least_clock_bits(epsilon, delta, lead)
    sum_text = f"delta + {lead + 1}*epsilon + 1 = {need}"
    bits = least if choice.clock_bits is None else choice.clock_bits
    if bits < least:
        raise LayoutError(
            "clock_bits",
            bits,
            f"B = 2^{bits} = {2 ** max(bits, 0)} is below {sum_text}, so a receiver "
            f"could take one time for another; the least clock_bits is {least}",
        )
    if least > most:
        advice = "bits packing or a longer tick" if choice.packing == "bytes" else "a longer tick"
        raise LayoutError(
            "clock_bits",
            bits,
            f"{sum_text} needs {least} bits, a field has {most}: use {advice}",
        )
    if bits > most:
        raise LayoutError(
            "clock_bits", bits, f"a clock field has at most {most} bits in {choice.packing} packing"
        )
    return bits


def _clock(choice: StampChoice) -> Fields:
    return (("clock", clock_bits(choice)),)


def _clock_and_c(choice: StampChoice) -> Fields:
    bits = choice.epsilon.bit_length()
    if bits > choice.most_bits:
        reason = f"c up to epsilon = {choice.epsilon} does not fit a byte; use bits"
        raise LayoutError("packing", choice.packing, reason)
    return (*_clock(choice), ("c", bits))


def _counter_bits(choice: StampChoice) -> int:
    """The width of a counter: no legal value may reach its top code, which flags a saturated stamp."""
    most, asked = choice.most_bits, choice.counter_bits
    if asked is not None:
        if not 2 <= asked <= most:
            raise LayoutError("counter_bits", asked, f"must be 2..{most} in {choice.packing} packing")
        return asked
    events = choice.events_per_tick * choice.motes
    needed = (events + 2).bit_length()  # the least w with events + 1 < 2^w - 1
    if needed > most:
        raise LayoutError(
            "counter_bits",
            None,
            f"events_per_tick * motes + 1 = {events + 1} needs {needed} bits below the top code, "
            f"a field has {most}; set counter_bits = {most} to accept saturated stamps",
        )
    return 8 if choice.packing == "bytes" else needed


def _fill_byte(head: Fields) -> int:
    """The width that fills the last byte: at least 3 bits, at most 7."""
    free = -sum(bits for _, bits in head) % 8
    return min(free if free >= 3 else free + 8, 7)


def _age_bits(choice: StampChoice) -> int:
    bits = age_bits(choice.epsilon, choice.delta)
    if bits > MAX_FIELD_BITS:
        oldest = choice.delta + 2 * choice.epsilon
        reason = f"an age up to delta + 2*epsilon = {oldest} needs {bits} bits"
        raise LayoutError("delta", choice.delta, f"{reason}, a field has {MAX_FIELD_BITS}: use a longer tick")
    return bits


# ---- Forms ----


def _kn(choice: StampChoice) -> StampForm:
    entries, full = choice.entries, choice.epsilon + 1
    if entries == "all":
        entries = full
    if isinstance(entries, str) or not 1 <= entries <= full:
        raise LayoutError("entries", choice.entries, f'must be "all" or 1..{full}, which is epsilon + 1')
    item = (("kn{}", _counter_bits(choice)),)
    return StampForm(_clock_and_c(choice), item, entries, entries, count=choice.count)


def _hlc(choice: StampChoice) -> StampForm:
    carry = choice.carry or "pair"
    head = _clock(choice) if carry == "sum" else _clock_and_c(choice)
    return StampForm(head, (("counter", _counter_bits(choice)),), 1, 1, carry)


def _shlc(choice: StampChoice) -> StampForm:
    carry = choice.carry or "sum"
    head = _clock(choice) if carry == "sum" else _clock_and_c(choice)
    bits = _fill_byte(head) if choice.counter_bits is None else _counter_bits(choice)
    return StampForm(head, (("counter", bits),), 1, 1, carry, "sends")


def named_messages(choice: StampChoice) -> Fields:
    """The fields that name a message: its source and its sequence, as in a header."""
    bits = 8 * source_bytes(choice.motes)
    return (("source{}", bits), ("sequence{}", bits))


def _last_sender(choice: StampChoice) -> StampForm:
    return StampForm((), named_messages(choice), 1, 1)


def _history(choice: StampChoice) -> StampForm:
    names = NAMES if isinstance(choice.entries, str) else choice.entries
    if names < 1:
        raise LayoutError("entries", names, "must be at least 1: a history without names says nothing")
    return StampForm((), named_messages(choice), names, names)


def _counters(name: str, how_many: Callable[[int], int]) -> Callable[[StampChoice], StampForm]:
    """A form of 8-bit counters; `how_many` gives their number from the number of motes."""

    def form(choice: StampChoice) -> StampForm:
        many = how_many(choice.motes)
        return StampForm((), ((name, COUNTER_BITS),), many, many)

    return form


def _ages(how_many: Callable[[int], int]) -> Callable[[StampChoice], StampForm]:
    """A form of the sender's clock and the ages of other messages, as many as `how_many` says."""

    def form(choice: StampChoice) -> StampForm:
        many = how_many(choice.motes)
        return StampForm(_clock(choice), (("age{}", _age_bits(choice)),), many, many)

    return form


BARRIER_LEAD = 2  # epsilons: the counter carries into l, which then runs ahead of its sender's clock
BARRIER_NAMES = 6  # more gain nothing (docs/evidence/algorithms.md)
BARRIER_AGE_BITS = 5
BARRIER_SEQUENCE_BITS = 4


def _barrier(choice: StampChoice) -> StampForm:
    clock = clock_bits(choice, BARRIER_LEAD)
    counter = max(3, 9 - clock)  # below 3 bits a busy network saturates it; a head of 16 bits fills two bytes
    head = (("clock", clock), ("counter", counter), ("cut", 1), ("close", 1), ("age", BARRIER_AGE_BITS))
    source = next(bits for bits in (4, 6, 8, 16) if choice.motes <= 1 << bits)
    name = (("source{}", source), ("sequence{}", BARRIER_SEQUENCE_BITS))
    return StampForm(head, name, 0, BARRIER_NAMES, carry="sum")


# ---- What fields mean ----


def _or_more(layout: StampLayout) -> str:
    return f"{layout.entry_max}: that many or more"


def _kn_meaning(name: str, index: int, layout: StampLayout) -> str:
    return f"{layout.count} known at r + c{f' - {index}' if index else ''}; {_or_more(layout)}"


def _counter_meaning(name: str, index: int, layout: StampLayout) -> str:
    return f"{layout.count} at this l; {_or_more(layout)}"


def _no_meaning(name: str, index: int, layout: StampLayout) -> str:
    raise AssertionError(f"a {layout.scheme} stamp has no items")


def _after(index: int) -> str:
    """The other mote that entry `index` may mean: a sender leaves itself out, so higher ids move down by one."""
    return f"{index + 1} if the sender is one of 0..{index}"


def _square(index: int, layout: StampLayout) -> tuple[int, str]:
    """The sender of an entry of a square stamp, and its receiver in words."""
    motes = isqrt(layout.entries)
    source, place = divmod(index, motes)
    return source, "the observer" if place == motes - 1 else f"mote {place + (place >= source)}"


def _age(of: Callable[[int, StampLayout], str]) -> Callable[[str, int, StampLayout], str]:
    def meaning(name: str, index: int, layout: StampLayout) -> str:
        return f"ticks, plus epsilon, since {of(index, layout)}; {layout.entry_max}: too old to matter"

    return meaning


def _sent_in_square(index: int, layout: StampLayout) -> str:
    source, to = _square(index, layout)
    return f"mote {source}'s newest message to {to}"


def _sent_in_two_vectors(index: int, layout: StampLayout) -> str:
    motes = layout.entries // 2
    if index >= motes:
        return f"mote {index - motes}'s newest message to the observer"
    to = "the observer" if index == motes - 1 else f"mote {index}, or {_after(index)}"
    return f"its own newest message to {to}"


def _matrix_meaning(name: str, index: int, layout: StampLayout) -> str:
    source, to = _square(index, layout)
    return f"messages known, modulo 256, of mote {source} to {to}"


def _vector_meaning(name: str, index: int, layout: StampLayout) -> str:
    return f"messages known of mote {index}, or {_after(index)}, modulo 256"


def name_meaning(name: str, index: int, layout: StampLayout) -> str:
    """The meaning of `source` and `sequence` of a named message; an unused name repeats the sender's own."""
    which = "last message received" if layout.most == 1 else f"message known of, {index} back"
    return f"{name} of the {which}; the sender's own: none"


def _barrier_meaning(name: str, index: int, layout: StampLayout) -> str:
    top = 2 ** dict(layout.head)["counter"] - 1
    return {
        "counter": f"sends at this l; {top}: that many or more",
        "cut": "1: it has causes that it does not name",
        "close": "1: its sequence modulo 16 is not unique, so no stamp names it",
        "age": "of what it does not name, of its own previous message, or of the newest that it names; 31: none",
        "source": "mote that sent an immediate cause",
        "sequence": "its sequence, modulo 16",
    }[name]


# ---- The rows ----

_ROWS = (
    SchemeDescriptor(
        "dpc1",
        "only the sender's physical clock",
        lambda choice: StampForm(_clock(choice)),
        _no_meaning,
        settings=("packing",),
        is_ordered=True,
        in_firmware=True,
        worth_trying={"packing": PACKINGS},
    ),
    SchemeDescriptor(
        "dpc2",
        "the sender's clock, and how far ahead the largest known clock is",
        lambda choice: StampForm(_clock_and_c(choice)),
        _no_meaning,
        settings=("packing",),
        is_ordered=True,
        in_firmware=True,
        worth_trying={"packing": PACKINGS},
    ),
    SchemeDescriptor(
        "kn",
        "the paper's stamp: a clock, how far ahead the largest known clock is, and events known at each",
        _kn,
        _kn_meaning,
        settings=("entries", "packing", "count", "counter_bits"),
        is_ordered=True,
        exact=lambda layout, epsilon: layout.entries == epsilon + 1,
        in_firmware=True,
        worth_trying={"count": COUNTS, "entries": (1, 2, 4, 6, "all"), "packing": PACKINGS},
    ),
    SchemeDescriptor(
        "hlc",
        "a hybrid logical clock: the largest clock known, and a counter of the events at it",
        _hlc,
        _counter_meaning,
        settings=("counter_bits", "carry"),
        is_ordered=True,
        carries=True,
        exact=lambda layout, epsilon: True,
        in_firmware=True,
    ),
    SchemeDescriptor(
        "shlc",
        "a hybrid logical clock whose counter counts only sends: one or two bytes in any network",
        _shlc,
        _counter_meaning,
        settings=("counter_bits", "carry"),
        is_ordered=True,
        carries=True,
        exact=lambda layout, epsilon: True,
        in_firmware=True,
        worth_trying={"counter_bits": (2, 3, 4, 5, 7)},
    ),
    SchemeDescriptor(
        "sequence",
        "the header's sequence number: each sender's messages in order",
        lambda choice: StampForm(),
        _no_meaning,
        has_clock=False,
        in_firmware=True,
    ),
    SchemeDescriptor(
        "scalar",
        "one logical clock for all motes",
        _counters("number", lambda motes: 1),
        lambda name, index, layout: "logical clock of all motes together, modulo 256",
        has_clock=False,
    ),
    SchemeDescriptor(
        "last-sender",
        "the name of the last message received",
        _last_sender,
        name_meaning,
        has_clock=False,
        in_firmware=True,
    ),
    SchemeDescriptor(
        "history",
        "the names of the newest messages known",
        _history,
        name_meaning,
        settings=("entries",),
        has_clock=False,
    ),
    SchemeDescriptor(
        "vector",
        "a counter for each mote; the sender's own is its sequence number",
        _counters("known{}", lambda motes: motes - 1),
        _vector_meaning,
        has_clock=False,
        exact=lambda layout, epsilon: True,
        in_firmware=True,
    ),
    SchemeDescriptor(
        "matrix",
        "a counter for each sender and receiver, the observer too, but none to itself",
        _counters("sent{}", lambda motes: motes * motes),
        _matrix_meaning,
        has_clock=False,
        exact=lambda layout, epsilon: True,
    ),
    SchemeDescriptor(
        "delta-causal",
        "when each mote last sent to each receiver",
        _ages(lambda motes: motes * motes),
        _age(_sent_in_square),
        exact=lambda layout, epsilon: True,
        one_send_a_tick=True,
    ),
    SchemeDescriptor(
        "delta-vector",
        "when each mote last sent: the one column of delta-causal that broadcast needs",
        _ages(lambda motes: motes),
        _age(lambda index, layout: f"mote {index}'s newest message"),
        exact=lambda layout, epsilon: True,
        one_send_a_tick=True,
        in_firmware=True,
    ),
    SchemeDescriptor(
        "two-hop",
        "when the sender last sent to each receiver, and when each mote last sent to the observer",
        _ages(lambda motes: 2 * motes),
        _age(_sent_in_two_vectors),
        one_send_a_tick=True,
    ),
    SchemeDescriptor(
        "barrier",
        "a hybrid logical clock, and the names of the immediate causes: about three bytes in any network",
        _barrier,
        _barrier_meaning,
        lead=BARRIER_LEAD,
        takes_ledger=True,
        carries=True,
        exact=lambda layout, epsilon: True,
        in_firmware=True,
    ),
)
OWN = {row.name: row for row in _ROWS}


@cache
def _plugins() -> dict[str, SchemeDescriptor | str]:
    """The descriptors of installed packages; a text in place of one says why it cannot be used."""
    found: dict[str, SchemeDescriptor | str] = {}
    for point in entry_points(group=ENTRY_POINTS):
        if point.name in (*OWN, *found, "none", *TIMED_POLICIES, LEDGER):
            found[point.name] = f"{point.value} adds a scheme {point.name}, but that name is taken"
            continue
        try:
            found[point.name] = _checked(point.name, point.load().descriptor)
        except (Exception, SystemExit) as error:  # a broken package breaks only its own scheme
            found[point.name] = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
    return found


def _checked(name: str, row: object) -> SchemeDescriptor:
    if not isinstance(row, SchemeDescriptor) or row.name != name:
        raise TypeError(f"its descriptor is not a SchemeDescriptor named {name}")
    return row


def names() -> tuple[str, ...]:
    """All schemes: ours, then those of installed packages."""
    added = (name for name, row in _plugins().items() if isinstance(row, SchemeDescriptor))
    return (*OWN, *(name for name in added if name not in OWN))


def unusable() -> tuple[str, ...]:
    """The schemes of installed packages that cannot be used; `descriptor` says why."""
    return tuple(name for name, row in _plugins().items() if isinstance(row, str) and name not in OWN)


def descriptor(name: str) -> SchemeDescriptor:
    """The descriptor of a scheme; `LayoutError` if there is none, or if its package cannot be used."""
    row = OWN.get(name) or _plugins().get(name)
    if isinstance(row, str):
        raise LayoutError("scheme", name, row)
    if row is None:
        known = names()
        raise LayoutError("scheme", name, f"must be one of {', '.join(known)}{did_you_mean(name, known)}")
    return row


def ordered() -> tuple[str, ...]:
    """The schemes of which any two stamps compare."""
    return tuple(name for name in names() if descriptor(name).is_ordered)


def takers(setting: str) -> tuple[str, ...]:
    """The schemes that take an optional key of [stamp]."""
    return tuple(name for name in names() if setting in descriptor(name).settings)


def policies() -> tuple[str, ...]:
    """All delivery policies: arrival order, the timed ones, the ledger, and the rules of schemes by their names."""
    rules = (name for name in names() if not descriptor(name).is_ordered)
    return ("none", *TIMED_POLICIES, LEDGER, *rules)


def refusal(policy: str, scheme: str) -> str | None:
    """Why a policy cannot work with a scheme's stamp; None when it can."""
    allowed = descriptor(scheme).policies
    if policy in allowed:
        return None
    able = [name for name in names() if policy in descriptor(name).policies]
    return f"needs stamps of {', '.join(able)}; the stamp here is {scheme}, which allows {', '.join(allowed)}"


def phi_refusal(policy: str) -> str | None:
    """Why a policy cannot have a phi; None when it can."""
    if policy in PHI_POLICIES:
        return None
    why = {"none": "delivers on arrival", "causal": "is phi = 100"}.get(policy, "has no phi")
    return f"policy {policy} {why}; {' and '.join(PHI_POLICIES)} take any phi"
