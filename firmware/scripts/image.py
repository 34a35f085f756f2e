"""A firmware image and the node id in it. Reads the ELF that avr-gcc makes; standard library only.

The id is the initial value of the global variable TOS_NODE_ID, as TinyOS has it. Initial values of variables lie in
flash behind the code; the ELF's program headers say where, and the symbol table says which of those bytes are the id.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SYMBOL = "TOS_NODE_ID"
EM_AVR = 83
PT_LOAD = 1
SHT_SYMTAB = 2
STT_OBJECT = 1
RAM_BASE = 0x800000  # in the linker's one address space for flash, RAM and EEPROM
EEPROM_BASE = 0x810000
FLASH_BYTES = 128 * 1024


class ImageError(Exception):
    """An image cannot be used, and why."""


@dataclass(frozen=True)
class Segment:
    """A part of the file that is loaded: `load` is its address in flash, `run` its address for the program."""

    offset: int
    run: int
    load: int
    size: int


@dataclass(frozen=True)
class Image:
    elf: bytes
    segments: tuple[Segment, ...]
    id_offset: int  # of the id in the file
    id_flash: int  # of the id in flash

    @property
    def node_id(self) -> int:
        return int.from_bytes(self.elf[self.id_offset : self.id_offset + 2], "little")

    def with_id(self, node_id: int) -> Image:
        if not 0 <= node_id < 0xFFFF:
            raise ImageError(f"node id {node_id}: ids go from 0 to 65534 (65535 is broadcast)")
        elf = bytearray(self.elf)
        elf[self.id_offset : self.id_offset + 2] = node_id.to_bytes(2, "little")
        return Image(bytes(elf), self.segments, self.id_offset, self.id_flash)

    def variable(self, name: str) -> tuple[int, int]:
        """The address in RAM and the size of a variable, `static` or not, for an emulator or a debugger."""
        address, size = _symbol(self.elf, name)
        if not RAM_BASE <= address < EEPROM_BASE:
            raise ImageError(f"{name} at {address:#x} is not in RAM")
        return address - RAM_BASE, size

    def variables(self) -> dict[str, tuple[int, int]]:
        """The address in RAM and the size of all variables, by the name in the symbol table."""
        return {
            name: (value - RAM_BASE, size)
            for name, value, size, kind in _symbols(self.elf)
            if kind == STT_OBJECT and RAM_BASE <= value < EEPROM_BASE
        }

    def flash(self) -> dict[int, bytes]:
        """The bytes that go into flash, by address."""
        return {s.load: self.elf[s.offset : s.offset + s.size] for s in self.segments}

    @property
    def sha256(self) -> str:
        """The hash of the hex file with id 0: the same for all motes of a batch and all builds of the same sources."""
        return hashlib.sha256(self.with_id(0).ihex().encode()).hexdigest()

    def ihex(self) -> str:
        """The image as Intel hex, for avrdude."""
        return to_ihex(self.flash())


def load(path: Path) -> Image:
    try:
        elf = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror}") from None
    try:
        return parse(elf)
    except ImageError as error:
        raise ImageError(f"{path}: {error}") from None
    except (struct.error, IndexError, UnicodeDecodeError):
        raise ImageError(f"{path}: a damaged ELF file") from None


def parse(elf: bytes) -> Image:
    if elf[:6] != b"\x7fELF\x01\x01":
        raise ImageError(
            "not a 32-bit little-endian ELF file; the id is set in firmware.elf, not in firmware.hex"
        )
    machine = struct.unpack_from("<H", elf, 18)[0]
    if machine != EM_AVR:
        raise ImageError(f"not for an AVR (ELF machine {machine})")
    segments = _segments(elf)
    address, size = _symbol(elf, SYMBOL)
    if size != 2:
        raise ImageError(f"{SYMBOL} has {size} bytes, not the 2 of a uint16_t")
    for segment in segments:
        if segment.run <= address and address + 2 <= segment.run + segment.size:
            at = address - segment.run
            return Image(elf, segments, segment.offset + at, segment.load + at)
    raise ImageError(
        f"{SYMBOL} at {address:#x} has no initial value in the image (in .bss?); build it with an id that is not 0"
    )


def _segments(elf: bytes) -> tuple[Segment, ...]:
    table = struct.unpack_from("<I", elf, 28)[0]
    step, count = struct.unpack_from("<HH", elf, 42)
    found = []
    for number in range(count):
        kind, offset, run, load_at, size = struct.unpack_from("<5I", elf, table + number * step)
        if kind != PT_LOAD or size == 0 or run >= EEPROM_BASE:
            continue
        if offset + size > len(elf):
            raise ImageError("cut off")
        if load_at + size > FLASH_BYTES:
            raise ImageError(f"{load_at + size:#x} bytes do not fit into the ATmega128's flash")
        found.append(Segment(offset, run, load_at, size))
    if not found:
        raise ImageError("the ELF file holds nothing to load")
    return tuple(found)


def _symbols(elf: bytes) -> Iterator[tuple[str, int, int, int]]:
    """The name, address, size and type of each defined symbol."""
    table = struct.unpack_from("<I", elf, 32)[0]
    step, count = struct.unpack_from("<HH", elf, 46)
    sections = [struct.unpack_from("<10I", elf, table + number * step) for number in range(count)]
    for section in sections:
        if section[1] != SHT_SYMTAB:
            continue
        names = sections[section[6]]
        for at in range(section[4], section[4] + section[5], 16):
            name_at, value, size, info, _other, where = struct.unpack_from("<3I2BH", elf, at)
            start = names[4] + name_at
            if where != 0:
                yield elf[start : elf.index(b"\0", start)].decode(), value, size, info & 0xF


def _symbol(elf: bytes, name: str) -> tuple[int, int]:
    """The address and size of a variable. Link-time optimization renames static ones: `lines.lto_priv.82`."""
    found = {
        (value, size) for symbol, value, size, _ in _symbols(elf) if symbol.partition(".lto_priv.")[0] == name
    }
    if not found:
        raise ImageError(f"no symbol {name}: not a mote's image, or its symbols were stripped")
    if len(found) > 1:
        raise ImageError(f"{len(found)} symbols are named {name}, not one")
    return found.pop()


def to_ihex(flash: dict[int, bytes], width: int = 16) -> str:
    """The content as Intel hex, with extended segment records above 64 KB as avr-objcopy writes them."""
    lines, upper = [], 0
    for start, data in sorted(flash.items()):
        at = start
        while at < start + len(data):
            if at >> 16 != upper:
                upper = at >> 16
                lines.append(_record(0, 2, (upper << 12).to_bytes(2, "big")))
            end = min(at + width, start + len(data), (upper + 1) << 16)
            lines.append(_record(at & 0xFFFF, 0, data[at - start : end - start]))
            at = end
    return "\n".join([*lines, _record(0, 1, b""), ""])


def _record(address: int, kind: int, data: bytes) -> str:
    body = bytes([len(data)]) + address.to_bytes(2, "big") + bytes([kind]) + data
    return f":{(body + bytes([-sum(body) & 0xFF])).hex().upper()}"
