"""Several gateways: each hears the motes by itself, and forwards its frames in order on a line of its own.

A line takes up to `WorldOptions.line` ticks of its gateway's clock; most copies take a quarter of that at most. The
observer takes the first copy of each message. The observer's clock is the slowest line's: all frames that any gateway
heard in earlier ticks have arrived. Copies arrive only at moments when a gateway hears a frame, so the order follows
from the rows of a world, without the ticks of its clocks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from basestation.causality.stream import Int64, Stream

from .options import WorldOptions

# Columns of a reception: message, clock, batch, fresh, gateway, and from here on the clocks of all gateways.
FIRST_CLOCK = 5
SLOW_SHARE = 0.3  # of all copies: these may take as long as the line may
QUICK = 4  # the others take at most this part of it


def stream_of(options: WorldOptions, sent: Int64, events: Int64, receptions: Int64) -> Stream:
    """The stream that the observer sees of a world's tables. With one gateway, reception and arrival are the same."""
    if options.gateways == 1:
        return Stream.from_tables(options.motes, sent, events, receptions)
    arrivals = _first_copies(receptions, options)
    heard, gateway = arrivals[:, 4], arrivals[:, 5]
    return replace(
        Stream.from_tables(options.motes, sent, events, arrivals),
        arrival_heard=heard,
        arrival_gateway=gateway,
    )


def _first_copies(receptions: Int64, options: WorldOptions) -> Int64:
    """Rows of message, the observer's clock, batch, fresh, the tick of reception and the gateway."""
    random = np.random.default_rng((options.seed, options.gateways))
    comes_in = _moments(receptions, options, random)
    gateway = receptions[:, 4]
    turn = random.random((len(receptions), options.gateways))[comes_in, gateway]  # of a line in a moment
    order = np.lexsort((turn, comes_in))  # stable, so each line stays in order
    rows = receptions[order]
    message, heard, gateway = rows[:, 0], rows[:, 1], rows[:, 4]
    now = _observers_clock(rows, receptions[comes_in[order], FIRST_CLOCK:] - options.line)
    first = np.sort(np.unique(message, return_index=True)[1])
    batch, fresh = np.arange(len(rows)) + 1, np.zeros(len(rows), np.int64)
    return np.stack([message, now, batch, fresh, heard, gateway], axis=1)[first]


def _moments(receptions: Int64, options: WorldOptions, random: np.random.Generator) -> Int64:
    """For each reception, the one at whose moment its copy arrives: the last before the line's time is over."""
    slow = random.random(len(receptions)) < SLOW_SHARE
    delay = random.integers(0, np.where(slow, options.line, options.line // QUICK) + 1)
    moments = np.empty(len(receptions), np.int64)
    for gateway in range(options.gateways):
        mine = receptions[:, 4] == gateway
        over = receptions[mine, 1] + delay[mine]
        clock = receptions[:, FIRST_CLOCK + gateway]
        moments[mine] = np.maximum.accumulate(np.searchsorted(clock, over, side="right") - 1)
    return moments


def _observers_clock(rows: Int64, overdue: Int64) -> Int64:
    """The least tick up to which every line is complete: its last arrival, or what must have come by then."""
    came = np.where(rows[:, 4, None] == np.arange(overdue.shape[1]), rows[:, 1, None], 0)
    now: Int64 = np.maximum(np.maximum.accumulate(came), overdue).min(axis=1)
    return now
