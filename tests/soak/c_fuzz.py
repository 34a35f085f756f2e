"""libFuzzer over the firmware's core, for every layout, with the address and undefined-behaviour sanitizers.

The target is firmware/test/fuzz/everything.c: frames, packets, air headers, fixed records, data, stamps, receipts, and
whole motes that send and hear. A piece executes one layout so many times; what libFuzzer found worth keeping stays in
.soak/corpus for the next time. An input that ends in a fault is kept in .soak/crashes.

Every fourth piece of a layout, and its first one here, is thorough: libFuzzer learns from comparisons and counts how
often each edge was taken, so that it finds new inputs. The others are quick: they change all inputs that are known, and
watch edges alone, which is four times as fast. The sanitizers are the same. The quarantine for freed memory is small,
since the core frees nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.vectors import SEALED_CASES, _deployment
from packet_formats.vectors import deployments as golden
from tests.firmware.bridge import CORE, FLAGS, build, build_folder, core_files, core_sources, key_of
from tests.firmware.cores import LIMITS, examples
from tests.firmware.test_core_fuzz import CORPUS, LAYOUTS, TARGET
from tests.soak.running import Piece, Search, state_folder

EVERYTHING = TARGET.with_name("everything.c")
AIM = 1_000_000_000
THOROUGH, QUICK = 250_000, 5_000_000  # executions of a piece
PATIENCE = 1200  # seconds
LONGEST = 160  # bytes of an input: a few frames
ASAN = {
    "ASAN_OPTIONS": "detect_leaks=1:malloc_context_size=0:quarantine_size_mb=1:thread_local_quarantine_size_kb=16"
}
_RUNS = re.compile(r"stat::number_of_executed_units: (\d+)")


@cache
def layouts() -> list[Deployment]:
    """Each layout that the firmware can have, of golden vectors, examples and limits; none twice."""
    sealed = [_deployment(case, tinyos, mic=4) for case in SEALED_CASES for tinyos in (1, 2)]
    found = {layout_of(one).hash: one for one in [*golden(), *sealed, *examples(), *LAYOUTS, *LIMITS]}
    return [one for one in found.values() if one.scheme.in_firmware]


def program(clang: str, deployment: Deployment, thorough: bool) -> Path:
    folder = build_folder(deployment)
    command = [
        clang,
        "-g",
        "-O2",
        *FLAGS,
        "-fsanitize=fuzzer,address,undefined",
        *([] if thorough else ["-fno-sanitize-coverage=trace-cmp"]),
        "-DCW_SEALED_BY_CALLER",
        "-fno-sanitize-recover=all",
        "-Wno-conversion",
    ]
    name = key_of(" ".join(command), EVERYTHING, TARGET, *core_files())
    return build(folder / f"soak-{name}", [*command, f"-I{folder}", f"-I{CORE}", *core_sources(), EVERYTHING])


def search(number: int, most: int = QUICK) -> Piece:
    clang = shutil.which("clang")
    if clang is None:
        raise SystemExit("c_fuzz needs clang with libFuzzer: apt install clang")
    turn, place = divmod(number, len(layouts()))
    deployment = layouts()[place]
    name = f"{deployment.stamp.scheme}-{layout_of(deployment).hash:08x}"
    corpus, crashes = state_folder() / "corpus" / name, state_folder() / "crashes"
    thorough = turn % 4 == 0 or not corpus.exists()
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    words = [
        str(program(clang, deployment, thorough)),
        f"-runs={min(most, THOROUGH if thorough else QUICK)}",
        f"-max_len={LONGEST}",
        f"-seed={number + 1}",
        f"-artifact_prefix={crashes}/{name}-",
        "-print_final_stats=1",
        "-reload=0",
        *([] if thorough else ["-use_counters=0", "-keep_seed=1", "-entropic=0"]),
        str(corpus),
        str(CORPUS),
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=os.environ | ASAN, timeout=PATIENCE
    )
    runs = _RUNS.search(done.stderr)
    faults = [] if done.returncode == 0 and runs else [f"{name}: {_told(done.stderr)}"]
    return Piece(deployment.stamp.scheme, {"executions": int(runs[1]) if runs else 0, "pieces": 1}, faults)


def _told(err: str) -> str:
    lines = [
        line for line in err.splitlines() if "ERROR" in line or "SUMMARY" in line or "runtime error" in line
    ]
    return " ".join(lines) or err[-300:]


SEARCH = Search("c_fuzz", "executions", AIM, search)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
