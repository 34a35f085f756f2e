"""Two builds of one thing wait for one another, and say so."""

import threading

from basestation.testbed import build_lock
from basestation.testbed.build_lock import locked


def test_waiting_for_another_build_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(build_lock, "TELL_AFTER", 0.01)
    told, waits, done = [], threading.Event(), threading.Event()

    def say(text: str) -> None:
        told.append(text)
        waits.set()

    def second() -> None:
        with locked(tmp_path, "the testbed", say):
            done.set()

    with locked(tmp_path, "the testbed", say):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(60)
        assert not done.is_set()
    thread.join(60)
    assert done.is_set()
    assert told == ["waiting for another build of the testbed to end"]
