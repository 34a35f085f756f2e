"""A connection to an MQTT broker that reconnects by itself."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from basestation.outputs import OutputError, library
from basestation.outputs.outbox import Say

PORT, TLS_PORT = 1883, 8883
KEEPALIVE_S = 30
WAIT_S = 10.0
FIRST_RETRY_S, LONGEST_RETRY_S = 1, 30
MOST_QUEUED = 1000  # messages that the broker has not confirmed
FULL_S, LOOK_S = 0.01, 0.2  # until a full queue is tried again; between two looks whether the link closes
_numbers = itertools.count(
    1
)  # of the links in this process: a broker drops the older of two clients of one name


class Broker(NamedTuple):
    """What mqtt://[user:password@]host[:port][/path] and mqtts://... say."""

    host: str
    port: int
    tls: bool
    user: str | None
    password: str | None
    path: str

    def __str__(self) -> str:
        """Without the password, since people see it."""
        return f"mqtt{'s' if self.tls else ''}://{self.host}:{self.port}/{self.path}"


def read_broker(text: str) -> Broker:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise OutputError(f"{_hidden(text)}: {error}") from None
    if url.scheme not in ("mqtt", "mqtts") or not url.hostname or "?" in text or "#" in text:
        raise OutputError(
            f"{_hidden(text)}: should look like mqtt://broker, mqtts://user:password@broker:8883/prefix"
        )
    path = unquote(url.path.strip("/"))
    if set(path) & set("+#\0"):
        raise OutputError(f"{_hidden(text)}: {path!r} cannot be published to: it has + or #")
    tls = url.scheme == "mqtts"
    user, password = (None if part is None else unquote(part) for part in (url.username, url.password))
    return Broker(url.hostname, port or (TLS_PORT if tls else PORT), tls, user, password, path)


def _hidden(text: str) -> str:
    """A broker's address without all before @, which may hold a password."""
    scheme, slashes, rest = text.partition("://")
    return f"{scheme}{slashes}...@{rest.rpartition('@')[2]}" if "@" in rest else text


class MqttLink:
    """Publishes messages in order, each at least once. While the broker is away, `publish` waits.

    `say` reports when the broker cannot be reached, and when it is connected again.
    """

    def __init__(
        self,
        broker: Broker,
        wanted_by: str,
        role: str,
        say: Say,
        *,
        will: tuple[str, str] | None = None,
        on_connected: Callable[[MqttLink], None] | None = None,
    ) -> None:
        """`will`: a topic, and the text that the broker publishes there, retained, if we vanish."""
        self._mqtt = library("paho.mqtt.client", "mqtt", wanted_by)
        self.broker = broker
        self._on_connected = on_connected
        self._say, self._reported = say, False
        self._up, self._why = threading.Event(), "no connection yet"
        self._handed = self._had = 0  # messages given to the client, and by it to the broker
        self._closing = False
        self._client = self._make(role, will)
        self._client.connect_async(broker.host, broker.port, KEEPALIVE_S)
        self._client.loop_start()

    def _make(self, role: str, will: tuple[str, str] | None) -> Any:
        broker = self.broker
        name = f"causeway-{role}-{socket.gethostname()[:40]}-{os.getpid()}-{next(_numbers)}"
        client = self._mqtt.Client(self._mqtt.CallbackAPIVersion.VERSION2, client_id=name)
        client.max_queued_messages_set(MOST_QUEUED)
        client.reconnect_delay_set(FIRST_RETRY_S, LONGEST_RETRY_S)
        client.on_connect, client.on_disconnect = self._connected, self._disconnected
        client.on_connect_fail, client.on_publish = self._failed, self._published
        if broker.user is not None:
            client.username_pw_set(broker.user, broker.password)
        if broker.tls:
            client.tls_set()
        if will:
            client.will_set(will[0], will[1], qos=1, retain=True)
        return client

    @property
    def connected(self) -> bool:
        return self._up.is_set()

    @property
    def why_not(self) -> str:
        return f"{self.broker.host}:{self.broker.port}: {self._why}"

    def publish(self, topic: str, content: str, retain: bool = False) -> Any:
        """Give a message to the client, once connected and with room; the broker confirms it later."""
        while True:
            if self._closing:
                raise OutputError(self.why_not)
            if not self._up.wait(LOOK_S):
                continue
            info = self._client.publish(topic, content, qos=1, retain=retain)
            if info.rc != self._mqtt.MQTT_ERR_QUEUE_SIZE:
                self._handed += 1
                return info
            time.sleep(FULL_S)

    def publish_now(self, topic: str, content: str) -> None:
        """Return when the broker has confirmed the message; `OutputError` if that takes too long."""
        if not self._up.wait(WAIT_S):
            raise OutputError(self.why_not)
        info = self.publish(topic, content)
        with contextlib.suppress(RuntimeError, ValueError):  # the connection was lost just now
            info.wait_for_publish(WAIT_S)
            if info.is_published():
                return
        raise OutputError(self.why_not)

    def drain(self, within_s: float) -> int:
        """Wait until the broker has confirmed all; how many messages it has not."""
        end = time.monotonic() + within_s
        while self._handed > self._had and self._up.is_set() and time.monotonic() < end:
            time.sleep(FULL_S)
        return self._handed - self._had

    def publish_past_queue(self, topic: str, content: str) -> None:
        """A retained message that does not wait behind others; for `on_connected`."""
        self._handed += 1
        self._client.publish(topic, content, qos=0, retain=True)

    def close(self) -> None:
        """A waiting `publish` raises `OutputError`."""
        self._closing = True
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._report_away(f"the broker refuses: {reason}")
            return
        self._why = "it does not answer"
        self._up.set()
        if self._on_connected is not None:
            self._on_connected(self)
        if self._reported:
            self._reported = False
            self._say(f"{self.broker}: reconnected")

    def _failed(self, client: Any, data: Any) -> None:
        """The library gives no reason, but calls this while it handles the error."""
        error = sys.exc_info()[1]
        reason = getattr(error, "strerror", None) or error
        self._report_away(f"can't connect: {reason}" if reason else "can't connect")

    def _disconnected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._up.clear()
        if not self._reported and not self._closing:
            self._report_away(f"the connection was lost: {reason}")

    def _published(self, client: Any, data: Any, number: Any, reason: Any, properties: Any) -> None:
        self._had += 1

    def _report_away(self, why: str) -> None:
        self._why = why
        if not self._reported:
            self._reported = True
            self._say(f"{self.broker}: {why}; trying again until it works")
