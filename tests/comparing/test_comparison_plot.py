"""The pictures of a comparison show every scheme and every point."""

import pytest

from basestation.comparing.catalogue import NAMES, Terms
from basestation.comparing.comparison import sweep
from basestation.comparing.spread import measure_network
from basestation.simulator.options import WorldOptions

comparison_plot = pytest.importorskip("basestation.comparing.comparison_plot")


@pytest.fixture(scope="module")
def rows():
    networks = sweep(WorldOptions(messages=150), {"loss": (0.0, 0.3), "motes": (4, 8)})
    return [row for network in networks for row in measure_network(network, NAMES, Terms(), 1)]


def test_each_scheme_has_its_row_and_no_point_is_cut_off(rows):
    figure = comparison_plot.picture(rows)
    # The motes are dots, each loss a row of panels.
    assert len(figure.axes) == 2 * len(comparison_plot.PANELS)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(NAMES)
    for axes in figure.axes:
        low, high = axes.get_xlim()
        points = [x for dots in axes.collections for x, _ in dots.get_offsets()]
        assert len(points) == 2 * len(NAMES)
        assert low < min(points)
        assert max(points) < high
