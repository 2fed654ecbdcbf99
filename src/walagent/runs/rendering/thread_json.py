"""Render a thread as lines of JSON in data blocks: the default, for any provider."""

from collections.abc import Mapping, Sequence

import orjson

from walagent.domain.thread import ThreadEvent, ThreadView
from walagent.domain.untrusted import framed
from walagent.message import Json


def render_json(view: ThreadView, mark: str) -> str:
    """Render what the model is shown of a thread.

    Each event is one line, so no text of a user can look like another event; the marker ends the
    block, and users do not know it.
    """
    about: dict[str, Json] = {
        "title": view.title,
        "members": [{"name": one.name, "kind": one.kind, "role": one.role} for one in view.members],
    }
    if view.facts:
        about["facts"] = [
            {
                "id": fact.id,
                "subject": fact.subject,
                "predicate": fact.predicate,
                "object": fact.object,
                **({"disputed": True} if fact.disputed else {}),
            }
            for fact in view.facts
        ]
    if view.summary:
        about["summary_of_earlier_events"] = view.summary
    seen = view.seen or 0
    news = f"Events after number {seen} are new to you." if seen else "All events are new to you."
    return "\n\n".join([
        framed("thread", _line(about), mark),
        framed("events", "\n".join(_lines(view.shown)), mark),
        f"{news} Act as {_line(view.agent)}, a member of this thread.",
    ])  # fmt: skip


def render_meanwhile(view: ThreadView, upto: int, mark: str) -> str:
    """Render what others did in a thread after an event, while a turn goes on."""
    new = [each for each in view.shown if each.number > upto and each.author != view.agent]
    return "\n\n".join([
        framed("events", "\n".join(_lines(new)), mark),
        "This happened in the thread while you were at work. Go on, and take it into account.",
    ])  # fmt: skip


def render_for_summary(view: ThreadView, mark: str) -> str:
    """Render the events that a summary is to replace."""
    parts = [framed("summary", view.summary, mark)] if view.summary else []
    return "\n\n".join([
        *parts,
        framed("events", "\n".join(_lines(view.shown)), mark),
        "Write the summary that replaces all of this.",
    ])  # fmt: skip


def _lines(events: Sequence[ThreadEvent]) -> list[str]:
    return [_line(_event(event)) for event in events]


def _event(event: ThreadEvent) -> Mapping[str, Json]:
    head: dict[str, Json] = {"number": event.number, "id": event.id, "from": event.author}
    if event.type == "text":
        more = {key: event.data[key] for key in ("kind", "to", "about") if key in event.data}
        return {**head, **more, "text": event.data.get("text")}
    return {**head, "type": event.type, **event.data}


def _line(value: Json) -> str:
    return orjson.dumps(value, default=str).decode()
