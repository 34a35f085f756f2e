"""How fast a trace is analysed: 42 configurations, by Spark and by the same kernels without it, on one core and on two.

`python -m tests.bench.analysis --growth` adds traces of 1, 5 and 20 million messages: the time grows with them, and the
memory of a task does not.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from basestation.analysis.choices import Choice, candidates
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces import schema
from basestation.traces.files import ROW_GROUP, encodings
from spark_jobs.engines import Cores, Spark, Spread
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.session import start
from spark_jobs.traces.trace_files import TraceFiles, open_trace

MILLION = 1_000_000
TILE = MILLION // 4
CHOICE = Choice(
    schemes=("dpc1", "dpc2", "kn"), packings=("bits",), policies=("dapw", "cbd"), phis=(20, 60, 100)
)


@dataclass(frozen=True)
class Pace:
    """`rate`: million messages times configurations in a second; `peak_mb`: of the worker that took most."""

    what: str
    messages: int
    configurations: int
    seconds: float
    rate: float
    peak_mb: int | None = None


def write_long_trace(folder: Path, messages: int) -> TraceFiles:
    """A simulated run, over and over, each time later: as long as one likes, and still true."""
    options = WorldOptions(messages=TILE, seed=1)
    run = generate(options)
    trace = trace_of(run, deployment_for(options, build_scheme(options, "kn"), "cbd", 100))
    table = trace.messages
    ticks = int(table["heard"][-1].as_py()) + 1000
    sends = run.stream.sends_per_mote
    vectors = run.vectors[run.stream.arrival_message]
    folder.mkdir()
    metadata = schema.metadata(trace.run, trace.deployment, trace.origin)
    wanted = table.schema.with_metadata(metadata)
    with pq.ParquetWriter(folder / "messages.parquet", wanted, **encodings(wanted)) as writer:
        for tile in range(messages // TILE):
            writer.write_table(_later(table, tile, ticks, sends, vectors), ROW_GROUP)
    return open_trace(folder)


def _later(table: pa.Table, tile: int, ticks: int, sends: np.ndarray, vectors: np.ndarray) -> pa.Table:
    source = table["source"].to_numpy()
    shifted = {
        "heard": table["heard"].to_numpy() + tile * ticks,
        "stamp": _stamps_later(table["stamp"].combine_chunks(), tile * ticks),
        "batch": table["batch"].to_numpy() + tile * (int(table["batch"][-1].as_py()) + 1),
        "sequence": table["sequence"].to_numpy() + tile * sends[source],
        "number": table["number"].to_numpy() + tile * sends[source],
        "vector": schema.binary_column((vectors + tile * sends).astype("<i4")),
    }
    for name, values in shifted.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, schema.column_of(values, field.type))
    return table


def _stamps_later(stamps: pa.StructArray, ticks: int) -> pa.StructArray:
    r = pa.array(stamps.field("r").to_numpy() + ticks)
    return pa.StructArray.from_arrays([r, stamps.field("c"), stamps.field("kn")], fields=list(schema.STAMP))


def timed(what: str, trace: TraceFiles, spread: Spread, workers: int, rounds: int = 2) -> Pace:
    """The best of some rounds."""
    configurations = len(candidates(trace.deployment, CHOICE)) * len(CHOICE.deliveries())
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        begun = time.perf_counter()
        with TemporaryDirectory() as scratch:
            rows = continuum(trace, CHOICE, spread, Path(scratch), workers=workers)
        best = min(best, time.perf_counter() - begun)
        assert len(rows) == configurations
        assert all(row.is_answered for row in rows)
    peak = max(spread(peak_mb, range(workers)))
    return Pace(what, trace.rows, configurations, best, trace.rows * configurations / best / MILLION, peak)


def peak_mb(_: object) -> int:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@contextmanager
def by_spark(cores: int, warm: TraceFiles) -> Iterator[Spread]:
    """A session whose workers have their kernels; what starting it takes is not the question here."""
    spark = start("bench", f"local[{cores}]", {"spark.ui.showConsoleProgress": "false"})
    try:
        spread = Spark(spark).each
        for _ in range(2):
            timed("warm", warm, spread, cores, 1)
        yield spread
    finally:
        spark.stop()


def bench(messages: int = 5 * MILLION) -> Iterator[Pace]:
    with TemporaryDirectory(dir=".", prefix=".bench-") as place:
        warm = write_long_trace(Path(place) / "warm", TILE)
        trace = write_long_trace(Path(place) / "trace", messages)
        timed("warm", warm, Cores(2).each, 2, 1)
        for cores in (1, 2):
            yield timed(f"without Spark, {cores} cores", trace, Cores(cores).each, cores)
            with by_spark(cores, warm) as spread:
                yield timed(f"Spark, {cores} cores", trace, spread, cores)


def ratios(paces: Sequence[Pace]) -> Iterator[tuple[str, float]]:
    """Of what `bench` measured: what Spark costs, and what a second core brings."""
    rate = {pace.what: pace.rate for pace in paces}
    for cores in (1, 2):
        yield (
            f"Spark against none, {cores} cores",
            rate[f"Spark, {cores} cores"] / rate[f"without Spark, {cores} cores"],
        )
    for kind in ("without Spark", "Spark"):
        yield f"two cores against one, {kind}", rate[f"{kind}, 2 cores"] / rate[f"{kind}, 1 cores"]


def growth() -> Iterator[Pace]:
    with TemporaryDirectory(dir=".", prefix=".bench-") as place:
        warm = write_long_trace(Path(place) / "warm", TILE)
        with by_spark(2, warm) as spread:
            for millions in (1, 5, 20):
                trace = write_long_trace(Path(place) / str(millions), millions * MILLION)
                yield timed(f"Spark, 2 cores, {millions} M", trace, spread, 2, 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.analysis")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--messages", type=int, default=5 * MILLION)
    asked = parser.parse_args()
    for pace in growth() if asked.growth else bench(asked.messages):
        print(json.dumps(asdict(pace)), flush=True)


if __name__ == "__main__":
    main()
