"""A message that holds no time is let in once, whatever is restarted; a replay decides as the run did."""

from __future__ import annotations

import contextlib
from pathlib import Path

from click.testing import CliRunner

from basestation.arrivals import Arrival
from basestation.cli import cli
from basestation.journal.retention import Keep, remove_old
from basestation.journal.strays import NAME, known_after, known_before
from basestation.live.guard import Verdict
from basestation.live.run_log import open_log
from basestation.live.station import Station
from packet_formats.layout import layout_of
from packet_formats.records import Health
from packet_formats.seal import Seal
from packet_formats.tinyos import ActiveMessage, encode_packet
from tests.live.test_guard import KEY, S, deployment, out_of_sync, play

NETWORK = deployment()
SEAL = Seal(KEY, layout_of(NETWORK))
OTHER = out_of_sync(SEAL, 2, 0)
OLD = [out_of_sync(SEAL, 3, number) for number in range(4)]


def line(frames: list[ActiveMessage]) -> list[Arrival]:
    return [Arrival(0, at * S, at * S, encode_packet(frame)) for at, frame in enumerate(frames, 100)]


def listened(logs: Path, frames: list[ActiveMessage]) -> tuple[Path, Station]:
    """A run of `listen`, as far as its log goes."""
    station = Station(NETWORK)
    with contextlib.ExitStack() as stack:
        log = open_log(stack, station, [], logs, "never", None, lambda text: None)
        for arrival in line(frames):
            log.append(arrival)
            station.take(arrival)
        return log.folder, station


def counted(station: Station) -> tuple[int, int]:
    assert station.timeline.guard is not None
    verdicts = station.timeline.guard.verdicts
    return verdicts[Verdict.UNPROTECTED], verdicts[Verdict.REPLAYED]


def test_after_a_restart_it_is_known(tmp_path: Path) -> None:
    first, one = listened(tmp_path, OLD[:2])
    assert counted(one) == (2, 0)
    second, two = listened(tmp_path, OLD[1:])
    assert counted(two) == (2, 1)
    _, three = listened(tmp_path, OLD)
    assert counted(three) == (0, 4)
    for run, wanted, frames in ((first, one, OLD[:2]), (second, two, OLD[1:])):
        again = Station(NETWORK)
        again.timeline.remember(known_before(run))
        for arrival in line(frames):
            again.take(arrival)
        assert counted(again) == counted(wanted)


def test_lines_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    run, _ = listened(tmp_path, OLD[:2])
    known = known_after(tmp_path, NETWORK.to_toml())
    assert len(known) == 2
    with (run / NAME).open("ab") as file:
        file.write(b"\xff\xfe\n1 zz\nx 00\n1 03")
    assert known_after(tmp_path, NETWORK.to_toml())[:2] == known
    assert known_after(tmp_path, "another") == []
    (run / NAME).unlink()
    assert known_after(tmp_path, NETWORK.to_toml()) == known_before(run) == []


def test_it_goes_with_its_run(tmp_path: Path) -> None:
    listened(tmp_path, OLD)
    removed, faults = remove_old(tmp_path, Keep(size=0))
    assert (len(removed), faults, list(tmp_path.iterdir())) == (1, [], [])


def test_why_knows_it(tmp_path: Path) -> None:
    """It is in no causal graph; and the live page, which asks, gives the key by standard input."""
    run, _ = listened(tmp_path, OLD)
    asked = CliRunner().invoke(cli, ["why", str(run), "1#2@3", "--key", "-"], input=KEY.secret.hex())
    assert asked.exit_code == 0, asked.stderr
    assert asked.stdout.startswith("1#2 was held 0.0 ms.")
    assert "Mote 1 or its gateway had lost the time: nobody can order it" in asked.stdout
    assert "unchecked" not in asked.stderr
    asked = CliRunner().invoke(cli, ["why", str(run), "1#2"])
    assert "3 messages unchecked: no MIC was checked" in asked.stderr


def health(boots: int, sent: int, in_sync: bool = False) -> ActiveMessage:
    layout = layout_of(NETWORK)
    return SEAL.sealed_health(Health(1, 5, 1, int(in_sync), boots, layout.hash, sent, *[0] * 7))


def test_after_eight_boots_a_mote_may_say_the_same_again() -> None:
    """Until its health reports this boot, its message is an old one; those of other boots stay old."""
    frames = [health(3, 1), health(3, 2), *OLD, health(8, 0), *OLD[:1], health(11, 0), *OLD, OTHER, OTHER]
    apart = [Arrival(0, 60 * at * S, 0, encode_packet(frame)) for at, frame in enumerate(frames)]
    station, _ = play(NETWORK, apart)
    assert counted(station) == (1 + 4 + 4 + 1, 2)


def test_the_first_report_that_may_be_an_old_one_moves_nothing() -> None:
    """It was recorded 50 starts ago, and is played when the base station starts: no alarm says that it starts again."""
    station, happenings = play(NETWORK, line([health(5, 100), health(55, 7), health(55, 8), health(55, 9)]))
    assert not [one for one in happenings if type(one).__name__ in ("Alarm", "Restarted")]
    assert station.motes[1].restarts.total == 0
    known = station.motes[1].health
    assert known is not None
    assert known.sent == 9
