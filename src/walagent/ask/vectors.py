"""Tables by what they mean, for questions whose words the schema does not know.

A question in another language than the names shares no word with them; the multilingual model of
`walagent[local]` knows that Kunde is a customer.  Vectors are made when the schema is indexed, for
what is new or changed, and pgvector compares them.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from walagent.ask.context import title
from walagent.ask.samples import without_mark
from walagent.errors import PreconditionError
from walagent.models.provider import Embedder
from walagent.store.relations import application_schema
from walagent.store.relations.application_schema import Table
from walagent.store.sessions.connections import Pool

_MOST_COLUMNS: Final = 12  # what a table is about is said by the first ones
_AT_ONCE: Final = 16  # tables that are embedded, then kept


class Vectors:
    """Knows for each table of an index where it lies, and what lies near a question."""

    def __init__(self, pool: Pool, embedder: Embedder) -> None:
        """Embed nothing yet.

        Args:
            pool: of the login that keeps the index.
        """
        self._pool = pool
        self._embedder = embedder

    async def check(self) -> None:
        """See that the database can compare vectors.

        Raises:
            PreconditionError: the extension is not there.
        """
        async with self._pool.connection() as conn:
            if await application_schema.vector_schema(conn) is None:
                raise PreconditionError(
                    "ask.vectors needs the extension pgvector, which this database does not have,"
                    " or which somebody else owns than superusers or the owner of walagent",
                    hint="create extension vector, in a schema of theirs;"
                    " or take ask.vectors out of agents.yaml",
                )

    async def refresh(self, role: str, tables: Sequence[Table]) -> None:
        """Embed those tables of the index that are new, or not what they were."""
        async with self._pool.connection() as conn:
            kept = await application_schema.embedded_texts(conn, role)
        texts = {title(table): text_of(table) for table in tables}
        missing = [name for name, text in texts.items() if kept.get(name) != _digest(text)]
        for at in range(0, len(missing), _AT_ONCE):
            names = missing[at : at + _AT_ONCE]
            found = await self._embedder.embed([texts[name] for name in names])
            rows = [
                (name, _digest(texts[name]), list(each.vector))
                for name, each in zip(names, found, strict=True)
            ]
            async with self._pool.connection() as conn:
                await application_schema.keep_vectors(conn, role, rows)

    async def nearest(self, role: str, question: str, most: int) -> Sequence[str]:
        """Give the titles of the tables that lie nearest to a question, the nearest first."""
        (found,) = await self._embedder.embed([question])
        async with self._pool.connection() as conn:
            return await application_schema.nearest_tables(conn, role, list(found.vector), most)


def text_of(table: Table) -> str:
    """Say what a table is about, in a few words."""
    columns = [column["name"] for column in (table["columns"] or ())[:_MOST_COLUMNS]]
    said = without_mark(table["comment"])
    name = table["name"].replace("_", " ")
    return " ".join(filter(None, (f"{name}.", said, ", ".join(columns).replace("_", " "))))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
