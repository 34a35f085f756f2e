"""Why the simulator, drawing from the testbed's own delays, has more messages out of order on arrival.

    python -m examples.field_gap [--seeds 10] [--seconds 40] [--stamp hlc]

Takes the testbed's messages and changes one thing after the other towards what the simulator does: first each message
takes the way of another one of the same mote, so that messages near in time no longer meet the same queues; then they
are sent at any time instead of once a period. Prints a table in Markdown; docs/guide/field.md has it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from basestation.causality.truth import Send, VectorTruth
from basestation.causality.violations import count_violations
from basestation.simulator.measured_delays import LOST, Row
from basestation.testbed.through_station import FieldRun, run_field
from tools.field_table import MOTES, RATE, STAMPS, Job, deployment_of, interval, simulated
from tools.pages import table

SHUFFLES = 5  # of each run, since one alone is as scattered as a run
SEND, MERGE, ARRIVE = range(3)  # of one moment: a message is sent before it is anywhere


class Passage(NamedTuple):
    """A message's time of sending, its sender, and what became of it (`simulator.measured_delays`)."""

    sent: float
    source: int
    way: Row


def passages_of(run: FieldRun) -> list[Passage]:
    return sorted(
        Passage(sent, source, way)
        for source, (times, ways) in enumerate(zip(run.sent, run.delays.rows, strict=True))
        for sent, way in zip(times, ways, strict=True)
    )


def with_ways_apart(passages: Sequence[Passage], chance: Random) -> list[Passage]:
    """Each message goes the way of another one of its mote."""
    ways: dict[int, list[Row]] = {}
    for passage in passages:
        ways.setdefault(passage.source, []).append(passage.way)
    for own in ways.values():
        chance.shuffle(own)
    return [passage._replace(way=ways[passage.source].pop()) for passage in passages]


def at_any_time(passages: Sequence[Passage], chance: Random) -> list[Passage]:
    """As many messages, sent at times that know nothing of one another."""
    first, last = passages[0].sent, passages[-1].sent
    return sorted(passage._replace(sent=chance.uniform(first, last)) for passage in passages)


def percent_on_arrival(passages: Sequence[Passage]) -> float:
    """The mean of causes and effects in a violation, in order of arrival."""
    truth = VectorTruth(MOTES)
    sends: dict[int, Send] = {}
    arrived: list[Send] = []
    for _, kind, number, mote in sorted(_moments(passages)):
        if kind == SEND:
            sends[number] = truth.on_send(mote)
        elif kind == MERGE:
            truth.on_receive(mote, [sends[number]])
        else:
            arrived.append(sends[number])
    return count_violations(arrived).percent()["mean"]


def _moments(passages: Sequence[Passage]) -> Iterator[tuple[float, int, int, int]]:
    for number, (sent, source, way) in enumerate(passages):
        yield sent, SEND, number, source
        for mote, delay in enumerate(way):
            if delay != LOST:
                yield sent + delay, ARRIVE if mote == MOTES else MERGE, number, mote


def shares_of(job: Job) -> list[float]:
    """One seed: as it was, ways apart, at any time too, the simulator."""
    run = run_field(deployment_of(job.stamp), MOTES, job.seconds, RATE, job.seed)
    chance = Random(job.seed)
    passages = passages_of(run)
    apart = [with_ways_apart(passages, chance) for _ in range(SHUFFLES)]
    anytime = [at_any_time(one, chance) for one in apart]
    arrival = next(point.percent for point in simulated(run, job, "simulator", 1) if point.policy == "none")
    return [percent_on_arrival(passages), _mean_of(apart), _mean_of(anytime), arrival]


def _mean_of(runs: Sequence[Sequence[Passage]]) -> float:
    return sum(map(percent_on_arrival, runs)) / len(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, choices=range(1, 11), default=10, metavar="1-10")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--stamp", choices=STAMPS, default="hlc")
    given = parser.parse_args()
    jobs = [Job(given.stamp, seed, given.seconds) for seed in range(1, given.seeds + 1)]
    columns = zip(*map(shares_of, jobs), strict=True)
    heads = ("testbed", "each message by a way of its own", "and sent at any time", "simulator")
    print("\n".join(table(heads, iter([[interval(column) for column in columns]]))))


if __name__ == "__main__":
    main()
