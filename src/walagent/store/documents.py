"""Documents: their chunks and embeddings, in runs of the kind `embedding`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent.message import Json
from walagent.store.codecs.jsonb import to_json

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """The document of a run."""

    tenant: str
    id: str


async def cut(conn: Connection, document: DocumentKey) -> Json:
    """Cut a document into chunks; return {"version", "chunks"}, or None if it is gone."""
    cursor = await conn.execute(
        "select agent_internal.cut_document(%(tenant)s, %(id)s)",
        {"tenant": document.tenant, "id": document.id},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def chunks_to_embed(
    conn: Connection, document: DocumentKey, version: int, after: int, most: int
) -> list[tuple[int, str]]:
    """Read the next chunks of a version, with their numbers."""
    cursor = await conn.execute(
        "select number, content from agent_internal.chunks_to_embed("
        "%(tenant)s, %(id)s, %(version)s, %(after)s, %(most)s)",
        {
            "tenant": document.tenant,
            "id": document.id,
            "version": version,
            "after": after,
            "most": most,
        },
    )
    return await cursor.fetchall()


async def store_embeddings(
    conn: Connection,
    document: DocumentKey,
    version: int,
    model: str,
    vectors: Mapping[int, Sequence[float]],
) -> None:
    """Store embeddings of chunks, by number."""
    rows = [{"number": number, "embedding": list(vector)} for number, vector in vectors.items()]
    await conn.execute(
        "select agent_internal.store_embeddings("
        "%(tenant)s, %(id)s, %(version)s, %(model)s, %(rows)s::jsonb)",
        {
            "tenant": document.tenant,
            "id": document.id,
            "version": version,
            "model": model,
            "rows": to_json(rows).decode(),
        },
    )


async def queue_waiting(conn: Connection, tenant: str) -> None:
    """Queue documents of a tenant that wait for room in its queue."""
    await conn.execute("select agent_internal.queue_documents(%(tenant)s)", {"tenant": tenant})
