"""What a token is not for: no function, table or verb makes it so."""

import json

import pytest

from tests.attacks.test_functions import FUNCTIONS, application
from tests.attacks.test_matrix import OWN, Stage, attempt, calls, names_in, some, stage
from tests.helpers.database import rows, session, value
from tests.helpers.people import token_of
from walagent.message import Json

__all__ = ["application", "stage"]

_OF_THEIR_OWNER = {
    f"{schema}.{table}"
    for schema, tables in {
        "agent": ("session", "question", "verified_query", "glossary"),
        "agent_internal": ("schema_index", "schema_table", "participation"),
    }.items()
    for table in tables
}
# How many rows this transaction has written; what is refused is rolled back, and counted.
_WRITTEN = """
select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_xact_user_tables
 where schemaname in ('agent', 'agent_internal')
"""


async def _rows(stage: Stage) -> list[tuple[Json, ...]]:
    """All rows of the tenant."""
    found = list[tuple[Json, ...]]()
    for table in stage.tables:
        query = f"select '{table}', to_jsonb(t) from {table} t where tenant = '{OWN}'"
        found += await rows(stage.conn, query)
    return sorted(found, key=str)


async def test_a_token_without_read_reads_nothing(stage: Stage) -> None:
    """Whatever its login and its principal may do."""
    scopes = ["post", "approve", "develop", "admin"]
    token = await token_of(stage.conn, "admin", *scopes, tenant=OWN)
    all_ = await token_of(stage.conn, "admin", tenant=OWN)
    async with session(stage.dsn, user=stage.logins["viewer"]) as conn:
        for given, expected in ((token, False), (all_, True)):
            for table in (*stage.tables, "agent.tenant"):
                if table in _OF_THEIR_OWNER and expected:
                    continue
                async with conn.transaction(force_rollback=True):
                    await conn.execute("select agent.act_as(%s)", [given])
                    _, text = await attempt(conn, f"select t from {table} t")
                    assert (OWN in text) is expected, f"{table}: {text}"


@pytest.mark.parametrize("most", [8, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_a_token_to_read_changes_nothing(stage: Stage, application: str, most: int) -> None:
    """Each function is called with IDs that there are, and each table written."""
    token = await token_of(stage.conn, "admin", "read", tenant=OWN)
    before = await _rows(stage)
    given = names_in(before)
    own = "select id::text from agent.token where scopes = '{read}'"
    given["uuid"].remove(str(await value(stage.conn, own)))  # a token can revoke itself
    changed = list[str]()
    async with session(stage.dsn, user=application) as conn:
        await conn.execute("set statement_timeout = '5s'")

        async def tried(statement: str, *values: Json) -> None:
            async with conn.transaction(force_rollback=True):
                await conn.execute("select agent.act_as(%s)", [token])
                already = await value(conn, _WRITTEN)
                count, _ = await attempt(conn, statement, *values)
                if count and await value(conn, _WRITTEN) != already:
                    changed.append(statement)

        for function, kinds in await rows(stage.conn, FUNCTIONS, application):
            assert isinstance(kinds, list)
            for statement, values in some(calls(str(function), kinds, given), most):
                await tried(statement, *values)
        for table in stage.tables:
            (row,) = [row for where, row in before if where == table][:1]
            await tried(f"update {table} set tenant = tenant")
            await tried(f"delete from {table}")
            await tried(
                f"insert into {table} select * from jsonb_populate_record(null::{table}, %s)",
                json.dumps(row),
            )
    assert set(changed) == set()
