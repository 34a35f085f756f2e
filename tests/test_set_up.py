"""Set-up: `make` says that Python is too old where that is so, and only there."""

import shutil
import subprocess
import sys

import pytest

SAID = "Causeway needs Python 3.11 or later"
# A Python of another version; one that Ctrl-C ends while it starts.
OLD = f"""exec {sys.executable} -c 'import sys; sys.version_info = (3, 10); exec(sys.argv[2])' "$@" """
INTERRUPTED = "echo KeyboardInterrupt >&2; exit 1"


@pytest.mark.parametrize(("python", "too_old"), [(OLD, True), (INTERRUPTED, False)])
def test_only_an_old_python_is_called_old(tmp_path, root, require_tool, python, too_old):
    shutil.copy(root / "Makefile", tmp_path)
    for name, text in {"tools/debian-packages.sh": "", "python": python}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)
    command = [require_tool("make"), ".venv/.made", "PYTHON=./python"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert (SAID in done.stderr) == too_old, done.stderr
    assert not (tmp_path / ".venv").exists()
