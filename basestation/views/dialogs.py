"""The dialogs of the full screen: help and questions. While one is open, keys act on the dialog only."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from basestation.live.counters import Snapshot
from basestation.views.lines import shown_policy
from packet_formats.schemes import LEDGER

PHI_STEP = 5
TOLERATE_STEP = 0.1
PHI_POLICIES = ("dapw", "cbd")

KEYS = (
    ("p", "pause the picture; nothing is lost meanwhile"),
    ("↑ ↓", "choose a mote; page up and page down go faster; Esc: none"),
    ("f", "show only the chosen mote, or all again"),
    ("b r R", "the chosen mote: blink, report its health, reboot (asks first)"),
    ("+ -", "raise or lower phi by five per cent, or what the ledger tolerates by a tenth (asks first)"),
    ("o", "the next policy that the stamp allows (asks first)"),
    ("?", "open this help; Esc closes it"),
    ("q", "quit"),
)
WORDS = (
    "Motes, those in trouble first: messages per second, received, lost, dup(licates), late, held now; p95: 95% of the "
    "messages were held at most this long, in ms; boot: restarts; nosync: messages sent or heard without network time; "
    "sat: saturated stamps; mV: battery, 5d: at 2.7 V in 5 days at this rate; duty: radio on, and "
    "the days that full cells last at this duty; hop: distance from the root; "
    "rssi: dBm at the gateway, r: of a relay, ?: perhaps of a relay; last: since its last message; state: its gravest "
    "alarm.",
    "Arrivals: messages as they come. Deliveries: messages as they are delivered, and how long each was held. ↑3: "
    "delivered three places earlier than it arrived, ↓3: three later; late: it came after its deadline; no time: "
    "delivered on arrival, since it had no network time; ∥: delivered after a concurrent message; ? tentative: it "
    "waits for messages by name, and stands where it would be delivered if no more came.",
    "Out of order: ≥ 2 ≤ 5 means that stamps or receipts prove two, and may hide three more.",
)


class Help(ModalScreen[None]):
    """Explains keys, columns and marks."""

    CSS = """
    Help { align: center top; }
    #help { height: auto; max-height: 100%; width: 100%; max-width: 90; border: round $accent; padding: 0 1;
            background: $surface; }
    #help Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "dismiss", "Close"),
        Binding("ctrl+c", "app.quit", "Quit", show=False),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(_explained())


def _explained() -> Group:
    keys = Table.grid(padding=(0, 2, 0, 0))
    for key, meaning in KEYS:
        keys.add_row(Text(key, "bold"), meaning)
    return Group(keys, *(f"\n{words}" for words in WORDS))


class Question(ModalScreen[bool]):
    """A question: Enter or y is yes; n, q and Esc are no."""

    CSS = """
    Question, PolicyQuestion { align: center middle; }
    #question { height: auto; width: 100%; max-width: 76; border: round $accent; padding: 0 1; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
        Binding("ctrl+c", "app.quit", "Quit", show=False),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(self.words(), id="question", markup=False)

    def words(self) -> str:
        return f"{self._text}\n\nEnter or y: yes. Esc or n: no."

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Proposal(NamedTuple):
    """A policy with its phi, or with the ledger's tolerance."""

    policy: str
    phi: int
    tolerate: float | None = None

    @classmethod
    def of(cls, shot: Snapshot) -> Proposal:
        return cls(shot.policy, shot.phi, shot.tolerate)

    @property
    def has_steps(self) -> bool:
        return self.policy in (*PHI_POLICIES, LEDGER)

    def stepped(self, step: int) -> Proposal:
        """The wait, longer or shorter by `step` steps; unchanged for a policy without a setting."""
        if self.policy == LEDGER:
            tolerate = (self.tolerate or 0.0) + TOLERATE_STEP * step
            return self._replace(tolerate=round(min(100.0, max(0.0, tolerate)), 3))
        if self.policy in PHI_POLICIES:
            return self._replace(phi=min(100, max(0, self.phi + PHI_STEP * step)))
        return self

    def turned(self, policies: tuple[str, ...]) -> Proposal:
        """The next policy that the stamp allows."""
        after = policies[(policies.index(self.policy) + 1) % len(policies)]
        return Proposal(after, self.phi, 0.0 if after == LEDGER else None)

    def __str__(self) -> str:
        return shown_policy(*self) if self.has_steps else self.policy


class PolicyQuestion(Question):
    """Asks whether to change the policy of a run. The keys that opened the question change the proposal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "step(1)", show=False),
        Binding("minus", "step(-1)", show=False),
        Binding("o", "turn", show=False),
    ]

    def __init__(self, shot: Snapshot, proposal: Proposal) -> None:
        super().__init__("")
        self._now, self._policies = Proposal.of(shot), shot.policies
        self.proposal = proposal

    def words(self) -> str:
        return (
            f"Deliver by {self.proposal} from now on?\nSo far: {self._now}.\n\n"
            "+ - and o change the proposal. Enter or y: yes. Esc or n: no."
        )

    def action_step(self, step: int) -> None:
        self._propose(self.proposal.stepped(step))

    def action_turn(self) -> None:
        self._propose(self.proposal.turned(self._policies))

    def _propose(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.query_one("#question", Static).update(self.words())
