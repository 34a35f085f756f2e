"""Small traces that keep neither G1 nor G2: late arrivals, clocks that break, motes out of sync; and what the plain
objects make of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from basestation.causality.order import Stamp, deadline
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import Stream
from basestation.causality.truth import Send
from basestation.causality.violations import Violations, count_violations
from basestation.deployed import timed_scheme_of
from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from basestation.simulator.results import Observed
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces import schema
from basestation.traces.files import Trace
from tests.simulator import oracle


@dataclass(frozen=True)
class Damage:
    """`moves`: (share of the arrivals, how many places later); `jumps`: (share, ticks by which the clock leaps);
    `ahead`: by how much some messages were heard ahead of the observer's clock."""

    moves: list[tuple[float, int]]
    jumps: list[tuple[float, int]]
    ahead: int
    out_of_sync: list[float]
    loss: float


@dataclass(frozen=True)
class Case:
    options: WorldOptions
    damage: Damage
    row_group: int
    borders: list[float]


SHARES = st.floats(0, 1, allow_nan=False)
DAMAGES = st.builds(
    Damage,
    moves=st.lists(st.tuples(SHARES, st.integers(1, 60)), max_size=6),
    jumps=st.lists(st.tuples(SHARES, st.integers(1, 200)), max_size=3),
    ahead=st.sampled_from([0, 0, 0, 3, 40]),
    out_of_sync=st.lists(SHARES, max_size=4),
    loss=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
)
OPTIONS = st.builds(
    WorldOptions,
    motes=st.integers(2, 4),
    epsilon=st.integers(1, 4),
    delta=st.integers(1, 5),
    rate=st.sampled_from([0.1, 0.5, 1.0]),
    messages=st.integers(2, 90),
    seed=st.integers(0, 1000),
    reception=st.sampled_from(["tick", "message", "immediate"]),
    delay=st.sampled_from(["shared", "each"]),
)
CASES = st.builds(
    Case,
    options=OPTIONS,
    damage=DAMAGES,
    row_group=st.sampled_from([1, 2, 5, 13, 40, 100]),
    borders=st.lists(SHARES, max_size=12),
)


def damaged(case: Case) -> tuple[Trace, TimedScheme]:
    """A simulated run whose way to the observer was bad. The stamps are read as the observer then reads them."""
    options, damage = case.options, case.damage
    scheme = build_scheme(options, "kn")
    run = generate(options)
    stream = run.stream
    count = stream.arrivals
    order = list(range(count))
    for share, places in damage.moves:
        if count:
            at = min(int(share * count), count - 1)
            order.insert(min(at + places, count - 1), order.pop(at))
    clock = stream.arrival_clock.copy()
    for share, ticks in damage.jumps:
        clock[int(share * count) :] += ticks
    message = stream.arrival_message[order]
    heard = clock + (np.arange(count) % 3 == 0) * damage.ahead
    batch, fresh = _batches(clock, options.seed)
    stamped = engine.stamp(stream, scheme)
    observed = engine.observe(_with(stream, message, heard, batch, fresh), stamped, scheme)
    in_sync = np.ones(count, np.bool_)
    in_sync[[min(int(share * count), count - 1) for share in damage.out_of_sync if count]] = False
    kept = np.random.default_rng(options.seed).random(count) >= damage.loss
    deployment = deployment_for(options, scheme, "cbd", 100)
    whole = trace_of(run, deployment)
    moved = _messages(whole.messages.take(pa.array(order)), observed, heard, clock, batch, fresh, in_sync)
    table = moved.filter(pa.array(kept)).replace_schema_metadata(
        schema.metadata(whole.run, deployment, whole.origin)
    )
    return Trace(whole.run, deployment, whole.origin, table, whole.events), scheme


def _batches(clock: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some arrivals of a tick taken in at one go; the first batch of a tick may come together with it."""
    draw = np.random.default_rng(seed)
    new_tick = np.diff(clock, prepend=-1) > 0
    begins = new_tick | (draw.random(len(clock)) < 0.5)
    batch = np.cumsum(begins)
    fresh = new_tick & (draw.random(len(clock)) < 0.5)
    first = np.searchsorted(batch, batch)
    return batch, fresh[first]


def _with(
    stream: Stream, message: np.ndarray, clock: np.ndarray, batch: np.ndarray, fresh: np.ndarray
) -> Stream:
    names = {name: getattr(stream, name) for name in Stream.__dataclass_fields__}
    names |= {"arrival_message": message, "arrival_clock": clock, "arrival_batch": batch}
    return Stream(**names | {"arrival_fresh": fresh.astype(np.int8)})


def _messages(table: pa.Table, observed: Observed, heard, clock, batch, fresh, in_sync) -> pa.Table:
    columns = {"heard": heard, "clock": clock, "batch": batch, "fresh": fresh, "in_sync": in_sync}
    columns["stamp"] = schema.stamp_column(observed.r, observed.c, observed.kn)
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, schema.column_of(values, field.type))
    return table


def write(trace: Trace, folder: Path, row_group: int) -> Path:
    """As `write_trace`, but in row groups as small as a test wants them."""
    folder.mkdir()
    metadata = schema.metadata(trace.run, trace.deployment, trace.origin)
    pq.write_table(
        trace.messages.replace_schema_metadata(metadata),
        folder / "messages.parquet",
        row_group_size=row_group,
    )
    return folder


def by_the_objects(
    trace: Trace, policy: str, phi: int, tolerate: float | None = None
) -> tuple[Violations, list[int], int]:
    """Violations, holds in order of arrival, and how many were late: by plain objects, over the whole trace. A timed
    rule's message is late if it was heard after its deadline."""
    table = trace.messages.filter(trace.messages["in_sync"])
    scheme, motes = timed_scheme_of(trace.deployment), trace.deployment.network.motes
    source, sequence, clock, batch = (table[n].to_numpy() for n in ("source", "sequence", "clock", "batch"))
    vectors = np.frombuffer(b"".join(table["vector"].to_pylist()), "<i4").reshape(-1, motes)
    count, none = len(table), np.zeros(0, np.int64)
    stream = Stream(
        motes=motes,
        sent_by=source.astype(np.int32),
        sent_index=sequence.astype(np.int32),
        sent_at=clock,
        event_kind=none.astype(np.int8),
        event_mote=none.astype(np.int32),
        event_clock=none,
        event_message=none,
        arrival_message=np.arange(count),
        arrival_clock=clock,
        arrival_batch=batch,
        arrival_fresh=table["fresh"].to_numpy().astype(np.int8),
    )
    stamps = table["stamp"].combine_chunks()
    kn = np.array(stamps.field("kn").to_pylist()).reshape(count, scheme.entries)
    observed = Observed(stamps.field("r").to_numpy(), stamps.field("c").to_numpy().astype(np.int64), kn, 0, 0)
    delivered = oracle.deliver(stream, observed, scheme, policy, phi, tolerate=tolerate)
    sends = [
        Send(int(source[i]), int(vectors[i, source[i]]), tuple(vectors[i].tolist())) for i in delivered.order
    ]
    hold = np.zeros(count, np.int64)
    hold[delivered.order] = delivered.left - clock[delivered.order]
    late = delivered.late
    if tolerate is None:
        waits = phi, scheme.epsilon, scheme.delta
        stamped = zip(observed.r.tolist(), observed.c.tolist(), table["heard"].to_pylist(), strict=True)
        late = sum(heard > deadline(Stamp(r, c, ()), *waits) for r, c, heard in stamped)
    return count_violations(sends), hold.tolist(), late
