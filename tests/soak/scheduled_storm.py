"""The storm over motes that sleep: ten MICAz that wake together every 16 seconds (examples/micaz_months.toml).

All as in `storm.py`, but for the times: motes join within tens of seconds, so faults are further apart and last longer.
An attacker sends mostly while motes listen.
"""

from __future__ import annotations

import sys

from tests.soak.running import Piece, Search
from tests.soak.storm import AIM, SECONDS, Climate
from tests.soak.storm import piece as storm_piece

SCHEDULED = Climate("scheduled_storm", "micaz_months", rate=0.1, begin=100, heard=150, every=48, slower=4)


def piece(number: int, seconds: float = SECONDS) -> Piece:
    return storm_piece(number, SCHEDULED, seconds)


SEARCH = Search("scheduled_storm", "seconds", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
