"""Makes a scenario from deployments and a topology: the nodes of its motes and gateways, and their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packet_formats.deployment import Deployment

from .images import FirmwareProgram, Programs
from .scenario import EmulatedNode, Port, Scenario, ScenarioError, ScenarioNetwork, drawn
from .topologies import RadioTopology, shared


@dataclass(frozen=True, slots=True)
class Wish:
    """The settings of a run beside the networks."""

    seed: int = 1
    pace: float = 0.0
    seconds: float | None = None
    ports: tuple[Port, ...] = ()  # of the first gateways, in their order
    wait: bool = False
    readings: Path | None = None
    script: tuple[str, ...] = ()
    states: float = 0.0


def networks_in(deployments: Sequence[Deployment], topology: RadioTopology) -> tuple[ScenarioNetwork, ...]:
    """The nodes of each deployment: its motes, then its gateways, then the next deployment's."""
    networks: list[ScenarioNetwork] = []
    refuse_too_many(deployments, topology.motes)
    for number, deployment in enumerate(deployments):
        network = deployment.network
        if network.name in [other.name for other in networks]:
            raise ScenarioError(f"two deployments are named {network.name}: give them different names")
        first = number * topology.places
        motes = range(first, first + topology.motes)
        gateways = range(first + topology.motes, first + topology.places)
        served = replace(deployment, network=replace(network, gateways=len(gateways)))
        networks.append(ScenarioNetwork(served, tuple(motes), tuple(gateways)))
    return tuple(networks)


def refuse_too_many(deployments: Sequence[Deployment], motes: int) -> None:
    """Refuse more motes than a deployment has, before a large topology takes long to lay out."""
    for network in (deployment.network for deployment in deployments):
        if motes > network.motes:
            raise ScenarioError(
                f"{network.name} is a deployment of {network.motes} motes, but {motes} are asked for"
            )


def assemble(
    networks: Sequence[ScenarioNetwork],
    topology: RadioTopology,
    programs: Mapping[str, Programs],
    folder: Path,
    wish: Wish,
) -> Scenario:
    """Make the scenario and write the images of all nodes into `folder`. `programs` are by network name."""
    nodes: list[EmulatedNode] = []
    for network in networks:
        place = folder / network.name
        place.mkdir(parents=True, exist_ok=True)
        for node in network.nodes:
            pair = programs[network.name]
            program = pair.mote if node in network.motes else pair.gateway
            nodes.append(_node(network, node, program, place, wish))
    ether = shared(topology, len(networks))
    return Scenario(
        seed=wish.seed,
        nodes=_with_ports(nodes, [node for network in networks for node in network.gateways], wish.ports),
        gains=ether.gains,
        deliveries=ether.deliveries,
        noise=ether.noise,
        readings=wish.readings,
        pace=wish.pace,
        wait=wish.wait,
        script=wish.script,
        states=wish.states,
        end=wish.seconds,
    )


def _node(
    network: ScenarioNetwork, number: int, program: FirmwareProgram, folder: Path, wish: Wish
) -> EmulatedNode:
    image = program.copy(network.id_of(number), folder)
    node = drawn(wish.seed, number, network.deployment.network.board, image)
    sensor_board = network.deployment.network.sensor_board if number in network.motes else ""
    return replace(node, recorder=program.recorder, watches=program.watches, sensor_board=sensor_board)


def _with_ports(
    nodes: list[EmulatedNode], gateways: Sequence[int], ports: Sequence[Port]
) -> tuple[EmulatedNode, ...]:
    if len(ports) > len(gateways):
        raise ScenarioError(f"{len(ports)} ports, but {len(gateways)} gateways")
    for gateway, port in zip(gateways, ports, strict=False):
        nodes[gateway] = replace(nodes[gateway], port=port)
    return tuple(nodes)
