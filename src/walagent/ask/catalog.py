"""The schema as the analyst role can read it: read once, stored, and read again after changes.

Each question asks for the schema's fingerprint, which takes milliseconds.  Where it is the one that
was read before, by this process or by an earlier one of the same login, nothing else is asked.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from psycopg import sql

from walagent.ask.context import SchemaContext, describe_schema, has_few_words, title
from walagent.ask.retrieval import Index
from walagent.ask.samples import (
    DISTINCT,
    VALUES,
    common_values,
    presentable,
    sampled_columns,
    sampling_statement,
)
from walagent.ask.statements import Statements
from walagent.ask.vectors import Vectors
from walagent.errors import PreconditionError, StatementRefusedError, WalagentError
from walagent.guard.query import Guard
from walagent.guard.read_limits import ReadLimits
from walagent.store import questions
from walagent.store.errors import translating
from walagent.store.relations import application_schema
from walagent.store.relations.application_schema import Table
from walagent.store.sessions.connections import Pool

_FORM: Final = 1  # of the stored index; another one invalidates it
_TRIES: Final = 3  # to read a schema that changes meanwhile
_LOOKED_INTO: Final = 100  # tables without statistics whose first rows are read
_LOOKING: Final = 5.0  # seconds for all of them together
_SAMPLING: Final = ReadLimits(rows=5000, cell=100, seconds=1.0, lock_seconds=0.2, cost=1e5)
_OLD: Final = 86_400.0  # seconds after which values and row counts are read again
_NEAR: Final = 20  # tables that are found by meaning
_DROPPED: Final = frozenset({"XX000", "42P01", "42703"})  # while we read of it

Column = Mapping[str, Any]
_Samples = dict[tuple[str, str], Sequence[str]]  # by table and column


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """What of the schema is shown.

    Args:
        schemas: only these; None: whatever the analyst may read.
        most: characters that describe tables.
        samples: whether common values of columns are shown.
        no_samples: patterns of columns and tables of which none are; see `ask.samples`.
    """

    schemas: Sequence[str] | None = None
    most: int = 40_000
    samples: bool = True
    no_samples: Sequence[str] = ()

    @property
    def digest(self) -> str:
        """Tell settings apart that read other things from the same schema."""
        form = repr((_FORM, self.schemas, self.samples, list(self.no_samples)))
        return sha256(form.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What there is to ask about.

    Args:
        changed: whether it is something else than was kept before.
    """

    tables: int
    columns: int
    sampled: int  # columns of which values are shown
    changed: bool


@dataclass(frozen=True, slots=True)
class _ReadSchema:
    """What was read under a fingerprint."""

    role: str
    fingerprint: str
    tables: Sequence[Table]
    index: Index
    at: float  # by the monotonic clock

    def holds(self, fingerprint: str) -> bool:
        """Whether it is what a schema of this fingerprint is like now."""
        return self.fingerprint == fingerprint and time.monotonic() - self.at < _OLD


def how_to_let_read(role: str, schemas: Sequence[str]) -> str:
    """Return the SQL that lets a role read the present tables of schemas."""
    return " ".join(
        sql.SQL(
            "grant usage on schema {schema} to {role};"
            " grant select on all tables in schema {schema} to {role};"
        )
        .format(schema=sql.Identifier(application_schema), role=sql.Identifier(role))
        .as_string()
        for application_schema in schemas
    )


class Catalog:
    """Describes the schema for questions."""

    def __init__(
        self,
        pool: Pool,
        executor: Statements,
        settings: CatalogSettings | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            pool: of the login that keeps the index.
            executor: whose guards have the analyst's connections.
            vectors: of tables, where they are found by meaning, too.
        """
        self._vectors = vectors
        self._pool = pool
        self._executor = executor
        self._settings = settings or CatalogSettings()
        self._known: _ReadSchema | None = None
        self._reading = asyncio.Lock()

    async def describe(self, question: str, *, alone: bool = False) -> SchemaContext:
        """Describe what a question can be about: all of it, or what fits it best.

        Args:
            alone: without the statement that was saved for the question itself.

        Raises:
            DatabaseLostError: nothing can be read now.
        """
        known = await self._know()
        near: Sequence[str] = ()
        with translating():
            if self._vectors is not None and has_few_words(known.index, question):
                near = await self._vectors.nearest(known.role, question, _NEAR)
            async with self._pool.connection() as conn:
                version = conn.info.parameter_status("server_version") or ""
                examples = await questions.similar_queries(conn, question, itself=not alone)
                terms = await questions.terms(conn, question)
        return describe_schema(
            known.tables,
            version.partition(" ")[0],
            question=question,
            most=self._settings.most,
            terms=terms,
            examples=examples,
            index=known.index,
            near=near,
        )

    async def check(self) -> None:
        """Check that there is something to ask about.

        Raises:
            PreconditionError: the analyst can read no table; the hint has the grants.
        """
        known = await self._know()
        if known.tables:
            return
        schemas = self._settings.schemas
        of = f" of {', '.join(schemas)}" if schemas else ""
        raise PreconditionError(
            f'role "{known.role}" can read no table{of} in this database',
            hint=how_to_let_read(known.role, schemas or ("public",)),
        )

    async def tables(self) -> Sequence[Table]:
        """Give the tables that questions can be about, as `store.schema.read_schema` does."""
        return (await self._know()).tables

    async def index(self) -> IndexSummary:
        """Read the schema again, even if it is unchanged, and store it."""
        with translating():
            async with self._reading:
                before = self._known or await self._kept(*await self._present())
                known = self._known = await self._read()
                if self._vectors is not None:
                    await self._vectors.refresh(known.role, known.tables)
        columns = [column for table in known.tables for column in table["columns"] or ()]
        return IndexSummary(
            len(known.tables),
            len(columns),
            sum(bool(column.get("samples")) for column in columns),
            changed=before is None or known.tables != before.tables,
        )

    async def _know(self) -> _ReadSchema:
        """Give the schema as it is now: from memory, from what is kept, or from the catalog."""
        with translating():
            async with self._reading:
                role, fingerprint = await self._present()
                if self._known is None or not self._known.holds(fingerprint):
                    self._known = await self._kept(role, fingerprint) or await self._read()
                return self._known

    async def _kept(self, role: str, fingerprint: str) -> _ReadSchema | None:
        async with self._pool.connection() as conn:
            tables = await application_schema.load_index(conn, role, fingerprint)
        if not tables:
            return None
        return _ReadSchema(role, fingerprint, tables, Index(tables), time.monotonic())

    async def _present(self) -> tuple[str, str]:
        async with self._executor.guard() as guard:
            return await self._fingerprint(guard)

    async def _fingerprint(self, guard: Guard) -> tuple[str, str]:
        role, found = await application_schema.read_fingerprint(guard.conn, self._settings.schemas)
        return role, f"{self._settings.digest}:{found}"

    async def _read(self) -> _ReadSchema:
        """Read and keep the schema."""
        async with self._executor.guard() as guard:
            role, fingerprint, tables = await self._settled(guard)
        async with self._pool.connection() as conn, conn.transaction():
            await application_schema.keep_index(conn, role, fingerprint, tables)
        return _ReadSchema(role, fingerprint, tables, Index(tables), time.monotonic())

    async def _settled(self, guard: Guard) -> tuple[str, str, Sequence[Table]]:
        """Read the schema; again, where it changed while it was read.

        What is left of a change after the last try is seen by the next question's fingerprint.
        """
        for left in reversed(range(_TRIES)):
            role, before = await self._fingerprint(guard)
            try:
                with translating():
                    tables = await self._tables(guard)
            except WalagentError as error:
                if not left or error.sqlstate not in _DROPPED:
                    raise
                continue
            if not left or (role, before) == await self._fingerprint(guard):
                break
        return role, before, tables  # pyright: ignore[reportPossiblyUnboundVariable] - the last try raises

    async def _tables(self, guard: Guard) -> Sequence[Table]:
        tables = await application_schema.read_schema(guard.conn, self._settings.schemas)
        if not self._settings.samples:
            return tables
        samples = await _samples(guard, tables, self._settings.no_samples)
        return [_with_samples(table, samples) for table in tables]


async def _samples(guard: Guard, tables: Sequence[Table], no_samples: Sequence[str]) -> _Samples:
    """Find common values: in the server's statistics, or else in the first rows."""
    wanted = [(table, list(sampled_columns(table, no_samples))) for table in tables]
    places = [
        (table["schema"], table["name"], column["name"])
        for table, columns in wanted
        for column in columns
    ]
    common = await application_schema.read_common_values(
        guard.conn, places, distinct=DISTINCT, values=VALUES
    )
    found: _Samples = {place: presentable(values) for place, values in common.items()}
    looking = replace(guard, limits=_SAMPLING)
    until, left = time.monotonic() + _LOOKING, _LOOKED_INTO
    for table, columns in wanted:
        unknown = [each for each in columns if (title(table), each["name"]) not in common]
        if unknown and table["rows"] != 0 and left and time.monotonic() < until:
            left -= 1
            found.update(await _look_into(looking, table, unknown))
    return found


async def _look_into(guard: Guard, table: Table, columns: Sequence[Column]) -> _Samples:
    """Look into the first rows of a table or view, if the guard lets it at so low a price."""
    try:
        rows = await guard.read(sampling_statement(table, columns))
    except StatementRefusedError:
        return {}
    values = common_values(columns, rows.texts)
    return {(title(table), name): shown for name, shown in values.items()}


def _with_samples(table: Table, samples: _Samples) -> Table:
    columns = [
        {**column, "samples": list(samples.get((title(table), column["name"]), ()))}
        for column in table["columns"] or ()
    ]
    return {**table, "columns": columns}
