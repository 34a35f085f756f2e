"""Who hears whom: shapes, files, and what is wrong with a file."""

import gzip
import math

import pytest

from basestation.simulator.topology import TopologyError
from basestation.testbed.topologies import (
    MARGIN_DB,
    NOISE_DBM,
    Wanted,
    from_coordinates,
    from_gains,
    from_links,
    from_places,
    grid,
    line,
    lossy,
)


@pytest.mark.parametrize("motes", [10, 20, 50])
def test_the_gateway_of_a_grid_hears_about_a_third(motes):
    hops = grid(motes).hops()
    assert max(hops) == 3
    assert 0.2 * motes <= hops.count(1) <= 0.4 * motes


@pytest.mark.parametrize(("motes", "allowed"), [(1, 1), (2, 2), (8, 2), (5, 1), (30, 4)])
def test_no_mote_is_further_away_than_the_deployment_allows(motes, allowed):
    for shape in (grid, line):
        hops = shape(motes, 1, allowed).hops()
        assert max(hops) <= allowed
        assert min(hops) == 1


def test_more_gateways_stand_at_other_sides():
    two = grid(20, gateways=2)
    assert (two.motes, two.gateways, two.places) == (20, 2, 22)
    near = [[mote for mote in range(20) if two.carries((mote, gateway))] for gateway in (20, 21)]
    assert near[0]
    assert near[1]
    assert not set(near[0]) & set(near[1])
    with pytest.raises(TopologyError, match="four sides"):
        grid(20, gateways=5)
    with pytest.raises(TopologyError, match="two ends"):
        line(20, gateways=3)


def test_a_line_by_its_range():
    assert line(6, reach=20.5).hops() == [1, 1, 2, 2, 3, 3]
    assert line(3, reach=9).hops() == [None, None, None]


def test_links_fade_at_the_range():
    edge = NOISE_DBM + MARGIN_DB
    places = from_places([(0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (100.0, 0.0), (0.0, 0.0)], 1, reach=10.0)
    assert places.gains[0, 1] == pytest.approx(edge)
    assert places.gains[0, 2] == pytest.approx(edge - 40 * math.log10(2), abs=0.01)
    assert (0, 3) not in places.gains
    assert places.gains[0, 4] == -40
    assert all(places.gains[a, b] == places.gains[b, a] for a, b in places.gains)


def test_coordinates(tmp_path):
    path = tmp_path / "field.csv"
    path.write_text("5,0,0\n7,10,0\n8,20,0\n8,30,0\n9,500,0\n")
    found = from_coordinates(path, 12, Wanted())
    assert (found.motes, found.gateways) == (3, 1)
    assert found.hops() == [1, 2, 3]
    assert from_coordinates(path, 12, Wanted(2)).hops() == [1, 2]
    with pytest.raises(TopologyError, match="4 motes are asked for, but 3 of its 5 places"):
        from_coordinates(path, 12, Wanted(4))


def test_tossims_gains(tmp_path):
    path = tmp_path / "gains.txt.gz"
    text = "gain 0 1 -60.5\ngain\t1\t0\t-61\n\ngain 1 2 -80 # near\ngain 2 1 -97\ngain 2 3 -200\nnoise 1 -110.0 4.0\n"
    path.write_bytes(gzip.compress(text.encode()))
    found = from_gains(path, Wanted())
    assert (found.motes, found.gateways) == (2, 1)
    assert found.gains == {(0, 2): -61, (2, 0): -60.5, (0, 1): -80, (1, 0): -97}
    assert found.noise == {0: -110}
    assert found.hops() == [1, 2]  # -97 dB is enough where noise is -110 dBm


def test_links_with_a_probability(tmp_path):
    path = tmp_path / "links.txt"
    path.write_text("1 2 0.9\n2 1 0.8\n2 3 0.7\n3 2 0.6\n3 1 0.1\n2 2 1\n9 1 1.0\n1 3\n")
    found = from_links(path, Wanted())
    assert (found.motes, found.gateways) == (2, 1)
    assert found.hops() == [1, 2]
    assert found.deliveries[0, 2] == 0.8
    assert set(found.gains) == set(found.deliveries)
    assert len(set(found.gains.values())) == 1


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (from_gains, "gain 0 1 -60\ngain 0 x -60\n", "line 2: expected gain FROM TO DB"),
        (from_gains, "gain 0 1 nan\n", "line 1"),
        (from_gains, "loss 0 1 -60\n", "found 'loss 0 1 -60'"),
        (from_gains, "noise 0 -100\n", "no gains"),
        (from_gains, "gain 0 1 -60\n", "0 of its 2 places have a path"),
        (from_links, "1 2 0.5\n1 2 x\n", "line 2"),
        (from_links, "1 2 1.5\n", "line 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path, read, text, words):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(TopologyError, match=words):
        read(path, Wanted())
    with pytest.raises(TopologyError, match="No such file"):
        read(tmp_path / "none", Wanted())


def real(root, name):
    path = root.parent / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"../shared/data/{name} is not on this machine")
    return path


def test_the_line_in_the_sand(root):
    path = real(root, "alits/mote_coordinates.dat.gz")
    assert from_coordinates(path, 30, Wanted()).motes == 78
    twenty = from_coordinates(path, 30, Wanted(20))
    assert max(twenty.hops()) == 4


def test_tossims_grid_of_225(root):
    path = real(root, "tossim_topologies/15-15-medium-mica2-grid.txt.gz")
    whole = from_gains(path, Wanted())
    assert whole.motes == 224
    assert len(whole.noise) == 225
    assert None not in whole.hops()
    assert set(from_gains(path, Wanted(20)).hops()) == {1, 2}


def test_the_intel_lab(root):
    found = from_links(real(root, "intel_lab/connectivity.txt.gz"), Wanted())
    assert 45 <= found.motes <= 54
    assert all(0 < p <= 1 for p in found.deliveries.values())


def test_each_link_loses_its_share():
    found = lossy(grid(10), 0.1)
    assert found.deliveries.keys() == found.gains.keys()
    assert set(found.deliveries.values()) == {0.9}
    assert lossy(found, 0.5).deliveries[0, 1] == pytest.approx(0.45)
    assert found.hops() == grid(10).hops()
    assert lossy(grid(10), 0.0) == grid(10)
