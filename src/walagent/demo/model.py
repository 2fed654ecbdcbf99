"""Which model the demo uses: the embedded one, or any other that is named."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from psycopg import AsyncConnection

from walagent.agent.models import make_model
from walagent.agent.models.registry import COMMON, find_provider
from walagent.apply.apply import apply
from walagent.config import Config, ModelEntry
from walagent.errors import ConfigError
from walagent.message import ModelSpec
from walagent.store.attachments import load_models

DEFAULT = "embedded/e5"


@dataclass(frozen=True, slots=True)
class Choice:
    """A model's name, and what the registry is to be told about it."""

    name: str
    entry: ModelEntry


def choose_model(
    config: Config, provider: str | None, model: str | None, base_url: str | None
) -> Choice:
    """Say which model is meant: of a file's `models`, of the registry, or a new one.

    Raises:
        ConfigError: the provider does not say which of its models.
    """
    if provider is None and base_url is None:
        return _known(config, model or DEFAULT)
    chosen = find_provider(provider) if provider else COMMON
    name = model or chosen.default_model
    if not name:
        raise ConfigError(f"--provider {chosen.name} needs a model", hint="--model NAME")
    given = {"provider": chosen.name, "base_url": base_url}
    if name == chosen.default_model:  # it is registered already
        given = {"base_url": base_url}
    update = {key: value for key, value in given.items() if value is not None}
    return Choice(name, _known(config, name).entry.model_copy(update=update))


def _known(config: Config, name: str) -> Choice:
    return Choice(name, config.models.get(name, ModelEntry()))


async def register_model(conn: AsyncConnection[Any], choice: Choice) -> ModelSpec:
    """Put the model into the registry, and see that it can be asked.

    Raises:
        ConfigError: nobody knows this model.
        PreconditionError, ModelUnauthorizedError: it does not run here, or its key is missing.
    """
    if choice.entry.model_fields_set:
        async with conn.transaction():
            await apply(conn, Config(models={choice.name: choice.entry}))
    specs = await load_models(conn)
    if choice.name not in specs:
        near = get_close_matches(choice.name, specs, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"there is no model {choice.name} in the registry",
            hint=f"{guess}Use --provider to name the provider of a new model.",
        )
    await make_model(specs[choice.name]).aclose()
    return specs[choice.name]


def label_of(spec: ModelSpec) -> str:
    """Name the model as people should read it."""
    provider = find_provider(spec.provider)
    return f"{spec.name} ({provider.note or provider.name})"
