"""The live station over the real firmware, ten motes and three hops: in causal order by the testbed's own truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from basestation.simulator.measured_delays import LOST
from tests.cli.test_listen import delivered
from tools.station_run import run_station
from tools.tables.field import MOTES, RATE, deployment_of, points_of

SHORT = 12.0  # seconds
EXACT = ("kn, all 8", "hlc", "shlc, one byte")

pytestmark = [pytest.mark.usefixtures("testbed", "platformio"), pytest.mark.wide]


@pytest.mark.parametrize(
    "stamp",
    [pytest.param(stamp, marks=[] if "byte" in stamp else [pytest.mark.wide]) for stamp in EXACT],
)
def test_arrivals_out_of_order_are_delivered_in_it(stamp):
    """phi = 100%: no violation by the flight recorders, whoever delivers; phi = 0: many of them."""
    run = run_station(deployment_of(stamp), MOTES, SHORT, RATE, seed=1)
    assert len(run.arrivals) > 250
    assert run.deliver("none", 0).pairs > 3
    assert run.deliver("dapw", 0).pairs > 3
    for policy in ("causal", "dapw", "cbd"):
        found = run.deliver(policy, 100)
        assert (found.pairs, found.delivered) == (0, len(run.arrivals))
    assert run.violations == run.deliver("cbd", 100)
    rows = [row for rows in run.delays.rows for row in rows]
    assert len(rows) > 250
    assert {len(row) for row in rows} == {MOTES + 1}
    assert all(row[mote] == LOST for mote, rows in enumerate(run.delays.rows) for row in rows)
    assert sum(row[-1] != LOST for row in rows) > 0.8 * len(rows)


def test_the_table_is_made_from_runs():
    points = points_of("kn, 2", 1, SHORT)
    assert {point.where for point in points} == {"testbed", "simulator", "roaming"}
    for where in ("testbed", "simulator"):
        (full,) = [p for p in points if (p.where, p.policy, p.phi) == (where, "cbd", 100)]
        (none,) = [p for p in points if (p.where, p.policy) == (where, "none")]
        assert full.pairs == 0 < none.pairs
    (roaming,) = [p for p in points if (p.where, p.policy, p.phi) == ("roaming", "cbd", 100)]
    assert roaming.pairs > 0  # two entries are too few where clocks roam


def test_what_was_delivered_live_is_in_the_log_again(root, tmp_path):
    """`listen` on the running testbed, then `replay` of its log: the same deliveries, message for message."""
    (tmp_path / "net.toml").write_text(deployment_of("shlc, one byte").to_toml())
    source = f"testbed@net.toml?motes={MOTES}&rate={RATE:g}&seconds=8&pace=2"
    live = basestation(root, tmp_path, "listen", source, "-d", "net.toml", "--log", "logs", "--json")
    again = basestation(root, tmp_path, "replay", "logs", "--json")
    assert len(delivered(live)) > 130
    assert delivered(again) == delivered(live)
    events = [json.loads(line)["event"] for line in live.splitlines()]
    assert events.count("arrived") > 300


def basestation(root, folder, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "basestation", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
