"""The judge reads a gateway's line as the live station does."""

from basestation.causality.truth import Send
from basestation.testbed.host import read_line
from basestation.testbed.recorded_messages import MessageBook, Sent
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.truth_log import Uart
from packet_formats.framing import encode_frame
from tests.live.world import MS, TICK, Gateway, Motes, deployment, packet

SETUP = deployment()
NETWORK = ScenarioNetwork(SETUP, (0, 1, 2, 3), (4,))
START = 1 << 20


def uart(message, t):
    flag = b"\x7e"
    return Uart(t, 4, flag + encode_frame(packet(message, SETUP)) + flag)


def judged(frames):
    """Of messages that mote 0 sent one after another, those whose frames came, with the records that came."""
    book = MessageBook()
    for number in range(3):
        book.add(number, Sent(Send(0, number + 1, (number + 1, 0, 0, 0)), number, 0))
    return read_line([uart(message, number * MS) for number, message in enumerate(frames)], NETWORK, book)


def sent():
    """Three messages of a mote, each with its record."""
    motes, gateway = Motes(SETUP, START), Gateway(SETUP)
    times = [START + number * 40 * TICK for number in range(3)]
    messages = [motes.send(0, at) for at in times]
    return [(gateway.heard(data, at), data) for at, data in zip(times, messages, strict=True)]


def test_every_pair_is_delivered():
    line, order, late = judged([frame for pair in sent() for frame in pair])
    assert (line.frames, line.data, line.unpaired, line.unknown) == (6, 3, 0, {})
    assert (order.messages, order.inverted, late) == (3, 0, 0)


def test_a_frame_without_its_record_is_delivered_as_the_station_does():
    """Of the middle pair the frame was lost, of the last one the record: the station guesses when that one came."""
    (first, data), (second, _), (_, last) = sent()
    line, order, _ = judged([first, data, second, last])
    assert (line.data, line.unpaired) == (2, 1)
    assert (order.messages, order.inverted) == (2, 0)
