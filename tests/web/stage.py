"""A stand-in for the page's server, which says what a test wants: the page's files, a stream, and answers."""

from __future__ import annotations

import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from basestation.web.access import HEADERS

PAGE = Path(__file__).resolve().parents[2] / "basestation" / "web" / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
END = object()

Row = dict[str, Any]


class StandIn:
    """Serves the page over made rows. `send` streams an event; `asked` has every other request, in order."""

    def __init__(self, hello: Row, rows: list[Row], picture: Row, port: int = 0) -> None:
        self.hello, self.rows, self.picture = hello, rows, picture
        self.older: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.streams: list[queue.Queue[Any]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        for stream in self.streams:
            stream.put(END)
        self._http.server_close()

    def send(self, event: str, data: Any) -> None:
        for stream in self.streams:
            stream.put((event, data))

    def answer(self, path: str, given: dict[str, Any]) -> tuple[int, Any]:
        if path == "/rows":
            return 200, {"rows": self.older, "more": False}
        if path == "/why":
            text = [f"row {given['row']} was held 3 ms.", "  It names <b>2#7</b>."]
            return 200, {"text": text, "violations": ["2#7 left after it"]}
        if path == "/trial":
            return 200, {"text": f"At phi = {given['phi']}% 3 of 512 messages would have been out of order."}
        if path == "/policy":
            return 200, {"text": f"The policy is cbd, phi {given['phi']}% from now on."}
        if path == "/command":
            return 200, {"text": f"{given['setting']} to mote {given['mote']}: sent"}
        return 404, {"error": "nothing here"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address = urlsplit(self.path)
                if address.path == "/stream":
                    self._stream()
                elif address.path == "/" or address.path.startswith("/page/"):
                    self._file(PAGE / (address.path.removeprefix("/page/").lstrip("/") or "index.html"))
                else:
                    given = {name: texts[0] for name, texts in parse_qs(address.query).items()}
                    self._answer(address.path, given)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(self.path, body)

            def _answer(self, path: str, given: dict[str, Any]) -> None:
                stand_in.asked.append((path, given))
                status, body = stand_in.answer(path, given)
                self._give(status, "application/json", json.dumps(body).encode())

            def _file(self, path: Path) -> None:
                if path.is_file():
                    self._give(200, TYPES[path.suffix], path.read_bytes())
                else:
                    self._give(404, "text/plain", b"")

            def _give(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", HEADERS["content-security-policy"])
                self.end_headers()
                self.wfile.write(body)

            def _stream(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                events: queue.Queue[Any] = queue.Queue()
                for event in (
                    ("hello", stand_in.hello),
                    ("rows", stand_in.rows),
                    ("picture", stand_in.picture),
                ):
                    events.put(event)
                stand_in.streams.append(events)
                try:
                    while (event := events.get()) is not END:
                        self.wfile.write(f"event: {event[0]}\ndata: {json.dumps(event[1])}\n\n".encode())
                        self.wfile.flush()
                except OSError:
                    pass  # the viewer has gone

            def log_message(self, *_: object) -> None:
                pass

        return Handler
