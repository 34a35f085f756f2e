"""`basestation log`: what it says, what it changes, and how it ends."""

import json
import os
import shutil
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from click.testing import CliRunner

from basestation.arrivals import Arrival
from basestation.cli import cli
from basestation.cli.listen import command as listen
from basestation.cli.log import command
from basestation.journal.record_format import Record, RecordKind, decode_header, encode_header
from basestation.journal.writer import JournalError, JournalWriter, read_journal
from basestation.live.station import Station
from basestation.traces.files import read_trace, write_trace
from packet_formats.layout import layout_of
from packet_formats.tinyos import decode_packet
from spark_jobs.journals.segment_files import intact
from spark_jobs.session import JobError
from tests.journal.logs import VALUES, append, logged, put_behind, records, simulated, write, write_everything


@pytest.fixture(scope="module")
def trace_and_arrivals():
    return simulated("shlc", loss=0.1)


@pytest.fixture
def log(tmp_path, trace_and_arrivals):
    folder = tmp_path / "logs" / "run"
    write_everything(folder, *trace_and_arrivals, segment_bytes=20_000)
    return folder


def run(*arguments):
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def damage(folder, segment, at):
    path = read_journal(folder).paths[segment]
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def test_list(log):
    result = run("list", "--json", log.parent)
    row = json.loads(result.stdout)
    assert (row["site"], row["state"], row["records"]) == ("hill", "closed", len(records(log)))
    assert row["run"] in run("list", log).stdout
    with JournalWriter(log.parent / "other", None, "run-2") as journal:
        journal.append(Arrival(0, 1, 2, b"x"))
        assert "being written" in run("list", log.parent).stdout


def test_a_run_that_was_killed_is_not_called_closed(log):
    assert "closed" in run("list", log).stdout
    (log / "lock").write_text("process 1")  # which nobody holds
    assert "interrupted" in run("list", log).stdout


def test_a_folder_without_logs_is_a_fault(tmp_path, trace_and_arrivals):
    """A mistyped folder must not read as a whole log. Runs in deeper folders are named, as `demo` makes them."""
    for word in ("list", "verify", "repair", "parts"):
        result = run(word, tmp_path)
        assert (result.exit_code, result.stderr) == (1, f"Error: {tmp_path}: no logs in it\n")
    assert "there is no such folder" in run("summary", tmp_path / "nowhere").stderr
    write(tmp_path / "demo" / "RUN" / "log", trace_and_arrivals[1][:5])
    for word in ("list", "summary"):
        assert f"; there is {tmp_path}/demo/RUN/log\n" in run(word, tmp_path / "demo").stderr


def test_which_of_several_runs(log, trace_and_arrivals):
    write(log.parent / "run-2", trace_and_arrivals[1][:5])
    done = run("summary", log.parent)
    assert done.exit_code == 1
    assert done.stderr == f"Error: {log.parent}: holds 2 runs, name one: run, run-2\n"


def test_a_whole_log_is_verified(log):
    result = run("verify", log.parent)
    assert result.exit_code == 0
    assert result.stdout.strip().endswith(" segments, closed: all is there")


def test_damage_is_found_named_and_repaired(log):
    whole = len(records(log))
    damage(log, 0, 3000)
    result = run("verify", log)
    assert result.exit_code == 1
    assert ", closed: 1 record missing and 1 place that can't be read\n" in result.stdout
    assert "wrong check sum" in result.stderr
    fault = json.loads(run("verify", "--json", log).stdout.splitlines()[0])
    assert len(fault["missing"]) == len(fault["faults"]) == 1
    assert "is missing: damaged: a record with a wrong check sum, at byte" in result.stdout
    assert "1 fault put aside in 000000.bad" in run("repair", log).stdout
    after = run("verify", log)
    assert after.exit_code == 1
    assert after.stderr == "Error: not everything is there; the missing records are lost\n"
    assert "is missing: damaged, and cut out by a repair: 000000.bad has the bytes" in after.stdout
    assert len(records(log)) == whole - 1
    again = run("repair", log).stdout
    assert "nothing to repair" in again
    assert again.strip().endswith("the missing records are lost")


def test_damage_in_decisions_beside_the_log_is_found(log):
    assert run("decide", log).exit_code == 0
    assert run("verify", log).exit_code == 0
    sidecar = log / "decisions" / "000000.cwj"
    raw = bytearray(sidecar.read_bytes())
    raw[len(raw) // 2] ^= 1
    sidecar.write_bytes(raw)
    found = run("verify", log)
    assert found.exit_code == 1
    assert str(sidecar) in found.stderr
    assert "log decide makes them again" in found.stderr
    assert run("decide", log).exit_code == 0
    assert run("verify", log).exit_code == 0


def test_a_torn_end_is_found_and_put_aside(log):
    path = read_journal(log).paths[-1]
    path.write_bytes(path.read_bytes()[:-3])
    assert run("verify", log).exit_code == 1
    assert "torn" in run("list", log).stdout
    assert ".torn" in run("repair", log).stdout
    after = run("verify", log)
    assert (after.exit_code, ", its end cut off" in after.stdout) == (1, True)
    assert "on may be missing: a repair found that its end had been cut off" in after.stdout
    assert "interrupted" in run("list", log).stdout


def test_the_end_of_a_writer_that_was_stopped_is_no_fault_once_it_is_marked(log):
    path = read_journal(log).paths[-1]
    path.write_bytes(path.read_bytes()[:-3])
    (log / "lock").write_text("process 1\n")  # what a closed run does not leave
    assert "its end marked" in run("repair", log).stdout
    after = run("verify", log)
    assert (after.exit_code, ", interrupted: all is there" in after.stdout) == (0, True)


def test_a_repair_keeps_the_parts_that_hold_more_than_the_log(log):
    """The damaged log gives fewer messages than the part that was made of it when it was whole."""
    assert run("parts", log).exit_code == 0
    part = sorted((log / "messages").iterdir())[-1]
    whole, path = part.read_bytes(), read_journal(log).paths[-1]
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    said = run("repair", log).stdout
    kept = part.with_name(f"{part.name}.bad")
    assert f"messages/{kept.name}" in said
    assert "basestation log parts makes new parts" in said
    assert (part.exists(), kept.read_bytes() == whole) == (False, True)
    run("parts", log)
    path.write_bytes(path.read_bytes()[:-50])
    run("repair", log)
    assert kept.read_bytes() == whole, "a second repair does not write over what the first put aside"
    assert part.with_name(f"{part.name}.2.bad").exists()
    assert path.with_suffix(".2.torn").exists()


def test_a_segment_of_another_run_is_put_aside(log, trace_and_arrivals, tmp_path):
    trace, arrivals = trace_and_arrivals
    write(tmp_path / "other", arrivals, trace.deployment, run="other")
    stray = log / "000000.cwj"
    own, other = stray.read_bytes(), (tmp_path / "other" / "000000.cwj").read_bytes()
    stray.write_bytes(other)
    assert "basestation log repair moves the damage aside" in run("verify", log).stderr
    said = run("repair", log)
    assert "fault put aside in 000000.bad" in said.stdout
    assert "restore the missing segments from a copy" in said.stdout
    assert stray.with_suffix(".bad").read_bytes() == other
    after = run("verify", log)
    assert (after.exit_code, "restore the missing segments from a copy" in after.stderr) == (1, True)
    stray.write_bytes(own)
    assert run("verify", log).exit_code == 0, "that helped"


def test_whose_folder_it_is_must_be_known(log, trace_and_arrivals, tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name, trace_and_arrivals[1][:5], run=name)
    (tmp_path / "two" / "000000.cwj").rename(tmp_path / "one" / "000001.cwj")
    (tmp_path / "one").rename(tmp_path / "three")
    done = run("repair", tmp_path / "three")
    assert (done.exit_code, "as many segments of run two as of run one" in done.stderr) == (1, True)
    assert sorted(path.name for path in (tmp_path / "three").iterdir()) == ["000000.cwj", "000001.cwj"]


def test_no_repair_is_advised_where_none_helps(tmp_path, trace_and_arrivals):
    write(tmp_path, trace_and_arrivals[1][:5])
    put_behind(tmp_path / "000000.cwj", [Record(5, RecordKind.LOST, 0, 1, 1, b"{}")])
    said = run("verify", tmp_path).stderr
    assert "repair cannot help" in said
    assert "moves the damage aside" not in said


def test_a_deployment_that_was_lost_was_not_left_out(log):
    for path in read_journal(log).paths:
        raw = bytearray(path.read_bytes())
        raw[30] ^= 1
        path.write_bytes(raw)
    assert run("repair", log).exit_code == 0
    done = CliRunner().invoke(cli, ["replay", str(log), "--view", "none"])
    assert (done.exit_code, "its deployment was lost with its header" in done.stderr) == (1, True), (
        done.stderr
    )


def test_a_deployment_of_a_later_version_is_replaced_by_the_one_given(tmp_path, trace_and_arrivals):
    trace, arrivals = trace_and_arrivals
    logged(tmp_path / "run", arrivals, trace.deployment)
    path = tmp_path / "run" / "000000.cwj"
    header, begin = decode_header(raw := path.read_bytes())
    path.write_bytes(
        encode_header(replace(header, deployment=header.deployment + "\n[moon]\nfull = true\n")) + raw[begin:]
    )
    given = tmp_path / "net.toml"
    given.write_text(trace.deployment.to_toml())
    message = trace.messages["source"][0].as_py(), trace.messages["sequence"][0].as_py()
    tables = [
        "analyse",
        "ingest",
        tmp_path / "run",
        "-t",
        tmp_path / "tables",
        "--no-spark",
        "--workers",
        "1",
    ]
    for words in (
        ["log", "parts", tmp_path / "run"],
        ["log", "convert", "--to", "html", "-o", tmp_path / "run.html", tmp_path / "run"],
        ["why", tmp_path / "run", "{}#{}".format(*message)],
        tables,
    ):
        without = CliRunner().invoke(cli, [*map(str, words)])
        told = " ".join(without.stderr.split())
        assert (without.exit_code, "--deployment gives another" in told) == (1, True), (words, told)
        done = CliRunner().invoke(cli, [*map(str, words), "-d", str(given)])
        assert done.exit_code == 0, (words, done.stderr)
    assert json.loads(done.stdout)["messages"] == len(trace.messages)
    assert "that of --deployment is used" in " ".join(done.stderr.split())


def test_what_a_full_disk_refused_is_told(tmp_path, monkeypatch):
    real, full = os.write, [False]

    def write_some(file, raw):
        return real(file, raw[: 10 if full[0] else None])

    monkeypatch.setattr("basestation.journal.writer.os.write", write_some)
    with JournalWriter(tmp_path / "log", None, "run-1", "never") as journal:
        for number in range(10):
            full[0] = 3 <= number < 7 or number == 9
            with suppress(JournalError):
                journal.append(Arrival(0, number, number, b"x"))
        full[0] = False
    result = run("verify", tmp_path / "log")
    said = " ".join(result.stdout.split())
    assert result.exit_code == 1
    for gone in ("records 3 to 6 are missing", "record 10 is missing"):
        assert f"{gone}: a record could not be written: No space left" in said
    found = json.loads(run("verify", "--json", tmp_path / "log").stdout)
    assert (found["missing"], found["end"], found["format"]) == ([[3, 6], [10, 10]], "closed", 2)
    converted = run("convert", "--to", "ndjson", tmp_path / "log")
    assert converted.exit_code == 0
    assert "ndjson holds every record that the log has" in (said := " ".join(converted.stderr.split()))
    assert "the log has 5 records missing: so has the ndjson" in said


@pytest.mark.parametrize("gone", [0, -1])
def test_a_segment_that_was_deleted_is_missed(log, gone):
    read_journal(log).paths[gone].unlink()
    for form in ("ndjson", "csv"):
        said = run("convert", "--to", form, log).stderr
        assert "gone" in said
        assert "missing: so has the" in " ".join(said.split())
    result = run("verify", log)
    assert (result.exit_code, "gone" in result.stdout) == (1, True)
    assert "gone" in run("summary", log).stdout
    repaired = run("repair", log)
    assert (repaired.exit_code, "gone" in repaired.stdout) == (1, True)
    assert repaired.stderr == "Error: 1 run can be read now, but not everything is there\n"
    assert run("verify", log).exit_code == 1, "a repair brings nothing back"


def test_half_a_record_of_a_writer_at_work_is_no_fault(tmp_path):
    with JournalWriter(tmp_path, None, "run-1", "never") as journal:
        journal.append(Arrival(0, 1, 2, b"x"))
        with (tmp_path / "000000.cwj").open("ab") as file:
            file.write(b"half a re")
        result = run("verify", tmp_path)
        assert (result.exit_code, "being written" in result.stdout) == (0, True)
        assert "being written" in run("repair", tmp_path).stderr
    assert run("verify", tmp_path).exit_code == 1


def test_summary_counts_what_is_there(log, trace_and_arrivals):
    trace, arrivals = trace_and_arrivals
    found = json.loads(run("summary", "--json", log).stdout)
    assert found["records"] == len(records(log))
    assert sum(mote["messages"] for mote in found["motes"]) == len(trace.messages)
    numbers = defaultdict(list)
    for row in trace.messages.to_pylist():
        numbers[row["source"]].append(row["sequence"])
    lost = {mote: max(came) - min(came) + 1 - len(came) for mote, came in numbers.items()}
    assert {mote["mote"]: mote["lost"] for mote in found["motes"]} == lost
    assert sum(lost.values()) > 10
    own, other = found["lines"]
    assert own["frames"] == len(arrivals)
    assert own["fates"] == {"message": len(arrivals) // 2, "record": len(arrivals) // 2}
    assert own["gaps"] == len(arrivals) // 50
    assert own["counters"]["fed"] == 12
    assert other["fates"] == {"no_message": 2}
    assert found["span_ns"] == arrivals[-1].mono_ns - 1
    shown = run("summary", log).stdout
    assert "sim@1" in shown
    assert "hill" in shown


def test_the_summary_tells_the_values(tmp_path):
    trace, arrivals = simulated("shlc", VALUES, messages=60)
    logged(tmp_path, arrivals, trace.deployment)
    mote, *_ = json.loads(run("summary", "--json", tmp_path).stdout)["motes"]
    assert mote["values"]["t"] == {
        "count": mote["messages"],
        "least": 0.0,
        "mean": 0.0,
        "most": 0.0,
        "last": 0.0,
    }
    shown = run("summary", tmp_path).stdout
    assert "light [lx]" in shown
    light = mote["values"]["light"]
    assert " / ".join(f"{light[name]:.1f}" for name in ("least", "mean", "most")) in shown


def test_a_log_without_a_deployment(tmp_path, trace_and_arrivals):
    trace, arrivals = trace_and_arrivals
    with JournalWriter(tmp_path / "log", None, "run-1", "never") as journal:
        append(journal, arrivals, Station(trace.deployment))
    (tmp_path / "d.toml").write_text(trace.deployment.to_toml())
    result = run("summary", tmp_path / "log")
    assert (result.exit_code, "has no deployment" in result.stderr) == (0, True)
    assert run("convert", "--to", "csv", tmp_path / "log").exit_code == 1
    given = run("convert", "--to", "csv", "-d", tmp_path / "d.toml", tmp_path / "log")
    assert len(given.stdout.splitlines()) == 1 + len(trace.messages)
    assert run("convert", "--to", "ndjson", tmp_path / "log").exit_code == 0


@pytest.mark.parametrize("form", ["ndjson", "pcap"])
def test_convert_to_a_file_and_to_standard_output(log, tmp_path, form):
    result = run("convert", "--to", form, "-o", tmp_path / "out", log)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{form} holds" in result.stderr
    assert run("convert", "--to", form, log).stdout_bytes == (tmp_path / "out").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out"]


def test_listen_and_the_summary_agree_on_what_was_out_of_sync(tmp_path, trace_and_arrivals):
    """Both count what came before the time was known."""
    trace, arrivals = trace_and_arrivals
    told = [a for a in arrivals if len(decode_packet(a.packet).data) == layout_of(trace.deployment).length]
    logged(tmp_path / "log", told[:14] + arrivals[len(arrivals) // 2 :], trace.deployment)
    (tmp_path / "net.toml").write_text(trace.deployment.to_toml())
    words = [f"replay@{tmp_path / 'log'}", "-d", str(tmp_path / "net.toml")]
    heard = CliRunner().invoke(listen, words, catch_exceptions=False).stdout
    found = json.loads(run("summary", "--json", tmp_path / "log").stdout)["motes"]
    assert heard.count("out of sync") == sum(mote["out_of_sync"] for mote in found) == 14
    assert heard.count("  deliver  ") == sum(mote["messages"] for mote in found)
    done = run("convert", "--to", "csv", "-o", tmp_path / "out", tmp_path / "log")
    left_out = "14 messages came before the time was known, and are left out"
    assert left_out in " ".join(done.stderr.split())


def test_convert_writes_into_links_and_pipes_and_replaces_neither(log, tmp_path):
    whole = run("convert", "--to", "csv", log, "-o", "-").stdout
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    assert run("convert", "--to", "csv", log, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert target.read_text() == whole
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text)
        assert run("convert", "--to", "csv", log, "-o", pipe).exit_code == 0
        assert read.result() == whole
    assert pipe.is_fifo()


def test_a_segment_that_is_there_twice_is_told_and_read_once(log):
    """The same for a segment under the name of another. A pipe is not a segment."""
    whole, paths = records(log), read_journal(log).paths
    assert len(paths) > 2
    for name in (f"{len(paths):06}.cwj", "000001 (copy).cwj"):
        shutil.copy(paths[1], log / name)
        result = run("verify", log)
        assert result.exit_code == 1
        assert f"{name}: byte 0: by its header it is 000001.cwj: a copy of that" in result.stderr
        assert f"{len(whole)} records" in result.stdout
        assert list(read_journal(log).records(lambda fault: None)) == whole
        repaired = run("repair", log)
        assert repaired.exit_code == 1
        assert "1 file left under a wrong name" in repaired.stdout
        assert repaired.stderr.endswith(
            "Error: rename the files with wrong names, or remove those that are copies\n"
        )
        parts = run("parts", log, "--again")
        assert f"{name}: byte 0: by its header" in parts.stderr
        assert name.replace("cwj", "parquet") not in {path.name for path in (log / "messages").iterdir()}
        with pytest.raises(JobError, match="by its header it is 000001"):
            intact(log / name)
        (log / name).unlink()
    os.mkfifo(log / "000099.cwj")
    assert run("verify", log).exit_code == 0
    paths[1].rename(log / "000050.cwj")
    result = run("verify", log)
    assert "segment 1 is gone" in result.stdout
    assert "000050.cwj: byte 0: by its header it is 000001.cwj" in result.stderr


def test_convert_to_a_trace(log, tmp_path, trace_and_arrivals):
    assert run("convert", "--to", "parquet", "-o", tmp_path / "trace", log).exit_code == 0
    trace = trace_and_arrivals[0]
    back = read_trace(tmp_path / "trace")
    assert back.run == trace.run
    assert back.messages["payload"].equals(trace.messages["payload"])
    assert run("convert", "--to", "parquet", log).exit_code == 1
    again = run("convert", "--to", "parquet", "-o", tmp_path / "trace", log)
    assert "never overwritten" in again.stderr


def test_convert_a_trace(tmp_path, trace_and_arrivals):
    write_trace(trace_and_arrivals[0], tmp_path / "trace")
    result = run("convert", "--to", "shiviz", tmp_path / "trace")
    assert "messages, all causes known" in result.stderr
    assert run("convert", "--to", "pcap", tmp_path / "trace").exit_code == 1


def test_parts(log):
    segments = len(read_journal(log).paths)
    assert f"{segments} parts made" in run("parts", log).stdout
    assert "0 parts made" in run("parts", log).stdout
    assert f"{segments} parts made" in run("parts", "--again", log).stdout
