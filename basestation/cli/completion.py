"""`basestation completion`: the script for a shell, and the completion of sources and deployments."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from basestation.cli import common

VARIABLE = "_BASESTATION_COMPLETE"

WHERE = {
    "bash": "~/.local/share/bash-completion/completions/basestation",
    "zsh": "a folder of $fpath, as _basestation",
    "fish": "~/.config/fish/completions/basestation.fish",
}

STARTS = {
    "serial@": "a gateway's serial port",
    "network@": "a serial line over TCP, such as a MIB600's",
    "sf@localhost:9001": "a serial forwarder of TinyOS 1",
    "sf@localhost:9002": "a serial forwarder of TinyOS 2",
    "replay@": "a log, or a capture",
    "simulate@": "the paper's model of a network",
    "testbed@": "emulated motes",
}


@click.command(
    epilog=common.example(
        """
        basestation completion bash > ~/.local/share/bash-completion/completions/basestation
        echo 'eval "$(basestation completion zsh)"' >> ~/.zshrc
        basestation completion fish > ~/.config/fish/completions/basestation.fish
        """
    )
)
@click.argument("shell", required=False, type=click.Choice(list(WHERE)), metavar="[bash|zsh|fish]")
def command(shell: str | None) -> None:
    """Print the script that lets a shell complete commands, options, sources, ports and deployments.

    Without an argument, it prints the script for the shell that $SHELL names.
    """
    from basestation.cli import cli

    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in WHERE:
        raise click.UsageError(f"which shell? $SHELL is none of {', '.join(WHERE)}")
    found = get_completion_class(name)
    assert found is not None
    click.echo(found(cli, {}, "basestation", VARIABLE).source())
    if sys.stdout.isatty():
        common.note(f"To keep it: save the above to {WHERE[name]}, then open a new shell.")


@add_completion_class
class WholeWords(BashComplete):
    """Completion for bash, which splits serial@/dev/ttyUSB1 into several words and inserts only the last one."""

    source_template = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" response type value
    local word="${line##*[[:space:]]}" breaks="${COMP_WORDBREAKS//[^@:=]/}" typed=""
    [[ $breaks ]] && typed="${word%%"${word##*[$breaks]}"}"
    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete $1)
    COMPREPLY=()
    while IFS=, read -r type value; do
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == plain ]]; then
            [[ $value == *[/@:] ]] && compopt -o nospace
            COMPREPLY+=("${value#"$typed"}")
        fi
    done <<< "$response"
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], incomplete


def complete_source(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the kinds of sources, the attached ports, and files for sources that read a file."""
    from basestation.sources import plugged_in

    kind, at, rest = incomplete.partition("@")
    if at and kind == "serial":
        found = _ports(rest)
    elif at and kind == "replay":
        found = _items(f"replay@{path}" for path in paths(rest))
    elif at and kind in ("simulate", "testbed"):
        found = _items(f"{kind}@{path}" for path in paths(rest, ".toml"))
    else:
        found = [*_ports(""), *(CompletionItem(start, help=what) for start, what in STARTS.items())]
        found += _items(f"{entry.name}@" for entry in plugged_in())
    return [item for item in found if item.value.startswith(incomplete)]


def complete_deployment(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _items(paths(incomplete, ".toml"))


def paths(incomplete: str, suffix: str = "") -> list[str]:
    """The files that end in `suffix`, and the folders."""
    folder, name = os.path.split(incomplete)
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(os.path.expanduser(folder) or "."):
            hidden = entry.name.startswith(".") and not name
            if not entry.name.startswith(name) or hidden:
                continue
            if entry.is_dir():
                found.append(os.path.join(folder, entry.name, ""))
            elif entry.name.endswith(suffix):
                found.append(os.path.join(folder, entry.name))
    return sorted(found)


def _ports(incomplete: str) -> list[CompletionItem]:
    from basestation.sources import attached_ports
    from basestation.sources.serial import BAUD

    found = sorted(attached_ports.attached(), key=lambda port: (-port.rank, port.device))
    named = [CompletionItem(f"serial@{port.device}", help=port.board or port.description) for port in found]
    device, colon, _ = incomplete.rpartition(":")
    return named + (_items(f"serial@{device}:{platform}" for platform in BAUD) if colon else [])


def _items(values: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(value) for value in values]
