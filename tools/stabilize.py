"""Tests whether a network of the real images recovers from damage to a mote's memory, and how soon.

    python -m tools.stabilize --runs 200 --seed 1 --board micaz [--scheme barrier]

Each run is a network on the testbed. When it has settled, some bytes of one node's variables (from one to all,
log-uniformly) become random at a random moment; the flight recorder and the stack are left alone. The network then goes
on until 1,000 messages were sent after the last one that is out of order; if there are fewer, a longer run is made. At
the end every mote must send under its own id and in sync, and the gateway must hand its messages up.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from basestation.testbed import engine, images, topologies, truth_log
from basestation.testbed.air import message_of
from basestation.testbed.judge import judge
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish, assemble, networks_in
from basestation.testbed.testbed_report import NetworkReport
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.framing import FrameDecoder
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import Heard
from packet_formats.schemes import OWN
from packet_formats.tinyos import ActiveMessage, PacketError, decode_packet

NS = 1e9
GATEWAY_SHARE = 0.2  # of the corruptions
FIRMWARE_SCHEMES = tuple(name for name, row in OWN.items() if row.in_firmware)
LONGEST = 4  # tries, each twice as long, before a run counts as not recovered


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """The settings of a trial. Times are in seconds; `after` is how long a first try goes on."""

    board: str
    motes: int
    rate: float
    settle: tuple[float, float]
    after: float
    end: float  # in this last part, no mote may be silent, out of sync or under another id
    messages: int = 1000  # how many must follow the last violation
    scheme: str | None = None  # of the stamps; None: the example's

    @property
    def deployment(self) -> Deployment:
        """The board's example, with the stamp that is asked for."""
        example = load(images.PROJECT / "examples" / f"{self.board}.toml")
        if self.scheme is None:
            return example
        tables = example.to_dict()
        clock = {key: tables["clock"][key] for key in ("tick_log2", "epsilon", "delta")}
        return from_dict({"network": tables["network"], "clock": clock, "stamp": {"scheme": self.scheme}})


SETTINGS = {
    "micaz": TrialSettings("micaz", 10, 2.0, (12.0, 17.0), 56.0, 10.0),
    "mica2": TrialSettings("mica2", 6, 1.0, (15.0, 25.0), 190.0, 20.0),
}


@dataclass(frozen=True, slots=True)
class ImageCorruption:
    node: int
    at: float
    bytes: Mapping[int, int]  # address: value

    def script(self) -> tuple[str, ...]:
        return tuple(
            f"at {self.at:.6f} poke {self.node} {address} {value:02x}"
            for address, value in sorted(self.bytes.items())
        )


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The outcome of one run. Times are seconds since the corruption, None if it never happened."""

    run: int
    node: int
    gateway: bool
    bytes: int
    at: float
    messages: int  # after the corruption
    broken: int  # pairs whose stamps contradict happened-before
    inverted: int  # pairs delivered in the wrong order
    stamps: float | None  # the last broken pair
    delivered: float | None  # the last inverted pair
    clocks: float | None  # when clocks in sync were last further apart than epsilon
    unsynced: float | None  # when a message last said that its sender is out of sync
    restarted: float | None  # when the node last restarted
    # When it first worked again: a mote sent a message in sync, or a gateway spoke to its host.
    back: float | None
    since: int  # messages after the last violation
    resets: dict[int, int]  # by node
    epochs: tuple[int, ...]  # that were opened after the corruption
    troubles: tuple[str, ...]  # at the end
    faults: tuple[str, ...]  # of drivers
    hit: tuple[str, ...]  # variables
    wanted: int  # messages after the last violation

    @property
    def recovered(self) -> bool:
        return not self.troubles and self.since >= self.wanted


def variables(program: images.FirmwareProgram) -> dict[int, str]:
    """The name of the variable at each address, without the flight recorder."""
    return {
        address: name
        for name, (start, size) in program.variables().items()
        if name != images.RECORDER
        for address in range(start, start + size)
    }


def corruption(chance: random.Random, made: Bench) -> ImageCorruption:
    network = made.network
    node = chance.choice(network.gateways if chance.random() < GATEWAY_SHARE else network.motes)
    memory = sorted(variables(made.program_of(node)))
    count = min(len(memory), round(math.exp(chance.uniform(0, math.log(len(memory))))))
    chosen = chance.sample(memory, count)
    return ImageCorruption(
        node, chance.uniform(*made.setting.settle), {place: chance.randrange(256) for place in chosen}
    )


@dataclass(frozen=True, slots=True)
class Bench:
    """A network to be damaged."""

    setting: TrialSettings
    topology: topologies.RadioTopology
    network: ScenarioNetwork
    programs: images.Programs

    def program_of(self, node: int) -> images.FirmwareProgram:
        return self.programs.gateway if node in self.network.gateways else self.programs.mote

    def run(self, seed: int, script: tuple[str, ...], seconds: float, folder: Path) -> list[truth_log.Event]:
        folder.mkdir(parents=True, exist_ok=True)
        wish = Wish(seed=seed, seconds=seconds, script=script)
        programs = {self.network.name: self.programs}
        text = assemble([self.network], self.topology, programs, folder, wish).text()
        (folder / "scenario.txt").write_text(text)
        log = folder / "truth.jsonl"
        with engine.start(engine.build(), text, log) as going:
            going.finish()
        return list(truth_log.read(log))


def bench(setting: TrialSettings) -> Bench:
    deployment = setting.deployment
    margin = BOARDS[setting.board].radio.signal_margin_db
    topology = topologies.grid(setting.motes, 1, deployment.network.hops, margin=margin)
    (network,) = networks_in([deployment], topology)
    return Bench(setting, topology, network, images.programs_for(deployment, setting.rate))


def run(setting: TrialSettings, seed: int, number: int, keep: Path | None = None) -> TrialOutcome:
    """Run one corruption, longer and longer until enough messages follow the last violation."""
    made = bench(setting)
    damage = corruption(random.Random(f"{seed} run {number}"), made)
    after = setting.after
    with TemporaryDirectory(prefix="causeway-stabilize-") as place:
        folder = keep / f"{setting.board}-{seed}-{number}" if keep else Path(place)
        for _ in range(LONGEST):
            events = made.run(seed * 1000 + number, damage.script(), damage.at + after, folder)
            found = judged(number, damage, events, made)
            if found.since >= setting.messages:
                break
            after *= 2
    return found


def judged(
    number: int, damage: ImageCorruption, events: Sequence[truth_log.Event], made: Bench
) -> TrialOutcome:
    network, begin = made.network, round(damage.at * NS)
    (report,) = judge(events, [network]).networks
    after = [event for event in events if event.t > begin]
    data = list(_data(after, network, layout_of(network.deployment)))
    stamps, delivered, apart = _last_times(report, damage.at)
    last = begin + round(max(stamps or 0.0, delivered or 0.0) * NS)
    sends = [event.t for event in _recorded(after, "send")]
    resets = Counter(event.node for event in after if isinstance(event, truth_log.Reset))
    starts = [event.t for event in after if isinstance(event, truth_log.Reset) and event.node == damage.node]
    work = [t for t in _work(damage.node, after, data, network) if t > max(starts, default=begin)]
    unsynced = [signal.to for signal, message in data if not message.in_sync]
    return TrialOutcome(
        run=number,
        node=damage.node,
        gateway=damage.node in network.gateways,
        bytes=len(damage.bytes),
        at=damage.at,
        messages=len(sends),
        broken=report.order.broken,
        inverted=report.delivered.inverted,
        stamps=stamps,
        delivered=delivered,
        clocks=apart,
        unsynced=(max(unsynced) - begin) / NS if unsynced else None,
        restarted=(max(starts) - begin) / NS if starts else None,
        back=(min(work) - begin) / NS if work else None,
        since=sum(t > last for t in sends),
        resets=dict(resets),
        epochs=tuple(sorted({event.peer for event in _recorded(after, "epoch")})),
        troubles=_troubles_at_end(events, data, made),
        faults=_driver_faults(events, damage.at),
        hit=_variables_hit(damage, made),
        wanted=made.setting.messages,
    )


def _recorded(events: Iterable[truth_log.Event], kind: str) -> Iterator[truth_log.RecordedEvent]:
    for event in events:
        if isinstance(event, truth_log.RecordedEvent) and event.kind == kind:
            yield event


def _variables_hit(damage: ImageCorruption, made: Bench) -> tuple[str, ...]:
    names = variables(made.program_of(damage.node))
    hit = sorted({names[address] for address in damage.bytes})
    return tuple(hit) if len(hit) <= 40 else ("...",)


def _driver_faults(events: Iterable[truth_log.Event], at: float) -> tuple[str, ...]:
    """The first ten, with their times since the corruption."""
    return tuple(
        f"node {event.node} at {event.t / NS - at:.3f}: {event.what}"
        for event in events
        if isinstance(event, truth_log.DriverFault)
    )[:10]


def _troubles_at_end(
    events: Sequence[truth_log.Event], data: Sequence[tuple[truth_log.Signal, Data]], made: Bench
) -> tuple[str, ...]:
    network, setting = made.network, made.setting
    window = max(event.t for event in events) - round(setting.end * NS)
    last = [event for event in events if event.t >= window]
    sent = [message for message in data if message[0].begin >= window]
    motes = _mote_troubles(last, sent, network, setting)
    lines = _line_troubles(last, network, layout_of(network.deployment))
    return tuple(sorted({*motes, *lines}))


def _work(
    node: int,
    events: Sequence[truth_log.Event],
    data: Sequence[tuple[truth_log.Signal, Data]],
    network: ScenarioNetwork,
) -> Iterator[int]:
    """The times at which a node did its work."""
    if node in network.gateways:
        yield from (event.t for event in events if isinstance(event, truth_log.Uart) and event.node == node)
    for signal, message in data:
        if signal.node == node == network.node_of(message.source) and message.in_sync:
            yield signal.to


def _last_times(report: NetworkReport, at: float) -> tuple[float | None, ...]:
    """The last violations of stamps, deliveries and clocks, in seconds since the corruption."""
    times = (report.order.last_broken, report.delivered.last_inverted, report.skew.last_beyond)
    return tuple(None if t is None else t - at for t in times)


def _data(
    events: Iterable[truth_log.Event], network: ScenarioNetwork, layout: DataLayout
) -> Iterator[tuple[truth_log.Signal, Data]]:
    for event in events:
        if isinstance(event, truth_log.Signal) and event.node is not None:
            raw = message_of(event, network.deployment.network.board, layout.tinyos)
            message = decode_message(raw, layout) if raw else None
            if isinstance(message, Data):
                yield event, message


def _mote_troubles(
    events: Sequence[truth_log.Event],
    data: Sequence[tuple[truth_log.Signal, Data]],
    network: ScenarioNetwork,
    setting: TrialSettings,
) -> Iterator[str]:
    """What is wrong in these, the last events and messages of a run."""
    for event in _recorded(events, "send"):
        if event.peer != network.id_of(event.node):
            yield f"mote {network.id_of(event.node)} sends as {event.peer}"
    on_air: dict[int, int] = defaultdict(int)
    for signal, message in data:
        node = network.node_of(message.source)
        if node is None or signal.node is None:
            yield f"a message of {message.source}, which is no mote of the network"
        elif signal.node == node:
            on_air[node] += 1
            if not message.in_sync:
                yield f"mote {message.source} is out of sync"
    for node in network.motes:
        if on_air[node] < setting.rate * setting.end / 2:
            yield f"mote {network.id_of(node)} sent {on_air[node]} messages"


def _line_troubles(
    events: Sequence[truth_log.Event], network: ScenarioNetwork, layout: DataLayout
) -> Iterator[str]:
    for node in network.gateways:
        decoder, heard, sources = FrameDecoder(), 0, set()
        for event in events:
            if not isinstance(event, truth_log.Uart) or event.node != node:
                continue
            for packet in decoder.feed(event.bytes):
                try:
                    frame = decode_packet(packet)
                except PacketError:
                    yield f"gateway {network.id_of(node)} sends broken packets"
                    continue
                message = decode_message(frame, layout) if isinstance(frame, ActiveMessage) else None
                if isinstance(message, Heard):
                    heard += 1
                    if message.gateway != network.id_of(node) or not message.in_sync:
                        yield f"gateway {network.id_of(node)} speaks as {message.gateway}, in sync: {message.in_sync}"
                elif isinstance(message, Data):
                    sources.add(message.source)
        missing = {network.id_of(mote) for mote in network.motes} - sources
        if missing or not heard:
            yield f"gateway {network.id_of(node)} hears nothing of {sorted(missing)}"


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def summary(found: Sequence[TrialOutcome]) -> list[str]:
    """The summary for people: how many recovered, and how long that took."""
    lines = [f"{sum(one.recovered for one in found)} of {len(found)} recovered"]
    for name, times in (
        ("stamps out of order, last", [one.stamps for one in found]),
        ("delivered out of order, last", [one.delivered for one in found]),
        ("clocks in sync beyond epsilon, last", [one.clocks for one in found]),
        ("a mote out of sync, last", [one.unsynced for one in found]),
        ("the node restarted", [one.restarted for one in found if one.restarted is not None]),
        ("the node working again", [one.back for one in found if one.restarted is not None]),
    ):
        known = [t for t in times if t is not None]
        every = [t or 0.0 for t in times]
        lines.append(
            f"{name:36} in {len(known):3} runs; median {quantile(every, 0.5):.2f} s, "
            f"95% {quantile(every, 0.95):.2f} s, worst {max(every, default=0.0):.2f} s"
        )
    victims = sum(sum(one.resets.values()) > 0 for one in found)
    others = sum(any(node != one.node for node in one.resets) for one in found)
    lines.append(f"restarts in {victims} runs, of other nodes than the corrupted one in {others}")
    lines.append(
        f"messages after the last violation: {min((one.since for one in found), default=0)} at least"
    )
    return lines


def line_of(one: TrialOutcome) -> str:
    def shown(t: float | None) -> str:
        return "    -" if t is None else f"{t:5.1f}"

    state = "ok  " if one.recovered else "LOST"
    text = (
        f"{state} run {one.run:3}: node {one.node:2}, {one.bytes:4} bytes; stamps {shown(one.stamps)}, delivered "
        f"{shown(one.delivered)}, clocks {shown(one.clocks)}, unsynced {shown(one.unsynced)}; "
        f"since {one.since}, resets {one.resets}"
    )
    return text + ("" if one.recovered else f"\n       {one.troubles} {one.hit}")


def run_all(
    setting: TrialSettings, seed: int, numbers: Sequence[int], jobs: int, keep: Path | None
) -> Iterator[TrialOutcome]:
    engine.build()
    images.programs_for(setting.deployment, setting.rate)
    if jobs == 1:
        yield from (run(setting, seed, number, keep) for number in numbers)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(run, setting, seed, number, keep) for number in numbers]):
            yield future.result()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.stabilize", description=__doc__.partition("\n")[0])
    parser.add_argument("--board", choices=sorted(SETTINGS), default="micaz")
    parser.add_argument(
        "--scheme", choices=FIRMWARE_SCHEMES, help="the stamps; without it those of the board's example"
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", type=int, nargs="+", help="only these runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--json", type=Path, help="a file for the outcomes, one a line")
    parser.add_argument("--keep", type=Path, help="a folder for scenarios and truth logs")
    given = parser.parse_args(arguments)
    found = []
    numbers = given.only or range(given.runs)
    setting = replace(SETTINGS[given.board], scheme=given.scheme)
    for one in run_all(setting, given.seed, numbers, given.jobs, given.keep):
        found.append(one)
        print(line_of(one), flush=True)
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps(asdict(one)) + "\n")
    print("\n".join(summary(found)))
    return 0 if all(one.recovered for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
