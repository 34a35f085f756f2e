"""The matrix of counters: what a program sends, what travels, and what the rule waits for."""

from basestation.causality.order import Message, Stamp
from basestation.causality.schemes.matrix import Matrix, Square, sent_to_observer
from basestation.causality.schemes.scheme import Setting

SCHEME = Matrix(Setting(motes=2, epsilon=1, delta=1))


def test_a_stamp_tells_what_was_sent_before():
    """Rows are senders; columns are mote 0, mote 1 and the observer. A broadcast counts for all of a row."""
    zero, one = SCHEME.start(0), SCHEME.start(1)
    first = zero.on_send(0, 1)
    assert first.kn == (0, 0, 0, 0, 0, 0)
    one.on_receive(0, [Message(0, 1, first)])
    assert one.on_send(1, 1).kn == (1, 1, 1, 0, 0, 0)
    assert one.on_send(2, 2).kn == (1, 1, 1, 1, 1, 1)


def test_counters_of_a_mote_to_itself_do_not_travel():
    kn = (7, 8, 7, 3, 4, 4)
    packed = Square(2).pack(kn)
    assert packed == (8, 7, 3, 4)
    assert Square(2).unpack(packed) == kn
    assert sent_to_observer(kn, 2) == (7, 4)
    assert SCHEME.stamp_bits(Stamp(0, 0, kn)) == len(packed) * 8


def test_counters_are_read_as_the_values_nearest_to_what_is_known():
    fields = SCHEME.codec().encode(Stamp(0, 0, (300,) * 3 + (260,) * 3), 1, 261)
    assert fields == (44, 44, 4, 4)
    reader = SCHEME.codec().reader()
    assert reader.read((0, 0, 0, 0), 0, 299, 0).kn == (256, 256, 256, 0, 0, 0)
    assert reader.read(fields, 1, 261, 0).kn == (300,) * 3 + (260,) * 3
    assert reader.newest(0) == 300, "a stamp tells of messages too"
