"""Finds the salt of a segment whose header is lost, so that its records can still be read.

CRC-32 can be computed backwards, so a record shows the salt that its check sum began with. Bytes in a payload may show
another salt, but records that agree on that are no longer than a payload. So the longest row of records decides.
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

from .record_format import HEAD, PAYLOAD_LIMIT, RECORD_MARK, Walk, walk_intact

POLYNOMIAL = 0xEDB88320
COVERED_FROM = HEAD.fields["number"][1]  # type: ignore[index]
LENGTH_AT = HEAD.fields["length"][1]  # type: ignore[index]
Matrix = tuple[int, ...]  # of bits: what each bit of a number becomes


def find_salt(raw: bytes, walk: Walk = walk_intact) -> int:
    """The salt of the longest row of records in a segment; 0 if no two agree."""
    longest, found = 0, 0
    at = raw.find(RECORD_MARK)
    while 0 <= at <= len(raw) - HEAD.itemsize and longest <= PAYLOAD_LIMIT + HEAD.itemsize:
        salt = _salt_at(raw, at)
        starts, end, _ = walk(raw, at, -1, salt)
        if end - at > longest and len(starts) > 1:
            longest, found = end - at, salt
        at = raw.find(RECORD_MARK, max(at + 1, end if len(starts) > 1 else 0))
    return found


def _salt_at(raw: bytes, at: int) -> int:
    """The salt with which the check sum at this place is right."""
    end = at + HEAD.itemsize + int.from_bytes(raw[at + LENGTH_AT : at + LENGTH_AT + 2], "little")
    covered = raw[at + COVERED_FROM : end]
    value = crc32(covered) ^ int.from_bytes(raw[at + COVERED_FROM - 4 : at + COVERED_FROM], "little")
    for power in range(len(covered).bit_length()):
        if len(covered) >> power & 1:
            value = _times(_back(power), value)
    return value


def _times(matrix: Matrix, value: int) -> int:
    result = 0
    for bit, column in enumerate(matrix):
        if value >> bit & 1:
            result ^= column
    return result


@cache
def _back(power: int) -> Matrix:
    """What 2 ** `power` zero bytes make of a CRC-32's register, undone."""
    if power:
        half = _back(power - 1)
        return tuple(_times(half, column) for column in half)
    columns = []
    for bit in range(32):
        value = 1 << bit
        for _ in range(8):
            value = (value ^ POLYNOMIAL) << 1 | 1 if value >> 31 else value << 1
        columns.append(value)
    return tuple(columns)
