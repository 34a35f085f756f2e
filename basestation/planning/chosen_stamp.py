"""A chosen stamp as a deployment, and as the command that simulates it again."""

from __future__ import annotations

from dataclasses import fields

from basestation.simulator.options import READINGS, WorldOptions
from packet_formats import deployment
from packet_formats.deployment import Deployment

from .budget import Budget
from .stamp_choice import CandidateRow, Comparison
from .stamp_trials import NAMED_MESSAGES, POLICY


def simulate_command(comparison: Comparison, row: CandidateRow, hops: int) -> str:
    """The `basestation simulate` command that runs the first of these networks with this row's stamp and policy."""
    options, layout, usual = comparison.options, row.candidate.layout, WorldOptions()
    always = ("motes", "epsilon", "delta", "rate", "messages", "seed")
    given: dict[str, object] = {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.name not in ("topology", "delay_law", *READINGS)
        and (field.name in always or getattr(options, field.name) != getattr(usual, field.name))
    }
    if row in comparison.named:
        given["messages"] = min(options.messages, NAMED_MESSAGES)
    given |= {"preset": "network", "reading": f"delay-law={options.delay_law}"}
    given |= {"hops": hops} if hops > 1 else {}
    given |= {"scheme": layout.scheme}
    settings = [
        f"--stamp {key.replace('_', '-')}={value}"
        for key, value in layout.settings.items()
        if key in ("entries", "count", "counter_bits")
    ]
    if row.tolerate is not None:
        given |= {"tolerate": row.tolerate}
    elif row not in comparison.named:  # which are delivered by their own rules
        given |= {"policy": row.policy}
    given |= {"phi": row.phi} if row.policy == POLICY else {}
    words = [f"--{name.replace('_', '-')} {value}" for name, value in given.items()]
    return " ".join(["basestation simulate", *words, *settings])


def deployment_of(budget: Budget, row: CandidateRow, name: str, key: str = "site.key") -> Deployment:
    """The deployment with this stamp; `DeploymentError` if it is impossible. `key`: its file, where there is a MIC."""
    network, clock, layout = budget.network, budget.clock, row.candidate.layout
    stamp: dict[str, object] = {
        "scheme": layout.scheme,
        "packing": layout.packing,
        "events_per_tick": row.candidate.events_per_tick,
        "receipts": network.receipts,
    }
    stamp |= layout.settings
    tables = {
        "network": {
            "name": name,
            "board": network.board,
            "motes": network.motes,
            "tinyos": network.tinyos,
            "hops": network.hops,
            "data_bytes": network.data_bytes,
        },
        "clock": {"tick_log2": clock.tick_log2, "epsilon": clock.epsilon, "delta": clock.delta}
        | ({"clock_bits": layout.clock_bits} if network.late_ms else {}),
        "stamp": stamp,
        "observer": {"policy": row.policy, "phi": row.phi}
        | ({} if row.tolerate is None else {"tolerate": row.tolerate}),
        **({"security": {"mic": network.mic, "key": key}} if network.mic else {}),
        **(
            {
                "radio": {
                    "period_ms": network.period_ms,
                    "window_ms": network.window_ms,
                    "urgent_ms": network.urgent_ms,
                }
            }
            if network.period_ms
            else {}
        ),
    }
    return deployment.from_dict(tables)
