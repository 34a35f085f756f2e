"""docs/reference/formats.md says what the code does."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.cli.encode import command
from packet_formats.records import RECORDS, Proof, members, size


@pytest.fixture(scope="module")
def document(root: Path) -> str:
    return (root / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")


def test_the_worked_example_is_what_the_command_prints(document: str, root: Path) -> None:
    found = re.search(
        r"\$ cat message.json\n +(.*)\n +\$ basestation encode (.*) message.json\n +(.*)\n", document
    )
    assert found is not None
    line, options, frame = found.groups()
    arguments = [str(root / word) if word.endswith(".toml") else word for word in options.split()]
    result = CliRunner().invoke(command, arguments, input=line)
    assert (result.exit_code, result.stdout.strip()) == (0, frame)


def test_the_example_is_explained_byte_by_byte(document: str) -> None:
    table = document.split("| bytes | meaning |\n|---|---|\n")[1].split("\n\n")[0]
    explained = " ".join(row.split("|")[1].strip() for row in table.splitlines())
    frame = re.search(r"\n +(7e 42 .* 7e)\n", document)
    assert frame is not None
    assert explained.replace("01 ... 08", "01 02 03 04 05 06 07 08") == frame[1]


def test_every_member_has_its_row(document: str) -> None:
    for record in (*RECORDS, Proof):
        title = f"### {record.__name__}: AM type {record.AM_TYPE:#04x}, {size(record)} bytes\n"
        section = document.split(title)[1].split("\n##")[0]
        own = [m for m in members(record) if m.doc != "as the first"]  # those share a row
        rows = [f"| {m.offset} | {m.type} | {m.name} | {m.doc} |" for m in own]
        assert [row for row in section.splitlines() if re.match(r"\| \d+ \|", row)] == rows
