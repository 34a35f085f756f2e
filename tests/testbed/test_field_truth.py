"""The causal graph that messages tell, against the flight recorders of emulated motes."""

import pytest

from basestation.testbed.field_check import check_graph
from basestation.testbed.through_station import run_field
from tools.schemes_table import MOTES, RATE, deployment_of

SECONDS = 10.0
MOSTLY_COMPLETE = ("barrier",)


@pytest.mark.parametrize("scheme", ["shlc", *MOSTLY_COMPLETE])
def test_the_graph_is_right_wherever_it_claims_to_be_complete(scheme, testbed, platformio):
    deployment = deployment_of(scheme)
    found = check_graph(run_field(deployment, MOTES, SECONDS, RATE, seed=2).arrivals, deployment)
    assert found.messages >= 200
    assert (found.false, found.wrong, found.beyond) == (0, 0, 0)
    if scheme in MOSTLY_COMPLETE:
        assert found.complete > 0.8 * found.messages
