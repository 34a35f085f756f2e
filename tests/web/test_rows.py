"""Rows in memory: merged, compressed, dropped, and found again."""

from __future__ import annotations

import json

from basestation.web.rows import BLOCK, RowStore


def row(number: int, **more: object) -> dict[str, object]:
    return {"key": number, "kind": "message", "came_ms": 10.0 * number, "name": f"1#{number}", **more}


def filled(count: int, newest: int = 100, **more: int) -> RowStore:
    store = RowStore(newest=newest, **more)
    for number in range(1, count + 1):
        store.merge([row(number, state="held"), {"key": number, "state": "final"}])
    return store


def test_changes_of_one_moment_are_one_row() -> None:
    store = RowStore()
    assert store.merge([row(1, state="held"), {"key": 1, "state": "final"}]) == [row(1, state="final")]
    assert store.merge([{"key": 1, "late": True}]) == [{"key": 1, "late": True}]
    assert json.loads(next(store.recent())) == [row(1, state="final", late=True)]


def test_a_change_of_a_row_that_is_gone_is_dropped() -> None:
    assert RowStore().merge([{"key": 7, "state": "final"}]) == []


def test_old_rows_are_compressed_and_all_are_found_again() -> None:
    count = 100 + 2 * BLOCK + 30
    store = filled(count)
    assert len(store) == 100
    assert [json.loads(text)["key"] for text in store.all()] == list(range(1, count + 1))
    found: list[int] = []
    before, more = 1e9, True
    while more:
        answer = json.loads(store.before(before, 77))
        found = [one["key"] for one in answer["rows"]] + found
        before, more = answer["rows"][0]["came_ms"], answer["more"]
    assert found == list(range(1, count + 1))
    for number in (1, BLOCK, BLOCK + 1, 2 * BLOCK + 15, count):
        assert store.message(number) == row(number, state="final")
    assert store.message(count + 1) is None
    assert not store.dropped


def test_memory_is_bounded() -> None:
    store = filled(20 * BLOCK, compressed=20_000)
    kept = [json.loads(text)["key"] for text in store.all()]
    assert store.dropped
    assert sum(len(block.packed) for block in store._blocks) <= 20_000
    assert kept == list(range(kept[0], 20 * BLOCK + 1))
    assert BLOCK < len(kept) < 10 * BLOCK
    assert store.message(1) is None
    assert json.loads(store.before(5.0, 10)) == {"rows": [], "more": False}
