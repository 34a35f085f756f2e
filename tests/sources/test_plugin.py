"""A source of another package: examples/plugin installed beside us, and packages that are broken or in the way."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from basestation.arrivals import Arrival
from basestation.cli import cli
from basestation.sources import SourceOptions, open_source
from packet_formats.deployment import load

ROOT = Path(__file__).resolve().parents[2]
MICAZ = ROOT / "examples" / "micaz.toml"
SIMULATED = "simulate@?messages=60&pace=0"


def register(folder, name, kind, value):
    """A package that has this entry point, and nothing else."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[causeway.sources]\n{kind} = {value}\n")


def listen(source, *folders):
    path = os.pathsep.join(map(str, (ROOT, *folders)))
    command = [sys.executable, "-m", "basestation", "listen", source, "-d", MICAZ, "--json"]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def delivered(output):
    rows = [json.loads(line) for line in output.splitlines()]
    return [(row["name"], row["left"] - row["arrived"]) for row in rows if row["event"] == "delivered"]


async def packets(text):
    source = open_source(text, options=SourceOptions(deployment=load(MICAZ)))
    return [line async for line in source.lines() if isinstance(line, Arrival)]


def write_csv(path, lines):
    first = lines[0].mono_ns
    path.write_text("".join(f"{(line.mono_ns - first) / 1e9:.9f},{line.packet.hex()}\n" for line in lines))


def test_listen_takes_the_source_of_another_package(installed, tmp_path):
    write_csv(tmp_path / "packets.csv", asyncio.run(packets(SIMULATED)))
    result = listen(f"csv@{tmp_path / 'packets.csv'}?pace=0", installed)
    found = delivered(result.stdout)
    assert found, result.stderr
    assert result.returncode == 0, result.stderr
    ours = CliRunner().invoke(cli, ["listen", SIMULATED, "-d", str(MICAZ), "--json"])
    assert found == delivered(ours.stdout)


def test_what_its_source_refuses_is_said_as_ours_would_be(installed, tmp_path):
    (tmp_path / "packets.csv").write_text("0.0,00ff\nnow,zz\n")
    result = listen(f"csv@{tmp_path / 'packets.csv'}?pace=0", installed)
    assert result.returncode == 1
    assert "line 2 should be SECONDS,HEX" in result.stderr


def test_without_the_package_its_kind_is_unknown():
    result = listen("csv@packets.csv")
    assert result.returncode == 2
    assert "no kind of source is named 'csv'" in result.stderr


def test_a_package_that_cannot_be_imported_breaks_only_its_own_source(installed, tmp_path):
    register(tmp_path, "broken-radio", "radio", "no_such_module")
    result = listen("radio@x", installed, tmp_path)
    assert result.returncode == 1
    assert "the package broken-radio, which has this source, cannot be loaded" in result.stderr
    assert "no_such_module" in result.stderr
    others = listen(SIMULATED, installed, tmp_path)
    assert delivered(others.stdout), others.stderr
    assert others.returncode == 0, others.stderr


def test_a_name_of_ours_is_refused(tmp_path):
    register(tmp_path, "other-simulator", "simulate", "json")
    result = listen(SIMULATED, tmp_path)
    assert result.returncode == 1
    assert "the package other-simulator also has a source named simulate@" in result.stderr


def test_a_name_that_two_packages_want_is_refused(installed, tmp_path):
    register(tmp_path, "second-csv", "csv", "json")
    result = listen("csv@packets.csv", installed, tmp_path)
    assert result.returncode == 1
    assert "causeway-example" in result.stderr
    assert "second-csv" in result.stderr
