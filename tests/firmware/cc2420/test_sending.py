"""The CC2420 driver sends: channel access, every byte and time, and the stamp that is written on the way."""

import subprocess
from typing import Literal

import pytest

from tests.firmware.cc2420.bench import (
    HZ,
    LIMIT,
    accesses,
    counters,
    cycles,
    only,
)


def test_send_on_a_clear_channel(bench):
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


def test_data_sequence_number_counts(bench):
    happened = bench.run(*[line for _ in range(3) for line in (bench.send("01"), "run 20000")])
    assert [one.rest for one in only(happened, "air")] == [bench.frame("01", dsn) for dsn in range(3)]


def test_waits_differ_with_the_seed(bench):
    waits = set()
    for seed in (40503, 15470, 55973, 30940, 0, 65535):  # as nodes with ids from 0 on have them; the odd ones
        happened = bench.run(f"start {seed}", bench.send("01"), "run 20000", start=False)
        waits.add(only(happened, "air")[0].time)
    assert len(waits) >= 5


def test_busy_then_clear(bench):
    happened = bench.run("busy 0 30000", bench.send("01"), "run 60000")
    air = only(happened, "air")[0]
    assert 30_000 + 352 <= air.time < 30_000 + 352 + 2600  # the next try is at most 80 cycles away
    assert only(happened, "sent")[0].words[0] == "SENT"


def test_never_clear_ends_at_the_deadline(bench):
    happened = bench.run("busy 0 900000", bench.send("01", deadline=1000), "run 60000", bench.send("02"))
    begin, sent = only(happened, "send")[0], only(happened, "sent")[0]
    assert sent.words[0] == "BUSY"
    assert 990 <= cycles(sent.time - begin.time) <= 1005
    assert not only(happened, "air")
    assert "05" not in accesses(happened)  # the pin tells
    assert only(happened, "send")[1].rest == "1"


@pytest.mark.parametrize("deadline", [-5, 0, *range(6, 16), 20])
def test_short_deadlines(bench, deadline):
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


def test_channel_taken_between_pin_and_strobe(bench):
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


def test_refused(bench):
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


def test_stamp_is_the_delimiters_time(bench):
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


def test_stamp_right_behind_the_header(bench):
    happened = bench.run(bench.send("00000000", stamp_at=0), "run 20000")
    time = int(only(happened, "sent")[0].words[1])
    stamp = (time + 0x01020304).to_bytes(4, "little" if bench.tinyos == 1 else "big")
    assert only(happened, "air")[0].rest == bench.frame(stamp.hex())


def test_stamp_that_comes_too_late_spoils_the_frame(bench):
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


def test_sending_without_sfd(bench):
    """The strobe decides when a frame goes out: the stamp is right, and no restart follows."""
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


def test_timer_between_any_two_accesses(root, build_bench, tmp_path):
    """The interrupt that ends a send's wait comes at every possible moment of a service that something else caused."""
    layout = build_bench(1).program.parent
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=thread", "--param=tsan-distinguish-volatile=1"]
    flags += [
        f"-I{path}"
        for path in (root / "firmware", root / "firmware/chips/cc2420", root / "firmware/core", layout)
    ]
    source, built = root / "tests/firmware/c/cc2420_race.c", tmp_path / "race.o"
    subprocess.run(["gcc", *flags, "-c", source, "-o", built], check=True)
    subprocess.run(["gcc", built, "-o", tmp_path / "race"], check=True)
    done = subprocess.run([tmp_path / "race"], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 0, done.stdout + done.stderr
