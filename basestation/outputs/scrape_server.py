"""A small web server in a thread of its own, which a client that hangs or disconnects does not disturb."""

from __future__ import annotations

import socket
import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

AT_ONCE = 16  # connections: more would use up the files of the base station
LIMIT_S = 10.0  # a connection may be silent


class _Handler(WSGIRequestHandler):
    timeout = LIMIT_S

    def log_message(self, format: str, *args: object) -> None:
        pass


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """Serves an application from when it is made until `close`."""

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
