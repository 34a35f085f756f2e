"""What all tests share."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from basestation.testbed import engine

# Tables are as wide wherever the tests run.
os.environ["COLUMNS"] = "110"

# The first call of a compiled kernel is slow, so no test has a deadline.
settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    max_examples=1000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# What takes longest goes first, so that no worker is busy alone at the end.
FIRST = ("spark",)


def group_of(nodeid: str) -> str:
    """Tests that share what is slow to make go to one worker: Java starts once, and what a file makes is made once."""
    return "spark" if nodeid.startswith("tests/spark/") else nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    turn = {group: number for number, group in enumerate(FIRST)}
    items.sort(key=lambda item: turn.get(group_of(item.nodeid), len(turn)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Marks of groups would say the same, but xdist 3.8 does not see them under pytest 9.2."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # by the number of tests
    return Groups(config, log)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def require_tool() -> Callable[[str], str]:
    """``require_tool("gcc")`` is the tool's path. Where it is missing the test is skipped; in CI it fails."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is not None:
            return path
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is missing, and in CI nothing is skipped")
        pytest.skip(f"{name} is not on this machine")

    return find


@pytest.fixture(scope="session")
def require_module(require_tool: Callable[[str], str]) -> Callable[[str], ModuleType]:
    """``require_module("duckdb")`` imports a module, with the same rule for one that is missing."""

    def find(name: str) -> ModuleType:
        if find_spec(name.partition(".")[0]) is None:
            require_tool(name)
        return import_module(name)

    return find


@pytest.fixture(scope="session")
def testbed(require_tool: Callable[[str], str]) -> Path:
    """The testbed's program, up to date."""
    for tool in ("gcc", "make"):
        require_tool(tool)
    asked = [require_tool("pkg-config"), "--exists", "simavr", "libelf"]
    if subprocess.run(asked, check=False).returncode != 0:
        require_tool("libsimavr-dev or libelf-dev")
    return engine.build()


@pytest.fixture(scope="session")
def platformio(require_tool: Callable[[str], str]) -> None:
    """What builds the firmware's images."""
    require_tool("avr-gcc")
    if find_spec("platformio") is None:
        require_tool("PlatformIO")


@pytest.fixture(scope="session")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds examples/plugin as pip installs it."""
    source, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("installed")
    shutil.copytree(root / "examples" / "plugin", source)  # pip builds in the folder that it is given
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return target
