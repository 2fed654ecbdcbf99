"""The models that can be called from here: keys in the environment, Ollama, the embedded one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import httpx2
import orjson

from walagent.errors import WalagentError
from walagent.message import Json
from walagent.models.embedded import PROVIDER as EMBEDDED

# For each variable with a key, an inexpensive registered model with a known price.
BY_KEY = {
    "ANTHROPIC_API_KEY": "claude-haiku-4-5",
    "OPENAI_API_KEY": "gpt-5-mini",
    "GEMINI_API_KEY": "gemini-2.5-flash",
}

_OLLAMA = "localhost:11434"
_PATIENCE = 0.5  # seconds; Ollama is on this machine
_MOST_BODY = 1 << 20  # bytes of its answer
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class ModelOption:
    """A model to choose.

    Args:
        why: where it was found.
        entry: what a file must say about it; empty: it is registered.
        plans: whether it is a language model.
    """

    name: str
    why: str
    entry: dict[str, Json]
    plans: bool = True


def find_models(environ: Mapping[str, str]) -> list[ModelOption]:
    """Find the models that can be called, the best first."""
    address = environ.get("OLLAMA_HOST") or _OLLAMA
    address = address if "://" in address else f"http://{address}"
    return [*_with_key(environ), *_of_ollama(address.rstrip("/")), *_embedded()]


def named_model(name: str, found: Sequence[ModelOption]) -> ModelOption:
    """Return the option of this name, or a registered model of which only the name is known."""
    return next((each for each in found if each.name == name), ModelOption(name, "as named", {}))


def _with_key(environ: Mapping[str, str]) -> Iterator[ModelOption]:
    for key, name in BY_KEY.items():
        if environ.get(key, "").strip():
            yield ModelOption(name, f"the key {key} is set", {})


def _of_ollama(address: str) -> Iterator[ModelOption]:
    for name in _served(address):
        entry: dict[str, Json] = {"provider": "openai", "base_url": f"{address}/v1"}
        yield ModelOption(name, f"Ollama answers at {address}", entry)


def _served(address: str) -> list[str]:
    try:
        with httpx2.stream(
            "GET", f"{address}/api/tags", timeout=_PATIENCE, trust_env=False
        ) as answer:
            pieces = islice(answer.raise_for_status().iter_bytes(_PIECE), _MOST_BODY // _PIECE)
            document: Any = orjson.loads(b"".join(pieces))
        return [str(model["name"]) for model in document["models"]]
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return []  # none, or another program


def _embedded() -> Iterator[ModelOption]:
    if EMBEDDED.load_embedder is None:
        return
    try:
        EMBEDDED.load_embedder()
    except WalagentError:
        return
    why = f"on this machine, without a key; {EMBEDDED.note}"
    yield ModelOption(EMBEDDED.default_model, why, {}, plans=False)
