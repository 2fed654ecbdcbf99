"""Compose the resources of a worker: models, and the kinds of runs that it executes."""

from collections.abc import Callable

from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.models.model import Model
from walagent.runs.interrupts import Interrupts
from walagent.runs.resources import Resources
from walagent.runs.tools.toolbox import Toolbox
from walagent.runs.worker_models import Models
from walagent.store.sessions.connections import Pool
from walagent.workers.kinds import Parts, kinds_of
from walagent.workers.outgoing import NOTHING_GOES_OUT, Outgoing


def agent_resources(  # noqa: PLR0913 - a part of the composition root
    pool: Pool,
    toolbox: Toolbox,
    models: Models | Callable[[str], Model],
    secret: bytes,
    limits: SizeLimits = SIZE_LIMITS,
    *,
    tools_dsn: Callable[[], str] = lambda: "",
    outgoing: Outgoing = NOTHING_GOES_OUT,
) -> Resources:
    """Compose the resources that a worker needs to execute runs.

    Args:
        models: by name; `Models` also limits the concurrent runs of each model, and is what the
            daemon has, whose runs share replies.
        secret: agent_internal.secret, which signs origin markers.
        limits: limits of the change that a run stores.
        tools_dsn: returns the connection string for code of others, if it is set.
        outgoing: what deliveries need.
    """
    interrupts = Interrupts()
    kinds = kinds_of(Parts(pool, toolbox, secret, limits, tools_dsn, outgoing, interrupts))
    if isinstance(models, Models):
        of_models = (models.tight, models.prepare, models.label, models.is_out)
        return Resources(pool, models.get, kinds, *of_models, shares=True, interrupts=interrupts)
    return Resources(pool, lambda name, _tenant: models(name), kinds, interrupts=interrupts)
