"""When alarms are raised, and when they are over."""

from basestation.arrivals import Gap
from basestation.live.alarms import GATEWAY_SILENCE_NS, LEAST_SILENCE_NS, SILENT_PERIODS, Alarms
from basestation.live.counters import SECOND, GatewayCounts, MoteCounts

START = 100 * SECOND


def raised(found) -> list[tuple[str, int, bool]]:
    return [(alarm.what, alarm.subject, alarm.raised) for alarm in found]


def heard_gateway(alarms: Alarms, at: int = START) -> GatewayCounts:
    gateway = GatewayCounts(seen_ns=at, live=True)
    alarms.gateway_seen(0, gateway, at, 0)
    return gateway


def heard_mote(alarms: Alarms, period: float, at: int = START) -> MoteCounts:
    mote = MoteCounts(period_ns=period)
    alarms.mote_seen(3, mote, at, 0)
    return mote


def test_nothing_is_checked_before_something_is_expected():
    alarms = Alarms()
    assert alarms.next_check is None
    assert alarms.check({}, {0: GatewayCounts(seen_ns=START, live=True)}, START + 1000 * SECOND, 0) == []


def test_a_silent_gateway_is_reported_once_and_cleared_when_it_is_heard():
    alarms = Alarms()
    gateway = heard_gateway(alarms)
    limit = START + GATEWAY_SILENCE_NS
    assert alarms.next_check == limit
    assert alarms.check({}, {0: gateway}, limit - 1, 0) == []
    assert raised(alarms.check({}, {0: gateway}, limit, 0)) == [("gateway", 0, True)]
    assert alarms.texts() == ("gateway 0 has been silent for 30 s",)
    assert alarms.check({}, {0: gateway}, limit + SECOND, 0) == []
    assert raised(alarms.gateway_seen(0, gateway, limit + 2 * SECOND, 0)) == [("gateway", 0, False)]
    assert alarms.texts() == ()
    assert not gateway.silent


def test_a_mote_is_silent_after_some_of_its_own_periods():
    alarms = Alarms()
    gateways = {0: heard_gateway(alarms)}
    mote = heard_mote(alarms, 4 * SECOND)
    limit = START + SILENT_PERIODS * 4 * SECOND
    assert alarms.next_check == limit
    assert raised(alarms.check({3: mote}, gateways, limit, 0)) == [("mote", 3, True)]
    assert alarms.texts() == ("mote 3 has been silent for 20.0 s; it sent every 4.0 s",)
    assert raised(alarms.mote_seen(3, mote, limit + SECOND, 0)) == [("mote", 3, False)]


def test_a_fast_mote_gets_a_least_time():
    alarms = Alarms()
    gateways = {0: heard_gateway(alarms)}
    mote = heard_mote(alarms, SECOND // 100)
    assert alarms.check({3: mote}, gateways, START + LEAST_SILENCE_NS - 1, 0) == []
    assert raised(alarms.check({3: mote}, gateways, START + LEAST_SILENCE_NS, 0)) == [("mote", 3, True)]


def test_a_mote_whose_period_is_not_known_is_not_missed():
    alarms = Alarms()
    gateway, mote = heard_gateway(alarms), heard_mote(alarms, 0)
    gateway.seen_ns = START + 1000 * SECOND
    assert alarms.check({3: mote}, {0: gateway}, START + 1000 * SECOND, 0) == []


def test_motes_are_not_blamed_for_a_silent_gateway():
    alarms = Alarms()
    gateway, mote = heard_gateway(alarms), heard_mote(alarms, 6 * SECOND)
    at = START + GATEWAY_SILENCE_NS
    assert raised(alarms.check({3: mote}, {0: gateway}, at, 0)) == [("gateway", 0, True)]
    assert not mote.silent


def test_a_lost_line_takes_the_place_of_a_silent_gateway():
    alarms = Alarms()
    gateway = heard_gateway(alarms)
    at = START + GATEWAY_SILENCE_NS
    alarms.check({}, {0: gateway}, at, 0)
    lost, back = Gap(0, at, 0, False, "unplugged"), Gap(0, at, 0, True, "")
    found = alarms.line(0, gateway, lost, at, 0)
    assert raised(found) == [("gateway", 0, False), ("line", 0, True)]
    assert alarms.texts() == ("the line of gateway 0 is lost: unplugged",)
    assert alarms.line(0, gateway, lost, at, 0) == [], "known already"
    assert raised(alarms.line(0, gateway, back, at + SECOND, 0)) == [("line", 0, False)]
    assert gateway.seen_ns == at + SECOND, "from now on it should be heard of"


def test_a_wrong_layout_is_reported_once_and_cleared_by_a_right_one():
    alarms, mote = Alarms(), MoteCounts()
    assert raised(alarms.layout(3, mote, True, START, 0)) == [("layout", 3, True)]
    assert mote.wrong_layout
    assert alarms.layout(3, mote, True, START, 0) == []
    (over,) = alarms.layout(3, mote, False, START, 0)
    assert over.text == "over: mote 3 was built for another layout than this deployment's"
    assert not mote.wrong_layout
