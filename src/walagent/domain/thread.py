"""A thread as an agent is shown it: members, events, facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from walagent.message import Json


@dataclass(frozen=True, slots=True)
class Participant:
    """A member of a thread."""

    name: str
    id: str
    kind: str  # user, agent or service
    role: str
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class ThreadEvent:
    """An event, and its author, who may have left since."""

    number: int
    id: str
    type: str  # system, text, tool_use or tool_result
    author: str
    author_id: str
    author_kind: str
    data: Mapping[str, Json]
    run_id: int | None = None
    created_at: str = ""
    fits: bool = True  # in what a model is shown

    @property
    def is_by_agent(self) -> bool:
        """Whether an agent is its author."""
        return self.author_kind == "agent"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something learnt about a member."""

    id: str
    subject: str
    predicate: str
    object: str
    category: str
    confidence: float = 1.0
    disputed: bool = False


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread as of an event, for one agent.

    Args:
        seen: the number of the latest event that a turn of the agent has taken up; None: the agent
            is not a member.
        events: the latest ones that fit, after those that the summary covers; those that the agent
            has not seen and instructions in any case.
        longest: bytes of a value of an event that a model is shown; None: all.
    """

    id: str
    title: str
    state: str
    agent: str
    seen: int | None
    last: int
    summary: str = ""
    summary_upto: int = 0
    members: Sequence[Participant] = ()
    events: Sequence[ThreadEvent] = ()
    facts: Sequence[Fact] = ()
    longest: int | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], longest: int | None = None) -> Self | None:
        """Build from the result of agent_internal.look_turn(); None: there is no such thread."""
        thread: Mapping[str, Any] = raw.get("thread") or {}
        if thread.get("id") is None:
            return None
        return cls(
            id=thread["id"],
            title=thread["title"],
            state=thread["state"],
            agent=raw["agent"],
            seen=raw["seen"],
            last=thread["last_number"],
            summary=thread["summary"] or "",
            summary_upto=thread["summary_upto"],
            members=tuple(Participant(**member) for member in raw["members"] or ()),
            events=tuple(ThreadEvent(**event) for event in raw["events"] or ()),
            facts=tuple(Fact(**fact) for fact in raw["facts"] or ()),
            longest=longest,
        )

    @property
    def new(self) -> Sequence[ThreadEvent]:
        """The events that no turn of the agent has taken up."""
        return [event for event in self.events if event.number > (self.seen or 0)]

    @property
    def latest(self) -> Sequence[ThreadEvent]:
        """The events that a prompt has room for, with values that are too long for it cut."""
        fitting = [event for event in self.events if event.fits]
        if (longest := self.longest) is None:
            return fitting
        return [
            replace(event, data={key: _cut(each, longest) for key, each in event.data.items()})
            for event in fitting
        ]

    @property
    def instructions(self) -> Sequence[str]:
        """The instructions of owners of the thread, since the latest one that overrides.

        In the order of the events.
        """
        found = list[str]()
        for event in self.events:
            if event.type == "system" and event.data.get("action") == "injected":
                if event.data["kind"] == "override":
                    found.clear()
                if event.data["kind"] != "context":
                    found.append(str(event.data["text"]))
        return found

    @property
    def shown(self) -> Sequence[ThreadEvent]:
        """The events for a model: corrected texts, without instructions and calls of nothing."""
        corrected = {
            str(event.data["target"]): event.data["text"]
            for event in self.events
            if event.type == "system" and event.data.get("action") == "overridden"
        }
        return [
            _corrected(event, corrected[event.id]) if event.id in corrected else event
            for event in self.latest
            if not _is_hidden(event)
        ]


def _is_hidden(event: ThreadEvent) -> bool:
    match event.type:
        case "system":
            action = event.data.get("action")
            return action == "overridden" or (
                action == "injected" and event.data.get("kind") != "context"
            )
        case "tool_use":
            return event.data.get("name") == "do_nothing"
        case _:
            return False


def _corrected(event: ThreadEvent, text: Json) -> ThreadEvent:
    return replace(event, data={**event.data, "text": text})


def _cut(value: Json, longest: int) -> Json:
    match value:
        case str() if len(raw := value.encode()) > longest:
            return f"{raw[:longest].decode(errors='ignore')} [cut, {len(value)} characters]"
        case dict():
            parts = cast("dict[str, Json]", value)
            return {key: _cut(each, longest) for key, each in parts.items()}
        case list():
            return [_cut(each, longest) for each in cast("list[Json]", value)]
        case _:
            return value
