"""The CC2420 driver of a deployment with a schedule: it sleeps, wakes, and sends at its time."""

import pytest

from tests.firmware.cc2420.bench import HZ, START_REGISTERS, Bench, Happened, counters, only


@pytest.fixture(scope="session")
def sleeper(build_bench):
    return build_bench(1, scheduled=True)


def awake(happened: list[Happened]) -> list[str]:
    return [one.rest for one in only(happened, "wake")]


def test_asleep_the_chip_has_no_supply_and_the_processor_may_sleep(sleeper):
    happened = sleeper.run("sleep", "sound", "run 5000000", "sound", "counters")
    assert only(happened, "sleep")[0].rest == "power 0"
    assert [one.rest for one in only(happened, "sound")] == ["1", "1"]
    asleep = only(happened, "sleep")[0].time
    assert not [one for one in only(happened, "spi") if one.time > asleep], "the chip is left alone"
    assert only(happened, "pin")[-2].rest == "VREG_EN 0"
    assert counters(happened)["restarts"] == 0


def test_a_woken_chip_has_its_settings_and_hears(sleeper):
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


def test_it_wakes_many_times(sleeper):
    script = ["set quiet 1"]
    for _ in range(50):
        script += ["sleep", "run 20000", "wake", "sound", "run 2000"]
    happened = sleeper.run(*script, "counters")
    assert awake(happened) == ["1 power 1"] * 50
    assert {one.rest for one in only(happened, "sound")} == {"1"}
    assert counters(happened)["restarts"] == 0


def test_what_is_on_the_air_while_it_sleeps_is_not_heard(sleeper):
    happened = sleeper.run("sleep", f"frame 20000 {sleeper.frame('c0ffee')}", "run 30000", "wake", "run 9000")
    assert not only(happened, "heard")


def test_a_send_in_progress_fails_when_the_radio_goes_to_sleep(sleeper):
    happened = sleeper.run(sleeper.send("c0ffee"), "sleep", "run 1000", sleeper.send("c0ffee"))
    assert [one.words[0] for one in only(happened, "sent")] == ["FAILED"]
    assert [one.rest for one in only(happened, "send")] == ["1", "0"]
    assert not only(happened, "air")


def test_a_chip_that_does_not_wake_is_started_again(sleeper):
    happened = sleeper.run(
        "sleep", "run 1000", "set dumb 1", "wake", "run 50000", "sound", "set dumb 0", "run 1100000", "wake"
    )
    assert awake(happened) == ["0 power 1", "1 power 1"]
    assert only(happened, "sound")[0].rest == "1"


# --- at its time ---


def at_its_time(bench: Bench, ahead: int) -> str:
    return bench.send("c0ffee", ahead).replace("send", "send_at", 1)


@pytest.mark.parametrize("ahead", [30, 100, 1967, 1970, 3940, 16000])
def test_a_frame_begins_at_its_time(sleeper, ahead):
    happened = sleeper.run(at_its_time(sleeper, ahead), "run 600000")
    asked = only(happened, "send")[0].time
    began = only(happened, "air")[0].time - 352  # from the strobe to the delimiter
    late = (began - asked) * HZ / 1e6 - ahead
    assert -10 < late < 3, "the frame is loaded before the bench notes the call"
    assert only(happened, "sent")[0].words[0] == "SENT"


def test_times_beyond_half_a_second_are_refused(sleeper):
    happened = sleeper.run(at_its_time(sleeper, 16500), "run 1000")
    assert only(happened, "send")[0].rest == "0"


def test_it_looks_at_the_channel_once(sleeper):
    happened = sleeper.run("busy 3000 9000", at_its_time(sleeper, 160), "run 100000")
    sent = only(happened, "sent")[0]
    assert sent.words[0] == "BUSY"
    assert sent.time < 9000, "it does not wait for a clear channel"
    assert not only(happened, "air")
    assert only(sleeper.run("busy 3000 4000", at_its_time(sleeper, 160), "run 100000"), "air")


def test_a_frame_heard_since_the_hand_over_puts_it_off(sleeper):
    """Its sender may be about to go on, even if the channel is clear at the time."""
    frame = f"frame 3000 {sleeper.frame('01')}"
    happened = sleeper.run(frame, at_its_time(sleeper, 160), "run 100000")
    assert only(happened, "heard")[0].time < only(happened, "sent")[0].time
    assert only(happened, "sent")[0].words[0] == "BUSY"
    assert not only(happened, "air")
    assert only(sleeper.run(frame, "run 5000", at_its_time(sleeper, 160), "run 100000"), "air")


def test_a_loop_that_comes_too_late_sends_nothing(sleeper):
    happened = sleeper.run(at_its_time(sleeper, 100), "pass 10000", "run 10000")
    assert only(happened, "sent")[0].words[0] == "BUSY"
    assert not only(happened, "air")


def test_an_ordinary_send_follows_one_at_its_time(sleeper):
    happened = sleeper.run(
        "busy 3000 9000", at_its_time(sleeper, 160), "run 6000", sleeper.send("beef"), "run 100000"
    )
    assert [one.words[0] for one in only(happened, "sent")] == ["BUSY", "SENT"]


def test_busy_is_a_carrier_or_a_frame(sleeper):
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
