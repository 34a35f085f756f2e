"""Sends commands to motes one after another, waits for answers, and says what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from basestation.cli import common
from basestation.live.commands import (
    ALL,
    Dispatch,
    Envelopes,
    MoteSetting,
    OrderError,
    name_of,
    set_order,
)
from basestation.live.downlink import PATIENCE, TRIES, Reboots, Receipt, Reports, Talk, told
from basestation.sources import Source
from basestation.sources.base import Spec
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.phrases import many
from packet_formats.records import Command, Health
from packet_formats.tinyos import ActiveMessage

FIRST_SECONDS = 3.0  # for the report before a reboot, which shows the boot counts
TIME_SECONDS = 15.0  # for the network's time, which commands of a network with a key hold
PAUSE_SECONDS = 0.1  # between two commands: a gateway has room for six, and motes pass each on
BOOT_SECONDS = 3.0  # emulated motes are up by then, and know the time

NOT_READ = (
    "did not close in order: it may have refused the commands, or not have read all of them; "
    "a station takes commands of other machines only with `listen --serve-control`"
)


def motes_there(sources: Sequence[str], deployment: Deployment) -> int:
    """The number of motes that can answer: a testbed may run fewer than the deployment has."""
    most = deployment.network.motes
    specs = [Spec.parse(text) for text in sources]
    if any(spec.kind != "testbed" for spec in specs):
        return most
    return min(most, max(spec.whole("motes", most, 1, ALL) for spec in specs))


@dataclass
class Session:
    """`wait`: seconds for answers; None to wait for none."""

    sources: Sequence[Source]
    deployment: Deployment
    wait: float | None
    as_json: bool

    @cached_property
    def _layout(self) -> DataLayout:
        return layout_of(self.deployment)

    @cached_property
    def _envelopes(self) -> Envelopes:
        return Envelopes(self.deployment)

    async def run(self, orders: Sequence[Dispatch]) -> list[str]:
        """Send all; the faults, in words."""
        faults: list[str] = []
        async with Talk(self.sources, self._layout, self.deployment) as talk:
            if any(Spec.parse(source.text).kind == "testbed" for source in self.sources):
                await asyncio.sleep(BOOT_SECONDS)
            for place, order in enumerate(orders):
                if place:
                    await asyncio.sleep(PAUSE_SECONDS)
                faults += await self._carry_out(talk, order)
            for source, known in (await talk.finish()).items():
                if known:
                    common.note(f"{source} has read it all and closed; it says nothing about the gateway")
                else:
                    faults.append(f"{source}: {NOT_READ}")
        return faults

    async def _carry_out(self, talk: Talk, order: Dispatch) -> list[str]:
        answers = self._answers(order)
        talk.forget()
        try:
            if isinstance(answers, Reboots):
                await self._ask_first(talk, order, answers)
            number, message, receipts = await self._send(talk, order)
        except OrderError as error:
            return [str(error)]
        if not self.as_json:
            for receipt in receipts:
                _say(f"{order.text} to {name_of(order.target, self.deployment)}: {told(receipt)}")
        faults = [f"{receipt.source}: {receipt.error}" for receipt in receipts if receipt.error]
        if answers is not None and len(faults) < len(receipts):
            faults += await self._await(talk, answers)
        if self.as_json:
            common.emit_json(_plain(order, number, message, receipts, answers), flush=True)
        return faults

    async def _send(self, talk: Talk, order: Dispatch) -> tuple[int, ActiveMessage, tuple[Receipt, ...]]:
        patience = TIME_SECONDS + self.deployment.answer_seconds
        now = await talk.network_time(patience) if self._envelopes.needs_time else None
        number, message = self._envelopes.make(order, now)
        return number, message, await talk.send(message, number % 256, PATIENCE, TRIES)

    def _answers(self, order: Dispatch) -> Reports | Reboots | None:
        if self.wait is None or order.setting is None:
            return None
        there = range(motes_there([source.text for source in self.sources], self.deployment))
        asked = there if order.target == ALL else (order.target,)
        if order.setting.command is Command.REPORT:
            return Reports(asked, of_all=order.target == ALL)
        if order.setting.command is Command.REBOOT:
            return Reboots(asked)
        common.note(f"{order.text}: motes do not answer this")
        return None

    async def _ask_first(self, talk: Talk, order: Dispatch, answers: Reboots) -> None:
        """Ask for the boot counts before the reboot. A mote that does not answer may still be seen to reboot."""
        await self._send(talk, set_order(MoteSetting("report", Command.REPORT), order.target, order.hops))
        async for message in talk.heard(FIRST_SECONDS + self.deployment.answer_seconds):
            answers.take(message)
            if not answers.unknown:
                return

    async def _await(self, talk: Talk, answers: Reports | Reboots) -> list[str]:
        assert self.wait is not None
        async for message in talk.heard(self.wait):
            mote = answers.take(message)
            if mote is not None and not self.as_json:
                _say(self._answered(mote, answers))
            if not answers.missing:
                return []
        return [_missing(answers, self.wait)]

    def _answered(self, mote: int, answers: Reports | Reboots) -> str:
        health = answers.answers[mote]
        text = "has started again" if isinstance(answers, Reboots) else "answers"
        text += f": {_shown(health, self._layout)}" if health else ""
        return f"{name_of(mote, self.deployment)} {text}"


def _plain(
    order: Dispatch,
    number: int,
    message: ActiveMessage,
    receipts: Sequence[Receipt],
    answers: Reports | Reboots | None,
) -> dict[str, Any]:
    return {
        "order": order.text,
        "mote": "all" if order.target == ALL else order.target,
        "number": None if order.setting is None else number,
        "am_type": message.type,
        "payload": message.data,
        "gateways": receipts,
        "answers": answers and [{"mote": mote, "health": health} for mote, health in answers.answers.items()],
        "missing": answers and sorted(answers.missing),
    }


def _say(text: str) -> None:
    common.out.print(text, markup=False, soft_wrap=True)


def _shown(health: Health, layout: DataLayout) -> str:
    parts = [
        f"boot {health.boots}",
        "in sync" if health.in_sync else "out of sync",
        "no way to the root known" if health.hops == 255 else f"{many(health.hops, 'hop')} from the root",
    ]
    if health.battery_mv:
        parts.append(f"{health.battery_mv / 1000:.2f} V")
    if health.layout != layout.hash:
        parts.append(f"built for another deployment (layout {health.layout:08x}, ours {layout.hash:08x})")
    return ", ".join(parts)


def _missing(answers: Reports | Reboots, seconds: float) -> str:
    what = "no reboot seen" if isinstance(answers, Reboots) else "no answer"
    text = f"{what} within {seconds:g} s: {_listed(answers.missing)}"
    if isinstance(answers, Reboots) and answers.unknown:
        text += f" (no report before the reboot either: {_listed(answers.unknown)})"
    return text


def _listed(motes: set[int]) -> str:
    return ("mote " if len(motes) == 1 else "motes ") + ", ".join(map(str, sorted(motes)))
