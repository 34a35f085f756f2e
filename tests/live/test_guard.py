"""A station with a key, among honest, forged and replayed frames: it delivers the honest ones as without the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from basestation.arrivals import Arrival
from basestation.live.guard import COPY_NS, OTHERS, Guard
from basestation.live.happenings import Alarm, Delivered, Happening, Reboot, Strange
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict
from packet_formats.framing import FrameDecoder, crc16
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import ROUND_SHIFT, Beacon, Command, Downlink, Health, Heard, Proof
from packet_formats.seal import Seal
from packet_formats.tinyos import ActiveMessage, decode_packet, encode_packet

KEY, WRONG = Key(bytes(range(16))), Key(bytes(16))
MOTES = 5
S = 1_000_000_000


def deployment(scheme: str = "shlc", key: Key | None = KEY) -> Deployment:
    tables: dict[str, Any] = {
        "network": {"name": "guarded", "board": "micaz", "motes": MOTES, "data_bytes": 2},
        "clock": {"tick_log2": 7, "epsilon": 5, "delta": 10},
        "stamp": {"scheme": scheme},
        "security": {"mic": 4, "key": "site.key"},
    }
    return replace(from_dict(tables), key=key)


def honest_line(network: Deployment, messages: int = 120) -> list[Arrival]:
    world = WorldOptions(
        motes=MOTES, epsilon=5, delta=10, rate=0.05, messages=messages, seed=1, events_per_tick=1
    )
    tick_ns, decoder = (S << 7) // CRYSTAL_HZ, FrameDecoder()
    return [
        Arrival(0, tick * tick_ns, tick * tick_ns, packet)
        for tick, line in serial_line(trace_of(generate(world), network))
        for packet in decoder.feed(line)
    ]


def read(arrival: Arrival, network: Deployment) -> tuple[ActiveMessage, Any]:
    frame = decode_packet(arrival.packet)
    assert isinstance(frame, ActiveMessage)
    return frame, decode_message(frame, layout_of(network))


def put(frame: ActiveMessage, like: Arrival) -> Arrival:
    return like._replace(packet=encode_packet(frame))


def by_air(frame: ActiveMessage, heard: Heard, like: Arrival, network: Deployment) -> list[Arrival]:
    """A frame as the gateway hands it up: its heard record first."""
    record = replace(heard, check=crc16(frame.data))
    return [put(encode_message(record, layout_of(network)), like), put(frame, like)]


def deliveries(happenings: Iterable[Happening]) -> list[tuple[Any, bytes]]:
    return [(one.name, one.data.data) for one in happenings if isinstance(one, Delivered)]


def play(network: Deployment, line: Iterable[Arrival]) -> tuple[Station, list[Happening]]:
    station = Station(network)
    happenings = [one for arrival in line for one in station.take(arrival)]
    return station, happenings + station.finish()


def attacked(network: Deployment, line: list[Arrival]) -> Iterator[Arrival]:
    """Between the honest frames: what a stranger could send, and what he recorded a while ago."""
    layout, wrong = layout_of(network), Seal(WRONG, layout_of(network))
    sent: list[tuple[Arrival, ActiveMessage]] = []
    heard = None
    for arrival in line:
        frame, message = read(arrival, network)
        if isinstance(message, Heard):
            heard = message
            yield arrival
            continue
        yield arrival
        assert heard is not None
        assert isinstance(message, Data)
        number = (message.sequence + 1) % 256  # who comes first has the real one dropped
        forged = wrong.sealed_data(replace(message, sequence=number, mic=b""), heard.epoch, heard.time)
        yield from by_air(forged, heard, arrival, network)
        for other in (
            wrong.sealed_health(Health(2, heard.time, 0, 1, 900, layout.hash, *[0] * 8)),
            wrong.sealed_downlink(Downlink(0xFFFF, 0, 1, Command.REBOOT, 0), 0, heard.time),
        ):
            yield from by_air(other, heard, arrival, network)
        sent.append((arrival, frame))
        if arrival.mono_ns - sent[0][0].mono_ns > S // 2:
            yield from by_air(sent.pop(0)[1], heard, arrival, network)


@pytest.mark.parametrize("scheme", ["shlc", "barrier"])
def test_the_honest_are_delivered_as_if_alone(scheme: str) -> None:
    network = deployment(scheme)
    line = honest_line(network)
    alone, quiet = play(network, line)
    station, happenings = play(network, attacked(network, line))
    assert len(deliveries(quiet)) == alone.received > 100
    assert deliveries(happenings) == deliveries(quiet)
    assert {mote: counts.received for mote, counts in station.motes.items()} == {
        mote: counts.received for mote, counts in alone.motes.items()
    }
    assert all(counts.health is None for counts in station.motes.values())
    refused = station.snapshot(0).refused
    assert refused is not None
    assert refused["forged"] == 3 * alone.received
    assert refused["replayed"] > 20
    raised = {one.what: one.text for one in happenings if isinstance(one, Alarm) and one.raised}
    assert set(raised) == {"forged", "replayed"}
    assert raised["forged"].startswith("somebody without the network's key forges messages: data of mote")
    assert "so far" not in raised["forged"]  # it is told once, and would stay at one
    assert "somebody plays old messages" in raised["replayed"]
    assert not any(isinstance(one, Alarm) for one in quiet)
    assert alone.snapshot(0).refused == dict.fromkeys(
        ("unprotected", "forged", "replayed", "late", "unchecked"), 0
    )


def test_the_alarm_is_over_when_the_stranger_is_gone() -> None:
    network = deployment()
    station, _ = play(network, list(attacked(network, honest_line(network, 20))))
    over = [one for one in station.advance(1000 * S) if isinstance(one, Alarm) and not one.raised]
    told = {one.what: one.text for one in over}
    assert told["forged"].endswith("; 60 messages so far")
    assert all(f"mote {mote}" in told["forged"] for mote in range(3))
    assert "downlink to all motes" in told["forged"]


def test_without_the_key_all_is_taken_and_said_to_be_unchecked() -> None:
    network = deployment()
    station, happenings = play(replace(network, key=None), honest_line(network))
    assert len(deliveries(happenings)) == station.received
    assert station.snapshot(0).refused == {"unchecked": station.received}


def test_a_message_out_of_sync_is_let_in_once_and_counted_as_unprotected() -> None:
    network = deployment()
    seal = Seal(KEY, layout_of(network))
    frame = seal.sealed_data(Data(1, 5, (0, 0), in_sync=False, data=b"ab"), 3, 12345)
    at = [0, S, COPY_NS + 2 * S]
    station, happenings = play(network, [Arrival(0, t, t, encode_packet(frame)) for t in at])
    assert len(deliveries(happenings)) == 1
    refused = station.snapshot(0).refused
    assert refused is not None
    assert (refused["unprotected"], refused["replayed"]) == (2, 1)
    assert station.motes[1].duplicates == 1


def test_a_message_that_nobody_can_check_yet_is_not_let_in() -> None:
    network = deployment()
    frame = Seal(KEY, layout_of(network)).sealed_data(Data(1, 5, (0, 0), data=b"ab"), 3, 12345)
    _, happenings = play(network, [Arrival(0, 0, 0, encode_packet(frame))])
    assert not deliveries(happenings)
    (strange,) = [one for one in happenings if isinstance(one, Strange)]
    assert "the network's time is not known yet" in strange.reason


def test_old_health_is_replayed_health() -> None:
    network = deployment()
    layout = layout_of(network)
    seal, gateway = Seal(KEY, layout), MOTES

    def health(seconds: int, boots: int = 7) -> ActiveMessage:
        time = seconds * CRYSTAL_HZ % (1 << 32)
        return seal.sealed_health(Health(2, time, 1, 1, boots, layout.hash, seconds % 65536, *[0] * 7))

    def heard_at(seconds: int, number: int) -> Heard:
        return Heard(gateway, 1, number, 0, 3, -60, 100, 0, seconds * CRYSTAL_HZ)

    line: list[Arrival] = []
    steps = (
        (100, health(100)),
        (101, health(100)),
        (170, health(170)),
        (171, health(100)),
        (240, health(240, 2)),
        (241, health(241 - 20 * 3600, 2)),  # of yesterday: modulo 2^32 cycles it is ahead
        (242, health(242, 2)),
    )
    for number, (seconds, frame) in enumerate(steps):
        like = Arrival(0, seconds * S, seconds * S, b"")
        line += by_air(frame, heard_at(seconds, number), like, network)
    station, _ = play(network, line)
    refused = station.snapshot(0).refused
    assert refused is not None
    assert refused["replayed"] == 2
    newest = station.motes[2].health
    assert newest is not None
    assert (newest.boots, newest.sent) == (2, 242)  # a mote that lost its count is believed by its time


@pytest.mark.parametrize("old", [False, True])
def test_who_speaks_as_ever_new_gateways_does_not_fill_the_memory(old: bool) -> None:
    """A mote that has the key and lies, with reports out of sync or old ones; what is known of motes stays."""
    network = deployment()
    guard, layout = Guard(network), layout_of(network)
    seal, now = Seal(KEY, layout), 3600 * CRYSTAL_HZ
    for number, source in enumerate([2, *range(MOTES, 500)]):
        in_sync, time = (True, 0) if old and source != 2 else (False, now)
        report = Health(source, time, 1, int(in_sync), 7, layout.hash, number, *[0] * 7)
        frame = seal.sealed_health(report)
        found = guard.judge(frame.data, decode_message(frame, layout), 1, now, number)
        assert found.verdict.is_let_in != in_sync
    assert 2 in guard._health
    assert len(guard._health) == (1 if old else 1 + OTHERS)
    assert len(guard._reports) == 1 + OTHERS
    assert max(guard._reports) == 499


def test_behind_a_foreign_gateway_a_beacon_is_believed_after_its_proof() -> None:
    network = deployment()
    layout = layout_of(network)
    seal, wrong = Seal(KEY, layout), Seal(WRONG, layout)
    station = Station(network)

    def take(message: Beacon | Proof, ms: int) -> list[Happening]:
        packet = encode_packet(encode_message(message, layout))
        return station.take(Arrival(0, ms * 1_000_000, 0, packet))

    true = Beacon(MOTES, MOTES, 4, 1, 0, 1, 0, 50 * CRYSTAL_HZ)
    false = replace(true, epoch=9, time=900 * CRYSTAL_HZ)
    take(true, 1000)
    take(false, 1001)  # of the same sender and number
    take(wrong.proof(false), 1002)
    assert station.timeline.epoch is None
    assert station.timeline.clock.guess(0, 1100 * 1_000_000) is None
    take(seal.proof(true), 1100)
    assert station.timeline.epoch == 4
    told = station.timeline.clock.guess(0, 2000 * 1_000_000)
    assert told is not None
    # From when the beacon came, not its proof
    assert told % (1 << 32) == pytest.approx(51 * CRYSTAL_HZ, abs=20)
    refused = station.snapshot(0).refused
    assert refused is not None
    assert refused["forged"] == 1


def test_the_window_that_the_mic_shows_is_the_observers() -> None:
    """Where the time is a guess, the neighbouring windows are tried, and the stamp is read in the right one."""
    network = deployment()
    layout = layout_of(network)
    seal, station = Seal(KEY, layout), Station(network)
    window = layout.stamp.modulus << layout.tick_log2
    beacon = Beacon(MOTES, MOTES, 4, 1, 0, 1, 0, 50 * CRYSTAL_HZ)
    for message in (beacon, seal.proof(beacon)):
        station.take(Arrival(0, 0, 0, encode_packet(encode_message(message, layout))))
    wanted = []
    for sequence, windows in enumerate((-1, 0, 1, 2)):
        cycles = 50 * CRYSTAL_HZ + windows * window
        sent = cycles >> layout.tick_log2
        stamp = (sent % layout.stamp.modulus, 0)
        frame = seal.sealed_data(Data(1, sequence, stamp, data=b"ab"), 4, cycles)
        station.take(Arrival(0, 1000, 0, encode_packet(frame)))
        wanted.append(sent + (1 << 32 - layout.tick_log2))  # the observer's clock begins above 0
    assert station.received == 3
    assert sorted(one.message.stamp.r for one in station.observer.pending()) == wanted[:3]


def test_after_a_new_epoch_the_old_time_is_told_from_forgery() -> None:
    network = deployment()
    layout = layout_of(network)
    seal, wrong = Seal(KEY, layout), Seal(WRONG, layout)

    def heard(epoch: int, seconds: int, number: int) -> Heard:
        return Heard(MOTES, epoch, number, 0, 3, -60, 100, 0, seconds * CRYSTAL_HZ)

    def data(by: Seal, sequence: int, epoch: int, seconds: int) -> ActiveMessage:
        return by.sealed_data(Data(1, sequence, (3, 0), data=b"ab"), epoch, seconds * CRYSTAL_HZ)

    line: list[Arrival] = []
    for number, (at, record, frame) in enumerate(
        (
            (100, (1, 500), data(seal, 0, 1, 500)),
            (102, (2, 7), data(seal, 1, 2, 7)),  # the root has started anew
            (103, (2, 8), data(seal, 2, 1, 503)),  # a mote has not heard of it
            (104, (2, 9), data(wrong, 3, 2, 9)),
            (160, (2, 65), data(seal, 4, 1, 560)),
        )
    ):
        line += by_air(frame, heard(*record, number), Arrival(0, at * S, at * S, b""), network)
    station, happenings = play(network, line)
    refused = station.snapshot(0).refused
    assert refused is not None
    assert (refused["unchecked"], refused["forged"], station.received) == (1, 2, 2)
    raised = [one for one in happenings if isinstance(one, Alarm) and one.raised and one.what == "forged"]
    assert [one.mono_ns // S for one in raised] == [104]


def test_a_flood_of_beacons_does_not_push_out_the_true_one() -> None:
    network = deployment()
    layout = layout_of(network)
    seal, station = Seal(KEY, layout), Station(network)
    true = Beacon(MOTES, MOTES, 4, 1, 0, 1, 0, 50 * CRYSTAL_HZ)
    flood = [replace(true, time=time) for time in range(500)]
    flood += [replace(true, sender=time % MOTES, sequence=time, time=time) for time in range(500)]
    for message in (true, *flood, seal.proof(true)):
        station.take(Arrival(0, S, S, encode_packet(encode_message(message, layout))))
    assert station.timeline.epoch == 4


def test_a_beacon_of_yesterday_does_not_set_the_clock_forward() -> None:
    """Modulo 2^32 cycles it is ahead of today's; its number is not."""
    network = deployment()
    layout = layout_of(network)
    seal, station = Seal(KEY, layout), Station(network)
    old = Beacon(MOTES, MOTES, 4, 100, 0, 1, 0, 50 * CRYSTAL_HZ)
    true = replace(old, sequence=7300, time=(50 + 20 * 3600) * CRYSTAL_HZ % (1 << 32))
    for seconds, beacon in enumerate((true, old), 1):
        for message in (beacon, seal.proof(beacon)):
            packet = encode_packet(encode_message(message, layout))
            station.take(Arrival(0, seconds * S, seconds * S, packet))
    told = station.timeline.network_time(2 * S)
    assert told is not None
    assert told[1] % (1 << 32) == pytest.approx(true.time + CRYSTAL_HZ, abs=20)
    refused = station.snapshot(0).refused
    assert refused is not None
    assert (refused["replayed"], refused["forged"]) == (1, 0)


def proved(seal: Seal, beacon: Beacon) -> list[ActiveMessage]:
    return [encode_message(message, seal.layout) for message in (beacon, seal.proof(beacon))]


@pytest.mark.parametrize("foreign", [True, False])
def test_a_forged_proof_is_told(foreign: bool) -> None:
    """Nothing moves, and the attempt is reported."""
    network = deployment()
    beacon = Beacon(2, MOTES, 4, 1, 1, 1, 0, 50 * CRYSTAL_HZ)
    line: list[Arrival] = []
    for number, frame in enumerate(proved(Seal(WRONG, layout_of(network)), beacon)):
        like = Arrival(0, S + number, S + number, b"")
        heard = Heard(MOTES, 4, number, 0, 3, -60, 100, 0, 50 * CRYSTAL_HZ + number)
        line += [put(frame, like)] if foreign else by_air(frame, heard, like, network)
    _, happenings = play(network, line)
    (alarm,) = [one for one in happenings if isinstance(one, Alarm)]
    assert "forges messages: proof of mote 2" in alarm.text


def test_a_proof_whose_own_beacon_was_lost_is_not_called_forged() -> None:
    """An answer has the number of the beacon before, and another time."""
    network = deployment()
    seal = Seal(KEY, layout_of(network))
    beacon = Beacon(2, MOTES, 4, 1, 1, 1, 0, 50 * CRYSTAL_HZ)
    later = replace(beacon, time=60 * CRYSTAL_HZ)
    line = [
        Arrival(0, S, S, encode_packet(proved(seal, beacon)[0])),
        Arrival(0, 11 * S, 11 * S, encode_packet(proved(seal, later)[1])),
    ]
    station, _ = play(network, line)
    refused = station.snapshot(0).refused
    assert refused is not None
    assert refused["forged"] == 0


def test_behind_a_foreign_gateway_an_old_epoch_that_is_played_again_moves_no_clock() -> None:
    """Its beacons and proofs are right. Messages show that the present epoch goes on, though no beacon came lately."""
    network = deployment()
    seal, station = Seal(KEY, layout_of(network)), Station(network)

    def take(frame: ActiveMessage, seconds: int) -> None:
        station.take(Arrival(0, seconds * S, 0, encode_packet(frame)))

    for frame in proved(seal, Beacon(MOTES, MOTES, 7, 40, 0, 1, 0, 1000 * CRYSTAL_HZ)):
        take(frame, 0)
    for second in range(1, 25):
        take(seal.sealed_data(Data(1, second, (5, 0), data=b"ab"), 7, (1000 + second) * CRYSTAL_HZ), second)
        if second == 15:
            for frame in proved(seal, Beacon(MOTES, MOTES, 3, 900, 0, 1, 0, 5 * CRYSTAL_HZ)):
                take(frame, second)
    assert station.timeline.epoch == 7
    assert station.received == 24


def out_of_sync(seal: Seal, boot: int, sequence: int) -> ActiveMessage:
    return seal.sealed_data(Data(1, sequence, (0, 0), in_sync=False, boot=boot, data=b"ab"), 3, 12345)


def test_old_messages_out_of_sync_raise_no_alarm_and_move_nothing() -> None:
    """Whoever recorded what a mote sent at each of its starts plays it again, hours later."""
    network = deployment()
    layout = layout_of(network)
    seal, alone, station = Seal(KEY, layout), Station(network), Station(network)
    told: list[Happening] = []
    expected: list[Happening] = []
    window = layout.stamp.modulus
    for number in range(250):
        cycles = (100 + number) * CRYSTAL_HZ
        like = Arrival(0, number * S, number * S, b"")
        heard = Heard(MOTES, 1, 2 * number % 256, 0, 3, -60, 100, 0, cycles)
        stamp = (cycles >> layout.tick_log2) % window, 0
        honest = seal.sealed_data(Data(1, number % 256, stamp, boot=5, data=b"ab"), 1, cycles)
        old = out_of_sync(seal, number % 8, (number * 37) % 256)
        for line in by_air(honest, heard, like, network):
            expected += alone.take(line)
            told += station.take(line)
        for line in by_air(old, replace(heard, sequence=(2 * number + 1) % 256), like, network):
            told += station.take(line)
    expected, told = expected + alone.finish(), told + station.finish()
    alarms = {one.what for one in told if isinstance(one, Alarm)}
    assert alarms == {one.what for one in expected if isinstance(one, Alarm)} == {"missing"}
    assert not any(isinstance(one, Reboot) for one in told)
    assert station.motes[1].lost == station.motes[1].reboots == 0
    honestly = [one for one in told if isinstance(one, Delivered) and one.in_sync]
    assert deliveries(honestly) == deliveries(expected)
    assert len(deliveries(expected)) == 250
    assert station.motes[1].strays == 250  # each is shown once
    assert station.motes[1].pauses == alone.motes[1].pauses


def test_what_was_lost_while_a_mote_had_no_time_is_not_counted() -> None:
    network = deployment()
    layout = layout_of(network)
    seal, station = Seal(KEY, layout), Station(network)
    for number in range(200):
        cycles = (100 + number) * CRYSTAL_HZ
        heard = Heard(MOTES, 1, number, 0, 3, -60, 100, 0, cycles)
        stamp = (cycles >> layout.tick_log2) % layout.stamp.modulus, 0
        frame = seal.sealed_data(Data(1, number, stamp, boot=5, data=b"ab"), 1, cycles)
        if 50 <= number < 150:
            frame = out_of_sync(seal, 5, number)
        for line in by_air(frame, heard, Arrival(0, number * S, number * S, b""), network):
            station.take(line)
    assert (station.received, station.motes[1].lost) == (200, 0)


def test_a_copy_that_took_long_is_late_and_no_strangers() -> None:
    """Of a health report after a newer one, of data after the window of its clock; and new data."""
    network = deployment()
    layout = layout_of(network)
    seal, window = Seal(KEY, layout), layout.stamp.modulus << layout.tick_log2
    second = [100 * CRYSTAL_HZ + 500 * number for number in range(6)]

    def health(cycles: int, sent: int) -> ActiveMessage:
        return seal.sealed_health(Health(2, cycles, 1, 1, 7, layout.hash, sent, *[0] * 7))

    def data(cycles: int, sequence: int) -> ActiveMessage:
        stamp = (cycles >> layout.tick_log2) % layout.stamp.modulus, 0
        return seal.sealed_data(Data(1, sequence, stamp, data=b"ab"), 1, cycles)

    first, newer, unheard = health(second[0], 1), health(second[1], 2), health(second[0] - 100, 0)
    told = data(second[0], 0)
    lost = data(second[5] - window, 1)
    line: list[Arrival] = []
    frames = (first, newer, first, told, unheard, lost, told)
    times = (*second, second[0] + window + 100)
    for number, (frame, cycles) in enumerate(zip(frames, times, strict=True)):
        at = 1_000_000 * number
        heard = Heard(MOTES, 1, number, 0, 3, -60, 100, 0, cycles)
        line += by_air(frame, heard, Arrival(0, at, at, b""), network)
    station, happenings = play(network, line)
    refused = station.snapshot(0).refused
    assert refused is not None
    assert (refused["late"], refused["replayed"], refused["forged"]) == (4, 0, 0)
    assert not any(isinstance(one, Alarm) for one in happenings)
    newest = station.motes[2].health
    assert newest is not None
    assert newest.sent == 2


ROUND = 1 << 32  # cycles
ROUND_NS = ROUND * S // CRYSTAL_HZ


def told(network: Deployment, whole: int, number: int, foreign: bool, like: Arrival) -> list[Arrival]:
    """The network's time, by a beacon and its proof that the gateway heard or, from a foreign one, alone."""
    flags = 1 | (whole >> 32) % 32 << ROUND_SHIFT
    beacon = Beacon(2, MOTES, 9, number, 1, flags, 0, whole % ROUND)
    return aired(proved(Seal(KEY, layout_of(network)), beacon), network, whole, 2 * number, foreign, like)


def aired(
    frames: Iterable[ActiveMessage],
    network: Deployment,
    whole: int,
    number: int,
    foreign: bool,
    like: Arrival,
) -> list[Arrival]:
    """Frames as a gateway, ours or a foreign one, hands them up at this time."""
    line: list[Arrival] = []
    for place, frame in enumerate(frames):
        flags = 1 | (whole >> 32) % 32 << ROUND_SHIFT
        heard = Heard(MOTES, 9, (number + place) % 256, 0, flags, -60, 100, 0, whole % ROUND)
        line += [put(frame, like)] if foreign else by_air(frame, heard, like, network)
    return line


def over_the_wrap(network: Deployment, foreign: bool) -> tuple[list[Arrival], list[Arrival]]:
    """A network whose time comes round: a message and a report a second. And the same line once more, exactly a round
    later, while the network's time goes on."""
    layout = layout_of(network)
    seal, honest, replayed = Seal(KEY, layout), list[Arrival](), list[Arrival]()
    for second in range(10):
        whole, like = 4 * ROUND + (second - 5) * CRYSTAL_HZ + 700, Arrival(0, second * S, second * S, b"")
        tick = whole + CRYSTAL_HZ // 2 >> layout.tick_log2
        fields = layout.stamp.fields_of(layout.stamp.least)
        stamp = tuple(tick % layout.stamp.modulus if one.name == "clock" else 0 for one in fields)
        at = whole + CRYSTAL_HZ // 2
        health = Health(1, at % ROUND, 9, 1, 0, layout.hash, second, *[0] * 7)
        frames = [
            seal.sealed_data(Data(1, second, stamp, data=b"ab"), 9, at),
            seal.sealed_health(health, at >> 32),
        ]
        for line, more in ((honest, 0), (replayed, 1)):
            later = like.mono_ns + more * ROUND_NS
            then = Arrival(0, later, later, b"")
            number = 4 * second + 100 * more
            line += told(network, whole + more * ROUND, number // 2, foreign, then)
            half = then._replace(mono_ns=later + S // 2, wall_ns=later + S // 2)
            line += aired(frames, network, at + more * ROUND, number + 2, foreign, half)
    return honest, replayed


@pytest.mark.parametrize("scheme", ["shlc", "sequence"])
@pytest.mark.parametrize("foreign", [False, True])
def test_what_is_played_again_a_round_later_is_refused(scheme: str, foreign: bool) -> None:
    network = deployment(scheme)
    honest, replayed = over_the_wrap(network, foreign)
    station, _ = play(network, honest)
    assert station.received == 10
    assert station.snapshot(0).refused == dict.fromkeys(
        ("unprotected", "forged", "replayed", "late", "unchecked"), 0
    )
    station, happenings = play(network, [*honest, *replayed])
    assert len(deliveries(happenings)) == 10
    refused = station.snapshot(0).refused
    assert refused is not None
    assert refused["forged"] + refused["replayed"] == 20
    assert refused["replayed"] >= 10  # the reports
    assert refused["unchecked"] == 0


@pytest.mark.parametrize("rounds", [1, 3])
def test_behind_a_foreign_gateway_beacons_of_an_old_round_move_nothing(rounds: int) -> None:
    """Heard first, they are believed until the network itself is heard; after it they are replayed."""
    network, like = deployment(), Arrival(0, 0, 0, b"")
    now = 9 * ROUND + 700
    old = told(network, now - rounds * ROUND - 3600 * CRYSTAL_HZ, 900, True, like)
    true = told(network, now, 7, True, like)
    for line, replays in ((old + true, 0), (true + old, 1), (true + true + old + true, 1)):
        station, _ = play(network, line)
        time = station.timeline.network_time(0)
        assert time is not None
        assert time[1] % (32 * ROUND) == pytest.approx(now, abs=20)
        refused = station.snapshot(0).refused
        assert refused is not None
        assert (refused["replayed"], refused["forged"]) == (replays, 0)
