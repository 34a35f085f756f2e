"""The dashboard and the service of examples/ agree with the program."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

from basestation.cli import listen
from basestation.outputs.metrics import MetricsOutput
from tests.outputs.test_mqtt import SETUP, run_of

DASHBOARD = Path("examples/grafana/causeway.json")
SERVICE = Path("examples/systemd/causeway.service")


def queries() -> list[str]:
    board = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_the_dashboard_names_metrics_that_exist():
    _, station = run_of(8)
    metrics = MetricsOutput("127.0.0.1", 0, SETUP, lambda: station.snapshot(0))
    families = list(metrics.collect())
    metrics.close()
    known = {sample.name for family in families for sample in family.samples}
    known |= {family.name + "_total" * (family.type == "counter") for family in families}
    named = {name for query in queries() for name in re.findall(r"causeway_\w+", query)}
    assert len(named) > 10
    assert named <= known


def test_the_service_starts_listen_with_options_that_exist():
    (command,) = re.findall(r"^ExecStart=(.*)$", SERVICE.read_text(), re.MULTILINE)
    program, name, *words = shlex.split(command)
    assert (Path(program).name, name) == ("basestation", "listen")
    assert listen.command.make_context("listen", words).params["keep"] == ("30d", "20GB")


def test_systemd_finds_nothing_wrong_with_the_service(require_tool, tmp_path):
    program, unit = require_tool("systemd-analyze"), tmp_path / "causeway.service"
    there = SERVICE.read_text().replace("/opt/causeway/.venv/bin/basestation", "/bin/true")
    unit.write_text(there)
    done = subprocess.run([program, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(there.replace("Restart=", "Rstart="))
    done = subprocess.run([program, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert "Rstart" in done.stderr, "it does look"
