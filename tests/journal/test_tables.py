"""The table made from a journal is what the observer makes of it frame by frame, however the journal is cut."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.sequences import SequenceUnwrapper
from basestation.journal import tables
from basestation.journal.journal import JournalWriter, read_journal
from basestation.journal.tables import Carry, Fate, read_all
from basestation.live.arrivals import Arrival
from basestation.observer import Observer
from basestation.simulator.options import WorldOptions
from basestation.simulator.run import build_scheme
from basestation.simulator.trace import deployment_for
from packet_formats import bulk
from packet_formats.framing import crc16
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Beacon, Health, Heard
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_packet, encode_packet
from tests.journal.logs import refuse, simulated, write

SCHEMES = ["kn", "dpc1", "dpc2", "hlc", "shlc"]
OPTIONS = WorldOptions()


def deployed(name="shlc"):
    return deployment_for(OPTIONS, build_scheme(OPTIONS, name), "cbd", 100)


def read(folder, deployment):
    segments = (segment.records for segment in read_journal(folder).segments(refuse))
    return list(read_all(segments, deployment))


def table_of(folder, deployment):
    return pa.concat_tables([reading.messages for reading in read(folder, deployment)])


@pytest.mark.parametrize("name", SCHEMES)
def test_a_journal_of_a_simulated_run_is_its_trace(tmp_path, name):
    trace, arrivals = simulated(name, loss=0.1)
    write(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    assert len(read_journal(tmp_path).paths) > 3
    table = table_of(tmp_path, trace.deployment)
    assert len(table) == len(trace.messages) > 100
    for column in table.column_names:
        if column not in ("batch", "fresh", "rssi", "lqi", "mono_ns", "wall_ns", "sent", "vector"):
            assert table[column].to_pylist() == trace.messages[column].to_pylist(), column
    assert table["mono_ns"].to_pylist() == [arrival.mono_ns for arrival in arrivals[1::2]]
    assert set(table["rssi"].to_pylist()) == {-60}
    assert table["sent"].null_count == table["vector"].null_count == len(table)
    assert table["batch"].to_pylist() == list(range(len(table)))


def frame(message, layout, dest=0xFFFF):
    return encode_packet(encode_message(message, layout, dest))


@st.composite
def lines(draw):
    """Frames of a deployment as two lines might bring them: copies, strangers, lost records, garbage, new epochs."""
    deployment = deployed(draw(st.sampled_from(SCHEMES)))
    layout = layout_of(deployment)
    chance = random.Random(draw(st.integers(0, 2**32)))
    time, epoch = draw(st.sampled_from([0, 1 << 20, (1 << 32) - 40_000])), draw(st.sampled_from([0, 255]))
    packets, recent = [], []
    for _ in range(draw(st.integers(0, 60))):
        time += chance.choice([0, 1, 100, 3000, 60_000])
        if chance.random() < 0.03:
            time, epoch = chance.randrange(1 << 20), (epoch + 1) % 256
        if recent and chance.random() < 0.3:
            data = chance.choice(recent)
        else:
            stamp = tuple(chance.randrange(field.top + 1) for field in layout.stamp.fields)
            source = chance.randrange(12)  # of 10 motes
            data = frame(
                Data(source, chance.randrange(256), stamp, boot=chance.randrange(2), data=bytes(4)), layout
            )
        recent = [*recent[-5:], data]
        payload = decode_packet(data).data
        check = crc16(payload) ^ (chance.random() < 0.1)
        flags = chance.choice([1, 3, 5, 7, 0])
        heard = Heard(10, epoch, 0, 0, flags, chance.choice([-128, -70]), 90, check, time % (1 << 32))
        line = chance.randrange(2)
        choice = chance.random()
        if choice < 0.8:
            packets.append((line, frame(heard, layout)))
        elif choice < 0.85:
            packets.append((line, frame(Beacon(1, 10, epoch, 1, 0, 1, 0, time % (1 << 32)), layout)))
        elif choice < 0.9:
            old = Health(1, time % (1 << 32), (epoch - 1) % 256, 1, *[0] * 10)
            packets.append((line, frame(old, layout)))
        if chance.random() < 0.1:
            packets.append((line, chance.choice([b"\x40\x07", b"\x42junk", b"\x99", b""])))
        packets.append((line, data))
    return deployment, [Arrival(line, i, i, packet) for i, (line, packet) in enumerate(packets)]


def one_by_one(deployment, arrivals, noted):
    """The observer, frame by frame: rows of (source, boot, sequence, r, c, kn, tick, heard time), and the fates."""
    layout, observer = layout_of(deployment), Observer(deployment)
    pending, cycles, epoch, tick, above = {}, None, 0, 0, 0
    rows, fates = [], []
    for i, arrival in enumerate(arrivals):
        try:
            packet = decode_packet(arrival.packet)
        except PacketError:
            packet = None
        clock = noted.get(i)
        if packet is None or isinstance(packet, Ack):
            if clock is not None and cycles is not None:
                above = round((clock - cycles) / (1 << 32))
            fates.append(Fate.NO_MESSAGE)
            continue
        assert isinstance(packet, ActiveMessage)
        announced = pending.pop(arrival.gateway, None)
        message = decode_message(packet, layout)
        if isinstance(message, Heard | Beacon | Health) and message.flags & 1:
            step = (message.epoch - epoch + 128) % 256 - 128
            if cycles is None:
                cycles, epoch = message.time, message.epoch
            elif step > 0:
                cycles, epoch = cycles + (message.time - cycles) % (1 << 32), message.epoch
            elif step == 0:
                cycles += (message.time - cycles + (1 << 31)) % (1 << 32) - (1 << 31)
        if clock is not None and cycles is not None:
            above = round((clock - cycles) / (1 << 32))
        if isinstance(message, Heard):
            pending[arrival.gateway] = message
        if not isinstance(message, Data):
            fates.append(Fate.RECORD if isinstance(message, Heard | Beacon | Health) else Fate.FOREIGN)
            continue
        mine = announced if announced and announced.check == crc16(packet.data) else None
        now = None if cycles is None else cycles + (above << 32)
        if clock is not None:
            own = clock
            if mine:
                own += (mine.time - clock + (1 << 31)) % (1 << 32) - (1 << 31)
            now = max(clock, own)
        if message.source >= deployment.network.motes or now is None:
            fates.append(Fate.STRANGER if message.source >= deployment.network.motes else Fate.UNTIMED)
            continue
        tick = max(tick, now >> deployment.clock.tick_log2)
        taken = observer.receive(message, tick)
        fates.append(Fate.MESSAGE if taken else Fate.DUPLICATE)
        if taken:
            stamp = taken.stamp
            heard_time = mine.time if mine else None
            rows.append(
                (taken.source, message.boot, taken.sequence, stamp.r, stamp.c, stamp.kn, tick, heard_time)
            )
    return rows, fates


def in_bulk(folder, deployment):
    readings = read(folder, deployment)
    rows = []
    for reading in readings:
        for row in reading.messages.to_pylist():
            kn = tuple(row[name] for name in row if name.startswith("kn"))
            names = ("source", "boot", "sequence", "r", "c")
            rows.append((*(row[name] for name in names), kn, row["heard"], row["heard_time"]))
    return rows, [Fate(fate) for reading in readings for fate in reading.fates]


@given(lines(), st.integers(500, 5000), st.booleans(), st.data())
def test_in_bulk_as_one_by_one(tmp_path_factory, given_lines, segment, notes, data):
    deployment, arrivals = given_lines
    folder = tmp_path_factory.mktemp("log")
    noted, clock = {}, data.draw(st.integers(0, 1 << 40)) if notes else 0
    with JournalWriter(folder, deployment, "run-1", "never", segment_bytes=segment) as journal:
        for i, arrival in enumerate(arrivals):
            number = journal.append(arrival)
            if notes and i % 3 == 1:
                clock += i * 50
                noted[i] = clock
                journal.append_clock(number, arrival, clock)
    assert in_bulk(folder, deployment) == one_by_one(deployment, arrivals, noted)


@given(lines())
def test_the_carry_survives_as_text(tmp_path_factory, given_lines):
    deployment, arrivals = given_lines
    folder = tmp_path_factory.mktemp("log")
    write(folder, arrivals, deployment)
    (reading,) = read(folder, deployment)
    assert Carry.from_json(reading.carry.to_json()) == reading.carry


@given(
    st.lists(st.tuples(st.integers(0, 255), st.sampled_from([0, 1, 30, 500])), max_size=200),
    st.integers(0, 200),
)
def test_numbers_unwrap_as_the_observer_does(steps, cut):
    patience, now, rows, ticks = 100, 0, [], []
    unwrapper, wanted = SequenceUnwrapper(patience), []
    dtype = bulk.data_dtype(layout_of(deployed()))
    for number, step in steps:
        now += step
        row = np.zeros((), dtype)
        row["sequence"] = number
        rows.append(row)
        ticks.append(now)
        wanted.append(unwrapper.accept(number, now))
    data, at = np.array(rows, dtype).reshape(-1), np.array(ticks, np.int64)
    got, known = [], {}
    for part in (slice(0, cut), slice(cut, None)):
        numbers, first, known = tables._unwrap_sequences(data[part], at[part], patience, known)
        got += [int(n) if f else None for n, f in zip(numbers, first, strict=True)]
    assert got == wanted


def test_an_empty_journal_is_an_empty_table(tmp_path):
    deployment = deployed()
    write(tmp_path, [], deployment)
    assert len(table_of(tmp_path, deployment)) == 0
