"""The table made from a journal is what the observer makes of it frame by frame, however the journal is cut."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Arrival
from basestation.causality.boots import MoteBoots, Numbers
from basestation.journal import message_table
from basestation.journal.message_table import Carry, Fate, read_all
from basestation.journal.writer import JournalWriter, read_journal
from basestation.live.happenings import Arrived
from basestation.live.station import Station
from basestation.observer import Observer
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for
from basestation.simulator.simulation import build_scheme
from packet_formats import bulk
from packet_formats.framing import crc16
from packet_formats.layout import layout_of
from packet_formats.messages import Data, data_digest, decode_message, encode_message
from packet_formats.records import Beacon, Health, Heard
from packet_formats.tinyos import Ack, PacketError, decode_packet, encode_packet
from tests.journal.logs import noting, refuse, simulated, write

SCHEMES = ["kn", "dpc1", "dpc2", "hlc", "shlc"]
OPTIONS = WorldOptions()
WRAP = 1 << 32


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
        if column not in ("clock", "batch", "fresh", "rssi", "lqi", "mono_ns", "wall_ns", "sent", "vector"):
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
                Data(source, chance.randrange(256), stamp, boot=chance.choice([0, 0, 1, 7]), data=bytes(4)),
                layout,
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


def nearest(step, modulus):
    return (step + modulus // 2) % modulus - modulus // 2


class OneByOne:
    """The observer, frame by frame: its rows, and the fate of each frame."""

    def __init__(self, deployment):
        self.deployment, self.observer = deployment, Observer(deployment)
        self.pending = {}
        self.cycles, self.epoch, self.clock, self.above = None, 0, 0, 0
        self.rows = []

    def tell(self, message):
        step = nearest(message.epoch - self.epoch, 256)
        if self.cycles is None:
            self.cycles, self.epoch = message.time, message.epoch
        elif step > 0:
            self.cycles, self.epoch = self.cycles + (message.time - self.cycles) % WRAP, message.epoch
        elif step == 0:
            self.cycles += nearest(message.time - self.cycles, WRAP)

    def take(self, arrival, note):
        try:
            packet = decode_packet(arrival.packet)
        except PacketError:
            return Fate.NO_MESSAGE
        if isinstance(packet, Ack):
            return Fate.NO_MESSAGE
        announced = self.pending.pop(arrival.gateway, None)
        message = decode_message(packet, layout_of(self.deployment))
        if isinstance(message, Heard | Beacon | Health):
            if message.flags & 1:
                self.tell(message)
            if isinstance(message, Heard):
                self.pending[arrival.gateway] = message
            return Fate.RECORD
        if not isinstance(message, Data):
            return Fate.FOREIGN
        mine = announced if announced and announced.check == crc16(packet.data) else None
        return self.take_data(message, mine, note, data_digest(packet.data, layout_of(self.deployment)))

    def take_data(self, data, mine, note, digest):
        clock, heard = note or (None, None)
        heard = clock if heard is None else heard
        if note and self.cycles is not None:
            self.above = round((heard - self.cycles) / WRAP)
        if data.source >= self.deployment.network.motes:
            return Fate.STRANGER
        if not note and self.cycles is not None:
            heard = self.cycles + self.above * WRAP
            heard += nearest(mine.time - heard, WRAP) if mine else 0
            clock = heard
        shift = self.deployment.clock.tick_log2
        self.clock = max(self.clock, (clock or 0) >> shift)
        tick = (heard or 0) >> shift
        reception = self.observer.receive(
            data, self.clock, tick, timed=heard is not None, guessed=mine is None, digest=digest
        )
        taken = reception.message
        if taken is None:
            return Fate.DUPLICATE
        if heard is None:
            return Fate.UNTIMED
        stamp, time = taken.stamp, mine.time if mine else None
        head = (taken.source, data.boot, taken.sequence)
        self.rows.append((*head, stamp.r, stamp.c, tick, self.clock, time, stamp.kn))
        return Fate.MESSAGE


def in_bulk(folder, deployment):
    readings = read(folder, deployment)
    names = ("source", "boot", "sequence", "stamp.r", "stamp.c", "heard", "clock", "heard_time")
    rows = [
        (*(row[name] for name in names), tuple(row["stamp.kn"]))
        for reading in readings
        for row in reading.messages.flatten().to_pylist()
    ]
    return rows, [Fate(fate) for reading in readings for fate in reading.fates]


@given(lines(), st.integers(500, 5000), st.booleans(), st.integers(0, 1 << 40), st.randoms())
def test_in_bulk_as_one_by_one(tmp_path_factory, given_lines, segment, notes, clock, chance):
    deployment, arrivals = given_lines
    folder = tmp_path_factory.mktemp("log")
    data_type = layout_of(deployment).am_type
    station, fates = OneByOne(deployment), []
    with JournalWriter(folder, deployment, "run-1", "never", segment_bytes=segment) as journal:
        for arrival in arrivals:
            number = journal.append(arrival)
            note = None
            if notes and arrival.packet[3:4] == bytes([data_type]) and chance.random() < 0.6:
                clock += chance.randrange(60_000)
                note = (clock, chance.choice([None, clock - 3000, clock + 100]))
                journal.append_decision(number, arrival, noting(*note))
            fates.append(station.take(arrival, note))
    assert in_bulk(folder, deployment) == (station.rows, fates)


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
    mote, wanted = MoteBoots(0, 0), []
    dtype = bulk.data_dtype(layout_of(deployed()))
    for number, step in steps:
        now += step
        row = np.zeros((), dtype)
        row["sequence"] = number
        rows.append(row)
        ticks.append(now)
        _, sequence, copy, _, _ = mote.accept(0, number, now, patience)
        wanted.append(None if copy else sequence)
    data, at = np.array(rows, dtype).reshape(-1), np.array(ticks, np.int64)
    got, known = [], {}
    for part in (slice(0, cut), slice(cut, None)):
        named, known = message_table.number_by_objects(data[part], at[part], patience, known)
        got += [int(n) if f else None for n, f in zip(named.sequence, named.first, strict=True)]
    assert got == wanted


def test_boots_unwrap():
    # A copy of 6 after 7; five more boots, 1 a copy; 7 again: no copy by then.
    boots = [6, 7, 6, 0, 2, 1, 2, 7, 2]
    ticks = [0, 10, 11, 20, 30, 31, 200, 300, 400]
    data = np.zeros(len(boots), bulk.data_dtype(layout_of(deployed())))
    data["boot"], data["sequence"] = boots, range(len(boots))
    named, _ = message_table.number_by_objects(data, np.array(ticks, np.int64), 100, {})
    assert named.life.tolist() == [6, 7, 6, 8, 10, 9, 10, 15, 18]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 7), st.integers(0, 255), st.integers(0, 200))),
    st.integers(0, 40),
)
def test_messages_are_numbered_over_boots_as_the_observer_numbers_them(steps, cut):
    """Also where a segment ends, and what it leaves to the next has been written down."""
    patience = 100
    numbers, wanted = Numbers(patience), []
    data = np.zeros(len(steps), bulk.data_dtype(layout_of(deployed())))
    for row, (source, boot, sequence, _) in zip(data, steps, strict=True):
        row["source"], row["boot"], row["sequence"] = source, boot, sequence
    ticks = np.cumsum([step for *_, step in steps]).astype(np.int64)
    for (source, boot, sequence, _), now in zip(steps, ticks.tolist(), strict=True):
        known = numbers.accept(source, boot, sequence, now)
        wanted.append(message_table.NOTHING if known is None else known.number)
    got, carry = [], Carry()
    for part in (slice(0, cut), slice(cut, None)):
        named, motes = message_table.number_by_objects(data[part], ticks[part], patience, carry.motes)
        got += named.number.tolist()
        carry = Carry.from_json(Carry(motes=motes).to_json())
    assert got == wanted


def test_after_a_carry_without_numbers_they_are_unknown(tmp_path):
    """Parts of older versions have such carries. A guess could give two messages the same number."""
    trace, arrivals = simulated("shlc", messages=300)
    write(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    first, second, *_ = [part.records for part in read_journal(tmp_path).segments(refuse)]
    before = json.loads(message_table.read_messages(first, trace.deployment).carry.to_json())
    before["motes"] = [mote[:4] for mote in before["motes"]]
    old = Carry.from_json(json.dumps(before))
    table = message_table.read_messages(second, trace.deployment, old).messages
    heard = {source for source, *_ in before["motes"]}
    told = zip(table["source"].to_pylist(), table["number"].to_pylist(), strict=True)
    assert all((number is None) == (source in heard) for source, number in told)
    assert len(table) > 10


def test_a_carry_with_impossible_digests_is_refused(tmp_path):
    trace, arrivals = simulated("shlc", messages=100)
    write(tmp_path, arrivals, trace.deployment)
    (part,) = [part.records for part in read_journal(tmp_path).segments(refuse)]
    carry = message_table.read_messages(part, trace.deployment).carry
    digest = next(max(told) for mote in carry.motes.values() for told in mote.contents.values())
    assert str(digest) in carry.to_json()
    with pytest.raises(ValueError, match="no digests"):
        Carry.from_json(carry.to_json().replace(str(digest), str(1 << 32)))


def test_an_empty_journal_is_an_empty_table(tmp_path):
    deployment = deployed()
    write(tmp_path, [], deployment)
    assert len(table_of(tmp_path, deployment)) == 0


def two_lines(arrivals, behind_ns):
    """The same frames by a second gateway, some lost, some while later."""
    chance = random.Random(1)
    pairs = [arrivals[i : i + 2] for i in range(0, len(arrivals), 2)]
    first = [pair for pair in pairs if chance.random() < 0.8]
    second = [
        [arrival._replace(gateway=1, mono_ns=arrival.mono_ns + behind_ns) for arrival in pair]
        for pair in pairs
        if chance.random() < 0.8
    ]
    return [arrival for pair in sorted(first + second, key=lambda pair: pair[0].mono_ns) for arrival in pair]


@pytest.mark.parametrize("behind_ns", [0, 20_000_000, 400_000_000])
def test_the_table_is_what_the_live_station_took(tmp_path, behind_ns):
    trace, arrivals = simulated("kn", messages=600)
    arrivals = two_lines(arrivals, behind_ns)
    station, taken = Station(trace.deployment), []
    shift = trace.deployment.clock.tick_log2
    with JournalWriter(tmp_path, trace.deployment, "run-1", "never", segment_bytes=30_000) as journal:
        for arrival in arrivals:
            number, happened = journal.append(arrival), station.take(arrival)
            if station.decision is not None:
                journal.append_decision(number, arrival, station.decision)
            for happening in happened:
                if isinstance(happening, Arrived) and isinstance(happening.message, Data):
                    assert happening.clock is not None
                    assert happening.cycles is not None
                    if not happening.copy:
                        taken.append((*happening.name, happening.cycles >> shift, arrival.mono_ns))
    table = table_of(tmp_path, trace.deployment)
    names = ("source", "boot", "sequence", "heard", "mono_ns")
    assert list(zip(*(table[name].to_pylist() for name in names), strict=True)) == taken
    assert len(taken) > 500
    clocks = table["clock"].to_numpy()
    assert np.all(np.diff(clocks) >= 0)
