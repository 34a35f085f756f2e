"""The violations and holds of one configuration by mote, link and hour add up to those of the run."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from basestation.analysis.choices import Choice
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from spark_jobs.engines import Cores
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.measuring.one_configuration import details
from spark_jobs.traces.trace_files import open_trace

OPTIONS = WorldOptions(messages=1500, motes=6, epsilon=4, delta=6, rate=0.2, loss=0.1, seed=5)
CHOICE = Choice(schemes=("kn", "shlc", "barrier"), phis=(40,), tolerates=(3.0,))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    place = tmp_path_factory.mktemp("details")
    trace = trace_of(generate(OPTIONS), deployment_for(OPTIONS, build_scheme(OPTIONS, "kn"), "cbd", 100))
    rows = len(trace.messages)
    gateways = pa.array(np.where(np.arange(rows) % 3, 240, 241), pa.uint16())
    walls = pa.array(np.linspace(0, 3 * 3600, rows, endpoint=False).astype(np.int64) * 10**9)
    messages = trace.messages
    for name, values in (("gateway", gateways), ("wall_ns", walls)):
        at = messages.schema.get_field_index(name)
        messages = messages.set_column(
            at, messages.schema.field(at), values.cast(messages.schema.field(at).type)
        )
    write_trace(replace(trace, messages=messages), place / "trace")
    (place / "scratch").mkdir()
    found = open_trace(place / "trace")
    return found, continuum(found, CHOICE, Cores(1).each, place / "scratch")


@pytest.mark.parametrize(
    "asked",
    [("kn 2 events", "cbd", None), ("shlc 3 bits sum", "causal", None), ("kn 5 events", "ledger", 3.0),
     ("barrier", "barrier", None), ("barrier", "ledger", 3.0), ("kn 1 events", "none", None)],
)  # fmt: skip
def test_each_way_of_counting_adds_up(measured, tmp_path, asked):
    trace, rows = measured
    row = next(one for one in rows if (one.stamp, one.policy, one.tolerate) == asked)
    found = details(trace, row, Cores(1).each, tmp_path)
    for by, groups in (("mote", 6), ("link", 12), ("hour", 3)):
        mine = [one for one in found if one.by == by]
        assert len(mine) == groups
        assert sum(one.delivered for one in mine) == row.delivered
        assert sum(one.violations * one.delivered for one in mine) == pytest.approx(100 * row.any_messages)
        assert sum(one.hold_mean_ms * one.delivered for one in mine) == pytest.approx(
            row.hold_mean_ms * row.delivered
        )
    assert [one.hour for one in found if one.by == "hour"] == [0, 3600, 7200]
    assert {(one.mote, one.gateway) for one in found if one.by == "link"} >= {(0, 240), (5, 241)}
