"""Lists of evaluations and datasets for people."""

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.errors import ConfigError
from walagent.store.queries import query

Connection = AsyncConnection[Any]
Found = dict[str, Any]


async def list_evaluations(conn: Connection, limit: int) -> list[Found]:
    """List evaluations, newest first."""
    return await _evaluations(conn, None, limit)


async def _evaluations(conn: Connection, evaluation: int | None, limit: int) -> list[Found]:
    cursor = conn.cursor(row_factory=dict_row)
    parameters = {"evaluation": evaluation, "limit": limit}
    await cursor.execute(query("list_evaluations"), parameters)
    return await cursor.fetchall()


async def show_evaluation(conn: Connection, evaluation: int) -> Found:
    """Return an evaluation with its counts.

    Raises:
        ConfigError: there is none.
    """
    found = await _evaluations(conn, evaluation, 1)
    if not found:
        raise ConfigError(
            f"evaluation {evaluation} does not exist",
            hint="Use walagent evaluations to list evaluations.",
        )
    return found[0]


async def cases_of(conn: Connection, evaluation: int) -> list[Found]:
    """Return the cases of an evaluation, in order."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select number, run_id, case_id, key, recorded, candidate, agrees, expected, was_right,"
        "       is_right, verdict"
        "  from agent.evaluation_case where evaluation_id = %s order by number",
        [evaluation],
    )
    return await cursor.fetchall()


async def compare(conn: Connection, first: int, second: int) -> Found:
    """Compare two evaluations on the cases that both have.

    Returns cases, agreeing, and where both have the same label: tested, first_right, second_right,
    better and worse, which are cases in which the second one alone is right, or the first one.
    """
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("compared_evaluations"), {"first": first, "second": second})
    found = await cursor.fetchone()
    assert found is not None  # noqa: S101 - one row of counts
    return found


async def differing(conn: Connection, first: int, second: int) -> list[tuple[int, int]]:
    """Return the numbers, in both evaluations, of the cases in which the candidates differ."""
    parameters = {"first": first, "second": second}
    cursor = await conn.execute(query("differing_cases"), parameters)
    return await cursor.fetchall()


async def list_datasets(conn: Connection) -> list[Found]:
    """List datasets by name."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select d.id, d.name, d.attachment, d.relation, d.source, count(c.id) as cases,"
        "       count(c.expected) as labelled, d.made_by::text, d.made_at"
        "  from agent.dataset d left join agent.dataset_case c on c.dataset_id = d.id"
        " group by d.id order by d.name"
    )
    return await cursor.fetchall()


async def list_cases(conn: Connection, dataset: int) -> list[Found]:
    """List the cases of a dataset."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select id, key, run_id, change, merged, expected, labelled_by::text, labelled_at"
        "  from agent.dataset_case where dataset_id = %s order by id",
        [dataset],
    )
    return await cursor.fetchall()
