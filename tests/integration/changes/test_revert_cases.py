"""Types, keys, constraints, triggers and DDL, one case each: what a revert does with each row."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, column, role, rows, run_all, value
from tests.integration.changes.test_revert import outcomes, revert
from walagent.models.script import call

T = "create table t (id bigint primary key, c {}, d text);".format
TOTAL = (
    "create table total (id int primary key, n int); insert into total values (1, 7);"
    "create table t (id int primary key, n int);"
    "create function f() returns trigger language plpgsql as $$ begin update total set n = total.n"
    " + case tg_op when 'INSERT' then new.n else -old.n end; return null; end $$;"
    "create trigger f after insert or delete on t for each row execute function f()"
)
CHANCE = (
    "create table total (id int primary key, n int); insert into total values (1, 2), (2, 0);"
    "create table t (id int primary key, g int); insert into t values (1, 1), (2, 1);"
    "create function f() returns trigger language plpgsql as $$ begin"
    " update total set n = total.n - 1 where id = old.g;"
    " update total set n = total.n + 1 where id = new.g; return null; end $$;"
    "create trigger f after update on t for each row execute function f()"
)
PARENT = (
    "create table a (id int primary key);"
    "create table t (id int primary key, a int references a on delete {})"
).format
PARTS = (
    "create table t (id int, p int, c text, primary key (id, p)) partition by list (p);"
    "create table t1 partition of t for values in (1);"
    "create table t2 partition of t for values in (2); insert into t values (1, 1, 'a')"
)


@dataclass(frozen=True)
class Case:
    """Tables and rows, what the run does, what others do since, the outcomes of its rows."""

    tables: str
    acts: str
    since: str
    outcomes: str


def text(  # noqa: PLR0917 - a line of a table
    kind: str, was: str, acts: str, since: str, found: str, before: str = ""
) -> Case:
    """Return a case of one row with a column of a type."""
    return Case(f"{before}{T(kind)} insert into t values (1, {was})", acts, since, found)


B = "update t set c = 'b'"
CASES = {
    "numeric, 1.0 and then 1.00": text(
        "numeric", "5", "update t set c = 1.0", "update t set c = 1.00", "refused"
    ),
    "numeric(10,2) written as 1.0": text(
        "numeric(10,2)", "5", "update t set c = 1.0", "", "restored"
    ),
    "json formatted anew": text(
        "json", "'{}'", "update t set c = '{\"a\":1}'", "update t set c = '{\"a\": 1}'", "refused"
    ),
    "json of the same text": text(
        "json", "'{}'", "update t set c = '{\"a\":1, \"a\":2}'", "update t set d = 'x'", "restored"
    ),
    "jsonb formatted anew": text(
        "jsonb", "'{}'", "update t set c = '{\"a\":1}'", "update t set c = '{ \"a\": 1}'",
        "restored",
    ),
    "float NaN": text("float8", "0.1", "update t set c = 'NaN'", "", "restored"),
    "float 1e20": text("float8", "1e15", "update t set c = 1e20", "", "restored"),
    "float4": text("float4", "1e6", "update t set c = 0.3", "", "restored"),
    "float 0 and then -0": text(
        "float8", "0.1", "update t set c = 0", "update t set c = '-0'", "refused"
    ),
    "box of the same area": text(
        "box", "'(0,0),(9,9)'", "update t set c = '(0,0),(2,2)'",
        "update t set c = '(0,0),(1,4)'", "refused",
    ),
    "array with NULL and bounds": text(
        "int[]", "'{1}'", "update t set c = '[0:1]={1,NULL}'", "", "restored"
    ),
    "NULL and then a value": text(
        "text", "'x'", "update t set c = null", "update t set c = ''", "refused"
    ),
    "row of NULLs is not NULL": text(
        "pair", "'(1,2)'", "update t set c = '(,)'", "update t set c = null", "refused",
        "create type pair as (a int, b int);",
    ),
    "row of NULLs": text(
        "pair", "'(1,2)'", "update t set c = '(,)'", "", "restored",
        "create type pair as (a int, b int);",
    ),
    "inet": text("inet", "'1.2.3.4'", "update t set c = '1.2.3.5'", "", "restored"),
    "bool": text("bool", "true", "update t set c = false", "", "restored"),
    "interval": text("interval", "'-1 day 2:03'", "update t set c = '1 mon'", "", "restored"),
    "timestamptz": text("timestamptz", "'2026-07-01'", "update t set c = now()", "", "restored"),
    "char(5)": text("char(5)", "'a'", B, "", "restored"),
    "another column": text("text", "'a', 'a'", B, "update t set d = 'b'", "restored"),
    "one of two columns": text(
        "text", "'a', 'a'", "update t set c = 'b', d = 'b'", "update t set d = 'c'", "refused"
    ),
    "already as before": text("text", "'a'", B, "update t set c = 'a'", "already"),
    "large value": Case(
        T("text") + "alter table t alter c set storage external;"
        "insert into t values (1, repeat('a', 9000), 'a')",
        "update t set c = repeat('b', 9000); update t set d = 'b'", "", "restored",
    ),
    "generated column": Case(
        "create table t (id bigint primary key, c int, d int generated always as (c * 2) stored);"
        "insert into t values (1, 5)", "update t set c = 6", "", "restored",
    ),
    "identity that is always generated": Case(
        "create table t (id bigint primary key generated always as identity, c text);"
        "insert into t (c) values ('a')", "delete from t", "", "restored",
    ),
    "unique value that is taken": Case(
        "create table t (id bigint primary key generated always as identity, c text unique);"
        "insert into t (c) values ('a')",
        "delete from t", "insert into t (c) values ('a')", "refused",
    ),
    "unique value passed on": Case(
        "create table t (id bigint primary key, c text unique); insert into t values (1, 'a')",
        "delete from t; insert into t values (2, 'a')", "", "restored restored",
    ),
    "unique values exchanged": Case(
        "create table t (id int primary key, c text unique);"
        "insert into t values (1, 'a'), (2, 'b')",
        "update t set c = 'x' where id = 1; update t set c = 'a' where id = 2;"
        "update t set c = 'b' where id = 1", "", "refused refused",
    ),
    "deferrable unique values exchanged": Case(
        "create table t (id int primary key, c text unique deferrable);"
        "insert into t values (1, 'a'), (2, 'b')",
        "update t set c = case c when 'a' then 'b' else 'a' end", "", "restored restored",
    ),
    "key changed by the run": text("text", "'a'", "update t set id = 2, c = 'b'", "", "restored"),
    "key changed since": text("text", "'a'", B, "update t set id = 2", "refused"),
    "deleted since": text("text", "'a'", B, "delete from t", "refused"),
    "inserted, then changed since": Case(
        T("text"), "insert into t values (1, 'a')", "update t set d = 'x'", "refused"
    ),
    "inserted, then a column added": Case(
        T("text"), "insert into t values (1, 'a')", "alter table t add e text default 'x'",
        "refused",
    ),
    "inserted and deleted by the run": Case(
        T("text") + "insert into t values (2, 'a')",
        f"insert into t values (1, 'a'); delete from t where id = 1; {B}", "", "restored",
    ),
    "cascade over three tables": Case(
        "create table a (id int primary key);"
        "create table t (id int primary key, a int references a on delete cascade);"
        "create table u (id int primary key, t int references t on delete cascade);"
        "insert into a values (1); insert into t values (1, 1); insert into u values (1, 1)",
        "delete from a", "", "restored restored restored",
    ),
    "tree": Case(
        "create table t (id int primary key, up int references t on delete cascade);"
        "insert into t values (1, null), (2, 1), (3, 2)",
        "delete from t where id = 1", "", "restored restored restored",
    ),
    "set null": Case(
        PARENT("set null") + "; insert into a values (1); insert into t values (1, 1)",
        "delete from a", "", "restored restored",
    ),
    "parent of others' children, cascade": Case(
        PARENT("cascade"), "insert into a values (1)", "insert into t values (1, 1)", "refused"
    ),
    "parent of others' children, set null": Case(
        PARENT("set null"), "insert into a values (1)", "insert into t values (1, 1)", "refused"
    ),
    "parent of others' children, no action": Case(
        PARENT("no action"), "insert into a values (1)", "insert into t values (1, 1)", "refused"
    ),
    "parent by a generated column": Case(
        "create table a (id int primary key, c text,"
        " g text generated always as (upper(c)) stored unique);"
        "create table t (id int primary key, g text references a (g) on delete cascade)",
        "insert into a values (1, 'x')", "insert into t values (1, 'X')", "refused",
    ),
    "parent is a partition": Case(
        PARTS + "; create table k (id int primary key, a int, p int,"
        " foreign key (a, p) references t1 on delete cascade)",
        "insert into t values (2, 1, 'b')", "insert into k values (1, 2, 1)", "refused",
    ),
    "key that others refer to, set null": Case(
        "create table a (id int primary key, c text unique); insert into a values (1, 'a');"
        "create table t (id int primary key, c text references a (c) on update set null)",
        "update a set c = 'b'", "insert into t values (1, 'b')", "refused",
    ),
    "key that others refer to, cascade": Case(
        "create table a (id int primary key, c text unique); insert into a values (1, 'a');"
        "create table t (id int primary key, c text references a (c) on update cascade)",
        "update a set c = 'b'", "insert into t values (1, 'b')", "restored",
    ),
    "rows of a child that inherits, inserted": Case(
        T("text"), "insert into t values (1, 'a')",
        "create table kid (primary key (id)) inherits (t); insert into kid values (1, 'a')",
        "restored",
    ),
    "rows of a child that inherits, updated": Case(
        T("text") + " insert into t values (1, 'a')", B,
        "create table kid (primary key (id)) inherits (t); insert into kid values (1, 'b')",
        "restored",
    ),
    "parent and child": Case(
        PARENT("cascade"), "insert into a values (1); insert into t values (1, 1)", "",
        "restored restored",
    ),
    "deferred key whose parent is gone": Case(
        "create table a (id int primary key); create table t (id int primary key,"
        " a int references a deferrable initially deferred);"
        "insert into a values (1), (2); insert into t values (1, 1)",
        "update t set a = 2", "delete from a where id = 1", "refused",
    ),
    "total kept by a trigger": Case(
        TOTAL, "insert into t values (1, 10)", "", "restored restored"
    ),
    "total to which others added": Case(
        TOTAL, "insert into t values (1, 10)", "insert into t values (2, 5)", "restored trigger"
    ),
    "total that holds by chance": Case(
        CHANCE, "update t set g = 2 where id = 1",
        "update t set g = 1 where id = 1; update t set g = 2 where id = 2",
        "refused restored restored",
    ),
    "one of two rows set back by hand": Case(
        T("text") + "insert into t values (1, 'a'), (2, 'a')", B,
        "update t set c = 'a' where id = 1", "already restored",
    ),
    "history written by a trigger": Case(
        "create table h (id int primary key generated always as identity, w text);"
        + T("text") + "insert into t values (1, 'a');"
        "create function f() returns trigger language plpgsql as $$ begin"
        " insert into h (w) values (old.c || new.c); return null; end $$;"
        "create trigger f after update on t for each row execute function f()",
        B, "", "restored restored",
    ),
    "time set by a trigger": Case(
        "create table t (id int primary key, c text, d text, at timestamptz);"
        "insert into t values (1, 'a');"
        "create function f() returns trigger language plpgsql as $$ begin"
        " new.at := clock_timestamp(); return new; end $$;"
        "create trigger f before update on t for each row execute function f()",
        B, "update t set d = 'x'", "restored",
    ),
    "trigger that keeps the row": Case(
        T("text") + "create function f() returns trigger language plpgsql as $$ begin"
        " return null; end $$;"
        "create trigger f before delete on t for each row execute function f()",
        "insert into t values (1, 'a')", "", "refused",
    ),
    "column and table renamed": text(
        "text", "'a'", B, "alter table t rename c to e; alter table t rename to v", "restored"
    ),
    "column renamed, and another has its name": text(
        "text", "'a', 'b'", B, "alter table t rename c to e; alter table t rename d to c",
        "restored",
    ),
    "column of another type": text(
        "numeric(10,2)", "1", "update t set c = 2", "alter table t alter c type numeric(12,4)",
        "restored",
    ),
    "value that the new type lacks": text(
        "text", "'a'", "update t set c = '2'", "alter table t alter c type int using c::int",
        "refused",
    ),
    "column dropped": text("text", "'a'", B, "alter table t drop c", "refused"),
    "column dropped and added again": text(
        "text", "'a'", B, "alter table t drop c; alter table t add c text default 'b'", "refused"
    ),
    "label of an enum renamed": text(
        "mood", "'good'", "update t set c = 'bad'", "alter type mood rename value 'bad' to 'worse'",
        "refused", "create type mood as enum ('good', 'bad');",
    ),
    "table dropped": text("text", "'a'", B, "drop table t", "refused"),
    "truncated by the run": text("text", "'a'", "truncate t", "", "refused"),
    "partition changed by the run": Case(
        PARTS, "update t set p = 2", "", "restored restored"
    ),
    "partition changed since": Case(PARTS, B, "update t set p = 2", "refused"),
    "check that came since": text(
        "text", "'a'", B, "alter table t add check (c <> 'a')", "refused"
    ),
    "privilege that was revoked": text(
        "text", "'a'", B, "revoke update on t from {app}; grant update (d) on t to {app}", "refused"
    ),
    "no privilege to delete": Case(
        T("text"), "insert into t values (1, 'a')", "revoke delete on t from {app}", "refused"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.few(12)
async def test_each_row_is_restored_or_refused(conn: AsyncConnection, dsn: str, name: str) -> None:
    """With replica identity full; a step is undone whole or not at all."""
    case = CASES[name]
    await run_all(conn, DESK)
    await run_all(conn, case.tables)
    tables = await column(
        conn,
        "select relname::text from pg_class where relnamespace = 'public'::regnamespace"
        " and relkind in ('r', 'p') and not relispartition and relname <> 'support_tickets'"
        " and exists (select from pg_index where indrelid = pg_class.oid and indisprimary)",
    )
    leaves = await column(
        conn, "select relname::text from pg_class where relispartition and relkind = 'r'"
    )
    for table in (*tables, *leaves):
        await run_all(conn, f"alter table {table} replica identity full")
    await run_all(
        conn,
        "create function act() returns text language plpgsql as $f$ begin"
        f" {case.acts}; return 'ok'; end $f$",
    )
    async with role(conn, "nologin") as app, daemon(conn, dsn, [call("act"), "done"]) as d:
        await run_all(
            conn,
            f"grant usage on schema public to {app};"
            f"grant all on all tables in schema public to {app};"
            f"grant all on all sequences in schema public to {app}",
        )
        await attach(conn, f"tools=[act], run_as={app}, name=desk")
        for table in tables:
            await run_all(
                conn,
                f"select agent.attach('{table}', 'model=fake, name={table},"
                ' on=[insert, update, delete], when="false"\')',
            )
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        await d.until("select count(*) > 0 from agent.row_change")
        await d.caught_up()
        for statement in filter(None, case.since.replace("{app}", app).split("; ")):
            await run_all(conn, statement)
        before, others = await _state(conn, tables), await _state(conn, ["kid"])
        run = await value(conn, "select id from agent.run where key = '7' and kind = 'agent'")
        state, reason = await revert(d, int(str(run)))
        found = " ".join(sorted(map(str, await outcomes(conn))))
        assert found == case.outcomes, reason
        assert state == ("failed" if "refused" in found else "succeeded")
        assert await _state(conn, ["kid"]) == others
        if state == "failed":
            assert await _state(conn, tables) == before
        await run_all(conn, f"drop owned by {app}")


async def _state(conn: AsyncConnection, tables: Sequence[object]) -> list[list[tuple[object, ...]]]:
    found = list[list[tuple[object, ...]]]()
    for table in tables:
        there = await value(conn, "select to_regclass(%s) is not null", f"public.{table}")
        found.append(await rows(conn, f"select t::text from {table} t order by 1") if there else [])
    return found
