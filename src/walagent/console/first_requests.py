"""The first request of a run, built as the worker built it, for people who look at the run."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.deciders.agent_prompt import build_request
from walagent.deciders.turn import TurnDecider
from walagent.domain.run import Claim, RunSpec, Step, StepKind
from walagent.http.exchange import RefusedError
from walagent.message import Json, ModelSpec, Request, Text
from walagent.moves import Prompt
from walagent.store.attachments import attachment_version

# The marker of a run must stay unknown to those who write rows, so it is not shown.
_MARK: Final = "…"
_RUN: Final = """
select r.id, r.kind, r.attachment_id, r.attachment_version, r.change, r.key, r.depth, r.created_at,
       (select coalesce(jsonb_agg(m.change order by m.commit_lsn, m.ordinal), '[]')
          from agent_internal.merged_change m where m.run_id = r.id),
       (select s.content from agent.step s
         where s.run_id = r.id and r.kind = 'turn' and s.content ? 'turn'
         order by s.seq limit 1),
       agent_internal.shown(r.change, r.attachment_id, (select agent_internal.readable()))
           ->> 'hidden'
  from agent.run r
 where r.id = %(run)s and r.kind in ('agent', 'turn') and r.attachment_id is not null
"""
_FRAME: Final = re.compile(r"^<\w+ ([0-9a-f]{16})>$", re.MULTILINE)


async def first_prompt(conn: AsyncConnection[Any], run: int) -> dict[str, Json] | None:
    """Return the first request of a run; None if the caller cannot see it, or it has none.

    Raises:
        RefusedError: it has columns that the caller cannot read.
    """
    row = await (await conn.execute(_RUN, {"run": run})).fetchone()
    if row is None or (row[1] == "turn" and row[-2] is None):
        return None
    *columns, begun, hidden = row
    if int(hidden or 0):
        raise RefusedError(
            403,
            "the prompt has columns that your login cannot read",
            "42501",
            "It needs SELECT on them, or the role approver.",
        )
    attachment = await attachment_version(conn, row[2], row[3])
    if attachment is None:
        return None
    spec = RunSpec(_claim(columns), attachment.agent, attachment.authority, attachment.target)
    model = ModelSpec(attachment.agent.model, "", "")
    if begun is None:
        request = build_request(spec, (), mark=_MARK, model=model)
    else:
        request = await _first_of_turn(spec, begun, model)
    messages: list[Json] = [
        {
            "role": each.role,
            "text": "\n".join(part.text for part in each.parts if isinstance(part, Text)),
        }
        for each in request.messages
    ]
    tools: list[Json] = [
        {"name": each.name, "description": each.description, "input_schema": each.input_schema}
        for each in request.tools
    ]
    return {"run_id": str(run), "system": request.system, "messages": messages, "tools": tools}


async def _first_of_turn(spec: RunSpec, begun: Mapping[str, Any], model: ModelSpec) -> Request:
    """Render the first request of a turn from the step that pinned what the model is shown."""
    content = orjson.dumps(begun).decode()
    for mark in set(_FRAME.findall(str(begun["turn"]["context"]))):
        content = content.replace(mark, _MARK)
    step = Step(0, StepKind.NOTE, orjson.loads(content))
    return await TurnDecider().render(spec, (step,), Prompt(), model)


def _claim(row: Sequence[Any]) -> Claim:
    identifier, _, attachment, version, change, key, depth, created, merged = row
    at: datetime = created
    return Claim(
        identifier,
        attachment,
        version,
        lease=0,
        attempt=1,
        max_attempts=1,
        reason="change",
        change=change,
        key=key,
        depth=depth,
        commit_lsn=None,
        committed_at=None,
        created_at=at,
        started_at=at,
        merged=tuple(merged),
    )
