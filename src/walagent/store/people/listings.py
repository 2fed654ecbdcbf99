"""Lists for people: agents, models, runs, approvals, budgets, backfills and gaps.

Each row is a dictionary of plain values, for a table on a terminal or for JSON; the statement
defines its columns.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.errors import ConfigError
from walagent.store.people.run_filter import RunFilter
from walagent.store.queries import query

Connection = AsyncConnection[Any]
Found = dict[str, Any]


async def list_agents(conn: Connection) -> list[Found]:
    """List agents with their attachments and counts of runs."""
    return await _fetch(conn, "list_agents")


async def list_models(conn: Connection) -> list[Found]:
    """List models."""
    return await _fetch(conn, "list_models")


async def list_runs(
    conn: Connection, filters: RunFilter, *, limit: int | None = None
) -> list[Found]:
    """List the runs that *filters* accepts, newest first.

    Raises:
        ConfigError: they name an attachment that neither exists nor has runs.
    """
    found = await _fetch(conn, "list_runs", limit=limit, **filters.parameters)
    if not found and filters.attachment is not None:
        await _check_attachment(conn, filters.attachment)
    return found


async def _check_attachment(conn: Connection, name: str) -> None:
    """Check that an attachment that was named is one: no runs would hide a typing error."""
    for found in await _fetch(conn, "unknown_attachment", attachment=name):
        raise ConfigError(f'no attachment is named "{name}"', hint=str(found["hint"]))


async def show_run(conn: Connection, run_id: int) -> Found | None:
    """Return one run with its steps, approvals and merged changes; None if it does not exist."""
    found = await _fetch(conn, "show_run", run=run_id)
    return found[0] if found else None


async def list_approvals(conn: Connection) -> list[Found]:
    """List the tool calls that wait for approval."""
    return await _fetch(conn, "list_approvals")


async def list_budgets(conn: Connection) -> list[Found]:
    """List budgets with their use."""
    return await _fetch(conn, "list_budgets")


async def list_batches(conn: Connection, limit: int) -> list[Found]:
    """List batches of calls, newest first."""
    return await _fetch(conn, "list_batches", limit=limit)


async def list_costs(
    conn: Connection, by: Iterable[str], since: datetime | timedelta | None = None
) -> list[Found]:
    """Add up tokens and cost of model calls.

    Args:
        by: agent, model, day.
        since: a point in time, or an age.
    """
    point = since if isinstance(since, datetime) else None
    age = since if isinstance(since, timedelta) else None
    return await _fetch(conn, "list_costs", by=list(by), since=point, age=age)


async def list_backfills(conn: Connection) -> list[Found]:
    """List backfills, unfinished ones first."""
    return await _fetch(conn, "list_backfills")


async def list_gaps(conn: Connection, *, resolved: bool = False) -> list[Found]:
    """List gaps; resolved ones only if *resolved*."""
    return await _fetch(conn, "list_gaps", all=resolved)


async def broken_invariants(conn: Connection, *, latest: int | None = None) -> list[Found]:
    """List violated invariants; empty if all hold.

    Args:
        latest: of how many runs the steps are read; None: of all.
    """
    async with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
        setting = "" if latest is None else str(latest)
        await cursor.execute(
            "select set_config('walagent.checked_runs', %(runs)s, true)", {"runs": setting}
        )
        await cursor.execute("select rule, detail from agent.broken_invariant")
        return await cursor.fetchall()


async def _fetch(conn: Connection, name: str, **parameters: object) -> list[Found]:
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query(name), parameters)
    return await cursor.fetchall()
