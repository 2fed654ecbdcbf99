"""Which code runs when a table is planned, read or written; and who says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, role, rows, run_all, value
from tests.helpers.owned_table import owned_table
from walagent.config import Config
from walagent.config.sections import AskSettings, Sync
from walagent.doctor.code import check_code
from walagent.doctor.finding import Severity
from walagent.errors import StatementRefusedError
from walagent.guard.analysis import Allowlist
from walagent.guard.query import Guard
from walagent.store.install.server_facts import attached_tables
from walagent.store.relations.table_code import Moment, TableCode, code_of

RELATIONS = """
select oid::int8 from pg_class
 where relnamespace = 'owned'::regnamespace and relkind in ('r', 'p', 'v')
"""
# Each object of the schema that needs a function of it, as PostgreSQL records it for DROP.
NEEDING = """
select p.oid::regprocedure::text, count(distinct (d.classid, d.objid))
  from pg_depend d join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
 where p.pronamespace = 'owned'::regnamespace and d.classid <> 'pg_proc'::regclass
   and d.objid not in (select oid from pg_constraint where contypid <> 0)
 group by 1
"""


async def of(conn: AsyncConnection, name: str, until: Moment = Moment.WRITTEN) -> list[TableCode]:
    """The code of a relation of the schema."""
    oid = await value(conn, "select to_regclass(%s)::oid::int8", name)
    return list(await code_of(conn, [oid], until))


async def test_all_that_postgresql_knows_of_is_found(conn: AsyncConnection) -> None:
    """Each object that needs a function of the owner is a place, under the same owner."""
    async with owned_table(conn) as owned:
        found = await code_of(conn, await column(conn, RELATIONS), Moment.WRITTEN)
        needing = dict(await rows(conn, NEEDING))
    places = {(each.function, each.relation, each.place) for each in found if each.function}
    for function, objects in needing.items():
        places_of = [each for each in places if each[0] == function]
        places_of = [each for each in places_of if "the type of" not in each[2]]
        assert len(places_of) == objects, function
    assert {each.owner for each in found} == {owned.owner}
    assert not any(each.trusted for each in found)
    assert all(each.owns_relation for each in found)


async def test_moments_are_those_at_which_it_runs(conn: AsyncConnection) -> None:
    """What a plan evaluates comes before what a query reads, and that before what a write fires."""
    async with owned_table(conn):
        planned = {each.function for each in await of(conn, "owned.stock", Moment.PLANNED)}
        read = {each.function for each in await of(conn, "owned.stock", Moment.READ)}
        written = {each.function for each in await of(conn, "owned.stock")}
    assert planned == {
        f"owned.{name}(integer)" for name in ("index_key", "index_where", "statistic", "is_valid")
    }
    assert read - planned == {"owned.policy(integer)", None}
    assert written - read == {"owned.made(integer)", "owned.filled()", "owned.fired()"}


async def test_views_and_children_bring_their_own(conn: AsyncConnection) -> None:
    """A view to the bottom, a partition, and a child that another role made."""
    async with owned_table(conn) as owned:
        await run_all(
            conn,
            f"create role {owned.owner}_2; grant create on schema owned to {owned.owner}_2;"
            f" create table owned.child () inherits (owned.prices);"
            f" alter table owned.child owner to {owned.owner}_2;"
            " create view owned.upper as"
            "  select s.id from owned.shown s join owned.parted p using (id)",
        )
        try:
            upper = await of(conn, "owned.upper")
            child = [
                each for each in await of(conn, "owned.prices") if each.relation == "owned.child"
            ]
        finally:
            await run_all(
                conn,
                f"drop view owned.upper; drop owned by {owned.owner}_2; drop role {owned.owner}_2",
            )
    assert {"owned.shown", "owned.stock", "owned.parted", "owned.part_1"} <= {
        each.relation for each in upper
    }
    function = next(each for each in child if each.function == "owned.is_valid(integer)")
    assert (function.owner, function.owns_relation) == (owned.owner, False)
    expression = next(each for each in child if each.function is None)
    assert expression.owner == f"{owned.owner}_2"


async def test_operators_and_their_classes_are_followed(conn: AsyncConnection) -> None:
    """To the functions that they stand for, and a superuser's are trusted."""
    await run_all(
        conn,
        "create role maker; create schema made authorization maker; set role maker;"
        " create function made.same(int, int) returns boolean language sql immutable"
        "  as 'select $1 operator(pg_catalog.=) $2';"
        " create function made.compare(int, int) returns int language sql immutable"
        "  as 'select btint4cmp($1, $2)';"
        " create operator made.=== (function = made.same, leftarg = int, rightarg = int);"
        " create table made.thing (id int primary key, n int, check (n operator(made.===) n));"
        " reset role;"
        " create operator class made.ops for type int using btree as"
        "  operator 3 made.===, function 1 made.compare(int, int);"
        " create index by_class on made.thing (n made.ops);"
        " create function own() returns int language sql immutable as 'select 1';"
        " create index by_own on made.thing ((n + own()))",
    )
    try:
        found = await of(conn, "made.thing", Moment.PLANNED)
    finally:
        await run_all(conn, "drop schema made cascade; drop function own; drop role maker")
    by_place = {(each.place, each.function): each.trusted for each in found}
    assert by_place["index made.by_class", "made.compare(integer,integer)"] is False
    assert by_place["index made.by_class", "made.same(integer,integer)"] is False
    assert by_place["constraint thing_n_check", "made.same(integer,integer)"] is False
    assert by_place["index made.by_own", "public.own()"] is True


# Where a table can have a function of somebody who owns neither it nor a reading role.
PLANNED = {
    "index": "create index on good ((n + {f}(1)))",
    "predicate": "create index on good (n) where n > {f}(1)",
    "statistics": "create statistics public.counted on (n + {f}(1)), (n * {f}(2)) from good",
    "check": "alter table good add check (n > {f}(0)) not valid",
    "child": "create table child (check (n > {f}(0))) inherits (good)",
    "policy": "create table other (id int); alter table other owner to {o};"
    " create index on other ((id + {f}(1))); alter table good enable row level security;"
    " create policy by_other on good using (exists (select from other where id = n));"
    " grant select on other to {r}",
    "partitions": "drop table good; create table good (id int, n int)"
    " partition by range ((n + {f}(1))); grant select on good to {r}",
}


@asynccontextmanager
async def stranger(conn: AsyncConnection, reading: str) -> AsyncIterator[str]:
    """A role that made a function, which the owner of the table `good` uses."""
    name, owner = f"stranger_{conn.info.dbname}", f"owner_{conn.info.dbname}"
    await run_all(
        conn,
        f"create role {name}; create schema theirs authorization {name};"
        f" grant usage on schema theirs to public; create role {owner};"
        f" grant create on schema public to {owner}; set role {name};"
        " create function theirs.act(int) returns int language plpgsql immutable"
        "  as 'begin return $1; end'; reset role;"
        " create table good (id int primary key, n int);"
        f" alter table good owner to {owner}; grant select on good to {reading}",
    )
    try:
        yield name
    finally:
        await run_all(
            conn, f"drop owned by {name}, {owner} cascade; drop role {name}; drop role {owner}"
        )


@pytest.mark.parametrize("place", PLANNED)
async def test_the_guard_refuses_what_planning_would_execute(
    conn: AsyncConnection, reader: AsyncConnection, place: str
) -> None:
    """It names function, owner and place; listed, the function is the operator's decision."""
    async with stranger(conn, reader.info.user) as name:
        await Guard(reader).read("select * from good")
        made = PLANNED[place].format(
            f="theirs.act", r=reader.info.user, o=f"owner_{conn.info.dbname}"
        )
        await run_all(conn, made)
        with pytest.raises(StatementRefusedError) as caught:
            await Guard(reader).read("select * from good where n = 1")
        listed = Guard(reader, allowed=Allowlist(("theirs.act(integer)",)))
        await listed.read("select * from good where n = 1")
    for word in ("function theirs.act(integer)", name, "public.", "ask.functions"):
        assert word in str(caught.value)


async def test_attaching_and_the_doctor_name_code_of_third_parties(conn: AsyncConnection) -> None:
    """Code of one who owns neither the table nor its role; the table's owner is known to all."""
    warned = list[str]()
    conn.add_notice_handler(lambda diag: warned.append(diag.message_primary or ""))
    await run_all(
        conn, "insert into agent.model (name, provider, model_id) values ('m', 'openai', 'm')"
    )
    async with role(conn) as acting, stranger(conn, acting) as name:
        config = Config(ask=AskSettings(role=acting), sync=Sync(open=("public.good",), secret="X"))
        await run_all(conn, f"select agent.attach('good', 'model=m, name=first, run_as={acting}')")
        before = list(await check_code(conn, await attached_tables(conn), config))
        told = [each for each in warned if "code of" in each]
        await run_all(
            conn,
            "create function theirs.fired() returns trigger language plpgsql"
            f" as 'begin return new; end'; alter function theirs.fired() owner to {name};"
            " create trigger fired before insert on good"
            "  for each row execute function theirs.fired();"
            f" select agent.attach('good', 'model=m, name=second, run_as={acting}')",
        )
        after = list(await check_code(conn, await attached_tables(conn), config))
        await run_all(conn, "select agent.detach('first'), agent.detach('second')")
    assert told == []
    assert [each.level for each in before] == [Severity.OK]
    (said,) = [each for each in warned if "code of" in each]
    assert said == (
        f'code of role "{name}" acts as "{acting}": function theirs.fired()'
        " (trigger fired of public.good)"
    )
    (found,) = after
    assert found.level is Severity.WARNING
    assert f'code of role "{name}"' in found.text
    assert "theirs.fired()" in found.text
