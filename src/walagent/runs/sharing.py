"""Share the reply to the first call of a run with equal calls of other runs.

Equal is what the model is sent: model, parameters, system prompt, tools, examples, choice and
messages, without the marker of the run.  The key of the row is not sent at all.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import orjson

from walagent.deciders.agent_prompt import build_request
from walagent.domain.run import RunSpec, StepKind
from walagent.message import Json, ModelSpec, Request, Usage
from walagent.moves import Prompt
from walagent.runs.resources import Resources
from walagent.runs.step_log import StepLog
from walagent.store.calls import shared_calls
from walagent.store.calls.shared_calls import Shared
from walagent.store.runs import NewStep

_NO_MARK = "\0"  # in no row: JSON escapes it


class Sharing:
    """The first call of one run."""

    def __init__(self, resources: Resources, log: StepLog) -> None:
        """Share nothing yet."""
        self._resources = resources
        self._log = log
        self._begun: int | None = None  # the run, if others can wait for its reply

    async def find(self, run: RunSpec, prompt: Prompt, model: ModelSpec) -> Shared | None:
        """Find the reply to an equal call of another run; None: ask the model.

        If another run is asking it now, this run is released.
        """
        agent = run.agent
        if not (agent.reuse and self._resources.shares and run.claim.kind == "agent"):
            return None
        if self._log.steps or prompt.model:
            return None
        request = build_request(run, (), mark=_NO_MARK, model=model)
        if is_random(model, request):  # since the agent was attached
            return None
        digest = digest_of(model, request, prompt.tier)
        async with self._resources.pool.connection() as conn:
            shared = await shared_calls.share_call(conn, run.claim, digest)
        if shared is None:
            self._begun = run.run_id
        return shared

    def step_of(self, shared: Shared) -> NewStep:
        """Return the step of a run that has the reply of another one: it cost nothing."""
        content = dict(shared.content or {})
        parts = [part for part in content["parts"] if "thinking" not in part]
        content |= {"parts": parts, "reused": {"run": shared.run}}
        return NewStep(self._log.seq, StepKind.REPLY, content, Usage(), 0.0, 0)

    async def end(self) -> None:
        """Let the runs go on that wait: the reply is recorded, or this run has none."""
        if self._begun is None:
            return
        run, self._begun = self._begun, None
        async with self._resources.pool.connection() as conn:
            await shared_calls.wake_waiting(conn, run)


def digest_of(model: ModelSpec, request: Request, tier: str) -> bytes:
    """Return what equal calls have in common.

    Args:
        request: without the marker of its run.
    """
    asked = (model.label, model.provider, model.model_id, model.base_url, model.tool_mode)
    given = (model.parameters, request.parameters, request.max_tokens, request.choice, tier)
    said = (request.system, request.messages, request.tools, request.examples)
    document = orjson.dumps((asked, given, said), default=_plain, option=orjson.OPT_SORT_KEYS)
    return sha256(document).digest()


def is_random(model: ModelSpec, request: Request) -> bool:
    """Whether the temperature of a call is above 0."""
    heat: Json = {**model.parameters, **request.parameters}.get("temperature")
    return isinstance(heat, int | float) and heat > 0


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(value)
