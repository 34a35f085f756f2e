"""Sequence numbers unwrapped for each mote, copies and boots recognised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.boots import BOOTS, FIRST, ROUND, UNTIMED, VARIANTS, MoteBoots, Numbers
from tests.soak.memory import size_of

PATIENCE = 100


class SequenceUnwrapper:
    """The numbers of a mote's one boot; None for a copy."""

    def __init__(self, patience):
        self.mote, self.patience = MoteBoots(0, 0), patience

    def accept(self, field, now):
        _, sequence, copy, _, _ = self.mote.accept(0, field, now, self.patience)
        return None if copy else sequence


def test_duplicates_are_dropped_also_long_after_and_across_a_wrap():
    unwrapper = SequenceUnwrapper(PATIENCE)
    for i in range(300):
        assert unwrapper.accept(i % 256, 0) == i
    for old in range(299, 299 - 128, -1):
        assert unwrapper.accept(old % 256, 0) is None


@given(
    first=st.integers(0, 255),
    numbers=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 40), st.booleans()), max_size=120),
)
def test_any_order_within_half_the_range_is_read_right(first, numbers):
    """Numbers rise by up to 60, come up to 40 (and what those rose) late, some twice: all within 128 of the newest."""
    unwrapper = SequenceUnwrapper(PATIENCE)
    assert unwrapper.accept(first, 0) == first
    newest, seen = first, {first}
    for rise, back, again in numbers:
        newest += rise
        assert unwrapper.accept(newest % 256, 0) == newest
        seen.add(newest)
        earlier = newest - back
        assert unwrapper.accept(earlier % 256, 0) == (None if earlier in seen else earlier)
        seen.add(earlier)
        if again:
            assert unwrapper.accept(newest % 256, 0) is None


@given(gap=st.integers(1, 255), silence=st.integers(PATIENCE + 1, 10_000))
def test_after_a_silence_any_gap_is_read_as_later(gap, silence):
    """However many were lost, no message that follows reads as an old one."""
    unwrapper = SequenceUnwrapper(PATIENCE)
    for i in range(1000):
        assert unwrapper.accept(i % 256, i) == i
    first = 999 + gap
    for i in range(300):
        assert unwrapper.accept((first + i) % 256, 999 + silence + i) == first + i


def test_a_duplicate_within_the_patience_is_still_one():
    unwrapper = SequenceUnwrapper(PATIENCE)
    assert unwrapper.accept(7, 50) == 7
    assert unwrapper.accept(7, 50 + PATIENCE) is None
    assert unwrapper.accept(7, 51 + PATIENCE) == 7 + 256


def test_a_reboot_is_reported_once_and_an_old_copy_soon_after_is_not():
    numbers = Numbers(PATIENCE)
    assert numbers.accept(3, 6, 9, 0) == (6, 9, 10, True, None, False)
    assert numbers.accept(3, 7, 0, 10) == (7, 0, 513, True, 6, False)
    assert numbers.accept(3, 6, 10, 11) == (6, 10, 11, False, None, False)
    assert numbers.accept(3, 7, 0, 12) == (7, 0, None, False, None, False)
    assert numbers.accept(3, 6, 11, 11 + PATIENCE + 1) == (14, 11, 1036, True, 7, False)  # seven boots later
    assert numbers.named(3, 513) == (7, 0)


@given(
    st.lists(st.tuples(st.integers(0, BOOTS - 1), st.integers(0, 5), st.integers(0, PATIENCE)), max_size=60)
)
def test_within_the_patience_each_message_comes_once_however_often_its_mote_boots(heard):
    """Up to seven boots, in any order, with copies: a boot count just heard does not mean eight boots later."""
    numbers, taken = Numbers(PATIENCE), set()
    for boot, field, now in sorted(heard, key=lambda one: one[2]):
        found = numbers.accept(3, boot, field, now, digest=7)
        assert (not found.number) == ((boot, field) in taken)
        taken.add((boot, field))


# ---- Motes that start anew ----

REGULAR = [(0, number % ROUND, 50 * number) for number in range(100, 200)]  # boot, field, tick


def after_regular(*heard):
    """The numbering of messages that a mote sends after a hundred at regular times."""
    mote = MoteBoots(0, REGULAR[0][2])
    for place, (boot, field, now) in enumerate(REGULAR):
        mote.accept(boot, field, now, PATIENCE, 1000 + place)
    return [mote.accept(*one, PATIENCE, 1 + place) for place, one in enumerate(heard)], mote


@given(gap=st.integers(1, ROUND), late=st.integers(-20, 20))
def test_a_message_after_an_outage_is_not_a_start(gap, late):
    """The mote goes on as it did: whatever number follows, the time fits it."""
    (found,), _ = after_regular((0, (199 + gap) % ROUND, 50 * (199 + gap) + late))
    assert found == (0, 199 + gap, False, False, False)


@pytest.mark.parametrize("field", range(FIRST))
@pytest.mark.parametrize("pause", [1, PATIENCE, 500, 50 * 1000])
def test_first_numbers_that_do_not_fit_the_time_are_a_start(field, pause):
    found, mote = after_regular((0, field, 50 * 199 + pause), (0, field + 1, 50 * 199 + pause + 50))
    assert found == [(BOOTS, field, False, True, True), (BOOTS, field + 1, False, False, False)]
    assert (mote.life, mote.first, mote.booted) == (BOOTS, field, 50 * 199 + pause)


@pytest.mark.parametrize(("boot", "field"), [(0, FIRST), (0, 100), (3, 0)])
def test_other_numbers_and_other_boots_are_not_a_start_from_0(boot, field):
    (found,), _ = after_regular((boot, field, 50 * 199 + 500))
    assert found == ((0, ROUND + field, False, False, False) if boot == 0 else (3, field, False, True, True))


def test_a_late_message_of_the_boot_before_keeps_its_number_though_others_know_of_the_new_boot():
    numbers = Numbers(PATIENCE)
    assert [numbers.accept(1, 0, field, 0).number for field in (58, 60)] == [59, 61]
    first = numbers.accept(1, 1, 0, 1).number
    assert numbers.accept(1, 0, 59, 2, known=first).number == 60


def test_names_from_others_do_not_move_the_numbers_of_a_mote_that_is_heard():
    """It cannot have sent a round of messages since; after a silence it can."""
    numbers = Numbers(PATIENCE)
    numbers.accept(1, 0, 5, 100)
    assert numbers.accept(1, 0, 6, 100 + PATIENCE, known=300).number == 7
    assert numbers.accept(1, 0, 7, 101 + 2 * PATIENCE, known=300).number == 8 + 256


@given(
    first=st.integers(0, 255),
    before=st.lists(st.integers(0, 100), max_size=5),
    at=st.integers(0, 1 << 40),
    after=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    boot=st.integers(0, 7),
)
def test_the_first_known_time_is_not_a_silence(first, before, at, after, boot):
    """A gateway that joins late may hear a frame, then the time, then a copy of that frame: still a copy."""
    numbers = Numbers(PATIENCE)
    assert numbers.accept(3, boot, first, UNTIMED).sequence == first
    seen = {first}
    for now, back in [*((UNTIMED, back) for back in before), *((at, back) for back in after)]:
        found = numbers.accept(3, boot, (first - back) % 256, now)
        assert (not found.number) == (first - back in seen)
        assert found.sequence == first - back
        seen.add(first - back)
    assert numbers.accept(3, boot, first, at + PATIENCE + 1).sequence == first + 256  # this is a silence


def test_an_older_boot_is_a_copy_also_if_the_time_became_known_meanwhile():
    numbers = Numbers(PATIENCE)
    assert numbers.accept(3, 6, 9, UNTIMED) == (6, 9, 10, True, None, False)
    assert numbers.accept(3, 5, 8, 1 << 40).before is None
    assert numbers.accept(3, 5, 7, (1 << 40) + PATIENCE + 1).before == 6  # seven boots later


@pytest.mark.parametrize("variants", [1, VARIANTS + 1])
def test_the_memory_of_a_mote_is_bounded(variants):
    """Eight boots of 256 numbers, however often it boots and however many senders use its id: 37 KB at most."""
    mote = MoteBoots(0, 0)
    found = []
    for message in range(40 * 300):
        for variant in range(variants):
            digest = message * variants + variant + 1
            mote.accept(message // 300 % BOOTS, message % 300 % ROUND, message, patience=64, digest=digest)
        if message % 300 == 299:
            found.append(size_of(mote, set()))
    assert len(mote.sequences) == len(mote.contents) == BOOTS
    assert max(found) < 37_000
    assert (
        max(found[BOOTS:]) < 1.02 * found[BOOTS - 1]
    )  # the numbers themselves get longer, by a digit in a while


# ---- A round of numbers lost in a silence ----


@given(st.integers(1, 100), st.integers(0, 20), st.integers(1, 20))
def test_after_a_whole_lost_round_an_overtaken_message_is_not_a_copy(before, more, back):
    """All bytes are equal. After the silence the first to come overtook others, whose fields came before it."""
    numbers, now = Numbers(PATIENCE), 0
    for field in range(before):
        now += 1
        assert numbers.accept(3, 0, field, now, digest=7).number
    first = before + more  # a round later, in truth
    now += PATIENCE + 1
    assert numbers.accept(3, 0, first % ROUND, now, digest=7).number
    behind = first - back
    if behind >= 0:
        assert numbers.accept(3, 0, behind, now, digest=7).number, "new"
        assert not numbers.accept(3, 0, behind, now, digest=7).number, "now it is a copy"
    assert not numbers.accept(3, 0, first % ROUND, now, digest=7).number, "and so is the first"


def test_a_message_from_before_a_silence_that_had_not_come_keeps_its_number():
    numbers = Numbers(PATIENCE)
    for field in (0, 1, 3):
        numbers.accept(3, 0, field, field, digest=7)
    assert numbers.accept(3, 0, 4, 10 + PATIENCE, digest=7).number == 5
    assert numbers.accept(3, 0, 2, 11 + PATIENCE, digest=7).number == 3


@given(st.integers(-(1 << 40), 1 << 40))
def test_a_jump_of_the_clock_makes_no_message_of_a_copy(jump):
    numbers = Numbers(PATIENCE)
    for field in range(5):
        numbers.accept(3, 0, field, 1000 + field, digest=field)
    numbers.shift(jump)
    for field in range(5):
        assert not numbers.accept(3, 0, field, 1010 + jump, digest=field).number
