"""The real images under a schedule on the emulated ether: what arrives, in which order, and how long motes listen."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from basestation.cli.testbed import command
from tests.testbed.test_run import _tools  # noqa: F401


def run(root: Path, *args: object) -> dict[str, Any]:
    words = ["--json", "--rate", "0.1", "--energy-from", "60", *map(str, args)]
    result = CliRunner().invoke(
        command, [str(root / "examples/micaz_months.toml"), *words], catch_exceptions=False
    )
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)["networks"][0]
    assert found["order"]["broken"] == 0
    assert found["delivered"]["inverted"] == 0
    assert found["delay"]["beyond"] == 0
    return found


def test_motes_sleep_and_messages_arrive_in_order(root: Path) -> None:
    found = run(root, "--motes", 6, "--seconds", 96, "--seed", 3)
    fates = found["fates"]
    assert fates["stamped"] > 6 * 70 / 10
    assert fates["arrived"] >= fates["stamped"] - 3  # the run may end in a window
    assert all(0 < mote["duty"] < 0.03 for mote in found["energy"]["motes"])


@pytest.mark.slow
def test_ten_motes_live_for_half_a_year(root: Path) -> None:
    found = run(root, "--seconds", 660, "--seed", 3)
    fates = found["fates"]
    assert fates["arrived"] >= 0.99 * fates["stamped"]
    assert min(mote["days"] for mote in found["energy"]["motes"]) > 170


@pytest.mark.slow
def test_the_root_off_and_on(root: Path, tmp_path: Path) -> None:
    """A root that is soon back, one for whom a mote succeeds, and one that comes when all motes have given up."""
    faults = [(100, 5), (200, 150), (420, 20)]
    lines = (f'[[fault]]\nat = {at}\ndo = "restart"\nmote = "root"\nseconds = {off}\n' for at, off in faults)
    (tmp_path / "faults.toml").write_text("".join(lines))
    found = run(root, "--seconds", 520, "--seed", 4, "--faults", tmp_path / "faults.toml")
    assert found["fates"]["arrived"] > 0.4 * found["fates"]["stamped"]
