"""Choose the demo's model: the embedded one, or another by name."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from psycopg import AsyncConnection

from walagent.apply.apply import apply
from walagent.config import Config, ModelEntry
from walagent.errors import ConfigError
from walagent.message import ModelSpec
from walagent.models import make_model
from walagent.models.registry import COMMON, find_provider
from walagent.store.attachments import load_models

DEFAULT = "embedded/e5"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model's name, and what to register about it."""

    name: str
    entry: ModelEntry


def choose_model(
    config: Config, provider: str | None, model: str | None, base_url: str | None
) -> ModelChoice:
    """Find the model in a file's `models`, in the registry, or create an entry for it.

    Raises:
        ConfigError: the provider requires a model name.
    """
    if provider is None and base_url is None:
        return _known(config, model or DEFAULT)
    chosen = find_provider(provider) if provider else COMMON
    name = model or chosen.default_model
    if not name:
        raise ConfigError(f"--provider {chosen.name} requires a model", hint="Use --model NAME.")
    given = {"provider": chosen.name, "base_url": base_url}
    if name == chosen.default_model:  # it is registered already
        given = {"base_url": base_url}
    update = {key: value for key, value in given.items() if value is not None}
    return ModelChoice(name, _known(config, name).entry.model_copy(update=update))


def _known(config: Config, name: str) -> ModelChoice:
    return ModelChoice(name, config.models.get(name, ModelEntry()))


async def register_model(conn: AsyncConnection[Any], choice: ModelChoice) -> ModelSpec:
    """Register the model and check that it can be called.

    Raises:
        ConfigError: the model is not registered.
        PreconditionError, ModelUnauthorizedError: it cannot run here, or its key is missing.
    """
    if choice.entry.model_fields_set:
        async with conn.transaction():
            await apply(conn, Config(models={choice.name: choice.entry}))
    specs = await load_models(conn)
    if choice.name not in specs:
        near = get_close_matches(choice.name, specs, n=1)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f'model "{choice.name}" is not registered',
            hint=f"{guess}Use --provider to name the provider of a new model.",
        )
    await make_model(specs[choice.name]).aclose()
    return specs[choice.name]


def label_of(spec: ModelSpec) -> str:
    """Return the model's name for people."""
    provider = find_provider(spec.provider)
    return f"{spec.name} ({provider.note or provider.name})"
