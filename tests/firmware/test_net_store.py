"""What a node keeps in EEPROM: wear is spread, a reset at any moment does no harm, older layouts are read."""

import ctypes
from collections import Counter

import pytest

from packet_formats.deployment import Deployment
from tests.firmware.net_world import library

SIZE, ENTRIES = 4096, 64
ENDURANCE = 100_000


class Eeprom:
    """The firmware's own functions on an EEPROM of bytes."""

    def __init__(self, deployment: Deployment) -> None:
        self.c = ctypes.CDLL(str(library(deployment, "mote")))
        self.c.boot_store_count_boot.restype = ctypes.c_uint16
        self.c.boot_store_epoch.restype = ctypes.c_uint8
        self.cells = (ctypes.c_uint8 * SIZE).in_dll(self.c, "host_eeprom")
        self.load(b"\xff" * SIZE)

    def load(self, raw: bytes) -> None:
        ctypes.memmove(self.cells, raw, SIZE)

    def changes(self, epoch: int | None = None) -> tuple[int, list[tuple[int, int]]]:
        """The count of a start, and what it wrote where, in order."""
        ctypes.c_uint16.in_dll(self.c, "host_eeprom_writes").value = 0
        boots = int(self.c.boot_store_count_boot())
        if epoch is not None:
            self.c.boot_store_keep_epoch(epoch)
        count = ctypes.c_uint16.in_dll(self.c, "host_eeprom_writes").value
        written = (ctypes.c_uint16 * 2 * 64).in_dll(self.c, "host_eeprom_written")
        return boots, [(int(at), int(value)) for at, value in written[:count]]


@pytest.fixture
def eeprom(meadow):
    return Eeprom(meadow)


def test_a_start_a_second_wears_no_cell_out_in_a_month(eeprom):
    """At a root, which may open an epoch at each start. The first start of all counts 0."""
    starts, writes = 640, Counter[int]()
    for expected in range(starts):
        boots, changed = eeprom.changes(epoch=expected % 256)
        assert boots == expected
        assert eeprom.c.boot_store_epoch() == expected % 256
        writes.update(at for at, _ in changed)
    assert max(writes.values()) <= 2 * starts / ENTRIES
    assert max(writes.values()) / starts * 86400 * 30 <= ENDURANCE


@pytest.mark.parametrize("boots", [0, 1, 63, 64, 255, 256, 0x1FFF, 65535])
@pytest.mark.parametrize("starts", [1, 70])
def test_a_reset_while_a_start_is_counted(eeprom, boots, starts):
    """The byte being written may hold anything then. The next start gets an unused count."""
    before = (boots - starts - 1) % 65536
    eeprom.cells[4], eeprom.cells[5], eeprom.cells[8] = before % 256, before >> 8, 7
    for _ in range(starts):
        eeprom.changes()
    cells = bytearray(eeprom.cells)
    counted, written = eeprom.changes()
    assert counted == boots
    for at, value in written:
        for torn in set(range(256)) - {value}:
            cells[at] = torn
            eeprom.load(bytes(cells))
            assert eeprom.c.boot_store_epoch() == 7
            assert eeprom.c.boot_store_count_boot() == boots
        cells[at] = value


def test_older_firmwares_cells_are_read(eeprom):
    eeprom.cells[4], eeprom.cells[5], eeprom.cells[8] = 0x34, 0x12, 9
    assert eeprom.c.boot_store_epoch() == 9
    assert eeprom.c.boot_store_count_boot() == 0x1235
    assert eeprom.c.boot_store_epoch() == 9
    eeprom.c.boot_store_keep_epoch(10)
    assert eeprom.c.boot_store_count_boot() == 0x1236
    assert eeprom.c.boot_store_epoch() == 10
    assert bytes(eeprom.cells[4:9]) == b"\x34\x12\xff\xff\x09"
