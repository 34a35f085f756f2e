"""What the page may send to motes while a run goes on."""

from __future__ import annotations

from collections.abc import Sequence

from basestation.live.commands import OrderError, name_of, numbers, set_order, settings_of
from basestation.live.downlink import Receipt, Talk
from basestation.live.happenings import Acknowledged, Happening
from basestation.sources.base import Source
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of

PATIENCE, TRIES = 1.0, 3  # seconds for an acknowledgement


class MoteCommands:
    """A sink, which sees the acknowledgements that come on the lines of a run, and sends settings down them."""

    def __init__(self, sources: Sequence[Source], deployment: Deployment) -> None:
        self._deployment, self._numbers = deployment, numbers()
        self._talk = Talk(sources, layout_of(deployment))

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Acknowledged):
            self._talk.acknowledged(happening.gateway, happening.token)

    def close(self) -> None:
        pass

    async def send(self, mote: int, text: str) -> str:
        """Send a setting such as `blink red`, and say what is known of it; `OrderError` if it is none."""
        settings = settings_of(text.split()[:8])
        if len(settings) != 1:
            raise OrderError("say one setting, such as report, blink red, reboot or rate 0.5")
        order = set_order(settings[0], mote, self._deployment.network.hops)
        number = next(self._numbers)
        message = order.message(self._deployment, number)
        receipts = await self._talk.send(message, number % 256, PATIENCE, TRIES)
        told = "; ".join(map(_told, receipts))
        return f"{order.text} to {name_of(mote, self._deployment)}: {told}."


def _told(receipt: Receipt) -> str:
    if receipt.acknowledged is None:
        return f"handed to {receipt.source}, which does not say more"
    return (
        f"the gateway at {receipt.source} has it"
        if receipt.acknowledged
        else f"{receipt.source}: {receipt.error}"
    )
