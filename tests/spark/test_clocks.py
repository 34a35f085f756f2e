"""Clocks: offsets, delays and breaks that were put into a log are found in it, and the rest stays unknown."""

import json
import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from basestation.analysis.clock_bounds import BEACON, COLUMNS, HEALTH, TIMES, _spreads, clocks_of, sure
from basestation.arrivals import Arrival
from basestation.cli.testbed import command as emulate
from basestation.traces.files import write_trace
from packet_formats.deployment import CRYSTAL_HZ, from_dict
from packet_formats.deployment import parse as load_text
from packet_formats.framing import crc16
from packet_formats.layout import layout_of
from packet_formats.messages import encode_message
from packet_formats.records import Beacon, Health, Heard
from packet_formats.tinyos import encode_packet
from spark_jobs import run
from spark_jobs.advice.predictions import measured_epsilon
from spark_jobs.engines import Cores
from spark_jobs.health.measured_clocks import clocks, of_runs
from spark_jobs.tables.inputs import find
from spark_jobs.tables.intake import ingest
from spark_jobs.tables.stored import manifest
from tests.journal.logs import simulated, write

WALL = 1_700_000_000_000_000_000
GATEWAY = 4
START = (1 << 32) - 40 * CRYSTAL_HZ  # the 32 bits wrap on the way


class Line:
    """What a gateway in sync hands up; times are seconds since the beginning."""

    def __init__(self, **clock):
        described = {
            "network": {"name": "field", "board": "micaz", "motes": GATEWAY, "data_bytes": 0},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32} | clock,
            "stamp": {"scheme": "dpc2"},
        }
        self.deployment = from_dict(described)
        self.layout = layout_of(self.deployment)
        self.arrivals = []
        self.epoch, self.ahead = 1, 0

    def time(self, at):
        return (START + self.ahead + round(at * CRYSTAL_HZ)) % (1 << 32)

    def hand_up(self, at, message, synced=True):
        raw = encode_message(message, self.layout)
        heard = Heard(
            GATEWAY,
            self.epoch,
            len(self.arrivals) // 2 % 256,
            0,
            2 | synced,
            -60,
            0,
            crc16(raw.data),
            self.time(at),
        )
        for packet in (encode_message(heard, self.layout), raw):
            self.arrivals.append(Arrival(0, round(at * 1e9), WALL + round(at * 1e9), encode_packet(packet)))

    def beacon(self, at, mote, offset, synced=True, epoch=None, gateway_synced=True):
        epoch = self.epoch if epoch is None else epoch
        time = (self.time(at) + offset) % (1 << 32)
        beacon = Beacon(mote, GATEWAY, epoch, round(at), 1, int(synced), 0, time)
        self.hand_up(at, beacon, gateway_synced)

    def health(self, at, mote, delay, synced=True):
        time = (self.time(at) - delay) % (1 << 32)
        self.hand_up(at, Health(mote, time, self.epoch, int(synced), 1, 0, *[0] * 8))

    def clocks(self, tmp_path, capsys, *options):
        write(tmp_path / "run", self.arrivals, self.deployment, "r", segment_bytes=2000)
        ingest(find([tmp_path / "run"]), tmp_path / "tables", Cores(1))
        out = str(tmp_path / "out")
        capsys.readouterr()
        assert run.main(["clocks", str(tmp_path / "tables"), "--no-spark", "--out", out, *options]) == 0
        return json.loads(capsys.readouterr().out)


def test_what_was_put_in_is_found(tmp_path, capsys):
    line = Line()
    for step in range(20):
        at = 5 * step + 1
        line.beacon(at, 0, 10 + step)  # 5 s of 32768 cycles: one cycle more is 6.1 ppm
        line.beacon(at + 0.5, 1, -100)
        line.health(at + 1, 2, 700 + step)
        line.health(at + 1.2, 2, 700 + step + round(0.2 * CRYSTAL_HZ))  # a copy of the same message, later
    line.beacon(101, 1, -600)  # 600 cycles behind and 29 ahead of the gateway: 5 ticks
    line.health(102, 3, 33 * 128 + 1)  # 34 ticks
    told = line.clocks(tmp_path, capsys)
    assert told["epsilon"]["covers_100"] == 5
    assert told["epsilon"]["broken"] == 1
    assert told["epsilon"]["motes"] == 2
    assert (told["delta"]["measured"], told["delta"]["covers_100"], told["delta"]["broken"]) == (21, 34, 1)
    motes = {mote["mote"]: mote for mote in told["motes"]}
    assert (motes[0]["least"], motes[0]["most"], motes[0]["beacons"]) == (10, 29, 20)
    assert motes[0]["skew_ppm"] == pytest.approx(1e6 / (5 * CRYSTAL_HZ))
    assert (motes[1]["least"], motes[1]["most"]) == (-600, -100)
    assert (motes[2]["delay_median"], motes[2]["delay_most"], motes[2]["mean"]) == (709.5, 719, None)
    breaks = [(item["kind"], item["mote"], item["ticks"]) for item in told["breaks"]]
    assert breaks == [("epsilon", 1, 5), ("delta", 3, 34)]
    assert [item["wall_ns"] - WALL for item in told["breaks"]] == [101 * 10**9, 102 * 10**9]
    assert told["breaks"][0]["text"] == "mote 1: its clock and another were 5 ticks apart, epsilon is 3"
    assert pq.read_table(tmp_path / "out/clock_breaks.parquet")["ticks"].to_pylist() == [5, 34]
    assert measured_epsilon([tmp_path / "tables", tmp_path / "run"], Cores(1)) == {"r": 5}  # what `fit` takes


def test_shares(tmp_path, capsys):
    line = Line()
    for step in range(1000):
        line.health(step / 10, 0, 128 if step < 985 else 256 if step < 998 else 128 * 40)
    delta = line.clocks(tmp_path, capsys)["delta"]
    assert (delta["covers_99"], delta["covers_99_9"], delta["covers_100"]) == (2, 40, 40)
    assert delta["broken"] == 2


def test_few_measurements_say_what_they_are_worth(tmp_path, capsys):
    line = Line()
    for step in range(18):
        line.health(step, 0, 128 * (step % 7 + 1))
    delta = line.clocks(tmp_path, capsys)["delta"]
    assert (delta["covers_99"], delta["covers_99_9"], delta["covers_100"]) == (None, None, 7)
    # If 84.6% of all delays were below the bound, 18 would all be below it with a chance of 5%.
    assert delta["sure_share"] == pytest.approx(100 * 0.05 ** (1 / 18), abs=1e-4)
    assert delta["why"] == (
        "18 measurements are too few to say what covers 99 or 99.9%; one can be 95% sure that covers_100 covers 84.6% "
        "of all times, if measurements are independent"
    )
    (row,) = [
        row for row in pq.read_table(tmp_path / "out/clocks.parquet").to_pylist() if row["bound"] == "delta"
    ]
    assert row["covers_99_9"] is None
    assert row["sure_share"] == delta["sure_share"]


def test_the_largest_value_covers_the_sure_share_in_95_of_100_cases():
    chance = np.random.default_rng(5)
    for count in (3, 18, 100):
        # The share that it covers, if all are equally likely
        largest = chance.random((20_000, count)).max(axis=1)
        assert np.mean(largest >= sure(count) / 100) == pytest.approx(0.95, abs=0.01)


def busy_line(seed):
    """Beacons, health messages and their copies on two lines, with new epochs and times that step back."""
    chance, line, at = random.Random(seed), Line(), 1.0
    for _ in range(600):
        at += chance.expovariate(2)
        kind, mote = chance.random(), chance.randrange(4)
        if kind < 0.5:
            line.beacon(at, mote, chance.randrange(-400, 400), chance.random() < 0.9)
        elif kind < 0.97:
            delay = chance.randrange(10, 6000)
            line.health(at, mote, delay)
            if chance.random() < 0.3:
                line.health(at + 0.05, mote, delay + round(0.05 * CRYSTAL_HZ))
        else:
            line.epoch, line.ahead = line.epoch + (kind < 0.985), line.ahead - 5 * CRYSTAL_HZ
    pairs = [line.arrivals[i : i + 2] for i in range(0, len(line.arrivals), 2)]
    line.arrivals = [
        arrival._replace(gateway=of) for pair in pairs for of in [chance.randrange(2)] for arrival in pair
    ]
    return line


@pytest.mark.wide
def test_pieces_in_any_order_and_on_both_engines_give_the_same(tmp_path, capsys, spark):
    lines = {name: busy_line(seed) for seed, name in enumerate("ab")}
    for name, line in lines.items():
        write(tmp_path / name, line.arrivals, line.deployment, name, segment_bytes=2000, site=name)
    tables = tmp_path / "tables"
    ingest(find([tmp_path / name for name in lines]), tables, Cores(1))
    runs = manifest(tables)
    whole, faults = of_runs(Cores(1), runs, 20)
    assert not faults
    assert {item["kind"] for row in whole for item in row["clock_breaks"]} == {
        "epsilon", "delta", "epoch", "restart", "sync",
    }  # fmt: skip
    frames = pa.concat_tables(
        rows.append_column("site", pa.repeat(run.group.site, len(rows))).append_column(
            "run", pa.repeat(run.name, len(rows))
        )
        for run in runs
        for piece in run.pieces("frames")
        for rows in piece.batches(COLUMNS)
    )
    stamps = {
        "source": [0, 1, 0, 2],
        "heard": [9, 9, 9, 9],
        "stamp": [{"r": r} for r in (5, 9, 5, 12)],
        "in_sync": [True, True, True, False],
    }
    messages = pa.table({"site": ["a"] * 4, "run": ["a"] * 4} | stamps)
    deployments = {run.name: run.deployment for run in runs}
    cut = np.split(np.arange(len(frames)), np.arange(100, len(frames), 100))
    random.Random(3).shuffle(cut)
    torn = pa.concat_tables(frames.take(rows) for rows in cut)

    def rows_of(found):
        rows = sorted(found.to_pylist(), key=lambda row: row["run"])
        stamped = [row["clocks"].pop() for row in rows]
        assert [item["measured"] for item in stamped] == [3, 0]
        assert (stamped[0]["motes"], stamped[0]["covers_100"]) == (2, 4)
        return rows

    for row in whole:
        row["clocks"].pop()
    there = clocks(
        spark.createDataFrame(torn).repartition(3),
        spark.createDataFrame(messages),
        deployments,
        20,
    )
    assert rows_of(there) == whole


def test_a_beacon_takes_little_memory():
    """A run's beacons and health messages are in memory at once, so each must be small."""
    count, chance = 50_000, np.random.default_rng(1)
    whole = {
        "number": np.arange(count), "at": np.arange(count) * 3000, "wall": np.arange(count) * 10**7,
        "mote": chance.integers(0, 4, count), "gateway": np.full(count, GATEWAY), "flags": np.full(count, 7),
        "value": -chance.integers(0, 100, count), "other": chance.integers(0, 1 << 32, count),
        "kind": chance.integers(BEACON, HEALTH + 1, count),
    }  # fmt: skip
    columns = {"journal": pa.repeat("r", count)}
    columns |= {name: pa.array(values, TIMES.field(name).type) for name, values in whole.items()}
    table = pa.table([columns[name] for name in TIMES.names], schema=TIMES)
    tracemalloc.start()
    try:
        row = clocks_of(table, Line().deployment, 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(mote["beacons"] for mote in row["clock_motes"]) > count // 3
    assert peak < 180 * count


def test_without_times_it_is_unknown(tmp_path, capsys):
    trace, _ = simulated("kn", messages=100)
    write_trace(trace, tmp_path / "sim")
    ingest(find([tmp_path / "sim"]), tmp_path / "tables", Cores(1))
    capsys.readouterr()
    out = str(tmp_path / "out")
    assert run.main(["clocks", str(tmp_path / "tables"), "--no-spark", "--out", out]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["epsilon"]["covers_100"] == "unknown"
    assert told["delta"]["covers_100"] == "unknown"
    assert "no beacon" in told["epsilon"]["why"]
    assert "log a gateway that is in sync and sends heard records" in told["epsilon"]["why"]  # the remedy
    assert "no health message" in told["delta"]["why"]
    real = trace.messages["heard"].to_numpy() - trace.messages["sent"].to_numpy()
    assert told["stamped"]["covers_100"] == max(real)
    assert measured_epsilon([tmp_path / "tables"], Cores(1)) == {}  # as deployed, then
    rows = pq.read_table(tmp_path / "out/clocks.parquet").to_pylist()
    assert [(row["bound"], row["covers_100"]) for row in rows[:2]] == [("epsilon", None), ("delta", None)]


def test_who_is_out_of_sync_or_of_another_epoch_is_not_asked(tmp_path, capsys):
    line = Line()
    line.beacon(1, 0, 5)
    line.beacon(2, 0, 99_999, synced=False)
    line.beacon(3, 1, 99_999, epoch=2)
    line.beacon(4, 1, 99_999, gateway_synced=False)
    line.beacon(5, 0, 6)
    line.epoch, line.ahead = 2, -30 * CRYSTAL_HZ
    line.beacon(10, 0, 7)
    line.ahead -= 3 * CRYSTAL_HZ
    line.beacon(11, 0, 8)
    told = line.clocks(tmp_path, capsys)
    assert told["epsilon"]["covers_100"] == 1
    assert told["motes"][0]["most"] == 8
    assert [item["kind"] for item in told["breaks"]] == ["sync", "epoch", "restart"]
    assert [item["wall_ns"] - WALL for item in told["breaks"]] == [2 * 10**9, 10 * 10**9, 11 * 10**9]


def test_the_farthest_two_of_a_moment():
    chance = np.random.default_rng(3)
    count = 300
    at = np.sort(chance.integers(0, 200 * CRYSTAL_HZ, count))
    gateway, mote = chance.integers(10, 12, count), chance.integers(0, 5, count)
    cycles = chance.integers(-500, 500, count)
    spread, rows = _spreads({"at": at, "gateway": gateway, "cycles": cycles}, 20)
    when, who = at[rows], mote[rows]
    wanted = []
    for one in (10, 11):
        for moment in range(10):
            mine = (gateway == one) & (at // (20 * CRYSTAL_HZ) == moment)
            if mine.any():
                values = [*cycles[mine].tolist(), 0]
                far = np.abs(cycles[mine]).max()
                wanted.append((max(values) - min(values), far))
    assert spread.tolist() == [width for width, _ in wanted]
    for row, (_, far) in enumerate(wanted):
        match = (at == when[row]) & (mote == who[row])
        assert far in np.abs(cycles[match])


@pytest.mark.wide
def test_the_testbeds_truth_bears_it_out(tmp_path, capsys, root, require_tool):
    """The clocks as they were in the motes' memories, against the records of the gateway's line."""
    for tool in ("gcc", "make", "pkg-config", "avr-gcc"):
        require_tool(tool)
    pytest.importorskip("platformio")
    log = tmp_path / "truth.jsonl"
    wanted = ["--motes", "8", "--rate", "2", "--seconds", "150", "--json", "--truth", str(log)]
    result = CliRunner().invoke(emulate, wanted, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    (truth,) = json.loads(result.stdout)["networks"]
    described = (root / "examples/micaz.toml").read_text()
    ingest(find([log], load_text(described).to_toml()), tmp_path / "tables", Cores(1))
    messages = next((tmp_path / "tables/messages").rglob("*.parquet"))
    assert pq.read_metadata(messages).num_rows == truth["delivered"]["messages"]
    capsys.readouterr()
    assert run.main(["clocks", str(tmp_path / "tables"), "--no-spark"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["epsilon"]["covers_100"] == truth["skew"]["ticks"]
    assert abs(told["stamped"]["covers_100"] - truth["delay"]["ticks"]) <= 1
    assert told["delta"]["covers_100"] <= truth["delay"]["delta"]
    assert told["breaks"] == []
    worst = {mote["id"]: mote["worst"] for mote in truth["skew"]["motes"]}
    compared = [mote for mote in told["motes"] if mote["beacons"]]
    assert len(compared) >= 2
    for mote in compared:
        found = max(mote["most"], -mote["least"])
        # The truth is read once a second, a beacon comes rarely.
        assert abs(found - abs(worst[mote["mote"]])) <= 2
