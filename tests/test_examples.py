"""The examples run as they are printed in the documents."""

import re
import subprocess
import sys


def test_the_library_is_used_from_python_in_ten_lines(root):
    command = [sys.executable, "examples/observe.py", "simulate@?messages=30&seed=4&pace=0"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    names = [re.match(r"(\d+)#(\d+) held \d+\.\d ms [0-9a-f]{16}$", line) for line in lines]
    assert last == "done"
    assert all(names)
    assert 25 <= len({name[0].split()[0] for name in names}) == len(names)
    for mote in {name[1] for name in names}:
        sequences = [int(name[2]) for name in names if name[1] == mote]
        assert sequences == sorted(sequences)
