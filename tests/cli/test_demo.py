"""`basestation demo`: the whole chain; everything that arrives is delivered once, logged, and analysed."""

import csv
import json

import pytest
from click.testing import CliRunner

from basestation.cli.demo import command
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


def continuum(folder):
    with (folder / "continuum.csv").open() as file:
        return list(csv.DictReader(file))


def assert_analysed(folder):
    rows = continuum(folder)
    assert {row["scheme"] for row in rows} == {"dpc1", "dpc2", "kn", "hlc", "shlc"}
    assert all(row["answered"] != "no" for row in rows)
    own = [row for row in rows if row["own"] == "true" and row["phi"] == "100"]
    assert own
    assert all(float(row["any"]) == 0 for row in own)
    assert "<svg" in (folder / "report.html").read_text()


def test_on_the_simulator(tmp_path):
    result, made = run(tmp_path, "--on", "simulator", "--seconds", "3", "--json")
    found = delivered_by_mote(result.stdout)
    assert_in_order(found)
    assert sum(1 for _ in read_journal(made / "log").records(pytest.fail)) > 60
    assert_analysed(made)


def test_off_a_terminal_it_prints_lines_and_the_continuum(tmp_path):
    result, made = run(tmp_path, "--on", "simulator", "--seconds", "2")
    assert result.stdout.count("deliver") > 20
    assert "(arrival order)" in result.stdout
    assert str(made / "report.html") in result.stderr


@pytest.mark.usefixtures("testbed", "platformio")
def test_on_the_testbed_the_real_firmware_is_put_in_order(tmp_path):
    result, made = run(tmp_path, "--on", "testbed", "--seconds", "12", "--json")
    found = delivered_by_mote(result.stdout)
    assert_in_order(found)
    assert (made / "truth.jsonl").stat().st_size > 0
    assert_analysed(made)
