"""Decides for runs of agents: the loop over recorded steps, and the request to the model."""

from collections.abc import Sequence
from dataclasses import replace

from walagent.deciders.agent_prompt import build_request
from walagent.deciders.arguments import what_is_wrong
from walagent.deciders.cascade import cascade_move, steps_before
from walagent.deciders.loop import since_fresh
from walagent.deciders.stages import CONTROL
from walagent.domain.run import RunSpec, Step
from walagent.domain.untrusted import marker
from walagent.message import ModelSpec, Request
from walagent.moves import Move, Prompt

_CONTROL_TIMEOUT = 60.0  # seconds: the run has done its work, and holds its ordering key


class AgentDecider:
    """Implements `Decider`."""

    def __init__(self, secret: bytes) -> None:
        """Take the key that markers of data blocks are derived from."""
        self._secret = secret

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Decide from the recorded steps."""
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
