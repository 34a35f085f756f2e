"""From a trace to a setting: the smallest that will do, and what it saves."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from basestation.analysis.advice import (
    Advised,
    Question,
    all_runs_parts,
    answer,
    energy,
    over_all_runs,
    recommend,
    sentence,
    strain_in_words,
    with_more_data,
)
from basestation.analysis.choices import Choice
from basestation.analysis.front import on_front
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.pooled import pool, worst
from basestation.analysis.sensitivity import ASSUMPTIONS, Limit, Strained
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from packet_formats.deployment import load
from spark_jobs.engines import Cores
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.run import run
from spark_jobs.traces.trace_files import open_trace

OPTIONS = WorldOptions(messages=2000, seed=2)
EXAMPLE = load(Path(__file__).parents[2] / "examples" / "micaz.toml")  # a stamp of 2 bytes in a payload of 17


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recommend") / "trace"
    kn = build_scheme(OPTIONS, "kn")
    write_trace(trace_of(generate(OPTIONS), deployment_for(OPTIONS, kn, "cbd", 100)), folder)
    return folder


def row(stamp_bytes: int, mean: float | None, hold: float, **changes) -> ContinuumRow:
    base = ContinuumRow(
        run="r",
        scheme="kn",
        entries=stamp_bytes,
        count="events",
        carry="pair",
        packing="bits",
        counter_bits=4,
        own=False,
        stamp_bits=8 * stamp_bytes,
        stamp_bytes=stamp_bytes,
        payload_bytes=15 + stamp_bytes,
        air_bytes=32 + stamp_bytes,
        fits=True,
        policy="cbd",
        phi=40,
        answered="recorded",
        reason=None,
        mean=mean,
        hold_mean=hold,
        hold_mean_ms=4 * hold,
        delivered=1000,
        high=mean,
    )
    return replace(base, **changes)


def test_the_smallest_then_the_shortest():
    rows = [
        row(3, 0.0, 5.0),
        row(2, 0.4, 9.0),
        row(2, 0.5, 7.0),
        row(1, 2.0, 1.0),
        row(5, 0.0, 4.9),
        row(4, 0.0, 7.0),
    ]
    found = recommend(rows, EXAMPLE, Question("mean", 0.5))
    assert [(one.stamp_bytes, one.hold_mean_ms, one.chosen) for one in found] == [
        (2, 28.0, True),
        (3, 20.0, False),
    ]


def test_what_is_not_known_or_does_not_fit_is_never_recommended():
    rows = [
        row(1, None, 1.0),
        row(1, 0.0, 1.0, fits=False),
        row(1, None, 1.0, answered="no"),
        row(1, 0.0, 0.0, policy="none"),
        row(1, 0.0, 0.0, delivered=0),
    ]
    assert recommend(rows, EXAMPLE, Question("mean", 100.0)) == []


def test_a_bound_and_a_confidence_are_both_printed():
    (one,) = recommend(
        [row(1, 0.04, 1.0, mean_most=0.18, low=0.0, high=0.45)], EXAMPLE, Question("mean", 0.5)
    )
    assert "0.04 to 0.18% violations, at most 0.45% at 95% confidence;" in sentence(one)
    assert answer(one).endswith("0.04 to 0.18% violations, at most 0.45% at 95% confidence.")


def test_the_upper_bound_decides_unless_the_order_is_proven():
    """187 messages: 0.53% seen, at most 3.1%. That is not surely within 1%, so what is proven is taken."""
    asked = Question("mean", 1.0)
    seen = row(0, 0.53, 1.0, low=0.0, high=3.1, delivered=187)
    proven = row(2, 0.0, 20.0, exact=True, phi=100, low=0.0, high=2.0, delivered=187)
    assert recommend([seen], EXAMPLE, asked) == []
    (chosen,) = recommend([seen, proven], EXAMPLE, asked)
    assert chosen.stamp_bytes == 2
    short = [replace(one, low=None, high=None) for one in (seen, proven)]  # too short for a bound
    assert [one.stamp_bytes for one in recommend(short, EXAMPLE, asked)] == [2]
    sure = replace(seen, high=0.9)
    assert recommend([sure, proven], EXAMPLE, asked)[0].stamp_bytes == 0


def test_what_more_data_would_allow_is_said():
    seen = row(0, 0.53, 1.0, low=0.0, high=3.1, delivered=187)
    proven = row(2, 0.0, 20.0, exact=True, phi=100, low=0.0, high=2.0, delivered=187)
    asked = Question("mean", 1.0)
    said = with_more_data([seen, proven], asked)
    assert said.startswith(
        "about 5,600 messages with as few violations would allow kn 0 events, cbd at phi 40%"
    )
    assert "0-byte stamp, 0.53% violations here" in said
    none_seen = replace(seen, mean=0.0)
    assert with_more_data([none_seen, proven], asked).startswith("about 580 messages ")  # 187 * 3.1
    assert with_more_data([replace(seen, high=None), proven], asked).startswith("a longer run ")
    assert with_more_data([seen, proven], Question("mean", 0.0)) is None  # no number of messages shows 0%
    assert with_more_data([replace(seen, high=0.9), proven], asked) is None  # it is taken already


def test_violations_of_a_late_host_do_not_speak_against_a_proof():
    """The network brought all messages in time; this host read some too late. The two are counted separately."""
    proven = row(4, 0.08, 5.0, mean_most=10.17, high=12.0, exact=True, phi=100, network_late=0, host_late=86)
    asked = Question("mean", 0.0, guaranteed=True)
    (one,) = recommend([proven], EXAMPLE, asked)
    told = "in causal order by proof if messages come in time; here "
    assert f"{told}this host read 86 messages too late: 0.08 to 10.17% violations;" in sentence(one)
    assert recommend([replace(proven, network_late=1)], EXAMPLE, asked) == []
    assert recommend([replace(proven, host_late=0)], EXAMPLE, asked) == []  # then a clock was off
    both = replace(proven, mean=0.0, network_late=1)
    said = answer(recommend([both], EXAMPLE, asked)[0])
    assert f"{told}the network brought 1 message too late and this host read 86 messages too late: " in said
    calm = replace(proven, mean=0.0, host_late=0)
    said = sentence(recommend([calm], EXAMPLE, asked)[0])
    assert "in causal order by proof, 0 to 10.17% violations as far as this log shows;" in said


def test_a_simulated_network_that_breaks_the_tolerance_is_printed_once():
    strained = [
        Strained(name, factor, 1.06, 0.9, 1.2, 20.0, True)
        for name in ASSUMPTIONS
        for factor in (0.5, 1.0, 4.0)
    ]
    limits = [Limit(name, 1.0, 1.0, 1.06) for name in ASSUMPTIONS]
    one = Advised(SimpleNamespace(run="r"), [], [], strained=strained, limits=limits)
    assert strain_in_words(one, 0.5) == [
        "networks like this one, simulated, break the tolerance already (1.06%): the choice is not sure"
    ]
    held = [replace(row, breaks=row.factor > 1) for row in strained]
    assert len(strain_in_words(replace(one, strained=held), 0.5)) == len(limits)


def test_doubtful_violations_do_not_speak_against_a_proof():
    proven = row(4, 0.0, 5.0, exact=True, phi=100, mean_most=0.3)
    for guaranteed in (False, True):
        assert len(recommend([proven], EXAMPLE, Question("mean", 0.0, guaranteed))) == 1
    assert recommend([replace(proven, mean=0.1)], EXAMPLE, Question("mean", 0.0, guaranteed=True)) == []


def test_savings_are_against_the_deployment_s_own_stamp_also_if_it_was_not_measured():
    (chosen, *_) = recommend([row(1, 0.0, 9.0)], EXAMPLE, Question("mean", 0.0))
    assert chosen.bytes_saved == 1
    assert chosen.microjoules_saved == pytest.approx(1 * 0.032 * 17.4 * 3)
    assert energy(100, "mica2") == pytest.approx(100 * 8 / 19.2 * 10.4 * 3)


def test_an_unknown_radio_has_no_energy():
    generic = replace(EXAMPLE, network=replace(EXAMPLE.network, board="generic"))
    (chosen, *_) = recommend([row(1, 0.0, 9.0)], generic, Question("mean", 0.0))
    assert "saves 1 byte a message" in sentence(chosen)


@pytest.mark.parametrize(
    ("size", "said"),
    [(1, "saves 1 byte and"), (2, "no bytes saved"), (5, "costs 3 bytes and")],
)
def test_savings_are_said_in_words(size, said):
    assert said in sentence(recommend([row(size, 0.0, 9.0)], EXAMPLE, Question("mean", 0.0))[0])


def test_a_stamp_of_varying_length_counts_with_its_mean():
    rows = [row(5, 0.0, 1.0, scheme="barrier", policy="barrier", phi=100, bytes_mean=2.5, answered="played")]
    (chosen,) = recommend(rows, EXAMPLE, Question("mean", 0.0))
    assert (chosen.stamp_bytes, chosen.bytes_saved) == (2.5, -0.5)
    assert "by its own rule: 2.5-byte stamp" in sentence(chosen)


def test_among_equals_the_provable_stamp_is_taken():
    rows = [row(1, 0.0, 5.0, counter_bits=9, stamp_bits=9, phi=100), row(1, 0.0, 5.0, exact=True, phi=100)]
    (chosen,) = recommend(rows, EXAMPLE, Question("mean", 0.0))
    assert (chosen.exact, chosen.guaranteed) == (True, True)
    strained = replace(rows[1], saturated=1)
    assert not recommend([strained], EXAMPLE, Question("mean", 0.0))[0].guaranteed


def test_less_than_a_millisecond_does_not_decide_against_a_proof():
    for longer, taken in ((0.2, "shlc"), (0.3, "dpc1")):  # ticks of 4 ms
        rows = [row(1, 0.4, 5.0, scheme="dpc1"), row(1, 0.0, 5.0 + longer, scheme="shlc", exact=True)]
        found = recommend(rows, EXAMPLE, Question("mean", 0.5))
        assert [one.scheme for one in found] == [taken]


def test_guaranteed_leaves_only_what_is_exact_by_proof():
    rows = [
        row(1, 0.0, 5.0, phi=100),
        row(2, 0.0, 5.0, exact=True, phi=40),
        row(3, 0.0, 5.0, exact=True, phi=100, wrong_unwraps=1),
        row(4, 0.0, 5.0, exact=True, phi=100),
        row(5, 0.0, 1.0, exact=True, scheme="barrier", policy="barrier", phi=100, answered="played"),
        row(6, 0.0, 0.5, exact=True, policy="ledger", phi=100, tolerate=1.0),
    ]
    found = recommend(rows, EXAMPLE, Question("mean", 0.0, guaranteed=True))
    assert [one.stamp_bytes for one in found] == [4, 5]


def test_the_front_is_what_nothing_beats():
    rows = [
        row(1, 2.0, 5.0),
        row(1, 2.0, 6.0),  # waits longer for the same
        row(2, 1.0, 5.0),
        row(2, 1.0, 5.0),  # an equal one stays too
        row(2, 3.0, 5.0),  # more bytes, no better
        row(9, 0.0, 0.0, fits=False),
        row(1, 0.0, 0.0, policy="none"),
        row(1, None, 0.0, answered="no"),
    ]
    assert on_front(rows) == [True, False, True, True, False, False, False, False]


def measured(folder, scratch, **options) -> list[ContinuumRow]:
    scratch.mkdir()
    world = replace(OPTIONS, **options)
    kn = build_scheme(world, "kn")
    write_trace(trace_of(generate(world), deployment_for(world, kn, "cbd", 100)), folder)
    return continuum(open_trace(folder), Choice(schemes=("kn",), phis=(40, 100)), Cores(1).each, scratch)


def test_several_runs_are_pooled_and_the_worst_is_named(tmp_path):
    runs = [
        measured(tmp_path / "a", tmp_path / "sa", seed=1),
        measured(tmp_path / "b", tmp_path / "sb", seed=2, messages=500),
    ]
    rows = [one for several in runs for one in several]
    together = pool(rows)
    assert len(together) == len(runs[0])
    key = ("kn 2 events", "cbd", 40)
    (whole,) = [one for one in together if (one.stamp, one.policy, one.phi) == key and one.packing == "bits"]
    a, b = (next(o for o in r if (o.stamp, o.policy, o.phi, o.packing) == (*key, "bits")) for r in runs)
    assert whole.violated_pairs == a.violated_pairs + b.violated_pairs
    assert whole.pairs == pytest.approx(
        (a.pairs * a.delivered + b.pairs * b.delivered) / (a.delivered + b.delivered)
    )
    assert whole.hold_mean_ms == pytest.approx(
        (a.hold_mean_ms * a.delivered + b.hold_mean_ms * b.delivered) / (a.delivered + b.delivered)
    )
    assert whole.low < whole.mean < whole.high
    assert worst(rows, whole, "mean").run == max((a, b), key=lambda one: one.mean).run
    advice = over_all_runs(rows, open_trace(tmp_path / "a").deployment, Question("mean", 50.0))
    assert {one.run for one in advice} == {"all runs"}
    assert advice[0].worst >= advice[0].violations
    first = replace(advice[0], worst=0.25)
    why = "c: no message of this run has the network's time"
    page = "".join(all_runs_parts([first], [why]))
    assert f"The worst run is {first.worst_run}, with 0.25%" in page
    assert f"Left out: {why.replace(chr(39), '&#x27;')}." in page
    assert "The worst run" not in "".join(all_runs_parts([replace(first, worst=0.0)]))


def test_the_command(trace, tmp_path, capsys):
    words = ["--scheme", "dpc2", "--scheme", "shlc", "--policy", "cbd"]
    assert run("recommend", [str(trace), *words, "--no-spark", "--out", str(tmp_path), "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["scheme"], first["stamp_bytes"], first["violations"]) == ("shlc", 1, 0.0)
    assert pq.read_table(tmp_path / "recommend.parquet")["chosen"].to_pylist()[0]
    page = (tmp_path / "report.html").read_text()
    words = page[: page.index("<details")]
    assert "Take shlc" in words[: words.index("<svg")]  # the answer, then the picture, then the rest
    assert words.count("<svg") == 1
    assert "ticks" not in words
    assert page.count('<tr class="take">') == 2  # in the numbers, and among all configurations
    assert page.count("take shlc") >= 2  # in the picture of the front, and in one for its policy
    assert page.count("<details") == page.count("</details") >= 3


def test_the_ledger_is_offered_at_the_tolerance(trace, tmp_path, capsys):
    words = [
        str(trace),
        "--no-spark",
        "--scheme",
        "shlc",
        "--scheme",
        "barrier",
        "--phi",
        "100",
        "--tolerance",
        "2",
        "--figure",
        "any",
    ]
    assert run("recommend", [*words, "--out", str(tmp_path), "--json"]) == 0
    table = pq.read_table(tmp_path / "continuum.parquet").to_pylist()
    assert {row["tolerate"] for row in table if row["policy"] == "ledger"} == {2.0}
    assert all(row["any"] <= 2 for row in table if (row["scheme"], row["policy"]) == ("shlc", "ledger"))
    assert {row["tolerate"] for row in table if row["policy"] != "ledger"} == {None}
    barrier = {row["policy"]: row["exact"] for row in table if row["scheme"] == "barrier"}
    assert barrier == {"barrier": True, "ledger": False}  # a ledger spends what is tolerated
    capsys.readouterr()


def test_when_nothing_will_do_it_says_the_best_there_is(trace, capsys):
    arguments = [str(trace), "--no-spark", "--scheme", "dpc1", "--phi", "40"]
    assert run("recommend", arguments) == 1
    said = capsys.readouterr().out
    assert "nothing to recommend: no configuration is proven or surely within the tolerance" in said
    (tolerance,) = re.findall(r"--tolerance (\S+) would allow it", said)
    assert run("recommend", [*arguments, "--tolerance", tolerance]) == 0
    assert "take dpc1" in capsys.readouterr().out
