"""Who is refused, and why: tokens, hosts, origins."""

from __future__ import annotations

import pytest

from basestation.sources.tcp import is_loopback
from basestation.web.access import Access, new_token, own_names

TOKEN = "0123456789abcdef"
OPEN = Access(own_names("127.0.0.1"))
CLOSED = Access(own_names("0.0.0.0"), TOKEN, cookie="causeway_8080")


def scope(query: str = "", method: str = "GET", **headers: str) -> dict[str, object]:
    said = {"host": "localhost:8080"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "type": "http",
        "method": method,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in said.items()],
    }


def status(access: Access, asked: dict[str, object]) -> int | None:
    refused = access.refusal(asked)
    return None if refused is None else refused[0]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9", "127.0.0.1:8080", "[::1]:8080", "192.168.1.7:8080"]
)
def test_addresses_and_own_names_are_served(host: str) -> None:
    assert status(OPEN, scope(host=host)) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8080", "", "127.0.0.1.evil.example", "@"]
)
def test_a_name_that_suddenly_points_here_is_refused(host: str) -> None:
    assert status(OPEN, scope(host=host)) == 421


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, None),
        ({"origin": "http://localhost:8080"}, None),
        ({"origin": "https://localhost:8080"}, None),
        ({"origin": "http://localhost:8081"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "same-origin"}, None),
        ({"sec_fetch_site": "none"}, None),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, None),
    ],
)
def test_pages_of_others_are_refused(headers: dict[str, str], refused: int | None) -> None:
    assert status(OPEN, scope(**headers)) == refused


def test_a_change_must_say_where_it_comes_from() -> None:
    assert status(OPEN, scope(method="POST")) == 403
    assert status(OPEN, scope(method="POST", sec_fetch_site="same-origin")) == 403
    assert status(OPEN, scope(method="POST", origin="http://localhost:8080")) is None


@pytest.mark.parametrize(
    ("query", "cookie", "refused"),
    [
        ("", f'other={{"a": [1, 2]}}; b c; causeway_8080={TOKEN}', None),
        ("", f'other="x; causeway_8080=y{TOKEN}', 403),
        ("", "", 403),
        (f"token={TOKEN}", "", None),
        (f"a=1&token=x&token={TOKEN}", "", None),
        (f"token={TOKEN}x", "", 403),
        ("token=%ff%fe", "", 403),
        ("token=" + "&a" * 100, "", 403),
        ("", f"causeway_8080={TOKEN}", None),
        ("", f"causeway_8081={TOKEN}", 403),
        ("", "causeway_8080=\u00e9; =;;", 403),
    ],
)
def test_the_token(query: str, cookie: str, refused: int | None) -> None:
    assert status(CLOSED, scope(query, cookie=cookie)) == refused


def test_the_cookie_is_for_those_who_had_the_token_in_the_address() -> None:
    assert CLOSED.cookie_for(scope()) is None
    assert OPEN.cookie_for(scope(f"token={TOKEN}")) is None
    assert CLOSED.cookie_for(scope(f"token={TOKEN}")) == (
        f"causeway_8080={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    )


def test_loopback_and_tokens() -> None:
    assert [is_loopback(one) for one in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")] == [True] * 4
    assert [is_loopback(one) for one in ("0.0.0.0", "192.168.1.7", "::", "localhost")] == [False] * 4
    assert len(new_token()) >= 32
    assert new_token() != new_token()
