"""What a run cost: times by state, as the engine counts them, times currents."""

import pytest

from basestation.testbed.energy import Battery, StatesLog
from basestation.testbed.judge import judge
from basestation.testbed.testbed_report import lines_of
from basestation.testbed.truth_log import States
from packet_formats import power
from tests.testbed.worlds import MS, SECOND, World, deployment, network


def states(
    t: int, node: int, processor: dict[str, int], radio: dict[str, int], **others: dict[str, int]
) -> States:
    return States(t, node, processor, radio, others.get("leds", {}), others.get("sensors", {}))


def test_a_mean_current_is_what_one_works_out_by_hand() -> None:
    log = StatesLog(Battery(mah=1000))
    processor = {"off": SECOND, "active": SECOND, "power_save": 7 * SECOND, "starting": SECOND}
    radio = {"off": 8 * SECOND, "receiving": SECOND, "sending": SECOND}
    log.take(states(10 * SECOND, 0, processor, radio, leds={"red": 500 * MS}, sensors={"light": SECOND}))
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
    assert mote.ma == pytest.approx(sum(parts.values()))
    assert mote.days == pytest.approx(1000 / sum(parts.values()) / 24)
    assert (energy.ma, energy.days, energy.worst, energy.gateways) == (mote.ma, mote.days, 0, ())


def test_what_was_before_does_not_count() -> None:
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


def test_nobody_with_power_is_no_energy() -> None:
    log = StatesLog(Battery())
    log.take(states(SECOND, 0, {"off": SECOND}, {"off": SECOND}))
    assert log.energy_of(network(motes=1)) is None


def test_the_report_tells_each_mote_and_gateways_apart() -> None:
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
    assert "radio receiving 86%, processor idle 14%" in rows["mote 1"]
    assert rows["on mains"].startswith("gateway 3: 22.921 mA")


def test_a_high_band_draws_more() -> None:
    assert deployment(board="mica2").network.band == 433
    assert power.currents("mica2", 916).radio["receiving"].ma == 9.6
    assert power.currents("mica2").radio["receiving"].ma == 7.4
    assert power.currents("mica2", 916).board == power.currents("mica2").board
