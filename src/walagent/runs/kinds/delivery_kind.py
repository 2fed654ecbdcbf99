"""Deliver a message: record the intent, send, record the result."""

from collections.abc import Mapping
from typing import Any

from walagent.deciders.delivery import DeliveryDecider, delivery_tool
from walagent.domain.agent_spec import AgentSpec, Authority, RunLimits
from walagent.domain.run import Claim, RunSpec, Step, StepKind
from walagent.domain.transcript import result_to_json
from walagent.errors import DeliveryDelayedError, DeliveryRefusedError, OutcomeUnknownError
from walagent.message import Json
from walagent.moves import Call, Effect, Kind, RunLog
from walagent.outbox.intents import announce
from walagent.outbox.sender import Sender
from walagent.runs.awake_timeout import awake_for
from walagent.store import outbox
from walagent.store.outbox import Delivery
from walagent.store.sessions.tool_connections import ToolConnections
from walagent.store.trampolines import through_trampolines

_TIMEOUT = 60.0  # seconds of one attempt to send
_MOST_TEXT = 2000  # characters of an answer that are kept


def delivery_kind(
    calls: ToolConnections, senders: Mapping[str, Sender], public_url: str | None = None
) -> Kind:
    """Create the kind `delivery`.

    Args:
        calls: connections of the worker, and those for conditions of policies.
        senders: by kind of channel.
        public_url: where the pages of links are served; None: messages have no links.
    """
    pool = calls.worker

    async def specify(claim: Claim) -> RunSpec:
        async with pool.connection() as conn:
            channel, kind = await outbox.channel_of(conn, claim.run_id)
        limits = RunLimits(max_seconds=2 * _TIMEOUT)
        agent = AgentSpec("", "", tools=(delivery_tool(kind),), limits=limits)
        return RunSpec(claim, agent, Authority(""), source=channel)

    return Kind(DeliveryDecider(), _Courier(calls, senders, public_url), specify)


class _Courier:
    """Implements `Actor`."""

    def __init__(
        self, calls: ToolConnections, senders: Mapping[str, Sender], public_url: str | None
    ) -> None:
        self._calls = calls
        self._pool = calls.worker
        self._senders = senders
        self._public_url = public_url

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Send the message.

        Raises:
            DeliveryDelayedError: the run is retried.
        """
        tool = call.tool
        key = await announce(self._pool, run.claim, log.seq, call.call, again=call.again)
        if not call.again:
            content: dict[str, Json] = {"call_id": call.call.id, "name": tool.name}
            log.append(Step(log.seq, StepKind.INTENT, {**content, "idempotency_key": key}))
        try:
            async with awake_for(_TIMEOUT):
                text, failed = await self._send(run, tool.target), False
        except DeliveryRefusedError as error:
            text, failed = str(error), True
        except DeliveryDelayedError as error:
            await log.record(StepKind.ERROR, {"call_id": call.call.id, "reason": str(error)})
            raise
        except (OutcomeUnknownError, TimeoutError) as error:
            reason = str(error) or f"no answer within {_TIMEOUT:g} s"
            if tool.effect is Effect.UNSAFE:
                return
            await log.record(StepKind.ERROR, {"call_id": call.call.id, "reason": reason})
            raise DeliveryDelayedError(reason) from error
        result = result_to_json(call.call, text[:_MOST_TEXT], is_error=failed)
        await log.record(StepKind.RESULT, result)

    async def _send(self, run: RunSpec, kind: str) -> str:
        async with self._pool.connection() as conn:
            delivery = await outbox.load_delivery(conn, run.run_id)
        if delivery.kind == "webhook":
            _check(await self._verdict(delivery, run.run_id))
        if (sender := self._senders.get(kind)) is None:
            raise DeliveryRefusedError(f"this worker sends no messages of kind {kind} (outbox)")
        base, token = self._public_url, delivery.token
        link = f"{base.rstrip('/')}/approvals/{token}" if base and token else None
        return await sender.send(delivery, link)

    async def _verdict(self, delivery: Delivery, run: int) -> Mapping[str, Any]:
        """Ask the rules and policies of the tenant, whose conditions are code of others."""

        async def check() -> Mapping[str, Any]:
            async with self._calls.connection() as conn:
                return await outbox.check_egress(conn, delivery, run)

        return await through_trampolines(check, self._pool.connection, policies=True)


def _check(verdict: Mapping[str, Any]) -> None:
    """Let the egress rules and policies of the tenant decide.

    Raises:
        DeliveryDelayedError: there is no room in the limit of the rule now.
        DeliveryRefusedError: the target is not allowed, or only with an approval, which a message
            that was sent already cannot have.
    """
    reason = str(verdict.get("reason", ""))
    match verdict["action"]:
        case "allow":
            return
        case "wait":
            raise DeliveryDelayedError(reason, retry_after=float(verdict["seconds"]))
        case "require":
            raise DeliveryRefusedError(f"the target requires an approval: {reason}")
        case _:
            raise DeliveryRefusedError(reason)
