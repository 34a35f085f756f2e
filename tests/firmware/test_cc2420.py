"""The CC2420 driver against the testbed's chip: every byte of its SPI, its pins and its times."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from packet_formats import cheader
from packet_formats.deployment import from_dict
from tests.firmware.scheduled import scheduled_header

HZ = 32768
NO_STAMP = 255
START_REGISTERS = {
    0x11: 0x02E2,
    0x12: 0x0500,
    0x17: 0x2A56,
    0x19: 0x01C4,
    0x1C: 0x007F,
    0x18: 0x4000 | (357 + 5 * (26 - 11)),
    0x15: 0xA0FF,
}
HEADER = {1: "0108{dsn:02x}ffff{dest}{type:02x}7d", 2: "4188{dsn:02x}2200{dest}0300 3f{type:02x}"}
GROUP = {1: 0x7D, 2: 0x22}
LIMIT = {1: 29, 2: 28}


@dataclass(frozen=True)
class Happened:
    """One line of the bench: when (microseconds), what, and the rest."""

    time: int
    what: str
    rest: str

    @property
    def words(self) -> list[str]:
        return self.rest.split()

    @property
    def out(self) -> str:
        """What an SPI access sent, in hex."""
        return " ".join(pair.split(":")[0] for pair in self.words)


class Bench:
    """Runs command lines on a driver built for one TinyOS version."""

    def __init__(self, program: Path, tinyos: int) -> None:
        self.program = program
        self.tinyos = tinyos

    def run(self, *lines: str, start: bool = True, misused: bool = False) -> list[Happened]:
        """What happened. The chip has no reason to complain, unless ``misused`` says so."""
        script = ["start 7", "run 1000", *lines] if start else list(lines)
        text = "\n".join(script) + "\n"
        done = subprocess.run(
            [self.program], input=text, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        happened = [
            Happened(int(t), what, rest) for t, what, rest in re.findall(r"(\d+) (\S+) ?(.*)", done.stdout)
        ]
        assert misused or not only(happened, "fault")
        return happened

    def frame(self, data: str, dsn: int = 0, dest: int = 0xFFFF, kind: int = 0x70) -> str:
        """A frame as it is on the air, from the length byte on."""
        header = HEADER[self.tinyos].format(dsn=dsn, dest=dest.to_bytes(2, "little").hex(), type=kind)
        body = bytes.fromhex(header + data)
        return (bytes([len(body) + 2]) + body + fcs(body)).hex()

    def send(self, data: str, deadline: int = 3000, stamp_at: int = NO_STAMP) -> str:
        return f"send ffff 3 70 {GROUP[self.tinyos]:x} {deadline} {stamp_at} {data}"


def fcs(body: bytes) -> bytes:
    value = 0
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ 0x8408 if value & 1 else value >> 1
    return value.to_bytes(2, "little")


def only(happened: list[Happened], what: str) -> list[Happened]:
    return [one for one in happened if one.what == what]


def accesses(happened: list[Happened]) -> list[str]:
    return [one.out for one in only(happened, "spi")]


def counters(happened: list[Happened]) -> dict[str, int]:
    names = ("heard", "crc", "overrun", "garbage", "restarts")
    return dict(zip(names, map(int, only(happened, "counters")[-1].words), strict=True))


def cycles(microseconds: int) -> int:
    return microseconds * HZ // 1_000_000


@pytest.fixture(scope="session")
def build_bench(
    root: Path, require_tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Bench]:
    compiler = require_tool("gcc")

    @cache
    def build(tinyos: int, scheduled: bool = False) -> Bench:
        folder = tmp_path_factory.mktemp(f"cc2420_{tinyos}")
        deployment = from_dict(
            {
                "network": {"name": "bench", "board": "micaz", "motes": 10, "tinyos": tinyos, "channel": 26},
                "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32},
                "stamp": {"scheme": "shlc"},
            }
        )
        layout = scheduled_header("micaz") if scheduled else cheader.render(deployment)
        (folder / "causeway_layout.h").write_text(layout)
        program = folder / "bench"
        flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
        flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        flags += [f"-I{path}" for path in (root / "firmware", root / "firmware/core", folder)]
        sources = [root / "tests/firmware/c/cc2420_bench.c"]
        sources += sorted((root / "firmware/chips/cc2420").glob("*.c"))
        sources += [root / "firmware/core" / f"{name}.c" for name in ("air", "random")]
        sources += sorted((root / "firmware/testbed").glob("cc2420*.c"))
        sources += [root / "firmware/testbed" / f"{name}.c" for name in ("ether", "ieee802154")]
        subprocess.run([compiler, *flags, "-o", program, *sources, "-lm"], check=True)
        return Bench(program, tinyos)

    return build


@pytest.fixture(params=[1, 2], ids=["tinyos1", "tinyos2"])
def bench(request: pytest.FixtureRequest, build_bench: Callable[..., Bench]) -> Bench:
    return build_bench(request.param)


@pytest.fixture(scope="session")
def sleeper(build_bench: Callable[..., Bench]) -> Bench:
    """A driver of a deployment with a schedule, whose radio may sleep."""
    return build_bench(1, scheduled=True)


def test_fcs_of_a_frame_that_was_seen() -> None:
    assert fcs(bytes.fromhex("4188002200ffff01003f060001")).hex() == "d777"


# --- starting ---


def test_start_pins_strobes_registers_in_order(bench: Bench) -> None:
    happened = bench.run("start 1", start=False)
    pins = [(one.rest, one.time) for one in only(happened, "pin")]
    assert [rest for rest, _ in pins[-3:]] == ["VREG_EN 1", "RESETn 0", "RESETn 1"]
    assert pins[-2][1] - pins[-3][1] >= 600  # the regulator's start
    sent = accesses(happened)
    assert sent[0] == "01"
    polls = [access for access in sent if access == "00"]
    assert len(polls) > 2
    rest = [access for access in sent[1:] if access != "00"]
    registers = [f"{at:02x} {value >> 8:02x} {value & 255:02x}" for at, value in START_REGISTERS.items()]
    assert rest == [*registers, "51 00 00", "7f 00", "08", "08", "03"]
    # Nothing is written before the oscillator is stable.
    first = next(one for one in only(happened, "spi") if one.out.startswith("11 "))
    assert first.time > 602 + 860
    assert first.words[0] == "11:40"
    assert only(happened, "start")[0].rest == "1 power 1"


def test_start_without_a_chip_fails_in_bounded_time(bench: Bench) -> None:
    happened = bench.run("set dumb 1", "start 1", "send ffff 3 70 7d 100 255 00", "run 5000", start=False)
    start = only(happened, "start")[0]
    assert start.rest == "0 power 0"
    assert start.time < 15_000
    assert only(happened, "pin")[-2].rest == "VREG_EN 0"
    assert only(happened, "send")[0].rest == "0"


# --- sending ---


def test_send_on_a_clear_channel(bench: Bench) -> None:
    data = "00010203040506070809"
    happened = bench.run(bench.send(data), "run 20000", "counters")
    assert only(happened, "send")[0].rest == "1"
    frame = bench.frame(data)
    spaced = " ".join(frame[i : i + 2] for i in range(0, len(frame) - 4, 2))
    begin = next(i for i, one in enumerate(happened) if one.what == "spi" and one.out == "09")
    # Flush, the whole frame without its FCS, then strobe and status: no other byte.
    assert accesses(happened[begin:]) == ["09", f"3e {spaced}", "05", "00", "00"]
    air, sent = only(happened, "air")[0], only(happened, "sent")[0]
    assert air.rest == frame
    assert sent.words[0] == "SENT"
    assert abs(int(sent.words[1]) - cycles(air.time)) <= 1
    strobe = next(one for one in only(happened, "spi") if one.out == "05")
    assert 340 <= air.time - strobe.time <= 352
    wait = strobe.time - only(happened, "send")[0].time
    assert 10 <= cycles(wait) <= 321


def test_data_sequence_number_counts(bench: Bench) -> None:
    happened = bench.run(*[line for _ in range(3) for line in (bench.send("01"), "run 20000")])
    assert [one.rest for one in only(happened, "air")] == [bench.frame("01", dsn) for dsn in range(3)]


def test_waits_differ_with_the_seed(bench: Bench) -> None:
    waits = set()
    for seed in (40503, 15470, 55973, 30940, 0, 65535):  # as nodes with ids from 0 on have them; the odd ones
        happened = bench.run(f"start {seed}", bench.send("01"), "run 20000", start=False)
        waits.add(only(happened, "air")[0].time)
    assert len(waits) >= 5


def test_busy_then_clear(bench: Bench) -> None:
    happened = bench.run("busy 0 30000", bench.send("01"), "run 60000")
    air = only(happened, "air")[0]
    assert 30_000 + 352 <= air.time < 30_000 + 352 + 2600  # the next try is at most 80 cycles away
    assert only(happened, "sent")[0].words[0] == "SENT"


def test_never_clear_ends_at_the_deadline(bench: Bench) -> None:
    happened = bench.run("busy 0 900000", bench.send("01", deadline=1000), "run 60000", bench.send("02"))
    begin, sent = only(happened, "send")[0], only(happened, "sent")[0]
    assert sent.words[0] == "BUSY"
    assert 990 <= cycles(sent.time - begin.time) <= 1005
    assert not only(happened, "air")
    assert "05" not in accesses(happened)  # the pin tells
    assert only(happened, "send")[1].rest == "1"


@pytest.mark.parametrize("deadline", [-5, 0, *range(6, 16), 20])
def test_short_deadlines(bench: Bench, deadline: int) -> None:
    """Whatever the deadline, the frame starts no later, or not at all."""
    happened = bench.run(bench.send("01", deadline=deadline), "run 20000")
    begin, sent = only(happened, "send")[0], only(happened, "sent")[0]
    if sent.words[0] == "SENT":
        preamble = only(happened, "air")[0].time - 160
        assert preamble * HZ / 1e6 <= cycles(begin.time) + deadline + 1
    else:
        assert sent.words[0] == "BUSY"
        assert not only(happened, "air")
    assert deadline not in (8, 20) or sent.words[0] == ("SENT" if deadline == 20 else "BUSY")


def test_channel_taken_between_pin_and_strobe(bench: Bench) -> None:
    """STXONCCA finds it busy although the pin was clear: no frame goes out then, and a later try succeeds."""
    tries = 0
    for seed in range(1, 8):
        first = bench.run(f"start {seed}", bench.send("01"), "run 20000", start=False)
        strobe = next(one for one in only(first, "spi") if one.out == "05")
        # Busy from within the strobe's own byte on, for 5 ms.
        at = strobe.time - 3
        happened = bench.run(
            f"start {seed}", f"busy {at} {at + 5000}", bench.send("01"), "run 40000", start=False
        )
        strobes = [one for one in only(happened, "spi") if one.out == "05"]
        tries += len(strobes) >= 2
        assert [one.time > at + 5000 for one in only(happened, "air")] == [True]
    assert tries >= 5


def test_refused(bench: Bench) -> None:
    longest = "11" * LIMIT[bench.tinyos]
    happened = bench.run(
        bench.send(longest + "22"),
        bench.send("01020304", stamp_at=1),
        bench.send(longest, stamp_at=LIMIT[bench.tinyos] - 4),
        bench.send("01"),
        "run 20000",
    )
    assert [one.rest for one in only(happened, "send")] == ["0", "0", "1", "0"]
    assert len(only(happened, "air")) == 1


def test_stamp_is_the_delimiters_time(bench: Bench) -> None:
    order: Literal["little", "big"] = "little" if bench.tinyos == 1 else "big"
    for seed in range(1, 9):
        happened = bench.run(
            f"start {seed}", bench.send("0001020304050607080900000000", stamp_at=10), "run 20000", start=False
        )
        air, sent = only(happened, "air")[0], only(happened, "sent")[0]
        time = int(sent.words[1])
        stamp = (time + 0x01020304).to_bytes(4, order)
        assert air.rest == bench.frame("00010203040506070809" + stamp.hex())
        assert abs(time - cycles(air.time)) <= 1
        write = next(one for one in only(happened, "spi") if int(one.out[:2], 16) & 0x80)
        header = {1: 10, 2: 12}[bench.tinyos]
        assert write.out == f"{0x80 | header + 10:02x} 00 {stamp.hex(' ')}"
        # Well before the chip takes the first of them.
        assert write.time < air.time + 32 * (header + 10)


def test_stamp_right_behind_the_header(bench: Bench) -> None:
    happened = bench.run(bench.send("00000000", stamp_at=0), "run 20000")
    time = int(only(happened, "sent")[0].words[1])
    stamp = (time + 0x01020304).to_bytes(4, "little" if bench.tinyos == 1 else "big")
    assert only(happened, "air")[0].rest == bench.frame(stamp.hex())


def test_stamp_that_comes_too_late_spoils_the_frame(bench: Bench) -> None:
    """Better none than one with a wrong time and a good CRC; and the next send is well."""
    happened = bench.run(
        "set stamp_takes 700",
        bench.send("0001020304050607080900000000", stamp_at=10),
        "run 20000",
        "set stamp_takes 0",
        bench.send("77"),
        "run 20000",
        f"frame 60000 {bench.frame('0102')}",
        "run 30000",
        "counters",
    )
    assert [one.words[0] for one in only(happened, "sent")] == ["BUSY", "SENT"]
    assert [one.rest for one in only(happened, "air")] == [bench.frame("77", 1)]
    assert counters(happened) == {"heard": 1, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 0}
    assert "06" in accesses(happened)


# --- receiving ---


@pytest.mark.parametrize("holds", [0, 1], ids=["fifop_falls", "fifop_holds"])
def test_good_frame(bench: Bench, holds: int) -> None:
    data = "0a0b0c0d"
    happened = bench.run(
        f"set fifop_holds {holds}", f"frame 10000 {bench.frame(data, 9)} -20 105", "run 20000", "counters"
    )
    heard = only(happened, "heard")[0]
    source = "0003" if bench.tinyos == 2 else "0000"
    group = f"{GROUP[bench.tinyos]:02x}"
    assert heard.words[1:] == ["-65", "105", "ffff", source, "70", group, data]
    assert abs(int(heard.words[0]) - cycles(10_000)) <= 1
    assert counters(happened) == {"heard": 1, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 0}
    # One access reads the whole frame: length, header, data, RSSI, CRC.
    read = [one for one in only(happened, "spi") if one.out.startswith("7f")][-1]
    assert len(read.words) == 1 + len(bytes.fromhex(bench.frame(data)))
    assert heard.time < 10_000 + 32 * 20 + 200


@pytest.mark.parametrize("rssi", [-128, -100, -83, -82, 0, 127])
def test_rssi(bench: Bench, rssi: int) -> None:
    happened = bench.run(f"frame 10000 {bench.frame('01')} {rssi} 1", "run 20000")
    assert int(only(happened, "heard")[0].words[1]) == max(rssi - 45, -127)


def test_longest_and_empty_frame(bench: Bench) -> None:
    longest = "ab" * LIMIT[bench.tinyos]
    happened = bench.run(
        f"frame 10000 {bench.frame(longest)}", f"frame 20000 {bench.frame('')}", "run 30000", "counters"
    )
    assert [" ".join(one.words[7:]) for one in only(happened, "heard")] == [longest, ""]


def test_bad_fcs(bench: Bench) -> None:
    frame = bytearray.fromhex(bench.frame("01020304"))
    frame[-3] ^= 1
    good = bench.frame("05")
    happened = bench.run(f"frame 10000 {frame.hex()}", f"frame 12000 {good}", "run 20000", "counters")
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert abs(int(only(happened, "heard")[0].words[0]) - cycles(12_000)) <= 1
    assert counters(happened) == {"heard": 1, "crc": 1, "overrun": 0, "garbage": 0, "restarts": 0}


def test_truncated_frame(bench: Bench) -> None:
    """The sender stops in mid-frame: the chip fills up with noise, the CRC tells."""
    cut = bench.frame("01020304050607080910")[:30]
    happened = bench.run(f"frame 10000 {cut}", f"frame 14000 {bench.frame('05')}", "run 20000", "counters")
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert counters(happened) == {"heard": 1, "crc": 1, "overrun": 0, "garbage": 0, "restarts": 0}


@pytest.mark.parametrize("length", [0, 1, 2, 4, 0x80, 0xFF])
def test_length_that_cannot_be(bench: Bench, length: int) -> None:
    """Out of step with the chip's buffer: it is emptied, and what comes later is heard with its own time."""
    frame = bytes([length]) + bytes(range(length & 0x7F))
    happened = bench.run(
        f"frame 10000 {frame.hex()}", f"frame 20000 {bench.frame('05')}", "run 30000", "counters"
    )
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert abs(int(only(happened, "heard")[0].words[0]) - cycles(20_000)) <= 1
    assert counters(happened)["garbage"] == 1
    assert accesses(happened).count("08") == 4  # twice at the start, twice now


@pytest.mark.parametrize("size", [5, 8, 60, 120])
def test_frames_of_others(bench: Bench, size: int) -> None:
    """Good frames of another kind are passed over without emptying the buffer: ours behind them are heard."""
    body = bytes(range(size - 2))
    other = (bytes([size]) + body + fcs(body)).hex()
    second = 10_000 + 32 * (size + 1) + 200
    happened = bench.run(
        f"frame 10000 {other}",
        *([] if size > 100 else [f"frame {second} {bench.frame('05')}"]),
        "pass 18000",
        "run 10000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ([] if size > 100 else ["05"])
    assert all(abs(int(one.words[0]) - cycles(second)) <= 1 for one in heard)
    assert counters(happened) == {
        "heard": len(heard),
        "crc": 0,
        "overrun": 0,
        "garbage": 1,
        "restarts": 0,
    }
    assert accesses(happened).count("08") == 2


@pytest.mark.parametrize("holds", [0, 1], ids=["fifop_falls", "fifop_holds"])
@pytest.mark.parametrize("late", [0, 9000])
def test_frames_back_to_back(bench: Bench, holds: int, late: int) -> None:
    """Three frames, read one by one or, when the loop was busy, all at once: each has its own time."""
    at = [10_000, 11_000, 12_000]
    frames = [bench.frame(f"0{i}", i) for i in range(3)]
    happened = bench.run(
        f"set fifop_holds {holds}",
        *[f"frame {t} {frame}" for t, frame in zip(at, frames, strict=True)],
        f"run {9000 - late + 1}",
        f"pass {late + 2500}",
        "run 20000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["00", "01", "02"]
    for one, time in zip(heard, at, strict=True):
        assert abs(int(one.words[0]) - cycles(time)) <= 1
    assert counters(happened) == {"heard": 3, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 0}


@pytest.mark.parametrize("holds", [0, 1], ids=["fifop_falls", "fifop_holds"])
@pytest.mark.parametrize("gap", range(600, 1300, 50))
def test_next_frame_while_one_is_read(bench: Bench, gap: int, holds: int) -> None:
    """Whatever the moment at which the next frame begins or ends while a first is handled, none is lost or mistimed."""
    at = [10_000, 10_000 + gap, 10_000 + 2 * gap]
    happened = bench.run(
        "set quiet 1",
        f"set fifop_holds {holds}",
        "set heard_takes 333",
        *[f"frame {t} {bench.frame(f'0{i}', i)}" for i, t in enumerate(at)],
        "run 30000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["00", "01", "02"]
    for one, time in zip(heard, at, strict=True):
        assert abs(int(one.words[0]) - cycles(time)) <= 1


def test_overflow(bench: Bench) -> None:
    """More than the chip holds while the loop is elsewhere: counted, emptied, and then all is well again."""
    longest = bench.frame("cc" * LIMIT[bench.tinyos])
    happened = bench.run(
        *[f"frame {10_000 + 2000 * i} {longest}" for i in range(4)],
        "pass 30000",
        "run 1000",
        f"frame 40000 {bench.frame('05')}",
        "run 20000",
        "counters",
    )
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert abs(int(only(happened, "heard")[0].words[0]) - cycles(40_000)) <= 1
    assert counters(happened) == {"heard": 1, "crc": 0, "overrun": 1, "garbage": 0, "restarts": 0}
    # A byte is read, then the buffer is flushed twice.
    begin = accesses(happened).index("03") + 1
    assert accesses(happened[happened.index(only(happened, "spi")[begin]) :])[:3] == ["7f 00", "08", "08"]


def test_more_delimiters_than_the_queue_holds(bench: Bench) -> None:
    """Twelve acknowledgements of others: times can no longer be told apart, so frames are dropped, not mistimed."""
    body = bytes.fromhex("020007")
    ack = (bytes([5]) + body + fcs(body)).hex()
    happened = bench.run(
        *[f"frame {10_000 + 400 * i} {ack}" for i in range(12)],
        f"frame 15500 {bench.frame('05')}",
        "pass 20000",
        "run 1000",
        f"frame 40000 {bench.frame('06')}",
        "run 20000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["06"]
    assert abs(int(heard[0].words[0]) - cycles(40_000)) <= 1
    assert counters(happened)["overrun"] == 1


@pytest.mark.parametrize("before", [50, 400, 5000])
def test_delimiter_without_a_frame(bench: Bench, before: int) -> None:
    """An edge of SFD that no frame follows does not give its time to the next frame."""
    happened = bench.run(
        f"run {10_000 - 2700 - before}",
        "spike",
        f"frame 10000 {bench.frame('05')}",
        "run 20000",
        "counters",
    )
    heard = only(happened, "heard")[0]
    assert abs(int(heard.words[0]) - cycles(10_000)) <= 1


def test_delimiter_that_was_missed(bench: Bench) -> None:
    """Interrupts are off for two whole frames, so one capture is left for both: no frame gets another one's time."""
    happened = bench.run(
        "run 7200",
        "set locked 1",
        f"frame 10000 {bench.frame('01020304')}",
        f"frame 10900 {bench.frame('05', 1)}",
        "pass 2500",
        "set locked 0",
        "run 5000",
        f"frame 20000 {bench.frame('06', 1)}",
        "run 20000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["06"]
    assert abs(int(heard[0].words[0]) - cycles(20_000)) <= 1
    assert counters(happened)["overrun"] == 1


@pytest.mark.parametrize("holds", [0, 1], ids=["fifop_falls", "fifop_holds"])
def test_board_that_does_not_see_sfd(bench: Bench, holds: int) -> None:
    """A frame's end tells when it began, to a fraction of a millisecond; the driver says how well."""
    longest = "ab" * LIMIT[bench.tinyos]
    happened = bench.run(
        "set blind 1",
        f"set fifop_holds {holds}",
        f"frame 10000 {bench.frame('05')}",
        f"frame 20000 {bench.frame(longest)}",
        "run 25000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["05", longest]
    for one, at in zip(heard, (10_000, 20_000), strict=True):
        assert abs(int(one.words[0]) - cycles(at)) <= 2
    assert [one.rest for one in only(happened, "unsure")] == ["16", "16"]
    assert counters(happened) == {"heard": 2, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 0}
    assert only(happened, "untimed")[-1].rest == "2"


@pytest.mark.parametrize("holds", [0, 1], ids=["fifop_falls", "fifop_holds"])
@pytest.mark.parametrize("gap", [620, 700, 1000, 1500])
def test_frames_back_to_back_without_sfd(bench: Bench, holds: int, gap: int) -> None:
    """Of frames that lay in the chip behind others no end was seen: their times are late, and said to be unknown."""
    at = [10_000 + gap * i for i in range(3)]
    happened = bench.run(
        "set blind 1",
        f"set fifop_holds {holds}",
        *[f"frame {t} {bench.frame(f'0{i}', i)}" for i, t in enumerate(at)],
        "run 7000",
        f"pass {at[-1] - 10_000 + 2000}",
        "run 20000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["00", "01", "02"]
    assert [one.rest for one in only(happened, "unsure")] == ["16", "255", "255"]
    assert abs(int(heard[0].words[0]) - cycles(at[0])) <= 2
    for one, time in zip(heard[1:], at[1:], strict=True):
        assert cycles(time) <= int(one.words[0]) <= cycles(one.time)


@pytest.mark.parametrize("gap", range(600, 1300, 100))
def test_what_is_said_of_times_without_sfd_is_true(bench: Bench, gap: int) -> None:
    """Whatever is read while the next frame comes in: no time is further off than the driver says."""
    at = [10_000 + gap * i for i in range(4)]
    happened = bench.run(
        "set blind 1",
        "set quiet 1",
        "set heard_takes 333",
        *[f"frame {t} {bench.frame(f'0{i}', i)}" for i, t in enumerate(at)],
        "run 30000",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["00", "01", "02", "03"]
    for one, unsure in zip(heard, only(happened, "unsure"), strict=True):
        off = int(one.words[0]) - cycles(at[int(one.words[-1])])
        assert off >= -2
        assert unsure.rest == "255" or off <= 16


def test_sending_without_sfd(bench: Bench) -> None:
    """It is known when a frame goes out once the chip was told to send: the stamp is right, and no restart follows."""
    order: Literal["little", "big"] = "little" if bench.tinyos == 1 else "big"
    happened = bench.run(
        "set blind 1",
        bench.send("0001020304050607080900000000", stamp_at=10),
        "run 20000",
        bench.send("77"),
        "run 20000",
        f"frame 60000 {bench.frame('05')}",
        "run 30000",
        "counters",
    )
    assert [one.words[0] for one in only(happened, "sent")] == ["SENT", "SENT"]
    stamped, plain = only(happened, "air")
    assert plain.rest == bench.frame("77", 1)
    time = int(only(happened, "sent")[0].words[1])
    assert abs(time - cycles(stamped.time)) <= 1
    assert stamped.rest == bench.frame("00010203040506070809" + (time + 0x01020304).to_bytes(4, order).hex())
    assert counters(happened) == {"heard": 1, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 0}


def test_receiving_while_a_send_waits(bench: Bench) -> None:
    happened = bench.run(
        "busy 0 3800",
        f"frame 4000 {bench.frame('05')}",
        bench.send("01", deadline=3000),
        "run 40000",
        "counters",
    )
    assert only(happened, "send")[0].time < 4000 < only(happened, "air")[0].time
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert only(happened, "sent")[0].words[0] == "SENT"


def test_answer_before_the_end_of_a_send_is_seen(bench: Bench) -> None:
    """A frame that begins while the loop is busy elsewhere, right behind one of ours, has its time too."""
    before = bench.run(bench.send("01"), "run 40000")
    queued, begins = only(before, "send")[0].time, only(before, "air")[0].time
    answer = begins + 1000
    happened = bench.run(
        f"frame {answer} {bench.frame('05')}",
        bench.send("01"),
        f"run {begins - queued - 100}",
        "pass 3000",
        "run 10000",
        "counters",
    )
    heard = only(happened, "heard")
    assert [one.words[-1] for one in heard] == ["05"]
    assert abs(int(heard[0].words[0]) - cycles(answer)) <= 1
    assert only(happened, "sent")[0].words[0] == "SENT"


def test_timer_between_any_two_accesses(
    root: Path, require_tool: Callable[[str], str], build_bench: Callable[[int], Bench], tmp_path: Path
) -> None:
    """The interrupt that ends a send's wait comes at every possible moment of a service that something else caused."""
    compiler, layout = require_tool("gcc"), build_bench(1).program.parent
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=thread", "--param=tsan-distinguish-volatile=1"]
    flags += [
        f"-I{path}"
        for path in (root / "firmware", root / "firmware/chips/cc2420", root / "firmware/core", layout)
    ]
    source, built = root / "tests/firmware/c/cc2420_race.c", tmp_path / "race.o"
    subprocess.run([compiler, *flags, "-c", source, "-o", built], check=True)
    subprocess.run([compiler, built, "-o", tmp_path / "race"], check=True)
    done = subprocess.run([tmp_path / "race"], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 0, done.stdout + done.stderr


# --- a chip that fails ---


def test_chip_that_forgets_is_started_anew_within_a_second(bench: Bench) -> None:
    happened = bench.run(
        "brownout",
        "run 1200000",
        f"frame 1300000 {bench.frame('05')}",
        "run 200000",
        "counters",
        misused=True,
    )
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert counters(happened) == {"heard": 1, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 1}


def test_chip_that_forgets_before_a_send(bench: Bench) -> None:
    happened = bench.run(
        "brownout", bench.send("01"), "run 20000", bench.send("02"), "run 20000", "counters", misused=True
    )
    assert [one.words[0] for one in only(happened, "sent")] == ["FAILED", "SENT"]
    assert counters(happened)["restarts"] == 1


def test_chip_that_forgets_between_load_and_strobe(bench: Bench) -> None:
    happened = bench.run(bench.send("01", deadline=900), "brownout", "run 2000000", "counters", misused=True)
    assert only(happened, "sent")[0].words[0] in ("BUSY", "FAILED")
    assert counters(happened)["restarts"] == 1


def test_chip_that_never_shows_the_delimiter(bench: Bench) -> None:
    for stamp_at in (NO_STAMP, 0):
        happened = bench.run(
            "set no_sfd 1",
            bench.send("00000000", stamp_at=stamp_at),
            "run 30000",
            "set no_sfd 0",
            bench.send("02"),
            "run 30000",
            "counters",
        )
        assert [one.words[0] for one in only(happened, "sent")] == ["FAILED", "SENT"]
        assert counters(happened)["restarts"] == 1


def test_dead_chip_is_tried_again(bench: Bench) -> None:
    happened = bench.run(
        "set dumb 1",
        bench.send("01"),
        "run 20000",
        bench.send("02"),
        "run 20000",
        "run 2000000",
        "set dumb 0",
        "run 1200000",
        bench.send("03"),
        "run 20000",
        "counters",
    )
    assert [one.words[0] for one in only(happened, "sent")] == ["FAILED", "FAILED", "SENT"]
    assert counters(happened)["restarts"] >= 3


def test_stop_ends_a_send(bench: Bench) -> None:
    happened = bench.run(bench.send("01"), "stop", "run 20000", "start 3", bench.send("02"), "run 20000")
    assert only(happened, "stop")[0].rest == "power 0"
    assert [one.words[0] for one in only(happened, "sent")] == ["FAILED", "SENT"]


# --- sleeping and waking ---


def awake(happened: list[Happened]) -> list[str]:
    return [one.rest for one in only(happened, "wake")]


def test_asleep_the_chip_has_no_supply_and_the_processor_may_sleep(sleeper: Bench) -> None:
    happened = sleeper.run("sleep", "sound", "run 5000000", "sound", "counters")
    assert only(happened, "sleep")[0].rest == "power 0"
    assert [one.rest for one in only(happened, "sound")] == ["1", "1"]
    asleep = only(happened, "sleep")[0].time
    assert not [one for one in only(happened, "spi") if one.time > asleep], "the chip is left alone"
    assert only(happened, "pin")[-2].rest == "VREG_EN 0"
    assert counters(happened)["restarts"] == 0


def test_a_woken_chip_has_its_settings_and_hears(sleeper: Bench) -> None:
    happened = sleeper.run(
        "sleep", "run 100000", "wake", f"frame 120000 {sleeper.frame('c0ffee')}", "run 30000", "counters"
    )
    assert awake(happened) == ["1 power 1"]
    asleep = only(happened, "sleep")[0].time
    written = {
        int(words[0], 16): int(words[1] + words[2], 16)
        for one in only(happened, "spi")
        if one.time > asleep and len(words := one.out.split()) == 3
    }
    assert written.items() >= START_REGISTERS.items()
    assert only(happened, "heard")[0].words[-1] == "c0ffee"
    assert counters(happened)["restarts"] == 0


def test_it_wakes_many_times(sleeper: Bench) -> None:
    script = ["set quiet 1"]
    for _ in range(50):
        script += ["sleep", "run 20000", "wake", "sound", "run 2000"]
    happened = sleeper.run(*script, "counters")
    assert awake(happened) == ["1 power 1"] * 50
    assert {one.rest for one in only(happened, "sound")} == {"1"}
    assert counters(happened)["restarts"] == 0


def test_what_is_on_the_air_while_it_sleeps_is_not_heard(sleeper: Bench) -> None:
    happened = sleeper.run("sleep", f"frame 20000 {sleeper.frame('c0ffee')}", "run 30000", "wake", "run 9000")
    assert not only(happened, "heard")


def test_a_send_in_progress_fails_when_the_radio_goes_to_sleep(sleeper: Bench) -> None:
    happened = sleeper.run(sleeper.send("c0ffee"), "sleep", "run 1000", sleeper.send("c0ffee"))
    assert [one.words[0] for one in only(happened, "sent")] == ["FAILED"]
    assert [one.rest for one in only(happened, "send")] == ["1", "0"]
    assert not only(happened, "air")


def test_a_chip_that_does_not_wake_is_started_again(sleeper: Bench) -> None:
    happened = sleeper.run(
        "sleep", "run 1000", "set dumb 1", "wake", "run 50000", "sound", "set dumb 0", "run 1100000", "wake"
    )
    assert awake(happened) == ["0 power 1", "1 power 1"]
    assert only(happened, "sound")[0].rest == "1"


# --- at its time ---


def at_its_time(bench: Bench, ahead: int) -> str:
    return bench.send("c0ffee", ahead).replace("send", "send_at", 1)


@pytest.mark.parametrize("ahead", [30, 100, 1967, 1970, 3940, 16000])
def test_a_frame_begins_at_its_time(sleeper: Bench, ahead: int) -> None:
    happened = sleeper.run(at_its_time(sleeper, ahead), "run 600000")
    asked = only(happened, "send")[0].time
    began = only(happened, "air")[0].time - 352  # from the strobe to the delimiter
    late = (began - asked) * HZ / 1e6 - ahead
    assert -10 < late < 3, "the frame is loaded before the bench notes the call"
    assert only(happened, "sent")[0].words[0] == "SENT"


def test_times_beyond_half_a_second_are_refused(sleeper: Bench) -> None:
    happened = sleeper.run(at_its_time(sleeper, 16500), "run 1000")
    assert only(happened, "send")[0].rest == "0"


def test_it_looks_at_the_channel_once(sleeper: Bench) -> None:
    happened = sleeper.run("busy 3000 9000", at_its_time(sleeper, 160), "run 100000")
    sent = only(happened, "sent")[0]
    assert sent.words[0] == "BUSY"
    assert sent.time < 9000, "it does not wait for a clear channel"
    assert not only(happened, "air")
    assert only(sleeper.run("busy 3000 4000", at_its_time(sleeper, 160), "run 100000"), "air")


def test_a_frame_heard_since_the_hand_over_puts_it_off(sleeper: Bench) -> None:
    """Its sender may be about to go on, even if the channel is clear at the time."""
    frame = f"frame 3000 {sleeper.frame('01')}"
    happened = sleeper.run(frame, at_its_time(sleeper, 160), "run 100000")
    assert only(happened, "heard")[0].time < only(happened, "sent")[0].time
    assert only(happened, "sent")[0].words[0] == "BUSY"
    assert not only(happened, "air")
    assert only(sleeper.run(frame, "run 5000", at_its_time(sleeper, 160), "run 100000"), "air")


def test_a_loop_that_comes_too_late_sends_nothing(sleeper: Bench) -> None:
    happened = sleeper.run(at_its_time(sleeper, 100), "pass 10000", "run 10000")
    assert only(happened, "sent")[0].words[0] == "BUSY"
    assert not only(happened, "air")


def test_an_ordinary_send_follows_one_at_its_time(sleeper: Bench) -> None:
    happened = sleeper.run(
        "busy 3000 9000", at_its_time(sleeper, 160), "run 6000", sleeper.send("beef"), "run 100000"
    )
    assert [one.words[0] for one in only(happened, "sent")] == ["BUSY", "SENT"]


def test_busy_is_a_carrier_or_a_frame(sleeper: Bench) -> None:
    happened = sleeper.run(
        "run 1000",
        "is_busy",
        "busy 4000 9000",
        "run 3000",
        "is_busy",
        "run 9000",
        "is_busy",
        "sleep",
        "is_busy",
    )
    assert [one.rest for one in only(happened, "is_busy")] == ["0", "1", "0", "0"]
