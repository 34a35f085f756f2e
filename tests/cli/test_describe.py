"""`basestation describe`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation import cli
from basestation.cli.describe import command, parts
from packet_formats.deployment import load
from packet_formats.layout import layout_of
from packet_formats.vectors import deployments


def test_json_of_the_paper(root: Path) -> None:
    result = CliRunner().invoke(command, ["--json", str(root / "examples" / "paper.toml")])
    assert result.exit_code == 0
    plain = json.loads(result.stdout)
    assert (plain["stamp_bits"], plain["stamp_bytes"], plain["payload_left"]) == (53, 7, 15)
    assert (plain["modulus"], plain["modulus_least"]) == (32, 31)
    assert (plain["tick_ms"], plain["epsilon_ms"], plain["delta_ms"]) == (3.90625, 39.0625, 39.0625)
    layout = layout_of(load(root / "examples" / "paper.toml"))
    assert (plain["am_type"], plain["hash"]) == (layout.am_type, layout.hash)
    assert sum(field["bits"] for field in plain["fields"]) == layout.length * 8


def test_every_bit_of_every_layout_is_in_one_part() -> None:
    for deployment in deployments():
        layout = layout_of(deployment)
        at = 0
        for part in parts(layout):
            assert part.offset == at
            at += part.bits
        assert at == layout.length * 8


def test_a_stamp_of_varying_length_moves_what_is_behind_it(root: Path, capsys) -> None:
    path = root / "examples" / "alarm.toml"
    assert cli.main(["describe", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "kind is at byte 5 after the shortest stamp; each item moves it by 1 byte, to byte 11" in said
    payload = bytes.fromhex("0102014060010101006400")  # no name in its stamp
    assert layout_of(load(path)).length - len(payload) == 11 - 5
    assert cli.main(["describe", str(root / "examples" / "paper.toml")]) == 0
    assert "shortest" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["paper", "mica2"])
def test_the_picture_shows_the_bits_in_place(
    root: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "examples" / f"{name}.toml"
    assert cli.main(["describe", str(path)]) == 0
    text, layout = capsys.readouterr().out, layout_of(load(path))
    assert f"{layout.length} of 29 bytes, {layout.left} left" in text
    assert f"{layout.am_type:#04x} in group 0x7d" in text
    picture = text.split("Bits of a data message")[1].splitlines()[1:]
    stamp_rows = [line for line in picture if line.startswith(f"{layout.stamp_at:>5} ")]
    assert len(stamp_rows) == 1
    assert stamp_rows[0].index("clock") < stamp_rows[0].rindex("|")
    rows = [line for line in picture if line.strip()]
    assert {len(line) for line in rows} == {len(rows[0])}
    assert len(rows[0]) < 80


def test_values_are_fields_with_their_meaning(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = {part.name: part for part in parts(layout_of(load(root / "examples" / "sensors.toml")))}
    assert fields["light"].meaning == "u16 in adc, read from the sensor light"
    assert fields["tilt"].meaning == "u16 * 0.01754 - 8.98 in g, read from the sensor accel_x"
    assert (fields["count"].meaning, fields["count"].bits) == ("u8", 8)
    assert "data" not in fields
    assert cli.main(["describe", str(root / "examples" / "sensors.toml")]) == 0
    assert "temperature" in capsys.readouterr().out.split("Bits of a data message")[1]


def test_a_wrong_deployment_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text(
        '[network]\nname="x"\nboard="micaz"\nmotes=3\n'
        '[clock]\ntick_log2=7\nepsilon=10\ndelta=20\nclock_bits=5\n[stamp]\nscheme="shlc"\n'
    )
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code == 1
    assert "clock.clock_bits = 5: B = 2^5 = 32 is below delta + 2*epsilon + 1 = 41" in result.stderr
    assert CliRunner().invoke(command, []).exit_code == 2
    missing = CliRunner().invoke(command, [str(tmp_path / "absent.toml")])
    assert (missing.exit_code, "No such file" in missing.stderr) == (1, True)


def test_motes_are_shown_with_their_names_and_places(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        (root / "examples/micaz.toml").read_text()
        + '\n[[mote]]\nid = 2\nname = "[red]well"\nx = 1.5\ny = -2\n'
    )
    assert cli.main(["describe", str(path)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "well" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["2", "[red]well", "1.5", "-2"]
    assert cli.main(["describe", "--json", str(path)]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["deployment"]["mote"] == [{"id": 2, "name": "[red]well", "x": 1.5, "y": -2}]
