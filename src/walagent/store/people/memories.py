"""Memories and documents, for people."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.message import Json
from walagent.store.codecs.jsonb import to_json

Connection = AsyncConnection[Any]
Row = dict[str, Any]

_LIST = """
select m.id::text, m.agent, m.kind, m.key, m.value, m.importance, m.trust, m.disputed,
       m.principal, m.thread_id::text, m.access_count, m.created_at, m.expires_at
  from agent.memory m
 where m.tenant = agent.current_tenant()
   and (%(agent)s::text is null or m.agent = %(agent)s)
   and (%(kind)s::text is null or m.kind = %(kind)s)
   and (%(all)s or m.superseded_by is null and m.retracted_at is null
                   and (m.expires_at is null or m.expires_at > agent_internal.now()))
 order by m.created_at desc, m.id limit %(most)s
"""
_RECALL = """
select id::text, %(agent)s as agent, kind, key, value, round(score::numeric, 3)::float8 as score,
       importance, trust, disputed, principal, thread_id::text, created_at, expires_at
  from agent.recall(%(agent)s, %(query)s, kind => %(kind)s, k => %(most)s)
"""
_SHOW = """
select m.id::text, m.tenant, m.agent, m.kind, m.key, m.value, m.importance, m.trust, m.disputed,
       m.principal, m.thread_id::text, m.run_id, m.event_id::text, m.created_by, m.created_at,
       m.expires_at, m.access_count, m.accessed_at, m.superseded_by::text, m.retracted_at,
       m.embedding_model
  from agent.memory m where m.id = %(id)s::uuid and m.tenant = agent.current_tenant()
"""
_ADD = """
select agent.remember(%(agent)s, %(value)s::jsonb, key => %(key)s, kind => %(kind)s,
                      importance => %(importance)s,
                      expires_at => agent_internal.now() + %(expires)s,
                      principal => %(about)s)::text
"""
_DOCUMENTS = """
select d.id::text, d.title, d.source, octet_length(d.body) as bytes, d.updated_at,
       (select count(*) from agent.document_chunk c
         where c.tenant = d.tenant and c.document_id = d.id) as chunks,
       (select count(c.embedding) from agent.document_chunk c
         where c.tenant = d.tenant and c.document_id = d.id) as embedded
  from agent.document d where d.tenant = agent.current_tenant()
 order by d.updated_at desc, d.id limit %(most)s
"""


async def _rows(conn: Connection, query: str, given: Mapping[str, Json]) -> list[Row]:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), given)
        return await cursor.fetchall()


async def _value(conn: Connection, query: str, given: Mapping[str, Json]) -> Json:
    row = await (await conn.execute(query.encode(), given)).fetchone()
    return row[0] if row else None


async def list_memories(
    conn: Connection, agent: str | None, kind: str | None, most: int, *, dead: bool
) -> list[Row]:
    """List memories, the latest first; those that are never recalled only if *dead*."""
    given = {"agent": agent, "kind": kind, "most": most, "all": dead}
    return await _rows(conn, _LIST, given)


async def recall(
    conn: Connection, agent: str, query: str, kind: str | None, most: int
) -> list[Row]:
    """Recall what fits a query, best first."""
    return await _rows(conn, _RECALL, {"agent": agent, "query": query, "kind": kind, "most": most})


async def show_memory(conn: Connection, memory: str) -> Row | None:
    """Read one memory with all that is known about it."""
    found = await _rows(conn, _SHOW, {"id": memory})
    return found[0] if found else None


async def add_memory(conn: Connection, agent: str, value: Json, fields: Mapping[str, Json]) -> str:
    """Store a memory as the caller; return its ID.

    Args:
        fields: key, kind, importance, about, and expires: an interval or None.
    """
    given = {"agent": agent, "value": to_json(value).decode(), **fields}
    return str(await _value(conn, _ADD, given))


async def has_agent(conn: Connection, agent: str) -> bool:
    """Return whether there is an agent of this name, as far as the caller can see."""
    query = "select exists (select from agent.agent where name = %(agent)s)"
    return bool(await _value(conn, query, {"agent": agent}))


async def correct_memory(conn: Connection, memory: str, value: Json) -> str:
    """Replace a memory; return the ID of the new one."""
    given = {"id": memory, "value": to_json(value).decode()}
    return str(await _value(conn, "select agent.correct(%(id)s::uuid, %(value)s::jsonb)", given))


async def forget_memory(conn: Connection, memory: str) -> bool:
    """Delete a memory with what it replaced; return whether it existed."""
    return bool(await _value(conn, "select agent.forget(%(id)s::uuid)", {"id": memory}))


async def retract_memory(conn: Connection, memory: str) -> None:
    """Withdraw a memory."""
    await _value(conn, "select agent.retract(%(id)s::uuid)", {"id": memory})


async def prune_memories(conn: Connection, keep: timedelta) -> int:
    """Delete what is never recalled again; return how many."""
    return int(await _value(conn, "select agent.prune_memory(%(keep)s)", {"keep": keep}))


async def list_documents(conn: Connection, most: int) -> list[Row]:
    """List documents, the latest first."""
    return await _rows(conn, _DOCUMENTS, {"most": most})


async def search_documents(conn: Connection, query: str, most: int) -> list[Row]:
    """Search documents by words, best first."""
    return await _rows(
        conn,
        "select id::text, title, round(score::numeric, 3)::float8 as score, excerpt, source"
        "  from agent.search_documents(%(query)s, %(most)s)",
        {"query": query, "most": most},
    )


async def add_document(
    conn: Connection, title: str, body: str, source: str, metadata: Mapping[str, Json]
) -> str:
    """Store a document; return its ID."""
    return str(
        await _value(
            conn,
            "insert into agent.document (title, body, source, metadata)"
            " values (%(title)s, %(body)s, %(source)s, %(metadata)s::jsonb) returning id::text",
            {
                "title": title,
                "body": body,
                "source": source,
                "metadata": to_json(dict(metadata)).decode(),
            },
        )
    )


async def delete_documents(conn: Connection, ids: Sequence[str]) -> Sequence[str]:
    """Delete documents; return the IDs of those that existed."""
    cursor = await conn.execute(
        "delete from agent.document d where d.id = any (%(ids)s::uuid[])"
        " and d.tenant = agent.current_tenant() returning d.id::text",
        {"ids": list(ids)},
    )
    return [row[0] for row in await cursor.fetchall()]
