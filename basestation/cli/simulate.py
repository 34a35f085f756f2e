"""`basestation simulate`: the paper's model of a network, with every scheme on the same stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice, policy_label
from basestation.causality.schemes import Scheme, TimedScheme
from basestation.causality.schemes.scheme import Carry, Count
from basestation.cli import common
from basestation.cli.named_values import NamedValue, one_of, reading_option, whole
from basestation.cli.progress import progress
from basestation.simulator import topology
from basestation.simulator.options import MEANINGS, PRESETS, OptionError, WorldOptions
from basestation.simulator.simulation import (
    Measurement,
    MemoryFault,
    SimulatedRun,
    build_named,
    build_scheme,
    generate,
    measure,
    measure_rule,
    world_for,
)
from basestation.traces.files import TraceError, check_new, write_trace
from packet_formats.deployment import Deployment
from packet_formats.schemes import (
    LEDGER,
    PHI_POLICIES,
    TIMED_POLICIES,
    descriptor,
    names,
    ordered,
    phi_refusal,
    policies,
    refusal,
)

ARRIVAL_ORDER = PolicyChoice("none", 0)
FEW_ENTRIES = (2, 6)  # of a stamp whose entries are a choice, beside all of them


@dataclass(frozen=True, slots=True)
class Request:
    """The run that options and deployment ask for."""

    options: WorldOptions
    schemes: tuple[Scheme, ...]
    deliveries: tuple[tuple[PolicyChoice, ...], ...]  # of each scheme
    ties: Ties
    fault: MemoryFault | None


FILE = click.Path(path_type=Path)
MAIN_OPTIONS = [
    common.deployment_option(required=False),
    *(
        common.field_option(WorldOptions, name, MEANINGS[name])
        for name in ("motes", "rate", "messages", "seed")
    ),
    click.option(
        "--scheme",
        "schemes",
        type=click.Choice(names()),
        multiple=True,
        help="Stamp; repeatable. [default: " + ", ".join(ordered()) + "]",
    ),
    click.option(
        "--policy",
        "policies",
        type=click.Choice(policies()),
        multiple=True,
        help="Delivery; repeatable. Each stamp takes those that can read it. [default: cbd, or the stamp's own rule]",
    ),
    click.option(
        "--phi",
        "phis",
        type=common.Whole(0, 100),
        multiple=True,
        help="Share of the safe wait in per cent; repeatable. [default: 100]",
    ),
    click.option(
        "--tolerate",
        "tolerates",
        type=common.FiniteFloat(0, 100),
        metavar="PERCENT",
        multiple=True,
        help="Deliver by the ledger, which adapts its wait so that at most this share of the messages is in a "
        "violation; repeatable. 0 is exact.",
    ),
    click.option(
        "--trace", type=FILE, help="Write the run to this folder as Parquet tables; one scheme only."
    ),
    common.json_option,
]
NETWORK_OPTIONS = [
    *(
        common.field_option(WorldOptions, name, MEANINGS[name])
        for name in ("epsilon", "delta", "gateways", "events_per_tick", "period", "window")
    ),
    click.option(
        "--hops",
        type=common.Whole(1),
        default=1,
        show_default=True,
        help="Hops to the farthest mote. The motes stand in a line, in this many equal groups.",
    ),
    click.option(
        "--positions", type=FILE, help="Place the gateway and the motes: lines of id, x, y; needs --range."
    ),
    click.option(
        "--range",
        "reach",
        type=common.FiniteFloat(0),
        help="Distance at which a mote is still heard, in the unit of --positions.",
    ),
    click.option(
        "--links", type=FILE, help="The links: lines of sender, receiver, probability; first the gateway's."
    ),
]
STAMP_OPTIONS = [
    click.option(
        "--stamp",
        "stamp",
        type=NamedValue(
            "setting",
            {
                "entries": lambda text: text if text == "all" else whole(text),
                "count": one_of(*get_args(Count)),
                "counter-bits": whole,
                "carry": one_of(*get_args(Carry)),
                "modulus": whole,
            },
        ),
        multiple=True,
        help="A setting of the stamps; repeatable. entries: kn entries on the wire, a number or all, several times for "
        f"several stamps. count: what kn counts ({', '.join(get_args(Count))}). counter-bits: width of a kn entry or "
        f"an HLC counter. carry: of hlc and shlc ({', '.join(get_args(Carry))}). modulus: of the clock on the "
        "wire; may be too small. [default: as deployed]",
    )
]
FAULT_OPTIONS = [
    common.field_option(WorldOptions, "loss", MEANINGS["loss"]),
    click.option(
        "--corrupt",
        type=click.Choice(["one", "all"]),
        help="Overwrite the state of one mote, or of all, after half of the messages.",
    ),
]
READING_OPTIONS = [
    click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        default="paper",
        show_default=True,
        help="paper fits the paper's results best. network measures delays in real time and loses what comes later "
        "than G2 allows: `plan` simulates this. measured is the same without that loss.",
    ),
    reading_option("Change one reading of the preset", ties=get_args(Ties)),
]
PANELS = {
    "Network": (
        "epsilon", "delta", "gateways", "events_per_tick", "period", "window",
        "hops", "positions", "reach", "links",
    ),
    "Stamp": ("stamp",),
    "Faults": ("loss", "corrupt"),
    "Readings of the paper's model": ("preset", "readings"),
}  # fmt: skip


@click.command(
    cls=common.PanelCommand,
    panels=PANELS,
    epilog=common.example(
        """
        basestation simulate
        basestation simulate --motes 50 --scheme shlc --scheme kn --stamp entries=2 --policy dapw --phi 100 --phi 40
        basestation simulate --deployment examples/paper.toml --loss 0.1 --json

        # Motes that listen once in 2048 ticks:
        basestation simulate --hops 3 --period 2048 --window 148 --delta 148 --epsilon 2 --rate 0.0008

        # The paper's modulus, which is too small:
        basestation simulate --reading delay-clock=sender --scheme kn --stamp modulus=21

        # Corrupt every mote's memory and see how long it takes to recover:
        basestation simulate --corrupt all --scheme kn --scheme shlc
        """
    ),
)
@common.add_options([*MAIN_OPTIONS, *NETWORK_OPTIONS, *STAMP_OPTIONS, *FAULT_OPTIONS, *READING_OPTIONS])
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, trace: Path | None, **given: Any) -> None:
    """Simulate a network as in the paper, and measure how well each scheme orders it.

    Every scheme stamps the same stream of events, except where a second send in a tick waits for some. Violations are
    in per cent of the messages delivered ("related": of the causally related pairs). The delay is the hold from
    arrival to delivery, in ticks.
    """
    try:
        request = _request(ctx, given)
        deployment = None if trace is None else _trace_deployment(request, trace)
        with progress(len(request.schemes) + 1, "simulating") as advance:
            run_in = cache(lambda world: generate(world, request.fault))
            run = run_in(world_for(request.options, request.schemes[0].name))
            advance()
            if trace is not None and deployment is not None:
                _write_trace(run, deployment, trace)
            rows = _measure_all(run_in, request, advance)
            if as_json:
                for base, row in rows:
                    common.emit_json(row.to_dict() | {"arrival_order": base.violations.percent()}, flush=True)
            else:
                shown = list(rows)
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    except (topology.TopologyError, TraceError) as error:
        common.fail(str(error))
    if not as_json:
        show_measurements(run, shown)


def _request(ctx: click.Context, given: dict[str, Any]) -> Request:
    settled = _with_deployment(ctx, _with_settings(_with_readings(given)))
    settled |= _network(settled)
    options = WorldOptions(
        **{name: settled[name] for name in WorldOptions.__dataclass_fields__ if name in settled}
    )
    schemes = tuple(dict.fromkeys(_schemes(options, settled)))
    if settled["corrupt"] and not all(isinstance(scheme, TimedScheme) for scheme in schemes):
        raise OptionError("corrupt", settled["corrupt"], f"faults are for {', '.join(ordered())}")
    return Request(
        options=options,
        schemes=schemes,
        deliveries=tuple(_deliveries(schemes, settled)),
        ties=settled["ties"],
        fault=_fault(options, settled),
    )


def _with_readings(given: dict[str, Any]) -> dict[str, Any]:
    """The readings of the preset, changed by --reading."""
    given = dict(given)
    usual = PRESETS[given.pop("preset")] | {"ties": "sequence"}
    return given | usual | dict(given.pop("readings"))


def _with_settings(given: dict[str, Any]) -> dict[str, Any]:
    """The settings of `--stamp`, each with its default where it is not given."""
    given = dict(given)
    asked = given.pop("stamp")
    usual = {"count": "events", "counter_bits": None, "carry": None, "modulus": None}
    entries = tuple(value for name, value in asked if name == "entries")
    return given | usual | dict(asked) | {"entries": entries, "stamp_said": {name for name, _ in asked}}


def _with_deployment(ctx: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Add the deployment's settings that no option sets; those of its stamp only for its own scheme."""
    path = given.pop("deployment")
    said = {
        name
        for name in given
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT)
    }
    said |= given.pop("stamp_said")
    for name in ("positions", "links"):
        if name in said and said & {"motes", "hops"}:
            raise OptionError(name, given[name], "also sets the number of motes and their hops")
    given["phi_said"] = "phis" in said
    if path is None:
        return given
    described = common.load_deployment(path)
    offered = _network_settings(described)
    if "tolerates" in said:
        del offered["policies"]  # the ledger was asked for
    elif "policies" in said:
        del offered["tolerates"]
    if any(refusal(described.observer.policy, name) for name in given["schemes"]):
        offered = {name: value for name, value in offered.items() if name not in ("policies", "tolerates")}
    if said & {"epsilon", "delta"}:
        del offered["modulus"], offered["give_up"]  # they were made for the deployment's own
    if "schemes" not in said or set(given["schemes"]) == {described.stamp.scheme}:
        offered |= _stamp_settings(described)
    if "rate" not in said:
        rate = offered.get("rate", given["rate"])
        common.note(f"a deployment does not say how often motes send: this assumes --rate {rate:g} a tick")
    return given | {name: value for name, value in offered.items() if name not in said}


def _network_settings(described: Deployment) -> dict[str, Any]:
    clock, network = described.clock, described.network
    return {
        "motes": network.motes,
        "hops": network.hops,
        "gateways": network.gateways,
        "epsilon": clock.epsilon,
        "delta": clock.delta,
        "events_per_tick": described.stamp.events_per_tick,
        "modulus": 1 << clock.clock_bits,
        "give_up": described.observer.give_up,
        "policies": (described.observer.policy,),
        "phis": (described.observer.phi,),
        "tolerates": () if described.observer.tolerate is None else (described.observer.tolerate,),
        **_windows(described),
    }


def _windows(described: Deployment) -> dict[str, Any]:
    """The windows of a deployment's schedule, and a message in each; nothing without one."""
    schedule, tick_log2 = described.schedule, described.clock.tick_log2
    if schedule is None:
        return {}
    period = max(1, schedule.period >> tick_log2)
    rate = 1 / period / described.stamp.events_per_tick
    return {"period": period, "window": schedule.delta_ticks(tick_log2), "rate": rate}


def _stamp_settings(described: Deployment) -> dict[str, Any]:
    stamp = described.stamp
    return {
        "schemes": (stamp.scheme,),
        "entries": (stamp.entries,),
        "count": stamp.count,
        "counter_bits": stamp.counter_bits,
        "carry": stamp.carry,
    }


def _network(given: dict[str, Any]) -> dict[str, Any]:
    """The `motes` and the `topology` that a file or a number of hops gives."""
    positions, links, reach = (given[name] for name in ("positions", "links", "reach"))
    if positions is None and links is None:
        if reach is not None:
            raise OptionError("range", reach, "needs --positions")
        return {"topology": topology.in_groups(given["motes"], given["hops"])} if given["hops"] > 1 else {}
    if positions is not None and links is not None:
        raise OptionError("links", links, "give either --positions or --links")
    if links is not None:
        laid_out = topology.linked(links)
    elif reach is None:
        raise OptionError("positions", positions, "needs --range: how far a mote is heard")
    else:
        laid_out = topology.field(positions, reach)
    return {"motes": laid_out.motes, "topology": laid_out}


def _schemes(options: WorldOptions, given: dict[str, Any]) -> Iterator[Scheme]:
    for name, k in _asked(given["schemes"], given["entries"]):
        if not descriptor(name).is_ordered:
            yield build_named(options, name, k, given.get("give_up"))
            continue
        if isinstance(k, int) and not given["entries"]:
            k = min(k, options.epsilon + 1)  # the default continuum, cut to what there is
        scheme = build_scheme(
            options,
            name,
            entries=k,
            count=given["count"],
            counter_bits=given["counter_bits"],
            carry=given["carry"],
            modulus=given["modulus"],
        )
        yield replace(scheme, setting=replace(scheme.setting, give_up=given.get("give_up")))


def _asked(schemes: Sequence[str], entries: Sequence[int | str]) -> Iterator[tuple[str, int | str]]:
    """Which stamps are to be simulated, each with its entries; by default the whole continuum."""
    if not schemes:
        schemes = [name for name in ordered() if not entries or "entries" in descriptor(name).settings]
        entries = entries or (*FEW_ENTRIES, "all")
    for name in schemes:
        chosen = (entries or ("all",)) if "entries" in descriptor(name).settings else ("all",)
        yield from ((name, k) for k in chosen)


def _deliveries(schemes: Sequence[Scheme], given: dict[str, Any]) -> Iterator[tuple[PolicyChoice, ...]]:
    """The policies for each scheme. Every policy must suit a scheme, and every scheme must have one that suits it."""
    asked = dict.fromkeys([*given["policies"], *([LEDGER] if given["tolerates"] else [])])
    for policy in asked:
        if reason := _refused([policy], schemes):
            raise OptionError("policy", policy, reason)
    used = {policy for scheme in schemes for policy in asked or (descriptor(scheme.name).policy,)}
    if given["phi_said"] and not used.intersection(PHI_POLICIES):
        raise OptionError("phi", given["phis"][0], str(phi_refusal(min(used))))
    for scheme in schemes:
        if asked and (reason := _refused(asked, [scheme])):
            raise OptionError("policy", next(iter(asked)), reason)
        suited = [policy for policy in asked if not refusal(policy, scheme.name)]
        suited = suited or [descriptor(scheme.name).policy]
        yield tuple(one for policy in suited for one in _choices(policy, given["phis"], given["tolerates"]))


def _refused(policies: Iterable[str], schemes: Sequence[Scheme]) -> str | None:
    """Why none of these policies can read a stamp of any of these schemes."""
    reasons = [refusal(policy, scheme.name) for policy in policies for scheme in schemes]
    return reasons[0] if all(reasons) else None


def _choices(policy: str, phis: Sequence[int], tolerates: Sequence[float]) -> Iterator[PolicyChoice]:
    if policy == LEDGER:
        yield from (PolicyChoice(LEDGER, 100, share) for share in dict.fromkeys(tolerates or (0.0,)))
    elif policy in PHI_POLICIES:
        yield from (PolicyChoice(policy, phi) for phi in dict.fromkeys(phis or (100,)))
    else:
        yield ARRIVAL_ORDER if policy == ARRIVAL_ORDER.policy else PolicyChoice(policy, 100)


def _fault(options: WorldOptions, given: dict[str, Any]) -> MemoryFault | None:
    if given["corrupt"] is None:
        return None
    motes = range(options.motes) if given["corrupt"] == "all" else (0,)
    return MemoryFault(tuple(motes), options.messages // 2)


def _measure_all(
    run_in: Callable[[WorldOptions], SimulatedRun], request: Request, advance: Callable[[], None]
) -> Iterator[tuple[Measurement, Measurement]]:
    """Each measurement, with arrival order on the same stream beside it."""
    for scheme, deliveries in zip(request.schemes, request.deliveries, strict=True):
        run = run_in(world_for(request.options, scheme.name))
        if isinstance(scheme, TimedScheme):
            rows = measure(run, scheme, [ARRIVAL_ORDER, *deliveries], request.ties)
        else:
            rows = measure_rule(run, scheme, [ARRIVAL_ORDER, *deliveries])
        base = next(rows)
        for row in rows:
            yield base, row
        advance()


def _trace_deployment(request: Request, folder: Path) -> Deployment:
    """The deployment for the trace of this request, or an error before the simulation if no trace is possible."""
    from basestation.simulator.simulated_trace import deployment_for

    check_new(folder)
    if len(request.schemes) != 1:
        raise OptionError("trace", folder, "a trace holds one kind of stamp: give one --scheme")
    scheme, first = request.schemes[0], request.deliveries[0][0]
    return deployment_for(request.options, scheme, first.policy, first.phi, first.tolerate)


def _write_trace(run: SimulatedRun, deployment: Deployment, folder: Path) -> None:
    from basestation.simulator.simulated_trace import trace_of

    write_trace(trace_of(run, deployment), folder)
    common.note(f"wrote {folder}: {run.stream.arrivals} messages, {len(run.stream.event_kind)} events")


def show_measurements(run: SimulatedRun, rows: Sequence[tuple[Measurement, Measurement]]) -> None:
    """Print a table of measurements, each given with arrival order on the same stream."""
    options = run.options
    common.out.print(
        f"{options.motes} motes, epsilon {options.epsilon}, delta {options.delta}, rate {options.rate:g}: "
        f"{run.stream.messages} messages sent, {run.stream.arrivals} arrived"
    )
    table = Table(box=SIMPLE_HEAD, padding=0)  # fits 80 columns
    table.add_column("scheme", no_wrap=True)
    for name in (
        "bits",
        "B",
        "policy",
        "phi",
        "mean",
        "any",
        "pairs",
        "hold",
        "p99",
        "full",
        "cut",
        "misread",
    ):
        table.add_column(name, justify="right")
    recovers = run.fault is not None
    if recovers:
        table.add_column("healed", justify="right")
    stamped = [row for _, row in rows if row.delivery != ARRIVAL_ORDER]  # arrival order is the same for all
    for row in [*(base for base, _ in rows[:1]), *stamped]:
        table.add_row(*_cells(row, recovers))
    common.out.print(table)
    common.out.print("\n".join(_legend(rows, recovers)), style="dim")


def _legend(rows: Sequence[tuple[Measurement, Measurement]], recovers: bool) -> list[str]:
    lines = [
        "B: bytes of stamp. Violations in % of messages delivered: mean (the paper's), any (messages in one), pairs.",
        "hold: ticks from arrival to delivery. cut: stamps beyond the bound. misread: clocks read wrongly.",
    ]
    if any(row.saturated for _, row in rows):
        lines.append("full: saturated stamps, which may tie; --stamp counter-bits=N widens them.")
    if recovers:
        lines.append("healed: ticks from the fault to the last violation.")
    return lines


def _cells(row: Measurement, recovers: bool) -> list[str]:
    percent, unstamped = row.violations.percent(), row.delivery.policy == ARRIVAL_ORDER.policy
    name = "(arrival)" if unstamped else scheme_label(row.scheme)
    cells = [
        name,
        "0" if unstamped else f"{row.stamp_bits:g}",
        "0" if unstamped else f"{-(-row.stamp_bits // 8):g}",
        policy_label(row.delivery.policy, row.delivery.tolerate),
        f"{row.delivery.phi}%" if row.delivery.policy in TIMED_POLICIES else "-",
        *(_percent(percent[figure]) for figure in ("mean", "any", "pairs")),
        f"{row.hold_mean:.1f}",
        f"{row.hold_p99:.0f}",
        "" if unstamped else str(row.saturated),
        "" if unstamped else str(row.bounded),
        "" if unstamped else str(row.wrong_unwraps),
    ]
    return cells + (["" if unstamped else str(row.recovery_ticks)] if recovers else [])


def _percent(value: float) -> str:
    """A share in per cent, never rounded down to nothing."""
    return "0" if value == 0 else f"{value:.2f}" if value >= 0.01 else "<0.01"


def scheme_label(scheme: Scheme) -> str:
    """A short name for tables and plots."""
    setting = scheme.setting
    row = descriptor(scheme.name)
    if "entries" not in row.settings:
        return scheme.name
    every = row.is_ordered and setting.entries == setting.epsilon + 1
    return f"{scheme.name} {'all' if every else setting.entries}" + (
        " sends" if setting.count == "sends" else ""
    )
