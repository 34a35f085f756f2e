"""Lines of a network with a key: behind a foreign gateway, and with frames of a stranger among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from basestation.arrivals import Arrival
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Beacon, Heard
from packet_formats.seal import Seal
from packet_formats.tinyos import encode_packet
from tests.live.test_guard import KEY, MOTES, WRONG, S, put, read


def foreign(network: Deployment, line: Iterable[Arrival], gateway: int = 0) -> Iterator[Arrival]:
    """The same frames behind a gateway that sends no heard records; four times a second a beacon and its proof."""
    layout, seal = layout_of(network), Seal(KEY, layout_of(network))
    sequence, told_ns = 0, -S
    for arrival in line:
        arrival = arrival._replace(gateway=gateway)
        _, message = read(arrival, network)
        if not isinstance(message, Heard):
            yield arrival
        elif arrival.mono_ns - told_ns >= S // 4:
            sequence, told_ns = sequence + 1, arrival.mono_ns
            beacon = Beacon(MOTES, MOTES, message.epoch, sequence, 0, 1, 0, message.time)
            for one in (beacon, seal.proof(beacon)):
                yield arrival._replace(packet=encode_packet(encode_message(one, layout)))


def attacked_alone(network: Deployment, line: Iterable[Arrival]) -> Iterator[Arrival]:
    """Between honest frames without records: forged ones, and old ones that are played again."""
    wrong, sent = Seal(WRONG, layout_of(network)), list[Arrival]()
    for arrival in line:
        yield arrival
        _, message = read(arrival, network)
        if isinstance(message, Data):
            number = (message.sequence + 1) % 256
            yield put(wrong.sealed_data(replace(message, sequence=number, mic=b""), 0, 12345), arrival)
            sent.append(arrival)
            if arrival.mono_ns - sent[0].mono_ns > S // 2:
                yield arrival._replace(packet=sent.pop(0).packet)
