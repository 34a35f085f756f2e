"""The frame of the command line: the lazy group, exit codes, and what the commands share."""

import builtins
import dataclasses
import enum
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from basestation import __version__, cli
from basestation.cli import common
from basestation.cli import progress as bars
from basestation.cli.analyse import JOBS
from basestation.cli.analyse import command as analyse
from tests.waiting import wait_until

MOST_OPTIONS = 270  # over all commands; 220 is the goal

COMMAND = """
import click
from basestation.cli import common

@click.command(epilog=common.example("basestation fake --n 1\\nbasestation fake --n 2"))
@click.option("--n", type=int, default=1)
@click.option("--how", default="good")
def command(n, how):
    if how == "lines":
        for i in range(n):
            common.emit_json({"i": i})
    elif how == "table":
        for i in range(n):
            common.out.print("row", i)
    elif how == "wait":
        common.note("waiting")
        import time
        time.sleep(60)
    elif how == "fail":
        common.fail("it broke")
    elif how == "abort":
        raise click.Abort
    elif how == "returns":
        return 7
    elif how == "exits":
        click.get_current_context().exit(3)
    elif how == "import":
        from numba_not_here import x
    elif how == "os":
        open("/nonexistent/file")
    elif how == "bug":
        raise RuntimeError("a bug")
"""


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start ``basestation fake ARGS`` in a process of its own; ``before`` is Python to run first."""
    (tmp_path / "fake_command.py").write_text(COMMAND)
    started = []

    def start(*args: str, before: str = "", **streams: object) -> "subprocess.Popen[str]":
        program = textwrap.dedent(before) + textwrap.dedent(
            """
            import signal, sys
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
            from basestation import cli
            cli.COMMANDS["fake"] = ("fake_command", "A stand-in.")
            sys.exit(cli.main())
            """
        )
        path = os.pathsep.join([str(tmp_path), str(Path(cli.__file__).parents[2])])
        process = subprocess.Popen(
            [sys.executable, "-c", program, *args],
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


# The group


def test_importing_the_group_loads_nothing_heavy() -> None:
    program = "import sys, basestation.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    heavy = {"numpy", "pyarrow", "numba", "matplotlib", "construct", "rich", "packet_formats"}
    assert not heavy & set(loaded.split())


@pytest.mark.parametrize("args", [["--help"], ["-h"], []])
def test_help_lists_every_command_and_imports_none(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = {module for module, _ in cli.COMMANDS.values() if module in sys.modules}
    assert cli.main(args) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, (module, line) in cli.COMMANDS.items():
        assert name in shown
        assert line in shown
        assert module in before or module not in sys.modules


LISTED = {name: module for name, (module, _) in cli.COMMANDS.items()}
LISTED |= {f"analyse {name}": module for name, (module, _) in JOBS.items()}


@pytest.mark.parametrize("name", LISTED)
def test_every_listed_command_loads(name: str) -> None:
    command = importlib.import_module(LISTED[name]).command
    assert isinstance(command, click.Command)
    result = CliRunner().invoke(cli.cli, [*name.split(), "--help"], terminal_width=200)
    assert result.exit_code == 0, result.output
    assert "1000000000" not in result.output, "a bound that is none"
    assert "x<=1e" not in result.output


def test_the_help_of_a_job_loads_no_heavy_library() -> None:
    program = (
        "import sys; from basestation.cli import main\n"
        f"for job in {list(JOBS)}: main(['analyse', job, '--help'])\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"pyspark", "numba", "matplotlib", "pyarrow"} & set(told.splitlines()[-1].split())


def test_a_job_takes_its_options_from_the_environment(tmp_path: Path) -> None:
    asked = {"BASESTATION_ANALYSE_LINKS_WINDOW": "soon"}
    result = CliRunner().invoke(
        cli.cli, ["analyse", "links", str(tmp_path)], env=asked, auto_envvar_prefix="BASESTATION"
    )
    assert result.exit_code == 2
    assert "'--window'" in result.output


@pytest.mark.parametrize("name", LISTED)
def test_every_number_is_refused_beyond_reason(name: str) -> None:
    """NaN, infinities and what no network, clock or crystal has: in all options that have a range, by one rule."""
    command = importlib.import_module(LISTED[name]).command
    for param in command.params:
        if not isinstance(param.type, click.FloatRange | click.IntRange):
            continue
        for value in ("nan", "inf", "-inf", "1e308", "-1e308", "1" + 5000 * "0"):
            with pytest.raises(click.BadParameter):
                param.type.convert(value, param, None)


def options_below(command: click.Command) -> Iterator[click.Option]:
    yield from (param for param in command.params if isinstance(param, click.Option))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options_below(found)


def test_all_commands_together_have_few_options() -> None:
    """A new option takes the place of another: give a default that is right, or read the deployment."""
    assert len(list(options_below(cli.cli))) <= MOST_OPTIONS


@pytest.mark.parametrize(
    ("words", "meant"), [("lisen", "listen"), ("log sumary", "summary"), ("analyse recomend", "recommend")]
)
def test_a_command_that_was_mistyped_gets_a_suggestion(words: str, meant: str) -> None:
    result = CliRunner().invoke(cli.cli, words.split())
    assert result.exit_code == 2
    assert f"did you mean {meant}?" in result.stderr


def test_a_number_beyond_reason_is_told_the_most() -> None:
    for kind in (common.FiniteFloat(0), common.Whole(0)):
        with pytest.raises(click.BadParameter, match=r"is too large: 1e\+09 is the most"):
            kind.convert("3000000000", None, None)
        with pytest.raises(click.BadParameter, match="not in the range 0 or more"):
            kind.convert("-1", None, None)


def test_names_are_completed_without_an_import() -> None:
    context = click.Context(cli.cli)
    assert [item.value for item in cli.cli.shell_complete(context, "de")] == ["describe", "decode", "demo"]
    assert [item.value for item in analyse.shell_complete(context, "c")] == ["clocks", "continuum", "changes"]


def test_python_dash_m() -> None:
    command = [sys.executable, "-m", "basestation", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"basestation {__version__}\n"


# Exit codes


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["fake"], 0, ""),
        (["fake", "--how", "returns"], 0, ""),
        (["fake", "--how", "exits"], 3, ""),
        (["fake", "--how", "fail"], 1, "Error: it broke\n"),
        (["fake", "--how", "os"], 1, "Error: /nonexistent/file: No such file or directory\n"),
        (["fake", "--n", "x"], 2, "Invalid value for '--n'"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["--nonsense"], 2, "No such option"),
        (["fake", "--how", "abort"], 130, "Interrupted.\n"),
    ],
)
def test_exit_codes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    code: int,
    says: str,
) -> None:
    (tmp_path / "exiting_command.py").write_text(COMMAND)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(cli.COMMANDS, "fake", ("exiting_command", "A stand-in."))
    returned = cli.main(args)
    stdout, stderr = capsys.readouterr()
    assert (returned, stdout) == (code, "")
    assert says in stderr
    if not says:
        assert stderr == ""


def test_a_bug_shows_its_traceback(fake: Callable[..., "subprocess.Popen[str]"]) -> None:
    code, _, stderr = finish(fake("fake", "--how", "bug"))
    assert code == 1
    assert "RuntimeError: a bug" in stderr
    code, _, stderr = finish(fake("fake", "--how", "import"))
    assert code == 1
    assert "numba_not_here" in stderr


def test_an_interrupt_is_130(fake: Callable[..., "subprocess.Popen[str]"]) -> None:
    process = fake("fake", "--how", "wait")
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    code, stdout, stderr = finish(process)
    assert (code, stdout, stderr) == (130, "", "Interrupted.\n")


def test_a_reader_that_goes_away_is_no_noise(fake: Callable[..., "subprocess.Popen[str]"]) -> None:
    process = fake("fake", "--how", "table", "--n", "20000")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(60) == cli.READER_GONE


def test_a_short_output_to_a_closed_pipe_is_no_noise(fake: Callable[..., "subprocess.Popen[str]"]) -> None:
    read, write = os.pipe()
    os.close(read)
    process = fake("fake", "--how", "lines", stdout=write)
    os.close(write)
    code, _, stderr = finish(process)
    assert (code, stderr) == (cli.READER_GONE, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_a_fault(fake: Callable[..., "subprocess.Popen[str]"]) -> None:
    with open("/dev/full", "w") as full:
        code, _, stderr = finish(fake("fake", "--how", "lines", stdout=full))
    assert (code, stderr) == (1, "Error: No space left on device\n")


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("matplotlib.pyplot", "pip install '.[analysis]'"),
        ("pyarrow", "pip install '.'"),
    ],
)
def test_a_missing_dependency_names_its_extra(
    fake: Callable[..., "subprocess.Popen[str]"], tmp_path: Path, module: str, hint: str
) -> None:
    block = f"""
        import importlib.abc, sys
        class Absent(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == {module.partition(".")[0]!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        sys.meta_path.insert(0, Absent())
        """
    (tmp_path / "fake_command.py").write_text(f"import {module}\n{COMMAND}")
    code, stdout, stderr = finish(fake("fake", before=block))
    assert (code, stdout) == (1, "")
    assert stderr.startswith(f"Error: this command needs {module.partition('.')[0]},")
    assert hint in stderr
    assert stderr.count("\n") == 1


def test_a_dependency_that_does_not_load_says_why(
    fake: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    (tmp_path / "fake_command.py").write_text('raise ImportError("too new", name="numba")')
    assert finish(fake("fake")) == (1, "", "Error: numba is installed but cannot be loaded: too new\n")


def test_options_are_taken_from_the_environment(
    fake: Callable[..., "subprocess.Popen[str]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASESTATION_FAKE_N", "3")
    assert finish(fake("fake", "--how", "lines"))[1].count("\n") == 3


# What the commands share


def test_examples_keep_their_lines() -> None:
    @click.command(epilog=common.example("\n    basestation a \\\n        --b\n\n    basestation c\n"))
    def command() -> None:
        """Do it."""

    shown = CliRunner().invoke(command, ["--help"]).output
    assert "Examples:\n\n    basestation a \\\n        --b\n\n    basestation c\n" in shown


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    tags: frozenset[str]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"a": float("nan"), "b": [float("inf"), -float("inf"), 1.5]}, '{"a": null, "b": [null, null, 1.5]}'),
        ({"a": np.float64("nan"), "b": np.int16(7), "c": np.float32(0.5)}, '{"a": null, "b": 7, "c": 0.5}'),
        ({"a": np.array([[1.0, np.nan]]), "b": np.bool_(True)}, '{"a": [[1.0, null]], "b": true}'),
        ({"a": b"\x01\xff", "b": (1, None, True)}, '{"a": "01ff", "b": [1, null, true]}'),
        ({"a": Colour.RED, "b": Level.HIGH}, '{"a": "red", "b": 3}'),
        (Point(1.0, frozenset({"q", "p"})), '{"x": 1.0, "tags": ["p", "q"]}'),
        ({1: Path("a"), "é": "line\nbreak"}, '{"1": "a", "\\u00e9": "line\\nbreak"}'),
        ({"a": (n for n in range(2))}, '{"a": [0, 1]}'),
    ],
)
def test_json_lines(value: object, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    common.emit_json(value)
    shown = capsys.readouterr().out
    assert shown == line + "\n"
    json.loads(shown, parse_constant=pytest.fail)


def test_json_refuses_what_it_cannot_say() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        common.emit_json({"a": object()})


def test_notes_go_to_stderr_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    common.note("kn[3] is [bold]not[/bold] markup " + "x" * 300)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "kn[3] is [bold]not[/bold] markup " + "x" * 300 + "\n"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error as a terminal whose text is kept, and a bar that appears at once."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    monkeypatch.setattr(common, "err", console)
    monkeypatch.setattr(bars, "SHOWN_AFTER", 0.01)
    return screen


def wait_for(screen: io.StringIO, text: str) -> None:
    wait_until(lambda: text in screen.getvalue(), screen.getvalue)


def test_progress_counts(terminal: io.StringIO) -> None:
    with bars.progress(10, "counting") as advance:
        advance()
        advance(4)
        wait_for(terminal, "counting")
        wait_for(terminal, "5/10")


def test_short_work_shows_no_progress(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "SHOWN_AFTER", 60.0)
    with bars.progress(1000, "walking") as advance:
        advance(1000)
    assert terminal.getvalue() == ""


def test_a_line_takes_the_place_of_a_bar_off_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = threading.Event()
    monkeypatch.setattr(common, "note", lambda text: (print(text, file=sys.stderr), shown.set()))
    monkeypatch.setattr(bars, "SHOWN_AFTER", 0.01)
    with bars.progress(3, "counting", "Counting to three.") as advance:
        assert shown.wait(60)
        advance(3)
    monkeypatch.setattr(bars, "SHOWN_AFTER", 60.0)
    with bars.progress(3, "counting", "Counting quickly."):
        pass
    assert capsys.readouterr() == ("", "Counting to three.\n")


def test_progress_ends_when_the_work_fails(terminal: io.StringIO) -> None:
    def work() -> None:
        with bars.progress(None, "counting"):
            wait_for(terminal, "counting")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is back


def test_a_closed_output_is_a_fault_and_a_closed_input_is_empty(root: Path) -> None:
    def shell(command: str) -> subprocess.CompletedProcess[str]:
        line = f"{sys.executable} -m basestation {command}"
        return subprocess.run(["bash", "-c", line], cwd=root, capture_output=True, text=True, check=False)

    closed = shell("demo --json >&-")
    assert closed.returncode == 1
    assert "standard output is closed" in closed.stderr
    assert "Traceback" not in shell("decode <&-").stderr


def test_an_interrupt_before_anything_is_loaded_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def interrupted(name: str, *args: object, **kwargs: object) -> object:
        if name == "basestation.cli":
            raise KeyboardInterrupt
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    from basestation.__main__ import main

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert main() == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_an_interrupt_in_nested_kernels_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(args: object) -> int:
        try:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                raise SystemError("a kernel") from error
        except SystemError as error:
            raise SystemError("the kernel that called it") from error

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main([]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"
