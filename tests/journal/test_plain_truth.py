"""The kernel for stamps that name nothing gives what the causal graph of objects gives, row by row."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from basestation.journal.field_truth import FieldReader, names_nothing, reader_of
from basestation.journal.plain_truth import PlainReader
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, build_scheme, generate
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message, encode_message
from packet_formats.schemes import descriptor
from packet_formats.tinyos import ActiveMessage

PLAIN = ("kn", "shlc", "hlc", "dpc1", "sequence", "scalar")


def simulated(scheme, chance, messages=500):
    motes = chance.choice([2, 3, 6])
    rate, delta = chance.choice([(0.0156, 32), (0.1, 10)])
    options = {
        "motes": motes,
        "epsilon": 3,
        "delta": delta,
        "rate": rate,
        "loss": chance.choice([0.0, 0.1, 0.5]),
    }
    world = WorldOptions(messages=messages, seed=chance.randrange(1000), **options)
    build = build_scheme if descriptor(scheme).is_ordered else build_named
    return trace_of(generate(world), deployment_for(world, build(world, scheme), "cbd", 100))


def with_flags(payload, layout, boot, complete):
    data = decode_message(ActiveMessage(layout.tinyos, 0, layout.group, layout.am_type, payload), layout)
    return encode_message(replace(data, boot=boot, complete=complete), layout).data


def rough(trace, chance, boots=0.01):
    """The messages of a run, with reboots, lost sync, copies, disorder, and rows without a number."""
    layout, booted, rows = layout_of(trace.deployment), {}, []
    for row in trace.messages.to_pylist():
        base, boot, skipped = booted.get(row["source"], (0, 0, 0))
        if chance.random() < boots:
            newest = base + row["sequence"] - skipped
            base, boot, skipped = (newest // 256 + 2) * 256, (boot + 1) % 8, row["sequence"]
        booted[row["source"]] = base, boot, skipped
        row["boot"], row["sequence"] = boot, row["sequence"] - skipped
        row["number"] = base + row["sequence"] + 1
        row["payload"] = with_flags(row["payload"], layout, boot, chance.random() < 0.3)
        row["in_sync"] = chance.random() > 0.05
        row |= {"vector": None, "vector_most": None, "causes": None}
        if chance.random() < 0.02:
            row["number"] = None
        if chance.random() < 0.02 and row["number"]:
            row["number"] -= chance.randrange(4)  # it is another's, or there was none
        rows.append(row)
        if chance.random() < 0.05:
            rows.append(rows[-chance.randrange(1, min(len(rows), 9) + 1)])
    for _ in range(len(rows) // 20):
        at = chance.randrange(len(rows))
        rows.insert(min(at + chance.randrange(30), len(rows)), rows.pop(at))
    for _ in range(3):  # a silence
        at, long = chance.randrange(len(rows)), chance.randrange(500)
        rows[at:] = [row | {"heard": row["heard"] + long} for row in rows[at:]]
    return pa.Table.from_pylist(rows, trace.messages.schema)


def assert_equal_readers(one, other, table, chance):
    pieces, at = [], 0
    while at < len(table):
        pieces.append(table[at : at + chance.choice([1, 20, 200])])
        at += len(pieces[-1])
    for piece in [*pieces, None]:
        for reader in (one, other):
            reader.finish() if piece is None else reader.read(piece)
        assert one.settled == other.settled
        count = chance.randint(0, one.settled) if piece is not None else one.settled
        found, expected = (reader.told(count) for reader in (one, other))
        for name, column in expected.items():
            assert found[name].to_pylist() == column.to_pylist(), name
    return len(table)


@pytest.mark.parametrize("scheme", PLAIN)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (1, 2))])
def test_a_run_has_the_bounds_of_the_graph_of_objects(scheme, seed):
    chance = random.Random(f"whole {scheme}{seed}")
    trace = simulated(scheme, chance)
    window = chance.choice([3, 20, 100, 4096])
    one, other = (kind(trace.deployment, window) for kind in (PlainReader, FieldReader))
    assert assert_equal_readers(one, other, rough(trace, chance), chance) > 100


def test_the_kernel_is_for_stamps_that_name_nothing():
    chance = random.Random(0)
    for scheme in (*PLAIN, "barrier", "vector", "last-sender", "delta-vector"):
        deployment = simulated(scheme, chance, messages=20).deployment
        assert names_nothing(deployment) == (scheme in PLAIN)
        kind = PlainReader if scheme in PLAIN else FieldReader
        assert isinstance(reader_of(deployment), kind)
    receipts = replace(deployment.stamp, scheme="scalar", receipts=1)
    assert not names_nothing(replace(deployment, stamp=receipts))
