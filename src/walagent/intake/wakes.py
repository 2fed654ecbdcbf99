"""From events of threads to the agents that they may wake: the members of their threads.

The cost of an event is that of the members of its thread, however many threads and agents there
are.  Who is woken in the end is asked again when the turn starts.
"""

from collections.abc import Iterator, Mapping, Sequence

from walagent.domain.attachment import Attachment
from walagent.domain.change import Change
from walagent.domain.tenant import Actor
from walagent.intake.conditions import Evaluator
from walagent.matching.match import Candidates, Posted, wakes_unasked
from walagent.store import turns
from walagent.store.turns import EventPlace, Listeners


async def candidates_of(evaluator: Evaluator, posted: Sequence[Posted]) -> list[list[Candidates]]:
    """Return for each of *posted* the attachments that its events concern."""
    changes = [change for each in posted for change in each.changes]
    found = await _listeners(evaluator, changes)
    numbers = iter(range(len(changes)))
    return [
        list(_candidates(each, [(change, found.get(next(numbers))) for change in each.changes]))
        for each in posted
    ]


async def _listeners(evaluator: Evaluator, changes: Sequence[Change]) -> Mapping[int, Listeners]:
    """Look up the members, after the events have become visible.

    An event that does not become visible is gone, with its thread.
    """
    places = {n: _place(change) for n, change in enumerate(changes)}
    found = dict(await turns.listeners(evaluator.conn, places))
    hidden = {n: place for n, place in places.items() if n not in found}
    if hidden:
        for xid in {changes[n].xid for n in hidden}:
            await evaluator.has_become_visible(xid)
        found |= await turns.listeners(evaluator.conn, hidden)
    return found


def _place(change: Change) -> EventPlace:
    new = change.new or {}
    return str(new["tenant"]), str(new["thread_id"]), int(str(new["number"]))


def _candidates(
    posted: Posted, events: Sequence[tuple[Change, Listeners | None]]
) -> Iterator[Candidates]:
    """Group the events by the attachment that they concern, and the version that is executed."""
    by_agent: dict[tuple[Actor, int | None], list[Change]] = {}
    for change, listeners in events:
        tenant = str((change.new or {}).get("tenant"))
        for name in listeners.agents if listeners else ():
            agent = Actor(tenant, name)
            attachment = posted.attachments.get(agent)
            if attachment is not None and listeners and _may_wake(attachment, change, listeners):
                pinned = _pinned(attachment, listeners)
                by_agent.setdefault((agent, pinned), []).append(change)
    for (agent, pinned), changes in by_agent.items():
        yield Candidates(posted.attachments[agent], changes, posted.origin, pinned=pinned)


def _pinned(attachment: Attachment, listeners: Listeners) -> int | None:
    """Return the version with which the agent took its first turn in the thread."""
    at, version = listeners.pinned.get(attachment.agent.name, (None, None))
    return version if at == attachment.id else None


def _may_wake(attachment: Attachment, change: Change, listeners: Listeners) -> bool:
    if attachment.trigger.condition is not None:
        return True
    return wakes_unasked(change, by_agent=listeners.by_agent)
