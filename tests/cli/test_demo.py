"""`basestation demo`: the whole chain; everything that arrives is delivered once, logged, and compared."""

import json
import re

import pytest
from click.testing import CliRunner

from basestation.cli.demo import command
from basestation.cli.why import command as why
from basestation.journal.writer import read_journal


def run(folder, *arguments):
    result = CliRunner().invoke(command, ["--out", str(folder), *arguments])
    assert result.exit_code == 0, result.output
    (made,) = folder.iterdir()
    return result, made


def delivered_by_mote(stdout):
    rows = [json.loads(line) for line in stdout.splitlines()]
    found = {}
    for row in rows:
        if row.get("event") == "delivered":
            found.setdefault(row["name"]["source"], []).append(row["name"]["sequence"])
    return found


def assert_in_order(found):
    assert len(found) == 10
    assert all(sequences == sorted(set(sequences)) for sequences in found.values())


def assert_compared(stdout):
    """Our stamp and the paper's put the run in order, ours at a fraction of the hold; arrival order does not."""
    rows = {row["way"]: row for row in map(json.loads, stdout.splitlines()) if "way" in row}
    assert [way for way in rows if "%" not in way] == ["arrival", "kn", "barrier"]
    assert rows["arrival"]["violated_pairs"] > 0
    assert rows["kn"]["violated_pairs"] == rows["barrier"]["violated_pairs"] == 0
    assert rows["barrier"]["hold"]["mean"] < 0.3 * rows["kn"]["hold"]["mean"]


def test_on_the_simulator(tmp_path):
    result, made = run(tmp_path, "--on", "simulator", "--seconds", "3", "--json")
    found = delivered_by_mote(result.stdout)
    assert_in_order(found)
    assert sum(1 for _ in read_journal(made / "log").records(pytest.fail)) > 60
    assert_compared(result.stdout)


def test_off_a_terminal_it_prints_lines_and_what_was_gained(tmp_path):
    result, made = run(tmp_path, "--on", "simulator", "--seconds", "2")
    assert result.stdout.count("deliver") > 20
    assert "every message came after its causes" in " ".join(result.stdout.split())
    assert str(made / "trace") in result.stderr
    assert "kind" not in result.stdout + result.stderr  # the model's data is no alarm's
    (named,) = re.findall(r"basestation why (\S+) (\S+)", result.stderr)
    explained = CliRunner().invoke(why, named)
    assert re.match(rf"{named[1]} was held [1-9]", explained.output), explained.output


@pytest.mark.usefixtures("testbed", "platformio")
def test_on_the_testbed_the_real_firmware_is_put_in_order(tmp_path):
    result, made = run(tmp_path, "--on", "testbed", "--seconds", "12", "--json")
    found = delivered_by_mote(result.stdout)
    assert_in_order(found)
    assert (made / "truth.jsonl").stat().st_size > 0
    assert "A shadow falls on one mote after another" in result.stderr
    assert_compared(result.stdout)
