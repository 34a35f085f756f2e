"""The log, line by line."""

import json

import pytest

from basestation.testbed import truth_log
from basestation.testbed.truth_log import (
    ClockSample,
    PortOpened,
    ProgramUse,
    ReceptionOutcome,
    RecordedEvent,
    RunEnd,
    Signal,
    States,
    TruthError,
    parse,
)

LINES = [
    '{"t":0,"is":"start","seed":1,"nodes":2,"version":1}',
    '{"t":0,"is":"port","node":1,"tcp":9001,"pty":null}',
    '{"t":5,"is":"power","node":0,"on":true}',
    '{"t":5,"is":"reset","node":0,"cause":"power-on"}',
    '{"t":6,"is":"recorder","node":0,"number":3,"kind":"send","peer":0,"sequence":9,"tick":77}',
    '{"t":7,"is":"missed","node":0,"count":2}',
    '{"t":9,"is":"signal","number":4,"node":null,"khz":2480000,"dbm":-60.000,"from":7,"data":8,"to":9,"broken":false,"bytes":"05ff"}',
    '{"t":9,"is":"outcome","signal":4,"node":1,"outcome":"weak","dbm":-97.250}',
    '{"t":10,"is":"uart","node":1,"bytes":"7e"}',
    '{"t":10,"is":"leds","node":1,"lit":5}',
    '{"t":11,"is":"clock","node":1,"crystal":65536,"tcnt0":1,"watch":{"lines":"0102"}}',
    '{"t":12,"is":"measured","node":1,"stack":190,"cycles":1000,"awake":25,"masked":7,"spi":80,"handlers":{"17":412}}',
    '{"t":12,"is":"peek","node":1,"address":256,"bytes":"00"}',
    '{"t":12,"is":"fault","node":1,"what":"TXFIFO underflow"}',
    '{"t":13,"is":"script","line":"at 1 off 1"}',
    '{"t":13,"is":"supply","node":0,"sensor":"light","on":true}',
    '{"t":14,"is":"states","node":1,"processor":{"idle":14},"radio":{"off":4,"receiving":10},"leds":{"red":3},"sensors":{},"starts":{"processor":0,"radio":2}}',
    '{"t":14,"is":"end","reason":"end","slices":8}',
]  # fmt: skip


def test_every_line_has_its_event():
    events = list(parse(LINES))
    assert {type(event) for event in events} == set(truth_log.EVENTS.values())
    assert [event.t for event in events] == [json.loads(line)["t"] for line in LINES]
    assert events[1] == PortOpened(0, 1, 9001, None)
    assert events[4] == RecordedEvent(6, 0, 3, "send", 0, 9, 77)
    assert events[6] == Signal(9, 4, None, 2480000, -60.0, 7, 8, 9, False, b"\x05\xff")
    assert events[7] == ReceptionOutcome(9, 4, 1, "weak", -97.25)
    assert events[10] == ClockSample(11, 1, 65536, 1, {"lines": b"\x01\x02"})
    assert events[11] == ProgramUse(12, 1, 190, 1000, 25, 7, 80, {17: 412})
    assert events[16] == States(
        14, 1, {"idle": 14}, {"off": 4, "receiving": 10}, {"red": 3}, {}, {"processor": 0, "radio": 2}
    )
    assert events[17] == RunEnd(14, "end", 8, None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2"),
        ('{"t":1,"is":"wonder"}', "'wonder' is not known"),
        ('{"t":1}', "'is'"),
        ('{"t":1,"is":"leds","node":1}', "lit"),
        ('{"t":1,"is":"leds","node":1,"lit":1,"more":2}', "more"),
        ('{"t":1,"is":"uart","node":1,"bytes":"7"}', "hex"),
        ("[]", "line 2"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, line, words):
    path = tmp_path / "log"
    path.write_text(LINES[0] + "\n" + line + "\n")
    with pytest.raises(TruthError) as refused:
        list(truth_log.read(path))
    assert str(refused.value).startswith(f"{path}, line 2: ")
    assert words in str(refused.value)
