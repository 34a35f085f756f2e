"""A made-up run in the form that the page reads: as many messages as wanted, the same every time."""

from __future__ import annotations

import random
from typing import Any

BEGAN_MS = 1_790_000_000_000.0
NAMES = ("gate", "north", "well", "ridge", "oak", "pond", "east", "barn", "slope", "mast")

Row = dict[str, Any]


def made_rows(messages: int, motes: int = 10, a_second: float = 20.0, wrong_every: int = 40) -> list[Row]:
    """Messages of motes that answer each other; one in `wrong_every` came out of order, a third of those left so."""
    drawn = random.Random(7)
    rows: list[Row] = []
    newest: dict[int, Row] = {}
    counts = [0] * motes
    now = BEGAN_MS
    for key in range(1, messages + 1):
        now += drawn.expovariate(a_second) * 1000
        mote = drawn.randrange(motes)
        sent = now
        came = sent + 6 + drawn.random() * 25 * (1 + mote % 3)
        held = drawn.choice([0.0, 0.5, 2.0, 30.0 * drawn.random(), 90.0 * drawn.random()])
        others = [row for source, row in newest.items() if source != mote and row["sent_ms"] < sent - 4]
        causes = [{"key": row["key"], "name": row["name"], "how": "stamp"} for row in others[-1:]]
        if mote in newest:
            causes.append({"key": newest[mote]["key"], "name": newest[mote]["name"], "how": "order"})
        is_wrong = key % wrong_every == 0
        row: Row = {
            "key": key,
            "kind": "message",
            "name": f"{mote}#{counts[mote]}",
            "mote": mote,
            "boot": 1,
            "sent_ms": sent,
            "came_ms": came,
            "gateway": 0,
            "rssi": -60 - mote * 3,
            "relayed": mote % 3 > 0,
            "state": "final",
            "left_ms": came + held,
            "held_ms": held,
            "place": key,
            "moved": 0,
            "late": False,
            "in_sync": True,
            "concurrent": False,
            "gave_up": None,
            "wrong": ("delivery" if key % (3 * wrong_every) == 0 else "arrival") if is_wrong else None,
            "causes": causes,
            "values": {"light": 600 + 40 * mote + drawn.randrange(60)},
            "data": "",
        }
        counts[mote] += 1
        newest.pop(mote, None)
        newest[mote] = row
        rows.append(row)
    for row in rows[-3:]:
        row.update(state="tentative", left_ms=None, held_ms=None, wrong=None)
    return rows


def made_hello(motes: int = 10, names: tuple[str, ...] = NAMES, **changes: Any) -> dict[str, Any]:
    """What the server says first, for a network of these names."""
    hello = {
        "run": "made",
        "network": "meadow",
        "live": False,
        "control": False,
        "scheme": "barrier",
        "policies": ["cbd", "ledger"],
        "tick_ms": 3.9,
        "safe_wait_ms": 148.0,
        "began_ms": BEGAN_MS,
        "motes": [
            {"id": mote, "name": names[mote % len(names)], "x": None, "y": None} for mote in range(motes)
        ],
        "gateways": [{"id": motes, "name": ""}],
        "values": [{"name": "light", "unit": "adc"}],
    }
    return hello | changes


def made_picture(rows: list[Row], motes: int = 10) -> dict[str, Any]:
    """A state of the network after these rows: one mote was never heard, one is out of sync."""
    end = rows[-1]["came_ms"]
    minutes = [end - 60_000 * (90 - minute) for minute in range(90)]
    wavy = random.Random(3)

    def mote_state(mote: int) -> dict[str, Any]:
        never = mote == motes - 1
        return {
            "mote": mote,
            "heard_ms": None if never else end - 700 * mote,
            "rate": 0.0 if never else 2.0,
            "received": 0 if never else 40 + mote,
            "lost": 0 if never else mote % 4,
            "duplicates": 0,
            "late": 0,
            "held": 0,
            "reboots": 1 if mote == 4 else 0,
            "boot": None if never else 1,
            "in_sync": None if never else mote != 4,
            "silent": False,
            "wrong_layout": False,
            "trouble": "never heard" if never else "out of sync" if mote == 4 else "",
            "grave": never,
            "hops": None if never else 1 + mote % 3,
            "battery_mv": None if never else 2950 - 20 * mote,
            "rssi": None if never else -60 - mote * 3,
            "parent": None,
            "history": {
                "at_ms": minutes,
                "rssi": [None if never else -60 - mote * 3 + wavy.randrange(-4, 5) for _ in minutes],
                "battery_mv": [None if never else 2990 - 20 * mote - minute // 2 for minute in range(90)],
                "lost": [0 for _ in minutes],
            },
        }

    wrong = [row["wrong"] for row in rows]
    return {
        "at_ms": end,
        "policy": "cbd",
        "phi": 100,
        "tolerate": None,
        "tick": 1,
        "rate": 20.0,
        "received": len(rows),
        "delivered": len(rows) - 3,
        "held": 3,
        "strange": 0,
        "hold": {"mean": 24.0, "p50": 2.0, "p95": 78.0, "max": 90.0},
        "arrival": {"messages": len(rows), "overtaken": len(rows) - wrong.count(None), "possible": 0},
        "delivery": {"messages": len(rows), "overtaken": wrong.count("delivery"), "possible": 2},
        "known": 0.97,
        "ledger": None,
        "queue": [
            {
                "name": row["name"],
                "source": row["mote"],
                "held_ms": 12.0,
                "due_ms": 60.0,
                "why": "for 2#7, at most until tick 81 is over",
                "tentative": True,
            }
            for row in rows[-3:]
        ],
        "alarms": ["mote 9 was never heard: 9 of 10 motes heard"],
        "motes": [mote_state(mote) for mote in range(motes)],
        "links": [
            {"from": mote, "to": motes, "rssi": -60 - 3 * mote, "heard": 9} for mote in range(0, motes, 3)
        ],
        "gateways": [
            {
                "gateway": 0,
                "name": "",
                "live": True,
                "silent": False,
                "foreign": 0,
                "rate": 20.0,
                "errors": {},
            }
        ],
        "viewers": 1,
    }


def made_recording(messages: int, **changes: Any) -> dict[str, Any]:
    """The whole of what a page over a recorded run needs."""
    rows = made_rows(messages)
    why = {row["key"]: [f"{row['name']} was held {row['held_ms']:.1f} ms."] for row in rows if row["wrong"]}
    return {"hello": made_hello(**changes), "rows": rows, "picture": made_picture(rows), "why": why}
