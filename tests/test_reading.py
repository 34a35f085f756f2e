"""The front door for programs: messages of a network and of a log, as an iterator."""

import re
import signal
import subprocess
import sys
import threading

import pytest

import basestation
from basestation.journal.reader import find_journals, read_segment
from basestation.journal.record_format import Ending

SIMULATED = "simulate@?messages=60&seed=4&pace=0"


@pytest.fixture
def site(root):
    return root / "examples" / "micaz.toml"


def the_run(logs):
    (run,) = find_journals(logs)
    return run


def ending(run):
    return read_segment(max(run.glob("*.cwj"))).scan.mark.how


def test_the_example_prints_messages_in_order(root):
    command = [sys.executable, "examples/observe.py", "simulate@?messages=30&seed=4&pace=0"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    names = [
        re.match(r"(\d+)#(\d+) held \d+\.\d ms [0-9a-f]{16}$", line) for line in done.stdout.splitlines()
    ]
    assert all(names)
    assert 25 <= len({name[0].split()[0] for name in names}) == len(names)
    for mote in {name[1] for name in names}:
        sequences = [int(name[2]) for name in names if name[1] == mote]
        assert sequences == sorted(sequences)


def test_a_log_gives_the_messages_of_the_live_run_again(site, tmp_path):
    live = list(basestation.listen(SIMULATED, site, log=tmp_path))
    again = list(basestation.replay(the_run(tmp_path)))
    assert len(live) > 50
    assert [(m.name, m.mote, m.sequence, m.data, m.held_ms) for m in again] == [
        (m.name, m.mote, m.sequence, m.data, m.held_ms) for m in live
    ]
    assert (
        list(basestation.replay(tmp_path, site)) == again
    )  # the folder of one run, and its deployment named


def test_values_have_the_names_of_the_deployment(root):
    (message, *_) = basestation.listen(SIMULATED, root / "examples" / "sensors.toml")
    assert {"light", "temperature"} <= set(message.values)
    assert message.delivered.tzinfo is not None


@pytest.mark.parametrize("source", ["simulate@?messages=5000&pace=0", "simulate@?messages=5000&pace=1"])
def test_leaving_the_loop_closes_source_and_log(source, site, tmp_path):
    messages = basestation.listen(source, site, log=tmp_path)
    next(messages)
    messages.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "basestation"]
    assert ending(the_run(tmp_path)) == Ending.CLOSED


LISTEN = """
import sys, basestation
messages = basestation.listen("simulate@?messages=5000&pace=1", *sys.argv[1:2], log=sys.argv[2])
"""


def test_a_program_that_just_ends_closes_the_log(root, site, tmp_path):
    command = [sys.executable, "-c", LISTEN + "print(next(messages).name)", str(site), str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=60)
    assert "#" in done.stdout
    assert ending(the_run(tmp_path)) == Ending.CLOSED


def test_ctrl_c_closes_the_log(root, site, tmp_path):
    program = LISTEN + "for message in messages: print(message.name, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program, site, tmp_path],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, complaint = running.communicate(timeout=60)
    assert complaint.rstrip().endswith("KeyboardInterrupt")
    assert ending(the_run(tmp_path)) == Ending.CLOSED


@pytest.mark.parametrize(
    ("source", "deployment", "why"),
    [
        ("simulate@", "nowhere.toml", "nowhere.toml: No such file"),
        ("nothing@here", None, "no kind of source is named 'nothing'"),
        ("simulate@?speed=2", None, "simulate@ has no setting speed"),
        ("serial@/dev/nothing", None, "/dev/nothing"),
    ],
)
def test_bad_input_raises_one_error(source, deployment, why, site):
    with pytest.raises(basestation.BasestationError, match=re.escape(why)):
        list(basestation.listen(source, deployment or site))


def test_no_log_raises_the_same_error(tmp_path):
    with pytest.raises(basestation.BasestationError, match="no journal and no run in it"):
        basestation.replay(tmp_path)


def test_to_import_the_package_is_quick(root):
    program = (
        "import sys, basestation; sys.exit('numpy' in sys.modules or 'basestation.reading' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=root, check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'watch'"):
        _ = basestation.watch
