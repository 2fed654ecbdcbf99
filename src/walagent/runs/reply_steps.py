"""What is recorded of a reply: the content of its step."""

from walagent.deciders.several_rows import is_left_out
from walagent.domain.run import RunSpec, StepKind
from walagent.domain.transcript import ALONE, reply_to_json, request_to_json, without_thinking
from walagent.message import Json, ModelSpec, Reply, Request
from walagent.moves import Prompt


def kind_of(reply: Reply) -> StepKind:
    """Return the kind of its step: a note, if the run has to ask again, and has paid for it."""
    return StepKind.NOTE if is_left_out(reply) else StepKind.REPLY


def content_of(
    run: RunSpec, prompt: Prompt, request: Request, reply: Reply, model: ModelSpec
) -> dict[str, Json]:
    """Return the content of its step."""
    if is_left_out(reply):
        said = {ALONE: True, "rows": reply.rows, "why": reply.why}
        return {**said, "registered": model.name, "model": reply.model}
    if not run.agent.thinking_visible:
        reply = without_thinking(reply)
    content = {**reply_to_json(reply), "registered": model.name, "by": prompt.by, **prompt.about}
    if prompt.keep:
        content["request"] = request_to_json(request)
    return content
