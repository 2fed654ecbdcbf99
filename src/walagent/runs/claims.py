"""Turn claims of runs into run specs."""

from collections.abc import Callable, Mapping
from typing import Any

from psycopg import AsyncConnection

from walagent.domain.attachment import Attachment
from walagent.domain.run import Claim, RunSpec
from walagent.store import attachments


class Definitions:
    """Versions of attachments that runs are pinned to; each is read once."""

    def __init__(
        self,
        label: Callable[[str, str], str],
        is_out: Callable[[str], bool] = lambda _label: False,
    ) -> None:
        self._label = label
        self._is_out = is_out
        self._known: dict[tuple[int, int], Attachment] = {}
        # The model of each queue, and the one that can be asked while that is out: the first of its
        # cascade, or its fall-back; in the newest version that was seen.
        self._models: dict[int, tuple[str, str]] = {}
        self._newest: dict[int, int] = {}

    @property
    def models(self) -> Mapping[int, str]:
        """The label of the model that each queue asks now, if its definition was read."""
        return {
            queue: other if other and self._is_out(model) else model
            for queue, (model, other) in self._models.items()
        }

    def is_uncapped(self, claim: Claim) -> bool:
        """Whether the claim's queue is known to have no cap."""
        found = self._known.get(_key(claim))
        return found is not None and found.queueing.cap is None

    def is_known(self, claim: Claim) -> bool:
        """Whether the claim's definition was read."""
        return _key(claim) in self._known

    async def load(self, conn: AsyncConnection[Any], claim: Claim) -> None:
        """Read the version that a claim is pinned to.

        Raises:
            WalagentError: the version does not exist.
        """
        self._known[_key(claim)] = await attachments.attachment_of(conn, claim)

    def spec(self, claim: Claim) -> RunSpec:
        """Return what a claim executes; its definition must have been read."""
        found = self._known[_key(claim)]
        if found.version >= self._newest.get(claim.queue_id, 0):
            self._newest[claim.queue_id] = found.version
            model, stages = found.agent.model, found.agent.stages
            other = stages[0].model if stages else found.agent.fallback
            self._models[claim.queue_id] = (
                self._label(model, claim.tenant),
                self._label(other, claim.tenant) if other else "",
            )
        return RunSpec(claim, found.agent, found.authority, found.target, found.name, _turns(found))


def _turns(found: Attachment) -> Mapping[str, Any] | None:
    if found.turns is None:
        return None
    return {**found.turns, "condition": found.trigger.condition}


def _key(claim: Claim) -> tuple[int, int]:
    return (claim.attachment_id, claim.attachment_version)
