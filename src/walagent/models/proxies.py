"""Which proxy of the environment a request takes; one that cannot be used is configuration."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from walagent.errors import ModelUnauthorizedError

_SOCKS = frozenset({"socks5", "socks5h"})
_USABLE = _SOCKS | {"http", "https"}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy, and the variable that names it."""

    url: str
    variable: str

    @property
    def place(self) -> str:
        """Return host and port, without a name or password."""
        return netloc(self.url)


def proxy_for(base_url: str, label: str) -> Proxy | None:
    """Return the proxy for a base URL, by the variables that other programs read, too.

    Args:
        label: the model's name, for the error.

    Raises:
        ModelUnauthorizedError: the proxy cannot be used; a person must change the environment.
    """
    from urllib.request import (  # noqa: PLC0415 - each command reads this module, few make a call
        getproxies_environment,
        proxy_bypass_environment,  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]
    )

    target = urlsplit(base_url)
    known: Mapping[str, str] = getproxies_environment()
    scheme = next((one for one in (target.scheme, "all") if known.get(one)), None)
    if scheme is None or proxy_bypass_environment(netloc(base_url), dict(known)):
        return None
    url, variable = known[scheme], _variable(scheme)
    url = url if "://" in url else f"http://{url}"
    kind, host = urlsplit(url).scheme.lower(), target.hostname
    if kind == "socks":
        kind, url = "socks5", f"socks5{url[len('socks') :]}"
    if kind not in _USABLE or not urlsplit(url).hostname:
        raise ModelUnauthorizedError(
            f"model {label}: the proxy in {variable} cannot be used: it must be a URL of"
            " http, https, socks5 or socks5h with a host",
            hint=f"Correct {variable}, or add {host} to NO_PROXY, and restart walagent.",
        )
    if kind in _SOCKS and find_spec("socksio") is None:
        raise ModelUnauthorizedError(
            f"model {label}: {variable} names a SOCKS proxy, which needs the package socksio",
            hint=f"Run pip install socksio, or add {host} to NO_PROXY, and restart walagent.",
        )
    return Proxy(url, variable)


def netloc(url: str) -> str:
    """Return host and port of a URL, without a name or password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _variable(scheme: str) -> str:
    lower = f"{scheme}_proxy"
    return lower if os.environ.get(lower) else lower.upper()
