"""`analyse ingest --key`: the tables hold what the live station took, message by message, and no forged one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from basestation.arrivals import Arrival
from basestation.cli.analyse import links
from basestation.cli.analyse.ingest import command
from basestation.cli.log import command as logs
from basestation.journal.writer import JournalWriter
from basestation.live.happenings import Arrived
from basestation.live.station import Station
from packet_formats.deployment import Deployment
from packet_formats.keys import write_key
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.seal import Seal
from tests.journal.sealed_lines import attacked_alone, foreign
from tests.live.test_guard import KEY, S, attacked, deployment, honest_line, out_of_sync, put

WALL_NS = 1_700_000_000 * S
SEGMENT = 6000  # bytes: several segments, whose edges fall between records and frames
Rows = list[tuple[int, int, bytes, int]]


def logged(folder: Path, run: str, network: Deployment, line: Iterable[Arrival]) -> Rows:
    """Log a line as the runner does; the messages that the station took: source, sequence, payload, clock."""
    station, found, clocks = Station(network), Rows(), list[int]()
    receive = station.observer.receive

    def spied(*args: Any) -> Any:
        taken = receive(*args)
        if taken.message is not None:
            clocks.append(taken.message.stamp.r)
        return taken

    station.observer.receive = spied  # type: ignore[method-assign]
    with JournalWriter(folder / run, network, run, "never", site="hill", segment_bytes=SEGMENT) as journal:
        for arrival in line:
            arrival = arrival._replace(wall_ns=WALL_NS + arrival.mono_ns)
            number = journal.append(arrival)
            for one in station.take(arrival):
                if isinstance(one, Arrived) and isinstance(one.message, Data) and one.name is not None:
                    found.append((one.name.source, one.name.sequence, one.frame.data, clocks[-1]))
            if station.decision is not None:
                journal.append_decision(number, arrival, station.decision)
    return found


def ingested(folder: Path, *options: str) -> tuple[Rows, dict[str, Any], str]:
    """The messages in the tables that the command makes of a folder's logs, what it printed, and what it said."""
    tables = folder / f"tables{len(options)}"
    done = CliRunner().invoke(command, [str(folder / "logs"), "--tables", str(tables), *options])
    assert done.exit_code == 0, done.output
    rows = [
        (row["source"], row["sequence"], row["payload"], row["stamp"]["r"])
        for path in sorted((tables / "messages").rglob("*.parquet"))
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
    return rows, json.loads(done.stdout), done.stderr


def test_a_run_that_was_taken_in_without_the_key_is_checked_once_it_is_given(tmp_path: Path) -> None:
    network, key = deployment("shlc"), tmp_path / "site.key"
    write_key(KEY, key)
    logged(tmp_path / "logs", "run", replace(network, key=None), honest_line(network, 20))
    words = [str(tmp_path / "logs"), "--tables", str(tmp_path / "tables"), "--no-spark"]
    told = []
    for more in ([], [], ["--key", str(key)], ["--key", str(key)], []):
        done = CliRunner().invoke(command, [*words, *more])
        assert done.exit_code == 0
        found = json.loads(done.stdout)
        told.append((found["runs"], found["unchanged"], found.get("unchecked")))
    assert told == [(1, 0, 20), (0, 1, None), (1, 0, 0), (0, 1, None), (0, 1, None)]


def test_decisions_that_are_made_later_reach_the_tables(tmp_path: Path) -> None:
    network, key = deployment(), tmp_path / "site.key"
    write_key(KEY, key)
    line = list(foreign(network, honest_line(network, 60)))
    honest = logged(tmp_path / "alone", "alone", network, line)
    logged(tmp_path / "logs", "with", replace(network, key=None), attacked_alone(network, line))
    before, _, _ = ingested(tmp_path)
    assert "no MIC was checked" in CliRunner().invoke(logs, ["summary", str(tmp_path / "logs/with")]).stderr
    done = CliRunner().invoke(logs, ["decide", str(tmp_path / "logs"), "--key", str(key)])
    assert done.exit_code == 0, done.output
    after, told, _ = ingested(tmp_path)
    assert told["runs"] == 1
    assert [row[2:] for row in after] == [row[2:] for row in honest] != [row[2:] for row in before]
    made = CliRunner().invoke(logs, ["convert", str(tmp_path / "logs/with"), "--to", "csv"])
    assert (len(made.stdout.splitlines()), "no MIC was checked" in made.stderr) == (1 + len(honest), False)


@pytest.mark.parametrize(
    ("gateway", "scheme"),
    [
        ("own", "shlc"),
        ("lossy", "barrier"),
        ("foreign", "sequence"),
        *(
            pytest.param(*both, marks=pytest.mark.wide)
            for both in (
                ("own", "barrier"),
                ("own", "sequence"),
                ("lossy", "shlc"),
                ("lossy", "sequence"),
                ("foreign", "shlc"),
                ("foreign", "barrier"),
            )
        ),
    ],
)
def test_the_tables_hold_what_the_station_took(tmp_path: Path, scheme: str, gateway: str) -> None:
    network, key = deployment(scheme), tmp_path / "site.key"
    write_key(KEY, key)
    line = honest_line(network, 80)
    if gateway == "foreign":
        line = list(foreign(network, line))
    elif gateway == "lossy":  # each seventh heard record is lost on the line
        line = [one for number, one in enumerate(line) if number % 14 != 8]
    frames = list(attacked_alone(network, line) if gateway == "foreign" else attacked(network, line))
    honest = logged(tmp_path / "alone", "alone", network, line)
    taken = logged(tmp_path / "logs", "with", network, frames)
    assert len(honest) > 70
    assert [row[:3] for row in taken] == [row[:3] for row in honest]
    rows, told, said = ingested(tmp_path, "--key", str(key))
    clocked = network.scheme.has_clock
    assert [row[: 3 + clocked] for row in rows] == [row[: 3 + clocked] for row in taken]
    assert told["forged"] >= len(honest)
    assert f"refused: {told['forged']} × its MIC is wrong" in said
    without, told, said = ingested(tmp_path)
    assert (without, told["unchecked"]) == (rows, 0)  # the station had the key


def test_a_station_without_the_key_noted_forged_ones_too(tmp_path: Path) -> None:
    network, key = deployment(), tmp_path / "site.key"
    write_key(KEY, key)
    line = list(foreign(network, honest_line(network, 60)))
    honest = logged(tmp_path / "alone", "alone", network, line)
    taken = logged(tmp_path / "logs", "with", replace(network, key=None), attacked_alone(network, line))
    assert len(taken) > len(honest)
    rows, told, said = ingested(tmp_path)
    assert told["unchecked"] == len(rows) == len(taken)
    assert f"{len(rows)} messages taken unchecked: --key FILE" in said
    rows, _, _ = ingested(tmp_path, "--key", str(key))
    assert [row[2:] for row in rows] == [row[2:] for row in honest]


def test_of_merged_logs_nothing_honest_is_forged(tmp_path: Path) -> None:
    """A gateway of ours at one base station, and a foreign one at another, whose clock is its own."""
    network, key = deployment(), tmp_path / "site.key"
    write_key(KEY, key)
    line = honest_line(network, 60)
    honest = logged(tmp_path / "logs", "own", network, line)
    logged(tmp_path / "logs", "other", network, foreign(network, line))
    rows, told, _ = ingested(tmp_path, "--key", str(key))
    assert (told["runs"], told["forged"], told["unchecked"]) == (1, 0, 0)
    assert sorted(row[:3] for row in rows) == sorted(row[:3] for row in honest)


def test_old_messages_without_a_time_are_no_losses_and_no_reboots(tmp_path: Path) -> None:
    """They are in the tables, but `links` counts as if they were not there."""
    network = deployment()
    honest, seal = honest_line(network, 60), Seal(KEY, layout_of(network))
    line = list[Arrival]()
    for place, arrival in enumerate(honest):
        stray = put(out_of_sync(seal, place % 8, place * 37 % 256), arrival)
        line += [arrival, stray] if place % 2 else [arrival]  # a heard record's frame follows it at once
    told = []
    for name, frames in (("alone", honest), ("among", line)):
        logged(tmp_path / name / "logs", name, network, frames)
        ingested(tmp_path / name)
        words = [str(tmp_path / name / "tables0"), "--out", str(tmp_path / name / "links"), "--no-spark"]
        done = CliRunner().invoke(links.command, words)
        assert done.exit_code == 0, done.output
        told.append({key: value for key, value in json.loads(done.stdout).items() if key != "run"})
    assert told[0] == told[1]
    assert (told[0]["received"], told[0]["reboots"]) == (60, 0)
