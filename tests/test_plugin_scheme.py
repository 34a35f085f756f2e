"""A scheme of another package, whose stamp has a variable length: simulated, described, compared and listened to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEPLOYMENT = """
[network]
name = "short"
board = "micaz"
motes = 5
[clock]
tick_log2 = 7
epsilon = 4
delta = 8
[stamp]
scheme = "recent"
entries = 8
"""


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "recent.toml"
    path.write_text(DEPLOYMENT)
    return path


def basestation(root: Path, installed: Path | None, *arguments: object) -> subprocess.CompletedProcess[str]:
    places = [str(root), *([] if installed is None else [str(installed)])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-m", "basestation", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def rows(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_describe_shows_a_stamp_whose_length_varies(root: Path, installed: Path, described: Path) -> None:
    (layout,) = rows(basestation(root, installed, "describe", described, "--json"))
    assert (layout["scheme"], layout["stamp_bytes"], layout["stamp_bytes_least"]) == ("recent", 16, 0)
    names = [field["name"] for field in layout["fields"]]
    assert names[7:11] == ["source0", "sequence0", "source1", "sequence1"]
    shown = basestation(root, installed, "describe", described)
    assert "recent, 0 to 16 bytes" in shown.stdout
    assert "source of the message known of, 7 back" in shown.stdout


@pytest.mark.wide
def test_simulate_and_compare_measure_it(root: Path, installed: Path) -> None:
    network = ("--messages", 200, "--motes", 5, "--json")
    (simulated,) = rows(basestation(root, installed, "simulate", "--scheme", "recent", *network))
    assert (simulated["scheme"], simulated["policy"]) == ("recent", "recent")
    assert simulated["violated_pairs"] > 0
    compared = rows(
        basestation(root, installed, "compare", "--scheme", "recent", "--scheme", "history", *network)
    )
    assert [row["scheme"] for row in compared] == ["recent", "history"]
    # Four names leave some causes out, the whole history none.
    assert compared[0]["violated_pairs"] > compared[1]["violated_pairs"] == 0
    assert compared[0]["stamp_bits"]["mean"] < compared[0]["stamp_bits"]["max"]


def test_listen_orders_its_messages_by_its_own_rule(
    root: Path, installed: Path, described: Path, tmp_path: Path
) -> None:
    """Its frames have several lengths; they are logged, replayed and put into a table as any others."""
    source = f"simulate@{described}?messages=150&pace=0"
    log = tmp_path / "log"
    live = rows(basestation(root, installed, "listen", source, "-d", described, "--json", "--log", log))
    arrived = [row for row in live if row["event"] == "arrived" and row["message"].get("stamp") is not None]
    delivered = [tuple(row["name"].items()) for row in live if row["event"] == "delivered"]
    assert {0, 16} < {len(row["message"]["stamp"]) for row in arrived}
    assert len(delivered) == len(set(delivered)) == len([row for row in arrived if not row.get("copy")])
    (run,) = log.iterdir()
    again = rows(basestation(root, installed, "replay", run, "--json"))
    assert [tuple(row["name"].items()) for row in again if row["event"] == "delivered"] == delivered
    converted = basestation(
        root, installed, "log", "convert", run, "--to", "shiviz", "-o", tmp_path / "run.shiviz"
    )
    assert converted.returncode == 0, converted.stderr
    simulated = ("simulate", "-d", described, "--messages", 100, "--trace", tmp_path / "trace", "--json")
    rows(basestation(root, installed, *simulated))
    tables = ("analyse", "ingest", tmp_path / "trace", run, "--tables", tmp_path / "tables", "--no-spark")
    ingested = basestation(root, installed, *tables)
    assert ingested.returncode == 0, ingested.stderr


def test_without_the_package_its_scheme_is_unknown(root: Path, described: Path) -> None:
    result = basestation(root, None, "describe", described)
    assert result.returncode == 1
    assert "stamp.scheme" in result.stderr
    assert "must be one of dpc1, dpc2, kn" in result.stderr


def test_a_package_that_is_broken_breaks_its_own_scheme_alone(
    root: Path, described: Path, tmp_path: Path
) -> None:
    info = tmp_path / "broken" / "broken-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[causeway.schemes]\nrecent = nowhere:Nothing\nkn = nowhere:Other\ncbd = nowhere:Rule\n"
    )
    result = basestation(root, info.parent, "describe", described)
    assert result.returncode == 1
    assert "nowhere:Nothing" in result.stderr
    assert basestation(root, info.parent, "describe", root / "examples" / "paper.toml").returncode == 0
