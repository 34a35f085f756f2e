"""The compiled numbering is that of the objects, message by message, whatever motes and radios do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.boots import UNTIMED
from basestation.journal import fast
from basestation.journal.message_table import number_by_objects

pytest.importorskip("numba")

PATIENCE = 40
WIRE = np.dtype([("source", np.uint16), ("boot", np.uint8), ("sequence", np.uint8), ("digest", np.uint32)])

steps = st.tuples(
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 0, 1, 7, 3, 5]),  # how much later a boot
    st.sampled_from([0, 1, 1, 1, 2, 60, 64, 65, 127, 128, 129, 200, 255]),  # how much later a number
    # How much later it is heard, if known
    st.sampled_from([-2, 0, 1, 1, 3, PATIENCE, PATIENCE + 1, 500, None]),
    st.sampled_from([1, 1, 1, 2, 3, 4, 5, 6, None, 0]),  # what it says; None: what no other says
)


def wire(taken):
    """Messages of motes that go on as told, with their ticks."""
    boots, numbers, tick, rows, ticks = {}, {}, 0, [], []
    for place, (source, boot, number, later, says) in enumerate(taken):
        boots[source] = (boots.get(source, 0) + boot) % 8
        numbers[source] = (numbers.get(source, 250) + number) % 256
        tick += later or 0
        rows.append((source, boots[source], numbers[source], 1000 + place if says is None else says))
        ticks.append(UNTIMED if later is None else tick)
    return np.array(rows, WIRE), np.array(ticks, np.int64)


@given(st.lists(steps, max_size=60), st.lists(steps, max_size=60), st.booleans())
def test_the_kernel_numbers_as_the_objects_do(first, second, numbers_kept):
    data, ticks = wire(first + second)
    cut = len(first)
    motes = number_by_objects(data[:cut], ticks[:cut], PATIENCE, {})[1]
    if not numbers_kept:  # as in the parts of an older version
        for mote in motes.values():
            mote.bases, mote.newest = {}, None
    wanted, after = number_by_objects(data[cut:], ticks[cut:], PATIENCE, motes)
    made, known = fast.numbering()(data[cut:], ticks[cut:], PATIENCE, motes)
    for one, other in zip(made, wanted, strict=True):
        assert np.array_equal(one, other)
    assert known == after
