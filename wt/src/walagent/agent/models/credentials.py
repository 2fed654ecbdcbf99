"""Where a model is reached and with which key.

Keys are found by name, in the systemd credentials directory or in the environment.  A value never
appears in an error or a `repr`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from walagent.errors import ConfigError, ModelUnauthorizedError
from walagent.message import ModelSpec

NO_KEY = "none"  # what servers without keys are sent: the SDKs insist on some value

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The places in which keys are looked for.

    Args:
        environ: usually ``os.environ``; a caller may pass less of it.
        directory: ``$CREDENTIALS_DIRECTORY``; None without systemd.
    """

    environ: Mapping[str, str] = field(repr=False)
    directory: Path | None = None

    def find(self, name: str) -> str | None:
        """Give the value called *name*: from a file there, else from the environment.

        Raises:
            ConfigError: the file is there and cannot be read.
        """
        path = self.directory and self.directory / name
        if path is None or not path.is_file():
            return self.environ.get(name, "").strip() or None
        try:
            return path.read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"the credential file {name} cannot be read") from None


@dataclass(frozen=True, slots=True)
class Provider:
    """What a provider's own SDK would use when nothing is configured."""

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


def find_endpoint(spec: ModelSpec, provider: Provider, secrets: Secrets) -> Endpoint:
    """Say where *spec* is reached and with which key.

    The SDK's own variables count only together: a key of the environment is never sent to a
    base URL that somebody wrote into the model's row.

    Raises:
        ConfigError: the base URL or the credential's name cannot be one.
        ModelUnauthorizedError: there is no key of that name.
    """
    ambient_url = secrets.environ.get(provider.url) or provider.official
    base_url = (spec.base_url or ambient_url).rstrip("/")
    host = _host(base_url, spec)
    official = any(host == domain or host.endswith(f".{domain}") for domain in provider.domains)
    if spec.credential:
        return Endpoint(base_url, _named_key(spec.credential, spec, secrets), official)
    if not official and base_url != ambient_url.rstrip("/"):
        return Endpoint(base_url, NO_KEY, official)
    for name in provider.keys:
        if key := secrets.find(name):
            return Endpoint(base_url, key, official)
    raise _missing(spec, provider.keys[0])


def _named_key(name: str, spec: ModelSpec, secrets: Secrets) -> str:
    if not _NAME.fullmatch(name) or name.startswith("sk-"):
        raise ConfigError(
            f"model {spec.name}: its credential is not a name",  # it may be the key: do not show it
            hint="give the name of an environment variable or of a systemd credential",
        )
    key = secrets.find(name)
    if key is None:
        raise _missing(spec, name)
    return key


def _missing(spec: ModelSpec, name: str) -> ModelUnauthorizedError:
    return ModelUnauthorizedError(
        f"model {spec.name} needs a key, and there is none called {name}",
        hint=f"set the environment variable {name}, or LoadCredential={name}:… in the unit",
    )


def _host(base_url: str, spec: ModelSpec) -> str:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
    except ValueError:
        parts = host = None
    if parts is None or parts.scheme not in {"http", "https"} or not host:
        raise ConfigError(
            f"model {spec.name}: its base URL is none",  # it may hold a password: do not show it
            hint="a base URL begins with http:// or https:// and a host",
        )
    return host
