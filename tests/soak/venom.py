"""What can be done to a file: by chance (`CHANCE`), or by an attacker who makes Parquet files (`TABLES`) or journals
(`JOURNALS`) with right check sums and false content. Each is a function that changes a file in place.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from basestation.journal.reader import read_segment
from basestation.journal.record_format import (
    FILE_MAGIC,
    Header,
    Record,
    RecordKind,
    encode_record,
    header_size,
)

Venom = Callable[[random.Random, Path], None]
FILE = struct.Struct("<8sHHII")  # of a journal: magic, version, 0, length of the header, its check sum
FOOTER = 8  # bytes behind a Parquet file's footer: its length, and the magic
EXTREMES = (0, 1, -1, 127, 255, 65_535, 2**31 - 1, -(2**31), 2**32, 2**53, 2**63 - 1, -(2**63))
TEXTS = (
    "",
    "\0",
    "../../x",
    "a" * 5_000,
    "\x1b[2J",
    "\ud800",
    "[" * 3_000,
    "{}",
    "null",
    "é" * 300,
    "-1",
    "1e999",
)
ANYTHING = (None, True, 0, -1, 2**70, 1.5, float("inf"), [], [[]], {}, {"a": {}}, *TEXTS)


# ---- By chance ----


def _changed(path: Path, change: Callable[[bytearray], None]) -> None:
    raw = bytearray(path.read_bytes())
    change(raw)
    path.write_bytes(raw)


def cut(draw: random.Random, path: Path) -> None:
    _changed(path, lambda raw: raw.__delitem__(slice(draw.randrange(len(raw)), None)))


def bits(draw: random.Random, path: Path) -> None:
    def change(raw: bytearray) -> None:
        for _ in range(draw.choice((1, 1, 3, 20))):
            raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)

    _changed(path, change)


def noise(draw: random.Random, path: Path) -> None:
    def change(raw: bytearray) -> None:
        place, size = draw.randrange(len(raw)), draw.randrange(1, 200)
        raw[place : place + size] = draw.randbytes(size)

    _changed(path, change)


def hole(draw: random.Random, path: Path) -> None:
    def change(raw: bytearray) -> None:
        place = draw.randrange(len(raw))
        raw[place : place + draw.randrange(1, 4000)] = bytes(1)

    _changed(path, change)


def zeros(draw: random.Random, path: Path) -> None:
    """Blocks that the disk never got."""

    def change(raw: bytearray) -> None:
        place = draw.randrange(len(raw)) & ~511
        end = min(len(raw), place + 512 * draw.randrange(1, 9))
        raw[place:end] = bytes(end - place)

    _changed(path, change)


def doubled(draw: random.Random, path: Path) -> None:
    def change(raw: bytearray) -> None:
        place = draw.randrange(len(raw))
        raw[place:place] = raw[max(0, place - draw.randrange(1, 4000)) : place]

    _changed(path, change)


def foreign(draw: random.Random, path: Path) -> None:
    path.write_bytes(draw.randbytes(draw.randrange(0, 3000)))


CHANCE: dict[str, Venom] = {
    "cut": cut,
    "bits": bits,
    "noise": noise,
    "hole": hole,
    "zeros": zeros,
    "doubled": doubled,
    "foreign": foreign,
}


# ---- Parquet by an enemy ----


def _read(path: Path) -> pa.Table:
    return pq.read_table(path, partitioning=None)


def _some(draw: random.Random, table: pa.Table) -> int:
    return draw.randrange(table.num_columns)


def types(draw: random.Random, path: Path) -> None:
    """A column of another type, nested ones too."""
    table = _read(path)
    at, rows = _some(draw, table), table.num_rows
    column = draw.choice(
        (
            pa.array(["x"] * rows),
            pa.array([0.5] * rows),
            pa.array([float("nan")] * rows),
            pa.array([True] * rows),
            pa.array([None] * rows, pa.int64()),
            pa.array([b"\xff"] * rows),
            pa.array([[1, 2]] * rows),
            pa.array([[[[]]]] * rows, pa.list_(pa.list_(pa.list_(pa.int8())))),
            pa.array([{"a": {"b": 1}}] * rows),
            pa.array([0] * rows, pa.timestamp("ns")),
            pa.array([2**64 - 1] * rows, pa.uint64()),
            pa.array(["x", "y"] * rows).dictionary_encode()[:rows],
        )
    )
    pq.write_table(table.set_column(at, table.column_names[at], column), path)


def columns(draw: random.Random, path: Path) -> None:
    """A column too few, twice, under another name, or all in another order."""
    table = _read(path)
    at = _some(draw, table)
    name = table.column_names[at]
    names = [*table.column_names]
    match draw.randrange(4):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.append_column(name, table.column(at))
        case 2:
            names[at] = draw.choice(("x", "", names[0].upper(), "a.b", "\x1b[2J", "é"))
            table = table.rename_columns(names)
        case _:
            draw.shuffle(names)
            table = table.select(names)
    pq.write_table(table, path)


def values(draw: random.Random, path: Path) -> None:
    """Values that no mote has: as large as the type allows, negative, none, or text of any length."""
    table = _read(path)
    at = _some(draw, table)
    field, cells = table.schema.field(at), table.column(at).to_pylist()
    for _ in range(draw.choice((1, 5, len(cells)))):
        if cells:
            cells[draw.randrange(len(cells))] = draw.choice((None, *_fitting(draw, field.type)))
    column = pa.array(cells, field.type)
    pq.write_table(table.set_column(at, pa.field(field.name, field.type), column), path)


def _fitting(draw: random.Random, kind: pa.DataType) -> list[Any]:
    if pa.types.is_integer(kind):
        low, high = (0, 2**kind.bit_width) if str(kind)[0] == "u" else (-(2 ** (kind.bit_width - 1)),) * 2
        high = high if high > 0 else -low
        return [value for value in EXTREMES if low <= value < high]
    if pa.types.is_floating(kind):
        return [float("nan"), float("inf"), -1e300, 0.0]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [b"", draw.randbytes(3), draw.randbytes(5000)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [text for text in TEXTS if "\ud800" not in text]
    if pa.types.is_boolean(kind):
        return [True, False]
    if pa.types.is_list(kind):
        return [[], *([value] * 300 for value in _fitting(draw, kind.value_type)[:3])]
    return []


def rows(draw: random.Random, path: Path) -> None:
    """None, all twice, or in another order."""
    table = _read(path)
    order = draw.choice(([], [*range(len(table))] * 2, draw.sample(range(len(table)), len(table))))
    pq.write_table(table.take(pa.array(order, pa.int64())), path)


def metadata(draw: random.Random, path: Path) -> None:
    """What a file says of itself: another format, another deployment, a name that is none."""
    table = _read(path)
    said = dict(table.schema.metadata or {})
    key = draw.choice([*said, b"causeway.new"])
    if draw.random() < 0.2:
        said.pop(key, None)
    else:
        text = said.get(key, b"")
        place = draw.randrange(len(text) + 1)
        said[key] = draw.choice(
            (
                draw.choice(TEXTS).encode(errors="surrogatepass"),
                draw.randbytes(20),
                text[:place],
                text[:place] + draw.choice((b"9", b"=", b"\n", b"[", b'"')) + text[place:],
            )
        )
    pq.write_table(table.replace_schema_metadata(said), path)


def _plainly(path: Path, **options: Any) -> pq.FileMetaData:
    """Written again so that its pages can be changed: no compression, no check sums."""
    pq.write_table(_read(path), path, **{"compression": "none", "write_page_checksum": False} | options)
    return pq.read_metadata(path)


def _chunk(draw: random.Random, about: pq.FileMetaData) -> Any:
    return about.row_group(draw.randrange(about.num_row_groups)).column(draw.randrange(about.num_columns))


def encodings(draw: random.Random, path: Path) -> None:
    """The same content in another form."""
    pq.write_table(
        _read(path),
        path,
        compression=draw.choice(("none", "snappy", "gzip", "zstd", "lz4", "brotli")),
        use_dictionary=draw.random() < 0.5,
        data_page_version=draw.choice(("1.0", "2.0")),
        version=draw.choice(("1.0", "2.4", "2.6")),
        row_group_size=draw.choice((1, 7, 50, 100_000)),
        write_statistics=draw.random() < 0.5,
        store_schema=draw.random() < 0.7,
    )


def dictionary(draw: random.Random, path: Path) -> None:
    """Indices beyond the dictionary, runs longer than the page."""
    about = _plainly(path, use_dictionary=True)
    chunk = _chunk(draw, about)

    def change(raw: bytearray) -> None:
        end = chunk.data_page_offset + (chunk.total_compressed_size // 2)
        for _ in range(draw.choice((1, 4, 16))):
            at = draw.randrange(chunk.data_page_offset, max(end, chunk.data_page_offset + 1) + 8)
            raw[min(at, len(raw) - 1)] = draw.choice((0xFF, 0x7F, 0x80, draw.randrange(256)))

    _changed(path, change)


def sizes(draw: random.Random, path: Path) -> None:
    """A page, or the footer, that says it is enormous."""
    chunk = _chunk(draw, _plainly(path))
    begins = chunk.dictionary_page_offset or chunk.data_page_offset

    def change(raw: bytearray) -> None:
        if draw.random() < 0.2:
            size = draw.choice((0, 2**31 - 1, 2**31, 2**32 - 1, len(raw), len(raw) - FOOTER))
            raw[-FOOTER:-4] = struct.pack("<I", size)
            return
        at = begins + draw.randrange(1, 12)  # the sizes in the head of a page
        size = draw.randrange(1, 5)
        raw[at : at + size] = b"\xff" * (size - 1) + bytes([draw.choice((0x7F, 0x0F, 0x07))])

    _changed(path, change)


def footer(draw: random.Random, path: Path) -> None:
    """A footer of other numbers: counts, places, types, depths."""
    _plainly(path)

    def change(raw: bytearray) -> None:
        (size,) = struct.unpack_from("<I", raw, len(raw) - FOOTER)
        for _ in range(draw.choice((1, 1, 2, 8))):
            raw[len(raw) - FOOTER - 1 - draw.randrange(size)] = draw.choice(
                (0, 0xFF, 0x7F, draw.randrange(256))
            )

    _changed(path, change)


TABLES: dict[str, Venom] = {
    "types": types,
    "columns": columns,
    "values": values,
    "rows": rows,
    "metadata": metadata,
    "encodings": encodings,
    "dictionary": dictionary,
    "sizes": sizes,
    "footer": footer,
}


# ---- Journals by an enemy ----


def header(draw: random.Random, path: Path) -> None:
    """A header with a right check sum, in which something else stands."""
    raw = path.read_bytes()
    begin = header_size(raw)
    said = json.loads(raw[FILE.size : begin])
    key = draw.choice([*said, "new"])
    if draw.random() < 0.2:
        said.pop(key, None)
    else:
        said[key] = draw.choice((*ANYTHING, *EXTREMES))
    body = json.dumps(said).encode(errors="surrogatepass")
    version = draw.choice((struct.unpack_from("<H", raw, 8)[0], 1, 2, 3))
    head = FILE.pack(FILE_MAGIC, version, 0, len(body), crc32(body))
    path.write_bytes(head + body + raw[begin:])


def another_header(draw: random.Random, path: Path) -> None:
    """A header of the right form with other values, so that all check sums of the records are wrong, or right."""
    raw, segment = path.read_bytes(), read_segment(path)
    if segment.header is None:
        return
    numbers = [one.name for one in fields(Header) if one.type == "int" and one.name != "salt"]
    changed = replace(segment.header, **{draw.choice(numbers): draw.choice(EXTREMES)})
    body = json.dumps(
        {"format": changed.version}
        | {one.name: getattr(changed, one.name) for one in fields(Header) if one.name != "more"}
    ).encode()
    head = FILE.pack(FILE_MAGIC, changed.version, 0, len(body), crc32(body))
    path.write_bytes(head + body + raw[header_size(raw) :])


def records(draw: random.Random, path: Path) -> None:
    """Records with right check sums and any content, somewhere among the others."""
    segment = read_segment(path)
    raw, starts = segment.raw, segment.scan.starts
    place = draw.choice(starts) if starts else len(raw)
    more = b"".join(
        encode_record(_record(draw, len(starts)), segment.salt) for _ in range(draw.randrange(1, 6))
    )
    path.write_bytes(raw[:place] + more + raw[place:])


def _record(draw: random.Random, near: int) -> Record:
    kind = draw.choice([*RecordKind, 0, 9, 255])
    time = [value for value in EXTREMES if -(2**63) <= value < 2**63]
    payload = draw.choice(
        (
            b"",
            draw.randbytes(draw.choice((1, 24, 40, 65_535))),
            json.dumps(draw.choice(ANYTHING)).encode(),
            b"[" * 60_000,
            json.dumps(
                {name: draw.choice(ANYTHING) for name in ("policy", "phi", "records", "reason")}
            ).encode(),
        )
    )
    number = draw.choice((0, near, near + 1, 2**32, 2**63, 2**64 - 1, draw.randrange(2 * near + 1)))
    return Record(
        number, kind, draw.choice((0, 1, 255)), draw.choice(time), draw.choice(time), payload[:65_535]
    )


def segments(draw: random.Random, path: Path) -> None:
    """A segment is missing, there twice, under another's number, or of a strange one."""
    match draw.randrange(4):
        case 0:
            path.unlink()
        case 1:
            shutil.copy(path, path.with_name(f"{draw.choice((7, 999_999)):06d}.cwj"))
        case 2:
            path.rename(path.with_name(f"{draw.randrange(9):06d}.cwj"))
        case _:
            path.rename(path.with_name(draw.choice(("x.cwj", "-1.cwj", "00000٣.cwj", "0" * 90 + ".cwj"))))


JOURNALS: dict[str, Venom] = {
    "header": header,
    "another header": another_header,
    "records": records,
    "segments": segments,
}
