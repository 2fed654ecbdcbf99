"""Models that are asked before an agent's own, and how one of them says that it is not sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Self

from walagent.message import Json, ToolSpec

UNSURE: Final = "unsure"
UNSURE_TOOL: Final = ToolSpec(
    UNSURE,
    "Say that you are not sure what is right. Call it alone: nothing is carried out, and another"
    " model decides.",
    {
        "type": "object",
        "properties": {"reason": {"type": "string", "description": "what you are not sure of"}},
        "required": ["reason"],
        "additionalProperties": False,
    },
    reads=True,
)
_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Stage:
    """A model that is asked before the agent's own, with the parameters of its requests."""

    model: str
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        return cls(raw["model"], raw["parameters"])


def stages_of(raw: Mapping[str, Any]) -> tuple[Stage, ...]:
    """Read the stages of a definition."""
    found: Sequence[Mapping[str, Any]] = raw.get("stages") or ()
    return tuple(map(Stage.from_json, found))


def is_sampled(run: int, share: float) -> bool:
    """Return whether a run is in the control sample: always the same of one run and share."""
    place = int.from_bytes(sha256(str(run).encode()).digest()[: _BITS // 8])
    return place < share * (1 << _BITS)
