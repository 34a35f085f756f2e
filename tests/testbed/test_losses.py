"""Where messages are lost, on a log made up by hand, and deliveries with stubs against the rules written out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from basestation.causality.order import Message
from basestation.causality.schemes import Setting
from basestation.causality.schemes.barrier import Barrier
from basestation.simulator.engine import engine
from basestation.simulator.options import WorldOptions
from basestation.simulator.scheme_run import play, stamp_messages
from basestation.simulator.simulation import generate
from packet_formats.records import Beacon
from tests.causality.barrier_world import Observed
from tests.causality.schemes.test_barrier import Literal
from tests.testbed.worlds import AIRTIME, MS, SECOND, World, on_air, stamped
from tools.losses import (
    FULL,
    HEARD,
    KEPT,
    LATE,
    LINE,
    PLACE,
    PLACES,
    RELAYED,
    SENT,
    SPENT,
    UNHEARD,
    UNREAD,
    UNSENT,
    loss_run,
    lost_in,
    stub_rows,
    tables_of,
)
from tools.stub_replay import Stub, replay


class LossyWorld(World):
    """Motes 0 and 1 are one hop from the gateway, mote 2 is two. All three are heard in the first two seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.boot()
        self.sent = dict.fromkeys(range(3), 0)
        for mote, hops in enumerate((1, 1, 2)):
            beacon = Beacon(mote, 3, 1, 1, hops, 1, 0, self.time(SECOND))
            self.signal(SECOND, mote, on_air(beacon, self.network.deployment))
            self.message(SECOND + 100 * mote * MS, mote, to=(self.gateway,))

    def message(self, t, source, hops=0, to=()):
        self.sent[source] += 1
        data = replace(stamped(self, source, self.sent[source], t), hops=hops)
        self.number = self.send(t, data, to=to)
        return data

    def fill_line(self, t):
        """The gateway drops the last message, and hands the next one up."""
        self.outcome(self.number, self.gateway)
        data = self.message(t, 0)
        self.outcome(self.number, self.gateway)
        self.hand_up(t + 2 * MS + AIRTIME, data, lost=1)

    def run(self):
        self.add(20 * SECOND, "end", reason="end", slices=1)
        return loss_run(self.events(), self.network)

    def lost(self):
        """The one lost message of the run."""
        run = self.run()
        (number,) = lost_in(run)
        return run.passages[number]


@pytest.fixture
def world() -> LossyWorld:
    return LossyWorld()


def ends(passage):
    return {end.node: end.how for end in passage.ends}


T = 3 * SECOND


def test_a_sender_without_a_clear_channel_knows(world):
    world.record(T, 0, "send", 0, 2)
    world.record(T + 100 * MS, 0, "late", 0, 2)
    lost = world.lost()
    assert (lost.place, ends(lost)) == (UNSENT, {0: LATE})
    assert [end.until for end in lost.drops] == [T + 100 * MS]


def test_nobody_knows_of_what_nobody_heard(world):
    world.message(T, 2, hops=1)
    lost = world.lost()
    assert (lost.place, ends(lost), lost.drops) == (UNHEARD, {2: SENT}, [])


def test_a_copy_without_enough_hops_is_no_known_loss(world):
    world.message(T, 1, hops=0, to=(0,))
    lost = world.lost()
    assert (lost.place, ends(lost), lost.drops) == (KEPT, {1: SENT, 0: SPENT}, [])


def test_hops_must_reach_from_where_the_copy_is(world):
    world.message(T, 1, hops=1, to=(2,))
    assert ends(world.lost()) == {1: SENT, 2: SPENT}


def test_what_a_mote_heard_and_did_not_read(world):
    world.message(T, 2, hops=1)
    world.outcome(world.number, 0)
    assert ends(world.lost()) == {2: SENT, 0: UNREAD}


def test_a_full_outbox_while_another_copy_waits(world):
    data = world.message(T, 2, hops=1, to=(0, 1))
    world.copy(T + 20 * MS, 0, replace(data, hops=0))
    lost = world.lost()
    assert (lost.place, ends(lost)) == (RELAYED, {2: SENT, 0: SENT, 1: FULL})
    (drop,) = lost.drops
    assert drop.until == T + 2 * MS + AIRTIME
    assert lost.is_alive_beside(drop)


def test_the_last_copy_has_no_other_beside_it(world):
    data = world.message(T, 2, hops=1, to=(0, 1))
    world.copy(T + 20 * MS, 0, replace(data, hops=0))
    world.record(T + 50 * MS, 1, "late", 2, 2)
    (drop,) = (lost := world.lost()).drops
    assert (drop.node, drop.how, lost.is_alive_beside(drop)) == (1, LATE, False)


def test_a_gateway_without_room_on_its_line(world):
    world.message(T, 1)
    world.fill_line(T + 10 * MS)
    lost = world.lost()
    assert (lost.place, ends(lost)) == (HEARD, {1: SENT, 3: LINE})
    assert len(lost.drops) == 1


def test_a_gateway_has_room_for_another_copy(world):
    data = world.message(T, 1, hops=1, to=(0,))
    world.fill_line(T + 10 * MS)
    world.copy(T + 20 * MS, 0, replace(data, hops=0), to=(world.gateway,))
    run = world.run()
    assert lost_in(run) == []
    dropped = run.passages[3]
    assert [(end.node, end.how) for end in dropped.ends] == [(1, SENT), (0, SENT), (3, LINE)]
    assert dropped.is_alive_beside(dropped.drops[0])


def test_a_copy_is_dropped_though_the_message_arrives(world):
    data = world.message(T, 2, hops=1, to=(0, 1))
    world.record(T + 10 * MS, 1, "late", 2, 2)
    world.copy(T + 20 * MS, 0, replace(data, hops=0), to=(world.gateway,))
    run = world.run()
    assert lost_in(run) == []
    (drop,) = run.passages[-1].drops
    assert (drop.node, run.passages[-1].arrived, run.passages[-1].is_alive_beside(drop)) == (1, True, True)


def test_only_what_is_sent_between_the_beginning_and_the_end_counts(world):
    world.message(T, 1)
    world.message(20 * SECOND - 500 * MS, 1)
    run = world.run()
    assert lost_in(run) == run.counted == [3]


def test_the_tables_tell_it(world):
    world.message(T, 2, hops=1)
    world.outcome(world.number, 0, "damaged")
    world.message(T + SECOND, 1)
    world.fill_line(T + 2 * SECOND)
    run = world.run()
    text = "\n".join(tables_of([run], 20, 1))
    assert "Of 3 messages 2 were lost (66.7%). Of these losses somebody knew of 1 (50.0%)." in text.replace(
        "\n", " "
    )
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()]
    places = {row[0]: row[1:] for row in rows if row[0] in PLACES}
    assert places[UNHEARD] == ["1", "50.0%", "0"]
    assert places[HEARD] == ["1", "50.0%", "1"]
    assert [LINE, "yes", "1", "0.0%", "0.0%"] in rows
    assert [row[0] for row in rows[-len(stub_rows(run)) :]] == list(stub_rows(run))


def test_the_page_keeps_what_is_around_the_tables(root):
    page = (root / "docs" / "evidence" / "schemes.md").read_text()
    again = PLACE.insert(page, "nothing")
    assert (again[:200], again[-200:]) == (page[:200], page[-200:])


# ---- With stubs ----

SCHEME = Barrier(Setting(10, 3, 32))


@pytest.fixture(scope="module")
def stream():
    """Messages that come one by one, as on a gateway's line."""
    options = WorldOptions(motes=10, epsilon=3, delta=32, rate=0.0156, messages=200, loss=0.1, seed=3)
    found = generate(options).stream
    return replace(found, arrival_batch=np.arange(found.arrivals), arrival_fresh=0 * found.arrival_fresh)


def lost_stubs(stream) -> list[Stub]:
    arrived = set(stream.arrival_message.tolist())
    sent = enumerate(stream.sent_at.tolist())
    return [Stub(tick + 3, number) for number, tick in sent if number not in arrived]


@dataclass
class LiteralStubs(Literal):
    """The rules written out; a stub that waits leaves W after it came or after its l."""

    until: dict[int, int] = field(default_factory=dict)  # by token

    def _may_leave(self, m: Message, held: list[Message], gone: list[Message], now: int) -> bool:
        waits = m.token in self.until and now <= self.until[m.token]
        return not waits and super()._may_leave(m, held, gone, now)


def test_without_stubs_it_is_the_rule(stream):
    played = play(stream, SCHEME)
    assert replay(stream, SCHEME) == (played.order.tolist(), played.hold.tolist())


@pytest.mark.parametrize("several", [False, True])
def test_with_stubs_it_is_the_rules_written_out(stream, several):
    stubs = lost_stubs(stream)
    assert len(stubs) > 10
    messages = [m._replace(token=number) for number, m in enumerate(stamp_messages(stream, SCHEME))]
    arrivals = zip(stream.arrival_clock.tolist(), stream.arrival_message.tolist(), strict=True)
    rows = sorted(
        [(now, 0, number) for now, number in arrivals] + [(tick, 1, n) for tick, n in stubs],
        key=lambda row: row[:2],
    )
    wait = SCHEME.constants.W
    until = {n: min(tick, messages[n].stamp.top) + wait for tick, n in stubs} if several else {}
    literal = LiteralStubs(SCHEME.constants, wait, until=until)
    came = {number: now for now, _, number in rows}
    left = literal.run(Observed([(now, messages[number]) for now, _, number in rows], {}, []))
    shown = [(m.token, now - came[m.token]) for m, now in left if m.token not in {n for _, n in stubs}]
    found = replay(stream, SCHEME, stubs, several)
    assert list(zip(*found, strict=True)) == shown


def test_stubs_save_waiting_and_more_so_where_ways_are_one(stream):
    stubs = lost_stubs(stream)
    none, several, one = (
        sum(replay(stream, SCHEME, *options).hold) for options in ((), (stubs, True), (stubs, False))
    )
    assert one < several < none


def test_a_stub_of_a_message_that_comes_too(stream):
    """The message is shown once. One way: its stub may have left, and then it is late. Several: it never is."""
    both = [Stub(int(stream.sent_at[number]), number) for number in stream.arrival_message.tolist()]
    vectors = engine.vector_clocks(stream)
    for several in (False, True):
        order = replay(stream, SCHEME, both, several).order
        assert sorted(order) == sorted(stream.arrival_message.tolist())
        pairs = engine.violations(stream, vectors, np.array(order)).pairs
        assert (pairs == 0) == several
