"""The server of the page: starlette and uvicorn in a thread of their own.

The station's thread never waits for the server. Rows go through a queue (`feed.py`). For all else, such as a picture
once a second, the server asks the station's event loop, which answers between two frames.

The server never waits for a viewer. All viewers read the same ring of events, each at its own pace. A viewer whose next
event the ring has overwritten is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from basestation.live.happenings import Name
from basestation.live.runner import Stage
from basestation.sources.tcp import crowd
from basestation.web import trial
from basestation.web.access import Access, Guard, Receive, Scope, Send, answer_error
from basestation.web.feed import Feed, FeedView, Row, hello_of, picture_of
from basestation.web.rows import BATCH, MOST, RowStore, encode, event
from basestation.web.trial import RecentLines
from basestation.web.viewers import BACKLOG, VIEWERS, Connection, Ring, Viewer
from packet_formats.schemes import LEDGER, PHI_POLICIES, refusal

T = TypeVar("T")

PAGE = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
NO_PAGE = "the page's files are missing: install Causeway again"
ROWS_SECONDS = 0.1
PICTURE_SECONDS = 1.0
SHARE = 0.05  # of the server's time, at most, for taking pictures
AT_ONCE = 20_000  # changes of rows that are taken at once
WAITING = 5000  # changes: with more of them waiting, a recording is held up
SEND_BUFFER = 256 << 10  # bytes in the kernel for one viewer
ASK_SECONDS = 10.0  # for an answer of the station
START_SECONDS = 30.0
GRACE_SECONDS = 0.3  # for viewers to read the end of a stream
STOP_SECONDS = 5.0
QUEUED = 4  # trials and explanations from the log, with the one that runs
BODY = 4096  # bytes of a request


class WebError(Exception):
    """A refused request: its status, and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Command = Callable[[str, int], Awaitable[str]]


def _config(app: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        backlog=BACKLOG,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # any client can forge them: a client's address is that of its connection
        timeout_graceful_shutdown=1,
    )


class PageServer:
    """Serves one run. `stage` and `feed` are the base station's; `start` and `stop` are called in its event loop.

    `command` sends a setting to a mote, in that loop. `folder_at` gives the log for a time in milliseconds since 1970;
    it is None without a log that was made by the same policy.
    """

    def __init__(
        self,
        stage: Stage,
        feed: Feed,
        access: Access,
        *,
        run: str,
        began_ms: float,
        live: bool,
        recent: RecentLines | None = None,
        folder_at: Callable[[float], Path] | None = None,
        command: Command | None = None,
    ) -> None:
        self.rows = RowStore()
        self.ring = Ring()
        self._stage, self._feed, self._access = stage, feed, access
        self._run, self._began_ms, self._live = run, began_ms, live
        self._recent = recent or RecentLines()
        self._folder_at, self._command = folder_at, command
        self._curves: Any = {}
        self._points = -1
        self._picture_due = 0.0
        self._publishing, self._trying = asyncio.Lock(), asyncio.Lock()
        self._queued, self._apart = 0, trial.Apart()
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._fault: BaseException | None = None
        self._app = self._make_app()
        self._uvicorn = uvicorn.Server(_config(Guard(self._serve, access)))

    def _make_app(self) -> Starlette:
        routes = [
            Route("/", self._index),
            Route("/page/{name}", self._file),
            Route("/rows", self._rows_before),
            Route("/why", self._why),
            Route("/trial", self._trial),
            Route("/policy", self._policy, methods=["POST"]),
            Route("/command", self._send_command, methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {WebError: _on_error, 404: _not_found, 405: _not_found, 500: _broken}
        return Starlette(routes=routes, exception_handlers=handlers)

    # ---- In the base station's thread ----

    def start(self, listening: Sequence[socket.socket]) -> None:
        """Serve on these sockets, in a thread."""
        self._main = asyncio.get_running_loop()
        for one in listening:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._thread = threading.Thread(target=self._work, args=(list(listening),), name="page", daemon=True)
        self._thread.start()
        if not self._started.wait(START_SECONDS) or self._fault is not None:
            raise OSError(f"the page's server did not start: {self._fault or 'no answer'}")

    async def stop(self) -> None:
        """End all streams, then the server."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None or not thread.is_alive():
            return
        loop.call_soon_threadsafe(self._end)
        await asyncio.to_thread(thread.join, STOP_SECONDS)

    def hold_up(self) -> None:
        """Wait until the server has taken its rows: for recordings, which can wait."""
        thread = self._thread
        while len(self._feed.changes) > WAITING and thread is not None and thread.is_alive():
            thread.join(0.005)

    @property
    def fault(self) -> BaseException | None:
        """The error that ended the server, if one did."""
        return self._fault

    # ---- The server's thread ----

    def _work(self, listening: list[socket.socket]) -> None:
        try:
            asyncio.run(self._run_server(listening))
        except BaseException as error:
            self._fault = error
        finally:
            self._started.set()

    async def _run_server(self, listening: list[socket.socket]) -> None:
        self._loop = asyncio.get_running_loop()
        publishing = asyncio.create_task(self._publish())
        serving = asyncio.create_task(self._uvicorn.serve(sockets=listening))
        while not self._uvicorn.started and not serving.done():
            await asyncio.sleep(0.01)
        self._started.set()
        await asyncio.wait({publishing, serving}, return_when=asyncio.FIRST_COMPLETED)
        self._end()
        await asyncio.wait({publishing, serving})
        for task in (publishing, serving):
            task.result()

    def _end(self) -> None:
        """End all streams; a viewer that does not read is cut off soon after."""
        self.ring.closed = True
        self._apart.end()
        self.ring.wake()
        self._uvicorn.should_exit = True
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._abort, list(self.ring.viewers))

    def _abort(self, viewers: Sequence[Viewer]) -> None:
        """Cut the connections of these viewers."""
        clients = {viewer.client for viewer in viewers}
        for connection in list(self._uvicorn.server_state.connections):
            if getattr(connection, "client", None) in clients:
                connection.transport.abort()

    async def _publish(self) -> None:
        """Publish rows ten times a second, and a picture once a second while there are viewers."""
        clock = asyncio.get_running_loop().time
        while not self.ring.closed:
            began = clock()
            await self._publish_rows()
            if self.ring.viewers and began >= self._picture_due:
                await self._publish_picture()
                took = clock() - began
                self._picture_due = began + max(PICTURE_SECONDS, took / SHARE)
            await asyncio.sleep(max(0.0, ROWS_SECONDS - (clock() - began)))

    async def _publish_rows(self) -> None:
        """Send the rows that have come, in their order."""
        async with self._publishing:
            await self._take_rows()

    async def _take_rows(self) -> None:
        changes = self._feed.changes
        taken = [changes.popleft() for _ in range(min(len(changes), AT_ONCE))]
        merged = self.rows.merge(taken)
        if not self.ring.viewers:
            return
        for start in range(0, len(merged), BATCH):
            if start:
                await asyncio.sleep(0)
            self._abort(self.ring.put(event("rows", encode(merged[start : start + BATCH]))))

    async def _publish_picture(self) -> None:
        points = self._points
        try:
            view = await self.ask(lambda: self._feed.view(self._stage.snapshot(), points))
        except WebError:
            return
        self._points = view.points
        if view.curves is not None:
            self._curves = view.curves
            for viewer in self.ring.viewers:
                viewer.whole = True
        whole = any(viewer.whole for viewer in self.ring.viewers)
        light = self._picture(view._replace(curves=None))
        self.ring.show(light, self._picture(view._replace(curves=self._curves)) if whole else b"")

    def _picture(self, view: FeedView) -> bytes:
        return event("picture", encode(picture_of(view, len(self.ring.viewers))))

    async def ask(self, question: Callable[[], T]) -> T:
        """Call a function in the station's thread; `WebError` if the station does not answer in time."""
        answer: Future[T] = Future()

        def work() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(question())
            except Exception as error:
                answer.set_exception(error)

        assert self._main is not None
        try:
            self._main.call_soon_threadsafe(work)
            async with asyncio.timeout(ASK_SECONDS):
                return await asyncio.wrap_future(answer)
        except (TimeoutError, RuntimeError):
            if answer.done() and not answer.cancelled():
                raise  # an error of the question itself
            raise WebError(503, "the base station does not answer: it is busy, or has ended") from None

    # ---- Requests ----

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/stream" and scope["method"] == "GET":
            await self._stream(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            hello = await self.ask(self._hello)
        except WebError as error:
            await answer_error(send, error.status, str(error))
            return
        await self._publish_rows()
        if len(self.ring.viewers) >= VIEWERS:  # checked last, since other viewers may join meanwhile
            self._make_room((scope.get("client") or ("", 0))[0])
        if len(self.ring.viewers) >= VIEWERS:
            await answer_error(send, 503, f"the page has {VIEWERS} viewers already")
            return
        viewer = self.ring.join(scope.get("client"))
        watching = asyncio.create_task(_watch(receive, viewer))
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for data in self._events_for(viewer, hello):
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.ring.viewers.discard(viewer)
            watching.cancel()

    def _make_room(self, newcomer: str) -> None:
        """Drop the oldest viewer of the address that has the most viewers."""
        viewers = [viewer for viewer in self.ring.viewers if viewer.client is not None]
        crowded = crowd((viewer.client[0] for viewer in viewers if viewer.client), newcomer)
        theirs = [viewer for viewer in viewers if viewer.client and viewer.client[0] == crowded]
        if theirs:
            oldest = min(theirs, key=lambda viewer: viewer.number)
            oldest.gone = True
            self.ring.viewers.discard(oldest)
            self._abort([oldest])

    async def _events_for(self, viewer: Viewer, hello: Row) -> AsyncIterator[bytes]:
        ring = self.ring
        past = self.rows.recent()
        self._picture_due = 0.0
        yield b"retry: 1000\n\n" + event("hello", encode(hello))
        for rows in past:
            yield event("rows", rows)
            await asyncio.sleep(0)
            if viewer.gone or ring.closed:
                return
        while not (viewer.gone or ring.closed):
            fresh = ring.fresh
            if data := ring.next_for(viewer):
                yield data
            else:
                await fresh.wait()

    def _hello(self) -> Row:
        return hello_of(
            self._stage.station, self._run, self._began_ms, live=self._live, control=self._access.control
        )

    async def _index(self, request: Request) -> Response:
        return _page_file("index.html")

    async def _file(self, request: Request) -> Response:
        return _page_file(request.path_params["name"])

    async def _rows_before(self, request: Request) -> Response:
        before = _number(request, "before", -math.inf, math.inf, math.inf)
        limit = int(_number(request, "limit", 1, MOST, MOST))
        await self._publish_rows()
        return _json_text(self.rows.before(before, limit))

    async def _why(self, request: Request) -> Response:
        key = request.query_params.get("row", "")
        row = self.rows.message(int(key)) if key.isascii() and key.isdigit() and len(key) < 16 else None
        if row is None or row["kind"] != "message":
            raise WebError(404, f"message {key[:20]!r} is not kept any more")
        name = Name(row["mote"], row["boot"], int(row["name"].partition("#")[2]))
        found = await self.ask(lambda: self._explained(name))
        if found["text"] is None:
            found = await self._explained_by_the_log(name, row["came_ms"]) | {
                "violations": found["violations"]
            }
        return _json_text(encode(found))

    def _explained(self, name: Name) -> Row:
        """Why a message was held, if the station still knows; otherwise `text` is None."""
        passages = self._feed.passages
        passage, node = passages.passages.get(name), passages.node(name)
        violations = [] if passage is None else [violation.text for violation in passage.violations]
        if passage is None or node is None or node.dropped:
            return {"text": None, "violations": violations}
        return asdict(passages.explanation(node)) | {"violations": violations}

    async def _explained_by_the_log(self, name: Name, came_ms: float) -> Row:
        """Let `basestation why` play the log: only the log knows all causes of an old message."""
        if self._folder_at is None:
            raise WebError(404, f"{name} is too old, and no log was made by this policy")
        words = ["why", str(self._folder_at(came_ms)), f"{name}@{name.boot}", "--json"]
        key = self._stage.station.deployment.key
        words += ["--key", "-"] if key else []
        given = key.secret.hex().encode() if key else b""
        async with self._one_by_one():
            process = await asyncio.to_thread(self._apart.run, ["-m", "basestation", *words], given)
        if process.returncode != 0:
            raise WebError(404, f"{name} cannot be explained: {trial.last_line(process.stderr)}")
        found: Row = json.loads(process.stdout)
        return found

    async def _trial(self, request: Request) -> Response:
        choice = self._choice(dict(request.query_params))
        async with self._one_by_one():
            question = await self.ask(lambda: trial.ask(self._stage.station, self._recent.packed(), *choice))
            answer = await asyncio.to_thread(trial.carry_out, self._apart, question)
        return _json_text(encode(answer))

    @contextlib.asynccontextmanager
    async def _one_by_one(self) -> AsyncIterator[None]:
        """One process at a time plays lines: more of them would take the cores from the base station."""
        if self._queued >= QUEUED:
            raise WebError(429, "too many requests for this at once: try again soon")
        self._queued += 1
        try:
            async with self._trying:
                yield
        except trial.TrialError as error:
            raise WebError(500, str(error)) from None
        finally:
            self._queued -= 1

    async def _policy(self, request: Request) -> Response:
        choice, by = self._choice(await self._order(request)), self._who(request)
        await self.ask(lambda: self._change_policy(*choice, by))
        policy, phi, tolerate = choice
        setting = f" at {phi}%" if policy in PHI_POLICIES else ""
        setting = setting if tolerate is None else f", tolerating {tolerate:g}%"
        return _json_text(encode({"text": f"Messages are delivered by {policy}{setting} from now on."}))

    def _who(self, request: Request) -> str:
        """The client that requests a change, for users and the log. The token itself is not shown."""
        address = "?" if request.client is None else f"{request.client.host}:{request.client.port}"
        return f"by the page, {address}, {'with the' if self._access.token else 'without a'} token"

    def _change_policy(self, policy: str, phi: int, tolerate: float | None, by: str) -> None:
        if self._stage.ended:
            raise WebError(409, "the run has ended")
        self._stage.set_policy(policy, phi, tolerate, by)
        if not self._live:
            self._folder_at = None  # the recording does not have the change

    async def _send_command(self, request: Request) -> Response:
        order = await self._order(request)
        mote, setting = order.get("mote"), order.get("setting")
        motes = self._stage.station.deployment.network.motes
        if not isinstance(mote, int) or isinstance(mote, bool) or not 0 <= mote < motes:
            raise WebError(400, f"mote must be 0 to {motes - 1}")
        if not isinstance(setting, str):
            raise WebError(400, "setting must be a text such as report, blink red, reboot or rate 0.5")
        if self._command is None:
            raise WebError(409, "this is a recorded run: nothing can be sent to motes")
        assert self._main is not None
        sent = asyncio.run_coroutine_threadsafe(self._sent(mote, setting, self._who(request)), self._main)
        return _json_text(encode({"text": await asyncio.wrap_future(sent)}))

    async def _sent(self, mote: int, setting: str, by: str) -> str:
        assert self._command is not None
        try:
            told = await self._command(setting, mote)
        except ValueError as error:
            raise WebError(400, str(error)) from None
        self._stage.remark(f"{by}: {told}")
        return told

    async def _order(self, request: Request) -> Row:
        """The JSON object of a request for a change, if changes are allowed."""
        if not self._access.control:
            raise WebError(403, "this page is read-only: --web-control lets it change settings")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise WebError(415, "a change must be JSON: content-type application/json")
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > BODY:
                raise WebError(413, f"a change has at most {BODY} bytes")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise WebError(400, "the request is not JSON") from None
        if not isinstance(found, dict):
            raise WebError(400, "the request is not a JSON object")
        return found

    def _choice(self, asked: Row) -> tuple[str, int, float | None]:
        """The policy, phi and tolerance of a request, checked."""
        station = self._stage.station
        tolerate = asked.get("tolerate")
        policy = asked.get("policy") or (LEDGER if tolerate not in (None, "") else station.policy)
        if not isinstance(policy, str):
            raise WebError(400, "policy must be a name")
        if policy not in station.deployment.scheme.policies:
            why = refusal(policy, station.deployment.stamp.scheme)
            raise WebError(400, f"policy {policy[:40]!r} {why}")
        phi = _checked("phi", asked.get("phi"), station.phi)
        if phi != int(phi):
            raise WebError(400, "phi must be a whole percentage")
        if policy != LEDGER:
            return policy, int(phi), None
        return policy, int(phi), _checked("tolerate", tolerate, station.tolerate or 0.0)


async def _watch(receive: Receive, viewer: Viewer) -> None:
    """Mark a viewer that has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
    viewer.gone = True


def _checked(name: str, value: object, default: float) -> float:
    """A percentage in a request, as a number or a text."""
    if value is None or value == "":
        return default
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= 100:
        raise WebError(400, f"{name} must be a percentage from 0 to 100")
    return number


def _number(request: Request, name: str, least: float, most: float, default: float) -> float:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise WebError(
            400, f"{name} must be a number" + (f" from {least:g} to {most:g}" if most < math.inf else "")
        )
    return number


def _page_file(name: str) -> Response:
    """A file of the page's folder, by its name."""
    known = {path.name: path for path in PAGE.iterdir()} if PAGE.is_dir() else {}
    path = known.get(name)
    if path is None or path.suffix not in TYPES:
        raise WebError(404, NO_PAGE if name == "index.html" else "there is no such page")
    return Response(path.read_bytes(), headers={"content-type": TYPES[path.suffix]})


def _json_text(text: str, status: int = 200) -> Response:
    return Response(text, status, {"content-type": "application/json"})


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WebError)
    return _json_text(encode({"error": str(error)}), error.status)


async def _not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    text = "there is no such page" if status == 404 else "this path does not take that method"
    return _json_text(encode({"error": text}), status)


async def _broken(request: Request, error: Exception) -> Response:
    return _json_text(encode({"error": f"a fault of the server: {type(error).__name__}"}), 500)
