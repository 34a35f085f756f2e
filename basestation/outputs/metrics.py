"""A run for Prometheus: /metrics, in its own registry. Each scrape takes a picture of the station."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from basestation import __version__
from basestation.live.counters import GatewayView, MoteView, Snapshot
from basestation.live.happenings import Alarm, Delivered, Happening
from basestation.outputs import OutputUnavailable, library
from basestation.outputs.plain_forms import SECOND, plain_values
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of

PORT = 9532
AT_ONCE = 16  # connections: more would use up the files of the base station
LIMIT_S = 10.0  # after which a silent connection is closed
Take = Callable[[], Snapshot | None]  # a picture of the station, from any thread; None if there is none yet
Number = float | int | None
Row = tuple[str, str, Callable[[Any], Number]]


def _volts(mote: MoteView) -> float | None:
    millivolts = None if mote.health is None else mote.health.battery_mv
    return None if millivolts is None else millivolts / 1000


def _refused(snapshot: Snapshot, verdict: str) -> Number:
    """None in a network without a key."""
    return None if snapshot.refused is None else snapshot.refused.get(verdict)


# Names without `causeway_`; a name that ends with _total is a counter's, all others are gauges'.
NETWORK: Sequence[tuple[str, str, Callable[[Snapshot], Number]]] = (
    ("messages_received_total", "Messages that came, copies left out.", lambda s: s.received),
    ("messages_delivered_total", "Messages that were delivered.", lambda s: s.delivered),
    ("messages_forced_total", "Messages that left early because too many were held.", lambda s: s.forced),
    ("messages_held", "Messages that are held now.", lambda s: s.held),
    ("packets_strange_total", "Packets that were not read.", lambda s: s.strange),
    ("messages_forged_total", "Messages refused: their MIC is wrong.", lambda s: _refused(s, "forged")),
    ("messages_replayed_total", "Messages refused: played again.", lambda s: _refused(s, "replayed")),
    (
        "messages_unprotected_total",
        "Messages out of sync that were let in: their MIC holds no time.",
        lambda s: _refused(s, "unprotected"),
    ),
    ("motes_heard", "Motes that were ever heard.", lambda s: len(s.motes)),
    (
        "hold_recent_median_seconds",
        "Half of the last messages were held at most this long.",
        lambda s: s.hold.p50 / 1e3,
    ),
    (
        "hold_recent_p95_seconds",
        "95% of the last messages were held at most this long.",
        lambda s: s.hold.p95 / 1e3,
    ),
    ("hold_max_seconds", "The longest hold of the run.", lambda s: s.hold.max / 1e3),
    (
        "checked_ratio",
        "Share of delivered messages whose order is known to be right or wrong.",
        lambda s: s.known,
    ),
    (
        "final_on_arrival_ratio",
        "Share of messages that were final when they came.",
        lambda s: s.final_on_arrival,
    ),
)
MOTE: Sequence[tuple[str, str, Callable[[MoteView], Number]]] = (
    ("mote_received_total", "Messages of a mote that came.", lambda m: m.received),
    ("mote_delivered_total", "Messages of a mote that were delivered.", lambda m: m.delivered),
    ("mote_duplicates_total", "Copies of a mote's messages over other paths.", lambda m: m.duplicates),
    ("mote_late_total", "Messages of a mote that came after their deadline.", lambda m: m.late),
    ("mote_out_of_sync_total", "Messages that a mote sent out of sync.", lambda m: m.out_of_sync),
    ("mote_reboots_total", "Restarts of a mote that its messages showed.", lambda m: m.reboots),
    ("mote_lost", "Messages of a mote that have not come so far.", lambda m: m.lost),
    ("mote_held", "Messages of a mote that are held now.", lambda m: m.held),
    ("mote_silence_seconds", "Time since a mote was heard.", lambda m: m.silent_s),
    ("mote_hold_recent_median_seconds", "Half of a mote's last messages were held at most this long.",
     lambda m: m.hold.p50 / 1e3),
    ("mote_battery_volts", "A mote's battery.", _volts),
    ("mote_battery_days", "Days until a mote's battery is at 2.7 V if it goes on as it did.", lambda m: m.battery_days),
    ("mote_duty_ratio", "Share of time with a mote's radio on, as its health record reports.", lambda m: m.duty),
    ("mote_duty_days", "Days that two full cells last at a mote's duty.", lambda m: m.duty_days),
    ("mote_hops", "A mote's distance from the root of time.", lambda m: m.health.distance if m.health else None),
    ("mote_in_sync", "Whether a mote has the network's time, as its health record reports.",
     lambda m: int(m.health.in_sync) if m.health else None),
)  # fmt: skip
GATEWAY: Sequence[tuple[str, str, Callable[[GatewayView], Number]]] = (
    ("gateway_packets_total", "Packets of a gateway's line.", lambda g: g.frames),
    ("gateway_strange_total", "Packets of a line that were not read.", lambda g: g.strange),
    ("gateway_unpaired_total", "Frames without their heard record.", lambda g: g.unpaired),
    ("gateway_records_lost_total", "Heard records that the line lost.", lambda g: g.records_lost),
    ("gateway_dropped_total", "Frames that the gateway dropped.", lambda g: g.dropped),
    ("gateway_gaps_total", "How often a line was lost.", lambda g: g.gaps),
    ("gateway_lags_total", "How often a line was slower than allowed for.", lambda g: g.lags),
    ("gateway_up", "Whether a line is there.", lambda g: int(g.live)),
    ("gateway_silence_seconds", "Time since a line's last packet.", lambda g: g.silent_s),
)


class MetricsOutput:
    """A sink, and a server of its own. Port 0 is any free one."""

    def __init__(self, host: str, port: int, deployment: Deployment, take_picture: Take) -> None:
        client = library("prometheus_client", "metrics", "--metrics")
        self._families = library("prometheus_client.core", "metrics", "--metrics")
        self._layout, self._network = layout_of(deployment), deployment.network.name
        self._take_picture = take_picture
        self._alarms: dict[tuple[str, int], bool] = {}
        self._raised: Counter[str] = Counter()
        self._newest: dict[int, Delivered] = {}
        registry = client.CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server = ScrapeServer(host, port, client.make_wsgi_app(registry))
        except (OSError, ValueError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OutputUnavailable(f"--metrics: can't serve on {host}:{port}: {reason}") from None
        self.port = int(self._server.server_port)

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered):
            self._newest[happening.name.source] = happening
        elif isinstance(happening, Alarm):
            self._alarms[happening.what, happening.subject] = happening.raised
            self._raised[happening.what] += happening.raised

    def close(self) -> None:
        self._server.close()

    def collect(self) -> Iterator[Any]:
        """All metrics as they are now; prometheus_client asks in a thread of its own."""
        build = self._families.GaugeMetricFamily(
            "causeway_build", "The program.", labels=["version", "network"]
        )
        build.add_metric([__version__, self._network], 1)
        yield build
        yield from self._of_alarms()
        yield self._of_values()
        snapshot = self._take_picture()
        if snapshot is not None:
            yield from self._of_snapshot(snapshot)

    def _of_snapshot(self, snapshot: Snapshot) -> Iterator[Any]:
        yield from self._of_rows(NETWORK, [([], snapshot)])
        yield from self._of_rows(MOTE, [([str(mote.mote)], mote) for mote in snapshot.motes], "mote")
        lines = [([str(line.gateway), line.name], line) for line in snapshot.gateways]
        yield from self._of_rows(GATEWAY, lines, "gateway", "source")
        hold = snapshot.hold
        text = "How long messages were held."
        yield self._families.SummaryMetricFamily(
            "causeway_hold_seconds", text, count_value=hold.count, sum_value=hold.count * hold.mean / 1e3
        )
        text = "Messages that came, or were delivered, after one of their effects: {} this number."
        orders = (("arrival", snapshot.arrival), ("delivery", snapshot.delivery))
        least = [(order, view.overtaken) for order, view in orders]
        most = [(order, view.most) for order, view in orders]
        for name, word, counts in (
            ("out_of_order", "at least", least),
            ("out_of_order_most", "at most", most),
        ):
            family = self._families.CounterMetricFamily(
                f"causeway_messages_{name}", text.format(word), labels=["order"]
            )
            for order, count in counts:
                family.add_metric([order], count)
            yield family
        text = "Packets that the deframer dropped."
        errors = self._families.CounterMetricFamily(
            "causeway_gateway_line_errors", text, labels=["gateway", "reason"]
        )
        for line in snapshot.gateways:
            for reason, count in line.line_errors.items():
                errors.add_metric([str(line.gateway), reason], count)
        yield errors
        text = "When this picture was taken, on the host's clock."
        yield self._families.GaugeMetricFamily("causeway_time_seconds", text, snapshot.wall_ns / SECOND)

    def _of_rows(
        self, rows: Iterable[Row], subjects: Sequence[tuple[list[str], Any]], *labels: str
    ) -> Iterator[Any]:
        for name, text, number in rows:
            counts = name.endswith("_total")
            family = self._families.CounterMetricFamily if counts else self._families.GaugeMetricFamily
            metric = family(f"causeway_{name}", text, labels=list(labels))
            for values, subject in subjects:
                value = number(subject)
                if value is not None:
                    metric.add_metric(values, value)
            yield metric

    def _of_alarms(self) -> Iterator[Any]:
        alarms = self._families.GaugeMetricFamily(
            "causeway_alarm", "Whether an alarm is raised now.", labels=["what", "subject"]
        )
        for (what, subject), raised in list(self._alarms.items()):
            alarms.add_metric([what, str(subject)], int(raised))
        yield alarms
        raised_ever = self._families.CounterMetricFamily(
            "causeway_alarms_raised", "How often alarms were raised.", labels=["what"]
        )
        for what, count in list(self._raised.items()):
            raised_ever.add_metric([what], count)
        yield raised_ever

    def _of_values(self) -> Any:
        values = self._families.GaugeMetricFamily(
            "causeway_value", "A value of a mote's newest message.", labels=["mote", "name", "unit"]
        )
        units = {value.name: value.unit for value in self._layout.values}
        for mote, delivered in list(self._newest.items()):
            for name, number in plain_values(delivered, self._layout).items():
                if number is not None:
                    values.add_metric([str(mote), name, units.get(name) or ""], number)
        return values


class _Handler(WSGIRequestHandler):
    timeout = LIMIT_S

    def log_message(self, format: str, *args: object) -> None:
        pass


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """A small web server in a thread of its own, which a client that hangs or disconnects does not disturb."""

    daemon_threads = True

    def __init__(self, host: str, port: int, app: Any) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, address = found[0][0], found[0][4]
        self._room = threading.Semaphore(AT_ONCE)
        super().__init__((str(address[0]), port), _Handler)
        self.set_app(app)
        self._thread = threading.Thread(target=self.serve_forever, name="scrapes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._room.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()  # there is no thread for it
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client disconnected, or was too slow."""
