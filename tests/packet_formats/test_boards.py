"""The table of boards: every row has its firmware and its example, and the firmware takes boards only from there."""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from packet_formats import cheader
from packet_formats.boards import BOARDS, RADIOS, Board
from packet_formats.deployment import DeploymentError, from_dict, load
from tests.packet_formats.strategies import tables

PORTABLE = ("core", "net", "apps", "hal")
each_board = pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.name)


@each_board
def test_a_board_has_its_firmware_and_its_example(board: Board, root: Path) -> None:
    firmware = root / "firmware"
    assert list((firmware / "boards" / board.name).glob("*.c"))
    assert list((firmware / "chips" / board.radio.driver).glob("*.c"))
    assert (firmware / "platforms" / "mica" / "boards" / f"{board.name}.json").exists()
    assert load(root / "examples" / f"{board.name}.toml").network.board == board.name
    platformio = ConfigParser(interpolation=None, strict=False)
    platformio.read(root / "platformio.ini")
    assert {f"env:{board.name}", f"env:{board.name}_gateway"} <= set(platformio.sections())


@each_board
@pytest.mark.parametrize("tinyos", [1, 2])
def test_a_deployment_takes_the_channels_of_its_board(board: Board, tinyos: int) -> None:
    channels = board.carrier_khz[tinyos]
    given = tables()
    given["network"] |= {"board": board.name, "tinyos": tinyos}
    given["network"].pop("channel", None)
    assert from_dict(given).network.channel == board.default_channel[tinyos]
    for channel in channels:
        given["network"]["channel"] = channel
        assert from_dict(given).network.channel == channel
    for channel in (min(channels) - 1, max(channels) + 1):
        given["network"]["channel"] = channel
        with pytest.raises(DeploymentError, match=r"network\.channel"):
            from_dict(given)


@each_board
def test_the_header_describes_the_board(board: Board) -> None:
    given = tables()
    given["network"] = {"name": "field", "board": board.name, "motes": 4}
    found = dict(re.findall(r"#define CAUSEWAY_(\w+) +(\d+)", cheader.render(from_dict(given))))
    assert [chip for chip in RADIOS if found[f"RADIO_{chip}"] == "1"] == [board.radio.chip]
    expected = {
        "AIR_IEEE802154": int(board.radio.framing == "ieee802154"),
        "HAS_LQI": int(board.radio.has_lqi),
        "HOP_BACKOFF": board.radio.hop_backoff_cycles,
        "TIMING_NOISE": board.radio.timing_noise_cycles,
        "BEACON_SECONDS": board.beacon_seconds,
        "SEND_SECONDS": board.send_seconds,
    }
    assert {name: int(found[name]) for name in expected} == expected


def test_with_a_schedule_motes_send_every_ten_seconds(root: Path) -> None:
    deployment = load(root / "examples/micaz_months.toml")
    assert "#define CAUSEWAY_SEND_SECONDS 10" in re.sub(" +", " ", cheader.render(deployment))


def test_portable_c_asks_for_no_board(root: Path) -> None:
    named = re.compile(rf"^\s*#\s*(?:el)?if.*({'|'.join([*BOARDS, *RADIOS])})", re.MULTILINE | re.IGNORECASE)
    for folder in PORTABLE:
        for path in (root / "firmware" / folder).rglob("*.[ch]"):
            assert not named.search(path.read_text()), path
