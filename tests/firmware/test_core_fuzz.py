"""The fuzzing target: its corpus, and a short search, under the address and undefined-behaviour sanitizers."""

import subprocess
from pathlib import Path

import pytest

from packet_formats.deployment import Deployment
from tests.firmware.bridge import (
    CORE,
    FLAGS,
    ROOT,
    build,
    build_folder,
    core_files,
    core_sources,
    key_of,
    run,
)
from tests.firmware.cores import described, name_of

TARGET = ROOT / "firmware" / "test" / "fuzz" / "deframer.c"
CORPUS = ROOT / "firmware" / "test" / "fuzz" / "corpus"
RUNS = 20_000
LAYOUTS = [
    described(7, 3, 32, {"scheme": "shlc", "receipts": 2}, motes=20),
    described(7, 10, 10, {"scheme": "kn", "packing": "bytes", "receipts": 1}, tinyos=2, board="mica2"),
    described(7, 3, 32, {"scheme": "barrier", "receipts": 1}, motes=50),
    described(7, 3, 32, {"scheme": "vector", "receipts": 1}, data_bytes=0),
    described(7, 3, 32, {"scheme": "delta-vector"}, data_bytes=0),
]


def fuzzer(clang: str, deployment: Deployment) -> Path:
    folder = build_folder(deployment)
    command = [clang, "-g", "-O1", *FLAGS, "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
    name = key_of(" ".join(command), TARGET, *core_files())
    return build(folder / f"fuzz-{name}", [*command, f"-I{folder}", f"-I{CORE}", *core_sources(), TARGET])


@pytest.mark.few(1)  # the soak searches all of them
@pytest.mark.parametrize("deployment", LAYOUTS, ids=name_of)
def test_the_corpus_and_a_short_search(deployment, tmp_path, require_tool):
    program = fuzzer(require_tool("clang"), deployment)
    kept = sorted(CORPUS.iterdir())
    assert len(kept) >= 20
    run([program, *kept])  # each once
    search = [
        str(program),
        f"-runs={RUNS}",
        "-max_len=600",
        "-seed=1",
        str(tmp_path),
        str(CORPUS),
    ]
    done = subprocess.run(search, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-3000:]
