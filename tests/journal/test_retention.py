"""Old runs are removed, and only old runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.arrivals import Arrival, LineCount
from basestation.cli import listen
from basestation.journal import locking, retention
from basestation.journal.reader import find_journals, read_journal
from basestation.journal.retention import DAY_S, Keep, closed_runs, parse_keep, remove_old
from basestation.journal.run_roller import RunRoller
from basestation.journal.writer import JournalError, JournalWriter, new_run_id
from packet_formats.framing import FrameCounters
from tests.live.world import deployment
from tests.waiting import wait_until

SETUP = deployment(policy="none")
NOW = 1_700_000_000.0


def a_run(logs: Path, days_ago: float, size: int = 1000, name: str = "") -> Path:
    folder = logs / (name or new_run_id(int((NOW - days_ago * DAY_S) * 1e9)))
    with JournalWriter(folder, SETUP, folder.name) as log:
        log.append(Arrival(0, 1, 1, b"x" * 100))
    (folder / "messages").mkdir()
    (folder / "messages" / "000000.parquet").write_bytes(b"x" * size)
    for path in folder.glob("*.cwj"):
        os.utime(path, (NOW - days_ago * DAY_S,) * 2)
    return folder


@pytest.mark.parametrize(
    ("texts", "keep"),
    [
        ((), None),
        (("30d",), Keep(30 * DAY_S)),
        (("12h", "1.5GB"), Keep(12 * 3600, 1_500_000_000)),
        (("500MB",), Keep(None, 500_000_000)),
    ],
)
def test_what_may_be_kept(texts, keep):
    assert parse_keep(texts) == keep


@pytest.mark.parametrize(
    "text", ["30", "d", "0d", "30 days", "-1GB", "20gb", "", "0.9MB", "0.5h", "9" * 400 + "GB"]
)
def test_what_makes_no_sense_is_refused(text):
    with pytest.raises(ValueError, match="should be like 30d"):
        parse_keep((text,))


def test_old_runs_go_but_not_the_running_the_renamed_or_anything_else(tmp_path):
    old, older, new = a_run(tmp_path, 31), a_run(tmp_path, 40), a_run(tmp_path, 29)
    kept = a_run(tmp_path, 99, name="the storm of 2020")
    running = a_run(tmp_path, 98)
    (tmp_path / "notes").mkdir()
    lock = locking.take(running)
    removed, faults = remove_old(tmp_path, Keep(30 * DAY_S), NOW)
    locking.leave(lock)
    assert [run.folder for run in removed] == [older, old]
    assert faults == []
    assert sorted(tmp_path.iterdir()) == sorted([kept, new, running, tmp_path / "notes"])
    assert remove_old(tmp_path, Keep(30 * DAY_S), NOW)[0][0].folder == running, "it has ended"


def test_the_oldest_go_until_the_rest_fits(tmp_path):
    runs = [a_run(tmp_path, days, 100_000) for days in (5, 4, 3, 2, 1)]
    each = closed_runs(tmp_path)[0].size
    removed, _ = remove_old(tmp_path, Keep(None, int(3.9 * each)), NOW)
    assert [run.folder for run in removed] == runs[:2], "a tenth is left to the running one"


def test_a_folder_that_is_itself_a_run_is_left_alone(tmp_path):
    run = a_run(tmp_path, 99)
    assert remove_old(run, Keep(1), NOW) == ([], [])


def test_what_a_run_has_not_written_is_left(tmp_path):
    run, elsewhere = a_run(tmp_path, 99), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "000000.parquet").touch()
    (run / "notes.txt").write_text("the storm came at noon")
    (run / "0 notes.cwj").touch()
    (run / "messages" / "000000.parquet").unlink()
    (run / "messages").rmdir()
    (run / "messages").symlink_to(elsewhere)
    removed, faults = remove_old(tmp_path, Keep(1), NOW)
    assert [one.folder for one in removed] == [run]
    assert faults == [f"{run}: what is not of the run was left there"]
    assert {path.name for path in run.iterdir()} == {"messages", "notes.txt", "0 notes.cwj"}
    assert (elsewhere / "000000.parquet").exists()
    assert remove_old(tmp_path, Keep(1), NOW) == ([], [])


def test_a_folder_that_is_gone_is_said(tmp_path):
    removed, (fault,) = remove_old(tmp_path / "gone", Keep(1), NOW)
    assert (removed, "there is no such folder" in fault) == ([], True)


def test_links_are_neither_followed_nor_counted(tmp_path):
    logs, other = tmp_path / "logs", tmp_path / "other"
    run, far = a_run(logs, 2), a_run(other, 99, 1_000_000)
    (logs / far.name).symlink_to(far)
    (run / "linked").symlink_to(far / "messages" / "000000.parquet")
    before = sorted(far.rglob("*"))
    assert remove_old(logs, Keep(30 * DAY_S, 500_000), NOW) == ([], [])
    assert sorted(far.rglob("*")) == before
    assert (logs / far.name).is_symlink()


def test_a_run_that_cannot_be_removed_is_named_and_the_others_go(tmp_path, monkeypatch):
    first, second = a_run(tmp_path, 9), a_run(tmp_path, 8)
    real = retention._own_files

    def own_files(folder):
        if folder == first:
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(retention, "_own_files", own_files)
    removed, faults = remove_old(tmp_path, Keep(1), NOW)
    assert [run.folder for run in removed] == [second]
    assert faults == [f"{first} could not be removed: Permission denied"]


def test_a_log_that_goes_on_becomes_runs_that_lose_nothing(tmp_path):
    """A new run begins with a twentieth of the allowed size; each is a run like any other."""
    said: list[str] = []
    ended: list[Path | None] = []

    def begin() -> JournalWriter:
        run = new_run_id()
        return JournalWriter(tmp_path / run, SETUP, run)

    def after(log: JournalWriter | None) -> None:
        ended.append(log and log.folder)

    counters = FrameCounters(fed=7)
    roller = RunRoller(begin, Keep(None, 20 * 2000), {0: counters}, after, said.append)
    lines = [Arrival(0, number, 10**9 + number * 10_300, number.to_bytes(4, "big")) for number in range(200)]
    for line in lines:
        roller.append(line)
    roller.close()
    runs = find_journals(tmp_path)
    assert len(runs) > 3
    wait_until(lambda: len(ended) == len(runs), "each end is told")
    found = [list(read_journal(run).steps(lambda fault: said.append(str(fault)))) for run in runs]
    found.sort(key=lambda steps: steps[-1][0].mono_ns)
    assert [step for steps in found for step, _ in steps if isinstance(step, Arrival)] == lines
    for run in runs:
        for line, _ in read_journal(run).lines(lambda fault: None):
            if isinstance(line, Arrival):
                assert roller.folder_at(round(line.wall_ns / 1e6, 3)) == run
    assert isinstance(found[1][0][0], LineCount), "its line was open already"
    assert isinstance(found[0][-1][0], LineCount)
    assert said == []


def test_a_new_run_that_cannot_be_begun_leaves_the_old_one_going(tmp_path):
    said: list[str] = []

    def begin() -> JournalWriter:
        return JournalWriter(tmp_path / "one", SETUP, "one")  # a second one is refused

    roller = RunRoller(begin, Keep(None, 20 * 200), {}, lambda log: None, said.append)
    for number in range(20):
        roller.append(Arrival(0, number, number, b"x"))
    roller.close()
    assert "no new run could be begun, this one goes on" in said[0]
    assert len(list(read_journal(tmp_path / "one").lines(lambda fault: None))) == 20


def test_a_run_whose_disk_failed_is_closed_when_the_next_begins(tmp_path, monkeypatch):
    said: list[str] = []

    def begin() -> JournalWriter:
        return JournalWriter(tmp_path / new_run_id(), SETUP, "one")

    def refuse(*_: object) -> int:
        raise JournalError("no disk")

    roller = RunRoller(begin, Keep(None, 20 * 200), {0: FrameCounters()}, lambda log: None, said.append)
    first = roller.folder
    monkeypatch.setattr(roller._log, "append_counters", refuse)
    for number in range(10):
        roller.append(Arrival(0, number, number, b"x"))
    assert roller.folder != first
    assert not locking.is_taken(first)
    assert said == ["the end of a run may be missing: no disk"]
    roller.close()


def test_listen_keeps_so_much_and_says_what_it_removed(tmp_path):
    old = a_run(tmp_path, 3000, 2_000_000)
    source = "simulate@?messages=600&rate=0.05&pace=0"
    words = [source, "-d", "examples/micaz.toml", "--view", "none", "--log", str(tmp_path), "--keep", "1MB"]
    done = CliRunner().invoke(listen.command, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert not old.exists()
    assert f"1 old run removed, 2 MB: {old.name}" in done.stderr
    assert len(find_journals(tmp_path)) > 1
    assert CliRunner().invoke(listen.command, [source, "--keep", "1MB"]).exit_code == 2
    refused = CliRunner().invoke(listen.command, [source, "--log", str(tmp_path), "--keep", "lots"])
    assert (refused.exit_code, "--keep lots: should be like 30d" in refused.stderr) == (2, True)
