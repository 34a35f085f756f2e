"""Measures where messages are lost on the real firmware, and what stubs would gain. `make losses` runs it: 3 minutes.

    python -m tools.losses [--write] [--seeds 5] [--seconds 40]

A stub is the header and stamp of a lost message, sent by whoever knows of the loss. It runs ten emulated motes over
three hops (docs/reference/testbed.md). The truth log tells, for each message that did not reach the base station,
where its
copies ended, and who knew. Then it stamps the same run as barrier does, and delivers it with the stubs that the
droppers would send (tools/stub_replay.py). Prints tables in Markdown; with --write they also go into
docs/evidence/schemes.md.

A run counts from when every mote has been heard once, and up to its last second.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import mean, median
from textwrap import wrap
from typing import NamedTuple

from basestation.causality.schemes import Setting
from basestation.causality.schemes.barrier import Barrier
from basestation.causality.stream import Stream
from basestation.causality.violations import count_violations
from basestation.simulator.simulated_trace import stream_of
from basestation.testbed.air import message_of
from basestation.testbed.grid_run import run_on_grid
from basestation.testbed.judge import SOON_NS, decoded, messages_of
from basestation.testbed.recorded_messages import Sent
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish
from basestation.testbed.testbed_trace import trace_of
from basestation.testbed.through_station import TruthEvents
from basestation.testbed.truth_log import Event, ReceptionOutcome, Signal
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import Beacon, Heard
from packet_formats.tinyos import ActiveMessage, decode_packet
from tools.pages import MarkedPlace, table
from tools.schemes_table import HOPS, MOTES, RATE, ROOT, deployment_of
from tools.stub_replay import Stub, replay

PLACE = MarkedPlace(
    ROOT / "docs" / "evidence" / "schemes.md",
    "<!-- table: made by `make losses` -->",
    "<!-- end of the losses -->",
)
NS = 1_000_000_000
WIDTH = 120  # of a line in docs/
IMAGES = "barrier"  # the stamp of the motes; the replay stamps the recorded events again
UNCOUNTED = 3  # hops left in a copy: three or more, never used up
NO_HOPS = 255  # in the beacon of a mote that does not know its distance

# How a node's copy ended.
SENT = "sent"
LATE = "too late for δ"
FULL = "outbox full"
LINE = "gateway's line full"
SPENT = "too few hops left"
UNREAD = "not read from the radio"
KNOWING = (LATE, FULL, LINE)  # who drops a copy like this knows it

# How far a lost message got.
UNSENT = "never on the air: its sender found no clear channel in time"
UNHEARD = "on the air once, heard by nobody"
KEPT = "heard by motes, passed on by none"
RELAYED = "passed on, the last copies lost on the air"
HEARD = "heard by the gateway, not handed up"
PLACES = (UNSENT, UNHEARD, KEPT, RELAYED, HEARD)


@dataclass(frozen=True, slots=True)
class CopyEnd:
    """A node that had a copy of a message: from when, until when, and how that ended."""

    node: int
    since: int
    until: int
    how: str


@dataclass(slots=True)
class Passage:
    """What became of the copies of one message."""

    sent: Sent
    arrived: bool  # at the base station
    signals: list[tuple[Signal, Data]] = field(default_factory=list)
    ends: list[CopyEnd] = field(default_factory=list)
    at_gateway: int | None = None  # when a gateway first heard it

    @property
    def drops(self) -> list[CopyEnd]:
        """The copies whose end somebody knows, the first one first."""
        return sorted((end for end in self.ends if end.how in KNOWING), key=lambda end: end.until)

    @property
    def place(self) -> str:
        """How far a lost message got."""
        if self.at_gateway is not None:
            return HEARD
        if not self.signals:
            return UNSENT
        if len(self.ends) == 1:
            return UNHEARD
        return RELAYED if self.senders > 1 else KEPT

    @property
    def senders(self) -> int:
        """How many nodes put it on the air."""
        return len({signal.node for signal, _ in self.signals})

    def is_alive_beside(self, drop: CopyEnd) -> bool:
        """Whether another copy was still on its way when this one was dropped."""
        return any(end is not drop and end.since <= drop.until < end.until for end in self.ends)


@dataclass(slots=True)
class _Noted:
    """What the log tells beside the signals of data messages."""

    network: ScenarioNetwork
    received: Mapping[int, Sequence[int]]  # signal: nodes
    no_room: set[tuple[int, int]]  # (gateway, signal): its line was full
    events: dict[tuple[int, int, str], int] = field(default_factory=dict)  # (id of a Sent, node, kind): when
    distances: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def is_spent(self, data: Data, node: int, t: int) -> bool:
        """Whether a copy has too few hops left to reach the gateway from a node, by the node's last beacon."""
        if data.hops in (0, UNCOUNTED):
            return data.hops == 0
        known = self.distances.get(node, [])
        at = bisect_right(known, t, key=lambda beacon: beacon[0])
        return bool(at) and data.hops < known[at - 1][1]

    def why_kept(self, passage: Passage, data: Data, node: int, t: int) -> str:
        """Why a mote that heard a copy did not pass it on, if not because it was late."""
        if not any((id(passage.sent), node, kind) in self.events for kind in ("receive", "unmerged")):
            return UNREAD
        return SPENT if self.is_spent(data, node, t) else FULL


def passages_of(truth: TruthEvents, network: ScenarioNetwork, arrived: Collection[int]) -> list[Passage]:
    """The ways of all messages, in the order of sending; `arrived` has the numbers of those at the base station."""
    book, _ = messages_of(truth.recorded, network)
    passages = [Passage(sent, number in arrived) for number, sent in enumerate(book.all)]
    by_message = {id(passage.sent): passage for passage in passages}
    no_room = {(node, number) for node in network.gateways for number in line_drops(truth, node, network)}
    noted = _Noted(network, truth.received, no_room)
    signals = sorted(truth.signals, key=lambda signal: signal.begin)
    for seen in decoded(signals, network, layout_of(network.deployment)):
        message, signal = seen.message, seen.signal
        if isinstance(message, Beacon):
            if signal.node is not None and message.hops != NO_HOPS:
                noted.distances[signal.node].append((signal.begin, message.hops))
        elif isinstance(message, Data) and (sent := book.find(message.source, message.sequence, signal.to)):
            by_message[id(sent)].signals.append((signal, message))
    for event in truth.recorded:
        if event.kind in ("receive", "unmerged", "late"):
            found = book.find(event.peer, event.sequence, event.t)
            if found and event.t - found.t < SOON_NS:
                noted.events.setdefault((id(found), event.node, event.kind), event.t)
    for passage in passages:
        passage.ends += _ends_of(passage, noted)
        passage.at_gateway = min(
            (
                s.to
                for s, _ in passage.signals
                if set(truth.received.get(s.number, ())) & set(network.gateways)
            ),
            default=None,
        )
    return passages


def line_drops(truth: TruthEvents, gateway: int, network: ScenarioNetwork) -> Iterator[int]:
    """The signals that a gateway heard and had no room for on its line: its heard records count them."""
    board, layout = network.deployment.network.board, layout_of(network.deployment)
    heard = [signal for signal in truth.signals if gateway in truth.received.get(signal.number, ())]
    heard.sort(key=lambda signal: signal.to)
    frames = [message_of(signal, board, layout.tinyos) for signal in heard]
    decoder, at, lost = FrameDecoder(), 0, None
    for packet in (p for event in truth.uarts if event.node == gateway for p in decoder.feed(event.bytes)):
        frame = decode_packet(packet)
        message = decode_message(frame, layout) if isinstance(frame, ActiveMessage) else None
        if isinstance(message, Heard):
            lost = message.lost
        elif isinstance(frame, ActiveMessage) and lost is not None:
            yield from (signal.number for signal in heard[at : at + lost])
            same = (i for i in range(at + lost, len(heard)) if (raw := frames[i]) and raw.data == frame.data)
            at, lost = next(same, at + lost) + 1, None


def _ends_of(passage: Passage, noted: _Noted) -> Iterator[CopyEnd]:
    """Who had a copy and what became of it, the sender first."""
    network, sender = noted.network, noted.network.node_of(passage.sent.send.source)
    assert sender is not None

    def end_of(node: int, since: int, otherwise: str) -> CopyEnd:
        went = [signal.to for signal, _ in passage.signals if signal.node == node]
        if went:
            return CopyEnd(node, since, went[0], SENT)
        late = noted.events.get((id(passage.sent), node, "late"))
        return CopyEnd(node, since, since, otherwise) if late is None else CopyEnd(node, since, late, LATE)

    yield end_of(sender, passage.sent.t, LATE)  # or its radio failed, which it knows as well
    had = {sender}
    for signal, data in sorted(passage.signals, key=lambda copy: copy[0].to):
        for node in noted.received.get(signal.number, ()):
            if (node, signal.number) in noted.no_room:
                yield CopyEnd(node, signal.to, signal.to, LINE)
            elif node in network.motes and node not in had:
                had.add(node)
                yield end_of(node, signal.to, noted.why_kept(passage, data, node, signal.to))


class LossRun(NamedTuple):
    """One run, counted from when all motes have been heard.

    `travel`: the ticks that a message of each node usually takes to the gateway. `missed`: why lost messages were not
    heard by nodes that mostly hear their sender.
    """

    deployment: Deployment
    stream: Stream
    passages: list[Passage]
    counted: list[int]  # numbers of messages
    travel: dict[int, float]
    missed: Counter[str]

    def stub(self, number: int, end: CopyEnd) -> Stub:
        """The stub that a node sends when its copy of a message ends."""
        passed = (end.until - self.passages[number].sent.t) / tick_ns(self.deployment) + self.travel[end.node]
        return Stub(int(self.stream.sent_at[number]) + ceil(passed), number)


def tick_ns(deployment: Deployment) -> float:
    return NS * deployment.clock.tick_seconds


def loss_run(events: Sequence[Event], network: ScenarioNetwork) -> LossRun:
    stream, _ = stream_of(trace_of(events, network))
    arrived = stream.arrival_message.tolist()
    passages = passages_of(TruthEvents.of(events), network, set(arrived))
    counted = _settled(passages, arrived, len(network.motes), events[-1].t - NS)
    lost = [passages[number] for number in counted if not passages[number].arrived]
    travel = dict(_travel(passages, network))
    return LossRun(network.deployment, stream, passages, counted, travel, Counter(_missed(events, lost)))


def _settled(passages: Sequence[Passage], arrived: Sequence[int], motes: int, end: int) -> list[int]:
    """The messages sent after every mote had been heard, and before the end."""
    heard: dict[int, int] = {}
    for number in arrived:
        heard.setdefault(passages[number].sent.send.source, passages[number].at_gateway or 0)
    begin = max(heard.values()) if len(heard) == motes else end
    return [number for number, passage in enumerate(passages) if begin < passage.sent.t < end]


def _travel(passages: Sequence[Passage], network: ScenarioNetwork) -> Iterator[tuple[int, float]]:
    taken: dict[int, list[int]] = defaultdict(list)
    for passage in passages:
        if passage.at_gateway is not None:
            taken[passage.sent.send.source].append(passage.at_gateway - passage.sent.t)
    for mote, node in enumerate(network.motes):
        yield node, median(taken[mote] or [0]) / tick_ns(network.deployment)
    yield from ((node, 0.0) for node in network.gateways)


def _missed(events: Sequence[Event], lost: Sequence[Passage]) -> Iterator[str]:
    """For each copy of a lost message, why a node did not receive it that hears most of its sender's signals."""
    sender = {event.number: event.node for event in events if isinstance(event, Signal)}
    outcomes = [event for event in events if isinstance(event, ReceptionOutcome)]
    heard: dict[tuple[int | None, int], list[bool]] = defaultdict(list)
    for event in outcomes:
        heard[sender.get(event.signal), event.node].append(event.outcome == "received")
    usual = {pair for pair, received in heard.items() if mean(received) > 0.5}
    copies = {signal.number for passage in lost for signal, _ in passage.signals}
    for event in outcomes:
        is_missed = event.signal in copies and event.outcome != "received"
        if is_missed and (sender[event.signal], event.node) in usual:
            yield event.outcome


def run_testbed(seed: int, seconds: float, rate: float) -> LossRun:
    wish = Wish(seed=seed, seconds=seconds)
    with run_on_grid(deployment_of(IMAGES), MOTES, wish, rate) as (events, network):
        return loss_run(list(events), network)


# ---- With stubs ----


class StubRow(NamedTuple):
    """The barrier on a run with some stubs: ticks that each message was held, and violated pairs delivered."""

    hold: list[int]
    pairs: int


def stub_rows(run: LossRun) -> dict[str, StubRow]:
    """The run delivered without stubs, with those that somebody could send, and with more than anybody could."""
    ended = [(number, end) for number in run.counted for end in run.passages[number].ends]
    known = [run.stub(number, end) for number, end in ended if end.how in KNOWING]
    spent = [run.stub(number, end) for number, end in ended if end.how in (*KNOWING, SPENT)]
    every = [run.stub(number, _at_once(run.passages[number])) for number in lost_in(run)]
    return {
        "none": _row(run, ()),
        "of known drops, one way": _row(run, known),
        "of known drops, several": _row(run, known, several=True),
        "of copies with too few hops left too, one way": _row(run, spent),
        "of copies with too few hops left too, several": _row(run, spent, several=True),
        "of every second loss, one way": _row(run, every[::2]),
        "of every loss, one way": _row(run, every),
        "of every loss, several": _row(run, every, several=True),
    }


def lost_in(run: LossRun) -> list[int]:
    return [number for number in run.counted if not run.passages[number].arrived]


def _at_once(passage: Passage) -> CopyEnd:
    """Its sender learns of a loss in the moment of sending: sooner than anybody could."""
    return replace(passage.ends[0], until=passage.sent.t)


def _row(run: LossRun, stubs: Iterable[Stub], several: bool = False) -> StubRow:
    clock, counted = run.deployment.clock, set(run.counted)
    scheme = Barrier(Setting(run.stream.motes, clock.epsilon, clock.delta))
    played = replay(run.stream, scheme, stubs, several)
    left = [(number, hold) for number, hold in zip(*played, strict=True) if number in counted]
    found = count_violations([run.passages[number].sent.send for number, _ in left])
    return StubRow([hold for _, hold in left], found.pairs)


# ---- Tables ----


def tables_of(runs: Sequence[LossRun], seconds: float, rate: float) -> Iterator[str]:
    sent = sum(len(run.counted) for run in runs)
    lost = [run.passages[number] for run in runs for number in lost_in(run)]
    known = [passage for passage in lost if passage.drops]
    senders = [run.passages[number].senders for run in runs for number in run.counted]
    yield from wrap(
        f"{MOTES} MICAz motes, {HOPS} hops, {rate:g} messages a second of each, {len(runs)} seeds of {seconds:g} s, "
        f"{IMAGES} images. Of {sent} messages {len(lost)} were lost ({_percent(len(lost), sent)}). Of these losses "
        f"somebody knew of {len(known)} ({_percent(len(known), len(lost))}). A message was on the "
        f"air from {mean(senders):.1f} nodes on average, {_percent(senders.count(1), sent)} of them from one alone.",
        WIDTH,
    )
    yield from ("", *_places(lost), "", *_ends(runs), "")
    missed = sum((run.missed for run in runs), Counter[str]())
    told = ", ".join(f"{outcome} {_percent(n, missed.total())}" for outcome, n in missed.most_common())
    yield from wrap(
        f"Why nodes that mostly hear a sender missed a copy of a lost message ({missed.total()} times): {told}.",
        WIDTH,
    )
    yield from ("", *_gains(runs))


def _places(lost: Sequence[Passage]) -> Iterator[str]:
    rows = []
    for place in PLACES:
        here = [passage for passage in lost if passage.place == place]
        known = sum(bool(passage.drops) for passage in here)
        rows.append([place, str(len(here)), _percent(len(here), len(lost)), str(known)])
    yield from table(("how far a lost message got", "losses", "share", "known to somebody"), rows)


def _ends(runs: Sequence[LossRun]) -> Iterator[str]:
    passages = [run.passages[number] for run in runs for number in run.counted]
    ends = [(passage, end) for passage in passages for end in passage.ends]
    rows = []
    for how in (LATE, FULL, LINE, SPENT, UNREAD):
        these = [(passage, end) for passage, end in ends if end.how == how]
        saved = sum(passage.arrived for passage, _ in these)
        alive = sum(passage.is_alive_beside(end) for passage, end in these)
        is_known = "yes" if how in KNOWING else "no"
        shares = (_percent(part, len(these)) for part in (alive, saved))
        rows.append([how, is_known, str(len(these)), *shares])
    heads = ("a copy that was not passed on", "a known drop", "copies", "another copy on its way then")
    yield from table((*heads, "the message arrived"), rows)


def _gains(runs: Sequence[LossRun]) -> Iterator[str]:
    found = [stub_rows(run) for run in runs]
    before = mean(hold for row in found for hold in row["none"].hold)
    tick_ms = 1000 * runs[0].deployment.clock.tick_seconds
    rows = []
    for name in found[0]:
        hold = mean(hold for row in found for hold in row[name].hold)
        fall = f"{100 * (hold / before - 1):+.0f}%" if before and name != "none" else ""
        pairs = sum(row[name].pairs for row in found)
        rows.append([name, f"{hold:.2f}", f"{hold * tick_ms:.1f}", fall, str(pairs)])
    yield from table(("stubs", "mean hold, ticks", "ms", "change", "violated pairs delivered"), rows)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def collect(seeds: int, seconds: float, rate: float) -> Iterator[LossRun]:
    for seed in range(1, seeds + 1):
        yield run_testbed(seed, seconds, rate)
        print(f"seed {seed} of {seeds}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/evidence/schemes.md")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--rate", type=float, default=RATE, help="messages a second of each mote")
    given = parser.parse_args()
    runs = list(collect(given.seeds, given.seconds, given.rate))
    content = "\n".join(tables_of(runs, given.seconds, given.rate))
    print(content)
    if given.write:
        PLACE.write(content)


if __name__ == "__main__":
    main()
