"""Text from outside never steers a terminal: names in logs, names of files, sources, values, errors."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import basestation
from basestation.arrivals import Arrival
from basestation.cli import common, main
from basestation.cli.log import command as log
from basestation.journal.writer import JournalWriter
from packet_formats.phrases import visible

HOSTILE = "\x1b]0;owned\x07\x1b[2Jhill\x9b31m\x7f\u202ered\r[link=http://x]here[/link] :smile:"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def hostile_log(tmp_path):
    folder = tmp_path / "run"
    with JournalWriter(folder, None, "run-1", site="hill", sources=[HOSTILE]) as journal:
        journal.append(Arrival(0, 1, 2, b"x"))
    return folder


@pytest.mark.parametrize("command", ["list", "summary", "verify"])
def test_names_in_a_log_do_not_reach_the_terminal_as_they_are(command, hostile_log):
    found = CliRunner().invoke(log, [command, str(hostile_log)])
    assert found.exit_code == 0
    assert not STEERING.search(found.output)


def test_markup_in_a_name_is_shown_as_it_is(hostile_log):
    found = CliRunner().invoke(log, ["summary", str(hostile_log)])
    assert "[link=" in found.output


@pytest.mark.parametrize(
    "words",
    [
        ["log", "list", "/nowhere/\x1b[2J"],
        ["decode", "/nowhere/\x1b[2J"],
        ["describe", "/nowhere/\x1b[2J"],
        ["listen", "nothing\x1b[2J", "-d", "examples/micaz.toml"],
        ["listen", "nothing\x1b[2J@x", "-d", "examples/micaz.toml"],
        ["analyse", "links", "/nowhere/\x1b[2J"],
        ["\x1b[2J"],
    ],
)
def test_errors_do_not_hand_on_what_steers_a_terminal(words, capsys):
    assert main(words) in (1, 2)
    said = capsys.readouterr().err
    assert "[2J" in said
    assert not STEERING.search(said)


def test_notes_are_cleaned_and_our_own_styles_stay():
    console = common._Console(force_terminal=True, color_system="standard", highlight=False, markup=False)
    with console.capture() as captured:
        console.print(HOSTILE, style="red")
    assert captured.get().startswith("\x1b[31m")
    assert captured.get().count("\x1b") == 2


def test_text_keeps_its_lines_its_letters_and_its_length():
    assert visible("a\tb\nμ ∥ ↑ 水 😀") == "a\tb\nμ ∥ ↑ 水 😀"
    assert len(visible(HOSTILE)) == len(HOSTILE)


def test_one_place_prints_for_people():
    """Commands print by `common`. The exceptions print JSON or fixed words, or clean their text."""
    own = re.compile(r"(?<![\w.])print\((?!visible|json)|click\.echo\(")
    allowed = {"cli/common.py", "cli/__init__.py", "cli/completion.py", "cli/encode.py", "__main__.py"}
    root = Path(basestation.__file__).parent
    found = {
        str(path.relative_to(root))
        for part in ("cli", "views", "web", "outputs", "live", "serving", "sources", "journal")
        for path in (root / part).rglob("*.py")
        if own.search(path.read_text())
    }
    assert found <= allowed
