"""Models: from a row of `agent.model` to something that answers."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from walagent.base.extras import install_hint
from walagent.errors import ConfigError, PreconditionError
from walagent.message import ModelSpec
from walagent.models.credentials import Secrets
from walagent.models.model import Model
from walagent.models.provider import Build, Provider
from walagent.models.registry import find_provider


async def prepare(provider: str) -> None:
    """Import what *provider* needs, in a thread; what fails, fails again in `build_model`.

    An SDK takes a second to import on a busy machine, and the event loop has leases and a
    replication connection to keep.
    """
    with suppress(ConfigError, PreconditionError):
        await asyncio.to_thread(lambda: _load(find_provider(provider)))


def build_model(
    spec: ModelSpec, *, environ: Mapping[str, str], credentials: Path | None = None
) -> Model:
    """Build the model that *spec* describes; nothing is connected to yet.

    Args:
        environ: where keys and base URLs are looked for by name; a row can name any of it.
        credentials: ``$CREDENTIALS_DIRECTORY``, where systemd puts keys.

    Raises:
        ConfigError: the provider is unknown, or does not have what the spec asks for.
        PreconditionError: the provider needs a package that is not installed.
        ModelUnauthorizedError: there is no key of the name that the spec gives.
    """
    return _build(spec, Secrets(environ, credentials))


def make_model(spec: ModelSpec) -> Model:
    """Build a model with the keys of this process, of which a row can name only some.

    Raises:
        ConfigError, PreconditionError, ModelUnauthorizedError: as `build_model`.
    """
    return _build(spec, Secrets.of_process())


def _build(spec: ModelSpec, secrets: Secrets) -> Model:
    try:
        provider = find_provider(spec.provider)
    except ConfigError as error:
        raise ConfigError(f"model {spec.name}: {error}", hint=error.hint) from error
    return _load(provider)(spec, secrets)


def _load(provider: Provider) -> Build:
    try:
        return provider.load()
    except ModuleNotFoundError as error:
        raise PreconditionError(
            f"provider {provider.name} needs the module {error.name}, which is not installed",
            hint=install_hint(provider.extra) if provider.extra else "",
        ) from error
