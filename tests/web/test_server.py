"""The page's server over HTTP: what it streams, whom it refuses, and what it survives."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from packet_formats.deployment import Deployment, load
from tests.waiting import PATIENCE, wait_until
from tests.web.serving import ServedRun, delivered, merged, serve

MESSAGES = 120
MUCH = 160 << 20  # bytes: ten times what is kept for viewers
SOURCE = f"simulate@?messages={MESSAGES}&rate=0.05&pace=0"


@pytest.fixture(scope="module", autouse=True)
def extra(require_module: Callable[[str], ModuleType]) -> None:
    require_module("uvicorn")


@pytest.fixture(scope="module")
def deployment(root: Path) -> Deployment:
    return load(root / "examples" / "barrier.toml")


@pytest.fixture(scope="module")
def ended(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory):
    """A run that is over, with a log."""
    with serve(deployment, SOURCE, log=tmp_path_factory.mktemp("log") / "served") as run:
        run.ended()
        yield run


def test_a_viewer_sees_the_deliveries_of_the_json_view_as_they_come(deployment: Deployment) -> None:
    with serve(deployment, SOURCE) as run, run.stream() as events:
        kind, hello = next(events)
        assert (kind, hello["run"], hello["live"], hello["control"]) == ("hello", "served", True, False)
        assert [mote["id"] for mote in hello["motes"]] == list(range(10))
        assert hello["policies"] == ["none", "barrier", "ledger", "sequence"]
        run.begin.set()
        rows: dict = {}
        for kind, plain in events:
            if kind == "rows":
                merged(rows, plain)
            if sum(row["kind"] == "message" and row["state"] == "final" for row in rows.values()) == MESSAGES:
                break
        run.ended()
        assert delivered(rows) == run.deliveries()
        assert len(run.deliveries()) == MESSAGES


def test_who_comes_later_gets_the_same_rows_and_a_picture(ended: ServedRun) -> None:
    rows: dict = {}
    with ended.stream() as events:
        for kind, plain in events:
            if kind == "rows":
                merged(rows, plain)
            elif kind == "picture":
                break
    assert delivered(rows) == ended.deliveries()
    assert (plain["received"], plain["delivered"], plain["held"]) == (MESSAGES, MESSAGES, 0)
    assert plain["viewers"] == 1
    assert all("history" in mote for mote in plain["motes"])  # in the first picture
    messages = [row for row in rows.values() if row["kind"] == "message"]
    caused = [cause for row in messages for cause in row["causes"] if cause["how"] == "stamp"]
    assert caused
    assert all(cause["key"] is None or rows[cause["key"]]["name"] == cause["name"] for cause in caused)
    assert all(row["sent_ms"] <= row["came_ms"] <= row["left_ms"] for row in messages)
    assert {row["wrong"] for row in messages} >= {None, "arrival"}


def test_older_rows_come_in_pages(ended: ServedRun) -> None:
    found: list = []
    before, more = 1e15, True
    while more:
        status, answer = ended.json(f"/rows?before={before}&limit=50")
        assert status == 200
        assert 50 <= len(answer["rows"]) < 60 or not answer["more"]
        found = answer["rows"] + found
        before = answer["rows"][0].get("came_ms", answer["rows"][0].get("at_ms"))
        more = answer["more"]
    keys = [row["key"] for row in found]
    assert [key for key in keys if isinstance(key, int)] == list(range(1, MESSAGES + 1))
    assert len(keys) == len(set(keys))


def test_a_message_is_explained_as_why_does_it(ended: ServedRun, deployment: Deployment) -> None:
    row = next(one for one in ended.told if one["event"] == "violation")
    number = next(
        one["number"] for one in ended.told if one["event"] == "arrived" and one["name"] == row["cause"]
    )
    status, told = ended.json(f"/why?row={number}")
    assert status == 200
    assert row["text"] in told["violations"]
    assert told["text"][0].startswith(told["message"])
    server = ended.server
    window, graph = server._explained, ended.page._station.violations.graph
    assert graph is not None
    server._explained = lambda name: {"text": None, "violations": ["long ago"]}
    try:
        status, again = ended.json(f"/why?row={number}")
    finally:
        server._explained = window
    assert (status, again["violations"]) == (200, ["long ago"])
    assert again["causes"] == told["causes"]
    assert again["message"] == told["message"]


def test_a_policy_is_tried_on_the_last_minutes(ended: ServedRun) -> None:
    status, tried = ended.json("/trial?policy=none")
    assert status == 200
    counts = ended.runner.station.violations.arrival
    arrival, most = counts.overtaken, counts.overtaken + counts.possible
    assert 0 < arrival < most
    assert (tried["out_of_order_most"], tried["before_most"]) == (most, 0)
    assert (tried["messages"], tried["out_of_order"], tried["before"]) == (MESSAGES, arrival, 0)
    assert tried["mean_hold_ms"] == 0 < tried["mean_hold_now_ms"]
    assert f"at least {arrival}, at most {most} of {MESSAGES} messages out of order (now 0)" in tried["text"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/page/../server.py", 404),
        ("/page/..%5cserver.py", 404),
        ("/why?row=99999", 404),
        ("/why?row=e1", 404),
        ("/why?row=" + "9" * 5000, 404),
        ("/rows?before=nan", 400),
        ("/rows?limit=0", 400),
        ("/trial?policy=cbd", 400),
        ("/trial?policy=" + "x" * 5000, 400),
        ("/trial?policy=barrier&phi=101", 400),
        ("/trial?tolerate=nan", 400),
        ("/policy", 405),
    ],
)
def test_bad_requests_are_answered_in_words(ended: ServedRun, path: str, status: int) -> None:
    found, answer = ended.json(path)
    assert found == status
    assert answer["error"]
    assert len(answer["error"]) < 300


def test_a_request_that_is_too_long_ends_only_itself(ended: ServedRun) -> None:
    with socket.create_connection(("127.0.0.1", ended.port), timeout=PATIENCE) as line:
        line.sendall(b"GET /rows?" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.recv(64).startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
    assert ended.json("/rows?limit=1")[0] == 200


def test_a_trial_that_goes_on_ends_with_the_server(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    work = f"import time; pipe = open({str(pipe)!r}, 'w'); print('begun', file=pipe, flush=True); time.sleep(600)"
    monkeypatch.setattr("basestation.web.trial.WORDS", ("-c", work))
    with serve(deployment, SOURCE) as run, socket.create_connection(("127.0.0.1", run.port)) as line:
        line.sendall(b"GET /trial?policy=none HTTP/1.1\r\nHost: localhost\r\n\r\n")
        held = pipe.open()
        assert held.readline() == "begun\n"
    with held:
        assert held.read() == "", "nobody has it open any more"
    assert run.server.fault is None
    assert "Traceback" not in capfd.readouterr().err


def test_no_more_viewers_than_allowed_even_if_they_come_at_once(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("basestation.web.server.VIEWERS", 2)
    with serve(deployment, SOURCE) as run, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", run.port)
        lines = [stack.enter_context(socket.create_connection(address, PATIENCE)) for _ in range(8)]
        for line in lines:
            line.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers = [line.recv(12) for line in lines]
        assert sorted(answers) == [b"HTTP/1.1 200"] * 2 + [b"HTTP/1.1 503"] * 6


def test_a_machine_with_most_viewers_makes_room_for_another(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("basestation.web.server.VIEWERS", 2)
    with serve(deployment, SOURCE) as run, run.stream() as first, run.stream() as second:
        assert [next(first)[0], next(second)[0]] == ["hello", "hello"]
        for viewer in run.server.ring.viewers:
            viewer.client = ("192.0.2.7", viewer.client[1])
        with run.stream() as third:
            assert next(third)[0] == "hello"
            assert {viewer.number for viewer in run.server.ring.viewers} == {2, 3}


def test_who_changed_what_is_told_and_logged(deployment: Deployment, tmp_path: Path) -> None:
    """The address is that of the connection: a client can forge a header."""
    with serve(deployment, SOURCE, control=True, log=tmp_path / "log") as run:
        spoofed = {"X_Forwarded_For": "192.0.2.7"}
        assert run.json("/policy", method="POST", body={"policy": "none"}, **spoofed)[0] == 200
        order = {"mote": 1, "setting": "report"}
        assert run.json("/command", method="POST", body=order, **spoofed)[0] == 200
        run.ended()
    told = [one["text"] for one in run.told if one["event"] == "note"]
    journal = read_journal(tmp_path / "log")
    logged = [record.text() for record in journal.records(print) if record.kind == RecordKind.NOTE]
    assert told == logged
    assert [re.sub(r":\d+,", "", text.partition(": ")[0]) for text in logged] == [
        "by the page, 127.0.0.1 without a token"
    ] * 2
    assert logged[0].endswith(": policy none")
    assert ": report to mote 1" in logged[1]


def test_viewers_that_reset_say_nothing(deployment: Deployment, capfd: pytest.CaptureFixture[str]) -> None:
    with serve(deployment, SOURCE) as run:
        for _ in range(30):
            with socket.create_connection(("127.0.0.1", run.port), PATIENCE) as line:
                line.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert line.recv(12) == b"HTTP/1.1 200"
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        run.ended()
        wait_until(lambda: not run.server.ring.viewers, "all have gone")
    assert "the page is at" in (said := capfd.readouterr().err)
    assert len(said.splitlines()) <= 2


def test_connections_that_never_ask_neither_use_up_files_nor_keep_others_out(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("basestation.web.viewers.CONNECTIONS", 5)
    with serve(deployment, SOURCE) as run, contextlib.ExitStack() as stack, run.stream() as events:
        assert next(events)[0] == "hello"
        for _ in range(40):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", run.port), timeout=PATIENCE))
            line.sendall(b"GET / HT")
        assert run.json("/rows?limit=1")[0] == 200
        assert len(run.server._uvicorn.server_state.connections) <= 5
        assert len(run.server.ring.viewers) == 1


def test_a_connection_whose_request_does_not_come_is_ended(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("basestation.web.viewers.REQUEST_SECONDS", 0.01)
    with serve(deployment, SOURCE) as run:
        for asked in (b"", b"GET / HT", b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"):
            with socket.create_connection(("127.0.0.1", run.port), timeout=PATIENCE) as line:
                line.sendall(asked)
                with contextlib.suppress(ConnectionResetError):
                    while line.recv(4096):
                        pass


def test_every_answer_has_its_headers(ended: ServedRun) -> None:
    for path in ("/rows?limit=1", "/nothing", "/why"):
        _, headers, _ = ended.ask(path)
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    assert ended.ask("/rows", Host="evil.example")[0] == 421
    assert ended.ask("/stream", Origin="http://evil.example")[0] == 403


def test_the_page_only_shows(ended: ServedRun) -> None:
    for path in ("/policy", "/command"):
        status, answer = ended.json(path, method="POST", body={"policy": "none"})
        assert (status, "--web-control" in answer["error"]) == (403, True)
    assert ended.runner.station.policy == "barrier"


def test_control_changes_the_policy_and_asks_for_an_order(deployment: Deployment) -> None:
    with serve(deployment, SOURCE, control=True) as run:
        for body, status in [
            (b"{", 400),
            (b"[1]", 400),
            (b"[" * 2000, 400),
            (b"x" * 5000, 413),
            ({"policy": "cbd"}, 400),
            ({"policy": 3}, 400),
            ({"policy": "ledger", "tolerate": "a"}, 400),
            ({"policy": "ledger", "tolerate": True}, 400),
        ]:
            assert run.json("/policy", method="POST", body=body)[0] == status, body
        evil = {"Origin": "http://evil.example"}
        assert run.json("/policy", method="POST", body={"policy": "none"}, **evil)[0] == 403
        assert (
            run.json("/policy", method="POST", body={"policy": "none"}, Content_Type="text/plain")[0] == 415
        )
        for order, status in [
            ({"mote": 10, "setting": "report"}, 400),
            ({"mote": 1, "setting": "explode"}, 400),
            ({"mote": 1, "setting": "report reboot"}, 400),
            ({"mote": True, "setting": "report"}, 400),
            ({"mote": 1}, 400),
        ]:
            assert run.json("/command", method="POST", body=order)[0] == status, order
        assert run.runner.station.policy == "barrier"
        answer = run.json("/policy", method="POST", body={"policy": "ledger", "tolerate": 0.5})
        assert answer == (200, {"text": "Messages are delivered by ledger, tolerating 0.5% from now on."})
        assert (run.runner.station.policy, run.runner.station.tolerate) == ("ledger", 0.5)
        run.ended()
        status, answer = run.json("/policy", method="POST", body={"policy": "none"})
        assert (status, answer["error"]) == (409, "the run has ended")


def test_any_other_address_needs_the_token(deployment: Deployment) -> None:
    with serve(deployment, SOURCE, where="0.0.0.0:0") as run:
        assert run.token
        assert len(run.token) >= 32
        for path in ("/", "/rows", "/stream", f"/rows?token={run.token[:-1]}", "/rows?token="):
            status, answer = run.json(path)
            assert (status, "token" in answer["error"]) == (403, True)
        status, headers, _ = run.ask(f"/rows?token={run.token}")
        assert status == 200
        cookie = headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
        assert run.ask("/rows", Cookie=cookie.partition(";")[0])[0] == 200
        assert run.ask("/rows", Cookie=cookie.partition("=")[0] + "=guess")[0] == 403


def test_a_viewer_that_reads_nothing_is_dropped_and_nobody_waits_for_it(deployment: Deployment) -> None:
    with serve(deployment, SOURCE) as run, socket.create_connection(("127.0.0.1", run.port)) as deaf:
        deaf.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ring = run.server.ring
        wait_until(lambda: len(ring.viewers) == 1, "the deaf viewer has come")
        with run.stream() as events:
            assert next(events)[0] == "hello"
            wait_until(lambda: len(ring.viewers) == 2, "both are there")
            big = (
                b"event: rows\ndata: " + json.dumps([{"key": "e0", "text": "x" * 200_000}]).encode() + b"\n\n"
            )
            sent = 0
            while not ring.dropped:
                assert sent < MUCH, "it was never dropped"
                run.server._loop.call_soon_threadsafe(lambda: run.server._abort(ring.put(big)))
                sent += len(big)
                while (event := next(events))[0] != "rows":
                    pass
                assert len(event[1][0]["text"]) == 200_000
            assert len(ring.viewers) == 1
            run.begin.set()
            rows: dict = {}
            while len(delivered(rows)) < MESSAGES:
                kind, plain = next(events)
                if kind == "rows":
                    merged(rows, [row for row in plain if row["key"] != "e0"])
            run.ended()
            assert delivered(rows) == run.deliveries()


def test_streams_end_with_the_server_and_nothing_is_printed(
    deployment: Deployment, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        serve(deployment, SOURCE) as run,
        run.stream() as events,
        socket.create_connection(("127.0.0.1", run.port)) as deaf,
    ):
        deaf.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        next(events)
        run.runner.stopped = True
        run.begin.set()
        assert {kind for kind, _ in events} <= {"picture", "rows"}
    assert run.server.fault is None
    assert "Traceback" not in (said := capfd.readouterr().err)
    assert "the page is at http://127.0.0.1:" in said
