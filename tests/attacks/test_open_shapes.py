"""Code of the owner of an open table: it stays a login that can do nothing else."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, run_all, value
from tests.helpers.owned_table import owned_table
from tests.helpers.people import person
from tests.helpers.shapes import Follower, serving
from walagent.errors import PreconditionError
from walagent.store.sessions.connections import connect
from walagent.store.sessions.rows_login import check_rows_login, let_read
from walagent.sync.pool import OpenRows, RowPool
from walagent.sync.query import NamedQuery

TABLE = "owned.prices"
NAMED = {
    "table": NamedQuery("table", "select id, n from owned.prices where n > 3", ("id",)),
    "function": NamedQuery("function", "select owned.plain('x') as id", ("id",)),
    "type": NamedQuery("type", "select 1::owned.number as id", ("id",)),
    "literal": NamedQuery(
        "literal", "select 1 as id where '{1}'::owned.number[] is not null", ("id",)
    ),
    "named literal": NamedQuery(
        "named literal", "select 1 as id where owned._number '{1}' is not null", ("id",)
    ),
}


async def test_the_owner_of_an_open_table_becomes_nobody(conn: AsyncConnection, dsn: str) -> None:
    """By the check of a condition, the snapshot, a subset and the stream; and it is executed."""
    async with owned_table(conn) as owned:
        await run_all(conn, f"alter publication walagent add table {TABLE}")
        async with serving(conn, dsn) as served:
            for where in ("", "n > 3", "n + 1 > 5 and kind = 'a'", "kind ilike 'A'"):
                given = {"where": where} if where else {}
                answer = await served.get(table=TABLE, offset="-1", **given)
                assert answer.status_code == 200, answer.text
            subset = {"subset__where": "n > 5", "subset__order_by": "n", "subset__limit": "3"}
            await served.get(table=TABLE, offset="-1", **subset)
            written = f"update {TABLE} set n = n + 1; insert into {TABLE} values (0, 7)"
            await run_all(conn, f"set role {owned.owner}; {written}; reset role")
            await asyncio.sleep(1)
            for name in ("owned.stock", "owned.parted", "owned.shown"):
                await served.get(table=name, offset="-1")
        assert owned.escapes == []
        seen = {line.partition(" as ")[0] for line in owned.lines}
        assert {"index", "index predicate"} <= seen, owned.lines
        assert not [line for line in owned.lines if f"of {conn.info.user}" in line], owned.lines


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMED)
async def test_a_named_shape_is_judged_before_it_is_planned(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """One without run_as is walagent's alone: nothing of others is executed to find that out."""
    async with owned_table(conn) as owned, serving(conn, dsn, queries=NAMED) as served:
        token = await person(conn, "ann")
        for _ in range(2):
            answer = await served.get(path=name, token=token, offset="-1")
            assert (answer.status_code, "set run_as" in answer.text) == (400, True), answer.text
            assert f" of {owned.owner}, which is not walagent's" in answer.text
        assert owned.lines == []


ASSUME = "agent_internal.assume(text, name, text[], timestamptz)"
MORE = (
    "alter role {0} replication",
    "alter role {0} createdb",
    "grant insert on note to {0}",
    "grant trigger on note to {0}",
    "alter table note owner to {0}",
    "grant pg_read_all_data to {0}",
    "grant create on schema agent to {0}",
    "select agent.grant_member('{0}')",
    f"grant execute on function {ASSUME} to {{0}}",
)


@pytest.mark.few(3)
@pytest.mark.parametrize("more", MORE)
async def test_a_login_that_has_more_reads_no_open_table(
    conn: AsyncConnection, dsn: str, more: str
) -> None:
    """Where no other login can be made: with SELECT alone it may."""
    await run_all(conn, "create table note (id int primary key)")
    async with role(conn) as name:
        url = make_conninfo(dsn, user=name)
        await run_all(conn, f"grant usage on schema agent, agent_internal to {name}")
        await check_rows_login(url)
        await run_all(conn, more.format(name))
        with pytest.raises(PreconditionError, match="has more") as refused:
            await check_rows_login(url)
        assert "DATABASE_ROWS_URL" in refused.value.hint
        await run_all(conn, "alter table note owner to current_user")


async def test_a_login_that_a_reload_put_in_place_is_checked_too(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its password can be another as well: the next use finds out."""
    await run_all(conn, "create table note (id int primary key)")
    async with role(conn) as plain, role(conn) as strong:
        for name in (plain, strong):
            await run_all(conn, f"grant usage on schema agent, agent_internal to {name}")
        await run_all(conn, f"grant insert on note to {strong}")
        given = [make_conninfo(dsn, user=plain)]
        rows = OpenRows(RowPool(lambda: dsn), lambda: given[-1])
        running = asyncio.create_task(rows.run())
        async with rows.connection() as used:
            assert used.info.user == plain
            # Nothing is prepared by name here, where code of others could replace it.
            for _ in range(12):
                await used.execute("select %s::int", [1])
            assert await value(used, "select count(*) from pg_prepared_statements") == 0
        given.append(make_conninfo(dsn, user=strong))
        with pytest.raises(PreconditionError, match="has more"):
            async with rows.connection():
                pass
        running.cancel()
        await asyncio.wait([running])
        await run_all(conn, f"revoke insert on note from {strong}")


@pytest.mark.parametrize(
    "made",
    ["create view hidden as select 1 as id", "create table hidden (id int primary key)"],
)
async def test_the_login_gets_no_right_to_what_is_no_open_table(
    conn: AsyncConnection, dsn: str, made: str
) -> None:
    """Not to views, to tables with row-level security, nor to walagent's own."""
    await run_all(conn, made)
    if "table" in made:
        await run_all(conn, "alter table hidden enable row level security")
    async with role(conn) as name:
        url = make_conninfo(dsn, user=name)
        for schema, table in (("public", "hidden"), ("agent", "run"), ("agent_internal", "secret")):
            await let_read(conn, url, schema, table)
            may = f"select has_table_privilege('{name}', '{schema}.{table}', 'select')"
            assert not await value(conn, may)


@pytest.mark.parametrize("tables", [1, 6])
async def test_tables_that_are_first_asked_for_at_once_are_let_one_after_another(
    conn: AsyncConnection, dsn: str, tables: int
) -> None:
    """PostgreSQL fails all but one of the grants that change a row of its catalog at once."""
    await run_all(conn, "create schema apart")
    async with role(conn) as name, AsyncExitStack() as stack:
        url = make_conninfo(dsn, user=name)
        asking = [await stack.enter_async_context(await connect(dsn)) for _ in range(6)]
        for turn in range(4):
            names = [f"new_{turn}_{number % tables}" for number in range(len(asking))]
            for each in set(names):
                await run_all(conn, f"create table apart.{each} (id int primary key)")
            each_asks = zip(asking, names, strict=True)
            await asyncio.gather(*(let_read(c, url, "apart", each) for c, each in each_asks))
            for each in names:
                may = f"select has_table_privilege('{name}', 'apart.{each}', 'select')"
                assert await value(conn, may)


STEALS = """
create function owned.prepares(int) returns boolean language plpgsql immutable as $$
begin
    for n in 0 .. 30 loop
        begin
            execute format('deallocate _pg3_%s', n);
        exception when others then null;
        end;
        begin
            execute format('prepare _pg3_%s as select ''999999999:999999999:''::text', n);
        exception when others then null;
        end;
    end loop;
    perform set_config('search_path', 'owned, pg_catalog', false);
    raise warning 'OWNED thief as %', current_user;
    return true;
end $$;
create function owned.pg_current_snapshot() returns text language plpgsql as $$
begin
    raise warning 'OWNED snapshot as %', current_user;
    return '999999999:999999999:';
end $$;
create index on owned.prices (n) where owned.prepares(1);  -- a constant is calculated by planning
select pg_advisory_lock(1);
"""


async def test_code_of_one_open_table_falsifies_no_other(conn: AsyncConnection, dsn: str) -> None:
    """What it prepares or leaves in the session is not what the next use finds."""
    async with owned_table(conn) as owned:
        await run_all(conn, "create table honest (id int primary key, n int)")
        await run_all(conn, "insert into honest values (1, 1), (2, 2)")
        await run_all(conn, f"set role {owned.owner}; {STEALS} reset role")
        await run_all(conn, f"alter publication walagent add table {TABLE}, honest")
        async with serving(conn, dsn) as served:
            for n in range(12):
                await served.get(table=TABLE, offset="-1", where=f"n > {n}")
                client = Follower(served, table="honest", where=f"id < {100 + n}")
                await client.catch_up()
                await run_all(conn, f"update honest set n = {100 + n} where id = 1")
                await client.until(
                    {
                        '"public"."honest"/"1"': {"id": "1", "n": str(100 + n)},
                        '"public"."honest"/"2"': {"id": "2", "n": "2"},
                    }
                )
        reads = [line for line in owned.lines if owned.owner not in line]
        assert any(line.startswith("thief ") for line in reads), owned.lines
        assert not any(line.startswith("snapshot ") for line in owned.lines)
