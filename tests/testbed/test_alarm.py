"""The alarm app on emulated motes: a shadow falls on a mote, and the others answer because they heard of it."""

import json

import pytest
from click.testing import CliRunner

from basestation.cli.testbed import command
from basestation.testbed.signals import message_of
from basestation.testbed.truth_log import RecordedEvent, Signal, read
from packet_formats.deployment import load
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message

pytestmark = pytest.mark.wide

ALARM, ANSWER, END = 1, 2, 3
BRIGHT, DARK = 800, 100
SHADOWS = {4: 3, 6: 9, 8: 3}  # second and mote


def light():
    yield "time,mote,sensor,value"
    yield from (f"0,{mote},light,{BRIGHT}" for mote in range(10))
    for second, mote in SHADOWS.items():
        yield from (f"{second},{mote},light,{DARK}", f"{second + 1},{mote},light,{BRIGHT}")


@pytest.fixture(scope="module")
def run(root, tmp_path_factory, request):
    """The report, and what each mote sent and heard, in order: (mote, kind of event, peer, sequence), and all data."""
    for fixture in ("testbed", "platformio"):
        request.getfixturevalue(fixture)
    folder = tmp_path_factory.mktemp("alarm")
    (folder / "light.csv").write_text("\n".join(light()))
    example = root / "examples" / "alarm.toml"
    words = [
        "--app",
        "alarm",
        "--sensors",
        folder / "light.csv",
        "--seconds",
        11,
        "--truth",
        folder / "log",
        "--json",
    ]
    result = CliRunner().invoke(command, [str(example), *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    layout = layout_of(load(example))
    events, sent = [], {}
    for event in read(folder / "log"):
        if isinstance(event, RecordedEvent) and event.kind in ("send", "receive"):
            events.append((event.node, event.kind, event.peer, event.sequence))
        if isinstance(event, Signal) and (air := message_of(event, "micaz", 1)):
            message = decode_message(air, layout)
            if isinstance(message, Data):
                kind, about, number, answers = message.data[:4]
                lit = int.from_bytes(message.data[4:], "little")
                sent[message.source, message.sequence] = (kind, about, number, answers, lit)
    return json.loads(result.stdout), events, sent


def of_kind(sent, kind):
    return {name: values[1:] for name, values in sent.items() if values[0] == kind}


def test_each_shadow_is_an_alarm_that_others_answer(run):
    report, _, sent = run
    alarms = of_kind(sent, ALARM)
    assert sorted(alarms.values()) == [(3, 1, 0, DARK), (3, 2, 0, DARK), (9, 1, 0, DARK)]
    answers = of_kind(sent, ANSWER)
    for about, number, _, _ in alarms.values():
        answered = {source for (source, _), values in answers.items() if values[:2] == (about, number)}
        assert len(answered) >= 6
        assert about not in answered
    assert {values[3] for values in answers.values()} == {BRIGHT}
    assert report["networks"][0]["delivered"]["inverted"] == 0


def test_an_answer_is_an_effect_of_its_alarm(run):
    _, events, sent = run
    named = {values[:2]: name for name, values in of_kind(sent, ALARM).items()}
    answers = of_kind(sent, ANSWER)
    for (source, sequence), (about, number, *_) in answers.items():
        heard = events.index((source, "receive", *named[about, number]))
        assert heard < events.index((source, "send", source, sequence))


def test_the_end_counts_the_answers_that_were_heard(run):
    _, events, sent = run
    answers = of_kind(sent, ANSWER)
    ends = of_kind(sent, END)
    assert len(ends) == len(SHADOWS)
    for (source, sequence), (about, number, count, _) in ends.items():
        before = events[: events.index((source, "send", source, sequence))]
        heard = sum(
            (source, "receive", *name) in before
            for name, values in answers.items()
            if values[:2] == (about, number)
        )
        assert (about, count) == (source, heard)
        assert count >= 3
