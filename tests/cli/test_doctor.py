"""`basestation doctor`: what each check says of a machine, a deployment and a line, and how the command puts it."""

import json
import os
import re
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner

from basestation.cli import PROVIDED_BY
from basestation.cli.doctor import command
from basestation.doctor import check_deployment, check_machine
from basestation.doctor.check_line import Examination
from basestation.journal.writer import JournalWriter
from basestation.live.station import Station
from basestation.sources import attached_ports
from packet_formats.deployment import CRYSTAL_HZ, RadioSettings, from_dict, load
from packet_formats.framing import FrameCounters
from packet_formats.records import Status
from packet_formats.tinyos import encode_packet
from tests.cli.gateways import Socket, gateway, message, network
from tests.live.test_runner import recorded
from tests.live.world import MS, TICK, WALL, Gateway, Motes, arrival, deployment, health, play

SETUP = deployment()
START = 1_000_000
SECOND = CRYSTAL_HZ


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("CAUSEWAY_", "BASESTATION_", "MOTECOM")):
            monkeypatch.delenv(name)
    return tmp_path


def test_the_simulator_hears_nothing_and_is_not_asked_again(root):
    path = str(root / "examples" / "micaz.toml")
    done = doctor("simulate@?messages=4000&rate=0.01", "-d", path, "--for", "3", "--ask", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["text"] for one in found if one["check"] == "downwards"] == [
        "simulate@?messages=4000&rate=0.01: the simulator hears nothing that is sent; the motes of testbed@ do"
    ]
    assert [one["cure"] for one in found if one["check"] == "health"] == [
        "motes report once a minute: --for 70"
    ]
    assert not any("--ask" in (one["cure"] or "") for one in found)


# The machine


def tools(monkeypatch, **said):
    """Only these tools are there, and say this."""

    def run(*words, stdin=""):
        name = words[0].replace("-", "_")
        return said.get(f"{name}_{words[1].strip('-')}", said.get(name, (127, "")))

    monkeypatch.setattr(check_machine, "run", run)
    monkeypatch.setattr(
        check_machine.shutil, "which", lambda name: name if name.replace("-", "_") in said else None
    )


def test_python_and_its_packages():
    assert check_machine.python().verdict == "good"
    found = {finding.check: finding for finding in check_machine.packages(PROVIDED_BY)}
    assert found["packages"].verdict == "good"
    assert "pyserial 3" in found["packages"].text


def test_a_missing_package_is_a_failure_in_the_core_and_a_warning_in_an_extra():
    core, extra = check_machine.packages({"no_such_module": "", "nor_this": "spark", "json": "spark"})
    assert (core.verdict, core.cure) == ("failure", "make setup, or pip install '.', in Causeway's folder")
    assert (extra.verdict, extra.cure) == (
        "warning",
        "make setup, or pip install '.[spark]', in Causeway's folder",
    )
    assert extra.text == "missing: nor_this"


def test_missing_tools_are_warnings_with_the_cure(monkeypatch):
    tools(monkeypatch)
    monkeypatch.setattr(check_machine.importlib.util, "find_spec", lambda name: None)
    for check in (
        check_machine.toolchain,
        check_machine.platformio,
        check_machine.avrdude,
        check_machine.testbed,
        check_machine.java,
    ):
        finding = check()
        assert finding.verdict == "warning"
        assert "install" in finding.cure


def test_tools_that_are_there_say_their_version(monkeypatch):
    tools(
        monkeypatch,
        avr_gcc=(0, "avr-gcc (GCC) 5.4.0\nCopyright"),
        avrdude=(1, "Usage: avrdude\navrdude version 7.1, URL"),
        pkg_config=(0, "1.6\n"),
        gcc=(0, ""),
        make=(0, ""),
        java=(0, 'openjdk version "21.0.2" 2024'),
    )
    assert check_machine.toolchain().text == "avr-gcc 5.4.0"
    assert check_machine.avrdude().text == "avrdude 7.1"
    assert check_machine.testbed().text == "simavr 1.6, gcc, make"
    assert check_machine.java().text == "Java 21"
    assert {
        check_machine.toolchain().verdict,
        check_machine.testbed().verdict,
        check_machine.java().verdict,
    } == {"good"}


@pytest.mark.parametrize(
    ("said", "verdict"), [('version "1.8.0_392"', "warning"), ('version "17.0.9"', "good"), ("?", "warning")]
)
def test_java_must_be_new_enough_for_spark(monkeypatch, said, verdict):
    tools(monkeypatch, java=(0, said))
    assert check_machine.java().verdict == verdict


LINE = attached_ports.SerialPort("/dev/ttyUSB7", "MIB520", "0403:6010", "XBOW1", "1.1")
MODEM = attached_ports.SerialPort("/dev/ttyACM0", "a modem", "1234:5678")


@pytest.mark.parametrize(
    ("port", "kind", "verdict"),
    [
        (LINE, None, "good"),
        (LINE, "permission", "failure"),
        (LINE, "busy", "warning"),
        (MODEM, "permission", "warning"),
    ],
)
def test_ports(monkeypatch, port, kind, verdict):
    monkeypatch.setattr(attached_ports, "attached", lambda: [port])
    trouble = attached_ports.Trouble(kind, "the cure") if kind else None
    monkeypatch.setattr(attached_ports, "trouble_with", lambda _: trouble)
    (finding,) = check_machine.serial_ports()
    assert (finding.check, finding.verdict) == (port.device, verdict)
    assert finding.cure == ("the cure" if kind else "")


def test_no_port_and_what_would_be_listened_to(monkeypatch):
    monkeypatch.setattr(attached_ports, "attached", list)
    (finding,) = check_machine.serial_ports()
    assert finding.verdict == "warning"
    assert check_machine.source((), {}).verdict == "warning"
    assert "the deployment says sf@x" in check_machine.source(("sf@x",), {}).text
    assert check_machine.source((), {}, ("sf@z",)).text == "given: sf@z"
    assert "MOTECOM says sf@y" in check_machine.source(("sf@x",), {"MOTECOM": "sf@y"}).text


def test_udev_rules(tmp_path, root):
    folders = [str(tmp_path / "etc"), str(tmp_path / "lib")]
    assert check_machine.udev_rules(folders).verdict == "warning"
    (tmp_path / "lib").mkdir()
    installed = tmp_path / "lib" / check_machine.RULES
    installed.write_bytes((root / "tools" / "udev" / check_machine.RULES).read_bytes())
    assert check_machine.udev_rules(folders).verdict == "good"
    installed.write_text("# older\n")
    assert "belongs to another version" in check_machine.udev_rules(folders).text


@pytest.mark.parametrize(("free", "verdict"), [(1e8, "failure"), (1e9, "warning"), (1e10, "good")])
def test_disk(monkeypatch, tmp_path, free, verdict):
    asked = []
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(check_machine.shutil, "disk_usage", lambda path: asked.append(path) or usage)
    assert check_machine.disk(tmp_path / "not" / "there yet").verdict == verdict
    assert asked == [tmp_path]


@pytest.mark.parametrize(
    ("term", "encoding", "size", "verdict"),
    [
        ("xterm", "utf-8", (100, 40), "good"),
        ("dumb", "utf-8", (100, 40), "warning"),
        ("xterm", "UTF-8", (60, 40), "warning"),
    ],
)
def test_terminal(monkeypatch, term, encoding, size, verdict):
    class Screen:
        def isatty(self):
            return True

    Screen.encoding = encoding
    monkeypatch.setattr(check_machine.sys, "stdout", Screen())
    monkeypatch.setattr(check_machine.shutil, "get_terminal_size", lambda: os.terminal_size(size))
    assert check_machine.terminal({"TERM": term}).verdict == verdict


def test_clock(monkeypatch):
    tools(monkeypatch)
    assert check_machine.clock(0).verdict == "failure"
    assert check_machine.clock().verdict == "good"
    tools(monkeypatch, timedatectl=(0, "no\n"))
    assert check_machine.clock().verdict == "warning"
    tools(monkeypatch, timedatectl=(0, "yes\n"))
    assert check_machine.clock().text.endswith(", synchronized")


# The deployment


@pytest.mark.parametrize("name", ["micaz", "paper", "mica2_months"])
def test_the_examples_are_well_but_anybody_can_send_in_their_name(root, name):
    _, open_to_all, *others = check_deployment.examine(load(root / "examples" / f"{name}.toml"))
    assert {finding.verdict for finding in others} == {"good"}
    assert (open_to_all.check, open_to_all.verdict) == ("protection", "warning")
    assert "any radio can send in this network's name" in open_to_all.text
    assert "give the network a key" in open_to_all.cure


def test_it_says_where_a_full_counter_has_little_room_to_carry(root):
    """At epsilon 2 and delta 27, B = 32 leaves none; with delta 25 all."""
    tight = from_dict(
        {
            "network": {"name": "tight", "board": "micaz", "motes": 3},
            "clock": {"tick_log2": 8, "epsilon": 2, "delta": 27},
            "stamp": {"scheme": "shlc"},
        }
    )
    (finding,) = [one for one in check_deployment.examine(tight) if one.check == "stamp"]
    assert finding.verdict == "warning"
    assert "B = 32 leaves a full counter 0 of epsilon = 2 ticks to carry" in finding.text
    assert (
        "clock_bits = 6 in [clock] would leave all of them: 9 bits in 2 bytes; now 8 bits in 1 byte"
        in finding.cure
    )
    roomy = replace(tight, clock=replace(tight.clock, delta=25))
    assert "stamp" not in {one.check for one in check_deployment.examine(roomy)}
    apart = check_deployment.examine(load(root / "examples" / "mica2.toml"))
    (finding,) = [one for one in apart if one.check == "stamp"]
    assert (finding.verdict, "r and c apart leave a full counter 0 of" in finding.text) == ("good", True)


def test_the_budget_says_where_its_assumptions_are_not_those_of_plan(root):
    *_, finding = check_deployment.examine(load(root / "examples" / "micaz.toml"))
    assert "the firmware's beacons every 10 s and this stamp of 2 bytes" in finding.text
    assert "plan by itself allows for 30 s and 8 bytes" in finding.text


def test_the_radio_of_a_generic_board_is_not_judged(root):
    meadow = load(root / "examples" / "micaz.toml")
    generic = replace(meadow, network=replace(meadow.network, board="generic"))
    assert [finding.verdict for finding in check_deployment.examine(generic)] == [
        "good",
        "warning",
        "warning",
    ]


def test_a_network_that_talks_too_much_and_one_that_waits_too_little(root):
    meadow = load(root / "examples" / "micaz.toml")
    found = list(check_deployment.examine(meadow, rate=30))
    assert "failure" in {finding.verdict for finding in found}
    hasty = replace(meadow, clock=replace(meadow.clock, delta=8))
    _, finding = [finding for finding in check_deployment.examine(hasty) if finding.verdict != "good"]
    assert finding.verdict == "warning"
    assert "less than the budget's" in finding.text


# The line


def scheduled(period_ms=16000, window_ms=1152, **clock):
    tables = {
        "network": {"name": "months", "board": "micaz", "motes": 10, "hops": 3},
        "clock": {"tick_log2": 8, "epsilon": 2, "delta": 148} | clock,
        "stamp": {"scheme": "shlc"},
        "radio": {"period_ms": period_ms, "window_ms": window_ms},
    }
    return from_dict(tables)


def test_a_list_that_fits_no_beacon_is_told_unless_it_is_not_wanted():
    setup = scheduled(window_ms=3000, delta=400)
    many = replace(setup, network=replace(setup.network, motes=31))
    unwanted = replace(many, radio=replace(many.radio, repair=False))
    told = [[one.text for one in check_deployment.examine(each, 0.05)] for each in (setup, many, unwanted)]
    said = [
        "not sent again: at a period of 16 s a beacon has room for a list of 30 motes" in str(one)
        for one in told
    ]
    assert said == [False, True, False]


def test_urgent_windows_cost_days():
    setup = scheduled()
    *_, plain = check_deployment.examine(setup)
    *_, finding = check_deployment.examine(replace(setup, radio=replace(setup.radio, urgent_ms=2000)))
    assert "urgent messages are looked for every 2 s, and take 2.3 s at most" in finding.text
    days = [int(re.findall(r"last about (\d+) days", each.text)[0]) for each in (plain, finding)]
    assert days[1] < days[0] - 10


def test_a_schedule_is_well_and_says_how_long_cells_last():
    *_, finding = check_deployment.examine(scheduled())
    assert (finding.verdict, finding.check) == ("good", "schedule")
    for words in ("every 16 s", "covers it", "8 bits of clock", "days", "by a model"):
        assert words in finding.text


@pytest.mark.parametrize(
    ("deployment", "rate", "verdict", "words"),
    [
        (scheduled(window_ms=400), None, "warning", "the window of 400 ms is short"),
        (scheduled(delta=400), None, "warning", "more than twice the window"),
        (scheduled(tick_log2=12, delta=10), None, "warning", "longer than a phase"),
        (scheduled(), 20, "failure", "brings more than a window holds"),
        (scheduled(period_ms=64000, epsilon=1), 0.01, "warning", "epsilon = 1 tick"),
        (scheduled(), 0.21, "warning", "a mote makes 3.36 messages in a period and sends at most 4"),
    ],
)
def test_what_is_wrong_with_a_schedule(deployment, rate, verdict, words):
    found = [one for one in check_deployment.examine(deployment, rate) if one.verdict != "good"]
    assert any(one.verdict == verdict and words in one.text and "plan --days" in one.cure for one in found)


def examined(lines, seconds=15.0, setup=SETUP, counters=None, prepare=None):
    """Verdicts, texts and cures of everything that was found, by check."""
    examination, station = Examination(setup, 1), Station(setup, "none", 100)
    station.add_gateway(0, "sf@x")
    if prepare is not None:
        prepare(examination)
    for happening in play(station, lines):
        examination.take(happening)
    counted = counters or FrameCounters(fed=1000, frames=len(lines))
    found = examination.findings(station.snapshot(15 * 10**9), [counted], seconds)
    return {finding.check: finding for finding in found}


def talk(setup=SETUP, motes=4, count=40, apart=SECOND // 4, line_ns=lambda number: 4 * MS, **more):
    """Messages of some motes in turn, as a gateway hands them up."""
    end, world = Gateway(setup), Motes(setup, START)
    for number in range(count):
        at = START + number * apart
        end.hear(world.send(number % motes, at, **more), at + 2 * TICK, line_ns(number))
    return end.out


def verdicts(found):
    return {check: finding.verdict for check, finding in found.items()}


def test_a_network_that_is_well():
    lines = talk()
    lines += [arrival(health(mote, START, SETUP), lines[-1].mono_ns + mote + 1) for mote in range(4)]
    lines.append(arrival(Status(4, START, 0, 1, *[7, 7, 0, 0, 0, 0, 0, 0, 0, 0]), lines[-1].mono_ns + 9))
    found = examined(lines)
    assert set(verdicts(found).values()) == {"good"}, found
    assert found["motes"].text == "4 of 4 heard"
    assert found["gateway"].text.startswith("gateway 4, ")
    assert "4 reports" in found["health"].text
    assert "7 frames heard" in found["status"].text


def test_silence_and_noise():
    nothing = examined([], counters=FrameCounters())
    assert verdicts(nothing) == {"gateway": "failure"}
    assert "no byte in 15 s" in nothing["gateway"].text
    noise = examined([], counters=FrameCounters(fed=900))
    assert "900 bytes but no frame" in noise["gateway"].text
    assert "speed" in noise["gateway"].cure


def test_broken_frames():
    counters = FrameCounters(fed=9999, frames=80)
    counters.crc.count = 5
    assert examined(talk(), counters=counters)["check sums"].verdict == "warning"
    counters.crc.count, counters.frames = 5, 5000
    assert examined(talk(), counters=counters)["check sums"].verdict == "good"


def test_a_gateway_of_another_make():
    alone = [line for place, line in enumerate(talk()) if place % 2]
    found = examined(alone)
    assert found["gateway"].verdict == "warning"
    assert found["guessed time"].verdict == "warning"
    assert "no order is promised" in found["guessed time"].text
    assert "plan --foreign-gateway allows for 180 ms" in found["guessed time"].cure


def test_a_gateway_of_another_make_where_the_clock_has_room():
    roomy = replace(SETUP, clock=replace(SETUP.clock, delta=32, clock_bits=8))
    alone = [line for place, line in enumerate(talk(roomy)) if place % 2]
    found = examined(alone, setup=roomy)["guessed time"]
    assert found.verdict == "good"
    assert "order is kept if no beacon is more than" in found.text


def test_a_gateway_that_has_a_motes_id_or_no_time():
    six = replace(SETUP, network=replace(SETUP.network, motes=6))
    assert examined(talk(), setup=six)["gateway"].verdict == "failure"
    end, motes = Gateway(SETUP, flags=0), Motes(SETUP, START)
    end.hear(motes.send(0, START), START)
    assert "out of sync" in examined(end.out)["gateway"].text


def test_the_delay_of_the_line_against_what_is_allowed_and_delta():
    found = examined(talk(line_ns=lambda number: (4 + number % 3 * 10) * MS))["line delay"]
    assert found.verdict == "good"
    assert "at most 20 ms later" in found.text
    assert "172 ms are allowed, delta is 47 ms" in found.text
    slow = examined(talk(line_ns=lambda number: (4 + 300 * (number == 7)) * MS))["line delay"]
    assert slow.verdict == "warning"
    assert "--allowance 4" in slow.cure


def test_a_network_whose_time_runs_at_another_pace():
    lines = talk(line_ns=lambda number: (4 + 50 * number) * MS)
    found = examined(lines)["line delay"]
    assert (found.verdict, found.text) == ("warning", "the network's time runs 0.833 times as fast")


@pytest.mark.parametrize(
    ("frame", "check", "said"),
    [
        (message(2, 0x7D, 0x42, b"xx"), "TinyOS", "TinyOS 2, the deployment says 1"),
        (message(1, 0x11, 0x42, b"xx"), "group", "group 0x11, the deployment says 0x7d"),
        (message(1, 0x7D, 0xEE, b"xx"), "layout", "AM type 0xee"),
    ],
)
def test_strangers(frame, check, said):
    strange = arrival(encode_packet(frame), 10 * MS)
    alone = examined([strange])
    assert alone[check].verdict == "failure"
    assert said in alone[check].text
    assert alone["motes"].verdict == "failure"
    among = examined([*talk(), strange])
    assert among[check].verdict == ("failure" if check == "layout" else "warning")


def test_motes_that_are_missing_unknown_or_of_another_build():
    three = talk(motes=3)
    found = examined(three)
    assert (found["motes"].verdict, found["motes"].text) == ("warning", "3 of 4 heard, not 3")
    assert found["health"].verdict == "warning"
    assert "--ask" in found["health"].cure
    lines = [*three, arrival(health(1, START, SETUP, layout=7), three[-1].mono_ns + 1)]
    built = examined(lines)["layout"]
    assert (built.verdict, built.text) == ("failure", "built for another deployment: 1")
    world = Motes(SETUP, START)
    stray = arrival(replace(world.send(0, START), source=9), three[-1].mono_ns + 2)
    assert examined([*three, stray])["unknown motes"].text == "9"


def test_motes_with_a_schedule_are_given_time(root):
    setup = replace(SETUP, radio=RadioSettings(16000, 1152))
    cure = examined(talk(setup), setup=setup)["health"].cure
    assert cure == "motes report every 10 minutes: --for 700, or --ask"
    assert (setup.answer_seconds, SETUP.answer_seconds) == (32, 0)
    months = load(root / "examples" / "mica2_months.toml")
    assert months.answer_seconds == 3 * 16, "its beacon, and a command behind it, comes every second window"


def test_motes_that_are_weak_lost_full_or_out_of_sync():
    lines = talk()
    tired = replace(health(2, START, SETUP), battery=120)
    assert examined([*lines, arrival(tired, lines[-1].mono_ns + 1)])["batteries"].text == "under 2.7 V: 2"
    rival = replace(health(2, START, SETUP), flags=3)
    assert examined([*lines, arrival(rival, lines[-1].mono_ns + 1)])["root"].verdict == "failure"
    assert "out of sync: 0, 1, 2, 3" in examined(talk(in_sync=False))["sync"].text
    assert examined(talk(saturated=True))["stamps"].verdict == "warning"
    gaps = [line for place, line in enumerate(lines) if place % 12 > 2]
    assert examined(gaps)["loss"].verdict == "warning"


def test_complaints_of_a_gateway_and_one_without_status():
    lines = talk()
    status = Status(4, START, 0, 1, 9, 8, 0, 0, 0, 3, 0, 0, 0, 0)
    found = examined([*lines, arrival(status, lines[-1].mono_ns + 1)])["status"]
    assert (found.verdict, found.text) == ("warning", "3 frames did not fit into its queue since it started")
    assert examined(lines)["status"].verdict == "warning"
    assert "status" not in examined(lines, seconds=5)


def test_a_wall_clock_that_is_set_meanwhile():
    lines = talk()
    later = [line._replace(wall_ns=line.wall_ns + 3 * 10**9) for line in lines[40:]]
    assert "set by 3000 ms" in examined(lines[:40] + later)["clock steps"].text
    assert "clock steps" not in examined(lines)
    assert lines[0].wall_ns > WALL


# The command


def doctor(*words):
    return CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)


def found_in(done):
    return {item["check"]: item for item in map(json.loads, done.stdout.splitlines())}


def test_a_table_and_a_line_that_sums_up(root):
    done = doctor("-d", root / "examples" / "micaz.toml")
    for word in ("Python", "AVR compiler", "udev rules", "budget", "meadow"):
        assert word in done.stdout
    failed = "failure" in {item["verdict"] for item in map(json.loads, doctor("--json").stdout.splitlines())}
    assert done.exit_code == failed
    assert re.search(r"in \d+ checks|Everything is fine", done.stderr)


def test_without_a_deployment_the_machine_alone():
    found = found_in(doctor("--json"))
    assert "Python" in found
    assert "layout" not in found


def test_a_deployment_that_cannot_be_is_a_failure(here):
    (here / "deployment.toml").write_text("[network]\nname = 1\n")
    done = doctor("--json")
    assert done.exit_code == 1
    assert found_in(done)["file"]["verdict"] == "failure"
    missing = doctor("--json", "-d", "nowhere.toml")
    assert missing.exit_code == 1
    assert "No such file" in found_in(missing)["file"]["text"]
    assert "--deployment names the file" in found_in(missing)["file"]["cure"]


def test_a_log_of_several_gateways_is_a_source_as_well(root, tmp_path):
    deployment = load(root / "examples" / "micaz.toml")
    with JournalWriter(tmp_path / "run", deployment, "run", "never") as journal:
        for number, line in enumerate(recorded(4)):
            journal.append(line._replace(gateway=number % 3))
    path = str(root / "examples" / "micaz.toml")
    done = doctor(f"replay@{tmp_path}?pace=0", "-d", path, "--for", "5", "--json")
    areas = {json.loads(line)["area"] for line in done.stdout.splitlines()}
    assert {"gateway 1", "gateway 2"} <= areas


def test_a_source_that_cannot_be_opened_is_a_failure(root):
    done = doctor("network@127.0.0.1:1", "-d", root / "examples" / "micaz.toml", "--json")
    assert done.exit_code == 1
    assert "refused" in found_in(done)["opening"]["text"]


def test_asking_wants_somebody_to_ask():
    assert doctor("--ask").exit_code == 2


@contextmanager
def chatting():
    """A gateway, behind which motes send as long as the context lasts."""

    def chatter():
        world, number = Motes(end.deployment, end.now()), 0
        while not stop.wait(0.05):
            end.put_heard(world.send(number % 3, end.now()))
            number += 1

    stop = threading.Event()
    with gateway(network(), Socket) as end:
        thread = threading.Thread(target=chatter, daemon=True)
        thread.start()
        yield end
        stop.set()
        thread.join()


def test_a_gateway_that_is_well_and_one_for_another_deployment(here):
    (here / "deployment.toml").write_text(network().to_toml())
    other = replace(network(), clock=replace(network().clock, delta=13))
    (here / "other.toml").write_text(other.to_toml())
    with chatting() as end:
        found = found_in(doctor(end.text, "--for", "2.5", "--ask", "--json"))
    for check in ("gateway", "check sums", "line delay", "downwards", "strangers", "motes", "health", "sync"):
        assert found[check]["verdict"] == "good", found[check]
    assert "3 reports" in found["health"]["text"]
    assert len(end.got) == 1
    with chatting() as end:
        wrong = doctor(end.text, "-d", "other.toml", "--for", "1", "--json")
    assert wrong.exit_code == 1
    assert found_in(wrong)["layout"]["verdict"] == "failure"
    assert not end.got


@pytest.mark.usefixtures("testbed", "platformio")
def test_the_real_firmware(root):
    path = root / "examples" / "micaz.toml"
    done = doctor("testbed@?motes=3&seed=3&rate=1", "-d", path, "--for", "8", "--json")
    found = found_in(done)
    assert (found["gateway"]["verdict"], found["check sums"]["verdict"]) == ("good", "good"), done.stdout
    assert found["gateway"]["text"].startswith("gateway 20, ")
    assert found["motes"]["text"].startswith("3 of 20 heard")
    assert found["strangers"]["verdict"] == "good"


def test_more_sources_than_gateways_are_noticed(root):
    deployment = load(root / "examples" / "barrier.toml")
    (found,) = check_deployment.gateways(deployment, 2)
    assert (found.check, found.verdict) == ("gateways", "warning")
    assert "set gateways = 2" in found.cure
    several = replace(deployment, network=replace(deployment.network, gateways=2))
    assert list(check_deployment.gateways(several, 2)) == []
    assert list(check_deployment.gateways(deployment, 1)) == []
    months = load(root / "examples" / "micaz_months.toml")
    assert list(check_deployment.gateways(months, 1)) == []
    (found,) = check_deployment.gateways(replace(months, network=replace(months.network, gateways=2)), 2)
    assert "repair = false" in found.cure
