"""Decides for runs of agents: the loop over recorded steps, and the request to the model."""

from collections.abc import Sequence

from walagent.deciders.agent_prompt import build_request
from walagent.deciders.arguments import what_is_wrong
from walagent.deciders.loop import next_move
from walagent.domain.run import RunSpec, Step
from walagent.domain.untrusted import marker
from walagent.message import ModelSpec, Request
from walagent.moves import Move, Prompt


class AgentDecider:
    """Implements `Decider`."""

    def __init__(self, secret: bytes) -> None:
        """Take the key that markers of data blocks are derived from."""
        self._secret = secret

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Decide from the recorded steps."""
        return next_move(steps, run.agent, what_is_wrong)

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Build the next request; it grows only at its end."""
        del prompt  # there is one
        return build_request(run, steps, mark=marker(self._secret, run.run_id), model=model)
