"""Small random streams for the kernels."""

from __future__ import annotations

from random import Random

from basestation.causality.truth import Send, VectorTruth


def random_sends(random: Random, motes: int, count: int) -> list[Send]:
    """Sends in their true order. Before every other one, its mote has received one of the last ten."""
    truth = VectorTruth(motes)
    sends: list[Send] = []
    for _ in range(count):
        mote = random.randrange(motes)
        if sends and random.random() < 0.5:
            truth.on_receive(mote, [random.choice(sends[-10:])])
        sends.append(truth.on_send(mote))
    return sends
