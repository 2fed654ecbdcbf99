"""What a delivery does next: a pure function of its recorded steps.

An attempt is an intent and its result.  An error after an intent says that nothing was delivered,
or that the message can be sent again; without either, the outcome is unknown.
"""

from collections.abc import Sequence
from typing import Final

from walagent.domain.run import RunSpec, Step, StepKind
from walagent.message import ToolCall
from walagent.moves import Act, AsksNoModel, Call, Effect, Move, Tool, Wait, fail, succeed

_NAME: Final = "deliver"
_EFFECTS: Final = {
    "webhook": Effect.IDEMPOTENT,  # receivers recognize the ID of the delivery
    "slack": Effect.IDEMPOTENT,  # a second message does no harm
    "email": Effect.UNSAFE,
}


def delivery_tool(kind: str) -> Tool:
    """Return the tool that delivers by a kind of channel."""
    return Tool(_NAME, "builtin", kind, "", {"type": "object"}, _EFFECTS[kind])


class DeliveryDecider(AsksNoModel):
    """Implements `Decider`."""

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Send, send again, let a person review, or end."""
        tool = run.agent.tools[0]
        last = steps[-1] if steps else None
        match last.kind if last else None:
            case StepKind.RESULT if last and not last.content["is_error"]:
                return succeed(str(last.content["content"]))
            case StepKind.RESULT if last and "reviewed_by" not in last.content:
                return fail(str(last.content["content"]))
            case StepKind.INTENT if tool.effect is Effect.UNSAFE:
                return Wait("review", _call(steps), tool)
            case kind:
                return Act((Call(_call(steps), tool, again=kind is StepKind.INTENT),))


def _call(steps: Sequence[Step]) -> ToolCall:
    """Return the call without a result: a person can ask for another one after a result."""
    ended = sum(step.kind is StepKind.RESULT for step in steps)
    return ToolCall(f"delivery_{ended + 1}" if ended else "delivery", _NAME, {})
