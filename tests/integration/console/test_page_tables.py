"""Rows of tables on the console's page: a principal sees what its own login can read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, role, run_all
from tests.helpers.people import person
from tests.helpers.shapes import Served, serving
from walagent.config import Replication
from walagent.message import Json
from walagent.replication.bootstrap import ensure_slot

TABLES = """
create table salary (id bigint primary key, employee text, amount int);
insert into agent.model (name, provider, model_id, base_url)
values ('one', 'scripted', 'one', '/none');
select agent.attach('salary', 'name=audit, model=one, system_prompt="Check it."');
insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                       committed_at, change, key)
select a.id, a.id, a.version, 1, '0/1', n, now(),
       jsonb_build_object(
           'schema', 'public', 'table', 'salary', 'op', 'insert', 'old', null,
           'new', jsonb_build_object('id', n, 'employee', 'e' || n, 'amount', 1000 * n)), n::text
  from agent.attachment a, generate_series(1, 2) n;
"""
OTHERS = """
select agent.attach('salary', 'name=rich, model=one, system_prompt="Check it.",
                              when="new.amount > 5000"');
insert into salary values (1, 'e1', 1000), (3, 'e3', 3000);
update agent.principal set login = '{login}' where name = 'vic';
grant select on salary to {login};
"""
THEIRS = """
select agent.attach('salary', 'name=rich, model=one, system_prompt="Check it."');
select agent.attach('salary', 'name=theirs, model=one, system_prompt="Check it."');
"""
RENAMED = """
alter table salary rename to salary_2025;
create table salary (id bigint primary key, employee text, amount int);
grant select on salary to {login};
"""


@asynccontextmanager
async def people(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[Served, str, str]]:
    """A watched table with two runs; a viewer with a login without a privilege."""
    await run_all(conn, TABLES)
    vic = await person(conn, "vic", "viewer")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with role(conn) as login:
        async with serving(conn, dsn) as served:
            yield served, vic, login
        await run_all(conn, "update agent.principal set login = null")
        await run_all(conn, f"drop owned by {login}")
        await run_all(conn, "delete from agent.attachment; delete from agent.agent")


async def seen(served: Served, token: str, relation: str = "public.salary", key: str = "") -> Json:
    """Return the contents by key."""
    answer = await served.query(token, "console.table_rows", relation=relation, key=key)
    assert answer.status_code == 200, answer.text
    return {row["key"]: row["content"] for row in answer.json()["rows"]}


async def refusal(served: Served, token: str) -> Json:
    """Return why the table's rows are not shown."""
    answer = await served.query(token, "console.tables")
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["rows"]
    return row["refusal"]


ALL: Json = {
    "2": {"id": 2, "employee": "e2", "amount": 2000},
    "1": {"id": 1, "employee": "e1", "amount": 1000},
}


@pytest.mark.slow
async def test_a_row_is_shown_to_logins_that_can_read_the_table(
    conn: AsyncConnection, dsn: str
) -> None:
    """Without a login, a role that exists, a privilege on the table, or its schema: no row."""
    async with people(conn, dsn) as (served, vic, login):
        assert (await seen(served, vic), await refusal(served, vic)) == ({}, "login")
        await run_all(conn, "update agent.principal set login = 'nobody_at_all'")
        assert (await seen(served, vic), await refusal(served, vic)) == ({}, "login")
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        assert (await seen(served, vic), await refusal(served, vic)) == ({}, "grant")
        assert await seen(served, vic, key="1") == {}
        await run_all(conn, f"grant select on salary to {login}")
        await run_all(conn, "revoke usage on schema public from public")
        assert (await seen(served, vic), await refusal(served, vic)) == ({}, "grant")
        await run_all(conn, "grant usage on schema public to public")
        assert (await seen(served, vic), await refusal(served, vic)) == (ALL, None)
        assert await seen(served, vic, key="1") == {
            "1": {"id": 1, "employee": "e1", "amount": 1000}
        }
        await run_all(conn, f"revoke select on salary from {login}")
        assert (await seen(served, vic), await refusal(served, vic)) == ({}, "grant")


@pytest.mark.slow
async def test_columns_that_the_login_cannot_read_are_left_out(
    conn: AsyncConnection, dsn: str
) -> None:
    """And a key that it cannot read finds nothing: it could be guessed."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(
            conn,
            f"update agent.principal set login = '{login}' where name = 'vic';"
            f"grant select (employee) on salary to {login}",
        )
        assert await seen(served, vic) == {}
        assert await seen(served, vic, key="1") == {}
        await run_all(conn, f"grant select (id) on salary to {login}")
        shown = {key: {"id": int(key), "employee": f"e{key}"} for key in ("2", "1")}
        assert (await seen(served, vic), await refusal(served, vic)) == (shown, None)


async def test_policies_apply_to_no_row_of_the_past(conn: AsyncConnection, dsn: str) -> None:
    """A login that policies apply to sees no row; the owner does, unless they are forced on it."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(
            conn,
            f"update agent.principal set login = '{login}' where name = 'vic';"
            f"grant select on salary to {login}; alter table salary enable row level security;"
            "create policy mine on salary using (employee = 'e1')",
        )
        assert (await seen(served, vic), await refusal(served, vic)) == ({}, "policy")
        owner = conn.info.user
        await run_all(conn, f"alter table salary owner to {login}")
        assert (await seen(served, vic), await refusal(served, vic)) == (ALL, None)
        await run_all(conn, "alter table salary force row level security")
        assert (await seen(served, vic), await refusal(served, vic)) == ({}, "policy")
        await run_all(conn, f'alter table salary owner to "{owner}"')


async def test_the_name_of_a_table_gives_no_right_to_rows_of_another(
    conn: AsyncConnection, dsn: str
) -> None:
    """Changes name the table as it was called; a readable table of that name is another one."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        await run_all(conn, RENAMED.format(login=login))
        assert await seen(served, vic) == {}
        assert await seen(served, vic, "public.salary_2025") == {}


@pytest.mark.few(2)
@pytest.mark.parametrize("relation", ["", "salary", "no.such", "public.salary' or true --", 'a."'])
async def test_a_table_that_does_not_exist_has_no_rows(
    conn: AsyncConnection, dsn: str, relation: str
) -> None:
    """Names are values."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(
            conn,
            f"update agent.principal set login = '{login}'; grant select on salary to {login}",
        )
        assert await seen(served, vic, relation) == {}


async def why(
    served: Served, token: str, key: str = "1", relation: str = "public.salary"
) -> httpx.Response:
    """Ask for reasons, as the page does."""
    url = f"http://127.0.0.1:{served.port}/v1/why"
    headers = {"authorization": f"Bearer {token}"}
    return await served.http.get(url, params={"relation": relation, "key": key}, headers=headers)


@pytest.mark.slow
async def test_reasons_are_those_of_the_command(conn: AsyncConnection, dsn: str) -> None:
    """A row with a run and one without, whose condition is false now; of one tenant."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(conn, OTHERS.format(login=login))
        bob = await person(conn, "bob", "admin", tenant="b")
        async with conn.transaction():
            await conn.execute("select agent.act_as(%s)", (bob,))
            await run_all(conn, THEIRS)
        assert len(await column(conn, "select name from agent.attachment where name = 'rich'")) == 2
        found = (await why(served, vic)).json()
        matched, rich = found["verdicts"]
        assert (matched["attachment"], matched["verdict"]) == ("audit", "matched")
        assert (rich["attachment"], rich["verdict"]) == ("rich", "no run")
        found = (await why(served, vic, "3")).json()
        assert found["present"] is True
        verdicts = {each["attachment"]: each["reasons"] for each in found["verdicts"]}
        assert {*verdicts} == {"audit", "rich"}
        assert [each["rule"] for each in verdicts["rich"]].count("condition") == 1
        assert "theirs" not in str(found)
        assert (await why(served, vic, "99")).json()["present"] is not True
        wrong = await why(served, vic, "no number")
        assert (wrong.status_code, "primary key" in wrong.text) == (400, True)
        await run_all(conn, "delete from agent.attachment where tenant = 'b'")


async def test_reasons_are_for_logins_that_read_the_whole_row(
    conn: AsyncConnection, dsn: str
) -> None:
    """A condition says something of columns, and an error of it more; runs need the role viewer."""
    async with people(conn, dsn) as (served, vic, login):
        assert (await why(served, "nobody")).status_code == 401
        assert (await why(served, vic)).status_code == 403
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        assert (await why(served, vic)).status_code == 403
        await run_all(conn, f"grant select (id, employee) on salary to {login}")
        assert (await why(served, vic)).status_code == 403
        await run_all(conn, f"grant select on salary to {login}")
        assert (await why(served, vic)).json()["verdicts"]
        assert (await why(served, vic, relation="public.no_such")).status_code == 404
        assert (await why(served, vic, key="")).status_code == 400
        nob = await person(conn, "nob")
        await run_all(conn, "update agent.principal set login = null")
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'nob'")
        assert (await why(served, nob)).status_code == 403
