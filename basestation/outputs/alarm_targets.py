"""Sends alarms to people: by a program, a webhook or an MQTT topic."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from basestation.live.alarms import KINDS
from basestation.live.happenings import Alarm, Happening
from basestation.outputs import OutputError
from basestation.outputs.mqtt_link import MqttLink, read_broker
from basestation.outputs.outbox import Outbox, Say
from basestation.outputs.plain_forms import iso_time

LIMIT_S = 10.0  # for a command to end, or a web server to answer
PAUSES_S = (1.0, 4.0, 15.0)  # before a webhook or a broker is tried again
HELP = "command:PROGRAM ARGUMENTS, https://..., or mqtt://[user:password@]HOST[:PORT]/TOPIC"
Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlarmRoute:
    """A target with the kinds of alarms that go there; `over`: also their ends."""

    to: str
    kinds: Collection[str] = KINDS
    over: bool = True

    def wants(self, alarm: Alarm) -> bool:
        return alarm.what in self.kinds and (alarm.raised or self.over)


class Target(Protocol):
    name: str
    again: bool  # whether a failed alarm may be sent again

    def send(self, said: Said) -> None:
        """Send an alarm within some seconds, or raise `OutputError`."""

    def close(self) -> None: ...


def make_target(to: str) -> Target:
    kind, colon, rest = to.partition(":")
    if kind == "command" and colon:
        return CommandTarget(rest)
    if kind in ("http", "https") and rest.startswith("//") and rest[2:]:
        return WebTarget(to)
    if kind in ("mqtt", "mqtts"):
        return MqttTarget(to)
    raise OutputError(f"{to!r} is not a target for alarms: {HELP}")


class CommandTarget:
    """Runs a program, without a shell, with the alarm as JSON on its standard input and as variables."""

    again = False  # the program may have done half of its work

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

    def send(self, said: Said) -> None:
        variables = {f"CAUSEWAY_ALARM_{name.upper()}": str(value) for name, value in said.items()}
        try:
            process = subprocess.Popen(
                self._words,
                env=os.environ | variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C does not reach it; killing the session ends all that it started
            )
        except (OSError, ValueError) as error:
            raise OutputError(f"it can't be started: {getattr(error, 'strerror', None) or error}") from None
        with process:
            self._running = process
            stderr = b""
            try:
                stderr = process.communicate(json.dumps(said).encode(), LIMIT_S)[1]
            except subprocess.TimeoutExpired:
                if process.poll() is None:  # otherwise only a program that it started still runs
                    self.close()
                    raise OutputError(f"it took longer than {LIMIT_S:g} s and was ended") from None
            finally:
                self._running = None
        if process.returncode:
            last = stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise OutputError(f"it ended with {process.returncode}{f': {last}' if last else ''}")

    def close(self) -> None:
        """Kill the program and all that it started, if it still runs."""
        running = self._running
        if running is not None and running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


class Address(NamedTuple):
    """A web address without its password, which goes into the headers, and the host's name as people may see it."""

    url: str
    host: str
    headers: dict[str, str]


def read_address(url: str) -> Address:
    """Split an address; `ValueError` if it names no host."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    if not parts.hostname:
        raise ValueError("it names no host")
    host = (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname) + port
    headers = {"User-Agent": "causeway", "Content-Type": "application/json"}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    return Address(urlunsplit((parts.scheme, host, parts.path, parts.query, "")), host, headers)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the alarm."""

    def redirect_request(self, *args: Any, **given: Any) -> None:
        return None


class WebTarget:
    """A webhook: the alarm is posted as JSON."""

    again = True

    def __init__(self, url: str) -> None:
        try:
            self._address = read_address(url)
        except ValueError as error:
            raise OutputError(f"a webhook's address can't be used: {error}") from None
        self.name = f"webhook {self._address.host}"

    def send(self, said: Said) -> None:
        request = urllib.request.Request(self._address.url, json.dumps(said).encode(), self._address.headers)
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=LIMIT_S):
                return
        except urllib.error.HTTPError as error:
            with error:
                moved = f", it has moved to {error.headers['Location']}" if 300 <= error.code < 400 else ""
            raise OutputError(f"it answers {error.code} {error.reason}{moved}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise OutputError(str(getattr(error, "reason", error)) or type(error).__name__) from None

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

    def send(self, said: Said) -> None:
        self._link.publish_now(self._topic, json.dumps(said))

    def close(self) -> None:
        self._link.close()


def _silent(text: str) -> None:
    """The alarm's own outbox reports failures."""


class AlarmSink:
    """Sends alarms to one target. `pauses_s` are the waits before each new try."""

    def __init__(
        self, route: AlarmRoute, network: str, say: Say, pauses_s: Collection[float] = PAUSES_S
    ) -> None:
        self._route, self._network, self._pauses_s = route, network, pauses_s
        self._target = make_target(route.to)
        self._outbox: Outbox[Alarm] = Outbox(self._target.name, self._send, say, size=200)

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Alarm) and self._route.wants(happening):
            self._outbox.put(happening)

    def close(self) -> None:
        self._outbox.close()
        self._target.close()

    def _send(self, alarm: Alarm) -> None:
        said = plain_alarm(alarm, self._network)
        for pause in (*self._pauses_s, None):
            try:
                return self._target.send(said)
            except OutputError:
                if pause is None or not self._target.again or self._outbox.ending.wait(pause):
                    raise


def plain_alarm(alarm: Alarm, network: str) -> dict[str, Any]:
    """An alarm as JSON."""
    return {
        "network": network,
        "what": alarm.what,
        "subject": alarm.subject,
        "raised": alarm.raised,
        "text": alarm.text,
        "time": iso_time(alarm.wall_ns),
    }
