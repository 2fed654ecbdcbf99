"""Decides for runs that embed a document: cut it, embed its chunks, end."""

from collections.abc import Sequence
from typing import Final

import orjson

from walagent.domain.run import RunSpec, Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.message import Json, ToolCall
from walagent.moves import Act, AsksNoModel, Call, Move, succeed

_CUT: Final = Tool("cut", "embedding", "cut", "", {"type": "object"}, Effect.TRANSACTIONAL)
_EMBED: Final = Tool("embed", "embedding", "embed", "", {"type": "object"}, Effect.READ)


class EmbeddingDecider(AsksNoModel):
    """Implements `Decider`."""

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Cut, embed until there is nothing left, end."""
        del run  # all runs are alike
        done: list[dict[str, Json]] = [
            orjson.loads(step.content["content"]) for step in steps if step.kind is StepKind.RESULT
        ]
        if not done:
            return Act((Call(ToolCall("cut", "cut", {}), _CUT),))
        first, last = done[0], done[-1]
        chunks = int(first.get("chunks", 0))
        if first.get("gone"):
            return succeed("the document is gone")
        if last.get("unavailable"):
            return succeed(f"{chunks} chunks, not embedded: {last['unavailable']}")
        after = int(last.get("after", 0))
        if after < chunks and not last.get("end"):
            arguments = {"version": first["version"], "after": after}
            call = ToolCall(f"embed-{after}", "embed", arguments)
            return Act((Call(call, _EMBED),))
        return succeed(f"{chunks} chunks embedded" if after >= chunks else "the document changed")
