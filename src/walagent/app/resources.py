"""Compose what a worker shares: the kind `agent`, and what intake left to be evaluated."""

from collections.abc import Callable

from walagent.agent.model import Model
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.moves import End
from walagent.run import RunSpec
from walagent.runs.agent_kind import agent_kind
from walagent.runs.models import Models
from walagent.runs.resources import Resources
from walagent.runs.toolbox import Toolbox
from walagent.store.connections import Pool


def agent_resources(
    pool: Pool,
    toolbox: Toolbox,
    models: Models | Callable[[str], Model],
    secret: bytes,
    limits: SizeLimits = SIZE_LIMITS,
) -> Resources:
    """Give a worker what it needs to execute runs of agents.

    Args:
        models: by name; `Models` limits how many runs each of them may have, too.
        secret: agent_internal.secret.
        limits: how much of a change a run keeps.
    """

    async def evaluate(run: RunSpec) -> RunSpec | End:
        from walagent.intake.deferred import evaluate_deferred  # noqa: PLC0415 - few are deferred

        return await evaluate_deferred(run, pool=pool, limits=limits)

    kinds = {"agent": agent_kind(pool, toolbox, secret, evaluate)}
    if isinstance(models, Models):
        return Resources(pool, models.get, kinds, models.tight, models.prepare)
    return Resources(pool, models, kinds)
