"""Disks for the tests of a log: one that fails on demand, and one that is full."""

import errno
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from unittest import mock

from basestation.journal import writer
from basestation.journal.writer import JournalError, UnsyncedError


@dataclass
class SickDisk:
    """Replaces the disk calls of a writer; each fails as set."""

    write: str = "whole"  # short: a part is written; refused: nothing; torn: a part, and then an error
    cut: bool = True
    sync: bool = True
    real: dict = field(default_factory=lambda: {"write": os.write, "ftruncate": os.ftruncate})

    def __enter__(self):
        self._stack = ExitStack()
        for name, made in {"write": self.do_write, "ftruncate": self.do_cut, "fsync": self.do_sync}.items():
            self._stack.enter_context(mock.patch.object(os, name, made))
        self._stack.enter_context(mock.patch.object(writer, "_to_disk", self.do_sync))
        return self

    def __exit__(self, *_):
        self._stack.close()

    def do_write(self, file, raw):
        if self.write == "whole":
            return self.real["write"](file, raw)
        if self.write != "refused":
            self.real["write"](file, raw[: len(raw) // 2])
        if self.write == "short":
            return len(raw) // 2
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def do_cut(self, file, size):
        if not self.cut:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.real["ftruncate"](file, size)

    def do_sync(self, file):
        if not self.sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def kept(journal, arrival):
    """The record's number if it is in the log; None if the writer said that it is not."""
    try:
        return journal.append(arrival)
    except UnsyncedError as error:
        return error.number
    except JournalError:
        return None


class FullDisk:
    """A disk with this many bytes for the files in one folder; other files are on another disk."""

    def __init__(self, folder, size):
        self._folder, self._size, self._write = folder, size, os.write

    def __enter__(self):
        self._patch = mock.patch.object(os, "write", self.write)
        self._patch.start()

    def __exit__(self, *_):
        self._patch.stop()

    def write(self, file, raw):
        found = [path.stat() for path in self._folder.rglob("*") if path.is_file()]
        if not any(os.path.samestat(os.fstat(file), one) for one in found):
            return self._write(file, raw)
        room = self._size - sum(one.st_size for one in found)
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(file, raw[:room])


REASON = "a record could not be written: No space left on device"
