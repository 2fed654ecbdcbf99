"""Decides for runs of agents: the loop over recorded steps, and the request to the model."""

from collections.abc import Sequence
from dataclasses import replace

from walagent.deciders.agent_prompt import build_request
from walagent.deciders.arguments import what_is_wrong
from walagent.deciders.cascade import cascade_move, steps_before
from walagent.deciders.loop import since_fresh, since_retry
from walagent.deciders.stages import CONTROL
from walagent.domain.run import RunSpec, RunState, Step, StepKind
from walagent.domain.untrusted import marker
from walagent.message import ModelSpec, Request
from walagent.moves import End, Move, Prompt

_CONTROL_TIMEOUT = 60.0  # seconds: the run has done its work, and holds its ordering key


class AgentDecider:
    """Implements `Decider`."""

    def __init__(self, secret: bytes) -> None:
        """Take the key that markers of data blocks are derived from."""
        self._secret = secret

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Decide from the recorded steps."""
        if run.target is not None and run.target.embedded and (end := _refused(steps)) is not None:
            return end
        return cascade_move(run, steps, what_is_wrong)

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Build the next request; it grows only at its end."""
        if prompt.by == CONTROL:
            run = replace(run, agent=replace(run.agent, stages=()))
            steps = steps_before(since_fresh(steps))
            most = min(_CONTROL_TIMEOUT, run.agent.limits.max_seconds / 4)
            model = replace(model, timeout=min(model.timeout, most))
        return build_request(run, steps, mark=marker(self._secret, run.run_id), model=model)


def _refused(steps: Sequence[Step]) -> End | None:
    """End a run whose embedding was not stored: asked again, its model answers the same."""
    last = next(reversed(since_retry(since_fresh(steps))), None)
    if last is None or last.kind != StepKind.RESULT or not last.content["is_error"]:
        return None
    content = last.content
    return End(RunState.FAILED, reason=content["content"], sqlstate=content.get("sqlstate"))
