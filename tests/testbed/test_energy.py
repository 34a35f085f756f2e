"""What a run cost: times by state, as the engine counts them, times currents."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from basestation.testbed import emulator
from basestation.testbed.energy import Battery, StatesLog
from basestation.testbed.judge import judge
from basestation.testbed.testbed_report import lines_of
from basestation.testbed.truth_log import DriverFault, ProgramUse, States
from packet_formats import power
from tests.testbed.worlds import MS, SECOND, World, deployment, network


def states(
    t: int, node: int, processor: dict[str, int], radio: dict[str, int], **others: dict[str, int]
) -> States:
    starts = others.get("starts", {"processor": 0, "radio": 0})
    return States(t, node, processor, radio, others.get("leds", {}), others.get("sensors", {}), starts)


def test_a_mean_current_is_what_one_works_out_by_hand():
    log = StatesLog(Battery(mah=1000))
    processor = {"off": SECOND, "active": SECOND, "power_save": 7 * SECOND, "starting": SECOND}
    radio = {"off": 8 * SECOND, "receiving": SECOND, "sending": SECOND}
    starts = {"processor": 450, "radio": 9}
    log.take(
        states(
            10 * SECOND, 0, processor, radio, leds={"red": 500 * MS}, sensors={"light": SECOND}, starts=starts
        )
    )
    energy = log.energy_of(network(motes=1))
    assert energy is not None
    (mote,) = energy.motes
    parts = {
        "processor_active": 8.0 / 9,
        "processor_power_save": 7 * 0.008 / 9,
        "processor_starting": 3.2 / 9,
        "radio_off": 8 * 0.001 / 9,
        "radio_receiving": 19.7 / 9,
        "radio_sending": 17.4 / 9,
        "leds": 0.5 * 2.2 / 9,
        "sensors": 0.3 / 9,
        "board": 0.021,
    }
    assert mote.parts == pytest.approx(parts)
    assert mote.seconds == pytest.approx(9)
    assert mote.duty == pytest.approx(2 / 9)
    assert mote.starts == pytest.approx({"processor": 50, "radio": 1})
    assert mote.ma == pytest.approx(sum(parts.values()))
    assert mote.days == pytest.approx(1000 / sum(parts.values()) / 24)
    assert (energy.ma, energy.days, energy.worst, energy.gateways) == (mote.ma, mote.days, 0, ())


def test_what_was_before_does_not_count():
    log = StatesLog(Battery(since=10))
    log.take(states(5 * SECOND, 0, {"active": 5 * SECOND}, {"receiving": 5 * SECOND}))
    log.take(states(10 * SECOND, 0, {"active": 10 * SECOND}, {"receiving": 10 * SECOND}))
    log.take(
        states(
            20 * SECOND,
            0,
            {"active": 10 * SECOND, "idle": 10 * SECOND},
            {"receiving": 10 * SECOND, "idle": 10 * SECOND},
        )
    )
    energy = log.energy_of(network(motes=1))
    assert energy is not None
    assert energy.parts == pytest.approx({"processor_idle": 3.2, "radio_idle": 0.426, "board": 0.021})
    assert energy.duty == 0


def test_without_power_there_is_no_energy():
    log = StatesLog(Battery())
    log.take(states(SECOND, 0, {"off": SECOND}, {"off": SECOND}))
    assert log.energy_of(network(motes=1)) is None


def test_the_report_lists_each_mote_and_the_gateways():
    world = World()
    for node, receiving in zip(world.network.nodes, (1, 10, 2, 10), strict=True):
        radio = {"receiving": receiving * SECOND, "idle": (10 - receiving) * SECOND}
        world.add(
            10 * SECOND,
            "states",
            node=node,
            processor={"idle": 10 * SECOND},
            radio=radio,
            leds={},
            sensors={},
            starts={"processor": 20, "radio": 0},
        )
    report = judge(world.events(), [world.network], Battery(mah=100))
    energy = report.networks[0].energy
    assert energy is not None
    assert [round(mote.duty, 3) for mote in energy.motes] == [0.1, 1.0, 0.2]
    assert energy.worst == 1
    assert energy.worst_days == pytest.approx(100 / (19.7 + 3.2 + 0.021) / 24)
    rows = dict(lines_of(report))
    assert "on 100 mAh" in rows["energy"]
    assert "mote 1 lasts 0.2 days" in rows["energy"]
    assert "radio receiving 86%, processor idle 14%; starts a second: processor 2" in rows["mote 1"]
    assert rows["on mains"].startswith("gateway 3: 22.921 mA")
    assert "from " not in rows["energy"]
    later = replace(energy, since=150.0)
    told = dict(lines_of(replace(report, networks=(replace(report.networks[0], energy=later),))))
    assert "the mean mote from 150 s on, when the network has found itself;" in told["energy"]


def test_a_high_band_draws_more():
    assert deployment(board="mica2").network.band == 433
    assert power.currents("mica2", 916).radio["receiving"].ma == 9.6
    assert power.currents("mica2").radio["receiving"].ma == 7.4
    assert power.currents("mica2", 916).board == power.currents("mica2").board


@pytest.mark.parametrize("board", ["micaz", "mica2"])
def test_a_board_asleep_draws_what_was_measured(board):
    """Whatever the parts are said to draw, a whole board in its deepest sleep draws this."""
    log = StatesLog(Battery(asleep_ma=0.11))
    radio = "off" if board == "micaz" else "down"
    log.take(states(SECOND, 0, {"power_save": SECOND}, {radio: SECOND}))
    energy = log.energy_of(network(deployment(board=board), motes=1))
    assert energy is not None
    assert energy.ma == pytest.approx(0.11)
    assert energy.days == pytest.approx(2500 / 0.11 / 24)


# --- a program of which all is known ---

HZ = 7372800
GREEN_MS = 5
WAKINGS = 16  # a second


@pytest.fixture(scope="module")
def blinker(root, require_tool, tmp_path_factory):
    built = tmp_path_factory.mktemp("states") / "states.elf"
    flags = ["-mmcu=atmega128", f"-DF_CPU={HZ}UL", "-Os", "-std=gnu11", f"-DGREEN_MS={GREEN_MS}"]
    source = root / "tests" / "testbed" / "c" / "avr_states.c"
    subprocess.run([require_tool("avr-gcc"), *flags, "-o", built, source], check=True)
    return built


def run(testbed: Path, image: Path, *lines: str) -> list[object]:
    """Two motes for 4.03 s, the second with errors of its crystals."""
    text = [
        "nodes 2",
        "measure 4.03",
        f"node 0 micaz 0 0 0 0 {image}",
        "sensors 0 mts300",
        f"node 1 mica2 0.5 50 -50 20 {image}",
        *lines,
        "end 4.03",
        "",
    ]
    return list(emulator.events_of("\n".join(text), testbed))


@pytest.mark.parametrize("start_cycles", [16384, 1024])
def test_a_known_program_has_the_times_that_it_must_have(testbed, blinker, start_cycles):
    events = run(testbed, blinker, f"oscillator {start_cycles}")
    found = next(event for event in events if isinstance(event, States) and event.node == 0)
    use = next(event for event in events if isinstance(event, ProgramUse) and event.node == 0)
    wakings = 4 * WAKINGS
    start = start_cycles * SECOND // HZ
    assert not [event for event in events if isinstance(event, DriverFault)]
    assert set(found.processor) == {"active", "power_save", "starting"}
    assert found.processor["starting"] == wakings * start_cycles * SECOND // HZ
    assert found.processor["active"] == use.awake * SECOND // HZ  # counted in another way
    assert found.processor["active"] == pytest.approx(wakings * GREEN_MS * MS, rel=0.05)
    assert found.leds["green"] == pytest.approx(wakings * GREEN_MS * MS, abs=wakings * 2000)
    # From the first waking to the second, and so on; the clock's cycles at each end are the same.
    lit = wakings // 2 * SECOND // WAKINGS
    assert found.leds["red"] == pytest.approx(lit, abs=wakings * 2000)
    assert found.sensors == {"light": pytest.approx(found.leds["red"], abs=wakings * 2000)}
    assert found.radio == {"off": found.t}  # nobody started it
    assert found.starts == {"processor": wakings, "radio": 0}
    assert start < SECOND // WAKINGS


def test_the_times_of_all_states_are_the_time_of_the_run(testbed, blinker):
    """Also of motes that were off, dipped, or were reset in their sleep; within the rounding of each state."""
    script = (
        "states 0.7",
        "at 1 off 0",
        "at 1.5 on 0",
        "at 2.01 brownout 1 0.3",
        "at 3 reset 1",
        "at 3.9 off 1",
    )
    events = run(testbed, blinker, *script)
    lines = [event for event in events if isinstance(event, States)]
    assert len(lines) == 2 * 6
    for line in lines:
        assert sum(line.processor.values()) == pytest.approx(line.t, abs=8)
        assert sum(line.radio.values()) == line.t
    last = {line.node: line for line in lines}
    assert last[0].processor["off"] == pytest.approx(0.5 * SECOND, abs=2000)
    assert last[1].processor["off"] == pytest.approx((0.5 + 0.3 + 0.13) * SECOND, abs=2000)
    assert sum(last[0].leds.values()) < last[0].t - last[0].processor["off"]
    assert last[0].sensors["light"] == pytest.approx(last[0].leds["red"], abs=40_000)
