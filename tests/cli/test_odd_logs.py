"""Logs whose JSON is wrong though the check sum is right: a message and an exit code, and never a traceback."""

import json
import shutil
from contextlib import suppress
from zlib import crc32

import pytest
from click.testing import CliRunner

from basestation.cli import cli
from basestation.journal.reader import read_segment
from basestation.journal.record_format import _FILE, FILE_MAGIC, Record, RecordKind, end_mark
from tests.journal.logs import put_behind, simulated, write

KEYS = (
    "format",
    "run",
    "site",
    "deployment",
    "sources",
    "started_wall_ns",
    "segment",
    "first",
    "policy",
    "phi",
    "allowance_ns",
    "tolerate",
    "salt",
    "rebuilt",
)
DEEP = '{"a":' * 3000 + "1" + "}" * 3000
# As JSON: wrong or strange values of keys.
VALUES = (
    "null",
    "true",
    "-1",
    "0",
    "1",
    "101",
    "1e999",
    "NaN",
    "0.5",
    str(2**63 - 1),
    str(2**70),
    "9" * 5000,
    '""',
    '"x"',
    '"../../x"',
    '"a\\u0000b"',
    '"\\ud800"',
    '"\\u001b[31mred"',
    '"' + "x" * 300 + '"',
    '"vector"',
    '"ledger"',
    '"[network]\\nmotes = 3"',
    '"' + "a = " + "[" * 3000 + '"',
    "[]",
    "[1]",
    '["a", null]',
    '["\\ud800"]',
    "{}",
    DEEP,
)
WHOLE = ("", "[]", "3", '"x"', "null", "{}", "{", "\xff", "[" * 60_000, DEEP)
RECORDS = ("", "[]", "{}", "null", "[" * 60_000, '{"records": 1e9, "reason": 3}', '{"unread": 1e999}', DEEP)
COMMANDS = {
    "list": "log list {logs}",
    "verify": "log verify {run}",
    "summary": "log summary {run}",
    "parts": "log parts {run}",
    "ndjson": "log convert --to ndjson -o {out} {run}",
    "csv": "log convert --to csv -o {out} {run}",
    "pcap": "log convert --to pcap -o {out} {run}",
    "html": "log convert --to html -o {out} {run}",
    "parquet": "log convert --to parquet -o {out} {run}",
    "replay": "replay {run} --view none",
    "why": "why {run} 0#1",
    "source": "listen replay@{run}?pace=0 -d {deployment} --view none",
    "listen": "listen simulate@?messages=3&pace=0 -d {deployment} --log {logs} --view none",
    "ingest": "analyse ingest {logs} --tables {out} --no-spark --workers 1",
    "repair": "log repair {run}",
}
SLOW = {"listen": 83, "ingest": 17, "html": 11}


@pytest.fixture(scope="module")
def run_log(tmp_path_factory):
    """A log, the header of its only segment, and the deployment's file."""
    place = tmp_path_factory.mktemp("odd")
    trace, arrivals = simulated(messages=20)
    write(place / "run", arrivals, trace.deployment, policy="cbd", sources=["sim@1"])
    (place / "net.toml").write_text(trace.deployment.to_toml())
    return place


def with_header(raw, text, version=2):
    """The segment, with this text for its header and the right check sum."""
    begin = _FILE.unpack_from(raw)[3] + _FILE.size
    body = text.encode("latin-1") if text == "\xff" else text.encode()
    return _FILE.pack(FILE_MAGIC, version, 0, len(body), crc32(body)) + body + raw[begin:]


def odd_headers(raw):
    """Headers to be read, each with a name."""
    begin = _FILE.unpack_from(raw)[3] + _FILE.size
    fields = {key: json.dumps(value) for key, value in json.loads(raw[_FILE.size : begin]).items()}
    fields["tolerate"] = "null"

    def text(fields):
        return "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}"

    for whole in WHOLE:
        yield f"whole {whole[:20]!r}", whole
    yield "another key", text({**fields, "weather": '"fine"', "deep": '{"a": [1, {}]}'})
    for key in KEYS:
        yield f"without {key}", text({name: value for name, value in fields.items() if name != key})
        for value in VALUES:
            yield f"{key} = {value[:20]}", text({**fields, key: value})


def odd_logs(run_log):
    """The bytes of segments that are intact and make no sense, each with a name."""
    raw = (run_log / "run" / "000000.cwj").read_bytes()
    for name, text in odd_headers(raw):
        yield name, with_header(raw, text)
    for kind in (
        RecordKind.NOTE,
        RecordKind.COUNTERS,
        RecordKind.POLICY,
        RecordKind.LOST,
        RecordKind.DECISION,
        99,
    ):
        for payload in RECORDS:
            yield f"record {kind} {payload[:20]}", with_record(run_log, raw, kind, payload)
    segment = read_segment(run_log / "run" / "000000.cwj")
    yield "another end", raw[: segment.scan.mark.at] + end_mark(99, 77, 0, 0, segment.salt)


def with_record(run_log, raw, kind, payload):
    path = run_log / "copy.cwj"
    path.write_bytes(raw)
    number = read_segment(path).scan.mark.number
    put_behind(path, [Record(number, kind, 0, 1, 1, payload.encode())])
    return path.read_bytes()


def check(run_log, name, raw, command):
    """Run a command on a folder with this log in it: it ends with a message."""
    logs = run_log / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    shutil.rmtree(run_log / "out", ignore_errors=True)
    with suppress(OSError):
        (run_log / "out").unlink()
    (logs / "run").mkdir(parents=True)
    (logs / "run" / "000000.cwj").write_bytes(raw)
    (logs / "run" / "lock").write_text("process 1")  # it was interrupted
    places = {"logs": logs, "run": logs / "run", "out": run_log / "out", "deployment": run_log / "net.toml"}
    words = [word.format(**places) for word in COMMANDS[command].split()]
    result = CliRunner().invoke(cli, words)
    odd = result.exception is not None and not isinstance(result.exception, SystemExit | OSError)
    assert not odd, f"{command}: {name}: {result.exception!r}"
    assert result.exit_code in (0, 1), f"{command}: {name}: {result.output}"
    assert "Traceback" not in result.output, f"{command}: {name}"
    return result


@pytest.mark.few(5)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_log_ends_a_command_in_a_traceback(run_log, command):
    """Each log goes to every seventh command, to slow ones fewer; the wide test tries them all."""
    step = SLOW.get(command, 7)
    for name, raw in list(odd_logs(run_log))[list(COMMANDS).index(command) % step :: step]:
        check(run_log, name, raw, command)


@pytest.mark.wide
@pytest.mark.parametrize("command", COMMANDS)
def test_no_log_at_all_ends_a_command_in_a_traceback(run_log, command):
    for name, raw in odd_logs(run_log):
        check(run_log, name, raw, command)


def test_a_run_that_makes_no_sense_does_not_keep_listen_from_starting(run_log):
    raw = (run_log / "run" / "000000.cwj").read_bytes()
    headers = dict(odd_headers(raw))
    for name, said in (("phi = 101", "makes no sense: phi = 101"), ("whole '['", "no object")):
        text = headers.get(name, "[]")
        result = check(run_log, name, with_header(raw, text), "listen")
        assert result.exit_code == 0
        assert "an earlier run could not be recovered" in (told := " ".join(result.stderr.split()))
        assert said in told


@pytest.mark.parametrize("command", ["replay", "html", "listen"])
def test_a_header_names_as_many_sources_as_records_can_tell_apart(run_log, command):
    """A hundred thousand took a minute: each was a gateway of the station."""
    raw = (run_log / "run" / "000000.cwj").read_bytes()
    header = json.loads(raw[_FILE.size : _FILE.unpack_from(raw)[3] + _FILE.size])
    for count, refused in ((256, False), (257, True)):
        text = json.dumps(header | {"sources": ["replay@x"] * count})
        result = check(run_log, f"{count} sources", with_header(raw, text), command)
        said = " ".join((result.stdout + result.stderr).split())
        assert ("is no list of at most 256 texts" in said) == refused, said


def test_keys_of_a_later_version_are_said_once(run_log):
    raw = (run_log / "run" / "000000.cwj").read_bytes()
    odd = with_header(raw, dict(odd_headers(raw))["another key"])
    for command in ("list", "verify", "ndjson", "replay", "why", "listen", "source", "ingest"):
        result = check(run_log, "another key", odd, command)
        assert result.exit_code == 0, result.output
        assert " ".join(result.stderr.split()).count("keys of a later version") == 1, (command, result.stderr)
        assert "deep, weather" in " ".join(result.stderr.split())


def test_a_log_of_a_later_format_is_told_in_the_same_words(run_log):
    raw = (run_log / "run" / "000000.cwj").read_bytes()
    begin = _FILE.unpack_from(raw)[3] + _FILE.size
    odd = with_header(raw, json.dumps({**json.loads(raw[_FILE.size : begin]), "format": 3}), version=3)
    for command in ("list", "verify", "replay", "ingest", "repair"):
        result = check(run_log, "format 3", odd, command)
        assert result.exit_code == 1
        said = " ".join(result.stderr.split())
        assert "journal format 3, this version reads format 2" in said, (command, said)
