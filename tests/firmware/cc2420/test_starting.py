"""The CC2420 driver starts its chip, stops it, and starts one anew that fails."""

from tests.firmware.cc2420.bench import NO_STAMP, START_REGISTERS, accesses, counters, only


def test_start_pins_strobes_registers_in_order(bench):
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


def test_start_without_a_chip_fails_in_bounded_time(bench):
    happened = bench.run("set dumb 1", "start 1", "send ffff 3 70 7d 100 255 00", "run 5000", start=False)
    start = only(happened, "start")[0]
    assert start.rest == "0 power 0"
    assert start.time < 15_000
    assert only(happened, "pin")[-2].rest == "VREG_EN 0"
    assert only(happened, "send")[0].rest == "0"


# --- a chip that fails ---


def test_chip_that_forgets_is_started_anew_within_a_second(bench):
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


def test_chip_that_forgets_before_a_send(bench):
    happened = bench.run(
        "brownout", bench.send("01"), "run 20000", bench.send("02"), "run 20000", "counters", misused=True
    )
    assert [one.words[0] for one in only(happened, "sent")] == ["FAILED", "SENT"]
    assert counters(happened)["restarts"] == 1


def test_chip_that_forgets_between_load_and_strobe(bench):
    happened = bench.run(bench.send("01", deadline=900), "brownout", "run 2000000", "counters", misused=True)
    assert only(happened, "sent")[0].words[0] in ("BUSY", "FAILED")
    assert counters(happened)["restarts"] == 1


def test_chip_that_never_shows_the_delimiter(bench):
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


def test_dead_chip_is_tried_again(bench):
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


def test_stop_ends_a_send(bench):
    happened = bench.run(bench.send("01"), "stop", "run 20000", "start 3", bench.send("02"), "run 20000")
    assert only(happened, "stop")[0].rest == "power 0"
    assert [one.words[0] for one in only(happened, "sent")] == ["FAILED", "SENT"]
