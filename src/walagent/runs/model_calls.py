"""Calls of models by one run: paced, reserved, and repeated while a person waits."""

import asyncio
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from decimal import Decimal
from itertools import count

from walagent.base.retries import DATABASE, seconds
from walagent.deciders.fall_back import fall_back, standard_tier
from walagent.deciders.stages import CONTROL, no_control, pass_on
from walagent.domain.run import RunSpec
from walagent.errors import (
    ConfigError,
    ModelError,
    ModelLimitedError,
    ModelMissingError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Message, ModelSpec, Reply, Request, Text, Usage
from walagent.models.cost import FLEX, cost_of
from walagent.models.model import Model
from walagent.models.usage import usage_of
from walagent.moves import Note, Prompt, ToolReply, ToolRequest
from walagent.runs.error_policy import why_fall_back, why_no_control, why_pass_on, why_standard
from walagent.runs.live_replies import LiveReply
from walagent.runs.metering import agent_of, count_usage, counting
from walagent.runs.reservation import Reservations
from walagent.runs.resources import Resources
from walagent.store import runs
from walagent.telemetry.log import log

_FLEX_TIMEOUT = 900.0  # seconds of a call, as providers recommend
_TRIES = 3  # of one call that a person waits for


class ModelCalls:
    """The calls of one run."""

    def __init__(
        self,
        resources: Resources,
        run: RunSpec,
        reservations: Reservations,
        patience: float,
    ) -> None:
        """Call nothing yet.

        Args:
            patience: seconds in which a call is repeated; 0: the run is released instead.
        """
        self._resources = resources
        self.run = run
        self._reservations = reservations
        self._patience = patience
        self._attended = patience > 0

    def instead(self, prompt: Prompt) -> list[Model]:
        """Return the model that may be asked instead of the first; none if it cannot be."""
        if prompt.fallback:
            with suppress(ConfigError, ModelMissingError, ModelUnauthorizedError):
                return [self._resources.model_of(prompt.fallback, self.run.claim.tenant)]
        return []

    def note_of(self, error: WalagentError, prompt: Prompt) -> Note | None:
        """Return the note that another tier or model is asked from now on; None: none is."""
        claim, attended = self.run.claim, self._attended
        model = prompt.model or self.run.agent.model
        if prompt.by == CONTROL:
            return no_control(why) if (why := why_no_control(error)) else None
        if prompt.next_model and (why := why_pass_on(error, claim, attended=attended)):
            log.warning("model.fell_back", model=model, to=prompt.next_model, reason=why)
            return pass_on(model, prompt.next_model, why)
        if prompt.tier == FLEX and (why := why_standard(error, claim, attended=attended)):
            log.warning("model.fell_back", model=f"{model} ({prompt.tier})", to=model, reason=why)
            return standard_tier(prompt.tier, why)
        why = why_fall_back(error, claim, attended=attended)
        if why is None or not self.instead(prompt):
            return None
        log.warning("model.fell_back", model=model, to=prompt.fallback, reason=why)
        return fall_back(model, prompt.fallback, why)

    async def ask_for_tool(self, asked: ToolRequest) -> ToolReply:
        """Ask the model of a tool, reserved and paced as the run's own calls."""
        name = asked.model or self.run.agent.model
        model = self._resources.model_of(name, self.run.claim.tenant)
        await self.pace()
        request = Request(
            system=asked.system,
            messages=(Message("user", (Text(asked.text),)),),
            max_tokens=asked.max_tokens,
            timeout=asked.timeout,
            continues=False,
            run_id=self.run.run_id,
        )
        reserved = await self._reservations.reserve(asked.number, [model.spec], request)
        started = time.monotonic()
        reply = await self.answer(
            model, reserved.request, asked.number if reserved.counted else None
        )
        cost = cost_of(reply.usage, model.spec, reply.tier)
        count_usage(agent_of(self.run), model.spec.name, reply.usage, cost)
        took = int((time.monotonic() - started) * 1000)
        return ToolReply(
            reply.text, model.spec.name, reply.usage, as_float(cost), took, reserved.counted
        )

    async def pace(self) -> None:
        """Count a call of a model in the limits of agent and persona, of all processes together.

        Raises:
            ModelLimitedError: one of them is reached; the run waits, and no attempt counts.
        """
        if not (rates := self.run.agent.rates):
            return
        async with self._resources.pool.connection() as conn:
            wait = await runs.take_request(conn, self.run.claim, rates)
        if wait is not None:
            named = " and ".join(f'"{name}"' for name in rates)
            raise ModelLimitedError(
                f"requests_per_minute of {named} reached", retry_after=wait, sent=False
            )

    async def answer(
        self,
        model: Model,
        request: Request,
        call: int | None,
        live: LiveReply | None = None,
        *,
        alone: bool = False,
    ) -> Reply:
        """Ask; if a person waits and the provider is busy or unreachable, repeat.

        The usage of replies that could not be used is part of that of the last one, or is settled.

        Args:
            alone: not with rows of other runs.
        """
        request = replace(request, tenant=self.run.claim.tenant)
        if live is not None:
            request = replace(request, on_text=live.write)
        groups = self._resources.row_groups if self._resources.shares and not alone else None
        together = groups and groups.of(self.run, model, request)  # counts its own calls
        deadline = time.monotonic() + self._patience
        lost = Usage()
        for attempt in count(1):
            try:
                with nullcontext() if together else counting(model.spec.name):
                    reply = await (together or model).complete(request)
            except ModelError as error:
                lost += usage_of(error)
                wait = _wait_of(error, attempt)
                if wait is None or time.monotonic() + wait > deadline:
                    await self._charge(model.spec, call, lost)
                    raise
                if live is not None:
                    live.begin_again()
                await asyncio.sleep(wait)
            else:
                if live is not None:
                    live.calls = bool(reply.calls)
                return replace(reply, usage=reply.usage + lost) if lost.total else reply
        raise AssertionError("count() has no end")

    async def _charge(self, model: ModelSpec, call: int | None, lost: Usage) -> None:
        """Count replies that came and could not be used."""
        if lost.total:
            cost = cost_of(lost, model)
            count_usage(agent_of(self.run), model.name, lost, cost)
            await self._reservations.settle_unusable(call, lost, cost)


def _wait_of(error: ModelError, attempt: int) -> float | None:
    """Return the seconds after which a call is repeated; None: it is not."""
    if not isinstance(error, ModelLimitedError | ModelUnavailableError) or attempt >= _TRIES:
        return None
    # Nobody waits for a provider that does not answer: the breaker says so at once.
    if isinstance(error, ModelUnavailableError) and error.breaker:
        return None
    return error.retry_after or seconds(DATABASE, attempt)


def as_float(cost: Decimal | None) -> float | None:
    """Return a cost as steps have it."""
    return None if cost is None else float(cost)


def in_tier(request: Request, prompt: Prompt, model: ModelSpec) -> Request:
    """Ask for the tier flex, which takes longer, if a prompt says so and the model has it."""
    if prompt.tier != FLEX or model.flex_factor is None:
        return request
    return replace(request, tier=prompt.tier, timeout=max(request.timeout, _FLEX_TIMEOUT))
