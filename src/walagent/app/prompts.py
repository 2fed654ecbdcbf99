"""The first request of a run, built as the worker built it, for people who look at the run."""

from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.agent.prompt import build_request
from walagent.message import Json, ModelSpec, Text
from walagent.run import Claim, RunSpec
from walagent.store.attachments import attachment_version

# The marker of a run must stay unknown to those who write rows, so it is not shown.
_MARK: Final = "…"
_RUN: Final = """
select r.id, r.attachment_id, r.attachment_version, r.change, r.key, r.depth, r.created_at,
       (select coalesce(jsonb_agg(m.change order by m.commit_lsn, m.ordinal), '[]')
          from agent_internal.merged_change m where m.run_id = r.id)
  from agent.run r
 where r.id = %s and r.kind = 'agent' and r.attachment_id is not null
"""


async def first_prompt(conn: AsyncConnection[Any], run: int) -> dict[str, Json] | None:
    """Return the first request of a run; None if the caller cannot see it, or it has none."""
    row = await (await conn.execute(_RUN, (run,))).fetchone()
    if row is None:
        return None
    attachment = await attachment_version(conn, row[1], row[2])
    if attachment is None:
        return None
    spec = RunSpec(_claim(row), attachment.agent, attachment.authority, attachment.target)
    model = ModelSpec(attachment.agent.model, "", "")
    request = build_request(spec, (), mark=_MARK, model=model)
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


def _claim(row: tuple[Any, ...]) -> Claim:
    identifier, attachment, version, change, key, depth, created, merged = row
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
