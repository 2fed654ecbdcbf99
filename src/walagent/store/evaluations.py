"""Datasets and evaluations: what is replayed, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from walagent.domain.attachment import Attachment
from walagent.domain.run import RunState
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.budgets import Refusal
from walagent.store.codecs.lossy import LossyJson, LossyText
from walagent.store.queries import query

Connection = AsyncConnection[Any]
Found = dict[str, Any]

HELD: Final = timedelta(minutes=1)  # how long an evaluation is held without being extended


@dataclass(frozen=True, slots=True)
class NewEvaluation:
    """An evaluation to begin.

    Args:
        attachment: whose changes are replayed, and agent: its agent; both None: questions are.
        draft: how the candidate differs from the version in use.
        planned: the number of cases.
    """

    attachment: str | None
    agent: str | None
    model: str
    tenant: str
    draft: Mapping[str, Json]
    planned: int
    judge: str | None = None
    dataset: str | None = None


@dataclass(frozen=True, slots=True)
class Attached:
    """An attachment whose runs are replayed."""

    id: int
    tenant: str
    agent: str


async def attached(conn: Connection, name: str) -> Attached:
    """Find an attachment by its name.

    Raises:
        ConfigError: there is none.
    """
    cursor = await conn.execute(
        "select name, id, tenant, agent from agent.attachment"
        " where tenant = agent.current_tenant() order by name"
    )
    found = {known: Attached(*rest) for known, *rest in await cursor.fetchall()}
    if name in found:
        return found[name]
    names = ", ".join(found) or "none"
    raise ConfigError(f'no attachment is named "{name}"', hint=f"Attachments: {names}.")


async def recorded_runs(  # noqa: PLR0913 - what selects them
    conn: Connection,
    attachment: int,
    states: Sequence[RunState],
    limit: int,
    *,
    before: int | None = None,
    runs: Sequence[int] | None = None,
    corrected: bool = False,
    scored: bool = False,
) -> list[Found]:
    """Return ended runs with their changes, steps, corrections and score, newest first.

    Args:
        before: only runs with a lower ID.
        runs: only these; None: all.
        corrected: only those of which somebody has changed what they wrote.
        scored: only those that people have scored.
    """
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        query("replayed_runs"),
        {
            "attachment": attachment,
            "states": list(states),
            "limit": limit,
            "before": before,
            "runs": None if runs is None else list(runs),
            "corrected": corrected,
            "scored": scored,
        },
    )
    return await cursor.fetchall()


async def version(conn: Connection, attachment: int, number: int) -> Attachment | None:
    """Load a version of an attachment; None: it was removed."""
    cursor = await conn.execute(
        "select definition from agent.attachment_version where attachment_id = %s and version = %s",
        [attachment, number],
    )
    row = await cursor.fetchone()
    return row and Attachment.from_json(row[0])


async def columns(conn: Connection, relation_oid: int) -> list[list[str]]:
    """Return the names and types of the columns of a table, by name."""
    cursor = await conn.execute(
        "select attname::text, pg_catalog.format_type(atttypid, atttypmod)"
        "  from pg_catalog.pg_attribute"
        " where attrelid = %s and attnum > 0 and not attisdropped order by 1",
        [relation_oid],
    )
    return [[name, type_] for name, type_ in await cursor.fetchall()]


async def tenant(conn: Connection) -> str:
    """Return the tenant of the session."""
    cursor = await conn.execute("select agent.current_tenant()")
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - one row of a select without from
    return row[0]


async def begin(conn: Connection, new: NewEvaluation) -> int:
    """Insert an evaluation that this process holds; return its ID."""
    cursor = await conn.execute(
        "insert into agent.evaluation (attachment, agent, model, judge, dataset, draft,"
        " planned, tenant, held_until, made_by)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, agent_internal.now() + %s,"
        "         coalesce(agent.current_principal(), session_user)) returning id",
        [
            new.attachment, new.agent, new.model, new.judge, new.dataset, LossyJson(new.draft),
            new.planned, new.tenant, HELD,
        ],
    )  # fmt: skip
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - it was just inserted
    return row[0]


async def hold(conn: Connection, evaluation: int) -> None:
    """Extend the time for which this process holds an evaluation."""
    await conn.execute(
        "update agent.evaluation set held_until = agent_internal.now() + %s where id = %s",
        [HELD, evaluation],
    )


async def record(conn: Connection, evaluation: int, case: Mapping[str, Any]) -> None:
    """Store a case: the columns of agent.evaluation_case."""
    await conn.execute(
        "insert into agent.evaluation_case (evaluation_id, number, run_id, case_id, key, recorded,"
        " candidate, agrees, expected, was_right, is_right, verdict, tenant)"
        " select %s, number, run_id, case_id, key, recorded, candidate, agrees, expected,"
        "        was_right, is_right, verdict, tenant"
        "   from jsonb_populate_record(null::agent.evaluation_case, %s)",
        [evaluation, LossyJson(case)],
    )


async def end(conn: Connection, evaluation: int, error: str | None = None) -> None:
    """Record the end of an evaluation, and why it was broken off, if it was."""
    await conn.execute(
        "update agent.evaluation set ended_at = agent_internal.now(), error = %s where id = %s",
        [None if error is None else LossyText(error), evaluation],
    )


async def delete(conn: Connection, ids: Sequence[int]) -> list[int]:
    """Delete evaluations with their cases; return the IDs of those that existed."""
    cursor = await conn.execute(
        "delete from agent.evaluation where id = any (%s) returning id", [list(ids)]
    )
    return [row[0] for row in await cursor.fetchall()]


async def reserve(  # noqa: PLR0913, PLR0917 - whose call, of what, and the most it can cost
    conn: Connection, evaluation: int, tenant: str, model: str, tokens: int, cost: Decimal | None
) -> int | Refusal:
    """Reserve the most that a call can cost in the budgets that apply; return its number."""
    cursor = await conn.execute(
        "select agent_internal.reserve_charge(%s, %s, %s, %s, %s)",
        [evaluation, tenant, model, tokens, cost],
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - one row of a select without from
    return row[0]["call"] if "call" in row[0] else Refusal.from_json(row[0])


async def settle(conn: Connection, call: int, tokens: int | None, cost: Decimal | None) -> None:
    """Replace a reservation by what the call used; None: unknown, and counts as reserved."""
    await conn.execute("select agent_internal.settle_charge(%s, %s, %s)", [call, tokens, cost])


async def find_dataset(conn: Connection, name: str) -> Found:
    """Return a dataset: id, name, attachment, relation, columns, source.

    Raises:
        ConfigError: there is none.
    """
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select * from agent.dataset where tenant = agent.current_tenant() and name = %s", [name]
    )
    found = await cursor.fetchone()
    if found is None:
        raise ConfigError(
            f'dataset "{name}" does not exist',
            hint="Use walagent evaluations datasets to list datasets.",
        )
    return found


async def cases_of(conn: Connection, dataset: int) -> list[Found]:
    """Return the cases of a dataset in order of ID."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select id as case_id, run_id, key, change, merged, expected, tenant"
        "  from agent.dataset_case where dataset_id = %s order by id",
        [dataset],
    )
    return await cursor.fetchall()


async def create_dataset(
    conn: Connection, dataset: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]
) -> int:
    """Insert a dataset with its cases, in the caller's transaction; return its ID.

    Raises:
        ConfigError: the name is taken.
    """
    cursor = await conn.execute(
        "insert into agent.dataset (name, attachment, relation, columns, source, tenant, made_by)"
        " select name, attachment, relation, columns, source, tenant,"
        "        coalesce(agent.current_principal(), session_user)"
        "   from jsonb_populate_record(null::agent.dataset, %s)"
        " on conflict do nothing returning id",
        [LossyJson(dataset)],
    )
    row = await cursor.fetchone()
    if row is None:
        raise ConfigError(
            f'dataset "{dataset["name"]}" exists',
            hint="Choose another name, or run walagent evaluations datasets drop.",
        )
    await conn.execute(
        "insert into agent.dataset_case"
        " (dataset_id, key, change, merged, run_id, expected, labelled_by, labelled_at, tenant)"
        " select %s, c.key, c.change, coalesce(c.merged, '[]'), c.run_id, c.expected,"
        "        case when c.expected is not null"
        "             then coalesce(agent.current_principal(), session_user) end,"
        "        case when c.expected is not null then agent_internal.now() end, c.tenant"
        "   from jsonb_populate_recordset(null::agent.dataset_case, %s) with ordinality c"
        "  order by c.ordinality",
        [row[0], LossyJson(list(cases))],
    )
    return row[0]


async def drop_dataset(conn: Connection, dataset: int) -> None:
    """Delete a dataset with its cases."""
    await conn.execute("delete from agent.dataset where id = %s", [dataset])


async def label(conn: Connection, case: int, expected: Mapping[str, Json] | None) -> None:
    """Say what is expected of a run on the change of a case; None: nothing."""
    parameter = None if expected is None else Jsonb(expected)
    await conn.execute("select agent.label_case(%s, %s)", [case, parameter])
