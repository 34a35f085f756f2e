"""`basestation encode`, and the round trip with `decode`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from basestation.cli import decode
from basestation.cli.encode import command
from packet_formats.deployment import from_dict
from packet_formats.framing import encode_frame
from packet_formats.tinyos import Ack, ActiveMessage, encode_packet
from packet_formats.vectors import render
from tests.packet_formats.strategies import packets


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(command, list(arguments), input=stdin)


@given(st.lists(packets(), min_size=1, max_size=5))
def test_decode_and_encode_are_inverse(sent: list[ActiveMessage | Ack]) -> None:
    line = b"".join(encode_frame(encode_packet(packet)) for packet in sent)
    read = CliRunner().invoke(decode.command, ["--json", "--format", "serial"], input=line)
    assert read.exit_code == 0
    assert run("--format", "binary", stdin=read.stdout).stdout_bytes == line
    assert bytes.fromhex(run(stdin=read.stdout).stdout) == line


def test_every_golden_message_is_encoded_from_its_fields_alone(tmp_path: Path) -> None:
    for entry in json.loads(render())["layouts"]:
        path = tmp_path / "d.toml"
        path.write_text(from_dict(entry["deployment"]).to_toml())
        motes = entry["deployment"]["network"]["motes"]
        data = [vector for vector in entry["messages"] if vector["message"]["name"] == "data"]
        strange = [vector for vector in data if vector["message"]["source"] >= motes]
        vectors = [vector for vector in entry["messages"] if vector not in strange]
        lines = "\n".join(json.dumps({"message": vector["message"]}) for vector in vectors)
        result = run("--deployment", str(path), stdin=lines)
        assert result.exit_code == 0, result.output
        assert result.stdout.replace(" ", "").split() == [vector["frame"] for vector in vectors]
        for vector in strange:
            result = run("--deployment", str(path), stdin=json.dumps({"message": vector["message"]}))
            assert (result.exit_code, "is no mote of this deployment" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"type": 4, "gro', "line 2: not a JSON object: Invalid control character"),
        ('{"type" 4}', "line 2: not a JSON object: Expecting ':' delimiter at column 9"),
        ("[1]", "line 2: not an object"),
        ('{"type": 4}', "line 2: payload is missing"),
        ('{"type": 4, "group": 1, "payload": "0"}', "line 2: payload = '0' must be hex digits"),
        ('{"type": 4, "grp": 1, "payload": ""}', "line 2: a packet has no key 'grp'; did you mean group?"),
        ('{"type": 4, "colour": 1}', "line 2: a packet has no key 'colour'; known: tinyos, "),
        ('{"type": 300, "group": 1, "payload": ""}', "line 2: type = 300"),
        (json.dumps({"type": 4, "group": 1, "payload": "00" * 30}), "line 2: 30 data bytes, over the 29"),
        ('{"message": {"name": "beacon"}}', "line 2: a message without a payload needs the deployment"),
        ("[" * 100000, "line 2: "),
    ],
)
def test_a_bad_line_is_named_and_ends_the_command(line: str, reason: str) -> None:
    good = '{"type": 4, "group": 125, "payload": "04000100"}'
    result = run(stdin=f"{good}\n{line}\n{good}\n")
    assert result.exit_code == 1
    assert result.stdout == "7e 42 ff ff 04 7d 5d 04 04 00 01 00 3d 0e 7e\n"
    assert reason in result.stderr


def test_blank_lines_and_nothing_are_fine() -> None:
    assert (run(stdin="\n\n").exit_code, run(stdin="").stdout) == (0, "")


def test_faults_and_usage(tmp_path: Path) -> None:
    result = run(str(tmp_path / "absent.jsonl"))
    assert (result.exit_code, "absent.jsonl: No such file" in result.stderr) == (1, True)
    assert run("--deployment", str(tmp_path / "absent.toml")).exit_code == 1
    assert "basestation decode --json capture.bin | basestation encode" in run("--help").stdout
