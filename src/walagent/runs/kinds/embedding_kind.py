"""The kind of runs that cut a document into chunks and embed them; no model is asked.

Two calls: `cut`, once, in one transaction with its step; and `embed`, for the next chunks, until
all are embedded.  A run of a document that changed meanwhile embeds nothing more: another run was
queued for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.base import faults
from walagent.deciders.embedding import EmbeddingDecider
from walagent.domain.agent_spec import AgentSpec, Authority
from walagent.domain.run import Claim, RunSpec, Step, StepKind
from walagent.errors import PreconditionError
from walagent.message import Json
from walagent.moves import Call, End, Kind, RunLog
from walagent.runs.tools.builtin_tools import NamedEmbedder
from walagent.store import documents, runs
from walagent.store.documents import DocumentKey
from walagent.store.runs import NewStep
from walagent.store.sessions.connections import Pool

_AT_ONCE: Final = 16  # chunks of a step: about a second of one core


def embedding_kind(pool: Pool, embedder: NamedEmbedder | None) -> Kind:
    """Create the kind `embedding`.

    Args:
        embedder: None: documents are cut, not embedded.
    """

    async def on_end(
        conn: AsyncConnection[Any], run: RunSpec, _steps: Sequence[Step], _end: End
    ) -> None:
        await documents.queue_waiting(conn, _document(run).tenant)

    return Kind(EmbeddingDecider(), _Actor(pool, embedder), specify=_specified, on_end=on_end)


async def _specified(claim: Claim) -> RunSpec:
    return RunSpec(claim, AgentSpec("", ""), Authority(""), source="embedding")


def _document(run: RunSpec) -> DocumentKey:
    new = run.claim.change["new"]
    return DocumentKey(str(new["tenant"]), str(new["id"]))


@dataclass(frozen=True, slots=True)
class _Actor:
    pool: Pool
    embedder: NamedEmbedder | None

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Cut, or embed the next chunks; the result is recorded in the same transaction."""
        if call.call.name == "cut":
            step = await self._cut(run, call, log.seq)
        else:
            step = await self._embed(run, call, log.seq)
        log.append(step.recorded)

    async def _cut(self, run: RunSpec, call: Call, seq: int) -> NewStep:
        async with self.pool.connection() as conn, conn.transaction():
            result = await documents.cut(conn, _document(run)) or {"gone": True}
            step = _result(call, seq, result)
            await runs.record_step(conn, run.claim, step)
        return step

    async def _embed(self, run: RunSpec, call: Call, seq: int) -> NewStep:
        arguments, document = call.call.arguments or {}, _document(run)
        version, after = int(arguments["version"]), int(arguments["after"])
        async with self.pool.connection() as conn:
            chunks = await documents.chunks_to_embed(conn, document, version, after, _AT_ONCE)
        result: dict[str, Json] = {"after": chunks[-1][0]} if chunks else {"end": True}
        vectors = dict[int, Sequence[float]]()
        try:
            vectors = await self._vectors(chunks)
        except PreconditionError as error:
            result = {"unavailable": str(error)}
        faults.hit("tool.done")
        async with self.pool.connection() as conn, conn.transaction():
            if vectors and self.embedder is not None:
                name = self.embedder.name
                await documents.store_embeddings(conn, document, version, name, vectors)
            step = _result(call, seq, result)
            await runs.record_step(conn, run.claim, step)
        return step

    async def _vectors(self, chunks: Sequence[tuple[int, str]]) -> dict[int, Sequence[float]]:
        """Embed chunks.

        Raises:
            PreconditionError: this worker cannot.
        """
        if self.embedder is None:
            raise PreconditionError("this worker has no embedder (retrieval.vectors)")
        found = await self.embedder.embed([text for _, text in chunks])
        return {number: one.vector for (number, _), one in zip(chunks, found, strict=True)}


def _result(call: Call, seq: int, result: Json) -> NewStep:
    content = {
        "call_id": call.call.id,
        "name": call.call.name,
        "content": orjson.dumps(result).decode(),
        "is_error": False,
    }
    return NewStep(seq, StepKind.RESULT, content)
