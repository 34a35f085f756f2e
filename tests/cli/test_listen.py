"""`basestation listen` and `basestation replay`, from the command line to the last line."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from basestation.cli import live_options, main
from basestation.cli.listen import command as listen
from basestation.cli.log import command as log
from basestation.cli.network_options import served_at
from basestation.cli.replay import command as replay
from basestation.cli.send import command as send
from basestation.live.happenings import Note
from packet_formats.framing import encode_frame
from tests.journal.disks import REASON, FullDisk
from tests.live.test_runner import recorded
from tests.live.world import deployment

SIMULATE = "simulate@?messages=60&rate=0.05&pace=0"


@pytest.fixture
def here(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a deployment in it, and nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("CAUSEWAY_", "BASESTATION_", "MOTECOM")):
            monkeypatch.delenv(name)
    (tmp_path / "net.toml").write_text((root / "examples/micaz.toml").read_text())
    return tmp_path


def invoke(command, *words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


def delivered(output: str) -> list[tuple[object, ...]]:
    """What came out, message for message."""
    found = [json.loads(line) for line in output.splitlines()]
    return [
        (*item["name"].values(), item["arrived"], item["left"], item["late"], item["place"])
        for item in found
        if item["event"] == "delivered"
    ]


def test_lines_and_a_summary(here):
    done = invoke(listen, SIMULATE, "-d", "net.toml")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 60
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}  deliver", line) for line in lines)
    assert "\x1b" not in done.stdout
    assert "60 messages from" in done.stderr
    assert "arrival order: at least" in done.stderr
    assert "delivered by cbd, phi 100%: no message is known to be out of causal order" in done.stderr


def test_a_log_delivers_again_what_was_delivered(here):
    live = invoke(listen, SIMULATE, "-d", "net.toml", "--log", "logs", "--json")
    assert live.exit_code == 0, live.stderr
    again = invoke(replay, "logs", "--json")
    assert again.exit_code == 0, again.stderr
    assert len(delivered(live.stdout)) == 60
    assert delivered(again.stdout) == delivered(live.stdout)
    (run,) = Path("logs").iterdir()
    assert f"the log is in logs/{run.name}" in live.stderr
    other = invoke(replay, str(run), "--policy", "none", "--json")
    assert [row[:3] for row in delivered(other.stdout)] != [row[:3] for row in delivered(live.stdout)]


def test_a_wrong_deployment_is_one_verdict(here):
    """Not a line for each packet, and no word on the order of nothing."""
    (here / "other.toml").write_text(deployment().to_toml())
    done = invoke(listen, SIMULATE.replace("@", "@other.toml"), "-d", "net.toml", "--log", "logs")
    assert done.exit_code == 1
    assert 0 < len(done.stdout.splitlines()) < 8
    assert "Error: no message of this deployment came, but 60 packets of another layout" in done.stderr
    assert "causal order" not in done.stderr
    assert "no message, 0 delivered; " in done.stderr
    again = invoke(replay, "logs", "--view", "none")
    assert (again.exit_code, "is it the right deployment?" in again.stderr) == (1, True)


def test_live_in_real_time_the_log_delivers_the_same(here):
    source = "simulate@?messages=100&rate=0.01&pace=2"
    live = invoke(listen, source, "-d", "net.toml", "--log", "logs", "--json", "--sync", "never")
    assert live.exit_code == 0, live.stderr
    again = invoke(replay, "logs", "--json")
    assert len(delivered(live.stdout)) > 90
    assert delivered(again.stdout) == delivered(live.stdout)


def test_a_log_knows_how_its_run_was_started(here):
    """Another policy and allowance than the deployment's: a replay takes them, unless others are given."""
    words = SIMULATE, "-d", "net.toml", "--json", "--policy", "dapw", "--phi", "5", "--allowance", "3.3"
    live = invoke(listen, *words, "--log", "logs")
    plain = invoke(listen, *words[:-4])
    assert delivered(invoke(replay, "logs", "--json").stdout) == delivered(live.stdout)
    assert delivered(live.stdout) != delivered(plain.stdout)
    for said in (("--phi", "100"), ("--policy", "cbd"), ("--deployment", "net.toml")):
        done = invoke(replay, "logs", "--view", "none", *said)
        assert "dapw, phi 5%" not in done.stderr
        assert done.exit_code == 0


def test_a_tolerance_is_in_the_log_and_the_summary_tells_what_was_spent(here):
    words = SIMULATE, "-d", "net.toml", "--tolerate", "20"
    live = invoke(listen, *words, "--json", "--log", "logs")
    assert live.exit_code == 0, live.stderr
    assert delivered(live.stdout) != delivered(invoke(listen, *words[:-2], "--json").stdout)
    again = invoke(replay, "logs", "--json")
    assert delivered(again.stdout) == delivered(live.stdout)
    for done in (live, again):
        assert "delivered by ledger, tolerate 20%" in done.stderr
        assert re.search(r"the ledger waits \d+ of \d+ ms, saw \d+ messages? in a violation, \d", done.stderr)
    assert invoke(replay, "logs", "--tolerate", "0", "--json").exit_code == 0
    wrong = invoke(listen, SIMULATE, "-d", "net.toml", "--policy", "cbd", "--tolerate", "1")
    assert wrong.exit_code == 2
    assert "--tolerate is for the policy ledger" in wrong.stderr


def test_a_phi_is_refused_where_the_policy_has_none(here, monkeypatch):
    live = SIMULATE, "-d", "net.toml", "--view", "none"
    assert invoke(listen, *live, "--policy", "none", "--log", "logs").exit_code == 0
    for command, words in (
        (listen, (*live, "--policy", "none")),
        (listen, (*live, "--policy", "sequence")),
        (listen, (*live, "--tolerate", "1")),
        (replay, ("logs",)),
        (replay, ("logs", "--policy", "causal")),
    ):
        wrong = invoke(command, *words, "--phi", "40")
        assert wrong.exit_code == 2
        assert re.search(r"--phi 40: policy \w+ .*; dapw and cbd take any phi", wrong.stderr)
        assert invoke(command, *words).exit_code == 0
    monkeypatch.setenv("CAUSEWAY_PHI", "40")
    assert invoke(replay, "logs", "--view", "none").exit_code == 0


def test_a_bad_value_of_the_environment_is_told_apart(here, monkeypatch, capsys):
    monkeypatch.setenv("CAUSEWAY_PHI", "abc")
    assert main(["listen", SIMULATE, "-d", "net.toml"]) == 2
    said = capsys.readouterr().err
    assert (
        "'abc' is not a whole number, 0 to 100\nThe value comes from the environment: CAUSEWAY_PHI." in said
    )
    assert main(["listen", SIMULATE, "-d", "net.toml", "--phi", "x"]) == 2
    assert "environment" not in capsys.readouterr().err


def test_final_prints_final_rows_alone(here, monkeypatch):
    def rows(command, *words: str) -> list[list[str]]:
        done = invoke(command, *words)
        assert done.exit_code == 0, done.stderr
        return [line.split()[1:] for line in done.stdout.splitlines()]

    source = "simulate@?messages=200&rate=0.05&loss=0.1&pace=0"
    both = rows(listen, source, "-d", "net.toml", "--policy", "sequence", "--log", "logs")
    final = [row for row in both if row[0] != "tentative"]
    assert len(both) > len(final) > 150
    assert rows(listen, source, "-d", "net.toml", "--policy", "sequence", "--final") == final
    assert rows(replay, "logs") == both
    monkeypatch.setenv("CAUSEWAY_FINAL", "1")
    assert rows(replay, "logs") == final


def test_flags_beat_the_environment_which_beats_the_file(here, monkeypatch):
    def policy(*words: str) -> str:
        done = invoke(listen, SIMULATE, "-d", "net.toml", "--view", "none", *words)
        assert done.exit_code == 0, done.stderr
        assert not done.stdout
        return re.search(r"delivered by (.*?):", done.stderr)[1]

    assert policy() == "cbd, phi 100%"
    monkeypatch.setenv("CAUSEWAY_POLICY", "dapw")
    monkeypatch.setenv("CAUSEWAY_PHI", "40")
    assert policy() == "dapw, phi 40%"
    assert policy("--policy", "cbd", "--phi", "7") == "cbd, phi 7%"
    assert policy("--policy", "none") == "none", "it has no phi to show"


def test_the_source_comes_from_motecom_and_the_deployment_from_the_environment_or_the_folder(
    here, monkeypatch
):
    monkeypatch.setenv("MOTECOM", SIMULATE)
    monkeypatch.setenv("CAUSEWAY_DEPLOYMENT", "net.toml")
    done = invoke(listen, "--view", "none")
    assert done.exit_code == 0, done.stderr
    assert "MOTECOM says simulate@" in done.stderr
    monkeypatch.delenv("CAUSEWAY_DEPLOYMENT")
    Path("net.toml").rename("deployment.toml")
    done = invoke(listen, "--view", "none")
    assert done.exit_code == 0, done.stderr
    assert "using deployment.toml" in done.stderr


def lay_here(source):
    text = Path("net.toml").read_text()
    Path("deployment.toml").write_text(text.replace("[observer]", f'[observer]\nsource = "{source}"'))


def test_a_deployment_found_here_names_no_source_that_writes_or_runs(here, monkeypatch):
    """A stranger may have put it into the folder. A user who names it knows what it says."""
    monkeypatch.setattr(
        "basestation.sources.testbed_source.COMMAND", (sys.executable, "-c", "open('started', 'w')")
    )
    lay_here(SIMULATE)
    assert invoke(listen, "--view", "none").exit_code == 0
    lay_here("testbed@?pcap=written")
    for command, words in ((listen, ["--view", "none"]), (send, ["report"])):
        done = invoke(command, *words)
        assert done.exit_code == 1
        assert "in this folder names the source" in done.stderr
        assert "--deployment deployment.toml" in done.stderr
        assert not Path("started").exists()
    invoke(listen, "--view", "none", "-d", "deployment.toml")
    assert Path("started").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([SIMULATE], 2, "which network?"),
        (["smoke@x", "-d", "net.toml"], 2, "no kind of source"),
        ([*(257 * [SIMULATE]), "-d", "net.toml"], 1, "257 sources"),
        (["serial@/dev/nothing-here", "-d", "net.toml"], 1, "nothing-here"),
        ([SIMULATE, "-d", "missing.toml"], 1, "missing.toml"),
        ([SIMULATE, "-d", "net.toml", "--phi", "101"], 2, "phi"),
        ([SIMULATE, "-d", "net.toml", "--view", "terminal"], 2, "needs a terminal"),
        ([SIMULATE, "-d", "net.toml", "--view", "terminal", "--json"], 2, "choose one"),
        ([SIMULATE, "-d", "net.toml", "--serve", "localhost:x"], 2, "HOST:PORT"),
        ([SIMULATE, "-d", "net.toml", "--serve", "localhost:" + 5000 * "9"], 2, "HOST:PORT"),
        (
            [SIMULATE, "-d", "net.toml", "--serve", "99999"],
            2,
            "--serve 99999: should be HOST, PORT or HOST:PORT",
        ),
        (
            [SIMULATE, "-d", "net.toml", "--metrics", "99999"],
            2,
            "--metrics 99999: should be HOST, PORT or HOST:PORT",
        ),
        ([SIMULATE, "-d", "net.toml", "--serve", "..:1"], 1, "can't serve on .."),
        ([SIMULATE, "-d", "net.toml", "--for", "1e308"], 2, "--for"),
    ],
)
def test_what_is_wrong_is_said_on_standard_error(here, words, code, said):
    done = invoke(listen, *words)
    assert done.exit_code == code
    assert said in done.stderr
    assert not done.stdout


def test_replay_says_what_is_wrong(here):
    assert "no such folder" in invoke(replay, "nowhere").stderr
    Path("empty").mkdir()
    done = invoke(replay, "empty")
    assert done.exit_code == 1
    assert "no run in it" in done.stderr
    for _ in range(2):
        invoke(listen, SIMULATE, "-d", "net.toml", "--log", "logs", "--view", "none")
    assert "holds 2 runs, name one" in invoke(replay, "logs").stderr


def raw_line(folder: Path) -> Path:
    """A deployment, and what its gateway put on the line, as a capture."""
    setup = deployment(policy="cbd", phi=100)
    (folder / "own.toml").write_text(setup.to_toml())
    capture = folder / "line.bin"
    capture.write_bytes(b"".join(encode_frame(line.packet) for line in recorded(30)))
    return capture


def test_what_a_source_says_reaches_the_views(here, monkeypatch):
    """On the full screen, standard error is not seen."""
    capture, happenings = raw_line(here), []
    capture.write_bytes(gzip.compress(capture.read_bytes())[:-9])
    view = SimpleNamespace(take=happenings.append, close=lambda: None)
    monkeypatch.setattr(live_options, "views", lambda *_: [view])
    assert invoke(listen, "replay@line.bin?pace=0", "-d", "own.toml").exit_code == 0
    notes = [happening.text for happening in happenings if isinstance(happening, Note)]
    assert [note for note in notes if "gzip" in note], notes


def start(*words: str, encoding: str = "utf-8") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "basestation", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONIOENCODING": encoding},
    )


def test_ctrl_c_ends_it_cleanly_with_a_summary(here):
    process = start("listen", "simulate@?messages=1000&rate=0.02&pace=1", "-d", "net.toml", "--log", "logs")
    first = process.stdout.readline()
    assert "deliver" in first
    process.send_signal(signal.SIGINT)
    out, err = process.stdout.read(), process.stderr.read()  # `communicate` forgets what was read ahead
    assert process.wait(timeout=120) == 0, err
    process.stdout.close()
    process.stderr.close()
    assert "messages from" in err
    assert "Traceback" not in err
    again = invoke(replay, "logs")
    assert names(again.stdout) == names(first + out)


def test_a_disk_that_is_full_is_told_of_and_what_could_not_be_written_is_counted(here):
    """Deliveries go on, the log keeps what it has, the run says how many records it lacks, and `verify` why."""
    words = "simulate@?messages=150&rate=0.05&pace=0", "-d", "net.toml", "--json"
    with FullDisk(here / "logs", 20_000):
        done = invoke(listen, *words, "--log", "logs")
    assert done.exit_code == 1
    count = len(delivered(done.stdout))
    assert count == len(delivered(invoke(listen, *words).stdout))
    assert "not everything is in the log" in done.stderr
    lost = int(re.search(r"Error: (\d+) records could not be written to the log", done.stderr)[1])
    (run,) = Path("logs").iterdir()
    kept = invoke(log, "convert", "--to", "ndjson", str(run)).stdout.count('"kind": "frame"')
    assert 0 <= kept + lost - 2 * count <= 2  # of the last frame's clock and of the line's counters, too
    verified = invoke(log, "verify", str(run))
    assert verified.exit_code == 1
    assert f"closed: {lost} records missing" in verified.stdout
    assert REASON in verified.stdout


def test_ctrl_c_does_not_wait_for_a_pipe_that_stays_empty(here):
    os.mkfifo("pipe")
    process = start("listen", "replay@pipe", "-d", "net.toml", "--serve", "127.0.0.1:0")
    assert "serving" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_whoever_is_patient_waits_for_a_source(here):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = "listen", f"network@127.0.0.1:{port}", "-d", "net.toml"
    assert "refused" in start(*words).communicate(timeout=120)[1]
    process = start(*words, "--patient")
    assert "is lost: " in process.stdout.readline()
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(120)
        server.accept()
        assert "is back" in "".join(process.stdout.readline() for _ in range(2))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 0


def names(output: str) -> list[str]:
    """The messages delivered: the third word of such a line."""
    return [line.split()[2] for line in output.splitlines() if line.split()[1] == "deliver"]


def test_names_that_are_no_text_and_a_terminal_without_arrows(here):
    """A run whose source and folder are not UTF-8 is logged, summed up and played back as any other."""
    odd = os.fsdecode(b"n\xff")
    (here / f"{odd}.toml").write_text(Path("net.toml").read_text())
    words = f"simulate@{odd}.toml?messages=60&rate=0.05&pace=0", "-d", "net.toml", "--log", odd
    assert "\\u2191" in said(start("listen", *words, encoding="ascii"))
    (run,) = (here / odd).iterdir()
    assert "\\u2191" in said(start("replay", odd, encoding="ascii"))
    assert "n\\udcff" in said(start("log", "verify", odd))
    assert "n\\udcff" in said(start("log", "summary", str(run)))
    for form in ("csv", "ndjson"):
        done = invoke(log, "convert", "--to", form, str(run))
        assert done.exit_code == 0, done.stderr
        assert done.stdout
    assert list((run / "messages").iterdir())


def said(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_a_reader_that_goes_away_ends_it_with_the_codes_of_pipes(here):
    process = start("listen", "simulate@?messages=1000&rate=0.02&pace=1", "-d", "net.toml", "--json")
    assert process.stdout.readline()
    process.stdout.close()
    _, err = process.stderr.read(), process.wait(timeout=120)
    assert process.returncode == 141, err


def test_it_serves_what_it_hears(here):
    raw_line(here)
    server = start(
        "listen",
        "simulate@?messages=1000&rate=0.02&pace=1",
        "-d",
        "own.toml",
        "--serve",
        "127.0.0.1:0",
        "--view",
        "none",
    )
    try:
        port = re.search(r"port (\d+) for TinyOS 1", server.stderr.readline())[1]
        client = start("listen", f"sf@127.0.0.1:{port}", "-d", "own.toml", "--json")
        assert any(delivered(line) for line in client.stdout)
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=120)
        assert client.returncode == 0
    finally:
        server.send_signal(signal.SIGINT)
        _, chatter = server.communicate(timeout=120)
    assert re.search(r"served 1 client: \d+ messages? to them, 0 from them sent, 0 refused", chatter)


def test_where_to_serve():
    """One rule for --web, --metrics and --serve: a number is a port of this machine."""
    for where, meant in (
        ("", ("127.0.0.1", None)),
        ("18085", ("127.0.0.1", 18085)),
        ("0.0.0.0", ("0.0.0.0", None)),
        ("[::1]:7", ("::1", 7)),
    ):
        assert served_at("--web", where) == meant
