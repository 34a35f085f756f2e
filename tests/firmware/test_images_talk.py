"""The images as they ship, on motes that hear one another: time, heard records, commands, restarts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from basestation.testbed import emulator, images
from basestation.testbed.scenario import EmulatedNode, Scenario
from basestation.testbed.signals import delimiter_ns, message_of
from basestation.testbed.truth_log import DriverFault, Event, Leds, Peek, ReceptionOutcome, Signal, Uart
from packet_formats.deployment import CRYSTAL_HZ, Deployment, load
from packet_formats.framing import FrameDecoder, crc16, encode_frame
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Beacon, Command, Downlink, Health, Heard, Record, StartCause, Status
from packet_formats.tinyos import Ack, ActiveMessage, decode_packet, encode_packet

RED, YELLOW = 1, 4
# The gateway and motes 0, 1, 2: second of switching on; ppm of the main clock, the crystal, the radio.
NODES = ((0, 0, 0, 0), (0.7, -50, 50, 40), (1.9, 50, -50, -40), (0.1, 20, 0, 10))
STRENGTH = {1: -55, 2: -65, 3: -75}  # dBm at the gateway, of each mote
BETWEEN_MOTES = -60
TOKEN = 0x7D
PORTA = 0x3B
# Crystal cycles that a hop takes in the radios and that the driver does not subtract unless CC1000_CONF_DELAY says so.
MODEMS = {"micaz": 0.0, "mica2": 104e-6 * CRYSTAL_HZ}

Kind = TypeVar("Kind", DriverFault, Leds, Peek, Signal, Uart)


class OnAir(NamedTuple):
    """A message that went out: when it ended, in seconds, whose it was, and its delimiter's end in crystal cycles."""

    at: float
    node: int
    sfd: float
    message: Data | Record


class OnLine(NamedTuple):
    """A frame that a gateway handed up, and its heard record."""

    heard: Heard
    frame: ActiveMessage
    message: Data | Record


PREAMBLE = b"\xaa\xff"  # of a CC1000


@dataclass
class Run:
    """What came of a run of the testbed."""

    deployment: Deployment
    events: list[Event]

    @property
    def layout(self) -> DataLayout:
        return layout_of(self.deployment)

    def of(self, kind: type[Kind], *nodes: int) -> list[Kind]:
        return [
            event for event in self.events if isinstance(event, kind) and (not nodes or event.node in nodes)
        ]

    def air(self) -> list[OnAir]:
        """All that went out, all nodes together; but for a preamble that a restart cut off."""
        whole = [signal for signal in self.of(Signal) if not signal.broken and signal.bytes.strip(PREAMBLE)]
        return [self._on_air(signal) for signal in whole]

    def _on_air(self, signal: Signal) -> OnAir:
        board = self.deployment.network.board
        frame = message_of(signal, board, self.layout.tinyos)
        assert frame is not None
        assert signal.node is not None
        if board == "micaz":  # nobody is asked for an acknowledgement, and 2.x's group is the PAN
            assert signal.bytes[1:3] == (b"\x01\x08", b"\x41\x88")[self.layout.tinyos - 1]
        assert frame.group == self.layout.group
        sfd = delimiter_ns(signal, board) * CRYSTAL_HZ / 1e9
        return OnAir(signal.to / 1e9, signal.node, sfd, read(frame, self.layout))

    def beacons(self) -> list[tuple[OnAir, Beacon]]:
        """Of nodes that were in sync."""
        return [
            (sent, sent.message)
            for sent in self.air()
            if isinstance(sent.message, Beacon) and sent.message.in_sync
        ]

    @property
    def lag(self) -> float:
        return MODEMS[self.deployment.network.board]

    def assert_time(self, beacons: Sequence[tuple[OnAir, Beacon]], within: Callable[[Beacon], float]) -> None:
        """Each carries the root's time at its delimiter, to `within` cycles."""
        origin, first = beacons[0]
        for sent, beacon in beacons:
            expected = first.time + sent.sfd - origin.sfd - self.lag * beacon.hops
            assert beacon.time == pytest.approx(expected, abs=within(beacon))

    def lights(self, node: int) -> list[tuple[float, int]]:
        return [(event.t / 1e9, event.lit) for event in self.of(Leds, node)]

    def line(self) -> list[Ack | OnLine | Status | Health]:
        """All that the gateway, node 0, said to its host."""
        decoder = FrameDecoder()
        packets = decoder.feed(b"".join(event.bytes for event in self.of(Uart, 0)))
        assert decoder.counters.dropped_bytes == 0
        found: list[Ack | OnLine | Status | Health] = []
        heard = None
        for packet in packets:
            frame = decode_packet(packet)
            if isinstance(frame, Ack):
                found.append(frame)
                continue
            message = read(frame, self.layout)
            if isinstance(message, Heard):
                assert heard is None
                heard = message
            elif heard is not None:
                found.append(OnLine(heard, frame, message))
                heard = None
            else:
                assert isinstance(message, Status | Health)
                found.append(message)
        return found

    def on_line(self) -> list[OnLine]:
        return [item for item in self.line() if isinstance(item, OnLine)]


def read(frame: ActiveMessage, layout: DataLayout) -> Data | Record:
    message = decode_message(frame, layout)
    assert isinstance(message, Data | Record), message
    return message


def numbers(messages: Iterable[object], source: int) -> list[int]:
    """The sequence numbers of a mote's data messages, each once."""
    found = [item.sequence for item in messages if isinstance(item, Data) and item.source == source]
    return list(dict.fromkeys(found))


@dataclass
class Network:
    """A gateway and motes with ids from 0 on; node 0 is the gateway, node i + 1 is mote i."""

    testbed: Path
    deployment: Deployment
    nodes: tuple[EmulatedNode, ...]

    def run(self, seconds: float, *script: str, instead: Mapping[int, EmulatedNode] | None = None) -> Run:
        """`instead`: other nodes for some. A command makes MICA2 motes send as often as MICAz motes do, every 2 s."""
        hurry: tuple[str, ...] = ()
        if self.deployment.network.board == "mica2":
            hurry = (self.tell(5, Downlink(0xFFFF, 100, 3, Command.RATE, 2 * CRYSTAL_HZ)),)
        links = permutations(range(len(self.nodes)), 2)
        gains = {(i, j): STRENGTH[i + j] if 0 in (i, j) else BETWEEN_MOTES for i, j in links}
        nodes = tuple((instead or {}).get(number, node) for number, node in enumerate(self.nodes))
        scenario = Scenario(1, nodes, gains, clocks=0, script=(*hurry, *script), end=seconds)
        run = Run(self.deployment, emulator.events_of(scenario.text(), self.testbed))
        assert not run.of(DriverFault)
        return run

    def tell(self, at: float, command: Downlink, token: int | None = None) -> str:
        """A line that has the host give the gateway a command for the motes."""
        message = encode_message(command, layout_of(self.deployment))
        if token is not None:
            message = replace(message, kind="data-ack", token=token)
        return f"at {at} uart 0 {encode_frame(encode_packet(message)).hex()}"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("micaz", 1), id="micaz_tinyos1"),
        *(
            pytest.param((board, version), id=f"{board}_tinyos{version}", marks=pytest.mark.wide)
            for board, version in (("mica2", 1), ("micaz", 2), ("mica2", 2))
        ),
    ],
)
def programs(root, platformio, tmp_path_factory, request):
    board, tinyos = request.param
    text = (root / f"examples/{board}.toml").read_text()
    path = tmp_path_factory.mktemp("talk") / "deployment.toml"
    if tinyos == 2:
        # As in tests/testbed/test_run.py
        text = text.replace("tinyos = 1", "tinyos = 2").replace('"meadow"', '"brook"')
    path.write_text(text)
    return load(path), images.programs_for(load(path))


@pytest.fixture(scope="module")
def network(testbed, programs, tmp_path_factory):
    deployment, (mote, gateway) = programs[0], (programs[1].mote, programs[1].gateway)
    folder = tmp_path_factory.mktemp("images")
    copies = [gateway.path, *(mote.copy(number, folder) for number in range(len(NODES) - 1))]
    nodes = tuple(
        EmulatedNode(deployment.network.board, image, *about)
        for image, about in zip(copies, NODES, strict=True)
    )
    return Network(testbed, deployment, nodes)


@pytest.fixture(scope="module")
def minute(network):
    """Seventy seconds. At 30 s mote 1 is asked for its health, with an acknowledgement."""
    return network.run(70, network.tell(30, Downlink(1, 1, 0, Command.REPORT, 0), TOKEN))


def test_the_gateway_keeps_the_time_and_the_motes_follow(minute):
    """Beacons carry the root's time at their delimiter to a few cycles, though crystals are 100 ppm apart."""
    beacons = minute.beacons()
    by_root = [(sent, beacon) for sent, beacon in beacons if beacon.hops == 0]
    assert {sent.node for sent, _ in by_root} == {0}
    assert [beacon.sequence for _, beacon in by_root] == list(range(1, len(by_root) + 1))
    assert len(by_root) >= 10
    assert beacons[0] == by_root[0]
    minute.assert_time(beacons, lambda beacon: 2 if beacon.hops == 0 else 5)
    assert max(beacon.hops for _, beacon in beacons) == 1
    assert {sent.node for sent, _ in beacons} == {0, 1, 2, 3}


def test_all_come_into_sync_and_stay_so(minute):
    """The red LED says so: on at the start, off soon after, never on again."""
    for node in range(4):
        changes = minute.lights(node)
        assert [lit & RED for _, lit in changes[:2]] == [RED, 0]
        assert changes[1][0] < 5
        assert not any(lit & RED for _, lit in changes[1:])


def test_each_frame_comes_up_with_its_heard_record(minute):
    on_line = minute.on_line()
    assert [heard.sequence for heard, _, _ in on_line] == [number % 256 for number in range(len(on_line))]
    for heard, frame, message in on_line:
        assert heard.check == crc16(frame.data)
        assert (heard.gateway, heard.lost) == (minute.deployment.network.motes, 0)
        if isinstance(message, Beacon) and message.in_sync:
            assert heard.time - message.time == pytest.approx((message.hops + 1) * minute.lag, abs=5)
            assert heard.rssi == pytest.approx(STRENGTH[message.sender + 1], abs=1)
    lqi = {heard.lqi for heard, _, _ in on_line}
    assert lqi == {0} if minute.deployment.network.board == "mica2" else min(lqi) >= 100
    status = [item for item in minute.line() if isinstance(item, Status)][-1]
    assert status.heard == status.forwarded > 50
    assert (status.radio_overrun, status.up_full) == (0, 0)
    damaged = [
        event
        for event in minute.events
        if isinstance(event, ReceptionOutcome) and event.node == 0 and event.outcome == "damaged"
    ]  # by another frame, which began at the same time
    assert status.radio_crc + status.foreign <= len(damaged) <= 3
    commands = [sent for sent in minute.air() if isinstance(sent.message, Downlink) and sent.node == 0]
    assert (status.line_crc, status.line_refused, status.down_sent, status.down_full) == (
        0,
        0,
        len(commands),
        0,
    )


def test_a_command_that_wants_an_acknowledgement(minute):
    """Acknowledged at once; only mote 1 reports."""
    assert [item for item in minute.line() if isinstance(item, Ack)] == [Ack(minute.layout.tinyos, TOKEN)]
    sent = [
        item.at
        for item in minute.air()
        if isinstance(item.message, Downlink) and item.message.command == Command.REPORT
    ]
    assert sent == [pytest.approx(30.04, abs=0.04)]
    asked = [
        (item.node, item.message)
        for item in minute.air()
        if isinstance(item.message, Health) and sent[0] < item.at < sent[0] + 0.5
    ]
    assert [node for node, _ in asked] == [2]
    health = asked[0][1]
    assert (health.source, health.layout, health.hops) == (1, minute.layout.hash, 1)
    assert health.battery == pytest.approx(150, abs=2)  # 3.0 V; a MICAz's reference is taken for 1.223 V
    assert health.in_sync
    assert health.sent >= 10
    assert health.received >= 20
    assert (health.late, health.bounds) == (0, 0)
    assert health in [item.message for item in minute.on_line()]


def test_a_gateway_that_starts_again_goes_on_with_the_networks_time(network):
    run = network.run(60, "at 30 reset 0")
    beacons = [(sent, sent.message) for sent in run.air() if isinstance(sent.message, Beacon)]
    by_root = [(sent, beacon) for sent, beacon in beacons if beacon.hops == 0]
    assert len({beacon.epoch for _, beacon in by_root}) == 1
    assert len([sent for sent, _ in by_root if sent.at > 30]) >= 5
    run.assert_time(by_root, lambda _: 10)
    in_sync = [heard.in_sync for heard, _, _ in run.on_line()]
    assert in_sync[-20:] == [True] * 20
    for node in (1, 2, 3):
        assert [lit for _, lit in run.lights(node)] == [RED, 0]
    status = [item for item in run.line() if isinstance(item, Status)]
    assert [item.boots for item in status] == sorted(item.boots for item in status)
    assert status[-1].boots == status[0].boots + 1


def test_health_reports_why_a_node_started(network):
    run = network.run(
        15,
        *("at 2 reset 1", "at 2 brownout 2 0.01"),
        network.tell(3, Downlink(2, 1, 0, Command.REBOOT, 0)),
    )
    causes = {
        sent.message.source: sent.message.start_cause
        for sent in run.air()
        if isinstance(sent.message, Health) and sent.message.source == sent.node - 1
    }
    assert causes == {0: StartCause.BUTTON, 1: StartCause.BROWN_OUT, 2: StartCause.COMMAND}
    own = [item for item in run.line() if isinstance(item, Health)]
    assert [item.start_cause for item in own] == [StartCause.POWER_ON]


def test_ids_that_the_deployment_does_not_have(network, programs, tmp_path):
    """Red and yellow in turn, and nothing else: no reset, no radio, no line. The others do not mind."""
    motes = network.deployment.network.motes
    wrong = {
        2: replace(network.nodes[2], image=programs[1].mote.copy(motes, tmp_path)),
        3: replace(network.nodes[3], image=programs[1].gateway.copy(motes - 1, tmp_path)),
    }
    run = network.run(6.01, f"at 6 peek 2 {PORTA} 1", f"at 6 peek 3 {PORTA} 1", instead=wrong)
    for node in wrong:
        changes = run.lights(node)
        # Pins change one by one
        shown = [(b[0] - a[0], a[1]) for a, b in pairwise(changes) if b[0] - a[0] > 0.001]
        assert [lit for _, lit in shown] == [(RED, YELLOW)[i % 2] for i in range(len(shown))]
        assert len(shown) >= 6
        assert all(lasted == pytest.approx(0.5, rel=0.05) for lasted, _ in shown)
        assert not run.of(Signal, node)
        assert not run.of(Uart, node)
        radio_on = 0x20 if network.deployment.network.board == "micaz" else 0
        assert not run.of(Peek, node)[0].bytes[0] & radio_on
    assert [lit for _, lit in run.lights(1)][:2] == [RED, 0]


@pytest.mark.wide
@pytest.mark.parametrize("programs", [("micaz", 1)], indirect=True)
def test_boards_that_do_not_see_sfd(network):
    """The ends of frames give the time instead: all come into sync and stay so, and data get through."""
    blind = {number: replace(node, unwired=("sfd",)) for number, node in enumerate(network.nodes)}
    run = network.run(60, instead=blind)
    for node in range(4):
        assert [lit for _, lit in run.lights(node)] == [RED, 0]
    beacons = run.beacons()
    assert {beacon.sender for _, beacon in beacons} == {0, 1, 2, network.deployment.network.motes}
    run.assert_time(beacons, lambda _: 10)
    assert all(beacon.hops == 0 or 18 <= beacon.error < 60 for _, beacon in beacons)
    for mote in range(3):
        sequence = numbers((item.message for item in run.air()), mote)
        arrived = numbers((item.message for item in run.on_line()), mote)
        assert len(arrived) >= len(sequence) - 2 >= 20


def test_bytes_are_in_time(minute):
    """No handler keeps the radio's waiting: a MICA2 that has not written a byte within 192 CPU cycles sends the byte
    that it received, and the frame's check sum is wrong; a MICAz breaks off."""
    assert len(minute.air()) == len(minute.of(Signal)) > 100
