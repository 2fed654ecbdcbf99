"""What a token is not for: no function, table or verb makes it so."""

import json

import pytest
from psycopg import AsyncConnection

from tests.attacks.test_functions import FUNCTIONS, application
from tests.attacks.test_matrix import OWN, Stage, attempt, calls, names_in, some, stage
from tests.helpers.database import refused, role, rows, run_all, session, value
from tests.helpers.people import acting, person, token_of
from tests.helpers.people import application as application_of
from walagent.console.sessions import exchange, make_code
from walagent.http.exchange import RefusedError
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


@pytest.mark.parametrize("most", [3, pytest.param(10_000, marks=pytest.mark.slow)])
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


LABELLED = """
select token from agent.create_token('ann', 'console link', '{read}', now() + interval '5 min')
"""


async def test_a_token_that_administers_makes_no_link(conn: AsyncConnection, dsn: str) -> None:
    """A label is free: by one, no code is exchanged for a session with other scopes."""
    await person(conn, "ann", "admin")
    token = await token_of(conn, "ann", "read", "admin")
    async with application_of(conn, dsn) as app:
        async with app.transaction():
            await app.execute("select agent.act_as(%s)", [token])
            code = await value(app, LABELLED)
        with pytest.raises(RefusedError):
            async with conn.transaction():
                await exchange(conn, str(code))
        async with acting(app, token):
            await refused(
                app, "select code from agent_internal.make_link('5 minutes')", state="42501"
            )


async def test_a_login_that_is_no_admin_makes_no_link(conn: AsyncConnection, dsn: str) -> None:
    """What the login may not do, its principal would do on the page."""
    async with role(conn) as login:
        await run_all(
            conn,
            f"select agent.grant_viewer('{login}');"
            f"select agent.create_principal('ann', login => '{login}');"
            "select agent.grant_role('ann', 'approver')",
        )
        async with session(dsn, user=login) as own:
            code = await value(own, LABELLED)
            await refused(
                own, "select code from agent_internal.make_link('5 minutes')", state="42501"
            )
            with pytest.raises(RefusedError):
                async with conn.transaction():
                    await exchange(conn, str(code))
            await run_all(conn, "select agent.grant_role('ann', 'admin')")
            async with own.transaction():
                made = await make_code(own)
        async with conn.transaction():
            assert await exchange(conn, made.text)
        await run_all(conn, "update agent.principal set login = null")
