"""Small runs of a network that keep G1 and G2, for the programs and the truth to be stepped through."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

SEND, RECEIVE, ARRIVE = "send", "receive", "arrive"


@dataclass(frozen=True)
class Step:
    """One event: a send of `messages[0]`, or a receive event of a mote or the observer that brings `messages`."""

    kind: str
    process: int
    clock: int
    messages: tuple[int, ...]


@dataclass
class Run:
    motes: int
    epsilon: int
    delta: int
    steps: list[Step] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)  # (mote, clock)

    def reachable(self) -> list[set[int]]:
        """For each message, the messages whose send can be reached backwards from its send, over the events' graph."""
        parents: list[list[int]] = []
        last_of = [-1] * (self.motes + 1)
        send_event: dict[int, int] = {}
        for event, step in enumerate(self.steps):
            before = [last_of[step.process]] if last_of[step.process] >= 0 else []
            if step.kind == SEND:
                send_event[step.messages[0]] = event
            else:
                before += [send_event[message] for message in step.messages]
            parents.append(before)
            last_of[step.process] = event
        message_of = {event: message for message, event in send_event.items()}
        causes = []
        for message in range(len(self.sent)):
            seen: set[int] = set()
            todo = list(parents[send_event[message]])
            while todo:
                event = todo.pop()
                if event not in seen:
                    seen.add(event)
                    todo += parents[event]
            causes.append({message_of[event] for event in seen if event in message_of})
        return causes


@st.composite
def legal_runs(draw, most_steps: int = 60) -> Run:
    run = Run(draw(st.integers(2, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 5)))
    clock = [0] * (run.motes + 1)
    taken: set[tuple[int, int]] = set()
    action = st.tuples(
        st.sampled_from(["tick", "tick", SEND, RECEIVE]), st.integers(0, run.motes), st.integers(0, 7)
    )
    for kind, process, pick in draw(st.lists(action, max_size=most_steps)):
        if kind == "tick" and clock[process] + 1 - min(clock) <= run.epsilon:
            clock[process] += 1
        elif kind == SEND and process < run.motes:
            run.steps.append(Step(SEND, process, clock[process], (len(run.sent),)))
            run.sent.append((process, clock[process]))
        elif kind == RECEIVE:
            # G2: a message can be received while its sender's clock is at most delta beyond the send.
            open_ = [
                message
                for message, (sender, at) in enumerate(run.sent)
                if sender != process and clock[sender] <= at + run.delta and (process, message) not in taken
            ]
            chosen = tuple(message for i, message in enumerate(open_) if i == pick or i & pick & 1)
            if chosen:
                taken |= {(process, message) for message in chosen}
                name = RECEIVE if process < run.motes else ARRIVE
                run.steps.append(Step(name, process, clock[process], chosen))
    return run
