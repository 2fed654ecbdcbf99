"""Values for tests of the pure parts: attachments, tools, steps, changes, as plain as can be."""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from walagent.domain.agent_spec import AgentSpec, Authority, Target
from walagent.domain.attachment import Attachment, Trigger
from walagent.domain.change import Change, Column, Op, Relation, Row
from walagent.domain.run import Claim, RunSpec, Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import reply_to_json, result_to_json
from walagent.message import Json, Reply, Stop, Text, ToolCall
from walagent.postgres.lsn import Lsn

AMOUNT: Mapping[str, Json] = {
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "additionalProperties": False,
}
TICKETS = Relation(
    16384,
    "public",
    "tickets",
    (Column("id", 20, "bigint", in_key=True), Column("status", 25, "text", in_key=False)),
)
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def tool(name: str = "refund", **changes: Json) -> Tool:
    """A SQL tool that takes an amount."""
    plain = Tool(
        name,
        "sql",
        f"{name}(numeric)",
        "",
        AMOUNT,
        Effect.TRANSACTIONAL,
        schema="public",
        function=name,
        arguments=(("amount", "numeric"),),
    )
    return replace(plain, **changes)


def attachment(*tools: Tool, **changes: Json) -> Attachment:
    """An agent on the table tickets; *changes* are fields of any of its parts."""
    plain = Attachment(
        id=1,
        version=1,
        name="tickets",
        target=Target(TICKETS.oid, TICKETS.schema, TICKETS.name, key_columns=("id",)),
        trigger=Trigger(ops=frozenset({Op.INSERT})),
        agent=AgentSpec("tickets", "fake", tools=tools),
        authority=Authority("app"),
    )
    return changed(plain, **changes)


def changed(attachment: Attachment, **changes: Json) -> Attachment:
    """Give an attachment with other fields, each in the part that has it."""
    for part in ("target", "trigger", "agent", "authority", "queueing"):
        value = getattr(attachment, part)
        own = {f.name for f in fields(value)} & changes.keys() - {"name"}
        if own:
            part_changes = {name: changes.pop(name) for name in own}
            attachment = replace(attachment, **{part: replace(value, **part_changes)})
    return replace(attachment, **changes)


def claim(*steps: Step, change: Mapping[str, Any] | None = None, **changes: Json) -> Claim:
    """A run in a worker's hands."""
    plain = Claim(
        run_id=7,
        attachment_id=1,
        attachment_version=1,
        lease=1,
        attempt=1,
        max_attempts=5,
        reason="change",
        change=change or {"op": "insert", "new": {"id": 1}},
        key="1",
        depth=0,
        commit_lsn="0/1",
        committed_at=WHEN,
        created_at=WHEN,
        started_at=WHEN,
        steps=steps,
    )
    return replace(plain, **changes)


def run_of(on: Attachment, held: Claim) -> RunSpec:
    """What a claim of an attachment's run is to execute."""
    return RunSpec(held, on.agent, on.authority, on.target, on.name)


def change(
    op: Op = Op.INSERT,
    new: Row | None = None,
    old: Row | None = None,
    relation: Relation = TICKETS,
) -> Change:
    """A change of one ticket."""
    return Change(Lsn(100), 0, op, relation, new, old)


class Steps(list[Step]):
    """What has happened in a run, written down as it happens."""

    def add(self, kind: StepKind, content: Mapping[str, Json], **spent: Json) -> "Steps":
        """Record the next step."""
        self.append(Step(len(self), kind, content, **spent))
        return self

    def reply(self, *said: str | ToolCall, stop: Stop | None = None, **spent: Json) -> "Steps":
        """The model says words and calls tools."""
        parts = tuple(Text(part) if isinstance(part, str) else part for part in said)
        calls = any(isinstance(part, ToolCall) for part in parts)
        ended = stop or (Stop.TOOL if calls else Stop.END)
        return self.add(StepKind.REPLY, reply_to_json(Reply(parts, ended)), **spent)

    def result(
        self,
        call: ToolCall,
        content: str = "ok",
        *,
        is_error: bool = False,
        correction: bool = False,
    ) -> "Steps":
        """A tool answers, or is refused."""
        answer = result_to_json(call, content, is_error=is_error)
        return self.add(StepKind.RESULT, answer | ({"correction": True} if correction else {}))

    def intent(self, call: ToolCall) -> "Steps":
        """A tool outside the database is about to be called."""
        return self.add(StepKind.INTENT, {"call_id": call.id, "name": call.name})

    def approval(self, call: ToolCall) -> "Steps":
        """A person is asked."""
        return self.add(StepKind.APPROVAL, {"call_id": call.id, "tool": call.name})

    def decision(self, call: ToolCall, decision: str, reason: str | None = None) -> "Steps":
        """The person decides, or the time runs out."""
        content = {"call_id": call.id, "decision": decision, "by": "ann", "reason": reason}
        return self.add(StepKind.DECISION, content)

    def note(self, **content: Json) -> "Steps":
        """Something is put in."""
        return self.add(StepKind.NOTE, content)

    def retried(self) -> "Steps":
        """A person lets the run go on."""
        return self.note(retry=True, by="ann")


def wants(name: str = "refund", call_id: str = "c1", **arguments: Json) -> ToolCall:
    """A call as the model makes it; a refund of 5 unless said otherwise."""
    return ToolCall(call_id, name, arguments or {"amount": 5})
