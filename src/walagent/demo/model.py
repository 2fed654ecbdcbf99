"""Which model plays in the demo: the embedded one, or any other that is named."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from walagent.agent.models.embedded.model import NOTE
from walagent.app.serve import make_model
from walagent.apply.apply import apply
from walagent.config import Config, ModelEntry
from walagent.errors import ConfigError
from walagent.message import ModelSpec
from walagent.store.attachments import load_models

EMBEDDED = "embedded/e5"


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
        ConfigError: it cannot be told.
    """
    if provider is None and base_url:
        provider = "openai"  # whatever has an address speaks its protocol
    match provider:
        case None:
            return _known(config, model or EMBEDDED)
        case "embedded" if model in {None, "e5", EMBEDDED}:
            return _known(config, EMBEDDED)
        case "embedded":
            raise ConfigError(f"there is one embedded model, {EMBEDDED}")
        case "scripted":
            return _scripted(model or base_url)
        case _ if model is None:
            raise ConfigError(f"--provider {provider} needs a model", hint="--model NAME")
        case _:
            given = {"provider": provider, "base_url": base_url}
            known = _known(config, model)
            update = {key: value for key, value in given.items() if value is not None}
            return Choice(model, known.entry.model_copy(update=update))


def _known(config: Config, name: str) -> Choice:
    return Choice(name, config.models.get(name, ModelEntry()))


def _scripted(path: str | None) -> Choice:
    if not path:
        raise ConfigError("--provider scripted needs a script", hint="--model FILE")
    entry = ModelEntry(
        provider="scripted", model_id=Path(path).name, base_url=str(Path(path).absolute())
    )
    return Choice("scripted", entry)


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
            hint=f"{guess}give the provider of a model that is new: --provider anthropic or openai",
        )
    await make_model(specs[choice.name]).aclose()
    return specs[choice.name]


def label_of(spec: ModelSpec) -> str:
    """Name the model as people should read it."""
    match spec.provider:
        case "embedded":
            return NOTE
        case "scripted":
            return f"the script {spec.model_id} (not a language model)"
        case provider:
            return f"{spec.name} ({provider})"
