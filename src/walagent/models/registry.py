"""The providers: those of walagent, and those that other packages bring by an entry point.

[project.entry-points."walagent.models"]
acme = "walagent_acme:PROVIDER"
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from walagent.errors import ConfigError
from walagent.message import ModelSpec
from walagent.models.anthropic import PROVIDER as ANTHROPIC
from walagent.models.embedded import PROVIDER as EMBEDDED
from walagent.models.openai import PROVIDER as OPENAI
from walagent.models.provider import Embedder, Provider
from walagent.models.scripted import PROVIDER as SCRIPTED

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "walagent.models"
BUILT_IN = {one.name: one for one in (ANTHROPIC, EMBEDDED, OPENAI, SCRIPTED)}
COMMON = OPENAI  # most servers speak its protocol: it is meant where only a base URL is given

# What people call a provider, whose servers speak that protocol.
_COMPATIBLE = {
    "azure": "https://RESOURCE.openai.azure.com/openai/v1",
    "azureopenai": "https://RESOURCE.openai.azure.com/openai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai",
    "grok": "https://api.x.ai/v1",
    "groq": "https://api.groq.com/openai/v1",
    "litellm": "http://HOST:4000/v1",
    "llama.cpp": "http://localhost:8080/v1",
    "llamacpp": "http://localhost:8080/v1",
    "lmstudio": "http://localhost:1234/v1",
    "mistral": "https://api.mistral.ai/v1",
    "ollama": "http://localhost:11434/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "together": "https://api.together.xyz/v1",
    "vllm": "http://HOST:8000/v1",
    "xai": "https://api.x.ai/v1",
}


def find_provider(name: str) -> Provider:
    """Find a provider; a built-in one comes first.

    Entry points are read only for other names: it takes milliseconds.

    Raises:
        ConfigError: there is no such provider, or its package does not load.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    for entry in _entries():
        if entry.name == name:
            return _load(entry)
    known = f'unknown provider "{name}"; known: {", ".join(provider_names())}'
    if (url := _COMPATIBLE.get(re.sub("[_ -]", "", name.lower()))) is not None:
        raise ConfigError(
            f"{known}; {name} speaks the protocol of openai",
            hint=f"Use provider openai with base_url {url}.",
        )
    raise ConfigError(
        known,
        hint=f"Install the package that has the entry point {name} in the group {GROUP}.",
    )


def provider_names() -> list[str]:
    """Name all providers that are installed."""
    return sorted({*BUILT_IN, *(entry.name for entry in _entries())})


def providers() -> Iterator[Provider]:
    """Give all providers that are installed, built-in ones first."""
    yield from BUILT_IN.values()
    for name in provider_names():
        if name not in BUILT_IN:
            yield find_provider(name)


def can_plan(spec: ModelSpec) -> bool:
    """Whether a model can answer questions: one of embeddings cannot, nor one whose provider is not
    installed.
    """
    try:
        return spec.dimensions is None and find_provider(spec.provider).can_plan
    except ConfigError:
        return False


def load_embedder() -> Embedder:
    """Load what embeds texts: that of the first provider that has one.

    Raises:
        PreconditionError: it is not installed, or does not run on this machine.
    """
    return next(one.load_embedder() for one in providers() if one.load_embedder is not None)


def _entries() -> "Iterable[EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - it imports email and zipfile

    return entry_points(group=GROUP)


def _load(entry: "EntryPoint") -> Provider:
    try:
        found = entry.load()
    except Exception as error:
        raise ConfigError(f'provider "{entry.name}" does not load: {error!r}') from error
    if not isinstance(found, Provider) or found.name != entry.name:
        raise ConfigError(f'provider "{entry.name}": {entry.value} is not a Provider of that name')
    return found
