"""The options of `listen` for other programs: targets of alarms, and outputs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, network_options
from basestation.live.happenings import Happening, Note, Sink
from basestation.outputs import OutputError, OutputUnavailable, SnapshotSink
from packet_formats.layout import layout_of

if TYPE_CHECKING:
    from basestation.live.counters import Snapshot
    from basestation.live.runner import Stage
    from packet_formats.deployment import Deployment

OPTIONS = (
    click.option(
        "--on-alarm",
        "on_alarm",
        multiple=True,
        metavar="TARGET",
        help="Also send alarms to a program (command:PROGRAM ARGUMENTS, without a shell; it gets JSON on its input), a "
        "webhook (https://...) or a broker (mqtt://HOST/TOPIC). May be repeated.",
    ),
    click.option(
        "--settings",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="CAUSEWAY_SETTINGS",
        metavar="FILE",
        help="File with [[alarm]] tables, for each run. [default: ~/.config/causeway/settings.toml, if it exists]",
    ),
    click.option(
        "--mqtt",
        envvar="CAUSEWAY_MQTT",
        metavar="URL",
        help="Publish deliveries, values, health and alarms: mqtt://[USER:PASSWORD@]HOST[:PORT][/PREFIX], or mqtts:// "
        "for TLS. Home Assistant discovers them.",
    ),
    click.option(
        "--metrics",
        is_flag=False,
        flag_value="",
        envvar="CAUSEWAY_METRICS",
        metavar="[HOST[:PORT]]",
        help="Serve /metrics for Prometheus. [default: this machine's port 9532]",
    ),
)
PICTURE_S = 10.0  # between two snapshots of the station for the outputs
ASKING_S = 2.0  # for which a scrape waits for a snapshot


@dataclass(frozen=True)
class Outputs:
    """The values of these options."""

    on_alarm: tuple[str, ...]
    settings: Path | None
    mqtt: str | None
    metrics: str | None

    def open(self, deployment: Deployment, voice: Voice) -> OpenOutputs:
        """Make the sinks; a usage error for wrong values, a fault if an output is not available."""
        opened = OpenOutputs(voice)
        try:
            opened.add_all(self._sinks(deployment, opened))
        except OutputError as error:
            opened.close()
            if isinstance(error, OutputUnavailable):
                common.fail(str(error))
            raise click.UsageError(str(error)) from None
        return opened

    def _sinks(self, deployment: Deployment, opened: OpenOutputs) -> Iterator[Sink]:
        """The sinks. Their modules are imported here, so that `listen` without outputs starts sooner."""
        from basestation.outputs.alarm_targets import AlarmRoute, AlarmSink
        from basestation.outputs.settings import load_settings

        say = opened.voice.say
        metrics_at = None if self.metrics is None else network_options.served_at("--metrics", self.metrics)
        for route in [*load_settings(self.settings).alarms, *map(AlarmRoute, self.on_alarm)]:
            yield AlarmSink(route, deployment.network.name, say)
        if self.mqtt is not None:
            from basestation.outputs.mqtt import MqttOutput
            from basestation.views.ndjson import to_plain

            layout = layout_of(deployment)
            yield MqttOutput(self.mqtt, deployment, lambda happening: to_plain(happening, layout), say)
        if metrics_at is not None:
            yield _serve_metrics(metrics_at, deployment, opened)


def _serve_metrics(where: tuple[str, int | None], deployment: Deployment, opened: OpenOutputs) -> Sink:
    from basestation.outputs.metrics import PORT, MetricsOutput

    host, port = where
    network_options.warn_if_everywhere("--metrics", host)
    metrics = MetricsOutput(host, PORT if port is None else port, deployment, opened.picture)
    name = f"[{host}]" if ":" in host else host
    common.note(f"metrics are at http://{name}:{metrics.port}/metrics")
    return metrics


class Voice:
    """Notes of sources and outputs, from any thread, for the user: during a run they go through its views."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def use(self, stage: Stage) -> None:
        self._stage, self._loop = stage, asyncio.get_running_loop()

    def say(self, text: str) -> None:
        stage, loop = self._stage, self._loop
        if stage is not None and loop is not None and not stage.ended:
            note = Note(time.monotonic_ns(), time.time_ns(), text)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._tell, stage, note)
                return
        common.note(text)

    def _tell(self, stage: Stage, note: Note) -> None:
        if stage.ended:
            common.note(note.text)
        else:
            stage.tell([note])


class OpenOutputs:
    """The outputs of a run. The stage closes the `sinks`."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice
        self._outputs: list[Sink] = []
        self._stage: Stage | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def sinks(self) -> list[Sink]:
        """The outputs, after this object, which gives them a last snapshot at the end."""
        return [self, *self._outputs] if self._outputs else []

    def add_all(self, outputs: Iterator[Sink]) -> None:
        for output in outputs:
            self._outputs.append(output)

    def begin(self, stage: Stage) -> None:
        """Called in the event loop, before the stage runs."""
        self._stage, self._loop = stage, asyncio.get_running_loop()
        self.voice.use(stage)
        if self._takers():
            self._loop.call_later(PICTURE_S, self._give_pictures)

    def take(self, happening: Happening) -> None:
        pass

    def close(self) -> None:
        """Give a last snapshot; if no run began, close the outputs."""
        if self._stage is None:
            for output in self._outputs:
                output.close()
        else:
            self._give_picture(self._stage)

    def picture(self) -> Snapshot | None:
        """A snapshot of the station, from any thread; None outside a run, or if the loop is busy."""
        stage, loop = self._stage, self._loop
        if stage is None or loop is None or stage.ended:
            return None
        answer: Future[Snapshot] = Future()
        with contextlib.suppress(RuntimeError, TimeoutError):  # the loop is closed, or busy
            loop.call_soon_threadsafe(lambda: answer.set_result(stage.snapshot()))
            return answer.result(ASKING_S)
        return None

    def _takers(self) -> list[SnapshotSink]:
        return [output for output in self._outputs if isinstance(output, SnapshotSink)]

    def _give_pictures(self) -> None:
        if self._stage is not None and self._loop is not None and not self._stage.ended:
            self._give_picture(self._stage)
            self._loop.call_later(PICTURE_S, self._give_pictures)

    def _give_picture(self, stage: Stage) -> None:
        takers = self._takers()
        snapshot = stage.snapshot() if takers else None
        for taker in takers:
            if snapshot is not None:
                taker.take_snapshot(snapshot)


options = common.grouped(OPTIONS, Outputs, "outputs")
