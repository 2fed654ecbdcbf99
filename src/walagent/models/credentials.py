"""Where a model is reached and with which key.

Keys are found by name, in the systemd credentials directory or in the environment.  A value never
appears in an error or a `repr`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from walagent.errors import ConfigError, ModelUnauthorizedError
from walagent.message import ModelSpec
from walagent.models.proxies import Proxy, proxy_for

# How the names of variables end that every model may be given.
FOR_MODELS = ("_API_KEY", "_AUTH_TOKEN", "_BASE_URL", "_ORG_ID", "_PROJECT_ID")
NO_KEY = "none"  # what servers without keys are sent: the SDKs insist on some value

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The places in which keys are looked for.

    Args:
        environ: usually ``os.environ``; a caller may pass less of it.
        directory: ``$CREDENTIALS_DIRECTORY``; None without systemd.
        only: how the names of variables end that may be read; empty if all may be.
    """

    environ: Mapping[str, str] = field(repr=False)
    directory: Path | None = None
    only: tuple[str, ...] = ()

    @classmethod
    def of_process(cls) -> Self:
        """Give those of this process.

        Anyone who may write `agent.model` decides which variable is sent where, so only variables
        that are meant for models may be read.
        """
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        return cls(os.environ, Path(folder) if folder else None, FOR_MODELS)

    def find(self, name: str) -> str | None:
        """Give the value called *name*: from a file there, else from the environment.

        Raises:
            ConfigError: the file is there and cannot be read.
        """
        path = self.directory and self.directory / name
        if path is None or not path.is_file():
            return self.variable(name)
        try:
            return path.read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"the credential file {name} cannot be read") from None

    def variable(self, name: str) -> str | None:
        """Give the value of an environment variable that may be read."""
        return self.environ.get(name, "").strip() or None if self.offers(name) else None

    def offers(self, name: str) -> bool:
        """Whether a variable of this name may be read."""
        return not self.only or name.endswith(self.only)


@dataclass(frozen=True, slots=True)
class Api:
    """How a provider is reached when nothing is configured, as its own SDK does it."""

    keys: tuple[str, ...]  # environment variables, the first one set wins
    url: str  # environment variable with a base URL
    official: str  # base URL without it
    domains: tuple[str, ...]  # hosts that the provider itself runs


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL, the key for it, and whether the provider itself runs it."""

    base_url: str
    key: str = field(repr=False)
    official: bool = True
    source: str = ""  # the variable that the base URL comes from; "": the row, or the default
    proxy: Proxy | None = field(default=None, repr=False)

    @property
    def lacks_version(self) -> bool:
        """Whether the base URL has no path: most servers of Chat Completions have one."""
        return not self.official and not urlsplit(self.base_url).path.strip("/")


def find_endpoint(spec: ModelSpec, api: Api, secrets: Secrets) -> Endpoint:
    """Say where *spec* is reached and with which key.

    The SDK's own variables count only together: a key of the environment is never sent to a
    base URL that comes from the model's row.

    Raises:
        ConfigError: the base URL or the credential's name is not valid.
        ModelUnauthorizedError: there is no key of that name, or it, or the proxy, cannot be used.
    """
    if secrets.only:  # the variables that the provider's code names may be read as well
        secrets = replace(secrets, only=(*secrets.only, *api.keys, api.url))
    ambient_url = secrets.variable(api.url) or api.official
    base_url = (spec.base_url or ambient_url).rstrip("/")
    source = api.url if not spec.base_url and secrets.variable(api.url) else ""
    host = _host(base_url, spec, source)
    official = any(host == domain or host.endswith(f".{domain}") for domain in api.domains)
    ambient = base_url == ambient_url.rstrip("/")
    key = _key_of(spec, api, secrets, is_needed=official or ambient)
    return Endpoint(base_url, key, official, source, proxy_for(base_url, spec.name))


def _key_of(spec: ModelSpec, api: Api, secrets: Secrets, *, is_needed: bool) -> str:
    """Find the key.

    Args:
        is_needed: a key of the environment may be sent there.
    """
    if spec.credential:
        return _usable(_named_key(spec.credential, spec, secrets), spec.credential, spec)
    if not is_needed:
        return NO_KEY
    if spec.tenant:  # the keys of the environment are those of the shared models
        raise ModelUnauthorizedError(
            f'model "{spec.name}" of tenant "{spec.tenant}" has no credential',
            hint="Set its credential: the name of an environment variable or systemd credential.",
        )
    for name in api.keys:
        if key := secrets.find(name):
            return _usable(key, name, spec)
    raise _missing(spec, api.keys[0])


def _usable(key: str, name: str, spec: ModelSpec) -> str:
    """Return the key if a header of HTTP can hold it."""
    wrong = next((one for one in key if not "!" <= one <= "~"), None)
    if wrong is None:
        return key
    kind = "a space or line break" if wrong.isspace() else "a letter that is not ASCII"
    kind = kind if wrong.isprintable() or wrong.isspace() else "a control character"
    raise ModelUnauthorizedError(
        f"model {spec.name}: the key in {name} contains {kind}, which no key has",
        hint=f"Copy the key into {name} again, on one line and with nothing else.",
    )


def _named_key(name: str, spec: ModelSpec, secrets: Secrets) -> str:
    if not _NAME.fullmatch(name) or name.startswith("sk-"):
        raise ConfigError(
            f"model {spec.name}: its credential is not a name",  # it may be the key: do not show it
            hint="give the name of an environment variable or of a systemd credential",
        )
    key = secrets.find(name)
    if key is None:
        raise _missing(spec, name) if secrets.offers(name) else _kept_back(spec, name)
    return key


def _missing(spec: ModelSpec, name: str) -> ModelUnauthorizedError:
    return ModelUnauthorizedError(
        f"model {spec.name} needs a key, and there is none called {name}",
        hint=f"Set the environment variable {name}, or load it as a systemd credential.",
    )


def _kept_back(spec: ModelSpec, name: str) -> ModelUnauthorizedError:
    return ModelUnauthorizedError(
        f'credential {name} of model "{spec.name}" is not set, and models are not given variables'
        " of that name",
        hint="Load it as a systemd credential, or use a variable whose name ends in "
        f"{', '.join(FOR_MODELS)}.",
    )


def _host(base_url: str, spec: ModelSpec, source: str) -> str:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
    except ValueError:
        parts = host = None
    if parts is None or parts.scheme not in {"http", "https"} or not host:
        raise ConfigError(  # it may hold a password: do not show it
            f"model {spec.name}: {source or 'its base_url'} is not a base URL: it must begin with"
            " http:// or https:// and a host",
            hint=f"Write http://HOST:PORT/v1 or https://HOST/v1 in {source or 'base_url'}.",
        )
    return host
