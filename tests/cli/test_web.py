"""`listen --web` and `replay --web` on the command line."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from basestation.cli.listen import command as listen
from basestation.cli.web_page import choose
from tests.waiting import PATIENCE

SIMULATE = "simulate@?messages=40&rate=0.05&pace=0"


@pytest.fixture(scope="module", autouse=True)
def extra(require_module: Callable[[str], ModuleType]) -> None:
    require_module("uvicorn")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--web", SIMULATE], 2, "put a SOURCE before --web"),
        ([SIMULATE, "--web", "localhost:x"], 2, "should be HOST, PORT or HOST:PORT"),
        (
            [SIMULATE, "--web", "180850"],
            2,
            "--web 180850: should be HOST, PORT or HOST:PORT, such as 127.0.0.1:",
        ),
        ([SIMULATE, "--web", "no.such.host.invalid"], 1, "no such host"),
        ([SIMULATE, "--web", "198.51.100.1"], 1, "--web: can't serve on 198.51.100.1: "),
        ([SIMULATE, "--web-control"], 2, "--web-control is for the page of --web"),
    ],
)
def test_bad_addresses_are_refused(root: Path, words: list[str], code: int, said: str) -> None:
    done = CliRunner().invoke(listen, [*words, "-d", str(root / "examples/micaz.toml")])
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            click.ClickException, match=f"can't serve on 127.0.0.1, port {port}: Address already"
        ):
            choose(f"127.0.0.1:{port}", control=False)


def test_without_a_port_any_free_one_will_do() -> None:
    first, second = choose("127.0.0.1", control=False), choose("127.0.0.1", control=False)
    with first.listening, second.listening:
        assert first.url != second.url
        assert first.access.token is second.access.token is None


def test_a_token_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSEWAY_WEB_TOKEN", "0123456789abcdef")
    chosen = choose("0.0.0.0:0", control=True)
    with chosen.listening:
        assert chosen.url.endswith("/?token=0123456789abcdef")
        assert "0.0.0.0" not in chosen.url
        assert chosen.access.control
    local = choose("127.0.0.1:0", control=True)
    with local.listening:
        assert local.access.token == "0123456789abcdef", "who asks for it gets it"
    monkeypatch.setenv("CAUSEWAY_WEB_TOKEN", "short")
    with pytest.raises(click.ClickException, match="at least 16 characters"):
        choose("0.0.0.0:0", control=False)


def test_serving_everywhere_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    for where, warned in (("0.0.0.0:0", True), ("[::]:0", True), ("127.0.0.1:0", False)):
        choose(where, control=False).listening.close()
        assert ("every machine on all networks" in capsys.readouterr().err) is warned


def test_without_the_extra_it_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(listen, [SIMULATE, "-d", str(root / "examples/micaz.toml"), "--web"])
    assert (done.exit_code, "pip install '.[web]'" in done.stderr) == (1, True)


def test_a_recorded_run_is_served_until_ctrl_c(root: Path, tmp_path: Path) -> None:
    said = ["-d", str(root / "examples/barrier.toml"), "--view", "none"]
    assert CliRunner().invoke(listen, [SIMULATE, *said, "--log", str(tmp_path)]).exit_code == 0
    words = [
        sys.executable,
        "-m",
        "basestation",
        "replay",
        str(tmp_path),
        "--view",
        "none",
        "--web",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=root
    ) as run:
        assert run.stderr is not None
        try:
            told = run.stderr.readline()
            assert told.startswith("the page is at http://127.0.0.1:"), told
            url = told.split()[-1]
            assert run.stderr.readline() == "the run is over; the page stays until Ctrl-C\n"
            with urllib.request.urlopen(f"{url}stream", timeout=PATIENCE) as stream:
                text = ""
                while not text.startswith("data: "):
                    text = stream.readline().decode()
                hello = json.loads(text.removeprefix("data: "))
            assert (hello["live"], hello["run"]) == (False, next(tmp_path.iterdir()).name)
            with urllib.request.urlopen(f"{url}rows", timeout=PATIENCE) as answer:
                assert len([row for row in json.load(answer)["rows"] if row["kind"] == "message"]) == 40
        finally:
            run.send_signal(signal.SIGINT)
        rest = run.stderr.read()
        assert run.wait(PATIENCE) == 0
    assert "40 messages from" in rest
    assert "Traceback" not in rest
