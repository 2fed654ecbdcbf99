"""What all runs of a worker share: connections, models, budgets, and the kinds of runs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from walagent.models.model import Model
from walagent.moves import Kind
from walagent.runs.budgets import Budgets
from walagent.runs.interrupts import Interrupts
from walagent.runs.live_replies import LiveReplies
from walagent.runs.recorder import Recorder
from walagent.runs.row_groups import RowGroups
from walagent.store.sessions.connections import Pool


async def _nothing_to_prepare(_model: str, _tenant: str) -> None:
    pass


def _its_name(model: str, _tenant: str) -> str:
    return model


@dataclass(frozen=True)
class Resources:
    """What all runs of a worker share.

    Args:
        kinds: by name; a worker claims runs of these kinds alone.
        model_of: the model of a name for a tenant.
        limits: for a number of slots, how many runs of a model a worker can hold, if fewer, by its
            label.
        prepare: makes the first `model_of` of a model fast.
        label: the label of the model of a name for a tenant.
        is_out: whether runs need not wait for the model of a label, if they have a fall-back.
        shares: whether runs share replies; not where others cannot see what they record.
        replies: those that are being written now.
        interrupts: hints that people interrupt turns.
        row_groups: calls that wait for others to be made with them.
    """

    pool: Pool
    model_of: Callable[[str, str], Model]
    kinds: Mapping[str, Kind]
    limits: Callable[[int], Mapping[str, int]] = lambda _slots: {}
    prepare: Callable[[str, str], Awaitable[None]] = _nothing_to_prepare
    label: Callable[[str, str], str] = _its_name
    is_out: Callable[[str], bool] = lambda _label: False
    shares: bool = False
    budgets: Budgets = field(default_factory=Budgets)
    replies: LiveReplies = field(default_factory=LiveReplies)
    interrupts: Interrupts = field(default_factory=Interrupts)
    row_groups: RowGroups = field(default_factory=RowGroups)

    @cached_property
    def recorder(self) -> Recorder:
        """Records for all runs together."""
        return Recorder(self.pool)
