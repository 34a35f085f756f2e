"""`basestation why`: a proof in words, as JSON, and how it refuses."""

import json

import pytest
from click.testing import CliRunner

from basestation.cli.why import command
from basestation.journal.reader import read_journal
from basestation.journal.writer import JournalWriter
from basestation.live.happenings import Delivered, GaveUp
from basestation.live.station import Station
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, build_scheme, generate
from packet_formats.schemes import descriptor
from tests.journal.logs import VALUES, arrivals_of, simulated, write


def logged(folder, scheme):
    world = WorldOptions(motes=5, epsilon=3, delta=32, rate=0.0156, messages=300, loss=0.1, seed=2)
    ordered = descriptor(scheme).is_ordered
    made = build_scheme(world, scheme) if ordered else build_named(world, scheme)
    trace = trace_of(generate(world), deployment_for(world, made, "cbd", 100))
    write(folder, arrivals_of(trace), trace.deployment)
    station, found = Station(trace.deployment), []
    for line in arrivals_of(trace):
        found += station.take(line)
    return found + station.finish()


@pytest.fixture(scope="module")
def barrier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs") / "run"
    return folder, logged(folder, "barrier")


def run(*words):
    return CliRunner().invoke(command, [str(word) for word in words])


def test_it_says_what_a_message_waited_for(barrier):
    folder, found = barrier
    gave_up = next(item for item in found if isinstance(item, GaveUp))
    result = run(folder, gave_up.message)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{gave_up.message} was held ")
    assert any("which never arrived" in line for line in lines)
    assert any("leaves without" in line for line in lines)
    assert lines[-1].startswith(("Of the messages that arrived", "Not all that led to"))


def test_it_tells_the_values(tmp_path):
    trace, arrivals = simulated("shlc", VALUES, messages=60)
    write(tmp_path, arrivals, trace.deployment)
    name = "{source}#{sequence}".format_map(row := trace.messages.slice(30, 1).to_pylist()[0])
    values = dict(row["values"])
    assert values["light"] > 0
    assert json.loads(run(tmp_path, name, "--json").stdout)["values"] == values
    assert f'{name} (light {values["light"]} lx, count 0 a, "b", t 0) was held ' in run(tmp_path, name).stdout


def test_it_follows_what_kept_what(barrier):
    """The message that was held for another: the proof goes on with that one."""
    folder, found = barrier
    held = [item for item in found if isinstance(item, Delivered) and item.held_ms > 1]
    chains = []
    for item in held:
        plain = json.loads(run(folder, item.name, "--json").stdout)
        assert plain["message"] == str(item.name)
        assert plain["held_ms"] == pytest.approx(item.held_ms)
        assert plain["policy"] == "barrier"
        chains.append((plain, [line for line in plain["text"] if " was held " in line]))
        if len(chains) == 12:
            break
    long = [(plain, steps) for plain, steps in chains if len(steps) > 1]
    assert long
    for plain, steps in long:
        kept = {cause["message"] for cause in plain["causes"] if cause["kept"]}
        assert steps[1].split()[0] in kept


def test_a_policy_that_waits_by_the_clock(tmp_path):
    found = logged(tmp_path / "run", "shlc")
    name = next(item.name for item in found if isinstance(item, Delivered) and item.held_ms > 1)
    text = run(tmp_path / "run", name).stdout
    assert "it waits until everything sent before it has come; it left when tick" in text


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        ("4#999", 1, "4#999 never arrived; mote 4 has 4#"),
        ("77#1", 1, "there is no mote 77; the deployment has 0 to 4"),
        ("0#1@5", 1, "0#1 never arrived in boot 5"),
        ("seven", 2, "seven does not name a message: 7#12 is message 12 of mote 7"),
    ],
)
def test_what_is_not_there(barrier, message, code, said):
    result = run(barrier[0], message)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_folder_without_a_log(tmp_path):
    result = run(tmp_path, "1#1")
    assert result.exit_code == 1
    assert str(tmp_path) in result.stderr


def test_a_log_of_which_nothing_was_read(tmp_path, barrier):
    with JournalWriter(tmp_path / "run", read_journal(barrier[0]).deployment, "empty"):
        pass
    result = run(tmp_path / "run", "1#1")
    assert (result.exit_code, "no message of mote 1 arrived" in result.stderr) == (1, True)
