"""Intel hex, read back independently of the code that writes it."""

from image import ImageError


def from_ihex(text: str) -> dict[int, int]:
    """Bytes by address; every checksum is checked."""
    memory: dict[int, int] = {}
    base = 0
    for number, line in enumerate(text.split(), 1):
        try:
            record = bytes.fromhex(line.removeprefix(":"))
        except ValueError:
            raise ImageError(f"line {number} is not Intel hex") from None
        if len(record) < 5 or len(record) != record[0] + 5 or sum(record) & 0xFF or line[0] != ":":
            raise ImageError(f"line {number} is damaged")
        address, kind, data = int.from_bytes(record[1:3], "big"), record[3], record[4:-1]
        if kind == 0:
            memory.update((base + address + at, byte) for at, byte in enumerate(data))
        elif kind == 1:
            return memory
        elif kind in (2, 4):
            base = int.from_bytes(data, "big") << (4 if kind == 2 else 16)
    raise ImageError("no end record")
