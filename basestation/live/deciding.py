"""Decides the frames of a log again, by the station that decides them live: for logs without decisions, for a key that
comes later, and to check a log against itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.arrivals import PolicyChange
from basestation.journal.decision import MICS_CHECKED, Decision, Fate, differing_fields, rows_of, wrong_length
from basestation.journal.reader import Journal, JournalSegment, Report, steps_in
from basestation.journal.record_format import JournalError, Record, RecordKind, Records
from basestation.journal.sidecar import decider_of, decisions_of, new_sidecar, write_decisions
from basestation.journal.strays import known_before
from basestation.live.station import NOTHING_NOTED, Station
from packet_formats.deployment import Deployment

NO_KEY = "its MICs were checked; give the network's key by --key FILE"
WRONG_KEY = "no message is left by this key, and the decisions so far have {count}: is it the network's key?"


class Decided(NamedTuple):
    """A segment, and the decisions on its frames, each with the frame's record."""

    segment: JournalSegment
    decisions: list[tuple[Record, Decision]]


def station_of(journal: Journal, deployment: Deployment) -> Station:
    """A station that begins as the one that wrote the log did. `JournalError` if its policy is not known here."""
    header = journal.header
    journal.check_policy(deployment)
    station = Station(
        deployment, header.policy or None, header.phi, header.tolerate, allowance_ns=header.allowance_ns
    )
    station.timeline.remember(known_before(journal.folder))
    for gateway, name in enumerate(header.sources):
        station.add_gateway(gateway, name)
    return station


def decided(journal: Journal, deployment: Deployment, report: Report) -> Iterator[Decided]:
    """The decisions of a whole log, made again segment by segment. The clocks that the log notes are used."""
    station = station_of(journal, deployment)
    for segment in journal.segments(report):
        found = []
        for record, step, noted in steps_in(segment, deployment.stamp.scheme, report):
            noted = noted or NOTHING_NOTED
            if isinstance(step, PolicyChange):
                station.advance(step.mono_ns, noted.clock)
                station.set_policy(step.policy, step.phi, step.tolerate)
                continue
            station.take(step, noted)
            if station.decision is not None:
                found.append((record, station.decision))
        yield Decided(segment, found)


def decisions_on(records: Records, station: Station) -> NDArray[np.void]:
    """The decisions of a station on the frames among these records: on records of several stations, in one order, and
    on those of the testbed. Each station's own clocks, and changes of its policy, mean nothing there."""
    payloads, numbers = [], []
    for record in records:
        if (line := record.line()) is not None:
            station.take(line)
            if station.decision is not None:
                payloads.append(station.decision.encode(record.number))
                numbers.append(record.number)
    return rows_of(payloads, numbers)


def decide(
    journal: Journal, deployment: Deployment, report: Report, advance: Callable[[], None] = lambda: None
) -> int:
    """Write the decisions of a log beside it, into `RUN/decisions`; how many there are. The log itself stays.

    `JournalError` if that would take all messages away, as a wrong key does, or if checked MICs would become unchecked.
    `advance` is called after each segment.
    """
    refuse_without_key(journal, deployment)
    total = messages = 0
    with new_sidecar(journal.folder) as folder:
        for segment, decisions in decided(journal, deployment, report):
            write_decisions(folder, segment, decisions, deployment)
            total += len(decisions)
            messages += sum(decision.fate == Fate.MESSAGE for _, decision in decisions)
            advance()
        if not messages and (before := _messages_so_far(journal)):
            raise JournalError(f"{journal.folder}: {WRONG_KEY.format(count=before)}")
    return total


def refuse_without_key(journal: Journal, deployment: Deployment) -> None:
    """`JournalError` if the log's MICs were checked and the deployment has no key: forged messages would be taken."""
    deciders = map(decider_of, journal.paths)
    if deployment.key is None and any(one is not None and one.mics == MICS_CHECKED for one in deciders):
        raise JournalError(f"{journal.folder}: {NO_KEY}")


def _messages_so_far(journal: Journal) -> int:
    segments = journal.segments(lambda fault: None)
    return sum(
        int((decisions_of(segment.path, segment.records)["fate"] == Fate.MESSAGE).sum())
        for segment in segments
    )


class Again(NamedTuple):
    """How the decisions of a log compare with those made again."""

    decisions: int
    undecided: int
    differing: list[str]  # in words, each


def again(journal: Journal, deployment: Deployment, report: Report) -> Again:
    """Replay a log with its clocks, and compare every field of every decision."""
    total, undecided, differing = 0, 0, list[str]()
    for segment, decisions in decided(journal, deployment, report):
        kept = _payloads(segment)
        for record, decision in decisions:
            payload = kept.pop(record.number, None)
            undecided += payload is None
            total += payload is not None
            fresh = decision.encode(record.number)
            if payload is not None and payload != fresh:
                differing.append(_difference(segment.path, record.number, payload, fresh))
        differing += [f"{segment.path}: a decision on frame {number}, which has none" for number in kept]
    return Again(total, undecided, differing)


def _payloads(segment: JournalSegment) -> dict[int, bytes]:
    """The decision records of a segment, by frame."""
    chosen = [
        one for one in segment.records.of_kind(RecordKind.DECISION) if not wrong_length(len(one.payload))
    ]
    frames = segment.records.decisions()["frame"].tolist()
    return {frame: record.payload for frame, record in zip(frames, chosen, strict=True)}


def _difference(path: Path, number: int, kept: bytes, fresh: bytes) -> str:
    return f"{path}: frame {number}: {', '.join(differing_fields(kept, fresh))} differ"
