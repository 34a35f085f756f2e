"""The firmware's core as a shared library of the host, one for each layout, driven through ctypes.

A library is built once for each header and set of sources and kept in a folder for temporary files. It has the
undefined-behaviour sanitizer in it, which ends the process at the first offence; buffers handed in are guarded.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from basestation.testbed.build_lock import locked
from packet_formats import cheader
from packet_formats.deployment import Deployment
from packet_formats.keys import render_header
from packet_formats.layout import DataLayout, layout_of

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "firmware" / "core"
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZE = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
GUARD = b"\xa5" * 16
PATIENCE = 1800  # seconds for a compiler on a machine that has no time for it

SIZES = (
    "stamp",
    "receipts",
    "dedup",
    "framer",
    "deframer",
    "data_counters",
    "receipts_room",
    "dedup_room",
    "deframer_room",
    "packet_limit",
    "air_header",
)


def cache() -> Path:
    folder = Path(tempfile.gettempdir()) / f"causeway-core-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def key_of(*parts: str | bytes | Path) -> str:
    """A name that these texts and files decide."""
    digest = hashlib.sha256()
    for part in parts:
        raw = (
            part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        )
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:20]


def core_sources() -> list[Path]:
    return sorted(CORE.glob("*.c"))


def core_files() -> list[Path]:
    return [*core_sources(), *sorted(CORE.rglob("*.h"))]


def run(command: Sequence[str | Path]) -> str:
    """What a compiler or a test program says; it must end well."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_folder(deployment: Deployment) -> Path:
    """A folder that holds the deployment's causeway_layout.h and, if it has a key, causeway_key.h."""
    headers = {"causeway_layout.h": cheader.render(deployment)}
    if deployment.key is not None:
        headers["causeway_key.h"] = render_header(deployment.key)
    folder = cache() / f"layout-{key_of(*headers.values())}"
    folder.mkdir(exist_ok=True)
    for name, header in headers.items():
        write(folder / name, header)
    return folder


def write(path: Path, text: str) -> None:
    """In one step, since several test processes may do it."""
    if path.exists() and path.read_text() == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def one_unit(folder: Path, sources: Iterable[Path]) -> Path:
    """C that includes these sources: a compiler takes longer to start than for most of them."""
    text = "".join(f'#include "{one}"\n' for one in sources)
    unit = folder / f"unit-{key_of(text)}.c"
    write(unit, text)
    return unit


def build(target: Path, command: Sequence[str | Path]) -> Path:
    """`command` with `-o target`, unless it is there or another process makes it just now."""
    with locked(target.parent, "the core"):
        if not target.exists():
            half = target.with_name(f"{target.name}.half")
            run([*command, "-o", half])
            os.replace(half, target)
    return target


def build_library(deployment: Deployment) -> Path:
    folder, shim = build_folder(deployment), Path(__file__).with_name("bridge.c")
    flags = [*FLAGS, *SANITIZE, "-fPIC", "-shared"]  # many layouts, little to run: no optimizer
    target = folder / f"core-{key_of(' '.join(flags), shim, *core_files())}.so"
    return build(
        target, ["gcc", *flags, f"-I{folder}", f"-I{CORE}", one_unit(folder, [*core_sources(), shim])]
    )


class Buffer:
    """Bytes that C may write into, with a guard on either side."""

    def __init__(self, size: int, fill: bytes = b"") -> None:
        self._size = size
        self._raw = ctypes.create_string_buffer(
            GUARD + fill.ljust(size, b"\0") + GUARD, size + 2 * len(GUARD)
        )

    @property
    def at(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(self._raw) + len(GUARD))

    @property
    def bytes(self) -> bytes:
        raw = self._raw.raw
        assert raw[: len(GUARD)] == GUARD
        assert raw[len(GUARD) + self._size :] == GUARD
        return raw[len(GUARD) : len(GUARD) + self._size]


class Core:
    """The core built for one deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.layout: DataLayout = layout_of(deployment)
        self.library = ctypes.CDLL(str(build_library(deployment)))

    @cached_property
    def sizes(self) -> dict[str, int]:
        found = (ctypes.c_uint32 * len(SIZES)).in_dll(self.library, "bridge_sizes")
        return dict(zip(SIZES, found, strict=True))

    def state(self, name: str) -> Buffer:
        """A zeroed struct, as a static one would be."""
        return Buffer(self.sizes[name])

    def call(
        self, name: str, *arguments: int | bytes | bool | Buffer, returns: type = ctypes.c_uint32
    ) -> int:
        """Call a function. Numbers go as 32 bits, which every narrower parameter takes; bytes as a pointer."""
        function = getattr(self.library, name)
        function.restype = returns
        return int(function(*[self._argument(argument) for argument in arguments]))

    def stamp_send(self, state: Buffer, tick: int, source: int = 0, sequence: int = 0) -> tuple[bytes, bool]:
        """A send event: the stamp that was written, and whether it is saturated. The header is only read."""
        head = head_of(self.layout, source, sequence)
        payload = Buffer(len(head) + self.layout.stamp.size, head + b"\xff" * self.layout.stamp.size)
        saturated = self.call("cw_stamp_send", state, tick, payload, returns=ctypes.c_bool)
        assert payload.bytes[: len(head)] == head
        size = self.call("bridge_stamp_size", state, returns=ctypes.c_uint8)
        return payload.bytes[len(head) : len(head) + size], bool(saturated)

    def stamp_check(self, stamp: bytes) -> int:
        """What is wrong with a stamp of a possible length."""
        return self.call(
            "cw_stamp_check", stamp, self.layout.stamp.items_in[len(stamp)], returns=ctypes.c_int
        )

    def stamp_receive(
        self, state: Buffer, tick: int, stamp: bytes, source: int = 0, sequence: int = 0
    ) -> int:
        """A receive event of a message with this stamp: its result."""
        payload = head_of(self.layout, source, sequence) + stamp
        items, buffer = self.layout.stamp.items_in[len(stamp)], Buffer(len(payload), payload)
        return self.call("cw_stamp_receive", state, tick, buffer, items, returns=ctypes.c_int)

    @staticmethod
    def _argument(value: int | bytes | bool | Buffer) -> object:
        if isinstance(value, Buffer):
            return value.at
        if isinstance(value, bytes):
            return ctypes.c_char_p(value)
        return ctypes.c_uint32(value)


def head_of(layout: DataLayout, source: int, sequence: int) -> bytes:
    """What stands before the stamp: source, sequence, flags, and under a schedule an age."""
    order: Literal["little", "big"] = "little" if layout.byteorder == "little" else "big"
    return (source.to_bytes(layout.source_bytes, order) + bytes([sequence, 0])).ljust(layout.stamp_at, b"\0")


def shorts(values: Sequence[int]) -> bytes:
    """An array of uint16_t."""
    return struct.pack(f"={len(values)}H", *values)


def from_shorts(raw: bytes) -> list[int]:
    return list(struct.unpack(f"={len(raw) // 2}H", raw))
