"""Widths, packing and the fingerprint."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packet_formats.deployment import from_dict
from packet_formats.layout import DataLayout, StampLayout, layout_of, stamp_layout
from packet_formats.schemes import LayoutError, least_clock_bits
from tests.packet_formats.strategies import layouts, tables


def paper(scheme: str, **settings: object) -> StampLayout:
    return stamp_layout(scheme=scheme, epsilon=10, delta=10, motes=10, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scheme", "bits", "size"),
    [("kn", 53, 7), ("dpc1", 5, 1), ("dpc2", 9, 2), ("hlc", 13, 2), ("shlc", 8, 1)],
)
def test_widths_at_the_papers_numbers(scheme: str, bits: int, size: int) -> None:
    layout = paper(scheme)
    assert (layout.bits, layout.size, layout.modulus) == (bits, size, 32)


@pytest.mark.parametrize(
    ("scheme", "fields", "size"),
    [
        ("sequence", [], 0),
        ("scalar", ["number"], 1),
        ("last-sender", ["source0", "sequence0"], 2),
        ("history", [f"{part}{index}" for index in range(4) for part in ("source", "sequence")], 8),
        ("vector", [f"known{index}" for index in range(9)], 9),
        ("delta-vector", ["clock", *[f"age{index}" for index in range(10)]], 9),
        ("two-hop", ["clock", *[f"age{index}" for index in range(20)]], 16),
    ],
)
def test_the_papers_other_stamps(scheme: str, fields: list[str], size: int) -> None:
    layout = paper(scheme)
    assert [field.name for field in layout.fields] == fields
    assert layout.size == size


@pytest.mark.parametrize(("scheme", "size"), [("matrix", 16), ("delta-causal", 13)])
def test_a_stamp_of_all_pairs_leaves_out_what_goes_to_oneself(scheme: str, size: int) -> None:
    layout = stamp_layout(scheme=scheme, epsilon=10, delta=10, motes=4)
    assert (layout.entries, layout.size) == (16, size)


def test_two_bytes_of_source_make_wide_names() -> None:
    wide = stamp_layout(scheme="last-sender", epsilon=10, delta=10, motes=240)
    assert [field.bits for field in wide.fields] == [16, 16]


@pytest.mark.parametrize(("scheme", "fields"), [("kn", 13), ("dpc1", 1), ("dpc2", 2)])
def test_bytes_packing_gives_each_field_a_byte(scheme: str, fields: int) -> None:
    layout = paper(scheme, packing="bytes")
    assert layout.bits == 8 * fields
    assert layout.size == len(layout.fields) == fields
    assert layout.modulus == 32


def test_entry_width_keeps_the_top_code_free() -> None:
    for motes in range(1, 300):
        layout = stamp_layout(scheme="hlc", epsilon=10, delta=10, motes=motes)
        assert motes + 1 < layout.entry_max
        assert motes + 1 >= (layout.entry_max - 1) // 2  # one bit less would not do


@pytest.mark.parametrize(
    ("delta", "clock", "counter"), [(10, 5, 3), (40, 6, 7), (100, 7, 7), (200, 8, 7), (500, 10, 6)]
)
def test_shlc_fills_its_last_byte(delta: int, clock: int, counter: int) -> None:
    layout = stamp_layout(scheme="shlc", epsilon=10, delta=delta, motes=10)
    assert [field.bits for field in layout.fields] == [clock, counter]


@given(st.integers(1, 30000), st.integers(1, 60000))
def test_least_clock_bits_is_least(epsilon: int, delta: int) -> None:
    bits, need = least_clock_bits(epsilon, delta), delta + 2 * epsilon + 1
    assert 2**bits >= need > 2 ** (bits - 1)


def test_the_papers_modulus_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"delta \+ 2\*epsilon \+ 1 = 31.*least clock_bits is 5"):
        paper("kn", clock_bits=4)
    # At epsilon = 10, delta = 20 the paper's bound, 31, fits 5 bits; the true one, 41, does not.
    with pytest.raises(LayoutError, match=r"B = 2\^5 = 32 is below .* = 41.*least clock_bits is 6"):
        stamp_layout(scheme="shlc", epsilon=10, delta=20, motes=10, clock_bits=5)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"scheme": "shlc", "count": "sends"}, "count"),
        ({"scheme": "hlc", "packing": "bytes"}, "packing"),
        ({"scheme": "kn", "carry": "sum"}, "carry"),
        ({"scheme": "dpc1", "counter_bits": 4}, "counter_bits"),
        ({"scheme": "hlc", "entries": 2}, "entries"),
        ({"scheme": "kn", "entries": 12}, "entries"),
        ({"scheme": "kn", "entries": 0}, "entries"),
        ({"scheme": "kn", "epsilon": 0}, "epsilon"),
        ({"scheme": "kn", "delta": 0}, "delta"),
        ({"scheme": "lamport"}, "scheme"),
        ({"scheme": "vector", "motes": 31}, "scheme"),
        ({"scheme": "matrix", "motes": 65000}, "scheme"),
        ({"scheme": "vector", "packing": "bytes"}, "packing"),
        ({"scheme": "vector", "counter_bits": 4}, "counter_bits"),
        ({"scheme": "vector", "entries": 4}, "entries"),
        ({"scheme": "history", "entries": 0}, "entries"),
        ({"scheme": "two-hop", "delta": 65510, "motes": 2}, "delta"),
        ({"scheme": "hlc", "clock_bits": 17}, "clock_bits"),
        ({"scheme": "dpc1", "delta": 300, "packing": "bytes"}, "clock_bits"),
        ({"scheme": "kn", "motes": 300, "packing": "bytes"}, "counter_bits"),
        ({"scheme": "hlc", "motes": 60000, "events_per_tick": 2}, "counter_bits"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, object], key: str) -> None:
    with pytest.raises(LayoutError) as caught:
        stamp_layout(**{"epsilon": 10, "delta": 10, "motes": 10, **settings})  # type: ignore[arg-type]
    assert caught.value.key == key


@given(st.data())
def test_pack_places_each_bit_where_the_fields_say(data: st.DataObject) -> None:
    stamp = data.draw(layouts()).stamp
    values = tuple(data.draw(st.integers(0, field.top)) for field in stamp.fields)
    raw = stamp.pack(values)
    assert len(raw) == stamp.size
    assert stamp.unpack(raw) == values
    line = "".join(f"{byte:08b}" for byte in raw)
    assert [int(line[f.offset : f.offset + f.bits], 2) for f in stamp.fields] == list(values)
    assert set(line[stamp.bits :]) <= {"0"}


@given(st.data())
def test_hostile_stamps_are_read_exactly_or_refused(data: st.DataObject) -> None:
    stamp = data.draw(layouts()).stamp
    raw = data.draw(st.binary(min_size=stamp.size, max_size=stamp.size))
    try:
        values = stamp.unpack(raw)
    except ValueError:
        spare = stamp.size * 8 - stamp.bits
        padded = int.from_bytes(raw, "big") & ((1 << spare) - 1)
        assert padded or stamp.packing == "bytes"
    else:
        assert stamp.pack(values) == raw


@given(st.data())
def test_values_too_large_are_refused(data: st.DataObject) -> None:
    stamp = data.draw(layouts().filter(lambda layout: layout.stamp.size > 0)).stamp
    at = data.draw(st.integers(0, len(stamp.fields) - 1))
    for wrong in (stamp.fields[at].top + 1, -1):
        values = [0] * len(stamp.fields)
        values[at] = wrong
        with pytest.raises(ValueError, match=stamp.fields[at].name):
            stamp.pack(values)
    with pytest.raises(ValueError, match="field"):
        stamp.pack([0] * (len(stamp.fields) + 1))
    with pytest.raises(ValueError, match="bytes"):
        stamp.unpack(bytes(stamp.size + 1))


@given(layouts())
def test_layout_fits_and_types_do_not_collide_with_the_fixed_ones(layout: DataLayout) -> None:
    assert layout.left >= 0
    assert 0x80 <= layout.am_type <= 0xFF
    assert layout.length <= {1: 29, 2: 28}[layout.tinyos]


def test_everything_that_decides_the_reading_changes_the_hash() -> None:
    base = layout_of(from_dict(tables(scheme="kn", entries=4)))
    changed = [
        dataclasses.replace(base, tinyos=2),
        dataclasses.replace(base, source_bytes=2),
        dataclasses.replace(base, receipts=1),
        dataclasses.replace(base, data_bytes=5),
        dataclasses.replace(base, epsilon=9),
        dataclasses.replace(base, delta=9),
        dataclasses.replace(base, tick_log2=8),
    ]
    for name, value in [
        ("scheme", "hlc"),
        ("packing", "bytes"),
        ("carry", "sum"),
        ("count", "sends"),
        ("head", (("clock", 6), ("c", 4))),
        ("head", (("clock", 5), ("c", 5))),
        ("head", (("clock", 5), ("c", 4), ("flag", 1))),
        ("most", 5),
        ("least", 3),
        ("item", (("kn{}", 5),)),
    ]:
        changed.append(dataclasses.replace(base, stamp=dataclasses.replace(base.stamp, **{name: value})))
    assert len({layout.hash for layout in [base, *changed]}) == len(changed) + 1
    # The group is matched by itself and does not decide the reading.
    assert dataclasses.replace(base, group=1).hash == base.hash
