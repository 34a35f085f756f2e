"""A network with a key from end to end: made, simulated, logged, replayed; and the key shows nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.cli.decode import command as decode
from basestation.cli.describe import command as describe
from basestation.cli.doctor import command as doctor
from basestation.cli.encode import command as encode
from basestation.cli.key import command as key
from basestation.cli.listen import command as listen
from basestation.cli.log import command as logs
from basestation.cli.replay import command as replay
from basestation.cli.send import command as send

SITE = """
[network]
name = "site"
board = "micaz"
motes = 5
[clock]
tick_log2 = 7
epsilon = 5
delta = 20
[stamp]
scheme = "shlc"
[security]
mic = 4
key = "site.key"
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site.toml").write_text(SITE)
    made = CliRunner().invoke(key, ["new", str(tmp_path / "site.key")])
    assert made.exit_code == 0, made.output
    return tmp_path


def test_a_key_is_made_once(site: Path) -> None:
    again = CliRunner().invoke(key, ["new", str(site / "site.key")])
    assert again.exit_code == 1
    assert "never overwritten" in again.output
    assert (site / "site.key").stat().st_mode & 0o777 == 0o600


def test_from_end_to_end_and_the_key_shows_nowhere(site: Path) -> None:
    run, shown = CliRunner(), []
    deployment, source = str(site / "site.toml"), "simulate@?messages=100&pace=0"
    logs = str(site / "logs")
    for command, words, said in (
        (listen, [source, "-d", deployment, "--log", logs, "--json"], "refused: 0 forged, 0 replayed"),
        (replay, [logs, "--view", "none"], "messages taken unchecked"),
        (replay, [logs, "--view", "none", "--key", str(site / "site.key")], "refused: 0 forged"),
        (describe, [deployment], "MIC of 4 bytes"),
        (describe, [deployment, "--json"], '"mic_bytes": 4'),
        (
            decode,
            ["-d", deployment, "--key", str(site / "site.key"), str(site / "frames.hex")],
            "MICs: 1 right",
        ),
    ):
        if command is decode:
            _capture(site)
        done = run.invoke(command, words)
        assert done.exit_code == 0, done.output
        assert said in done.output
        shown.append(done.output)
    secret = (site / "site.key").read_text().strip()
    files = [path for path in site.rglob("*") if path.is_file() and path.suffix != ".key"]
    assert files
    for text in [*(output.encode() for output in shown), *(path.read_bytes() for path in files)]:
        assert secret.encode() not in text.lower()
        assert bytes.fromhex(secret) not in text


def _capture(site: Path) -> None:
    """A health report of the network, in hex."""
    from packet_formats.deployment import load
    from packet_formats.framing import encode_frame
    from packet_formats.keys import read_key
    from packet_formats.layout import layout_of
    from packet_formats.records import Health
    from packet_formats.seal import Seal
    from packet_formats.tinyos import encode_packet

    layout = layout_of(load(site / "site.toml"))
    frame = Seal(read_key(site / "site.key"), layout).sealed_health(
        Health(1, 5, 1, 1, 1, layout.hash, *[0] * 8)
    )
    (site / "frames.hex").write_text(encode_frame(encode_packet(frame)).hex() + "\n")


def test_a_log_of_another_key_is_no_matter_of_motes_that_are_off(site: Path) -> None:
    deployment, logs = str(site / "site.toml"), site / "logs"
    listened = [f"simulate@{deployment}?messages=100&pace=0", "-d", deployment, "--log", str(logs), "--json"]
    assert CliRunner().invoke(listen, listened).exit_code == 0
    (site / "site.key").unlink()
    assert CliRunner().invoke(key, ["new", str(site / "site.key")]).exit_code == 0
    (run,) = logs.iterdir()
    done = CliRunner().invoke(doctor, [f"replay@{run}?pace=0", "-d", deployment, "--json"])
    found = {each["check"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert done.exit_code == 1
    assert (found["MIC"]["verdict"], " messages refused: the MIC is wrong" in found["MIC"]["text"]) == (
        "failure",
        True,
    )
    assert "the same key" in found["MIC"]["cure"]
    assert "key" in found["motes"]["cure"]
    assert "strangers" not in found


def test_encode_warns_of_messages_without_a_mic_alone(site: Path) -> None:
    _capture(site)
    deployment = str(site / "site.toml")
    decoded = CliRunner().invoke(decode, ["-d", deployment, str(site / "frames.hex"), "--json"]).stdout
    sealed = CliRunner().invoke(encode, ["-d", deployment], input=decoded)
    assert (sealed.exit_code, sealed.stderr) == (0, "")
    plain = json.loads(decoded)
    del plain["payload"], plain["length"], plain["message"]["mic"]
    bare = CliRunner().invoke(encode, ["-d", deployment], input=json.dumps(plain))
    assert (bare.exit_code, "1 message without a `mic` got one of zeros" in bare.stderr) == (0, True)


def test_a_key_that_others_may_read_ends_the_command(site: Path) -> None:
    (site / "site.key").chmod(0o644)
    for command in (listen, send):
        done = CliRunner().invoke(
            command, ["simulate@", *(["report"] if command is send else []), "-d", str(site / "site.toml")]
        )
        assert done.exit_code == 1
        assert "chmod 600" in done.output


def test_every_command_that_checks_takes_the_key_from_anywhere(site: Path) -> None:
    elsewhere = site / "safe"
    elsewhere.mkdir()
    given = ["--key", str((site / "site.key").rename(elsewhere / "the.key"))]
    deployment, log = ["-d", str(site / "site.toml")], str(site / "logs")
    source = "simulate@?messages=60&pace=0"
    # The simulated motes of simulate@ have the key that the station has.
    for command, words, said in (
        (
            listen,
            [source, *deployment, *given, "--log", log, "--view", "none"],
            "refused: 0 forged, 0 replayed",
        ),
        (listen, [source, *deployment], "No such file"),
        (doctor, [*deployment, *given, "--json"], "only its owner can read the key's file"),
        (send, ["report", *deployment], "No such file"),
        (logs, ["verify", RUN, "--again", *given], "0 differ"),
        (logs, ["verify", RUN, "--again"], "give the network's key by --key FILE"),
        (logs, ["decide", RUN, *given], "decisions made"),
        (logs, ["convert", RUN, "--to", "csv", *given], "`basestation log decide --key FILE` checks MICs"),
        (
            logs,
            ["convert", RUN, "--to", "html"],
            "the page shows forged messages, too: give the network's key",
        ),
    ):
        done = CliRunner().invoke(command, [_the_run(site) if word == RUN else word for word in words])
        assert said in done.output, done.output


def test_a_page_of_a_log_leaves_out_what_its_key_calls_forged(site: Path) -> None:
    given = ["-d", str(site / "site.toml")]
    source = "simulate@?messages=60&pace=0"
    assert CliRunner().invoke(listen, [source, *given, "--log", str(site / "logs")]).exit_code == 0
    other = CliRunner().invoke(key, ["new", str(site / "other.key")])
    assert other.exit_code == 0
    lengths = []
    for name in ("site.key", "other.key"):
        done = CliRunner().invoke(
            logs, ["convert", _the_run(site), "--to", "html", "--key", str(site / name)]
        )
        assert done.exit_code == 0, done.output
        lengths.append(len(done.stdout))
    assert lengths[0] > lengths[1]
    refused = CliRunner().invoke(logs, ["decide", _the_run(site), "--key", str(site / "other.key")])
    assert (refused.exit_code, "is it the network's key?" in refused.stderr) == (1, True)


RUN = "<run>"


def _the_run(site: Path) -> str:
    return str(next(path for path in (site / "logs").iterdir() if path.is_dir()))
