"""A key that a caller chooses tells nothing about other tenants."""

from collections.abc import Sequence
from typing import cast
from uuid import UUID

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.database import message_of, role, rows, run_all, value
from tests.helpers.people import acting, application, person
from walagent.store.people import threads

# Unique indexes of tables with a tenant whose key lacks it: of two tenants, only one can have it.
ACROSS = """
select c.oid::regclass::text, x.indexrelid::regclass::text,
       array_agg(a.attname::text order by a.attname),
       bool_or(a.atttypid = any ('{bigint,integer}'::regtype[]))
  from pg_index x
       join pg_class c on c.oid = x.indrelid
       join pg_attribute a on a.attrelid = c.oid and a.attnum = any (x.indkey::int2[])
 where x.indisunique
   and c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and exists (select from pg_attribute t where t.attrelid = c.oid and t.attname = 'tenant')
 group by 1, 2
having not array_agg(a.attname) && '{tenant,scope}'
 order by 1, 2
"""
# Not numbers of sequences, and no caller chooses them: random, made of numbers, the
# operator's, or the reader's.
MADE = {
    "agent.principal_id_key",
    "agent.principal_login_key",
    "agent.token_digest_key",
    "agent_internal.batch_item_custom_id_key",
    "agent_internal.last_write_pkey",
    "agent_internal.login_pkey",
}
_Index = tuple[str, str, list[str], bool]
_Function = tuple[str, int, list[str]]
CAPABILITIES = ("viewer", "developer", "approver", "asker", "member")
ID, MEMBERSHIP, EVENT = (f"00000000-0000-4000-8000-00000000000{n}" for n in range(1, 4))
OPEN = f"select agent.open_thread('{{}}', id => '{ID}', membership => '{MEMBERSHIP}')"
POST = f"select (agent.post('{ID}', '{{}}', '{EVENT}')).number"

THEIRS = """
alter sequence agent.run_id_seq restart 765431;
alter sequence agent.approval_id_seq restart 765433;
alter sequence agent.budget_id_seq restart 765432;
insert into agent.model (tenant, name, provider, model_id)
values ('umbra', 'their_dark', 'scripted', 'x');
insert into agent.persona (tenant, name, model) values ('umbra', 'their_ghost', 'their_dark');
insert into agent.agent (tenant, name, model) values ('umbra', 'their_spy', 'their_dark');
insert into agent.channel (tenant, name, kind, target)
values ('umbra', 'their_mail', 'email', 'a@b.test');
insert into agent.session (tenant, id, owner) values ('umbra', 'their_talk', 'their_eve');
insert into agent.budget (tenant, name, max_cost) values ('umbra', 'their_purse', 5);
"""
FUNCTIONS = """
select p.oid::regproc::text, p.pronargs - p.pronargdefaults,
       array(select format_type(t, null) from unnest(p.proargtypes) t)
  from pg_proc p
 where p.pronamespace = 'agent'::regnamespace and p.prokind = 'f' and p.pronargs between 1 and 8
   and p.prorettype <> 'trigger'::regtype and has_function_privilege(p.oid, 'execute')
   and p.proname <> 'act_as'
 order by 1
"""
ABSENT = {
    "uuid": "99999999-0000-4000-8000-000000000009",
    "bigint": "987654",
    "text": "nothere",
    "name": "nobody",
}
FILLERS = {"boolean": "true", "integer": "1", "numeric": "1", "jsonb": "{}", "name[]": "{}"}


async def test_no_caller_can_choose_a_key_that_is_unique_across_tenants(
    conn: AsyncConnection,
) -> None:
    """Such keys are numbers, or named here; nobody but the runner writes them."""
    indexes = cast("list[_Index]", await rows(conn, ACROSS))
    assert {index for _, index, _, is_number in indexes if not is_number} == MADE
    for capability in CAPABILITIES:
        async with role(conn) as name:
            await run_all(conn, f"select agent.grant_{capability}('{name}')")
            for table, _, columns, _ in indexes:
                for column in columns:
                    for privilege in ("insert", "update"):
                        ask = "select has_column_privilege(%s, %s, %s, %s)"
                        assert not await value(conn, ask, name, table, column, privilege), (
                            f"{capability}: {privilege} of {table}.{column}"
                        )


async def test_two_tenants_can_choose_one_id(conn: AsyncConnection, dsn: str) -> None:
    """Also principals of one name: each has a thread, an event and a membership of its own."""
    eve = await person(conn, "boss", "admin", tenant="umbra")
    boss = await person(conn, "boss", "admin", tenant="acme")
    async with application(conn, dsn) as app:
        for token, word in ((eve, "theirs"), (boss, "ours"), (boss, "ours")):
            async with app.transaction():
                await app.execute("select agent.act_as(%s)", [token])
                assert str(await value(app, OPEN.format(word))) == ID
                assert await value(app, POST.format(word)) == 2
        for token, word in ((eve, "theirs"), (boss, "ours")):
            async with acting(app, token):
                shown = await threads.show(app, UUID(ID), 10)
                assert (shown["title"], shown["latest"][-1]["data"]) == (word, {"text": word})
    await run_all(conn, f"select agent.create_principal('operator_of_all'); {OPEN.format('mine')}")
    assert (await threads.show(conn, UUID(ID), 10))["title"] == "mine"


async def _keys(conn: AsyncConnection, eve: str) -> dict[str, list[str]]:
    """Make something of each kind in the tenant umbra; return its keys by type."""
    await run_all(conn, THEIRS)
    async with conn.transaction():
        await conn.execute("select agent.act_as(%s)", [eve])
        await run_all(conn, f"{OPEN.format('theirs')}; {POST.format('theirs')}")
        await run_all(conn, "select agent.create_team('their_gang')")
    await conn.execute(
        "insert into agent.run (tenant, kind, queue_id, reason, change, key, state, principal)"
        " select 'umbra', 'agent', q.id, 'manual', '{}', 'k', 'failed', 'their_eve'"
        " from agent_internal.queue q limit 1"
    )
    await conn.execute(
        "insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at)"
        " select id, 'c', 'x', '{}', 'd', 'postgres', now() + interval '1 day'"
        " from agent.run where tenant = 'umbra'"
    )
    numbers = await rows(
        conn,
        "select r.id::text from agent.run r where r.tenant = 'umbra'"
        " union all select b.id::text from agent.budget b where b.tenant = 'umbra'"
        " union all select a.id::text from agent.approval a where a.tenant = 'umbra'",
    )
    tokens = await rows(
        conn,
        "select id::text from agent.token where tenant = 'umbra'"
        " union all select id::text from agent.principal where tenant = 'umbra'",
    )
    words = ["eve", "dark", "ghost", "spy", "mail", "talk", "purse", "gang"]
    names = ["umbra", *(f"their_{word}" for word in words)]
    return {
        "bigint": [str(n) for (n,) in numbers],
        "uuid": [ID, EVENT, MEMBERSHIP, *(str(t) for (t,) in tokens)],
        "text": names,
        "name": names,
    }


async def _outcome(app: AsyncConnection, name: str, types: Sequence[str], key: str, of: str) -> str:
    arguments = [key if t == of else FILLERS.get(t, ABSENT.get(t)) for t in types]
    call = f"select * from {name}({', '.join(f'%s::{t}' for t in types)})"
    try:
        async with app.transaction(force_rollback=True):
            cursor = await app.execute(call.encode(), arguments)
            found = str(cursor.rowcount)
    except Error as error:
        said = error.diag
        found = f"{error.sqlstate} {message_of(error)} {said.message_detail} {said.constraint_name}"
    return found.replace(key, "KEY")


@pytest.mark.slow
async def test_a_key_of_another_tenant_is_answered_as_one_that_does_not_exist(
    conn: AsyncConnection, dsn: str
) -> None:
    """By each function that people can call, in each argument of its type."""
    boss = await person(conn, "boss", "admin", "developer", "approver", tenant="acme")
    eve = await person(conn, "their_eve", "admin", tenant="umbra")
    keys = await _keys(conn, eve)
    async with application(conn, dsn, "developer", "approver", "asker") as app:
        for name, required, types in cast("list[_Function]", await rows(app, FUNCTIONS)):
            for given in {tuple(types[:required]), tuple(types)}:
                for of in {*given} & {*keys}:
                    for key in keys[of]:
                        # As long as the key: a message can have a position.
                        other = ABSENT[of] if of in {"uuid", "bigint"} else "z" * len(key)
                        async with acting(app, boss):
                            absent = await _outcome(app, name, given, other, of)
                            told = await _outcome(app, name, given, key, of)
                            assert told == absent, f"{name}({given}) with {key}"
