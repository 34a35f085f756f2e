"""The CC2420 driver receives: frames of all kinds at all times, and the times that it gives them."""

import pytest

from tests.firmware.cc2420.bench import (
    GROUP,
    LIMIT,
    accesses,
    counters,
    cycles,
    only,
)
from tests.testbed.air import frame


@pytest.mark.parametrize("holds", [0, 1], ids=["fifop_falls", "fifop_holds"])
def test_good_frame(bench, holds):
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
def test_rssi(bench, rssi):
    happened = bench.run(f"frame 10000 {bench.frame('01')} {rssi} 1", "run 20000")
    assert int(only(happened, "heard")[0].words[1]) == max(rssi - 45, -127)


def test_longest_and_empty_frame(bench):
    longest = "ab" * LIMIT[bench.tinyos]
    happened = bench.run(
        f"frame 10000 {bench.frame(longest)}", f"frame 20000 {bench.frame('')}", "run 30000", "counters"
    )
    assert [" ".join(one.words[7:]) for one in only(happened, "heard")] == [longest, ""]


def test_bad_fcs(bench):
    frame = bytearray.fromhex(bench.frame("01020304"))
    frame[-3] ^= 1
    good = bench.frame("05")
    happened = bench.run(f"frame 10000 {frame.hex()}", f"frame 12000 {good}", "run 20000", "counters")
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert abs(int(only(happened, "heard")[0].words[0]) - cycles(12_000)) <= 1
    assert counters(happened) == {"heard": 1, "crc": 1, "overrun": 0, "garbage": 0, "restarts": 0}


def test_truncated_frame(bench):
    """The sender stops in mid-frame: the chip fills up with noise, and the CRC is wrong."""
    cut = bench.frame("01020304050607080910")[:30]
    happened = bench.run(f"frame 10000 {cut}", f"frame 14000 {bench.frame('05')}", "run 20000", "counters")
    assert [one.words[-1] for one in only(happened, "heard")] == ["05"]
    assert counters(happened) == {"heard": 1, "crc": 1, "overrun": 0, "garbage": 0, "restarts": 0}


@pytest.mark.parametrize("length", [0, 1, 2, 4, 0x80, 0xFF])
def test_length_that_cannot_be(bench, length):
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
def test_frames_of_others(bench, size):
    """Good frames of another kind are passed over without emptying the buffer: ours behind them are heard."""
    body = bytes(range(size - 2))
    other = frame(body).hex()
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
def test_frames_back_to_back(bench, holds, late):
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


@pytest.mark.few(8)
@pytest.mark.parametrize("holds", [0, 1], ids=["fifop_falls", "fifop_holds"])
@pytest.mark.parametrize("gap", range(600, 1300, 50))
def test_next_frame_while_one_is_read(bench, gap, holds):
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


def test_overflow(bench):
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


def test_more_delimiters_than_the_queue_holds(bench):
    """Twelve acknowledgements of others: the driver cannot assign times any more, so it drops frames."""
    ack = frame(bytes.fromhex("020007")).hex()
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
def test_delimiter_without_a_frame(bench, before):
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


def test_delimiter_that_was_missed(bench):
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
def test_board_that_does_not_see_sfd(bench, holds):
    """The driver computes a frame's begin from its end, to a fraction of a millisecond, and reports the error."""
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
def test_frames_back_to_back_without_sfd(bench, holds, gap):
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
def test_the_error_of_times_without_sfd_is_true(bench, gap):
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


# --- beside a send ---


def test_receiving_while_a_send_waits(bench):
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


def test_answer_before_the_end_of_a_send_is_seen(bench):
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
