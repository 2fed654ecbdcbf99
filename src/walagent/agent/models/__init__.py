"""The models that can be asked: from a row of the registry to something that answers."""

import asyncio
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from walagent.agent.model import Model
from walagent.agent.models.credentials import Secrets
from walagent.errors import ConfigError
from walagent.message import ModelSpec

PROVIDERS = ("anthropic", "embedded", "openai", "scripted")


async def prepare(provider: str) -> None:
    """Import what *provider* needs, in a thread.

    On a busy machine that takes seconds, and the event loop has leases and a replication
    connection to keep.
    """
    module = f"{__name__}.{provider}.model"
    if provider in PROVIDERS and module not in sys.modules:
        await asyncio.to_thread(import_module, module)


def build_model(
    spec: ModelSpec, *, environ: Mapping[str, str], credentials: Path | None = None
) -> Model:
    """Make the model that *spec* describes; nothing is connected to yet.

    The SDKs take a second to import, so each is imported when its first model is made.

    Args:
        environ: where keys and base URLs are looked for by name; a row can name any of it.
        credentials: ``$CREDENTIALS_DIRECTORY``, where systemd puts keys.

    Raises:
        ConfigError: the provider is unknown, or the spec asks for what it has not.
        ModelUnauthorizedError: there is no key of the name that the spec gives.
    """
    secrets = Secrets(environ, credentials)
    match spec.provider:
        case "anthropic":
            from walagent.agent.models.anthropic.model import AnthropicModel  # noqa: PLC0415 - see above

            return AnthropicModel(spec, secrets)
        case "openai":
            from walagent.agent.models.openai.model import OpenAIModel  # noqa: PLC0415 - see above

            return OpenAIModel(spec, secrets)
        case "embedded":
            from walagent.agent.models.embedded.model import EmbeddedModel  # noqa: PLC0415 - needs numpy

            return EmbeddedModel(spec)
        case "scripted":
            from walagent.agent.models.scripted.script_file import scripted_model  # noqa: PLC0415 - YAML

            return scripted_model(spec)
        case _:
            raise ConfigError(
                f"model {spec.name}: unknown provider {spec.provider!r}; "
                f"known: {', '.join(PROVIDERS)}"
            )
