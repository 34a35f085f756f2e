"""`basestation simulate`: its lines, its refusals, its trace."""

import json
import re

import pytest
from click.testing import CliRunner

from basestation.cli.simulate import command
from basestation.traces.files import read_trace

QUICK = ["--messages", "800"]


def run(*args):
    return CliRunner().invoke(command, [*QUICK, *args])


def rows(*args):
    result = run("--json", *args)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_one_line_for_each_scheme_policy_and_phi():
    asked = [
        "--scheme",
        "kn",
        "--scheme",
        "shlc",
        "--policy",
        "dapw",
        "--policy",
        "cbd",
        "--phi",
        "100",
        "--phi",
        "40",
    ]
    found = [(row["scheme"], row["policy"], row["phi"]) for row in rows(*asked)]
    assert found == [(s, p, phi) for s in ("kn", "shlc") for p in ("dapw", "cbd") for phi in (100, 40)]


def test_a_line_has_what_scripts_rely_on():
    (row,) = rows("--scheme", "kn", "--stamp", "entries=2", "--seed", "9")
    assert row["entries"] == 2
    assert row["seed"] == 9
    assert row["messages"] == 800
    assert row["delivered"] <= 800
    assert row["stamp_bits"] == 5 + 4 + 2 * 4
    assert set(row["violations"]) == {"pairs", "backward", "forward", "mean", "any", "related"}
    assert {"mean", "p95", "p99"} <= set(row["delay"])
    assert {"max_c", "max_kn", "saturated", "wrong_unwraps", "arrival_order"} <= set(row)
    both = (row["violations"]["backward"] + row["violations"]["forward"]) / 2
    assert row["violations"]["mean"] == pytest.approx(both)


def test_the_same_seed_gives_the_same_lines_and_another_does_not():
    first, again, other = (
        run("--json", "--scheme", "hlc", "--seed", seed).stdout for seed in ("4", "4", "5")
    )
    assert first == again != other


def test_arrival_order_and_causal_delivery_have_one_phi():
    asked = ("--policy", "none", "--policy", "causal", "--policy", "cbd", "--phi", "20", "--phi", "60")
    found = rows("--scheme", "shlc", *asked)
    expected = [("none", 0), ("causal", 100), ("cbd", 20), ("cbd", 60)]
    assert [(row["policy"], row["phi"]) for row in found] == expected
    assert found[0]["violations"] == found[0]["arrival_order"]
    assert found[0]["violations"]["pairs"] > 0
    assert found[1]["violations"]["pairs"] == 0


def test_the_table_shows_arrival_order_once():
    assert run("--scheme", "barrier", "--policy", "none").stdout.count("(arrival)") == 1


def test_a_tolerance_delivers_by_the_ledger():
    found = rows("--scheme", "shlc", "--tolerate", "0", "--tolerate", "5", "--messages", "3000")
    assert [(row["policy"], row["phi"], row["tolerate"]) for row in found] == [
        ("ledger", 100, 0.0),
        ("ledger", 100, 5.0),
    ]
    assert found[0]["violations"]["any"] == 0 < found[1]["violations"]["any"] <= 5
    assert found[0]["delay"]["mean"] > found[1]["delay"]["mean"]
    (exact,) = rows("--scheme", "shlc", "--messages", "3000")
    assert exact["tolerate"] is None
    assert exact["delay"] == found[0]["delay"]
    own, shared = rows("--scheme", "barrier", "--policy", "barrier", "--tolerate", "5", "--messages", "3000")
    assert [row["policy"] for row in (own, shared)] == ["barrier", "ledger"]
    assert own["violations"]["any"] == 0 < shared["violations"]["any"] <= 5


def test_a_policy_is_taken_by_the_stamps_that_it_can_read():
    asked = ("none", "sequence", "barrier", "cbd")
    schemes = ("--scheme", "barrier", "--scheme", "shlc", "--scheme", "sequence")
    found = rows(*schemes, *(word for policy in asked for word in ("--policy", policy)))
    assert [(row["scheme"], row["policy"]) for row in found] == [
        ("barrier", "none"),
        ("barrier", "sequence"),
        ("barrier", "barrier"),
        ("shlc", "none"),
        ("shlc", "sequence"),
        ("shlc", "cbd"),
        ("sequence", "none"),
        ("sequence", "sequence"),
    ]
    unordered, by_sender, own, *_, plain, fifo = found
    assert unordered["violations"] == unordered["arrival_order"] == plain["violations"]
    assert unordered["delay"]["mean"] == 0 < own["delay"]["mean"]
    assert unordered["stamp_bits"] == by_sender["stamp_bits"] == own["stamp_bits"] > 0
    assert own["violated_pairs"] == 0 < by_sender["violated_pairs"]
    for row in (by_sender, found[4]):
        assert (row["violated_pairs"], row["delay"]) == (fifo["violated_pairs"], fifo["delay"])


def test_a_deployments_policy_is_simulated_with_the_stamps_that_it_can_read(tmp_path):
    text = (
        '[network]\nname = "a"\nboard = "micaz"\nmotes = 10\n[clock]\ntick_log2 = 7\nepsilon = 10\ndelta = 10\n'
        '[stamp]\nscheme = "barrier"\n[observer]\npolicy = "sequence"\n'
    )
    path = tmp_path / "net.toml"
    path.write_text(text)
    for words, expected in (
        ([], ("barrier", "sequence")),
        (["--policy", "none"], ("barrier", "none")),
        (["--scheme", "shlc"], ("shlc", "sequence")),
    ):
        assert [(row["scheme"], row["policy"]) for row in rows("-d", str(path), *words)] == [expected]
    path.write_text(text.replace('"sequence"', '"barrier"'))
    assert [row["policy"] for row in rows("-d", str(path), "--scheme", "shlc")] == ["cbd"]
    short = [row["delay"] for row in rows("-d", str(path), "--policy", "sequence")]
    path.write_text(f"{text}give_up = 0\n")
    assert [row["delay"] for row in rows("-d", str(path))] != short


def test_a_deployments_tolerance_is_simulated(tmp_path):
    text = (
        '[network]\nname = "a"\nboard = "micaz"\nmotes = 10\n[clock]\ntick_log2 = 7\nepsilon = 10\ndelta = 10\n'
        '[stamp]\nscheme = "shlc"\n[observer]\ntolerate = 2\n'
    )
    path = tmp_path / "net.toml"
    path.write_text(text)
    said = [(row["policy"], row["tolerate"]) for row in rows("--deployment", str(path))]
    assert said == [("ledger", 2.0)]
    for words, expected in (
        (["--policy", "cbd"], ("cbd", None)),
        (["--tolerate", "1"], ("ledger", 1.0)),
        (["--policy", "ledger"], ("ledger", 0.0)),
    ):
        found = [(row["policy"], row["tolerate"]) for row in rows("--deployment", str(path), *words)]
        assert found == [expected]


def test_every_option_changes_the_network_or_its_reading():
    plain = rows("--scheme", "kn", "--policy", "dapw", "--phi", "40")[0]
    for change in (
        "--motes=7", "--epsilon=6", "--delta=14", "--rate=0.3", "--loss=0.3", "--events-per-tick=3",
        "--stamp=count=sends", "--stamp=entries=1", "--stamp=modulus=15",
        "--reading=delay-law=quarter", "--reading=recipients=one",
        "--reading=delay=each", "--reading=delay-clock=sender", "--reading=delay-clock=global",
        "--reading=reception=message", "--reading=reception=immediate", "--reading=sends=any", "--preset=network",
    ):  # fmt: skip
        changed = rows("--scheme", "kn", "--policy", "dapw", "--phi", "40", change)[0]
        assert changed != plain, change


def test_the_table_shows_arrival_order_and_every_stamp():
    result = run()
    assert result.exit_code == 0
    for name in ("(arrival)", "dpc1", "dpc2", "kn 2", "kn 6", "kn all", "hlc", "shlc"):
        assert name in result.stdout


def test_a_deployment_gives_what_the_command_line_does_not(root):
    (row,) = rows("--deployment", str(root / "examples" / "paper.toml"))
    assert (row["scheme"], row["entries"], row["stamp_bits"], row["policy"], row["phi"]) == (
        "kn",
        11,
        53,
        "cbd",
        100,
    )
    (row,) = rows("--deployment", str(root / "examples" / "paper.toml"), "--scheme", "shlc", "--phi", "40")
    assert (row["scheme"], row["phi"]) == ("shlc", 40)


def test_another_scheme_than_the_deployments_has_its_own_settings(root):
    (row,) = rows("--deployment", str(root / "examples" / "micaz.toml"), "--scheme", "kn")
    assert (row["entries"], row["count"]) == (4, "events")


def test_a_relayed_network_puts_arrivals_further_out_of_order():
    (near,) = rows("--scheme", "shlc")
    (far,) = rows("--scheme", "shlc", "--hops", "4")
    assert far["arrival_order"]["mean"] > near["arrival_order"]["mean"]
    assert far["violations"]["pairs"] == near["violations"]["pairs"] == 0


def test_corruption_reports_how_long_it_took():
    for row in rows("--corrupt", "all", "--policy", "causal", "--scheme", "kn", "--scheme", "shlc"):
        assert 0 <= row["recovery_ticks"] <= 60
        assert row["messages_after_recovery"] > 100
        assert row["bounded"] > 0


def test_several_gateways_hear_more_and_keep_the_order():
    asked = ("--preset", "network", "--loss", "0.3", "--scheme", "barrier")
    (one,), (three,) = (rows(*asked, "--gateways", str(gateways)) for gateways in (1, 3))
    assert 1.2 * one["delivered"] < three["delivered"]
    assert one["violated_pairs"] == three["violated_pairs"] == 0
    assert three["arrival_order"]["pairs"] > 0


def test_a_deployment_says_how_many_gateways_there_are(root, tmp_path):
    path = tmp_path / "deployment.toml"
    path.write_text(
        (root / "examples" / "barrier.toml").read_text().replace("[network]", "[network]\ngateways = 2")
    )
    described = rows("--deployment", str(path), "--rate", "0.05", "--loss", "0.3")
    assert described == rows("--deployment", str(path), "--rate", "0.05", "--loss", "0.3", "--gateways", "2")
    assert described != rows("--deployment", str(path), "--rate", "0.05", "--loss", "0.3", "--gateways", "1")


def test_a_trace_is_written_once(tmp_path):
    folder = tmp_path / "trace"
    result = run("--scheme", "shlc", "--trace", str(folder))
    assert result.exit_code == 0, result.output
    assert len(read_trace(folder).messages) <= 800
    again = run("--scheme", "shlc", "--trace", str(folder))
    assert again.exit_code == 1
    assert "never overwritten" in again.stderr


def test_a_network_laid_out_by_files(tmp_path):
    places = tmp_path / "field.csv"
    places.write_text("".join(f"{i},{10 * i},0\n" for i in range(6)))
    (row,) = rows("--positions", str(places), "--range", "15", "--scheme", "kn", "--policy", "causal")
    assert row["violations"]["pairs"] == 0
    assert row["arrival_order"]["pairs"] > 0
    links = tmp_path / "links.txt"
    links.write_text("".join(f"{a} {b} 0.9\n" for a in range(4) for b in range(4) if abs(a - b) == 1))
    (row,) = rows("--links", str(links), "--scheme", "kn", "--policy", "causal")
    assert row["violations"]["pairs"] == 0
    assert row["delivered"] < 800


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--epsilon", "0"], "epsilon = 0"),
        (["--motes", "1"], "motes = 1"),
        (["--rate", "0"], "rate = 0"),
        (["--rate", "nan"], "rate = nan"),
        (["--loss", "1.5"], "loss = 1.5"),
        (["--messages", "0"], "messages = 0"),
        (["--stamp", "entries=12"], "entries = 12"),
        (["--stamp", "entries=few"], "must be a whole number"),
        (["--stamp", "modulus=1"], "modulus = 1"),
        (["--stamp", "counter-bits=1", "--scheme", "shlc"], "counter_bits = 1"),
        (["--stamp", "modulus=99999999999999999999"], "2^32"),
        (["--messages", "1000000000"], "GB"),
        (["--motes", "100000"], "all hear one another"),
        (["--rate", "1e-9"], "too low"),
        (["--events-per-tick", "100000000"], "at most"),
        (["--epsilon", "99999999"], "at most"),
        (["--positions", "x", "--range", "3", "--motes", "4"], "also sets the number of motes"),
        (["--phi", "101"], "101"),
        (["--phi", "40", "--policy", "none"], "policy none delivers on arrival; dapw and cbd take any phi"),
        (["--phi", "40", "--scheme", "barrier"], "policy barrier has no phi"),
        (["--phi", "40", "--tolerate", "1"], "policy ledger has no phi"),
        (["--policy", "causal", "--scheme", "barrier"], "which allows none, barrier, ledger, sequence"),
        (["--policy", "cbd", "--scheme", "kn", "--scheme", "barrier"], "the stamp here is barrier"),
        (["--policy", "cbd", "--policy", "barrier", "--scheme", "barrier"], "the stamp here is barrier"),
        (["--policy", "barrier"], "needs stamps of barrier"),
        (["--tolerate", "101"], "101"),
        (["--tolerate", "1", "--scheme", "vector"], "the stamp here is vector"),
        (["--range", "3"], "needs --positions"),
        (["--positions", "x"], "needs --range"),
        (["--trace", "x"], "give one --scheme"),
        (["--trace", "x", "--scheme", "kn", "--stamp", "modulus=31"], "power of two"),
    ],
)
def test_wrong_usage_is_refused_with_the_name_and_the_reason(args, words):
    result = CliRunner().invoke(command, args)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2\n", "line 1"),
        ("0,0,0\n1,1,0\n2,500,0\n", "no path to the observer"),
        ("0,0,0\n", "at least two motes"),
    ],
)
def test_a_bad_layout_is_a_fault_with_its_place(tmp_path, text, words):
    places = tmp_path / "field.csv"
    places.write_text(text)
    result = run("--positions", str(places), "--range", "5")
    assert result.exit_code == 1
    assert words in result.stderr
    assert run("--positions", str(tmp_path / "none"), "--range", "5").exit_code == 1


def test_a_preset_is_some_readings():
    readings = ("delay-clock=global", "reception=immediate")
    asked = [word for reading in readings for word in ("--reading", reading)]
    assert rows("--scheme", "kn", *asked) == rows("--scheme", "kn", "--preset", "measured")
    changed = rows("--scheme", "kn", "--preset", "network", "--reading", "g2=paper")
    assert changed == rows("--scheme", "kn", "--preset", "measured")


def test_delta_vector_delays_a_second_send_in_a_tick_by_default():
    asked = ("--rate", "0.5", "--reading", "sends=any", "--scheme", "shlc", "--scheme", "delta-vector")
    asked += ("--epsilon", "5")  # B leaves shlc room to carry
    shlc, delta_vector = rows(*asked)
    assert (shlc["violated_pairs"], delta_vector["violated_pairs"]) == (0, 0)
    assert shlc["arrival_order"] != delta_vector["arrival_order"]
    shlc, delta_vector = rows(*asked, "--reading", "second-send=goes")
    assert shlc["violated_pairs"] == 0 < delta_vector["violated_pairs"]
    assert shlc["arrival_order"] == delta_vector["arrival_order"]


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        ("delay-clok=sender", "there is no reading 'delay-clok'; did you mean delay-clock?"),
        ("delay-clock=slowest", "delay-clock is one of fastest, sender, global, not 'slowest'"),
        ("ties", "write NAME=VALUE, not 'ties'"),
    ],
)
def test_a_reading_that_does_not_exist_is_refused(reading, reason):
    result = run("--reading", reading)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_help_lists_what_matters_first_and_no_reading_as_an_option_of_its_own():
    text = run("--help").stdout
    panels = re.findall(r"^(\S.*):$", text, re.M)
    assert panels == ["Options", "Network", "Stamp", "Faults", "Readings of the paper's model"]
    assert text.index("--motes") < text.index("Network:") < text.index("--epsilon")
    assert "--delay-clock" not in text
