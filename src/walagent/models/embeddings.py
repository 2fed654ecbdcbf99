"""Requests for the embedding of a text, and replies to them: a call of the tool that stores it.

In: a `Request` whose `embeds` names an argument.  Out: a `Reply` with one call, so that a run of
embeddings is recorded, budgeted and carried out as any other.
"""

import math
from collections.abc import Mapping, Sequence

from walagent.errors import ModelRejectedError
from walagent.message import Json, ModelSpec, Reply, Request, Stop, Text, ToolCall, Usage
from walagent.models.model import Model
from walagent.models.usage import charging

_CHARS_PER_TOKEN = 4  # of English
_LARGEST = float.fromhex("0x1.fffffep127")  # of 4 bytes, as the columns of embeddings have them


def embeds(model: Model) -> bool:
    """Return whether a model answers requests for embeddings."""
    return getattr(model, "embeds", False)


def text_of(request: Request, most: int | None = None) -> str:
    """Return the text to embed; "": there is nothing to embed, and the embedding is None.

    Args:
        most: characters of it; None: what embeds it cuts it.
    """
    parts = (part for message in request.messages for part in message.parts)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return text[:most] if text.strip() else ""


def chars_of(spec: ModelSpec) -> int:
    """Return how many characters of a text a model can read, if it is of English words."""
    return spec.context_window * _CHARS_PER_TOKEN


def reply_with(
    request: Request, spec: ModelSpec, vector: Sequence[float] | None, usage: Usage, model: str
) -> Reply:
    """Make the reply that stores an embedding.

    Args:
        vector: None: there was nothing to embed.
        model: the name of the model in its answer.

    Raises:
        ModelRejectedError: the embedding is not what `dimensions` of the model says, or has what
            is no number.
    """
    if vector is not None:
        with charging(usage):
            _check(vector, spec)
    (tool,) = request.tools
    value = None if vector is None else _written(vector, tool.input_schema, request.embeds)
    call = ToolCall("embedding", tool.name, {request.embeds: value})
    return Reply((call,), Stop.TOOL, usage, model)


def _check(vector: Sequence[float], spec: ModelSpec) -> None:
    if len(vector) != spec.dimensions:
        raise ModelRejectedError(
            f"{spec.provider} {spec.model_id} sent an embedding of {len(vector)} dimensions,"
            f" expected {spec.dimensions}",
            hint=f"Set dimensions of {spec.name} in agent.model, or its parameter dimensions.",
        )
    if not all(abs(value) <= _LARGEST for value in vector):
        what = "NaN" if any(map(math.isnan, vector)) else "a number that is too large"
        raise ModelRejectedError(f"{spec.provider} {spec.model_id} sent an embedding with {what}")


def _written(vector: Sequence[float], schema: Mapping[str, Json], argument: str) -> Json:
    """Write a vector as its column reads it: nine digits are all that 4 bytes have."""
    digits = [f"{value:.9g}" for value in vector]
    types = schema["properties"][argument].get("type")
    is_array = "array" in ([types] if isinstance(types, str) else types or ())
    return [float(each) for each in digits] if is_array else f"[{','.join(digits)}]"
