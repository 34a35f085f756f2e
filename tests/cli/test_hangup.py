"""A terminal that closes, SIGHUP and SIGTERM end a run as Ctrl-C does, whatever it shows: its log is closed."""

import fcntl
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.cli.listen import command as listen
from basestation.cli.log import command as log
from basestation.cli.output_options import Voice
from tests.waiting import PATIENCE

VIEWS = {"terminal": b"deliveries", "lines": b"deliver", "none": b"serving on"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class OnTerminal:
    """`listen` on a terminal of its own, whose other end is ours."""

    def __init__(self, folder: Path, toml: Path, view: str, port: int, ignored: int = 0) -> None:
        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if ignored:
                signal.signal(ignored, signal.SIG_IGN)

        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x18\x00\x50\x00\x00\x00\x00\x00")  # 24 lines of 80
        words = ["simulate@?messages=5000&rate=0.02&pace=1", "-d", toml, "--log", folder, "--view", view]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "basestation", "listen", *words, "--serve", f"127.0.0.1:{port}"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 (no other thread of ours holds a lock that it needs)
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm-256color"},
        )
        os.close(slave)

    def read_until(self, text: bytes) -> None:
        """Read what the terminal shows until this text, or the end of the process if there is none."""
        shown, end = b"", time.monotonic() + PATIENCE
        while text not in shown if text else self.process.poll() is None:
            assert time.monotonic() < end, (
                f"not within {PATIENCE} s: {text or 'its end'} in {shown[-2000:]!r}"
            )
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    shown += os.read(self._master, 65536)
                except OSError:  # nobody has the other end any more
                    self.process.wait(PATIENCE)

    def close(self) -> None:
        os.close(self._master)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.few(2)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("end", ["close", signal.SIGHUP, signal.SIGTERM, signal.SIGINT], ids=str)
def test_it_ends_in_order(tmp_path, root, view, end):
    port = free_port()
    shown = OnTerminal(tmp_path, root / "examples/micaz.toml", view, port)
    try:
        shown.read_until(VIEWS[view])
        if end == "close":
            shown.close()
        else:
            shown.process.send_signal(end)
            shown.read_until(b"")
        assert shown.process.wait(PATIENCE) == 0
    finally:
        shown.kill()
    check_closed(tmp_path)
    socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.parametrize(("view", "ignored"), [("terminal", signal.SIGHUP), ("none", signal.SIGINT)])
def test_an_ignored_signal_does_not_keep_it(tmp_path, root, view, ignored):
    """No screen outlives its terminal, even without SIGHUP. A script's shell ignores SIGINT for its background."""
    shown = OnTerminal(tmp_path, root / "examples/micaz.toml", view, free_port(), ignored)
    try:
        shown.read_until(VIEWS[view])
        if view == "terminal":
            shown.close()
        else:
            shown.process.send_signal(signal.SIGINT)
            shown.read_until(b"")
        assert shown.process.wait(PATIENCE) == 0
    finally:
        shown.kill()
    check_closed(tmp_path)


@pytest.mark.parametrize(
    ("end", "keep"), [(signal.SIGHUP, ()), (signal.SIGTERM, ("--keep", "30d")), (signal.SIGINT, ())], ids=str
)
def test_a_signal_between_the_beginning_of_a_log_and_its_run_leaves_a_closed_log(
    tmp_path, root, monkeypatch, end, keep
):
    """The writer exists, and the run that closes it has not begun."""
    monkeypatch.setattr(Voice, "say", lambda *_: os.kill(os.getpid(), end))
    words = ["simulate@?messages=50&pace=1", "-d", str(root / "examples/micaz.toml"), "--log", str(tmp_path)]
    done = CliRunner().invoke(listen, [*words, "--view", "none", *keep], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    check_closed(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("view", ["none", "terminal"])
@pytest.mark.parametrize("end", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT], ids=str)
def test_it_ends_in_order_before_it_has_begun(tmp_path, root, view, end):
    """The log exists, and no source is open yet; or some are, on a busy machine."""
    shown = OnTerminal(tmp_path, root / "examples/micaz.toml", view, free_port())
    try:
        shown.read_until(b"the log is in")
        shown.process.send_signal(end)
        shown.read_until(b"")
        assert shown.process.wait(PATIENCE) == 0
    finally:
        shown.kill()
    check_closed(tmp_path)


def check_closed(logs: Path) -> None:
    done = CliRunner().invoke(log, ["verify", str(logs)])
    assert ", closed: all is there" in done.stdout, done.output
