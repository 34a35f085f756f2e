"""The search tests/soak/root_storm.py: the real images, while the root goes off and on."""

from __future__ import annotations

import pytest

from tests.soak.root_storm import SEARCH, seconds_of, storm, timeline


def test_timelines_turn_the_root_off_and_on() -> None:
    for number in range(SEARCH.aim):
        lines = [line.split() for line in timeline(number, 6, seconds_of(number))]
        times = [float(words[1]) for words in lines]
        assert [words[2] for words in lines] == ["off", "on"] * (len(lines) // 2)
        assert all(off < on for off, on in zip(times[::2], times[1::2], strict=True))
    assert seconds_of(0) < seconds_of(SEARCH.aim - 1)


@pytest.mark.wide
def test_a_storm() -> None:
    found = storm(0)
    assert not found.faults
    assert found.counts["messages"] > 300
