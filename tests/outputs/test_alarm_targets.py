"""Alarms that reach people: programs, webhooks, brokers; those that hang, are down and come back."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading

import pytest

from basestation.cli import listen
from basestation.live.alarms import KINDS
from basestation.live.happenings import Alarm
from basestation.outputs import OutputError, alarm_targets, outbox
from basestation.outputs.alarm_targets import AlarmRoute, AlarmSink, make_target
from basestation.outputs.outbox import Outbox
from basestation.outputs.settings import Settings, load_settings
from tests.outputs.receivers import Mosquitto, Subscriber, WebReceiver, free_port
from tests.waiting import wait_until

RAISED = Alarm(1, 1_700_000_000_123_000_000, "battery", 3, True, "mote 3's battery is low: 2800 mV")
OVER = Alarm(2, 1_700_000_060_123_000_000, "battery", 3, False, "over: mote 3's battery is low: 2800 mV")
PLAIN = {
    "network": "meadow",
    "what": "battery",
    "subject": 3,
    "raised": True,
    "text": RAISED.text,
    "time": "2023-11-14T22:13:20.123Z",
}


def sink_for(to: str, said: list[str], pauses_s=(0.01, 0.02), **route) -> AlarmSink:
    return AlarmSink(AlarmRoute(to, **route), "meadow", said.append, pauses_s)


def test_a_command_gets_json_and_variables_and_no_shell(tmp_path):
    out, said = tmp_path / "out", []
    program = (
        "import os, sys; open(sys.argv[1], 'a').write(sys.stdin.read() + os.environ['CAUSEWAY_ALARM_TEXT'])"
    )
    sink = sink_for(f'command:{sys.executable} -c "{program}" "{out}" ; $(nothing)', said)
    sink.take(RAISED)
    sink.close()
    text = out.read_text()
    assert text == json.dumps(PLAIN) + RAISED.text
    assert said == []


def test_the_example_of_the_docs_and_of_the_help_gets_the_text(tmp_path, monkeypatch, root):
    (example,) = re.findall(
        r"--on-alarm ('command:.*')$", (root / "docs/reference/outputs.md").read_text(), re.MULTILINE
    )
    assert example in str(listen.command.epilog)
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/told\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    make_target(*shlex.split(example)).send(PLAIN)  # as the user's shell takes the words apart
    assert (tmp_path / "told").read_text() == f"Causeway|{RAISED.text}|"


def test_a_command_that_hangs_is_ended_and_one_that_fails_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setattr(alarm_targets, "LIMIT_S", 0.2)
    said: list[str] = []
    sink = sink_for(f'command:{sys.executable} -c "import time; time.sleep(600)"', said)
    for _ in range(3):
        sink.take(RAISED)
    sink.close()
    assert len(said) == 2, "the first failure, and at the end how many"
    assert "took longer than 0.2 s and was ended" in said[0]
    assert "3 items could not be sent" in said[1]
    monkeypatch.undo()
    gone = tmp_path / "gone"
    gone.write_text("#!/bin/sh\n")
    gone.chmod(0o755)
    target = make_target(f"command:{gone}")
    gone.unlink()
    with pytest.raises(OutputError, match="can't be started: No such file"):
        target.send(PLAIN)
    with pytest.raises(OutputError, match="ended with 3: no luck"):
        make_target(
            f"command:{sys.executable} -c 'import sys; print(\"no luck\", file=sys.stderr); sys.exit(3)'"
        ).send(PLAIN)


def test_a_command_is_ended_with_all_that_it_started_when_the_run_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "CLOSING_S", 0.0)
    pipe, said = tmp_path / "pipe", []
    os.mkfifo(pipe)
    sink = sink_for(f"command:sh -c 'exec 3>{pipe}; echo begun >&3; sleep 600; true'", said)
    sink.take(RAISED)
    with pipe.open() as held:  # by the shell and by what it started
        assert held.readline() == "begun\n"
        sink.close()
        assert held.read() == "", "nobody has it open any more"
    assert said == ["command sh: 1 item could not be sent"]


def test_a_command_may_leave_something_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(alarm_targets, "LIMIT_S", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    make_target(f"command:sh -c 'cat {pipe} & exit 0'").send(PLAIN)
    with pipe.open("w"):  # it is still there to read it, and ends then
        pass


def test_a_webhook_that_has_moved_has_not_got_the_alarm():
    """A redirected post would become a get, without the alarm."""
    web = WebReceiver(302)
    with pytest.raises(OutputError, match=r"it answers 302 Found, it has moved to http://127.0.0.1:1/$"):
        make_target(f"http://me:secret@127.0.0.1:{web.port}/").send(PLAIN)
    web.close()
    assert web.plain == [PLAIN], "the password is no part of the host"


def test_a_webhook_gets_what_its_route_wants_and_is_tried_again():
    web, said = WebReceiver(503, 500), []
    sink = sink_for(f"http://127.0.0.1:{web.port}/hook?key=1", said, kinds=("battery",), over=False)
    for alarm in (RAISED, OVER, Alarm(3, 4, "line", 0, True, "lost")):
        sink.take(alarm)
    sink.close()
    web.close()
    assert web.plain == [PLAIN] * 3, "twice refused, then taken"
    assert web.posts[0][0] == "/hook?key=1"
    assert said == []


def test_a_webhook_that_hangs_delays_no_alarm_and_is_reported_once(monkeypatch):
    monkeypatch.setattr(alarm_targets, "LIMIT_S", 0.2)
    web, said = WebReceiver(*[None] * 6), []
    sink = sink_for(f"http://127.0.0.1:{web.port}/", said)
    for _ in range(1000):
        sink.take(RAISED)
    assert len(web.posts) < 6, "nobody waited for it"
    wait_until(lambda: len(web.posts) > 6, "it answers again")
    sink.close()
    web.close()
    assert "not sent: " in said[0]
    assert any("works again" in text for text in said[1:])
    assert len(said) <= 4


def test_a_webhook_that_was_down_gets_the_next_alarm():
    port, said = free_port(), []
    sink = sink_for(f"http://127.0.0.1:{port}/", said, pauses_s=())
    sink.take(RAISED)
    wait_until(lambda: said, "it is said that nobody answers")
    assert "Connection refused" in said[0]
    web = WebReceiver(port=port)
    sink.take(OVER)
    sink.close()
    web.close()
    assert [plain["raised"] for plain in web.plain] == [False]
    assert "works again; 1 item was not sent" in said[1]


def test_a_broker_that_is_down_at_first_gets_the_alarm(mosquitto: Mosquitto):
    said: list[str] = []
    sink = sink_for(f"mqtt://127.0.0.1:{mosquitto.port}/site/alarms", said, pauses_s=(1, 5, 5))
    mosquitto.start()
    subscriber = Subscriber(mosquitto.port)
    sink.take(RAISED)
    wait_until(lambda: subscriber.found, "the alarm comes")
    sink.close()
    subscriber.close()
    assert [(topic, json.loads(content)) for topic, content, _ in subscriber.found] == [
        ("site/alarms", PLAIN)
    ]
    assert said == []


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("nonsense", "is not a target for alarms"),
        ("command:", "names no program"),
        ("command:a 'b", "No closing quotation"),
        ("command:/no/such/program x", "command:/no/such/program: there is no such program"),
        ("command:no-such-program", "no such program"),
        ("https://", "is not a target for alarms"),
        ("http://[me:secret@host/", "address can't be used: Invalid IPv6 URL"),
        ("http://me:secret@/", "names no host"),
        ("mqtt://host/a%23b", "cannot be published to"),
        ("mqtt://host", "names no topic"),
        ("mqtt://me:secret@host/a/#", r"mqtt://...@host/a/#: should look like|no topic"),
        ("mqtt://host:port/a", "Port could not be cast"),
    ],
)
def test_a_wrong_target_is_refused_in_words(to, said):
    with pytest.raises(OutputError, match=said) as caught:
        make_target(to)
    assert "secret" not in str(caught.value)


def test_a_full_queue_loses_and_says_how_many():
    said, hold = [], threading.Event()
    outbox = Outbox("slow", lambda item: bool(hold.wait(60)) and None, said.append, size=3)
    for item in range(10):
        outbox.put(item)
    hold.set()
    outbox.close()
    assert said[0] == "slow: not sent: the receiver is too slow, or away"
    assert outbox.done + outbox.lost == 10
    assert outbox.lost >= 6


def test_an_item_still_in_delivery_at_the_end_counts_as_not_sent(monkeypatch):
    monkeypatch.setattr(outbox, "CLOSING_S", 0.0)
    said, hold = [], threading.Event()
    busy = Outbox("slow", lambda items: bool(hold.wait(60)) and None, said.append)
    for item in range(5):
        busy.put(item)
    busy.close()
    hold.set()
    assert said == ["slow: 5 items could not be sent"]


def test_the_words_of_others_cannot_change_the_terminal():
    said: list[str] = []

    def refuse(items: list[int]) -> None:
        raise OutputError("it says \x1b[2Jno\u202e")

    outbox = Outbox("rude", refuse, said.append)
    outbox.put(1)
    outbox.close()
    assert said[0] == "rude: not sent: it says  [2Jno "


def test_settings_say_where_alarms_go(tmp_path, monkeypatch):
    path = tmp_path / "causeway" / "settings.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_settings(None) == Settings(), "none are needed"
    path.parent.mkdir()
    path.write_text(
        '[[alarm]]\nto = "command:beep"\nkinds = ["mote", "line"]\nover = false\n[[alarm]]\nto = "x:"\n'
    )
    routes = (AlarmRoute("command:beep", ("mote", "line"), False), AlarmRoute("x:", KINDS, True))
    assert load_settings(None) == Settings(routes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[alarm]]\nkinds = []\n", r"number 1: `to` must be a text"),
        ('[[alarm]]\nto = "a"\nkind = []\n', r"number 1 has no key kind; did you mean kinds\?"),
        ('[[alarm]]\nto = "a"\nkinds = ["batery"]\n', r"kind of alarm 'batery'; did you mean battery\?"),
        ("alarm = 3\n", r"should be tables"),
        ("a = " + "[" * 9999, r"settings.toml: "),
        ('[[alarm]]\nto = "a"\nkinds = [3, []]\n', r"no kind of alarm 3"),
        ("[alarm\n", r"settings.toml: "),
        ("[[alarms]]\n", r"did you mean alarm\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(tmp_path, text, said):
    path = tmp_path / "settings.toml"
    with pytest.raises(OutputError, match="no such file"):
        load_settings(path)
    path.write_text(text)
    with pytest.raises(OutputError, match=said):
        load_settings(path)


def test_an_extra_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(
        OutputError, match=r"an alarm over MQTT needs the extra `mqtt`: .*pip install '\.\[mqtt\]'"
    ):
        make_target("mqtt://host/topic")


@pytest.mark.wide
def test_a_line_at_the_wrong_speed_reaches_a_program(tmp_path):
    """The whole program, on a line that brings bytes but no frames."""
    out, noise = tmp_path / "alarms", b"\xf8\x00\xe6\x18\x9e" * 20
    server = socket.create_server(("127.0.0.1", 0))
    source = f"network@127.0.0.1:{server.getsockname()[1]}"
    command = [sys.executable, "-m", "basestation", "listen", source, "-d", "examples/micaz.toml", "--view"]
    command += ["none", "--on-alarm", f"command:tee -a {out}", "--settings", os.devnull]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line, _ = server.accept()
        line.sendall(noise)
        wait_until(lambda: out.exists() and out.read_text().endswith("}"), "the alarm")
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
        line.close()
        server.close()
    found = json.loads(out.read_text())
    assert found["what"] == "speed"
    assert found["text"] == f"{source} sent 100 bytes but no frame: wrong speed?"
    assert found["text"] in said, "and the person at the terminal"
