"""Values read back modulo something: for integers, arrays and kernels alike, and as a search would find them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.kernels.compiled import compiled
from basestation.causality.modular import nearest, unwrap

VALUES, MODULI = st.integers(-(10**6), 10**6), st.sampled_from([2, 7, 8, 256, 1 << 16])


@given(VALUES, VALUES, MODULI)
def test_nearest_is_the_nearest(field, known, modulus):
    found = nearest(field, known, modulus)
    around = [value for value in range(known - modulus, known + modulus) if (value - field) % modulus == 0]
    assert found in around
    assert abs(found - known) == min(abs(value - known) for value in around)
    assert 2 * (known - found) <= modulus  # half a round away, the one before


@given(VALUES, VALUES, MODULI)
def test_unwrap_is_the_last_one_up_to_there(field, latest, modulus):
    found = unwrap(field, latest, modulus)
    assert (found - field) % modulus == 0
    assert latest - modulus < found <= latest


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20), MODULI)
def test_arrays_are_read_as_integers_are(pairs, modulus):
    fields, known = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    assert nearest(fields, known, modulus).tolist() == [nearest(a, b, modulus) for a, b in pairs]
    assert unwrap(fields, known, modulus).tolist() == [unwrap(a, b, modulus) for a, b in pairs]


def test_compiled_it_is_the_same():
    quick = compiled(unwrap)
    for field, latest in ((3, 10), (255, 256), (0, -1), (-5, 1000)):
        assert quick(field, latest, 256) == unwrap(field, latest, 256)
