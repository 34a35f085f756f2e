"""What the tests of the testbed's CC2420 share."""

import pytest


@pytest.fixture
def air(make_air):
    """Two chips that hear each other well; the second listens, the first is ready to."""
    air = make_air()
    air.gains(-60)
    air.chips[1].listen()
    air.chips[0].listen()
    return air


@pytest.fixture
def alone(make_air):
    """One chip, without supply."""
    return make_air(nodes=1)
