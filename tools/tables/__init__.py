"""Measured tables of the documents, one module each: `lines` measures a table and gives its text line by line.

`make tables` writes all of them into their pages, `make tables ONLY=power` one of them. It takes hours in all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[2]
Result = TypeVar("Result")


class Workload(NamedTuple):
    """How much to run: seeds of each row (None: the table's own number), in parallel processes."""

    seeds: int | None = None
    processes: int = 2


def results(work: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], processes: int) -> list[Result]:
    """`work` applied to each job, in the order of the jobs, with its progress on standard error."""
    with ProcessPoolExecutor(processes) as pool:
        running = {pool.submit(work, *job): job for job in jobs}
        for done, future in enumerate(as_completed(running), start=1):
            future.result()  # stop at the first failure
            print(f"{done} of {len(jobs)}: {running[future]}", file=sys.stderr, flush=True)
        return [future.result() for future in running]


def by_row(
    work: Callable[[Any, int], Result], rows: Mapping[Any, int], effort: Workload
) -> Iterator[tuple[Any, list[Result]]]:
    """Each row with the results of its seeds. `rows` gives each row's own number of seeds."""
    seeds = {row: range(1, (effort.seeds or count) + 1) for row, count in rows.items()}
    found = iter(results(work, [(row, seed) for row in rows for seed in seeds[row]], effort.processes))
    return ((row, list(islice(found, len(mine)))) for row, mine in seeds.items())
