"""Stamps the events of a trace batch by batch. Memory does not grow with the run: what was sent is in files.

A stamp may be received long after it was sent, so those of all messages are kept, in scratch files. The motes' state
goes on from batch to batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.causality import kernels
from basestation.causality.kernels import stamping
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import MERGE, RECEIVE, SEND
from basestation.simulator.engine_numba import NO_CORRUPTION
from basestation.simulator.results import Observed
from basestation.traces.schema import KINDS
from spark_jobs.storage import reading
from spark_jobs.traces.files import TraceFault, TraceFiles, read_rows, undamaged

Ints = NDArray[Any]
BATCH = 1 << 18  # events at a time


@dataclass(frozen=True)
class Numbers:
    """How many messages each mote sent, from which number on; all of them are numbered mote by mote."""

    where: str
    first: Ints
    counts: Ints

    @property
    def messages(self) -> int:
        return int(self.counts.sum())

    def of(self, mote: Ints, sequence: Ints) -> Ints:
        if (mote >= len(self.counts)).any():
            raise TraceFault(
                f"{self.where}: mote {mote.max()}, but the deployment has {len(self.counts)} motes"
            )
        place = sequence - self.first[mote]
        if ((place < 0) | (place >= self.counts[mote])).any():
            raise TraceFault(f"{self.where}: a message was received that nobody sent")
        begins = np.concatenate(([0], np.cumsum(self.counts)[:-1]))
        return np.asarray(begins[mote] + place, np.int64)


@lru_cache(maxsize=4)
def numbers_in(trace: TraceFiles) -> Numbers:
    """Count the sends of each mote, and check that each counts on from its first."""
    first, counts = np.zeros(trace.motes, np.int64), np.zeros(trace.motes, np.int64)
    for events in _batches(trace):
        sends = events["kind"] == SEND
        mote, source, sequence = (events[name][sends] for name in ("mote", "source", "sequence"))
        if (mote >= trace.motes).any():
            raise TraceFault(f"{trace.events}: mote {mote.max()}, but the deployment has {trace.motes} motes")
        if (mote != source).any():
            raise TraceFault(f"{trace.events}: a mote sent in the name of another")
        for one in np.unique(mote).tolist():
            mine = sequence[mote == one]
            first[one] = first[one] if counts[one] else mine[0]
            if not np.array_equal(mine, first[one] + counts[one] + np.arange(len(mine))):
                raise TraceFault(
                    f"{trace.events}: the sends of mote {one} are not numbered one after the other"
                )
            counts[one] += len(mine)
    return Numbers(str(trace.events), first, counts)


@dataclass
class Made:
    """The stamps of all that was sent, in files, and what the motes noticed."""

    stamps: tuple[Ints, Ints, Ints]
    bounded: int
    wrong_unwraps: int


@contextmanager
def stamped(trace: TraceFiles, scheme: TimedScheme, scratch: Path | None = None) -> Iterator[Made]:
    """Run a scheme over all events of a trace. The stamps are gone afterwards."""
    numbers = numbers_in(trace)
    with TemporaryDirectory(dir=scratch) as place:
        shapes = {"r": np.int64, "c": np.int32, "kn": np.int32}
        stamps = tuple(
            _on_file(Path(place) / name, kind, (numbers.messages, scheme.entries if name == "kn" else 1))
            for name, kind in shapes.items()
        )
        made = Made((stamps[0].ravel(), stamps[1].ravel(), stamps[2]), 0, 0)
        made.stamps[1][:] = -1  # not sent yet
        program = getattr(stamping, scheme.kernel or "")
        state = stamping.start_motes(trace.motes, program, scheme.entries, scheme.entry_max)
        widths = scheme.epsilon, scheme.lead, scheme.modulus, scheme.entry_max
        counted = scheme.count == "events", scheme.carry == "sum"
        fault = NO_CORRUPTION.offset, NO_CORRUPTION.c, NO_CORRUPTION.kn
        for events in _batches(trace):
            message = numbers.of(events["source"], events["sequence"])
            rows = events["kind"], events["mote"], events["clock"], message
            bounded, wrong, unsent = stamping.stamp_more(
                *rows, state, *made.stamps, program, *widths, *counted, *fault
            )
            if unsent:
                raise TraceFault(f"{trace.events}: a message was received before it was sent")
            made.bounded, made.wrong_unwraps = made.bounded + int(bounded), made.wrong_unwraps + int(wrong)
        yield made


def observed(trace: TraceFiles, made: Made, scheme: TimedScheme) -> Iterator[Observed]:
    """The stamps as the observer reads them, one row group of the trace after the other."""
    numbers = numbers_in(trace)
    for group in trace.groups():
        rows = read_rows(trace, [group], ["source", "sequence", "heard"])
        source, sequence, heard = (
            rows[name].to_numpy().astype(np.int64) for name in ("source", "sequence", "heard")
        )
        arrived = numbers.of(source, sequence)
        r, c, kn, bounded, wrong = kernels.observe_stamps(
            arrived, heard, *made.stamps, scheme.lead, scheme.modulus
        )
        yield Observed(r, c, kn, int(bounded), int(wrong))


def _on_file(path: Path, kind: Any, shape: tuple[int, int]) -> Ints:
    if not shape[0] * shape[1]:
        return np.zeros(shape, kind)
    return np.asarray(np.memmap(path, kind, "w+", shape=shape))


def _batches(trace: TraceFiles) -> Iterator[dict[str, Ints]]:
    """The events, with their kinds as the kernels have them."""
    assert trace.events is not None
    with (
        undamaged(trace.events),
        pq.ParquetFile(reading(trace.events), page_checksum_verification=True) as file,
    ):
        for batch in file.iter_batches(BATCH):
            found = {
                name: batch[name].to_numpy(zero_copy_only=False).astype(np.int64)
                for name in ("mote", "clock", "source", "sequence")
            }
            sends = pc.equal(batch["kind"].cast(pa.string()), KINDS[0]).to_numpy(zero_copy_only=False)
            ends = batch["ends"].to_numpy(zero_copy_only=False)
            yield found | {"kind": np.where(sends, SEND, np.where(ends, RECEIVE, MERGE)).astype(np.int8)}
