"""InfluxDB's line protocol: each line read by a strict reader of our own, and by the real server."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from basestation.live.happenings import Alarm
from basestation.outputs import OutputError, influx
from basestation.outputs.influx import InfluxOutput, line, lines_of
from packet_formats.deployment import RadioSettings
from packet_formats.layout import layout_of
from tests.outputs.receivers import WebReceiver, free_port, is_open
from tests.outputs.test_mqtt import SETUP, run_of
from tests.waiting import wait_until

NAME = r"(?:[^\\,= \n]|\\[,= ])+"
FIELD = rf'{NAME}=(?:true|false|-?\d+i|-?\d+(?:\.\d+)?(?:e-?\d+)?|"(?:[^"\\\n]|\\["\\])*")'
LINE = re.compile(rf"{NAME}(?:,{NAME}={NAME})* {FIELD}(?:,{FIELD})* \d{{19}}")
ODD = Alarm(1, 1_700_000_000_000_000_000, "mote", 3, True, 'the "north, door"\\ =\n5')


def written(item, network="test"):
    return list(lines_of(item, network, layout_of(SETUP)))


def test_each_line_is_well_formed_whatever_the_words():
    delivered, station = run_of(40)
    lines = [one for item in (*delivered, ODD, station.snapshot(0)) for one in written(item, "my, net\\=\n")]
    assert len(lines) == 40 + 1 + 1 + 4
    for one in lines:
        assert LINE.fullmatch(one), one
    assert len({one.rpartition(" ")[2] for one in lines[:40]}) == 40, "no two messages at one time"
    assert line("a b", {"c,d": "e=f"}, {"g": 1, "h": None, "i": 0.5}, 7) == r"a\ b,c\,d=e\=f g=1i,i=0.5 7"


def test_values_are_fields_and_a_server_never_sees_another_type_of_one():
    (one, *_), _ = run_of(4)
    (text,) = written(one)
    assert text.startswith("message,network=test,mote=0 ")
    for value in SETUP.data:
        assert re.search(rf"[ ,]{value.name}=-?\d+\.\d+", text), value.name
    assert "sequence=0i" in text
    assert ",age_" not in text
    scheduled = layout_of(replace(SETUP, radio=RadioSettings(16000, 1152)))
    (text,) = lines_of(replace(one, data=replace(one.data, age=191)), "test", scheduled)
    assert "age_ms=23875i,age_or_more=true" in text


def test_a_file_gets_the_lines_at_its_end(tmp_path):
    path, said = tmp_path / "run.lp", []
    path.write_text("before\n")
    delivered, _ = run_of(20)
    output = InfluxOutput(str(path), SETUP, said.append)
    for item in delivered:
        output.take(item)
    output.close()
    lines = path.read_text().splitlines()
    assert lines[0] == "before"
    assert len(lines) == 21
    assert said == []
    with pytest.raises(OutputError, match="No such file"):
        InfluxOutput(str(tmp_path / "none" / "run.lp"), SETUP, said.append)


def test_a_server_that_is_busy_is_tried_again_and_one_that_refuses_is_said(monkeypatch):
    monkeypatch.setattr(influx, "PAUSES_S", (0.01,))
    monkeypatch.setattr(influx, "LINGER_S", 0.0)
    monkeypatch.delenv(influx.TOKEN, raising=False)
    web, said = WebReceiver(503, 204, 400), []
    delivered, _ = run_of(3)
    output = InfluxOutput(f"http://me:p%20w@127.0.0.1:{web.port}", SETUP, said.append)
    for number, item in enumerate(delivered, 2):
        output.take(item)
        wait_until(lambda: len(web.posts) >= number, "it was posted")  # noqa: B023
    output.close()
    web.close()
    assert [path for path, _ in web.posts] == ["/write?db=causeway"] * 4
    assert web.posts[0][1] == web.posts[1][1], "the same again"
    assert "it answers 400" in said[0]
    assert "p w" not in "".join(said)
    assert output._place._address.headers["Authorization"] == f"Basic {base64.b64encode(b'me:p w').decode()}"


@pytest.fixture
def influxdb(require_tool: Callable[[str], str], tmp_path: Path) -> Iterator[int]:
    """The port of a real server."""
    program, port, other = require_tool("influxd"), free_port(), free_port()
    (tmp_path / "influx.conf").write_text(
        f'reporting-disabled = true\nbind-address = "127.0.0.1:{other}"\n'
        f'[meta]\ndir = "{tmp_path}/meta"\n[data]\ndir = "{tmp_path}/data"\nwal-dir = "{tmp_path}/wal"\n'
        f'[http]\nbind-address = "127.0.0.1:{port}"\n[monitor]\nstore-enabled = false\n'
    )
    with (tmp_path / "influx.log").open("wb") as log:
        server = subprocess.Popen([program, "-config", str(tmp_path / "influx.conf")], stdout=log, stderr=log)
    try:
        wait_until(lambda: is_open(port), "it listens")
        yield port
    finally:
        server.terminate()
        server.wait(60)


def ask(port: int, query: str) -> list[dict]:
    said = urllib.parse.urlencode({"db": "causeway", "q": query}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/query", said, 30) as answer:
        return json.load(answer)["results"][0].get("series", [])


def test_the_real_server_takes_all_and_knows_the_values(influxdb):
    said: list[str] = []
    ask(influxdb, "CREATE DATABASE causeway")
    delivered, station = run_of(40)
    output = InfluxOutput(f"http://127.0.0.1:{influxdb}", SETUP, said.append)
    for item in (*delivered, ODD):
        output.take(item)
    output.take_snapshot(station.snapshot(0))
    output.close()
    assert said == []
    (count,) = ask(influxdb, f"SELECT count({SETUP.data[0].name}) FROM message")
    assert count["values"][0][1] == 40
    (text,) = ask(influxdb, "SELECT text FROM alarm")
    assert text["values"][0][1] == ODD.text.replace("\n", " ")
    (battery,) = ask(influxdb, "SELECT battery_mv FROM mote WHERE mote = '0'")
    assert battery["values"][0][1] == 2800
