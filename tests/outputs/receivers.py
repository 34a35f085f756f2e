"""Receivers of our outputs: a broker that can be stopped and started, a web server with given answers."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.waiting import wait_until


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Mosquitto:
    """A broker on a port of this machine."""

    program: str
    folder: Path
    more: str = ""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = (
            f"listener {self.port} 127.0.0.1\npersistence false\nmax_queued_messages 0\nlog_dest stderr\nuser root\n"
            f"{self.more or 'allow_anonymous true'}\n"
        )
        (self.folder / "mosquitto.conf").write_text(settings)
        with (self.folder / "mosquitto.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, "-c", str(self.folder / "mosquitto.conf")], stdout=log, stderr=log
            )
        wait_until(lambda: is_open(self.port), "the broker listens")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None


class Subscriber:
    """Keeps what a broker hands out."""

    def __init__(
        self, port: int, topic: str = "#", user: str | None = None, password: str | None = None
    ) -> None:
        import paho.mqtt.client as mqtt

        self.found: list[tuple[str, str, bool]] = []
        ready = threading.Event()
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        if user:
            self._client.username_pw_set(user, password)
        self._client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.on_message = self._take
        self._client.connect("127.0.0.1", port, 30)
        self._client.loop_start()
        assert ready.wait(30)

    def _take(self, client: Any, data: Any, message: Any) -> None:
        self.found.append((message.topic, message.payload.decode(), bool(message.retain)))

    def on(self, topic: str) -> list[str]:
        return [content for found, content, _ in self.found if found == topic]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class WebReceiver:
    """A web server that keeps what is posted. `answers` are the next ones; after them 204. None: it hangs."""

    def __init__(self, *answers: int | None, port: int = 0) -> None:
        self.posts: list[tuple[str, bytes]] = []
        self.answers = list(answers)
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = outer.answers.pop(0) if outer.answers else 204
                outer.posts.append((self.path, body))
                if answer is None:
                    outer.released.wait(60)
                    return
                self.send_response(answer)
                self.send_header("Content-Length", "0")
                if 300 <= answer < 400:
                    self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def plain(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.posts]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
