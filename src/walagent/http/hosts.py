"""The names of this server: a name that an attacker owns can be made to lead here (rebinding)."""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY: Final = frozenset({"0.0.0.0", "::", "*", ""})  # noqa: S104 - it names no host


def hosts_of(listening: str, public_url: str | None, more: tuple[str, ...] = ()) -> frozenset[str]:
    """Return the names under which this server may be asked.

    Args:
        listening: the address that it listens on.
        public_url: where people reach it.
        more: names of the file.
    """
    found = {listening, *more} - _ANY
    if public_url is not None and (name := urlsplit(public_url).hostname):
        found.add(name)
    return _LOOPBACK | {each.lower() for each in found}


def name_of(host: str) -> str:
    """Return the name in a Host header, without the port; empty if there is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def is_of_a_network(host: str) -> bool:
    """Return whether a Host header cannot be a name that somebody has registered.

    It is an address, or a name without a dot, as monitoring uses.
    """
    name = name_of(host)
    try:
        ip_address(name)
    except ValueError:
        return "." not in name.removesuffix(".")
    return True
