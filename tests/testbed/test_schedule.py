"""The real images under a schedule on the emulated ether: what arrives, in which order, and how long motes listen."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from basestation.cli.testbed import command
from basestation.testbed.truth_log import RecordedEvent, Uart, read
from packet_formats.deployment import CRYSTAL_HZ, Deployment, load
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.tinyos import ActiveMessage, decode_packet
from tests.testbed.test_run import _tools  # noqa: F401
from tools.tables import power_runs, urgent

pytestmark = pytest.mark.wide


def run(site: Path, *args: object) -> dict[str, Any]:
    words = ["--json", "--rate", "0.1", "--energy-from", "60", *map(str, args)]
    result = CliRunner().invoke(command, [str(site), *words], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)["networks"][0]
    assert found["order"]["broken"] == 0
    assert found["delivered"]["inverted"] == 0
    assert found["delay"]["beyond"] == 0
    return found


def test_motes_sleep_and_messages_arrive_in_order(root):
    found = run(root / "examples/micaz_months.toml", "--motes", 6, "--seconds", 96, "--seed", 3)
    fates = found["fates"]
    assert fates["stamped"] > 6 * 70 / 10
    assert fates["arrived"] >= fates["stamped"] - 3  # the run may end in a window
    assert all(0 < mote["duty"] < 0.03 for mote in found["energy"]["motes"])


def test_mica2_send_in_pairs(root):
    """Fewer frames than messages and their copies: two go out in one."""
    found = run(root / "examples/mica2_months.toml", "--motes", 4, "--seconds", 100, "--seed", 3)
    fates = found["fates"]
    assert fates["stamped"] > 4 * 60 / 10
    assert fates["arrived"] >= fates["stamped"] - 2  # the run may end in a window
    assert found["transmissions"] < fates["stamped"] + fates["relayed"]
    assert all(0 < mote["duty"] < 0.06 for mote in found["energy"]["motes"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_ten_mica2_live_for_five_months(root, seed):
    found = run(root / "examples/mica2_months.toml", "--seconds", 3600, "--seed", seed)
    fates, days = found["fates"], [mote["days"] for mote in found["energy"]["motes"]]
    assert fates["arrived"] >= 0.99 * fates["stamped"]
    assert len(days) / sum(1 / each for each in days) > 200
    assert min(days) > 150


@pytest.mark.slow
def test_ten_motes_live_for_half_a_year(root):
    found = run(root / "examples/micaz_months.toml", "--seconds", 660, "--seed", 3)
    fates = found["fates"]
    assert fates["arrived"] >= 0.99 * fates["stamped"]
    assert min(mote["days"] for mote in found["energy"]["motes"]) > 170


@pytest.mark.slow
@pytest.mark.parametrize("board", ["micaz", "mica2"])
def test_urgent_messages_do_not_wait_for_the_window(board):
    """On the grid of ten. A message that no mote forwarded waits for repair: none of a MICAz's, few of a MICA2's."""
    without, often = (field._replace(seconds=1200.0) for field in urgent.FIELDS if field.board == board)
    schedule = urgent.deployment_of(often).schedule
    assert schedule is not None
    plain, found = urgent.run(without, 1), urgent.run(often, 1)
    assert (plain.power.violations, found.power.violations) == (0, 0)
    assert found.urgent >= 20
    assert len(found.delays) == found.urgent
    in_time = [delay for delay in found.delays if delay < schedule.urgent_wait_ms / 1000]
    assert len(in_time) >= (1.0 if board == "micaz" else 0.9) * found.urgent
    assert sum(found.delays) < sum(plain.delays) / 2
    assert found.power.arrived >= 0.99 * found.power.stamped
    assert 0.6 * plain.power.days < found.power.days < plain.power.days
    assert power_runs.modelled(often).days == pytest.approx(found.power.days, rel=0.2)


# Faults: begin and length in seconds, and the period after which all motes are heard again.
FAULTS: tuple[tuple[str, float, float, dict[str, Any], int], ...] = (
    ("reset", 200, 0, {"mote": 2}, 2),
    ("restart", 300, 40, {"mote": 5}, 2),
    ("jam", 420, 30, {}, 2),
    ("brownout", 560, 0.5, {"mote": 3}, 2),
    ("reset", 660, 0, {"mote": "root"}, 2),
    ("restart", 780, 100, {"mote": "root"}, 2),  # a mote succeeds
    ("cut", 1080, 280, {}, 2),  # in two halves, of which one has a successor
)
HALVES = [[near, far] for near in (0, 1, 2, 3, "gateway") for far in range(4, 10)]
FAULTS_END = 1560


def timeline() -> str:
    tables = []
    for what, at, seconds, more, _ in FAULTS:
        if what == "cut":
            tables += [{"at": at, "do": "cut", "between": pair} for pair in HALVES]
            tables += [{"at": at + seconds, "do": "heal", "between": pair} for pair in HALVES]
        else:
            tables.append({"at": at, "do": what, **({"seconds": seconds} if seconds else {}), **more})
    return "".join(
        "[[fault]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for table in tables
    )


class Told:
    """What motes sent and what came to the gateway, each with its time in seconds."""

    def __init__(self, truth: Path, deployment: Deployment) -> None:
        self.sent: dict[tuple[int, int, int], float] = {}
        self.came: dict[tuple[int, int, int], float] = {}
        self.heard: list[tuple[float, int]] = []
        boots: dict[int, int] = {}
        decoder, layout = FrameDecoder(), layout_of(deployment)
        for event in read(truth):
            at = event.t / 1e9
            if isinstance(event, Uart):
                for packet in map(decode_packet, decoder.feed(event.bytes)):
                    message = decode_message(packet, layout) if isinstance(packet, ActiveMessage) else None
                    if isinstance(message, Data):
                        self.came[message.source, message.boot, message.sequence] = at
                        self.heard.append((at, message.source))
            elif isinstance(event, RecordedEvent) and event.kind == "boot":
                boots[event.node] = event.sequence % 8
            elif isinstance(event, RecordedEvent) and event.kind == "send":
                self.sent[event.node, boots[event.node], event.sequence] = at

    def sources(self, begin: float, end: float) -> set[int]:
        return {source for at, source in self.heard if begin <= at < end}


@pytest.mark.slow
@pytest.mark.parametrize("key", [False, True], ids=["", "key"])
def test_faults_cost_what_they_take_and_at_most_two_periods(root, tmp_path, key):
    """Outside of these, 99.5% arrive; nothing is ever out of order."""
    text = (root / "examples/micaz_months.toml").read_text()
    if key:
        text += '\n[security]\nmic = 4\nkey = "site.key"\n'
        (tmp_path / "site.key").write_text("000102030405060708090a0b0c0d0e0f\n")
        (tmp_path / "site.key").chmod(0o600)
    site, truth = tmp_path / "site.toml", tmp_path / "truth"
    site.write_text(text)
    (tmp_path / "faults.toml").write_text(timeline())
    run(site, "--seconds", FAULTS_END, "--seed", 1, "--faults", tmp_path / "faults.toml", "--truth", truth)
    deployment = load(site)
    assert deployment.schedule is not None
    told, period = Told(truth, deployment), deployment.schedule.period / CRYSTAL_HZ
    everyone = set(range(deployment.network.motes))
    troubled = []
    for what, at, seconds, _, periods in FAULTS:
        back = at + seconds + (periods - 1) * period
        window = deployment.schedule.end / CRYSTAL_HZ  # the period may begin within one
        assert told.sources(back, back + period + window) == everyone, what
        troubled.append((at - 1, back + period))
    calm = [
        name
        for name, at in told.sent.items()
        if at < FAULTS_END - period and not any(begin <= at < end for begin, end in troubled)
    ]
    assert len(calm) > 700
    assert len([name for name in calm if name in told.came]) >= 0.995 * len(calm)
