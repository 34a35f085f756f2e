"""Which violations a storm explains."""

from __future__ import annotations

import pytest

from basestation.causality.truth import Send
from basestation.testbed.recorded_messages import Sent
from packet_formats.deployment import Deployment
from tests.firmware.cores import described
from tests.soak.violations import NS, Storm, explained, pairs

DEPLOYMENT: Deployment = described(7, 3, 32, {"scheme": "shlc"})  # delta is 125 ms


def message(source: int, vector: tuple[int, int], t: float, epoch: int = 0, delay: float = 0.05) -> Sent:
    sent = Sent(Send(source, vector[source], vector), round(t * NS), epoch)
    sent.arrived = round((t + delay) * NS)
    return sent


CAUSE, EFFECT = message(0, (1, 0), 10.0), message(1, (1, 1), 10.1)


def storm(boots: dict[int, list[int]] | None = None, damages=None, believed=(), root_spoke=()) -> Storm:
    nothing: dict[int, list[int]] = {0: [], 1: []}
    return Storm(nothing | (boots or {}), nothing | (damages or {}), list(believed), DEPLOYMENT, root_spoke)


def test_a_cause_behind_its_effect_is_found():
    more = message(0, (2, 1), 10.3)
    assert list(pairs([CAUSE, EFFECT, more])) == []
    assert list(pairs([EFFECT, more, CAUSE])) == [(CAUSE, EFFECT), (CAUSE, more)]
    assert list(pairs([EFFECT])) == []


def at(seconds: float) -> list[int]:
    return [round(seconds * NS)]


@pytest.mark.parametrize(
    ("cause", "happened", "reason"),
    [
        (CAUSE, storm(), None),
        (message(0, (1, 0), 10.0, delay=0.2), storm(), "late"),
        (message(0, (1, 0), 10.0, epoch=3), storm(), "new_time"),
        (CAUSE, storm(root_spoke=[(at(9)[0], 1)]), "new_time"),
        (CAUSE, storm(root_spoke=[(at(8)[0], 1), (at(9)[0], 0), (at(11)[0], 1)]), None),
        (CAUSE, storm(boots={1: at(10.05)}), "lost_past"),
        (CAUSE, storm(boots={1: at(9)}), None),
        (CAUSE, storm(damages={1: at(9)}), "damaged"),
        (CAUSE, storm(boots={1: at(9.5)}, damages={1: at(9)}), None),
        (CAUSE, storm(believed=at(3)), "believed"),
        (CAUSE, storm(believed=at(20)), None),
    ],
)
def test_a_violation_is_explained_by_what_happened_before(cause, happened, reason):
    why, unexplained = explained([EFFECT, cause], happened)
    assert dict(why) == ({} if reason is None else {reason: 1})
    assert len(unexplained) == (reason is None)
    assert all("1#1" in fault and "before its cause 0#1" in fault for fault in unexplained)
