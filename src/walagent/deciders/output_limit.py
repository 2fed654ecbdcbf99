"""How many tokens a model may answer with, if the agent does not say.  Pure.

A budget reserves the output limit of each call, and providers count it against rate limits, so the
default is what the tools need and not what the model can.
"""

from collections.abc import Mapping
from typing import Final

from walagent.domain.agent_spec import AgentSpec
from walagent.message import Json, ModelSpec

_DEFAULT: Final = 4_096
_SMALL: Final = 1_024  # calls whose arguments have a known size, or a sentence
_REASONING: Final = 16_384  # a model that reasons uses thousands of tokens before it answers
_GROWTH: Final = 4  # after a reply that the default cut off
_MOST_TEXT: Final = 500  # characters of an argument that count as known and small
_MOST_ARGUMENTS: Final = 20  # of one tool

# Parameters that make a model reason.
_REASONS: Final = frozenset({"thinking", "reasoning", "reasoning_effort", "output_config"})


def output_limit(agent: AgentSpec, model: ModelSpec, times_cut: int) -> int:
    """Give the output limit of the agent's next request.

    Args:
        times_cut: replies that the default limit cut off.
    """
    if agent.limits.max_output_tokens is not None:
        return agent.limits.max_output_tokens
    return min(_first_limit(agent, model) * _GROWTH**times_cut, model.max_output_tokens)


def _first_limit(agent: AgentSpec, model: ModelSpec) -> int:
    given = {**model.parameters, **agent.parameters}
    if model.reasons or any(given.get(name) is not None for name in _REASONS):
        return _REASONING + _thinking_budget(given)
    if agent.tools and all(_is_small(tool.input_schema) for tool in agent.tools):
        return _SMALL
    return _DEFAULT


def _thinking_budget(given: Mapping[str, Json]) -> int:
    """Return the part of the output that is reserved for thinking, which providers count in."""
    match given.get("thinking"):
        case {"budget_tokens": int(tokens)}:
            return tokens
        case _:
            return 0


def _is_small(schema: Mapping[str, Json]) -> bool:
    """Whether every argument has a known and small size."""
    arguments: Mapping[str, Json] = schema.get("properties") or {}
    return len(arguments) <= _MOST_ARGUMENTS and all(map(_is_bounded, arguments.values()))


def _is_bounded(schema: Json) -> bool:
    match schema:
        case {"enum": _} | {"const": _}:
            return True
        case {"maxLength": int(length)} if length <= _MOST_TEXT:
            return True
        case {"type": str(kind)}:
            return kind in {"boolean", "integer", "number", "null"}
        case {"type": [*kinds]}:
            return all(kind in {"boolean", "integer", "number", "null"} for kind in kinds)
        case _:
            return False
