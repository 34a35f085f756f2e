"""The byte that encodes the age of an event."""

from pathlib import Path

import pytest

from packet_formats.ages import AGAIN, age_code, age_cycles, is_again, is_or_more
from packet_formats.deployment import load
from packet_formats.json_form import message_from_plain, message_to_plain
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, FormatError

PERIOD_LOG2 = 19  # 16 s
SECOND = 32768


@pytest.fixture
def layout(root: Path) -> DataLayout:
    return layout_of(load(root / "examples/micaz_months.toml"))


def data(age: int) -> Data:
    return Data(3, 7, (0, 0), data=bytes(8), age=age)


@pytest.mark.parametrize("again", [False, True])
def test_an_age_is_exact_to_a_unit_and_never_too_old(again: bool) -> None:
    unit = (1 if again else 1 / 8) * SECOND
    most = (63 if again else 191) * unit
    for cycles in range(0, 100 * SECOND, 1777):
        code = age_code(cycles, PERIOD_LOG2, again)
        assert is_again(code) == again
        assert age_cycles(code, PERIOD_LOG2) == min(cycles // unit * unit, most)
        assert is_or_more(code) == (cycles >= most)


def test_an_age_in_json(layout: DataLayout) -> None:
    plain = message_to_plain(data(AGAIN + 33), layout)
    assert [plain[key] for key in ("age", "age_ms", "age_or_more", "again")] == [225, 33000, False, True]
    assert message_to_plain(data(AGAIN - 1), layout)["age_or_more"] is True
    assert message_from_plain(plain, layout) == data(AGAIN + 33)
    with pytest.raises(FormatError, match="age_ms differs"):
        message_from_plain(plain | {"age": 1}, layout)


def test_messages_without_a_schedule_have_no_age(root: Path) -> None:
    layout = layout_of(load(root / "examples/micaz.toml"))
    assert layout.age_ms(0) is None
    assert "age" not in message_to_plain(data(0), layout)
