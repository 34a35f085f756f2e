"""What people and files may get wrong: said in words, with nothing lost and nothing hanging."""

import subprocess

import pytest

from basestation.testbed import emulator, faults, topologies, truth_log
from basestation.testbed.topologies import TopologyError, Wanted

pytestmark = pytest.mark.usefixtures("testbed")


def run(testbed, *lines):
    return subprocess.run(
        [testbed, "-"], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["at 1 uart 0 " + "41" * 4200], "line 1: longer than"),
        (["nodes 1", "pace 1e-9"], "a pace is"),
        (["nodes 1", "node 0 micaz 0 0 -1000000 0 none.elf"], "no crystal is that wrong"),
        (["nodes 1", f"watch 0 {'a' * 40} 256 1"], "too long a name"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(testbed, lines, said):
    done = run(testbed, *lines)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_truth_replaces_no_device(tmp_path, testbed):
    (tmp_path / "folder").mkdir()
    with (
        pytest.raises(emulator.EmulatorError, match="is no file"),
        emulator.start(testbed, "", tmp_path / "folder"),
    ):
        pass


@pytest.mark.parametrize(
    "line", ["5", "null", "[" * 100_000, '{"is":"clock","watch":5}', '{"t":"x","is":"uart"}']
)
def test_a_truth_that_is_none_is_refused_with_its_line(line):
    with pytest.raises(truth_log.TruthError, match="line 1"):
        list(truth_log.parse([line], "log"))


@pytest.mark.parametrize("text", ["at = " + "9" * 5000, "a = " + "[" * 5000])
def test_a_timeline_that_cannot_be_read_is_refused(text):
    with pytest.raises(faults.FaultError, match="not TOML"):
        faults.parse(text, ())


def test_places_must_be_somewhere(tmp_path):
    path = tmp_path / "places"
    path.write_text("0 0 0\n1 nan 1\n2 2 2\n")
    with pytest.raises(TopologyError, match="line 2"):
        topologies.from_coordinates(path, 10, Wanted())


def test_large_ids_cost_nothing_and_silence_is_named(tmp_path):
    path = tmp_path / "places"
    path.write_text("0 0 0\n1 1 1\n4000000000 2 2\n")
    assert topologies.from_coordinates(path, 10, Wanted()).motes == 2
    path.write_text("gain 0 1 -200\ngain 1 0 -200\n")
    with pytest.raises(TopologyError, match="good enough to carry frames"):
        topologies.from_gains(path, Wanted())
