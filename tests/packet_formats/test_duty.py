"""The byte in which a health reports its mote's duty, and the days that follow from it."""

from dataclasses import replace
from pathlib import Path

import pytest

from packet_formats.deployment import load
from packet_formats.json_form import message_from_plain, message_to_plain
from packet_formats.layout import layout_of
from packet_formats.messages import FormatError, decode_message, encode_message
from packet_formats.power import days_at_duty
from packet_formats.records import Health, duty_code, duty_of, members

HEALTH = Health(**{member.name: 1 for member in members(Health)})  # type: ignore[arg-type]


def test_a_duty_is_reported_to_a_few_per_cent() -> None:
    shares = [0.001 * 1.02**step for step in range(348)]
    for share in shares:
        assert duty_of(duty_code(share)) == pytest.approx(share, rel=0.04)
    assert 0.95 < shares[-1] < 1
    assert duty_of(duty_code(0.0005)) == pytest.approx(0.0005, rel=0.07)
    assert duty_of(duty_code(1.0)) == 1.0
    assert duty_code(0.0) > 0  # 0 means not reported


def test_only_a_schedule_has_it(root: Path) -> None:
    always, windows = (layout_of(load(root / f"examples/{name}.toml")) for name in ("micaz", "micaz_months"))
    health = replace(HEALTH, layout=windows.hash)
    sent = replace(health, tail=bytes([duty_code(0.012)]))
    assert len(encode_message(health, always).data) == 28
    assert decode_message(encode_message(sent, windows), windows) == sent
    with pytest.raises(FormatError, match="a tail of 1 byte, the layout has 0"):
        encode_message(sent, always)
    nothing = decode_message(encode_message(health, windows), windows)
    assert isinstance(nothing, Health)
    assert nothing.duty is None


def test_it_is_in_json(root: Path) -> None:
    layout = layout_of(load(root / "examples/micaz_months.toml"))
    sent = replace(HEALTH, tail=bytes([duty_code(0.012)]))
    plain = message_to_plain(sent, layout)
    assert plain["duty"] == pytest.approx(0.012, rel=0.07)
    assert message_from_plain(plain, layout) == sent
    with pytest.raises(FormatError, match="duty differs"):
        message_from_plain(plain | {"duty": 0.5}, layout)


def test_days_at_a_duty() -> None:
    """As emulated motes drew: docs/figures/firmware.md."""
    assert days_at_duty("micaz", 0.0107) == pytest.approx(290, rel=0.1)
    assert days_at_duty("mica2", 0.0278) == pytest.approx(247, rel=0.1)
    assert days_at_duty("mica2", 0.0278, 868) < days_at_duty("mica2", 0.0278, 433)
