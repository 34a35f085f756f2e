"""`basestation plan`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from basestation.cli import common, describe, life_table, simulate
from basestation.cli.plan import command
from basestation.doctor import check_deployment
from basestation.planning.budget import PlannedNetwork, make_budget
from basestation.planning.life import life_of
from basestation.planning.trade import Trade, TradeRow
from packet_formats import deployment as deployments
from packet_formats.layout import layout_of

SMALL = ["--motes", "8", "--hops", "2", "--rate", "2", "--messages", "800", "--seeds", "1"]


def run(*args: str) -> Result:
    return CliRunner().invoke(command, [*SMALL, *args])


def lines(*args: str) -> list[dict[str, object]]:
    result = run("--json", *args)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_is_a_budget_rows_and_a_choice() -> None:
    found = lines()
    kinds = [line["kind"] for line in found]
    assert kinds == ["budget", *["row"] * (len(found) - 2), "choice"]
    budget, arrival, *rows, choice = found
    assert {"delta", "epsilon", "tick_ms", "delay", "channel_load"} <= budget.keys()
    assert (arrival["policy"], arrival["scheme"], arrival["hold"]) == (
        "none",
        None,
        {"mean": 0.0, "p95": 0.0},
    )
    assert {row["policy"] for row in rows} >= {"cbd"}
    assert [row for row in rows if row["chosen"]] == [
        {key: choice[key] for key in rows[0] if key != "kind"} | {"kind": "row"}
    ]
    assert choice["upper_bound_percent"] == pytest.approx(300 / float(str(choice["delivered"])))


def test_the_same_seed_gives_the_same_answer() -> None:
    assert lines() == lines()


def test_the_table_marks_the_choice_and_fits_the_terminal() -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout.count("*0") == 1
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 110
    for words in (
        "airtime",
        "initial backoff",
        "epsilon",
        "Arrival order (policy none)",
        "95% confidence",
        "--guaranteed",
        "no counter is full: none was in these runs",
        "shlc 2 does as well",
    ):
        assert words in result.stdout


def test_it_says_where_a_full_counter_has_little_room_and_what_more_would_cost() -> None:
    said = " ".join(run("--epsilon", "2", "--delta", "27", "--tick-log2", "8").stdout.split())
    assert "shlc: B = 32 leaves a full counter 0 of epsilon = 2 ticks to carry into the clock" in said
    assert "clock_bits = 6 in [clock] would leave all of them, and shlc 3 would take a byte more." in said
    assert "shlc: B" not in run("--epsilon", "2", "--delta", "25", "--tick-log2", "8").stdout


@pytest.mark.parametrize("rate", ["2", "6"])
def test_tables_fit_80_columns(rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common.out, "width", 80)
    result = run("--hops", "1", "--rate", rate)
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    for phi in ("phi 0", "phi 10", "phi 100"):
        assert phi in result.stdout


def test_the_command_it_prints_gives_the_same_figures() -> None:
    choice = lines("--tolerate", "0.5")[-1]
    said = str(choice["simulate"]).split()
    assert said[:2] == ["basestation", "simulate"]
    result = CliRunner().invoke(simulate.command, [*said[2:], "--json"])
    assert result.exit_code == 0, result.output
    (found,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert found["violations"] == pytest.approx(choice["violations"])
    assert found["delay"]["mean"] == pytest.approx(choice["hold"]["mean"])  # type: ignore[index]
    assert (found["stamp_bits"], found["saturated"]) == (choice["stamp_bits"], choice["saturated"])
    typed = run("--tolerate", "0.5").stdout
    typed = typed.split("networks again:\n")[1].replace("\\\n", " ")
    assert typed.split() == said


def test_the_ledger_is_in_the_table() -> None:
    rows = [row for row in lines("--tolerate", "1") if row["kind"] == "row"]
    assert {row["tolerate"] for row in rows if row["policy"] == "ledger"} == {1.0}
    assert "tolerate 1" in run("--tolerate", "1").stdout


def test_toml_is_what_describe_takes(tmp_path: Path) -> None:
    path = tmp_path / "field.toml"
    choice = lines("--toml", str(path), "--receipts", "1")[-1]
    described = CliRunner().invoke(describe.command, ["--json", str(path)])
    assert described.exit_code == 0
    plain = json.loads(described.stdout)
    assert (plain["name"], plain["stamp_bits"], plain["payload_left"]) == (
        "field",
        choice["stamp_bits"],
        choice["payload_left"],
    )
    assert plain["deployment"]["observer"] == {"policy": choice["policy"], "phi": choice["phi"]}
    assert "# airtime" in path.read_text()


def test_a_plan_with_a_key_says_that_it_is_to_be_made(tmp_path: Path) -> None:
    """Its file has the name of the deployment's."""
    done = run("--toml", str(tmp_path / "site.toml"), "--mic", "4")
    assert (done.exit_code, f"basestation key new {tmp_path / 'site.key'}" in done.stderr) == (0, True)
    assert deployments.load(tmp_path / "site.toml").security.key == "site.key"
    odd = run("--toml", str(tmp_path / "my site.toml"), "--mic", "4")
    assert (odd.exit_code, "the network is named after the file, my site" in odd.stderr) == (2, True)


def test_guaranteed_takes_what_cannot_err() -> None:
    choice = lines("--guaranteed")[-1]
    assert (choice["scheme"], choice["phi"], choice["guaranteed"]) == ("shlc", 100, True)
    assert run("--guaranteed").stdout.count("*0") == 1


@pytest.mark.parametrize("name", ["plan.png", pytest.param("plan.svg", marks=pytest.mark.wide)])
def test_plot(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    assert run("--plot", str(path)).exit_code == 0
    assert path.stat().st_size > 5000


def test_nothing_good_enough_is_a_fault_with_the_nearest() -> None:
    settings = ["--guaranteed", "--data-bytes", "25", "--tick-log2", "5"]
    result = run(*settings)
    assert result.exit_code == 1
    assert "no stamp that fits has at most 0% violations; nearest:" in result.stderr
    found = [json.loads(line) for line in run("--json", *settings).stdout.splitlines()]
    assert not found[-1]["found"]
    assert found[-1]["nearest"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--hops", "9"], "9 hops need a mote at each"),
        (["--rate", "0"], "0<x<=1000"),
        (["--rate", "nan"], "not a usable number"),
        (["--margin", "nan"], "not a usable number"),
        (["--epsilon", "32767"], "wide enough"),
        (["--data-bytes", "27"], "leaves none for a stamp"),
        (["--plot", "x.txt"], "must end in .png"),
        (["--tolerate", "-1"], "--tolerate"),
        (["--board", "telos"], "--board"),
        (["--epsilon", "0"], "--epsilon"),
        (["--toml", "two words.toml"], "named after the file"),
        (["--toml", "no/such/folder/x.toml"], "there is no folder no/such/folder"),
        (["--plot", "no/such/folder/x.png"], "there is no folder no/such/folder"),
        (["--messages", "1000000000"], "messages = "),
    ],
)
def test_bad_values_are_wrong_usage(args: list[str], words: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "phi" not in result.stdout  # said before anything is simulated


def test_without_matplotlib_a_plot_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "basestation.planning.plan_plot", None)
    result = run("--plot", "x.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "pip install '.[analysis]'" in result.stderr


def test_an_overfull_channel_is_refused_after_its_budget() -> None:
    result = run("--board", "mica2", "--rate", "20")
    assert result.exit_code == 1
    assert "Delay budget" in result.stdout
    assert "the channel would be busy" in result.stderr


def test_a_crowded_channel_is_warned_of() -> None:
    result = run("--board", "mica2", "--rate", "2")
    assert "Warning: the channel is busy" in result.stderr


def test_help_has_examples() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "basestation plan --motes 20 --hops 3 --rate 0.5" in result.stdout


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "precious.toml"
    path.write_text("mine")
    result = run("--toml", str(path))
    assert result.exit_code == 2
    assert path.read_text() == "mine"


YEAR = ["--motes", "6", "--hops", "2", "--rate", "0.1", "--seeds", "1", "--messages", "400"]


def test_a_life_in_days_chooses_the_shortest_period_that_lasts(tmp_path: Path) -> None:
    toml, picture = tmp_path / "field.toml", tmp_path / "field.png"
    asked = [*YEAR, "--days", "300", "--toml", str(toml), "--plot", str(picture)]
    result = CliRunner().invoke(command, [*asked, "--json"])
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    lives = [line for line in found if line["kind"] == "life"]
    assert [life["period_ms"] for life in lives] == [0, 2000, 4000, 8000, 16000, 32000, 64000]
    days = [life["worst_days"] for life in lives]
    assert days == sorted(days)
    chosen = next(life for life in lives if life["chosen"])
    assert chosen is next(life for life in lives if life["worst_days"] >= 300)
    assert chosen["delta_ms"] >= chosen["window_ms"] - 1
    assert chosen["arrival"]["violations"]["mean"] > chosen["shortest"]["violations"]["mean"] == 0
    assert chosen["barrier"]["hold_ms"] < chosen["whole"]["hold_ms"] / 2
    life = found[-1]
    assert (life["kind"], life["model"], life["period_ms"]) == ("chosen_life", True, chosen["period_ms"])
    assert sum(life["parts"].values()) == pytest.approx(life["ma"])
    assert "first round" in life["parts"]
    described = deployments.load(toml)
    assert described.radio.period_ms == chosen["period_ms"]
    assert described.schedule is not None
    assert picture.stat().st_size > 10_000


def test_urgent_windows_that_cannot_be_are_refused_or_said() -> None:
    refused = CliRunner().invoke(command, [*YEAR, "--hops", "5", "--period-ms", "16000", "--urgent", "2"])
    assert refused.exit_code == 2
    assert "--urgent is for networks of 3 hops at most" in refused.stderr
    shown = CliRunner().invoke(command, [*YEAR, "--period-ms", "16000", "--urgent", "16"])
    assert shown.exit_code == 0
    assert "no windows of their own" in " ".join(shown.stdout.split())


def test_a_rate_that_is_not_the_stock_app_s_is_said(tmp_path: Path) -> None:
    def told(rate: str) -> str:
        asked = [*YEAR, "--rate", rate, "--period-ms", "16000", "--toml", str(tmp_path / f"{rate}.toml")]
        return " ".join(CliRunner().invoke(command, asked).stderr.split())

    assert "MOTE_PERIOD" not in told("0.1")
    assert '-D MOTE_PERIOD=655360" pio run' in told("0.05")


def test_urgent_windows_are_written_and_their_price_is_shown(tmp_path: Path) -> None:
    toml = tmp_path / "field.toml"
    asked = [*YEAR, "--period-ms", "16000", "--urgent", "2"]
    result = CliRunner().invoke(command, [*asked, "--toml", str(toml), "--json"])
    assert result.exit_code == 0, result.output
    life = json.loads(result.stdout.splitlines()[-1])
    assert (life["urgent_ms"], life["urgent_costs_days"] > 5) == (2000, True)
    assert 2000 < life["urgent_wait_ms"] < 3000
    assert deployments.load(toml).radio.urgent_ms == 2000
    shown = " ".join(CliRunner().invoke(command, asked).stdout.split())
    assert f"Urgent messages: {life['urgent_wait_ms'] / 1000:.1f} s at most to the gateway" in shown


def test_a_life_that_no_period_gives_is_refused_with_the_best() -> None:
    result = CliRunner().invoke(command, [*YEAR, "--days", "9000"])
    assert result.exit_code == 1
    assert "no period lasts 9000 days: with the best, 64 s, the motes at hop" in result.stderr
    assert "a model's, not measured" in result.stdout
    assert "always on" in result.stdout


def test_a_network_without_any_period_has_no_hop_that_lasts_least() -> None:
    """Always on, all motes are alike: nobody knows a hop 0."""
    network = PlannedNetwork(motes=6, board="micaz", rate=0.1, hops=2)
    row = TradeRow(0, make_budget(network), life_of(network, None), None)  # type: ignore[arg-type]
    told = life_table.too_short(Trade((row,), {}), 180, urgent=False)
    assert "with the best, always on, all motes last 5;" in told


def test_plan_and_doctor_say_the_same_days(tmp_path: Path) -> None:
    """With a stamp of fixed length, and with one that is longer the more it names."""
    for number, wish in enumerate(([], ["--quickest"])):
        toml = tmp_path / f"{number}.toml"
        asked = [*YEAR, "--period-ms", "16000", "--toml", str(toml), *wish, "--json"]
        result = CliRunner().invoke(command, asked)
        assert result.exit_code == 0, result.output
        life = json.loads(result.stdout.splitlines()[-1])
        deployment = deployments.load(toml)
        assert layout_of(deployment).stamp.is_variable == bool(wish)
        *_, finding = check_deployment.examine(deployment, 0.1)
        days = f"{life['days']:.0f} days, {life['worst_days']:.0f} at hop {life['worst_hop']}"
        assert f"5% of frames lost on a link two AA cells last about {days}" in finding.text


def test_periods_that_bring_more_than_a_mote_may_send_are_not_chosen() -> None:
    """At 0.2 messages a second 32 s bring 6.4, and a window takes 6."""
    often = ["0.2" if word == "0.1" else word for word in YEAR]
    result = CliRunner().invoke(command, [*often, "--days", "9000", "--json"])
    found = [json.loads(line) for line in result.stdout.splitlines()]
    possible = {life["period_ms"]: life["possible"] for life in found if life["kind"] == "life"}
    assert possible == {0: True, 2000: True, 4000: True, 8000: True, 16000: True, 32000: False, 64000: False}
    assert "a mote makes 6.4 messages in a period and sends at most 6 in a window" in found[-2]["reason"]
    result = CliRunner().invoke(command, [*often, "--period-ms", "32000"])
    assert result.exit_code == 0
    assert "Warning: a mote makes 6.4 messages in a period" in result.stderr


def test_a_given_period_is_planned_for() -> None:
    result = CliRunner().invoke(command, [*YEAR, "--period-ms", "16000"])
    assert result.exit_code == 0, result.output
    assert "4 rounds of 2 phases of" in result.stdout
    assert "ms, every 16 s" in result.stdout
    assert "Life with this stamp" in result.stdout


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--days", "100", "--period-ms", "8000"], "leave --period-ms away"),
        (["--urgent", "2"], "--urgent needs --days or --period-ms"),
        (["--period-ms", "8000", "--foreign-gateway"], "a gateway that acknowledges"),
    ],
)
def test_impossible_schedules_are_refused(args: list[str], reason: str) -> None:
    result = CliRunner().invoke(command, [*YEAR, *args])
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


def test_without_numba_doctor_works_and_plan_names_the_extra(root: Path) -> None:
    program = (
        "import sys; sys.modules['numba'] = None\n"
        "import basestation.doctor.check_deployment, basestation.cli.doctor\n"
        "from basestation.cli import main\n"
        "sys.exit(main(['plan', '--motes', '8', '--rate', '2']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "this command needs numba, which is not installed" in done.stderr
    assert "pip install '.[analysis]'" in done.stderr
