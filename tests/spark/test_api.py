"""The functions that analysts call: DataFrames in and out, equal to what the commands print."""

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

import spark_jobs
from basestation.cli import main as commands
from spark_jobs.journals.source import register
from spark_jobs.measuring.choices import Choice
from spark_jobs.session import JobError
from tests.journal.logs import simulated, write_everything

CHOICE = Choice(schemes=["shlc"], policies=["none", "cbd"], phis=[40, 100])


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    run = CliRunner().invoke(
        commands.command,
        [
            *("listen", "simulate@?messages=400&rate=0.0156&loss=0.05&pace=0", "-d", "examples/barrier.toml"),
            *("--log", str(folder / "logs"), "--view", "none"),
        ],
    )
    assert run.exit_code == 0, run.output
    return folder / "logs"
