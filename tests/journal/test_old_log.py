"""A log of a station that let go between two arrivals of one tick is still replayed."""

import asyncio
from pathlib import Path

import pytest

from basestation.journal.reader import read_journal
from basestation.live.happenings import Delivered
from basestation.live.runner import Player
from basestation.live.station import Station
from tests.journal.logs import refuse

LOG = Path(__file__).parent / "data" / "before_one_tick"
DELIVERED = (LOG / "delivered.txt").read_text().split()  # by that station: cbd, phi 100


class Kept:
    """A sink that keeps the names of what is delivered."""

    def __init__(self):
        self.names = []

    def take(self, happening):
        if isinstance(happening, Delivered):
            self.names.append(str(happening.name))

    def close(self):
        pass


def replayed(policy, phi):
    journal, kept = read_journal(LOG), Kept()
    asyncio.run(Player(Station(journal.deployment, policy, phi), journal.steps(refuse), [kept]).run())
    return kept.names


@pytest.mark.parametrize("policy", ["cbd", "dapw", "causal"])
def test_the_whole_wait_gives_the_order_of_then(policy):
    assert replayed(policy, 100) == DELIVERED
    assert len(DELIVERED) == 54


@pytest.mark.parametrize(
    ("policy", "phi"), [("cbd", 0), ("cbd", 40), ("dapw", 40), ("none", 100), ("sequence", 100)]
)
def test_any_other_policy_gives_the_same_messages(policy, phi):
    assert sorted(replayed(policy, phi)) == sorted(DELIVERED)
