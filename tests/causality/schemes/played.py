"""Small runs for the schemes to be played on, and the truth about each from the graph of its events."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from basestation.causality.order import Message
from basestation.causality.rules import Delivery, Rule
from basestation.causality.schemes import Scheme
from tests.causality.runs import ARRIVE, RECEIVE, SEND, Run, Step, legal_runs


@dataclass
class Played:
    """Deliveries with the messages' numbers, and what was discarded."""

    run: Run
    messages: list[Message]
    deliveries: list[Delivery]
    thrown_away: list[Message]

    @property
    def order(self) -> list[int]:
        number = {(m.source, m.sequence): i for i, m in enumerate(self.messages)}
        return [number[d.message.source, d.message.sequence] for d in self.deliveries]

    @property
    def left(self) -> dict[int, int]:
        return {number: d.left for number, d in zip(self.order, self.deliveries, strict=True)}

    def violated(self) -> set[tuple[int, int]]:
        """(cause, effect) delivered the wrong way round."""
        place = {message: i for i, message in enumerate(self.order)}
        return {
            (cause, effect)
            for effect, causes in enumerate(self.run.reachable())
            for cause in causes
            if cause in place and effect in place and place[effect] < place[cause]
        }

    @property
    def gave_up(self) -> list[int]:
        return [n for n, d in zip(self.order, self.deliveries, strict=True) if d.missing]

    @property
    def concurrent(self) -> list[int]:
        return [n for n, d in zip(self.order, self.deliveries, strict=True) if d.concurrent]

    @property
    def discarded(self) -> list[int]:
        number = {(m.source, m.sequence): i for i, m in enumerate(self.messages)}
        return [number[m.source, m.sequence] for m in self.thrown_away]


def stamped(run: Run, method: Scheme) -> list[Message]:
    programs = [method.start(mote) for mote in range(run.motes)]
    sequence = [0] * run.motes
    messages: list[Message] = []
    for step in run.steps:
        if step.kind == SEND:
            sequence[step.process] += 1
            number = sequence[step.process]
            stamp = programs[step.process].on_send(step.clock, number)
            messages.append(Message(step.process, number, stamp))
        elif step.kind == RECEIVE:
            programs[step.process].on_receive(step.clock, [messages[m] for m in step.messages])
    return messages


def play(run: Run, method: Scheme, rule: Rule | None = None) -> Played:
    """Deliver after each batch, and the rest at the end."""
    messages, thrown_away = stamped(run, method), []
    rule = rule or method.rule()
    out: list[Delivery] = []
    for step in run.steps:
        if step.kind == ARRIVE:
            for message in step.messages:
                if not rule.receive(messages[message], step.clock):
                    thrown_away.append(messages[message])
            out += rule.due(step.clock)
    while (at := rule.next_due()) is not None:
        out += rule.due(at)
    return Played(run, messages, out, thrown_away)


@st.composite
def lossless_runs(draw) -> Run:
    """Everything that was sent reaches the observer in the end, however late and in whatever order."""
    run = draw(legal_runs())
    arrived = {message for step in run.steps if step.kind == ARRIVE for message in step.messages}
    clock = max((step.clock for step in run.steps), default=0)
    for message in draw(st.permutations(sorted(set(range(len(run.sent))) - arrived))):
        run.steps.append(Step(ARRIVE, run.motes, clock, (message,)))
    return run


@st.composite
def serial_runs(draw) -> Run:
    """No two messages are concurrent: a sender has received all messages before. They arrive in any order."""
    motes = draw(st.integers(2, 4))
    run = Run(motes, epsilon=1, delta=1)
    for sender in draw(st.lists(st.integers(0, motes - 1), max_size=12)):
        clock = len(run.sent)
        message = len(run.sent)
        run.steps.append(Step(SEND, sender, clock, (message,)))
        run.sent.append((sender, clock))
        run.steps += [Step(RECEIVE, peer, clock, (message,)) for peer in range(motes) if peer != sender]
    for message in draw(st.permutations(range(len(run.sent)))):
        run.steps.append(Step(ARRIVE, motes, len(run.sent), (message,)))
    return run


@st.composite
def one_clock_runs(draw, lossless: bool = False) -> Run:
    """BMR's world: all read one clock, and in each of its ticks there is at most one event on the motes.

    Some messages reach the observer too late and some never; `lossless`: all do, and in time.
    """
    run = Run(draw(st.integers(2, 4)), epsilon=0, delta=draw(st.integers(2, 14)))
    received: set[tuple[int, int]] = set()
    arrivals: dict[int, list[int]] = {}
    delays = st.integers(1, run.delta) if lossless else st.integers(0, run.delta + 3)
    action = st.tuples(st.booleans(), st.integers(0, run.motes - 1), st.integers(0, 9), delays)
    actions = draw(st.lists(action, max_size=50))
    for clock in range(len(actions) + run.delta + 4):
        if clock < len(actions):
            sends, mote, pick, delay = actions[clock]
            open_ = [m for m, (by, _) in enumerate(run.sent) if by != mote and (mote, m) not in received]
            if sends:
                run.steps.append(Step(SEND, mote, clock, (len(run.sent),)))
                if delay:
                    arrivals.setdefault(clock + delay, []).append(len(run.sent))
                run.sent.append((mote, clock))
            elif open_:
                message = open_[-1 - pick % len(open_)]
                received.add((mote, message))
                run.steps.append(Step(RECEIVE, mote, clock, (message,)))
        if clock in arrivals:
            run.steps.append(Step(ARRIVE, run.motes, clock, tuple(arrivals[clock])))
    return run


def script(motes: int, epsilon: int, delta: int, *lines: str) -> Run:
    """A run written out: "5 a: send" is message 0, the next send 1; "6 b: 0" receives; the observer is o."""
    run = Run(motes, epsilon, delta)
    for line in lines:
        where, what = line.split(": ")
        clock, who = where.split()
        process = motes if who == "o" else ord(who) - ord("a")
        if what == "send":
            run.steps.append(Step(SEND, process, int(clock), (len(run.sent),)))
            run.sent.append((process, int(clock)))
        else:
            taken = tuple(int(number) for number in what.split())
            run.steps.append(Step(ARRIVE if who == "o" else RECEIVE, process, int(clock), taken))
    return run
