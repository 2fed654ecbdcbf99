"""Compose the resources of a worker: the run kind `agent`, and deferred evaluation."""

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


def agent_resources(  # noqa: PLR0913 - a part of the composition root
    pool: Pool,
    toolbox: Toolbox,
    models: Models | Callable[[str], Model],
    secret: bytes,
    limits: SizeLimits = SIZE_LIMITS,
    *,
    tools_dsn: Callable[[], str] = lambda: "",
) -> Resources:
    """Compose the resources that a worker needs to execute runs of agents.

    Args:
        models: by name; `Models` also limits the concurrent runs of each model.
        secret: agent_internal.secret, which signs origin markers.
        limits: limits of the change that a run stores.
        tools_dsn: returns the connection string for code of others, if it is set.
    """

    async def evaluate(run: RunSpec) -> RunSpec | End:
        from walagent.intake.deferred import evaluate_deferred  # noqa: PLC0415 - rarely used

        return await evaluate_deferred(run, pool=pool, limits=limits, tools_dsn=tools_dsn)

    kinds = {"agent": agent_kind(pool, toolbox, secret, evaluate)}
    if isinstance(models, Models):
        return Resources(pool, models.get, kinds, models.tight, models.prepare)
    return Resources(pool, models, kinds)
