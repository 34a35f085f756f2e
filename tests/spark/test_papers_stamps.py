"""Logs and traces with the papers' stamps: some configurations are measured, the rest is refused in a sentence."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

from basestation.analysis.choices import Choice, candidates
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes.barrier import Barrier, BarrierProgram
from basestation.cli.listen import command as listen
from basestation.comparing import spread
from basestation.comparing.catalogue import NAMES, Terms
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate, measure
from basestation.traces.files import read_trace, write_trace
from packet_formats.boards import BOARDS
from packet_formats.deployment import from_dict
from packet_formats.layout import layout_of
from spark_jobs import comparing, run
from spark_jobs.engines import Cores
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.measuring.restamping import differing
from spark_jobs.traces.trace_files import open_trace

OPTIONS = WorldOptions(messages=800, motes=4, epsilon=4, delta=6, rate=0.2, loss=0.1, seed=5)
CHOICE = Choice(
    counter_bits=(3,), schemes=("shlc",), packings=("bits",), policies=("none", "cbd"), phis=(100,)
)
SOURCE = "simulate@?messages=300&rate=0.05&loss=0.05&pace=0"


def deployed(scheme):
    return from_dict(
        {
            "network": {"name": "papers", "board": "micaz", "motes": 4},
            "clock": {"tick_log2": 7, "epsilon": 4, "delta": 6},
            "stamp": {"scheme": scheme},
        }
    )


@pytest.mark.parametrize("scheme", ["sequence", "vector", "matrix", "delta-vector"])
def test_the_continuum_of_a_trace_with_events_is_the_simulations(tmp_path, capsys, scheme):
    simulated, deployment = generate(OPTIONS), deployed(scheme)
    write_trace(trace_of(simulated, deployment), tmp_path / "trace")
    rows = continuum(open_trace(tmp_path / "trace"), CHOICE, Cores(1).each, tmp_path, rows=300)
    assert {row.answered for row in rows} == {"restamped"}
    tables = str(tmp_path / "tables")
    assert run.main(["ingest", str(tmp_path / "trace"), "--tables", tables, "--no-spark"]) == 0
    ingested = json.loads(capsys.readouterr().out)
    assert (ingested["quarantine"], ingested["messages"]) == (0, simulated.stream.arrivals)
    (stamp,) = candidates(deployment, CHOICE)
    for row in rows:
        (want,) = measure(simulated, stamp.scheme, [PolicyChoice(row.policy, row.phi)])
        assert (row.violated_pairs, row.hold_mean) == (want.violations.pairs, want.hold_mean)


@pytest.mark.parametrize("scheme", ["vector", "last-sender", "barrier"])
def test_motes_may_begin_with_any_number(tmp_path, scheme):
    """On the testbed the first message of a mote has number 1, and names are made of numbers."""
    simulated, deployment = generate(OPTIONS), deployed(scheme)
    began = np.array([1, 5, 0, 250], np.int32)[simulated.stream.sent_by]
    later = replace(simulated.stream, sent_index=simulated.stream.sent_index + began)
    for name, stream in (("from 0", simulated.stream), ("later", later)):
        write_trace(trace_of(replace(simulated, stream=stream), deployment), tmp_path / name)
    wanted, rows = (
        continuum(open_trace(tmp_path / name), CHOICE, Cores(1).each, tmp_path)
        for name in ("from 0", "later")
    )
    assert {row.answered for row in rows} == {"restamped"}
    assert [(row.violated_pairs, row.hold_mean) for row in rows] == [
        (row.violated_pairs, row.hold_mean) for row in wanted
    ]


def test_motes_that_have_just_gained_the_time_are_no_sign_of_missing_events(tmp_path, monkeypatch):
    """What they send at first is close, so no message names it; a reception that lacks later on is still seen."""

    def started(scheme, mote):
        program = BarrierProgram(scheme, mote)
        program.restart(-scheme.constants.Y - 1)  # in sync from tick 0 on
        return program

    simulated, deployment = generate(OPTIONS), deployed("barrier")
    with monkeypatch.context() as patch:
        patch.setattr(Barrier, "start", started)
        trace = trace_of(simulated, deployment)
    assert trace.messages["stamp"] != trace_of(simulated, deployment).messages["stamp"]
    write_trace(trace, tmp_path / "whole")
    assert differing(open_trace(tmp_path / "whole")) == 0
    receptions = np.flatnonzero(pc.equal(trace.events["kind"], "receive").to_numpy())
    lost = receptions[len(receptions) // 2 :][:5]
    events = trace.events.take(np.setdiff1d(np.arange(len(trace.events)), lost))
    write_trace(replace(trace, events=events), tmp_path / "lacking")
    assert differing(open_trace(tmp_path / "lacking")) > 0


REBOOTED, BEFORE = 2, 70  # mote 2 reboots after its 70th message


class RebootingProgram(BarrierProgram):
    """A mote that begins its sequence again has rebooted: it knows nothing, and gained the time a moment before."""

    def on_send(self, rt, number):
        if number == 1:
            self.restart(rt - self._constants.Y - 1)
        return super().on_send(rt, number)


def start_rebooting(scheme, mote):
    return RebootingProgram(scheme, mote)


def rebooted(monkeypatch, deployment):
    """A run as the testbed records it, in which a mote reboots: its sequence and its memory begin anew, its messages
    are numbered on."""
    simulated = generate(OPTIONS)
    stream = simulated.stream
    again = (stream.sent_by == REBOOTED) & (stream.sent_index > BEFORE)
    began = np.where(again, stream.sent_index - BEFORE, stream.sent_index).astype(np.int32)
    with monkeypatch.context() as patch:
        patch.setattr(Barrier, "start", start_rebooting)
        trace = trace_of(replace(simulated, stream=replace(stream, sent_index=began)), deployment)
    at = stream.arrival_message
    columns = {"number": stream.sent_index[at].astype(np.int64), "boot": again[at].astype(np.int32)}
    messages, events = trace.messages, trace.events
    for name, values in columns.items():
        place = messages.schema.get_field_index(name)
        messages = messages.set_column(place, messages.schema.field(name), pa.array(values))
    numbers = stream.sent_index[stream.event_message].astype(np.int64)
    if "number" in events.schema.names:
        events = events.drop_columns(["number"])
    events = events.append_column(pa.field("number", pa.int64()), pa.array(numbers))
    return replace(trace, messages=messages, events=events)


def test_a_reboot_does_not_end_the_continuum(tmp_path, monkeypatch):
    """All configurations are answered, the trace's own stamp included; and compare plays every scheme."""
    trace = rebooted(monkeypatch, deployed("barrier"))
    boots = pc.unique(trace.messages.filter(pc.equal(trace.messages["source"], REBOOTED))["boot"])
    assert boots.to_pylist() == [0, 1]
    write_trace(trace, tmp_path / "trace")
    rows = continuum(open_trace(tmp_path / "trace"), Choice(), Cores(1).each, tmp_path)
    assert {(row.answered, row.reason) for row in rows} == {("restamped", None), ("played", None)}
    assert {row.policy for row in rows if row.own} == {"barrier"}
    spots, faults = comparing.trace_spots([tmp_path / "trace"])
    (found,) = spread.compare(spots, NAMES, Terms())
    assert (faults, found.fault, len(found.rows)) == ([], "", len(NAMES))


def test_a_reception_that_lacks_after_a_reboot_is_still_seen(tmp_path, monkeypatch):
    trace = rebooted(monkeypatch, deployed("barrier"))
    receptions = np.flatnonzero(pc.equal(trace.events["kind"], "receive").to_numpy())
    kept = np.setdiff1d(np.arange(len(trace.events)), receptions[-40:-30])
    write_trace(replace(trace, events=trace.events.take(kept)), tmp_path / "lacking")
    assert differing(open_trace(tmp_path / "lacking")) > 0


def test_older_events_cannot_follow_a_reboot_and_say_so(tmp_path, monkeypatch):
    trace = rebooted(monkeypatch, deployed("barrier"))
    write_trace(replace(trace, events=trace.events.drop_columns(["number"])), tmp_path / "old")
    rows = continuum(open_trace(tmp_path / "old"), CHOICE, Cores(1).each, tmp_path)
    assert all("mote 2" in row.reason and "make this trace anew" in row.reason for row in rows)


def test_without_events_other_stamps_are_made_from_the_causal_graph(tmp_path):
    trace = trace_of(generate(OPTIONS), deployed("vector"))
    write_trace(trace, tmp_path / "whole")
    write_trace(replace(trace, events=None), tmp_path / "trace")
    (tmp_path / "scratch").mkdir()
    wanted = continuum(open_trace(tmp_path / "whole"), CHOICE, Cores(1).each, tmp_path)
    rows = continuum(open_trace(tmp_path / "trace"), CHOICE, Cores(1).each, tmp_path / "scratch")
    assert {row.answered for row in wanted} == {"restamped"}
    assert {row.answered for row in rows} == {"graph"}
    for ours, true in zip(rows, wanted, strict=True):
        assert (ours.scheme, ours.policy, ours.phi) == (true.scheme, true.policy, true.phi)
        if ours.policy == "none":
            assert (ours.mean, ours.mean_most) == (true.mean, true.mean)
        else:
            # A stamp without a clock does not show when it was sent: the holds are longer by the way of a message.
            assert ours.hold_mean is not None
            assert true.hold_mean is not None
            assert ours.hold_mean >= true.hold_mean


@pytest.fixture
def logged(tmp_path, monkeypatch):
    def log(scheme):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "net.toml").write_text(deployed(scheme).to_toml())
        done = CliRunner().invoke(listen, [SOURCE, "-d", "net.toml", "--log", "logs", "--json"])
        assert done.exit_code == 0, done.stderr
        (folder,) = (tmp_path / "logs").iterdir()
        return folder

    return log


def test_the_table_of_a_log_holds_what_travelled(logged, tmp_path):
    from basestation.cli.log import command as log

    folder = logged("vector")
    done = CliRunner().invoke(log, ["convert", str(folder), "--to", "parquet", "-o", str(tmp_path / "trace")])
    assert done.exit_code == 0, done.stderr
    messages = read_trace(tmp_path / "trace").messages
    stamps = messages["stamp"].to_pylist()
    assert [stamp["r"] for stamp in stamps] == messages["heard"].to_pylist()
    assert [stamp["kn"] for stamp in stamps] == [list(raw[3:6]) for raw in messages["payload"].to_pylist()]


def test_the_bytes_on_the_air_are_those_of_the_real_stamps(tmp_path):
    """A barrier's stamp is mostly shorter than its longest."""
    options = replace(OPTIONS, loss=0.0)
    trace = trace_of(generate(options), deployed("barrier"))
    write_trace(trace, tmp_path / "trace")
    choice = Choice(schemes=["barrier"])
    (row,) = continuum(open_trace(tmp_path / "trace"), choice, Cores(1).each, tmp_path)
    deployment = trace.deployment
    radio, tinyos = BOARDS[deployment.network.board].radio, layout_of(deployment).tinyos
    lengths = pc.binary_length(trace.messages["payload"]).to_pylist()
    assert row.wire_bytes == sum(radio.air_bytes(length, tinyos) for length in lengths)
    assert row.air_bytes == pytest.approx(row.wire_bytes / row.arrived)
    assert row.air_bytes < 0.97 * radio.air_bytes(row.payload_bytes, tinyos)
