"""Networks laid out in a field: links, the path to the observer, and the effect of relaying on causal order."""

from __future__ import annotations

import gzip

import pytest

from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from basestation.simulator.topology import (
    TopologyError,
    everyone_hears_everyone,
    field,
    from_links,
    from_positions,
    read_links,
    read_positions,
)
from tests.simulator.worlds import hlc, kn, outcome, relayed_network


def test_the_paper_has_one_hop():
    network = everyone_hears_everyone(4)
    assert network.motes == 4
    assert network.peers[2] == (0, 1, 3)
    assert set(network.hops) == {1}
    assert set(network.path) == {1.0}


def test_a_row_of_motes():
    network = from_positions([(1, 0), (2, 0), (3, 0), (1, 1)], (0, 0), reach=1.0)
    assert network.hops == (1, 2, 3, 2)
    assert network.peers == ((1, 3), (0, 2), (1,), (0,))
    assert network.path == (1.0,) * 4


def test_the_chances_of_a_way_multiply():
    network = relayed_network()
    assert network.hops == (1, 2, 3, 4, 1, 4)
    assert network.path[0] == pytest.approx(0.95 * 0.9)
    assert network.path[1] == pytest.approx(network.path[0] * 0.8 * 0.9)
    assert network.path[4] == pytest.approx(0.6)
    assert network.hearing[1][network.peers[1].index(4)] == pytest.approx(0.3)
    assert 4 not in network.peers[3]


def test_links_have_a_direction():
    network = from_links({(1, 9): 0.5, (2, 1): 1.0, (1, 2): 0.25, (9, 2): 1.0}, [1, 2], gateway=9)
    assert network.hops == (1, 2)
    assert network.hearing == ((0.25,), (1.0,))
    assert network.path == (0.5, 0.5)


def test_a_mote_without_a_way_is_refused():
    with pytest.raises(TopologyError, match="motes 1 have no path"):
        from_positions([(1, 0), (9, 0)], (0, 0), reach=1.0)


def test_the_flat_form_is_the_same():
    network = relayed_network()
    offsets, peers, hearing, hops, path = network.arrays()
    for mote in range(network.motes):
        row = slice(offsets[mote], offsets[mote + 1])
        assert tuple(peers[row].tolist()) == network.peers[mote]
        assert tuple(hearing[row].tolist()) == network.hearing[mote]
    assert tuple(hops.tolist()) == network.hops
    assert tuple(path.tolist()) == network.path


def test_positions_are_read_plain_or_zipped(tmp_path):
    plain, zipped = tmp_path / "positions", tmp_path / "positions.gz"
    plain.write_text("0,0,1\n12 10 10.5\n\n3,-1,2\n")
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_positions(plain) == read_positions(zipped) == [(0, 0, 1), (12, 10, 10.5), (3, -1, 2)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0,0\n", "line 1: expected id, x and y"),
        ("0,0,1\nx,1,1\n", "line 2"),
        ("0,0,1\n1,1,1\n", "at least two motes"),
    ],
)
def test_bad_positions_are_refused(tmp_path, text, complaint):
    path = tmp_path / "positions"
    path.write_text(text)
    with pytest.raises(TopologyError, match=complaint):
        read_positions(path)


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(TopologyError):
        read_positions(tmp_path / "absent")
    links = tmp_path / "links"
    links.write_text("1 2 1.5\n")
    with pytest.raises(TopologyError, match="is not a probability"):
        read_links(links)
    links.write_text("")
    with pytest.raises(TopologyError, match="no links"):
        read_links(links)


def test_a_file_of_positions_is_a_network_of_several_hops(tmp_path):
    """The first row is the gateway's place; a row that repeats an id is one more mote."""
    rows = ["0,0,0", *(f"{i},{10 * (i % 4)},{10 + 10 * (i // 4)}" for i in range(24))]
    path = tmp_path / "positions"
    path.write_text("\n".join(rows))
    network = field(path, reach=15.0)
    assert (network.motes, min(network.hops)) == (24, 1)
    options = WorldOptions(
        motes=24, topology=network, messages=4000, rate=0.05, delta=20, g2="enforce", epsilon=5
    )
    stream = engine.generate(options)
    arrival_order = outcome(stream, kn(options), "none").violations
    assert arrival_order.pairs > 0, "relaying breaks causal order"
    for scheme in (kn(options), hlc(options), hlc(options, "shlc", carry="sum")):
        ordered = outcome(stream, scheme, "cbd", 100)
        assert (ordered.violations.pairs, ordered.wrong_unwraps) == (0, 0)
        assert ordered.violations.delivered == arrival_order.delivered > 0
