"""The kinds of runs that a worker executes, by name.

Each entry creates one kind from what kinds share.  A worker claims runs of these kinds alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walagent.domain.run import RunSpec
from walagent.matching.document import SizeLimits
from walagent.moves import End, Kind
from walagent.runs.interrupts import Interrupts
from walagent.runs.kinds.agent_kind import agent_kind
from walagent.runs.kinds.delivery_kind import delivery_kind
from walagent.runs.kinds.embedding_kind import embedding_kind
from walagent.runs.kinds.revert_kind import revert_kind
from walagent.runs.kinds.turn_kind import turn_kind
from walagent.runs.kinds.workflow_kind import workflow_kind
from walagent.runs.tools.toolbox import Toolbox
from walagent.store.sessions.connections import Pool
from walagent.workers.outgoing import Outgoing


@dataclass(frozen=True, slots=True)
class Parts:
    """What kinds are made of.

    Args:
        secret: agent_internal.secret, which signs origin markers and derives markers of data.
        limits: limits of the change that a run stores.
        tools_dsn: returns the connection string for code of others, if it is set.
        outgoing: what deliveries need.
        interrupts: hints that people interrupt turns.
    """

    pool: Pool
    toolbox: Toolbox
    secret: bytes
    limits: SizeLimits
    tools_dsn: Callable[[], str]
    outgoing: Outgoing
    interrupts: Interrupts


def _agent(parts: Parts) -> Kind:
    async def evaluate(run: RunSpec) -> RunSpec | End:
        from walagent.intake.deferred import evaluate_deferred  # noqa: PLC0415 - rarely used

        return await evaluate_deferred(
            run, pool=parts.pool, limits=parts.limits, tools_dsn=parts.tools_dsn
        )

    return agent_kind(parts.pool, parts.toolbox, parts.secret, evaluate)


def _embedding(parts: Parts) -> Kind:
    return embedding_kind(parts.pool, parts.toolbox.services.embedder)


def _delivery(parts: Parts) -> Kind:
    return delivery_kind(parts.toolbox.calls, parts.outgoing.senders, parts.outgoing.public_url)


_KINDS: Mapping[str, Callable[[Parts], Kind]] = {
    "agent": _agent,
    "turn": lambda parts: turn_kind(parts.pool, parts.toolbox, parts.secret, parts.interrupts),
    "node": lambda parts: workflow_kind(parts.pool, parts.toolbox, parts.secret),
    "embedding": _embedding,
    "delivery": _delivery,
    "revert": lambda parts: revert_kind(parts.toolbox.calls),
}


def kinds_of(parts: Parts) -> dict[str, Kind]:
    """Create all kinds that a worker executes."""
    return {name: make(parts) for name, make in _KINDS.items()}
