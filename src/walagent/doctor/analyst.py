"""Check the role for questions: it only reads, and its statements can be analyzed."""

from collections.abc import AsyncIterator
from typing import Any

from psycopg import AsyncConnection, Error

from walagent.ask.answering import open_reading
from walagent.config import AskSettings
from walagent.config.dsn import Places
from walagent.doctor.finding import Finding, ok, problem
from walagent.errors import PreconditionError, StatementRefusedError, WalagentError
from walagent.guard.analysis import Allowlist
from walagent.guard.query import Guard
from walagent.guard.role import check_role
from walagent.store.queries import query
from walagent.store.sessions.roles import reset_role, set_role

Connection = AsyncConnection[Any]


async def check_analyst(conn: Connection, settings: AskSettings) -> AsyncIterator[Finding]:
    """Check the role, if it exists and the login is a member of it."""
    role = settings.role
    found = await conn.execute(
        "select from pg_roles where rolname = %s and pg_has_role(oid, 'member')", [role]
    )
    if await found.fetchone() is None:
        return
    try:
        await set_role(conn, role)
        await check_role(conn)
        await Guard(conn, allowed=Allowlist(settings.functions)).evaluate("select 1")
        yield ok(f'role "{role}" can read, and nothing else')
    except PreconditionError as error:
        yield problem(f'role "{role}" for questions is not read-only: {error}', error.hint)
    except (StatementRefusedError, Error) as error:
        cursor = await conn.execute(query("event_triggers"))
        fixes = [f"alter function {name} security definer;" for (name,) in await cursor.fetchall()]
        yield problem(
            f'no statement of role "{role}" can be analyzed: {error}',
            " ".join([*fixes, "-- it fails for the role"] if fixes else []),
        )
    finally:
        await reset_role(conn)


async def check_standby_of_questions(places: Places, settings: AskSettings) -> Finding:
    """Check that statements of questions can run on the standby that is set."""
    try:
        async with open_reading(places, settings.model_copy(update={"vectors": False})) as reading:
            await reading.statements.read("select 1")
    except WalagentError as error:
        return problem(f"no statement of a question can run on the standby: {error}", error.hint)
    return ok("statements of questions run on the standby")
