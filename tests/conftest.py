"""Fixtures and settings of all tests."""

import os
import re
import shutil
import subprocess
import sys
from _thread import interrupt_main
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from basestation.testbed import emulator

# Tables are as wide wherever the tests run.
os.environ["COLUMNS"] = "110"

# The first call of a compiled kernel is slow, so no test has a deadline.
settings.register_profile(
    "ci",
    max_examples=20,
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


def pytest_sessionstart() -> None:
    """The garbage collector drops a Ctrl-C that comes while it calls back, such as hypothesis: send it again."""
    others = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            Timer(0.01, interrupt_main).start()
        else:
            others(dropped)

    sys.unraisablehook = hook


# What takes longest goes first, so that all workers end together. Files that build images stand apart, since
# they wait for each other.
FIRST = (
    "spark",
    "tests/firmware/test_net_schedule.py",
    "tests/firmware/test_sealed.py",
    "tests/testbed/test_schemes.py",
    "tests/firmware/test_images_talk.py",
    "tests/firmware/test_core_wire.py",
    "tests/firmware/test_core_stamps.py",
    "tests/firmware/test_platformio.py",
    "tests/firmware/test_report.py",
    "tests/soak/test_searches.py",
    "tests/web/test_page.py",
    "tests/firmware/test_net_timesync.py",
    "tests/testbed/test_run.py",
    "tests/testbed/test_through_station.py",
    "tests/test_plugin_scheme.py",
    "tests/sources/test_plugin.py",
    "tests/cli/test_plan.py",
    "tests/cli/test_hangup.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_listen.py",
    "tests/live/test_which_message.py",
    "tests/live/test_several_gateways.py",
    "tests/journal/test_projection.py",
    "tests/spark/test_any_place.py",
    "tests/spark/test_continuum.py",
    "tests/firmware/test_net_papers.py",
    "tests/firmware/test_core_papers.py",
)


@cache
def group_of(file: str) -> str:
    """The worker group of a test file: what a file builds is built once, and Java starts once."""
    if not file.startswith("tests/spark/"):
        return file
    text = (Path(__file__).resolve().parents[1] / file).read_text()
    return "spark" if re.search(r"def \w+\(.*\bspark\b", text) else file


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def narrow(variants: list[Any]) -> None:
    """Of a test marked `few(n)` n variants are fast, evenly chosen; the others are wide."""
    (count,) = variants[0].get_closest_marker("few").args
    others = [variant for variant in variants if not variant.get_closest_marker("wide")]
    fast = {len(others) * number // count for number in range(count)}
    for number, variant in enumerate(others):
        if number not in fast:
            variant.add_marker(pytest.mark.wide)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for variants in tests.values():
        narrow(variants)
    turn = {group: number for number, group in enumerate(FIRST)}
    items.sort(key=lambda item: turn.get(group_of(file_of(item.nodeid)), len(turn)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Marks of groups would say the same, but xdist 3.8 does not see them under pytest 9.2."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(file_of(nodeid))

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
    return emulator.build()


@pytest.fixture(scope="session")
def platformio(require_tool: Callable[[str], str]) -> None:
    """The tools that build the firmware's images."""
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
