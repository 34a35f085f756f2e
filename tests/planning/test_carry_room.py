"""Which settings have less room to carry than a wider clock would give them, and what that would cost."""

from itertools import product

import pytest

from basestation.planning.carry_room import ShortOfRoom, short_of_room
from packet_formats.layout import stamp_layout

SETTINGS = list(product(range(1, 5), range(8, 65)))  # epsilon, delta


def examined(epsilon: int, delta: int, scheme: str = "shlc", **settings: object) -> ShortOfRoom | None:
    layout = stamp_layout(scheme, epsilon=epsilon, delta=delta, motes=10, **settings)
    return short_of_room(layout, epsilon, delta)


def test_of_228_settings_25_need_a_bit_more_and_those_of_b_32_a_byte() -> None:
    short = {setting: found for setting in SETTINGS if (found := examined(*setting))}
    assert (len(SETTINGS), len(short)) == (228, 25)
    assert all(found.wider and found.wider.bits == found.layout.bits + 1 for found in short.values())
    longer = {setting for setting, found in short.items() if found.layout.modulus == 32 and found.grows}
    assert longer == {(e, d) for e, d in SETTINGS if 32 - 3 * e <= d <= 31 - 2 * e}
    assert len(longer) == 10


def test_the_wider_stamp_has_room_for_all() -> None:
    for epsilon, delta in SETTINGS:
        found = examined(epsilon, delta)
        assert found is None or (found.wider and not short_of_room(found.wider, epsilon, delta))


def test_r_and_c_apart_leave_no_room() -> None:
    found = examined(2, 16, "hlc")
    assert found is not None
    assert (found.room, found.cure) == (0, 'carry = "sum" in [stamp] would leave all of them')
    assert examined(2, 16, "hlc", carry="sum") is None


def test_where_no_field_is_wide_enough_a_longer_tick_is_the_cure() -> None:
    found = examined(20_000, 25_000, counter_bits=2)
    assert found is not None
    assert (found.wider, found.grows, "longer tick" in found.cure) == (None, False, True)


@pytest.mark.parametrize("scheme", ["kn", "dpc1", "dpc2", "vector", "delta-vector", "barrier"])
def test_other_stamps_have_nothing_to_say(scheme: str) -> None:
    assert examined(2, 27, scheme) is None
