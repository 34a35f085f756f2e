"""`basestation demo`: every message of the show is delivered once, in causal order."""

import json

from click.testing import CliRunner

from basestation.cli.demo import command


def test_the_demo_delivers_in_causal_order_what_arrived_out_of_it():
    result = CliRunner().invoke(command, ["--json"])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len({row["number"] for row in rows}) == len(rows) > 100
    assert any(row["arrived_before_a_cause"] for row in rows)
    assert [row["delivered"] for row in rows] == sorted(row["delivered"] for row in rows)
    for source in range(10):
        sequences = [row["sequence"] for row in rows if row["source"] == source]
        assert sequences == sorted(sequences)


def test_off_a_terminal_it_prints_lines_and_the_continuum():
    result = CliRunner().invoke(command, ["--seed", "2"])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("arrived") >= result.stdout.count("delivered, held") > 100
    assert "before a cause of it" in result.stdout
    for name in ("(arrival)", "dpc1", "kn all", "shlc"):
        assert name in result.stdout
