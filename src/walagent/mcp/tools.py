"""The tools of the MCP server: each opens its connections, returns a bounded result, closes them.

No connection stays open between calls: clients keep their servers for days, often one per window.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import uuid4

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from walagent.ask.answering import open_asker
from walagent.ask.asking import Asker
from walagent.ask.health import Health
from walagent.ask.options import Options
from walagent.config import AskSettings
from walagent.config.dsn import Places
from walagent.domain.run import RunState
from walagent.errors import WalagentError
from walagent.mcp.resources import McpResources
from walagent.rows.rows import Rows
from walagent.store.errors import translating
from walagent.store.people import listings, operator
from walagent.store.people.listings import Connection, Found
from walagent.store.people.run_filter import RunFilter
from walagent.store.sessions.acting import identity_of_token
from walagent.store.sessions.connections import connect
from walagent.telemetry.mask import mask

MOST: Final = 50_000  # characters of rows or of a schema: about 12,000 tokens
_MOST_ERROR: Final = 500  # characters of a run's error
_AT_ONCE: Final = 4  # concurrent calls; each uses up to `ask.connections` + 3 connections

Question = Annotated[str, Field(description="the question, in natural language")]
SessionName = Annotated[
    str | None,
    Field(description="session of an earlier answer, to continue it"),
]
Statement = Annotated[str, Field(description="one read-only PostgreSQL statement")]
Words = Annotated[
    str, Field(description="search words; of a large schema, the best matching tables are returned")
]
RunId = Annotated[int | None, Field(description="only this run")]
State = Annotated[RunState | None, Field(description="only runs in this state")]
Limit = Annotated[int, Field(ge=1, le=50, description="maximum number of runs, newest first")]
Approval = Annotated[int, Field(description="the ID that `walagent approvals` lists")]
Reason = Annotated[str | None, Field(max_length=1000, description="sent to the agent's model")]


class Answer(BaseModel):
    """An answer with its evidence; `rows` are the rows behind it, as text."""

    status: Literal["answered", "clarify", "refused", "error"]
    answer: str
    sql: list[str]
    assumptions: list[str]
    caveats: list[str]
    rows: str
    session: str
    run: int


class QueryResult(BaseModel):
    """Rows in PostgreSQL's text format, null for NULL; `cut` lists what was omitted."""

    columns: list[str]
    rows: list[list[str | None]]
    cut: list[str]


class Run(BaseModel):
    """The state of a run; columns of agent.run_overview."""

    id: int
    attachment: str | None
    reason: str
    state: str
    op: str | None
    relation: str | None
    key: str | None
    attempt: int
    steps: int
    tokens: int
    cost: float | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None


class McpTools:
    """The tools of one server; they hold no connection."""

    def __init__(self, places: Places, settings: AskSettings, model: str | None) -> None:
        """Store the settings.

        Args:
            model: the model that plans and answers; None: the configured one.
        """
        self._places = places
        self._identity = identity_of_token(places.token) if places.token else None
        self._settings = settings
        self._model = model
        self._health = Health()
        self._free = asyncio.Semaphore(_AT_ONCE)
        self.resources = McpResources(places, settings, self._health.database, self._free)

    async def check(self) -> None:
        """Check that questions can be answered.

        Raises:
            PreconditionError: the analyst role is missing or not read-only, or there is no model.
            ConfigError: the model does not exist.
        """
        async with self._asker():
            pass

    async def ask(self, question: Question, session: SessionName = None) -> Answer:
        """Answer a question about the database, with the SQL and the rows behind the answer.

        With status `clarify`, the answer is a question; reply in the same session.
        """
        name = session or f"mcp-{uuid4().hex[:12]}"
        async with self._answering() as asker:
            found = await asker.ask_in_turn(question, name)
        several = len(found.shown) > 1
        shown = [f"{each.id}:\n" * several + as_text(each.rows) for each in found.shown]
        return Answer(
            status=found.status,
            answer=found.text[:MOST],
            sql=list(found.sql),
            assumptions=list(found.assumptions),
            caveats=list(found.caveats),
            rows="\n\n".join(shown)[:MOST],
            session=name,
            run=found.run_id,
        )

    async def query(self, sql: Statement) -> QueryResult:
        """Run one read-only statement; writes, locks, waits and external calls are refused."""
        async with self._answering() as asker:
            return as_table(await asker.query(sql))

    async def describe_schema(self, words: Words = "") -> str:
        """Describe the tables, columns and keys that questions can use."""
        async with self._answering() as asker:
            text = (await asker.describe_schema(words)).text
        return text if len(text) <= MOST else f"{text[:MOST]}\n(truncated)"

    async def runs(self, run: RunId = None, state: State = None, limit: Limit = 20) -> list[Run]:
        """List the runs of agents and questions, newest first, with their state."""
        async with self._deciding() as conn:
            chosen = RunFilter(run=run, states=(state,) if state else ())
            found = await listings.list_runs(conn, chosen, limit=limit)
        if run is not None and not found:
            raise ToolError(f"no run {run}" + (f" in state {state}" if state else ""))
        return [_run(each) for each in found]

    async def approve(self, approval: int) -> str:
        """Approve a pending tool call."""
        async with self._deciding() as conn:
            await operator.approve(conn, [approval])
        return f"approved {approval}"

    async def reject(self, approval: int, reason: str | None) -> str:
        """Reject a pending tool call."""
        async with self._deciding() as conn:
            await operator.reject(conn, [approval], reason)
        return f"rejected {approval}"

    @asynccontextmanager
    async def _asker(self) -> AsyncGenerator[Asker]:
        async with open_asker(
            self._places, self._settings, Options(), model=self._model, health=self._health
        ) as asker:
            yield asker

    @asynccontextmanager
    async def _answering(self) -> AsyncGenerator[Asker]:
        with _tool_errors():
            async with self._free, self._asker() as asker:
                yield asker

    @asynccontextmanager
    async def _deciding(self) -> AsyncGenerator[Connection]:
        """Yield a connection of the login, in a transaction."""
        with _tool_errors(), translating():
            async with (
                self._free,
                await connect(
                    self._places.dsn, application="walagent mcp", identity=self._identity
                ) as conn,
                conn.transaction(),
            ):
                yield conn


@contextmanager
def _tool_errors() -> Generator[None]:
    """Convert errors to errors of the tool, with secrets masked."""
    try:
        yield
    except WalagentError as error:
        said = f"{error}; {error.hint}" if error.hint else str(error)
        raise ToolError(mask(said)) from error


def as_text(rows: Rows) -> str:
    """Format rows as lines of tab-separated values, column names first; NULL is the word."""
    lines = ["\t".join(map(_one_line, rows.names))]
    left = MOST
    for n, row in enumerate(rows.texts):
        line = "\t".join("NULL" if text is None else _one_line(text) for text in row)
        left -= len(line) + 1
        if left < 0:
            lines.append(_only(n))
            break
        lines.append(line)
    return "\n".join([*lines, *(f"({cut})" for cut in rows.cut)])


def _only(n: int) -> str:
    return f"(only the first {n:,} rows; they are large)"


def _one_line(text: str) -> str:
    return " ".join(text.split()) if any(char in text for char in "\t\n\r") else text


def as_table(rows: Rows) -> QueryResult:
    """Convert rows to a result of at most `MOST` characters."""
    left = MOST
    kept: list[list[str | None]] = []
    cut = list(rows.cut)
    for row in rows.texts:
        left -= sum(len(text or "") + 3 for text in row)  # with the quotes and the comma
        if left < 0:
            cut.append(_only(len(kept)).strip("()"))
            break
        kept.append(list(row))
    return QueryResult(columns=list(rows.names), rows=kept, cut=cut)


def _run(found: Found) -> Run:
    error = found["error"]
    return Run.model_validate({**found, "error": error and error[:_MOST_ERROR]})
