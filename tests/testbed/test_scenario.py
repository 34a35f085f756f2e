"""The scenario as text, and what is left to chance."""

from dataclasses import replace
from pathlib import Path

import pytest

from basestation.testbed.images import FirmwareProgram, Programs
from basestation.testbed.scenario import EmulatedNode, Port, Scenario, ScenarioError, Watch, drawn
from basestation.testbed.setup import Wish, assemble, networks_in
from basestation.testbed.topologies import RadioTopology, grid
from tests.testbed.worlds import deployment, network

GOLDEN = """\
seed 7
nodes 2
clocks 1
measure 0.25
states 30
pace 0.5
wait
node 0 micaz 0 12.5 -50 3.25 /images/mote 0.elf
recorder 0 657
watch 0 lines 917 42
watch 0 current 959 1
node 1 micaz 1.25 0 0 0 /images/gateway.elf
unwired 1 sfd
port 1 9001 /run/tty gateway
gain 0 1 -60
gain 1 0 -61.5
deliver 1 0 0.75
noise 1 -101.25
readings 0 {first} /noise.txt
readings 1 {second} /noise.txt
at 2 off 0
at 3.5 on 0
end 60.5
"""


def test_the_text_is_what_the_engine_reads():
    watches = (Watch("lines", 917, 42), Watch("current", 959, 1))
    port = Port(9001, Path("/run/tty gateway"))
    mote = EmulatedNode("micaz", Path("/images/mote 0.elf"), 0.0, 12.5, -50.0, 3.25, 657, watches)
    gateway = EmulatedNode(
        "micaz", Path("/images/gateway.elf"), 1.25, 0.0, 0.0, 0.0, port=port, unwired=("sfd",)
    )
    scenario = Scenario(
        7,
        (mote, gateway),
        gains={(1, 0): -61.5, (0, 1): -60.0},
        deliveries={(0, 1): 1.0, (1, 0): 0.75},
        noise={1: -101.25},
        readings=Path("/noise.txt"),
        measure=0.25,
        states=30.0,
        pace=0.5,
        wait=True,
        script=("at 2 off 0", "at 3.5 on 0"),
        end=60.5,
    )
    text = scenario.text()
    starts = [line.split()[2] for line in text.splitlines() if line.startswith("readings")]
    assert starts[0] != starts[1]
    assert text == GOLDEN.format(first=starts[0], second=starts[1])
    for other, words in ((Port(None, Path("/run/tty")), "port 1 - /run/tty\n"), (Port(), "port 1 0 -\n")):
        assert words in replace(scenario, nodes=(mote, replace(gateway, port=other))).text()
    assert "end" not in replace(scenario, end=None).text()


@pytest.mark.parametrize("path", ["/images/#1.elf", "/images/a\nb.elf", "/images/a.elf "])
def test_a_path_that_a_line_cannot_hold_is_refused(path):
    with pytest.raises(ScenarioError, match="path"):
        Scenario(1, (drawn(1, 0, "micaz", Path(path)),), {}).text()


def test_chance_comes_from_the_seed_and_the_node():
    nodes = [drawn(3, number, "micaz", Path("x")) for number in range(200)]
    assert nodes == [drawn(3, number, "micaz", Path("x")) for number in range(200)]
    assert nodes[0] != drawn(4, 0, "micaz", Path("x"))
    assert len({node.crystal_ppm for node in nodes}) == 200
    for values, most in (
        ([node.main_ppm for node in nodes], 50),
        ([node.crystal_ppm for node in nodes], 50),
        ([node.radio_ppm for node in nodes], 40),
    ):
        assert -most <= min(values) < -0.8 * most
        assert 0.8 * most < max(values) <= most
    assert all(0 <= node.start < 2 for node in nodes)


def test_a_network_knows_its_nodes():
    members = network(deployment(motes=20), motes=4, gateways=2, first=6)
    assert (members.motes, members.gateways, members.nodes) == ((6, 7, 8, 9), (10, 11), (6, 7, 8, 9, 10, 11))
    assert [members.node_of(identity) for identity in (0, 3, 4, 20, 21, 22)] == [6, 9, None, 10, 11, None]
    assert [members.id_of(node) for node in members.nodes] == [0, 1, 2, 3, 20, 21]
    assert members.root == 10


@pytest.fixture
def programs(monkeypatch, tmp_path):
    """Images that are only names."""

    def copy(self, identity, folder):
        return folder / f"{self.path.stem}-{identity}.elf"

    monkeypatch.setattr(FirmwareProgram, "copy", copy)
    pair = Programs(
        FirmwareProgram(Path("mote"), 100, (Watch("lines", 5, 42),)),
        FirmwareProgram(Path("gateway"), None, ()),
    )
    return {"meadow": pair, "brook": pair}


def test_two_networks_share_an_ether(programs, tmp_path):
    topology = RadioTopology(2, 1, {(0, 1): -50.0, (1, 2): -60.0}, {(0, 1): 0.5}, {2: -100.0})
    networks = networks_in([deployment(), deployment("brook", tinyos=2)], topology)
    scenario = assemble(
        networks, topology, programs, tmp_path, Wish(seed=2, seconds=5, ports=(Port(9001), Port(9002)))
    )
    assert [node.image.name for node in scenario.nodes] == ["mote-0.elf", "mote-1.elf", "gateway-3.elf"] * 2
    assert [node.recorder for node in scenario.nodes] == [100, 100, None] * 2
    assert [node.port for node in scenario.nodes] == [None, None, Port(9001), None, None, Port(9002)]
    assert scenario.gains[0, 1] == scenario.gains[3, 4] == scenario.gains[0, 4] == scenario.gains[3, 1] == -50
    assert scenario.gains[0, 3] == scenario.gains[3, 0] == -40
    assert (2, 1) not in scenario.gains
    assert scenario.deliveries[3, 4] == 0.5
    assert scenario.noise == {2: -100.0, 5: -100.0}
    assert (scenario.seed, scenario.end) == (2, 5)


def test_what_cannot_be_is_refused(programs, tmp_path):
    with pytest.raises(ScenarioError, match="deployment of 3 motes, but 4 are asked for"):
        networks_in([deployment()], grid(4))
    with pytest.raises(ScenarioError, match="two deployments are named meadow"):
        networks_in([deployment(), deployment()], grid(2))
    networks = networks_in([deployment()], grid(2))
    with pytest.raises(ScenarioError, match="2 ports, but 1 gateways"):
        assemble(networks, grid(2), programs, tmp_path, Wish(ports=(Port(1), Port(2))))
