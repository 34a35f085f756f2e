"""Posts something to a web server, by an address that may hold a name and a password."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from base64 import b64encode
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from basestation.outputs import OutputError

LIMIT_S = 10.0  # for an answer


class Address(NamedTuple):
    """An address without its password, which goes into the headers, and the host's name as people may see it."""

    url: str
    host: str
    headers: dict[str, str]


class PostError(OutputError):
    """What was posted did not arrive. `status` is the server's, None without an answer; `said` its words."""

    def __init__(self, text: str, status: int | None = None, said: str = "") -> None:
        super().__init__(text)
        self.status, self.said = status, said


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected post would become a get, without what was posted."""

    def redirect_request(self, *args: Any, **given: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def read_address(url: str) -> Address:
    """Take an address apart; `ValueError` if it is none."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    if not parts.hostname:
        raise ValueError("it names no host")
    host = (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname) + port
    headers = {"User-Agent": "causeway"}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    return Address(urlunsplit((parts.scheme, host, parts.path, parts.query, "")), host, headers)


def post(address: Address, body: bytes, kind: str) -> None:
    """Post a body of this content type, or raise `PostError`."""
    request = urllib.request.Request(address.url, body, address.headers | {"Content-Type": kind})
    try:
        with _opener.open(request, timeout=LIMIT_S):
            return
    except urllib.error.HTTPError as error:
        said = ""
        with error, contextlib.suppress(OSError, HTTPException):
            said = error.read(300).decode(errors="replace").strip()
        moved = f", it has moved to {error.headers['Location']}" if 300 <= error.code < 400 else ""
        raise PostError(f"it answers {error.code} {error.reason}{moved}", error.code, said) from None
    except (OSError, HTTPException, ValueError) as error:
        raise PostError(str(getattr(error, "reason", error)) or type(error).__name__) from None
