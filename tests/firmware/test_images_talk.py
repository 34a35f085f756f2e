"""The images as they ship, on emulated motes that hear one another: from a mote's sensor to the observer and back."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import set_node_id

from basestation.causality.policies import Delivery
from basestation.observer import Observer
from packet_formats.deployment import Deployment, load
from packet_formats.framing import FrameDecoder, crc16, encode_frame
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Beacon, Command, Downlink, Health, Heard, Record, Status
from packet_formats.tinyos import Ack, ActiveMessage, decode_am, decode_packet, encode_packet
from tests.firmware.test_platformio import Project

HZ = 7_372_800
CRYSTAL = 225  # CPU cycles of one of its cycles
RED, GREEN, YELLOW = 1, 2, 4
BOARDS = {"micaz": (), "mica2": ("-DTALK_MICA2",)}  # how talk_sim is compiled for it
# Switched on so many ms after the first, and how many ppm too fast: (gateway, motes 0, 1, 2).
NODES = ((0, 0), (700, 50), (1900, -50), (100, 0))
TOKEN = 0x7D
RECORDER_SEND, RECORDER_RECEIVE = 2, 3


class Event(NamedTuple):
    """What talk_sim said: when, in seconds, of which node, what."""

    at: float
    node: int
    what: str
    words: list[str]


class OnLine(NamedTuple):
    """A frame that a gateway handed up, and its heard record."""

    heard: Heard
    frame: ActiveMessage
    message: Data | Record


@dataclass
class Run:
    """What came of a run of the emulator."""

    deployment: Deployment
    events: list[Event]

    @property
    def layout(self) -> DataLayout:
        return layout_of(self.deployment)

    def of(self, what: str, *nodes: int) -> list[Event]:
        return [event for event in self.events if event.what == what and (not nodes or event.node in nodes)]

    def air(self) -> list[tuple[Event, int, Data | Record]]:
        """(event, CPU cycles of the delimiter, message) of all that went out, all nodes together."""
        return [
            (event, int(event.words[0]), read(self._parse(bytes.fromhex(event.words[1])), self.layout))
            for event in self.of("air")
        ]

    def _parse(self, frame: bytes) -> ActiveMessage:
        """A frame as it was on the air."""
        layout = self.layout
        if self.deployment.network.board == "mica2":
            assert crc16(frame[:-2]) == int.from_bytes(frame[-2:], "little")
            return decode_am(layout.tinyos, bytes(layout.tinyos - 1) + frame[:-2])  # 2.x: a dispatch byte
        assert frame[0] == len(frame) - 1
        dest, source = (int.from_bytes(frame[at : at + 2], "little") for at in (6, 8))
        if layout.tinyos == 1:
            assert frame[1:3] + frame[4:6] == bytes.fromhex("0108ffff")
            return ActiveMessage(1, dest, frame[9], frame[8], frame[10:-2])
        assert frame[1:3] + frame[4:6] + frame[10:11] == bytes.fromhex("418822003f")
        return ActiveMessage(2, dest, layout.group, frame[11], frame[12:-2], source)

    def line(self) -> list[Ack | OnLine | Status | Health]:
        """All that the gateway, node 0, said to its host."""
        decoder = FrameDecoder()
        packets = decoder.feed(b"".join(bytes.fromhex(event.words[0]) for event in self.of("uart", 0)))
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

    def deliveries(self) -> tuple[Observer, list[Delivery]]:
        """The data messages through an observer, by the gateway's time."""
        observer = Observer(self.deployment)
        found: list[Delivery] = []
        now = 0
        for heard, _, message in self.on_line():
            if isinstance(message, Data) and heard.in_sync:
                now = max(now, heard.time >> self.deployment.clock.tick_log2)
                found += observer.due(now)
                observer.receive(message, now)
        return observer, found + observer.due(now + 1000)


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

    simulator: Path
    deployment: Deployment
    images: list[Path]
    recorder: int  # its address

    def run(self, *lines: str, instead: dict[int, Path] | None = None) -> Run:
        """`instead`: other images for some of the nodes."""
        images = [(instead or {}).get(node, image) for node, image in enumerate(self.images)]
        nodes = [f"{image},{start},{ppm}" for image, (start, ppm) in zip(images, NODES, strict=True)]
        done = subprocess.run(
            [self.simulator, *nodes],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        events = []
        for line in done.stdout.splitlines():
            words = line.split()
            if words[0].isdigit():
                events.append(Event(int(words[0]) / HZ, int(words[1]), words[2], words[3:]))
        return Run(self.deployment, events)

    def tell(self, command: Downlink, token: int | None = None) -> str:
        """A line that has the host give the gateway a command for the motes."""
        message = encode_message(command, layout_of(self.deployment))
        if token is not None:
            message = ActiveMessage(
                message.tinyos,
                message.dest,
                message.group,
                message.type,
                message.data,
                message.source,
                "data-ack",
                token,
            )
        return f"uart 0 {encode_frame(encode_packet(message)).hex()}"

    def begin(self, ms: int) -> list[str]:
        """The first so many ms. MICA2 motes are told to send as often as MICAz motes do, every two seconds."""
        if self.deployment.network.board == "micaz":
            return [f"run {ms}"]
        return ["run 5000", self.tell(Downlink(0xFFFF, 100, 3, Command.RATE, 2 * 32768)), f"run {ms - 5000}"]

    def peek_recorder(self, node: int) -> str:
        return f"peek {node} {self.recorder:x} {4 + 8 * 32}"


@pytest.fixture(
    scope="module",
    params=[("micaz", 1), ("micaz", 2), ("mica2", 1), ("mica2", 2)],
    ids=["micaz_tinyos1", "micaz_tinyos2", "mica2_tinyos1", "mica2_tinyos2"],
)
def network(
    root: Path,
    require_tool: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Network:
    require_tool("avr-gcc")
    require_tool("simavr")
    folder = tmp_path_factory.mktemp("talk")
    beside = Path(sys.executable).with_name("pio")
    project = Project(
        beside if beside.exists() else Path(require_tool("pio")), root, folder / "project", ["firmware"]
    )
    board, tinyos = request.param
    text = (root / f"examples/{board}.toml").read_text()
    deployment = folder / "deployment.toml"
    deployment.write_text(text.replace("tinyos = 1", f"tinyos = {tinyos}"))
    done = project.run("run", "-e", board, "-e", f"{board}_gateway", CAUSEWAY_DEPLOYMENT=str(deployment))
    assert done.returncode == 0, done.stdout
    images = [project.build(f"{board}_gateway") / "firmware.elf"]
    mote = project.build(board) / "firmware.elf"
    for number in range(len(NODES) - 1):
        images.append(folder / f"mote{number}.elf")
        assert set_node_id.main([str(mote), str(number), "-o", str(images[-1])]) == 0
    simulator = folder / "talk_sim"
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", *BOARDS[board], "-o", simulator)
    source = root / "tests/firmware/c/talk_sim.c"
    subprocess.run([require_tool("gcc"), *flags, source, "-lsimavr", "-lelf"], check=True)
    symbols = subprocess.run(
        [require_tool("avr-nm"), mote], capture_output=True, text=True, check=True
    ).stdout
    (recorder,) = [
        int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" causeway_recorder")
    ]
    return Network(simulator, load(deployment), images, recorder & 0xFFFF)


@pytest.fixture(scope="module")
def minute(network: Network) -> Run:
    """Seventy seconds. At 30 s mote 1 is asked for its health, with an acknowledgement; at 40 s all motes blink."""
    return network.run(
        *network.begin(30000),
        network.tell(Downlink(1, 1, 0, Command.REPORT, 0), TOKEN),
        "run 10000",
        network.tell(Downlink(0xFFFF, 2, 0, Command.BLINK, GREEN | YELLOW)),
        "run 30000",
        *(network.peek_recorder(node) for node in (1, 2, 3)),
    )


def test_the_gateway_keeps_the_time_and_the_motes_follow(minute: Run) -> None:
    """Beacons carry the root's time at their delimiter to a few cycles, though crystals are 100 ppm apart."""
    beacons = [
        (event, sfd, message)
        for event, sfd, message in minute.air()
        if isinstance(message, Beacon) and message.in_sync
    ]
    by_root = [(event, sfd, message) for event, sfd, message in beacons if message.hops == 0]
    assert {event.node for event, _, _ in by_root} == {0}
    assert [message.sequence for _, _, message in by_root] == list(range(1, len(by_root) + 1))
    assert len(by_root) >= 10
    _, first_sfd, first = by_root[0]
    for event, sfd, message in beacons:
        expected = first.time + (sfd - first_sfd) / CRYSTAL
        assert message.time == pytest.approx(expected, abs=2 if event.node == 0 else 5)
        assert message.hops <= 1
    assert {event.node for event, _, _ in beacons} == {0, 1, 2, 3}


def test_all_come_into_sync_and_stay_so(minute: Run) -> None:
    """The red LED says so: on at the start, off soon after, never on again."""
    for node in range(4):
        changes = [(event.at, int(event.words[0])) for event in minute.of("leds", node)]
        assert [leds & RED for _, leds in changes[:2]] == [RED, 0]
        assert changes[1][0] < 5
        assert not any(leds & RED for _, leds in changes[1:])


def test_each_frame_comes_up_with_its_heard_record(minute: Run) -> None:
    on_line = minute.on_line()
    strength = (-65, 105) if minute.deployment.network.board == "micaz" else (-69, 0)
    assert [heard.sequence for heard, _, _ in on_line] == [number % 256 for number in range(len(on_line))]
    for heard, frame, message in on_line:
        assert heard.check == crc16(frame.data)
        assert (heard.gateway, heard.lost, heard.rssi, heard.lqi) == (
            minute.deployment.network.motes,
            0,
            *strength,
        )
        if isinstance(message, Beacon) and message.in_sync:
            assert abs(heard.time - message.time) <= 5
    status = [item for item in minute.line() if isinstance(item, Status)][-1]
    assert status.heard == status.forwarded > 50
    assert (status.radio_crc, status.radio_overrun, status.foreign, status.up_full) == (0, 0, 0, 0)
    commands = [
        event for event, _, message in minute.air() if isinstance(message, Downlink) and event.node == 0
    ]
    assert (status.line_crc, status.line_refused, status.down_sent, status.down_full) == (
        0,
        0,
        len(commands),
        0,
    )


def test_data_of_every_mote_reaches_the_line(minute: Run) -> None:
    """As sent, in the order of sending; one message every two seconds."""
    heard = [message for _, _, message in minute.on_line()]
    for mote in range(3):
        sent = numbers((message for _, _, message in minute.air()), mote)
        assert 28 <= len(sent) <= 42
        assert all(b == (a + 1) % 256 for a, b in pairwise(sent))
        arrived = numbers(heard, mote)
        assert arrived == [number for number in sent if number in arrived]
        assert len(arrived) >= len(sent) - 1
    data = [message for message in heard if isinstance(message, Data)]
    assert all(message.in_sync and not message.saturated for message in data)


def test_the_observer_delivers_in_order(minute: Run) -> None:
    """No message before one that its sender had received, as the receipts tell."""
    observer, deliveries = minute.deliveries()
    assert observer.received == len(deliveries) > 80
    assert (observer.late, observer.bounded) == (0, 0)
    place = {
        (delivery.message.source, delivery.message.sequence): at for at, delivery in enumerate(deliveries)
    }
    receipts = 0
    for _, _, message in minute.on_line():
        if isinstance(message, Data):
            for receipt in message.receipts:
                if receipt in place:
                    receipts += 1
                    assert place[receipt] < place[message.source, message.sequence]
    assert receipts > 80 or not minute.layout.receipts
    for mote in range(3):
        own = [delivery.message.sequence for delivery in deliveries if delivery.message.source == mote]
        assert own == sorted(own)


def test_a_command_that_wants_an_acknowledgement(minute: Run) -> None:
    """Acknowledged at once; mote 1 alone reports."""
    assert [item for item in minute.line() if isinstance(item, Ack)] == [Ack(minute.layout.tinyos, TOKEN)]
    sent = [
        event.at
        for event, _, message in minute.air()
        if isinstance(message, Downlink) and message.command == Command.REPORT
    ]
    assert sent == [pytest.approx(30.04, abs=0.04)]
    asked = [
        (event.node, message)
        for event, _, message in minute.air()
        if isinstance(message, Health) and sent[0] < event.at < sent[0] + 0.5
    ]
    assert [node for node, _ in asked] == [2]
    health = asked[0][1]
    assert (health.source, health.layout, health.hops) == (1, minute.layout.hash, 1)
    assert health.battery == pytest.approx(150, abs=2)  # 3.0 V; a MICAz's reference is taken for 1.223 V
    assert health.in_sync
    assert health.sent >= 10
    assert health.received >= 20
    assert (health.late, health.bounds) == (0, 0)
    assert health in [message for _, _, message in minute.on_line()]


def test_a_command_to_all(minute: Run) -> None:
    """Green and yellow for two seconds."""
    for node in (1, 2, 3):
        on = next(event for event in minute.of("leds", node) if int(event.words[0]) == GREEN | YELLOW)
        off = next(event for event in minute.of("leds", node) if event.at > on.at and event.words == ["0"])
        assert 40 < on.at < 40.1
        assert off.at - on.at == pytest.approx(2, abs=0.05)


def test_the_flight_recorder(minute: Run) -> None:
    """The last events of each mote, as they were on the air."""
    messages = [message for _, _, message in minute.air()]
    for event in minute.of("peek"):
        memory = bytes.fromhex(event.words[0])
        following = int.from_bytes(memory[2:4], "little")
        assert memory[:2] == bytes([1, 32])
        assert following > 32
        entries = []
        for number in range(following - 32, following):
            entry = memory[4 + 8 * (number % 32) :][:8]
            assert int.from_bytes(entry[:2], "little") == number
            entries.append((entry[6], int.from_bytes(entry[2:4], "little"), entry[7]))
        own = [
            sequence for kind, peer, sequence in entries if (kind, peer) == (RECORDER_SEND, event.node - 1)
        ]
        assert len(own) >= 8
        assert own == numbers(messages, event.node - 1)[-len(own) :]
        for mote in {0, 1, 2} - {event.node - 1}:
            heard = [sequence for kind, peer, sequence in entries if (kind, peer) == (RECORDER_RECEIVE, mote)]
            assert len(heard) >= 8
            assert set(heard) <= set(numbers(messages, mote))


def test_over_all_hops(network: Network) -> None:
    """Motes in a row, as long as the deployment allows: data come up, a command goes down, time goes along."""
    hops = network.deployment.network.hops
    far = ["apart 0 2", "apart 0 3", *(["apart 1 3"] if hops > 2 else [])]
    hops_of = {network.deployment.network.motes: 0, 0: 1, 1: 2, 2: hops}
    run = network.run(
        *far,
        *network.begin(60000),
        network.tell(Downlink(2, 1, 3, Command.BLINK, YELLOW)),
        "run 3000",
    )
    on_line = run.on_line()
    settled = [message for event, _, message in run.air() if event.at > 20]
    for mote in range(3):
        sent = numbers(settled, mote)
        arrived = numbers((message for _, _, message in on_line), mote)
        assert len(set(sent) & set(arrived)) >= 0.9 * len(sent) >= 15
    observer, deliveries = run.deliveries()
    assert (observer.late, observer.bounded) == (0, 0)
    assert observer.received == len(deliveries)
    beacons = [
        (sfd, message) for _, sfd, message in run.air() if isinstance(message, Beacon) and message.in_sync
    ]
    first_sfd, first = beacons[0]
    assert first.hops == 0
    for sfd, message in beacons:
        assert message.hops == hops_of[message.sender]
        if message.sequence > 8:  # by then the skew is known
            expected = first.time + (sfd - first_sfd) / CRYSTAL
            assert message.time == pytest.approx(expected, abs=4 + 4 * message.hops)
    assert [event.at for event in run.of("leds", 3) if event.words == [str(YELLOW)]] == [
        pytest.approx(60.1, abs=0.1)
    ]


def test_a_gateway_that_starts_again_goes_on_with_the_networks_time(network: Network) -> None:
    run = network.run(*network.begin(30000), "reset 0", "run 30000")
    beacons = [
        (event, sfd, message)
        for event, sfd, message in run.air()
        if isinstance(message, Beacon) and message.hops == 0
    ]
    _, first_sfd, first = beacons[0]
    assert {message.epoch for _, _, message in beacons} == {first.epoch}
    assert len([event for event, _, _ in beacons if event.at > 30]) >= 5
    for _, sfd, message in beacons:
        assert message.time == pytest.approx(first.time + (sfd - first_sfd) / CRYSTAL, abs=10)
    in_sync = [heard.in_sync for heard, _, _ in run.on_line()]
    assert in_sync[-20:] == [True] * 20
    for node in (1, 2, 3):
        assert [event.words[0] for event in run.of("leds", node)] == [str(RED), "0"]
    status = [item for item in run.line() if isinstance(item, Status)]
    assert [item.boots for item in status] == sorted(item.boots for item in status)
    assert status[-1].boots == status[0].boots + 1


def test_rate_and_reboot(network: Network) -> None:
    """Mote 0 sends faster when told so; started again it counts one boot more and sends at its built-in rate."""
    run = network.run(
        *network.begin(20000),
        network.tell(Downlink(0, 1, 0, Command.RATE, 8192)),
        "run 10000",
        network.tell(Downlink(0, 2, 0, Command.REBOOT, 0)),
        "run 30000",
    )
    own = [
        (event.at, message)
        for event, _, message in run.air()
        if event.node == 1 and isinstance(message, Data) and message.source == 0
    ]
    boots = [message.boot for _, message in own]
    assert boots == sorted(boots)
    assert boots[-1] == boots[0] + 1
    fast = [at for at, message in own if 20 < at < 30]
    assert 32 <= len(fast) <= 50
    after = [(at, message) for at, message in own if message.boot == boots[-1]]
    assert after[0][0] > 32
    assert all(message.in_sync for _, message in after)
    assert (8, 1)[network.deployment.network.board == "mica2"] <= len(after) <= 19
    observer, deliveries = run.deliveries()
    assert observer.received == len(deliveries)
    assert observer.late == 0


def test_ids_that_the_deployment_does_not_have(network: Network, tmp_path: Path) -> None:
    """Red and yellow in turn, and nothing else: no reset, no radio, no line. The others do not mind."""
    motes = network.deployment.network.motes
    wrong = {2: tmp_path / "mote.elf", 3: tmp_path / "gateway.elf"}
    for image, id, new in [(network.images[1], motes, wrong[2]), (network.images[0], motes - 1, wrong[3])]:
        copy = tmp_path / "copy.elf"  # away from the build's record, by which set_node_id would refuse
        copy.write_bytes(image.read_bytes())
        assert set_node_id.main([str(copy), str(id), "-o", str(new)]) == 0
    run = network.run("run 6000", "peek 2 3b 1", "peek 3 3b 1", instead=wrong)
    for node in wrong:
        changes = [(event.at, int(event.words[0])) for event in run.of("leds", node)]
        shown = [
            (b[0] - a[0], a[1]) for a, b in pairwise(changes) if b[0] - a[0] > 0.001
        ]  # pins change one by one
        assert [leds for _, leds in shown] == [(RED, YELLOW)[i % 2] for i in range(len(shown))]
        assert len(shown) >= 6
        assert all(lasted == pytest.approx(0.5, rel=0.05) for lasted, _ in shown)
        assert not run.of("air", node)
        assert not run.of("uart", node)
        radio_on = 0x20 if network.deployment.network.board == "micaz" else 0
        assert not int(run.of("peek", node)[0].words[0], 16) & radio_on
    assert [event.words[0] for event in run.of("leds", 1)][:2] == [str(RED), "0"]


def test_boards_that_do_not_see_sfd(network: Network) -> None:
    """Frames' ends tell the time instead: all come into sync and stay so, and data get through."""
    if network.deployment.network.board != "micaz":
        pytest.skip("MICA2 has no such wire")
    run = network.run(*(f"blind {node}" for node in range(4)), *network.begin(60000))
    for node in range(4):
        assert [event.words[0] for event in run.of("leds", node)] == [str(RED), "0"]
    beacons = [
        (sfd, message) for _, sfd, message in run.air() if isinstance(message, Beacon) and message.in_sync
    ]
    first_sfd, first = beacons[0]
    assert {message.sender for _, message in beacons} == {0, 1, 2, network.deployment.network.motes}
    for sfd, message in beacons:
        assert message.time == pytest.approx(first.time + (sfd - first_sfd) / CRYSTAL, abs=10)
        assert message.hops == 0 or 18 <= message.error < 60
    for mote in range(3):
        sent = numbers((message for _, _, message in run.air()), mote)
        arrived = numbers((message for _, _, message in run.on_line()), mote)
        assert len(arrived) >= len(sent) - 2 >= 20
    observer, deliveries = run.deliveries()
    assert observer.received == len(deliveries) > 60
    assert (observer.late, observer.bounded) == (0, 0)


def assert_bytes_were_in_time(run: Run) -> None:
    """A byte of MICA2's radio must be written within 192 CPU cycles, whichever handlers kept the radio's waiting."""
    assert all(int(event.words[0]) <= 192 for event in run.of("spdr"))
    assert len(run.of("spdr")) == (4 if run.deployment.network.board == "mica2" else 0)


def test_bytes_are_in_time(minute: Run) -> None:
    assert_bytes_were_in_time(minute)


@pytest.mark.slow
def test_ten_minutes(network: Network) -> None:
    """No clock loses or gains a cycle, nothing is late, nothing is lost but to two frames at once."""
    run = network.run(*network.begin(600000))
    assert_bytes_were_in_time(run)
    for node in range(4):
        assert [event.words[0] for event in run.of("leds", node)] == [str(RED), "0"]
    beacons = [
        (sfd, message) for _, sfd, message in run.air() if isinstance(message, Beacon) and message.in_sync
    ]
    first_sfd, first = beacons[0]
    for sfd, message in beacons:
        assert message.time == pytest.approx(first.time + (sfd - first_sfd) / CRYSTAL, abs=8)
    on_line = [message for _, _, message in run.on_line()]
    for mote in range(3):
        sent = [
            message for _, _, message in run.air() if isinstance(message, Data) and message.source == mote
        ]
        arrived = [message for message in on_line if isinstance(message, Data) and message.source == mote]
        different = [len({(item.stamp, item.sequence) for item in items}) for items in (arrived, sent)]
        assert different[0] >= 0.98 * different[1]
    observer, deliveries = run.deliveries()
    assert observer.received == len(deliveries) > 800
    assert (observer.late, observer.bounded) == (0, 0)
