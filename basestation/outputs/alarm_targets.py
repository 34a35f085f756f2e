"""Alarms that reach people: a command, a webhook, an MQTT topic."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from basestation.live.alarms import KINDS
from basestation.live.happenings import Alarm, Happening
from basestation.outputs import OutputError
from basestation.outputs.mqtt_link import MqttLink, read_broker
from basestation.outputs.outbox import Outbox, Say
from basestation.outputs.plain_forms import iso_time
from basestation.outputs.posting import post, read_address

LIMIT_S = 10.0  # for a command
PAUSES_S = (1.0, 4.0, 15.0)  # before a webhook or a broker is tried again
HELP = "command:PROGRAM ARGUMENTS, https://..., or mqtt://[user:password@]HOST[:PORT]/TOPIC"
Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlarmRoute:
    """Where alarms go: all kinds or some, and whether also when one is over."""

    to: str
    kinds: Collection[str] = KINDS
    over: bool = True

    def wants(self, alarm: Alarm) -> bool:
        return alarm.what in self.kinds and (alarm.raised or self.over)


class Target(Protocol):
    name: str
    again: bool  # whether what failed may be tried again

    def tell(self, said: Said) -> None:
        """Tell an alarm within some seconds, or raise `OutputError`."""

    def close(self) -> None: ...


def make_target(to: str) -> Target:
    kind, colon, rest = to.partition(":")
    if kind == "command" and colon:
        return CommandTarget(rest)
    if kind in ("http", "https") and rest.startswith("//") and rest[2:]:
        return WebTarget(to)
    if kind in ("mqtt", "mqtts"):
        return MqttTarget(to)
    raise OutputError(f"{to!r} is no place for alarms: {HELP}")


class CommandTarget:
    """A program, without a shell. It gets the alarm as JSON on its standard input, and as variables."""

    again = False  # it may have done half of its work

    def __init__(self, text: str) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise OutputError(f"command:{text}: {error}") from None
        if not self._words:
            raise OutputError("command: names no program")
        if shutil.which(self._words[0]) is None:
            raise OutputError(
                f"command:{self._words[0]}: there is no such program, or it may not be run: give its whole path"
            )
        self.name = f"command {self._words[0]}"
        self._running: subprocess.Popen[bytes] | None = None

    def tell(self, said: Said) -> None:
        variables = {f"CAUSEWAY_ALARM_{name.upper()}": str(value) for name, value in said.items()}
        try:
            process = subprocess.Popen(
                self._words,
                env=os.environ | variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is not for it, and it is ended with all that it started
            )
        except (OSError, ValueError) as error:
            raise OutputError(f"it can't be started: {getattr(error, 'strerror', None) or error}") from None
        with process:
            self._running = process
            stderr = b""
            try:
                stderr = process.communicate(json.dumps(said).encode(), LIMIT_S)[1]
            except subprocess.TimeoutExpired:
                if process.poll() is None:  # otherwise only something that it left behind goes on
                    self.close()
                    raise OutputError(f"it took longer than {LIMIT_S:g} s and was ended") from None
            finally:
                self._running = None
        if process.returncode:
            last = stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise OutputError(f"it ended with {process.returncode}{f': {last}' if last else ''}")

    def close(self) -> None:
        """End it, and what it started, if it has not ended."""
        running = self._running
        if running is not None and running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


class WebTarget:
    """A webhook: the alarm is posted as JSON."""

    again = True

    def __init__(self, url: str) -> None:
        try:
            self._address = read_address(url)
        except ValueError as error:
            raise OutputError(f"a webhook's address can't be used: {error}") from None
        self.name = f"webhook {self._address.host}"

    def tell(self, said: Said) -> None:
        post(self._address, json.dumps(said).encode(), "application/json")

    def close(self) -> None:
        pass


class MqttTarget:
    """A topic of an MQTT broker."""

    again = True

    def __init__(self, text: str) -> None:
        broker = read_broker(text)
        if not broker.path:
            raise OutputError(f"{broker}: names no topic: mqtt://{broker.host}/causeway/alarms")
        self._link, self._topic = MqttLink(broker, "an alarm over MQTT", "alarms", _silent), broker.path
        self.name = str(broker)

    def tell(self, said: Said) -> None:
        self._link.publish_now(self._topic, json.dumps(said))

    def close(self) -> None:
        self._link.close()


def _silent(text: str) -> None:
    """The alarm's own outbox says what could not be told."""


class AlarmSink:
    """Takes alarms to one target. `pauses_s` are the waits before it is tried again."""

    def __init__(
        self, route: AlarmRoute, network: str, say: Say, pauses_s: Collection[float] = PAUSES_S
    ) -> None:
        self._route, self._network, self._pauses_s = route, network, pauses_s
        self._target = make_target(route.to)
        self._outbox: Outbox[Alarm] = Outbox(self._target.name, self._tell, say, size=200)

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Alarm) and self._route.wants(happening):
            self._outbox.put(happening)

    def close(self) -> None:
        self._outbox.close()
        self._target.close()

    def _tell(self, alarms: list[Alarm]) -> None:
        (alarm,) = alarms
        said = plain_alarm(alarm, self._network)
        for pause in (*self._pauses_s, None):
            try:
                return self._target.tell(said)
            except OutputError:
                if pause is None or not self._target.again or self._outbox.ending.wait(pause):
                    raise


def plain_alarm(alarm: Alarm, network: str) -> dict[str, Any]:
    """An alarm as others get it."""
    return {
        "network": network,
        "what": alarm.what,
        "subject": alarm.subject,
        "raised": alarm.raised,
        "text": alarm.text,
        "time": iso_time(alarm.wall_ns),
    }
