"""Check requests with a cookie: no other site can send them, under no other name.

The host is checked on every request, since a name that an attacker owns can be made to point to
this machine (DNS rebinding).  A write needs a header and a content type that a form of another site
cannot have, and that no answer of this server allows other sites to send.
"""

import re
from collections.abc import Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import urlsplit

from walagent.http.exchange import RefusedError
from walagent.http.hosts import name_of
from walagent.sync.asgi import bearer_of

COOKIE: Final = "walagent_session"  # what names of cookies begin with
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9.~-]")
_LONGEST: Final = 80
_READS: Final = frozenset({"GET", "HEAD"})

Headers = Mapping[bytes, bytes]
Scope = MutableMapping[str, Any]  # as ASGI defines it


def check(method: str, headers: Headers, hosts: frozenset[str]) -> None:
    """Check a request.

    Raises:
        RefusedError: it comes from another site, or was sent to another name.
    """
    check_place(headers, hosts)
    if method not in _READS:
        _check_write(method, headers)


def check_place(headers: Headers, hosts: frozenset[str]) -> None:
    """Check where a request comes from, and under which name it was sent.

    Raises:
        RefusedError: as `check`.
    """
    host = headers.get(b"host", b"").decode("latin-1")
    if name_of(host) not in hosts:
        raise RefusedError(
            403, f'host "{host}" is not a name of this server', hint="Add it to http.hosts."
        )
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and (origin == "null" or urlsplit(origin).netloc != host):
        raise RefusedError(403, "requests from other sites are refused")
    site = headers.get(b"sec-fetch-site", b"same-origin")
    if site not in {b"same-origin", b"none"}:
        raise RefusedError(403, "requests from other sites are refused")


def _check_write(method: str, headers: Headers) -> None:
    if headers.get(b"x-walagent-request") != b"1":
        raise RefusedError(403, "the header x-walagent-request: 1 is missing")
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if method != "DELETE" and kind != b"application/json":
        raise RefusedError(415, "expected content-type: application/json")


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie at the address that a request was sent to.

    Browsers send a cookie to all ports of a host, and those of `/` to all prefixes.
    """
    headers = dict[bytes, bytes](scope["headers"])
    prefix = prefix_of(scope) or headers.get(b"x-forwarded-prefix", b"").decode("latin-1")
    try:
        port = urlsplit(f"//{headers.get(b'host', b'').decode('latin-1')}").port
    except ValueError:
        port = None
    parts = [str(port or ""), *prefix.split("/")]
    return "_".join([COOKIE, *(_NO_NAME.sub("", each) for each in parts if each)])[:_LONGEST]


def prefix_of(scope: Scope) -> str:
    """Return the prefix at which the server is mounted, without a slash at its end."""
    return str(scope.get("root_path", "")).rstrip("/").removesuffix("/v1")


def cookie_of(scope: Scope) -> str:
    """Return the token of the cookie; empty if there is none."""
    given = dict[bytes, bytes](scope["headers"]).get(b"cookie", b"").decode("latin-1")
    try:
        found = SimpleCookie(given).get(cookie_name(scope))
    except CookieError:
        return ""
    return "" if found is None else found.value


def token_of(scope: Scope) -> str:
    """Return the token of a request: the bearer's, else the cookie's; empty if there is none."""
    return bearer_of(scope) or cookie_of(scope)
