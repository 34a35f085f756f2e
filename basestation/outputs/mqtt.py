"""A run over MQTT: deliveries, values, health and alarms as JSON, discovered by Home Assistant.

Below PREFIX/NETWORK: `status` is online or offline (the broker publishes offline when we vanish), `state` the whole
network, `alarms` each alarm, `motes/N/message` each delivery, `motes/N/values` and `motes/N/health` the newest.
`status`, `state`, `values` and `health` are retained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from basestation.live.counters import Snapshot
from basestation.live.happenings import Alarm, Delivered, Happening
from basestation.outputs.alarm_targets import plain_alarm
from basestation.outputs.mqtt_link import MqttLink, read_broker
from basestation.outputs.outbox import CLOSING_S, Outbox, Say
from basestation.outputs.plain_forms import iso_time, plain_mote, plain_network, plain_values
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.phrases import many

PREFIX, DISCOVERY = "causeway", "homeassistant"
QUEUED = 10_000  # happenings
Encode = Callable[[Happening], dict[str, Any]]


class MqttOutput:
    """A sink. `encode` gives a happening's plain form, as `--json` prints it."""

    def __init__(self, url: str, deployment: Deployment, encode: Encode, say: Say) -> None:
        broker = read_broker(url)
        self._network, self._layout, self._encode = deployment.network.name, layout_of(deployment), encode
        self._values, self._called, self._say = deployment.data, deployment.mote_name, say
        self._base = f"{broker.path or PREFIX}/{_word(self._network)}"
        self._known: set[int] = set()  # motes announced to Home Assistant
        self._link = MqttLink(
            broker,
            "--mqtt",
            "live",
            say,
            will=(self._topic("status"), "offline"),
            on_connected=self._announce,
        )
        self._outbox: Outbox[Happening | Snapshot] = Outbox(str(broker), self._publish, say, QUEUED)

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered | Alarm):
            self._outbox.put(happening)

    def take_snapshot(self, snapshot: Snapshot) -> None:
        self._outbox.put(snapshot)

    def close(self) -> None:
        """Messages that the broker has not confirmed by then are lost; their number is reported."""
        self._outbox.close()
        missing = self._link.drain(CLOSING_S)
        if self._link.connected:
            self._link.publish_past_queue(self._topic("status"), "offline")
        self._link.close()
        if missing:
            self._say(f"{self._link.why_not}: {many(missing, 'message')} did not reach it")

    def _topic(self, *parts: str | int) -> str:
        return "/".join((self._base, *map(str, parts)))

    def _announce(self, link: MqttLink) -> None:
        """Runs after each connection to the broker."""
        self._known.clear()
        link.publish_past_queue(self._topic("status"), "online")

    def _publish(self, item: Happening | Snapshot) -> None:
        for topic, content, retain in self._messages(item):
            self._link.publish(topic, json.dumps(content), retain)

    def _messages(self, item: Happening | Snapshot) -> Iterator[tuple[str, Any, bool]]:
        """Topic, content, and whether the broker should keep it."""
        if isinstance(item, Snapshot):
            yield self._topic("state"), plain_network(item), True
            for mote in item.motes:
                yield from self._discover(mote.mote)
                yield self._topic("motes", mote.mote, "health"), plain_mote(mote, item.wall_ns), True
        elif isinstance(item, Delivered):
            source = item.name.source
            yield from self._discover(source)
            yield self._topic("motes", source, "message"), self._encode(item), False
            if self._values:
                values = plain_values(item, self._layout)
                yield self._topic("motes", source, "values"), {"time": iso_time(item.wall_ns)} | values, True
        elif isinstance(item, Alarm):
            yield self._topic("alarms"), plain_alarm(item, self._network), False

    # ---- Home Assistant ----

    def _discover(self, mote: int) -> Iterator[tuple[str, Any, bool]]:
        """Announce a mote's entities to Home Assistant, once for each connection."""
        if mote in self._known:
            return
        self._known.add(mote)
        for component, name, more in self._entities(mote):
            own = f"causeway_{_word(self._network)}_{mote}_{name}"
            yield f"{DISCOVERY}/{component}/{own}/config", self._entity(mote, own, more), True

    def _entity(self, mote: int, own: str, more: dict[str, Any]) -> dict[str, Any]:
        return more | {
            "unique_id": own,
            "availability_topic": self._topic("status"),
            "device": {
                "identifiers": [f"causeway_{_word(self._network)}_{mote}"],
                "name": f"{self._network} {self._called(mote)}",
                "manufacturer": "Causeway",
            },
        }

    def _entities(self, mote: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
        values, health = self._topic("motes", mote, "values"), self._topic("motes", mote, "health")
        for value in self._values:
            more = {"unit_of_measurement": value.unit} if value.unit else {}
            yield "sensor", value.name, _sensor(value.name, values, value.name) | more
        volts = {"unit_of_measurement": "mV", "device_class": "voltage", "entity_category": "diagnostic"}
        yield "sensor", "mote_battery", _sensor("mote battery", health, "battery_mv") | volts
        yield "sensor", "lost", _sensor("lost messages", health, "lost") | {"entity_category": "diagnostic"}
        yield "binary_sensor", "heard", {
            "name": "heard",
            "state_topic": health,
            "value_template": "{{ 'ON' if value_json.heard else 'OFF' }}",
            "device_class": "connectivity",
        }  # fmt: skip
        yield "binary_sensor", "problem", {
            "name": "alarm",
            "state_topic": health,
            "value_template": "{{ 'ON' if value_json.alarms else 'OFF' }}",
            "device_class": "problem",
        }  # fmt: skip


def _sensor(name: str, topic: str, key: str) -> dict[str, Any]:
    return {
        "name": name,
        "state_topic": topic,
        "value_template": f"{{{{ value_json.{key} }}}}",
        "state_class": "measurement",
    }


def _word(text: str) -> str:
    """A network's name as a part of a topic and of an id."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text) or "_"
