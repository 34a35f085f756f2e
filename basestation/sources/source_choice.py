"""The choice of sources, which the user can name in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from basestation.sources import attached_ports
from basestation.sources.base import SourceError

SUGGESTIONS = "serial@/dev/ttyUSB1, sf@localhost:9002 or simulate@"


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """The sources to open, and a line for the user if they were not given on the command line."""

    texts: tuple[str, ...]
    why: str = ""
    by_deployment: bool = False


def choose(given: Sequence[str], environ: Mapping[str, str], deployed: Sequence[str] = ()) -> SourceChoice:
    """Choose the given sources, or MOTECOM's, or the deployment's, or the one port that looks like a gateway's."""
    if given:
        return SourceChoice(tuple(given))
    if motecom := environ.get("MOTECOM"):
        return SourceChoice((motecom,), f"MOTECOM says {motecom}")
    if deployed:
        return SourceChoice(tuple(deployed), f"the deployment says {', '.join(deployed)}", by_deployment=True)
    attached = attached_ports.attached()
    likely = attached_ports.candidates(attached)
    if len(likely) > 1:
        raise SourceError(f"several ports could be the gateway's, say which: {_listed(likely)}")
    if not likely:
        seen = f"; there is only {_listed(attached)}" if attached else ""
        cure = f"plug it in, or give a source such as {SUGGESTIONS}"
        raise SourceError(f"nothing attached looks like a gateway{seen}: {cure}")
    text = f"serial@{likely[0].device}"
    return SourceChoice((text,), f"using {text}: {likely[0].board}")


def _listed(found: Sequence[attached_ports.SerialPort]) -> str:
    return ", ".join(f"serial@{port.device} ({port.board or port.description or '?'})" for port in found)
