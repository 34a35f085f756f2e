"""Who may read the page, and who may make changes.

On loopback every user of this machine may read. Any other address needs the token. The Host is checked: a foreign page
whose name suddenly points to this machine (DNS rebinding) is refused. The Origin is checked: foreign pages may neither
read nor change anything. Without `control` nothing can be changed.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from basestation.sources.base import split_host

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NO_TOKEN = "this page needs its token: open the address that basestation printed, with ?token= in it"
LEAST_TOKEN = 16  # characters


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def own_names(host: str) -> frozenset[str]:
    """The names of this machine."""
    name = socket.gethostname().lower()
    return frozenset({"localhost", host.lower(), name, f"{name.partition('.')[0]}.local"})


def new_token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Access:
    """`names`: the host names that the page may be reached by, besides addresses. `token` None: none is needed."""

    names: frozenset[str]
    token: str | None = None
    control: bool = False
    cookie: str = "causeway"

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Why a request is refused, with its status; None if it is not."""
        headers = _headers(scope)
        host = headers.get("host", "")
        name = split_host(host)[0].lower()
        if not (is_address(name) or name in self.names):
            return (
                421,
                f"this page is not served as {name or 'nothing'}: use the address that basestation printed",
            )
        if scope["method"] not in ("GET", "HEAD") and "origin" not in headers:
            return 403, f"a change needs the header Origin: http://{host}"  # all browsers send it
        if not _is_own_page(headers, host):
            return 403, "the request comes from another page: only this page may send it"
        if not self._has_token(scope, headers):
            return 403, NO_TOKEN
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Compare each token in constant time."""
        if self.token is None:
            return True
        given = [*_query_tokens(scope), *_cookie_tokens(headers, self.cookie)]
        return any(hmac.compare_digest(one.encode(), self.token.encode()) for one in given)

    def cookie_for(self, scope: Scope) -> str | None:
        """The cookie that keeps the token, for a request that has the token in its address."""
        if self.token is None or not _query_tokens(scope):
            return None
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"


class Guard:
    """An ASGI application before another one: it refuses requests, and adds headers to every answer."""

    def __init__(self, app: App, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        cookie: str | None = None

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = HEADERS | ({"set-cookie": cookie} if cookie else {})
                kept = [
                    (name, value) for name, value in message.get("headers", []) if name.decode() not in added
                ]
                more = [(name.encode(), value.encode()) for name, value in added.items()]
                message = {**message, "headers": kept + more}
            await send(message)

        refused = self._access.refusal(scope)
        if refused is not None:
            await answer_error(send_guarded, *refused)
            return
        cookie = self._access.cookie_for(scope)
        await self._app(scope, receive, send_guarded)


async def answer_error(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _is_own_page(headers: dict[str, str], host: str) -> bool:
    """Whether the request comes from this page, or from a user who opens it."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None:
        return origin in (f"http://{host}", f"https://{host}")
    if site in (None, "same-origin", "none"):
        return True
    return headers.get("sec-fetch-mode") == "navigate"


def _query_tokens(scope: Scope) -> Iterable[str]:
    try:
        return parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=32).get("token", [])
    except ValueError:
        return []


def _cookie_tokens(headers: dict[str, str], name: str) -> Iterable[str]:
    """Without http.cookies, which may refuse all cookies for one of another program on this machine."""
    pairs = (cookie.strip().partition("=") for cookie in headers.get("cookie", "").split(";"))
    return [value for key, _, value in pairs if key == name]
