"""Deployments that are accepted, and the errors of those that are not."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from packet_formats import cheader
from packet_formats.deployment import (
    Deployment,
    DeploymentError,
    MoteDetails,
    RadioSettings,
    from_dict,
    load,
    parse,
)
from packet_formats.layout import layout_of
from packet_formats.schemes import descriptor, refusal
from tests.packet_formats.strategies import deployments, tables


def refused(table: str, key: str, value: Any) -> DeploymentError:
    wanted = tables()
    wanted[table][key] = value
    with pytest.raises(DeploymentError) as caught:
        from_dict(wanted)
    return caught.value


def test_defaults() -> None:
    deployment = from_dict(tables())
    assert (deployment.network.group, deployment.network.channel, deployment.network.tinyos) == (0x7D, 11, 1)
    assert (deployment.network.hops, deployment.network.data_bytes) == (1, 4)
    assert (deployment.clock.root, deployment.clock.clock_bits) == (10, 5)
    assert (deployment.stamp.entries, deployment.stamp.packing, deployment.stamp.count) == (
        11,
        "bits",
        "events",
    )
    assert (deployment.stamp.counter_bits, deployment.stamp.carry, deployment.stamp.receipts) == (
        4,
        "pair",
        0,
    )
    assert (deployment.observer.policy, deployment.observer.phi) == ("cbd", 100)


@pytest.mark.parametrize(
    ("board", "tinyos", "group", "channel"),
    [
        ("micaz", 1, 0x7D, 11),
        ("micaz", 2, 0x22, 26),
        ("mica2", 1, 0x7D, 0),
        ("mica2", 2, 0x22, 0),
        ("generic", 1, 0x7D, 0),
    ],
)
def test_each_version_has_its_own_defaults(board: str, tinyos: int, group: int, channel: int) -> None:
    wanted = tables()
    wanted["network"] |= {"board": board, "tinyos": tinyos}
    network = from_dict(wanted).network
    assert (network.group, network.channel) == (group, channel)


@pytest.mark.parametrize(
    ("table", "key", "value", "reason"),
    [
        ("network", "name", "two words", "one word"),
        ("network", "name", "", "one word"),
        ("network", "name", 7, "one word"),
        ("network", "board", "telosb", "micaz, mica2, generic"),
        ("network", "motes", 0, "1..65000"),
        ("network", "motes", True, "whole number"),
        ("network", "motes", 10.0, "whole number"),
        ("network", "motes", "10", "whole number"),
        ("network", "group", 256, "0..255"),
        ("network", "channel", 10, "11..26"),
        ("network", "tinyos", 3, "1..2"),
        ("network", "hops", 0, "1..15"),
        ("network", "data_bytes", 30, "0..29"),
        ("network", "data_bytes", 29, "10 over the 29 of TinyOS 1"),
        ("clock", "tick_log2", -1, "0..16"),
        ("clock", "epsilon", 0, "no clock could tick"),
        ("clock", "delta", 0, "1..65535"),
        ("clock", "delta", False, "whole number"),
        ("clock", "root", 255, "0..254"),
        ("clock", "clock_bits", 4, "delta + 2*epsilon + 1 = 31"),
        ("clock", "clock_bits", 17, "at most 16"),
        ("stamp", "scheme", "nk", "dpc1, dpc2"),
        ("stamp", "entries", 12, "1..11"),
        ("stamp", "entries", "some", '"all"'),
        ("stamp", "entries", True, "whole number"),
        ("stamp", "packing", "words", "bits, bytes"),
        ("stamp", "count", "receives", "events, sends"),
        ("stamp", "events_per_tick", 0, "1..65535"),
        ("stamp", "counter_bits", 1, "2..16"),
        ("stamp", "carry", "pair", "hlc, shlc only"),
        ("stamp", "receipts", -1, "0..29"),
        ("stamp", "receipts", 12, "over the 29"),
        ("observer", "policy", "fifo", "none, causal"),
        ("observer", "phi", 101, "whole per cent"),
        ("observer", "phi", 99.5, "whole number"),
        ("observer", "tolerate", 101, "0 to 100"),
        ("observer", "tolerate", -0.1, "0 to 100"),
        ("observer", "tolerate", True, "0 to 100"),
        ("observer", "tolerate", "1%", "0 to 100"),
        ("observer", "tolerate", float("nan"), "0 to 100"),
        ("observer", "source", "/dev/ttyUSB1", "serial@/dev/ttyUSB1"),
        ("observer", "source", 7, "such as"),
        ("observer", "source", "sf@a\nb", "such as"),
    ],
)
def test_wrong_values_are_refused_with_key_value_and_reason(
    table: str, key: str, value: Any, reason: str
) -> None:
    error = refused(table, key, value)
    assert reason in error.reason
    if "over the 29" not in reason:
        assert (error.key, error.value) == (f"{table}.{key}", value)
        assert str(error).startswith(f"{table}.{key} = ")


@pytest.mark.parametrize(
    ("tick_log2", "epsilon", "delta", "key"),
    [(16, 2, 20000, "delta"), (16, 10000, 6201, "epsilon"), (15, 1, 32400, "delta")],
)
def test_times_too_far_apart_for_a_motes_clock_are_refused(
    tick_log2: int, epsilon: int, delta: int, key: str
) -> None:
    wanted = tables(scheme="dpc1")
    wanted["clock"] = {"tick_log2": tick_log2, "epsilon": epsilon, "delta": delta}
    most = 9 * 3600 * 32768 >> tick_log2
    with pytest.raises(DeploymentError, match=rf"clock\.{key} = .* hours.* may be {most} ticks together"):
        from_dict(wanted)
    wanted["clock"]["delta"] = most - epsilon
    assert from_dict(wanted).clock.delta == most - epsilon


@pytest.mark.parametrize(
    ("scheme", "policy", "allowed"),
    [
        ("vector", "cbd", "none, vector, sequence"),
        ("sequence", "vector", "none, sequence"),
        ("shlc", "vector", "none, causal, dapw, cbd, ledger, sequence"),
    ],
)
def test_a_policy_must_be_able_to_read_the_stamp(scheme: str, policy: str, allowed: str) -> None:
    wanted = tables(scheme=scheme)
    wanted["observer"] = {"policy": policy}
    with pytest.raises(DeploymentError, match=f"the stamp here is {scheme}, which allows {allowed}$"):
        from_dict(wanted)


@pytest.mark.parametrize(
    "scheme", ["sequence", "scalar", "last-sender", "history", "vector", "delta-vector", "two-hop"]
)
def test_each_scheme_brings_its_own_rule(scheme: str) -> None:
    observer = from_dict(tables(scheme=scheme)).observer
    assert (observer.policy, observer.give_up) == (scheme, 20)
    for policy in ("none", "sequence"):
        wanted = tables(scheme=scheme)
        wanted["observer"] = {"policy": policy, "give_up": 7}
        assert (from_dict(wanted).observer.policy, from_dict(wanted).observer.give_up) == (policy, 7)


def test_a_history_has_as_many_names_as_it_is_told() -> None:
    assert from_dict(tables(scheme="history")).stamp.entries == 4
    made = from_dict(tables(scheme="history", entries=6))
    assert made.stamp.entries == 6
    assert layout_of(made).stamp.entries == 12
    assert from_dict(made.to_dict()) == made
    with pytest.raises(DeploymentError, match=r"stamp.entries = 15"):
        from_dict(tables(scheme="history", entries=15))


@pytest.mark.parametrize("policy", ["none", "causal"])
def test_phi_is_for_policies_that_have_one(policy: str) -> None:
    wanted = tables()
    wanted["observer"] = {"policy": policy, "phi": 50}
    with pytest.raises(DeploymentError, match=r"observer.phi = 50: policy"):
        from_dict(wanted)
    wanted["observer"] = {"policy": policy}
    assert from_dict(wanted).observer.policy == policy


def test_a_tolerance_means_the_ledger() -> None:
    wanted = tables()
    wanted["observer"] = {"tolerate": 0.25}
    made = from_dict(wanted)
    assert (made.observer.policy, made.observer.tolerate) == ("ledger", 0.25)
    assert parse(made.to_toml()) == made
    wanted["observer"] = {"policy": "ledger"}
    assert from_dict(wanted).observer.tolerate == 0
    wanted["observer"] = {"policy": "cbd", "tolerate": 0.25}
    with pytest.raises(DeploymentError, match=r"observer.tolerate = 0.25: policy cbd"):
        from_dict(wanted)
    assert from_dict(tables()).observer.tolerate is None


@pytest.mark.parametrize(("scheme", "able"), [("shlc", True), ("barrier", True), ("vector", False)])
def test_the_ledger_is_for_rules_with_a_wait_that_may_be_shorter(scheme: str, able: bool) -> None:
    assert ("ledger" in descriptor(scheme).policies) == able
    assert (refusal("ledger", scheme) is None) == able


def test_unknown_names_are_refused_and_the_nearest_is_suggested() -> None:
    assert "did you mean epsilon?" in refused("clock", "epsilom", 3).reason
    assert "known: policy, phi" in refused("observer", "zzz", 3).reason
    wanted = tables() | {"netwrok": {}}
    with pytest.raises(DeploymentError, match=r"netwrok: no such table; did you mean network\?"):
        from_dict(wanted)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("network", "name"),
        ("network", "board"),
        ("network", "motes"),
        ("clock", "tick_log2"),
        ("clock", "epsilon"),
        ("clock", "delta"),
        ("stamp", "scheme"),
    ],
)
def test_missing_keys_are_named(table: str, key: str) -> None:
    wanted = tables()
    del wanted[table][key]
    with pytest.raises(DeploymentError, match=f"{table}.{key}: this key is required"):
        from_dict(wanted)


def test_missing_and_misshapen_tables_are_named() -> None:
    for table in ("network", "clock", "stamp"):
        wanted: dict[str, Any] = dict(tables())
        del wanted[table]
        with pytest.raises(DeploymentError, match=f"{table}: this table is required"):
            from_dict(wanted)
    with pytest.raises(DeploymentError, match=r"stamp = 3: must be a table"):
        from_dict({**tables(), "stamp": 3})


@pytest.mark.parametrize(
    "stamp",
    [{"scheme": "kn", "receipts": 12}, {"scheme": "kn", "packing": "bytes", "receipts": 6}, {"scheme": "kn"}],
)
def test_the_cuts_that_the_error_names_make_it_fit(stamp: dict[str, Any]) -> None:
    wanted = tables(**stamp)
    wanted["network"]["data_bytes"] = 22 if stamp == {"scheme": "kn"} else 4
    with pytest.raises(DeploymentError) as caught:
        from_dict(wanted)
    cuts = re.findall(r"(data_bytes|receipts|entries) = (\d+)", caught.value.reason.split("make it fit")[1])
    assert cuts
    for key, value in cuts:
        cut = tables(**stamp)
        cut["network"]["data_bytes"] = wanted["network"]["data_bytes"]
        cut["network" if key == "data_bytes" else "stamp"][key] = int(value)
        assert layout_of(from_dict(cut)).left >= 0


@given(deployments())
def test_tables_and_toml_give_the_same_deployment_again(deployment: Deployment) -> None:
    assert from_dict(deployment.to_dict()) == deployment
    assert parse(deployment.to_toml()) == deployment
    assert layout_of(parse(deployment.to_toml())) == layout_of(deployment)


def test_files_that_are_no_deployments(tmp_path: Path) -> None:
    path = tmp_path / "deployment.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DeploymentError, match=r"^not UTF-8"):
        load(path)
    path.write_text("[network\n")
    with pytest.raises(DeploymentError, match=r"^not TOML"):
        load(path)
    with pytest.raises(OSError, match="absent"):
        load(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("name", "length", "stamp_bits", "tick_ms"),
    [
        ("paper", 14, 53, 3.90625),
        ("micaz", 17, 13, 3.90625),
        ("mica2", 11, 11, 15.625),
        ("barrier", 19, 64, 3.90625),
        ("sensors", 18, 64, 3.90625),
    ],
)
def test_examples_are_what_their_comments_say(
    root: Path, name: str, length: int, stamp_bits: int, tick_ms: float
) -> None:
    deployment = load(root / "examples" / f"{name}.toml")
    layout = layout_of(deployment)
    assert (layout.length, layout.stamp.bits) == (length, stamp_bits)
    assert deployment.clock.tick_seconds * 1000 == tick_ms


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("serial@/dev/ttyUSB1:micaz", ("serial@/dev/ttyUSB1:micaz",)),
        (["sf@a:9002", 'replay@odd "name"\\'], ("sf@a:9002", 'replay@odd "name"\\')),
        ([], ()),
    ],
)
def test_sources_are_kept_and_change_nothing_on_the_wire(given: Any, read: tuple[str, ...]) -> None:
    wanted = tables()
    plain = from_dict(wanted)
    wanted["observer"]["source"] = given
    deployment = from_dict(wanted)
    assert deployment.observer.source == read
    assert parse(deployment.to_toml()) == deployment == from_dict(deployment.to_dict())
    assert layout_of(deployment) == layout_of(plain)
    assert cheader.render(deployment) == cheader.render(plain)
    assert "source" not in plain.to_toml()


def test_a_list_of_sources_names_the_wrong_one() -> None:
    wanted = tables()
    wanted["observer"]["source"] = ["sf@a", "b"]
    with pytest.raises(DeploymentError, match=r'observer.source = "b": must be a source'):
        from_dict(wanted)


MOTES = [
    {"id": 3, "name": "Brücke <b>", "x": -12.5, "y": 4},
    {"id": 1, "name": "well"},
    {"id": 0, "x": 1, "y": 2},
]


def test_motes_have_names_and_places_which_change_nothing_on_the_wire() -> None:
    plain = from_dict(tables())
    deployment = from_dict(tables() | {"mote": MOTES})
    assert [mote.id for mote in deployment.motes] == [0, 1, 3]
    assert deployment.motes[2] == MoteDetails(3, "Brücke <b>", -12.5, 4)
    assert deployment.motes[1] == MoteDetails(1, "well", None, None)
    assert parse(deployment.to_toml()) == deployment == from_dict(deployment.to_dict())
    assert layout_of(deployment) == layout_of(plain)
    assert cheader.render(deployment) == cheader.render(plain)
    assert "mote" not in plain.to_dict()


@pytest.mark.parametrize(
    ("mote", "reason"),
    [
        ({}, r"mote\[1\].id: this key is required"),
        ({"id": 10}, r"mote\[1\].id = 10: must be 0..9: network.motes = 10"),
        ({"id": 1, "name": "a\nb"}, "on one line"),
        ({"id": 1, "name": "a\u202eb"}, "without control characters"),
        ({"id": 1, "name": "a\x1b[31m"}, "without control characters"),
        ({"id": 1, "name": " a"}, "must be a text"),
        ({"id": 1, "name": "x" * 41}, "at most 40"),
        ({"id": 1, "name": 7}, "must be a text"),
        ({"id": 1, "x": 1}, r"mote\[1\].y: this key is required beside x"),
        ({"id": 1, "x": float("nan"), "y": 1}, "must be a number"),
        ({"id": 1, "x": "1", "y": 1}, "must be a number"),
        ({"id": 1, "nam": "a"}, r"did you mean name\?"),
    ],
)
def test_a_wrong_mote_is_refused(mote: dict[str, Any], reason: str) -> None:
    with pytest.raises(DeploymentError, match=reason):
        from_dict(tables() | {"mote": [mote]})


def test_two_motes_do_not_share_an_id_or_a_name() -> None:
    for second, reason in (({"id": 3}, "has this id"), ({"id": 4, "name": "well"}, "has this name")):
        with pytest.raises(DeploymentError, match=rf"mote\[4\].*{reason}"):
            from_dict(tables() | {"mote": [*MOTES, second]})
    with pytest.raises(DeploymentError, match=r"mote: each mote is a table of its own, \[\[mote\]\]"):
        from_dict(tables() | {"mote": {"id": 1}})


def test_health_comes_as_often_as_the_firmware_sends_it(root):
    text = (root / "firmware" / "net" / "mote" / "timers.h").read_text()
    scheduled, always = re.findall(r"define MOTE_HEALTH_PERIOD \((\d+) \* ", text)
    setup = load(root / "examples" / "micaz_months.toml")
    assert setup.health_seconds == int(scheduled)
    assert replace(setup, radio=RadioSettings()).health_seconds == int(always)
