"""The command ``basestation``: a group whose commands are imported only when they are called.

To add a command, write a module of this package with a click command named ``command``, and a line in ``COMMANDS``.

Exit codes: 0 good, 1 a fault, 2 wrong usage, 130 interrupted, 141 the reader of our output closed it.
"""

import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from basestation import __version__, how_to_install

FAULT = 1
INTERRUPTED = 128 + signal.SIGINT
READER_GONE = 128 + 13  # SIGPIPE, which Windows does not have

COMMANDS: dict[str, tuple[str, str]] = {
    "listen": ("basestation.cli.listen", "Watch a network live, in causal order."),
    "replay": ("basestation.cli.replay", "Play a log back, by the same policy or another."),
    "why": ("basestation.cli.why", "Show the causes of a message of a log, and why it was held."),
    "simulate": ("basestation.cli.simulate", "Run the paper's model of a network and measure the order."),
    "compare": (
        "basestation.cli.compare",
        "Compare our schemes with those of other papers, on the same events.",
    ),
    "plan": ("basestation.cli.plan", "Find the smallest stamp that is good enough for a network."),
    "describe": (
        "basestation.cli.describe",
        "Show a deployment's message layout, field by field and bit by bit.",
    ),
    "encode": ("basestation.cli.encode", "Turn JSON lines into frames."),
    "decode": ("basestation.cli.decode", "Turn frames, binary or hex, into JSON lines."),
    "log": ("basestation.cli.log", "Verify, repair, convert and sum up the logs of runs."),
    "analyse": ("basestation.cli.analyse", "Turn logs and traces into tables, figures and a recommendation."),
    "testbed": (
        "basestation.cli.testbed",
        "Run the real firmware on emulated motes, and report what really happened.",
    ),
    "send": ("basestation.cli.send", "Send a setting, or a message, down to motes."),
    "key": ("basestation.cli.key", "Make the key of a network whose messages have MICs."),
    "ports": ("basestation.cli.ports", "List the serial ports, and why one can't be opened."),
    "doctor": ("basestation.cli.doctor", "Check this machine, a deployment and a gateway's line."),
    "completion": (
        "basestation.cli.completion",
        "Print the script that lets a shell complete these commands.",
    ),
    "demo": (
        "basestation.cli.demo",
        "Run ten emulated motes, order their messages live, and show how much order each byte gains.",
    ),
}

# Which extra brings a module in; "" is the core.
PROVIDED_BY = {
    "construct": "",
    "numpy": "",
    "pyarrow": "",
    "rich": "",
    "serial": "",
    "textual": "",
    "duckdb": "analysis",
    "llvmlite": "analysis",
    "matplotlib": "analysis",
    "numba": "analysis",
    "pyspark": "spark",
    "cryptography": "security",
}


class SuggestingGroup(click.Group):
    """A group that suggests a command for a mistyped name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not ctx.resilient_parsing:
            from packet_formats.phrases import did_you_mean  # only now: `--help` needs only click

            if hint := did_you_mean(args[0], known):
                ctx.fail(f"no command is named {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """A group that imports a command only to run it. `modules` maps a name to a module and a one-line help."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*args, **{"invoke_without_command": True} | more)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        name = self.modules[cmd_name][0]
        command = importlib.import_module(name).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{name}.command is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.modules.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=line)
            for name, (_, line) in self.modules.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        "auto_envvar_prefix": "BASESTATION",
    },
)
@click.version_option(__version__, prog_name="basestation", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Watch a network of sensor motes in causal order.

    Results go to standard output, everything else to standard error.
    Every option can also be set in the environment, e.g. BASESTATION_SIMULATE_MOTES=50.
    """
    show_help_alone(ctx)


def show_help_alone(ctx: click.Context) -> None:
    """Show the help of a group that is called without a command."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _replace_closed_streams()
    if sys.stdout is None:
        _say("standard output is closed")
        return FAULT
    # A terminal may lack our arrows, and a file's name may not be text.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return READER_GONE
    except OSError as error:
        _say(_describe_os_error(error))
        _silence()
        return FAULT
    except MemoryError:
        _say("not enough memory for this: ask for less at a time")
        return FAULT
    except (click.Abort, KeyboardInterrupt, SystemError) as ended:
        # A compiled kernel turns an interrupt into a SystemError.
        if isinstance(ended, SystemError) and not _is_interrupt(ended):
            raise
        with contextlib.suppress(OSError):
            after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has just shown ^C
            click.echo(f"{after_echo}Interrupted.", err=True)
        return INTERRUPTED
    return code


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt caused the error, perhaps through several kernels."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


def _variable(error: click.ClickException) -> str | None:
    """The environment variable of a bad value; None if the value came from the command line."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return None
    source = error.ctx.get_parameter_source(error.param.name or "")
    variable = error.param.envvar
    return variable if source is ParameterSource.ENVIRONMENT and isinstance(variable, str) else None


def _run(args: Sequence[str] | None) -> int:
    """Do what ``cli.main`` does, but leave a broken pipe and an interrupt to ``main``."""
    if "_BASESTATION_COMPLETE" in os.environ:
        importlib.import_module("basestation.cli.completion")  # completes in bash better than click does
        cli.main(prog_name="basestation")  # the shell asks for completions
    try:
        with cli.make_context("basestation", list(sys.argv[1:] if args is None else args)) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        sys.stdout.flush()
        said = _Unfiltered()
        error.show(said)
        click.echo(_visible(said.getvalue()), nl=False, err=True)
        if variable := _variable(error):
            click.echo(f"The value comes from the environment: {variable}.", err=True)
        return error.exit_code
    except ImportError as error:
        message = _describe_import_error(error)
        if message is None:
            raise
        _say(message)
        return FAULT
    return 0


class _Unfiltered(io.StringIO):
    """Collects click's messages. It claims to be a terminal, so that click keeps escape sequences, which we show."""

    def isatty(self) -> bool:
        return True


def _describe_import_error(error: ImportError) -> str | None:
    """A line about a missing or broken dependency; None if the fault is in our own code."""
    name = (error.name or "").partition(".")[0]
    if name not in PROVIDED_BY:
        return None
    if not isinstance(error, ModuleNotFoundError):
        return f"{name} is installed but cannot be loaded: {error}"
    return f"this command needs {name}, which is not installed: {how_to_install(PROVIDED_BY[name])}"


def _describe_os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _visible(text: str) -> str:
    from packet_formats.phrases import visible  # only now: see `SuggestingGroup`

    return visible(text)


def _say(message: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(f"Error: {_visible(message)}", err=True)


def _replace_closed_streams() -> None:
    """Open the null device for a closed standard input or error output."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 (open until the end)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _silence() -> None:
    """Discard what is left in the buffers, so that the interpreter's last flush can't fail."""
    with open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere.fileno(), stream.fileno())
