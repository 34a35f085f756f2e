"""One rule for a tick: the live station, a replay of its log, and `continuum` over that log deliver alike."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from basestation.analysis.choices import Choice
from basestation.arrivals import Arrival
from basestation.causality import kernels
from basestation.causality.truth import Send
from basestation.causality.violations import count_violations
from basestation.journal.projection import project_all
from basestation.journal.reader import read_journal
from basestation.journal.writer import JournalWriter
from basestation.live.happenings import Delivered
from basestation.live.runner import Player, past_due
from basestation.live.station import Station
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from packet_formats.framing import crc16
from packet_formats.layout import layout_of
from packet_formats.messages import encode_message
from packet_formats.records import Heard
from packet_formats.tinyos import BROADCAST, ActiveMessage, encode_packet
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.traces.trace_files import open_trace
from tests.journal.logs import refuse
from tests.live.world import MS, WALL, mono_at

START = 1 << 20  # cycles
SCHEME = "shlc"
DATA_BYTES = 4


def world(seed, motes, rate):
    """A run's trace, whose truth is known."""
    options = WorldOptions(messages=150, motes=motes, epsilon=3, delta=8, rate=rate, loss=0.05, seed=seed)
    return trace_of(generate(options), deployment_for(options, build_scheme(options, SCHEME), "cbd", 100))


def lines_of(trace, gateways, chance, sound=False):
    """What gateways would hand up. Lines take their time; unless `sound`, they stall and lose records, and a gateway
    loses the time."""
    layout, shift = layout_of(trace.deployment), trace.deployment.clock.tick_log2
    lines, last = [], [0] * gateways
    for records, (heard, payload) in enumerate(
        zip(trace.messages["heard"].to_pylist(), trace.messages["payload"].to_pylist(), strict=True)
    ):
        cycles = START + (heard << shift) + chance.randrange(1 << shift)
        gateway = chance.randrange(gateways)
        delay = chance.choice([2, 4, 10, 30, 100] * 6 + [10 if sound else 400]) * MS
        last[gateway] = max(last[gateway] + 1, mono_at(cycles) + delay)
        flags = 0 if chance.random() < 0.02 and not sound else 3
        number = trace.deployment.network.motes + gateway
        record = Heard(number, 0, records % 256, 0, flags, -60, 100, crc16(payload), cycles)
        source = number if layout.tinyos == 2 else None
        data = ActiveMessage(layout.tinyos, BROADCAST, layout.group, layout.am_type, payload, source)
        for frame in (encode_message(record, layout), data):
            last[gateway] += 1
            if frame is data or sound or chance.random() > 0.03:
                at = last[gateway]
                lines.append(Arrival(gateway, at, WALL + at, encode_packet(frame)))
    return sorted(lines, key=lambda line: line.mono_ns)


def live(deployment, policy, phi, lines, folder, chance):
    """What happens at a station with its log, and a timer that is punctual at times."""
    station, found = Station(deployment, policy, phi), []
    with JournalWriter(folder, deployment, "run-1", "never", policy=policy, phi=phi) as journal:
        for line in lines:
            if chance.random() < 0.5:
                found += past_due(station, line.mono_ns)
            number = journal.append(line)
            happened = station.take(line)
            if station.decision is not None:
                journal.append_decision(number, line, station.decision)
            found += happened
    return found + station.finish()


class Kept:
    """A sink that keeps everything."""

    def __init__(self):
        self.found = []

    def take(self, happening):
        self.found.append(happening)

    def close(self):
        pass


def replayed(deployment, policy, phi, folder):
    kept = Kept()
    steps = read_journal(folder).steps(refuse)
    asyncio.run(Player(Station(deployment, policy, phi), steps, [kept]).run())
    return names(kept.found)


def names(found):
    """The messages that have an order, as they were delivered: each message's own data."""
    return [one.data.data for one in found if isinstance(one, Delivered) and one.in_sync]


def table_of(folder, trace):
    """The log's table of messages, with the truth that the simulation knows."""
    readings = project_all(read_journal(folder), trace.deployment, refuse)
    table = pa.concat_tables([reading.messages for reading in readings])
    known = {key: i for i, key in enumerate(keys(trace.messages))}
    rows = pa.array([known[key] for key in keys(table)])
    for name in ("vector", "sent"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), trace.messages[name].take(rows))
    return table


def keys(table):
    """Each message's own data, which the simulator counts."""
    return [payload[-DATA_BYTES:] for payload in table["payload"].to_pylist()]


def ordered(table, policy, phi, deployment):
    """By the kernels."""
    table = table.filter(table["in_sync"])
    stamps = table["stamp"].combine_chunks()
    r, c, kn = (stamps.field(name) for name in ("r", "c", "kn"))
    r, c, kn = r.to_numpy(), c.to_numpy(), kn.flatten().to_numpy().reshape(-1, 1).astype(np.uint16)
    clock, source, sequence = (table[name].to_numpy() for name in ("clock", "source", "sequence"))
    epsilon, delta = deployment.clock.epsilon, deployment.clock.delta
    rank = kernels.ranks(r, c.astype(np.int64), kn, source, sequence)
    due_at, _ = kernels.due_ticks(r, c.astype(np.int64), clock, phi, epsilon, delta)
    order, _ = (kernels.cbd_order if policy == "cbd" else kernels.dapw_order)(rank, due_at, clock)
    found = keys(table)
    return [found[i] for i in order.tolist()]


def pairs(order, trace):
    columns = (trace.messages[name].to_pylist() for name in ("source", "sequence", "vector"))
    sends = {
        key: Send(source, sequence + 1, tuple(np.frombuffer(vector, "<i4").tolist()))
        for key, source, sequence, vector in zip(keys(trace.messages), *columns, strict=True)
    }
    return count_violations([sends[key] for key in order]).pairs


@settings(max_examples=max(8, settings.default.max_examples // 50))
@given(
    seed=st.integers(0, 1000),
    motes=st.integers(2, 6),
    rate=st.sampled_from([0.05, 0.2, 0.5]),
    gateways=st.integers(1, 2),
    policy=st.sampled_from(["dapw", "cbd"]),
    phi=st.sampled_from([0, 1, 20, 40, 80, 100]),
)
# A message without a time came when a line had set the clock back.
@example(seed=826, motes=2, rate=0.5, gateways=2, policy="dapw", phi=40)
def test_live_replay_and_continuum_agree_pair_for_pair(seed, motes, rate, gateways, policy, phi):
    trace, chance = world(seed, motes, rate), random.Random(seed)
    deployment = trace.deployment
    lines = lines_of(trace, gateways, chance)
    with TemporaryDirectory() as place:
        folder = Path(place)
        happened = live(deployment, policy, phi, lines, folder / "log", chance)
        delivered = names(happened)
        assert replayed(deployment, policy, phi, folder / "log") == delivered
        table = table_of(folder / "log", trace)
        assert ordered(table, policy, phi, deployment) == delivered
        write_trace(replace(trace, messages=table, events=None), folder / "trace")
        choice = Choice(schemes=(SCHEME,), packings=("bits",), policies=(policy,), phis=(phi,))
        rows = continuum(open_trace(folder / "trace"), choice, map, folder, rows=60)
    (own,) = [row for row in rows if row.answered == "recorded"]
    assert own.violated_pairs == pairs(delivered, trace)
    assert own.late == sum(one.late for one in happened if isinstance(one, Delivered) and one.in_sync)


@pytest.mark.parametrize("policy", ["causal", "dapw", "cbd"])
def test_the_whole_wait_leaves_no_violation(policy):
    trace, chance = world(4, 5, 0.3), random.Random(4)
    lines = lines_of(trace, 2, chance, sound=True)
    with TemporaryDirectory() as place:
        delivered = names(live(trace.deployment, policy, 100, lines, Path(place) / "log", chance))
    assert sorted(delivered) == sorted(keys(trace.messages))
    assert pairs(keys(trace.messages), trace) > 0
    assert pairs(delivered, trace) == 0
