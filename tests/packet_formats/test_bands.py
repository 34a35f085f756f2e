"""The CC1000's bands: the registers by the data sheet's formula, and which deployment takes which."""

import pytest

from packet_formats import cheader
from packet_formats.boards import MICA2
from packet_formats.cc1000 import BANDS, Tuning
from packet_formats.deployment import DeploymentError, from_dict
from packet_formats.layout import layout_of
from tests.packet_formats.strategies import tables

TUNINGS = sorted(
    {tuning for band in BANDS.values() for tuning in band.tuning.values()}, key=lambda t: t.halves
)
# TinyOS's CC1000Const.h: REFDIV, words A and B, FSEP of 433.002, 434.845, 914.077 and 315.178 MHz.
TINYOS = {
    433_002: (12, 0x580000, 0x57F685, 0x355),
    434_845: (11, 0x510000, 0x50F74F, 0x30E),
    914_077: (6, 0x5CE000, 0x5CDB42, 0x1AA),
    315_179: (13, 0x456000, 0x4555BB, 0x39C),
}


@pytest.mark.parametrize("tuning", TUNINGS, ids=lambda tuning: str(tuning.carrier_khz))
def test_registers_by_the_data_sheet(tuning: Tuning) -> None:
    """f = f_ref * (word + 8192) / 16384; a receiver is one IF, 150 kHz, above; a sender's 0 and 1 are 64 kHz apart."""
    reference = 14.7456e6 / tuning.refdiv
    assert 1.0e6 <= reference <= 2.4576e6
    carrier = tuning.carrier_khz * 1e3
    assert reference * (tuning.freq_a + 8192) / 16384 - 150e3 == pytest.approx(carrier, abs=500)
    assert reference * (tuning.freq_b + 8192) / 16384 + 32e3 == pytest.approx(carrier, abs=500)
    assert reference * tuning.fsep / 16384 == pytest.approx(64e3, abs=150)
    assert max(tuning.freq_a, tuning.freq_b) < 1 << 24
    if tuning.carrier_khz in TINYOS:
        assert TINYOS[tuning.carrier_khz] == (tuning.refdiv, tuning.freq_a, tuning.freq_b, tuning.fsep)


def test_carriers_are_where_motes_may_send() -> None:
    allowed = {
        315: (300_000, 348_000),
        433: (433_050, 434_790),
        868: (868_000, 868_600),
        916: (902_000, 928_000),
    }
    for mhz, band in BANDS.items():
        least, most = allowed[mhz]
        for tuning in band.tuning.values():
            assert least - 100 <= tuning.carrier_khz <= most + 100  # TinyOS's own are at the edges of 433 MHz


def test_a_deployment_chooses_its_band() -> None:
    wanted = tables()
    wanted["network"]["board"] = "mica2"
    usual = from_dict(wanted)
    assert (usual.network.band, usual.network.carrier_khz) == (433, 433_002)
    assert "band" not in usual.to_dict()["network"]  # so that older programs read it too
    for mhz in MICA2.bands:
        wanted["network"]["band"] = mhz
        deployment = from_dict(wanted)
        assert from_dict(deployment.to_dict()) == deployment
        assert deployment.network.carrier_khz == BANDS[mhz].tuning[1].carrier_khz
        assert f"CARRIER_KHZ                {deployment.network.carrier_khz}UL" in cheader.render(deployment)
        assert layout_of(deployment) == layout_of(usual)


@pytest.mark.parametrize(
    ("board", "band", "why"),
    [
        ("mica2", 915, "must be one of 315, 433, 868, 916"),
        ("mica2", "868", "must be one of"),
        ("mica2", True, "must be one of"),
        ("mica2", [868], "must be one of"),
        ("micaz", 433, "a MICAz has one band"),
    ],
)
def test_bands_that_a_board_does_not_have(board: str, band: object, why: str) -> None:
    wanted = tables()
    wanted["network"] |= {"board": board, "band": band}
    with pytest.raises(DeploymentError, match=rf"network\.band = .*: {why}"):
        from_dict(wanted)
