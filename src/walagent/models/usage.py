"""What an answer cost: counts have several names, and include one another or do not.  Pure."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from walagent.errors import ModelError
from walagent.message import Json, Usage
from walagent.models.replies import as_object, count

_PROMPT: Final = ("prompt_tokens", "prompt_token_count", "promptTokenCount")
_OUTPUT: Final = ("completion_tokens", "output_tokens", "candidatesTokenCount")
_TOTAL: Final = ("total_tokens", "totalTokenCount")
_READ: Final = (
    "prompt_cache_hit_tokens",
    "cache_read_input_tokens",
    "cached_tokens",
    "cache_read_tokens",
    "cachedContentTokenCount",
)
_WRITTEN: Final = ("cache_creation_input_tokens", "cache_write_tokens", "cache_creation_tokens")
_THOUGHT: Final = ("reasoning_tokens", "thoughtsTokenCount", "thinking_tokens")
# Anthropic counts these beside the input, all others within it.
_BESIDE: Final = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})


def read_usage(given: Mapping[str, Json]) -> Usage:
    """Read the counts of an answer, under whatever names; none at all are nothing."""
    prompts = as_object(given.get("prompt_tokens_details") or given.get("input_tokens_details"))
    outputs = as_object(
        given.get("completion_tokens_details") or given.get("output_tokens_details")
    )
    cached = _first(prompts, _READ) or _first(given, _READ)
    written = _first(prompts, _WRITTEN) or _first(given, _WRITTEN)
    prompted = _first(given, _PROMPT)
    if not prompted and (fresh := count(given.get("input_tokens"))):
        prompted = fresh + cached + written if _BESIDE & given.keys() else fresh
    elif not prompted:
        prompted = cached + written + count(given.get("prompt_cache_miss_tokens"))
    cached = min(prompted, cached)
    written = min(prompted - cached, written)
    # Gemini and xAI count their thinking in the total only.
    output = max(
        _first(given, _OUTPUT),
        _first(given, _TOTAL) - prompted,
        _first(as_object(outputs), _THOUGHT),
        _first(given, _THOUGHT),
    )
    return Usage(prompted - cached - written, cached, written, output)


def _first(given: Mapping[str, Json], names: tuple[str, ...]) -> int:
    return next((found for name in names if (found := count(given.get(name)))), 0)


def usage_of(error: Exception) -> Usage:
    """Return what a reply cost that came and could not be used; nothing if none came."""
    usage = error.usage if isinstance(error, ModelError) else None
    return usage if isinstance(usage, Usage) else Usage()


@contextmanager
def charging(usage: Usage) -> Generator[None]:
    """Let an error about an answer that came have what the answer cost.

    Args:
        usage: all of it: what the error has already is part of it.
    """
    try:
        yield
    except ModelError as error:
        error.usage = usage
        raise
