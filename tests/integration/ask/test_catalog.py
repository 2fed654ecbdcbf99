"""The schema that questions are about: what it says, when it is read anew, and who keeps it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, rows, run_all, session, value
from walagent.ask.catalog import Catalog, CatalogSettings
from walagent.ask.statements import Statements
from walagent.ask.vectors import Vectors
from walagent.errors import PreconditionError
from walagent.guard.query import Guard
from walagent.models.embedded.encoder import check_machine, shared_e5
from walagent.store.relations import application_schema
from walagent.store.sessions.connections import open_pool

TABLES = """
create type mood as enum ('good', 'bad');
create domain percent as integer check (value between 0 and 100);
create table visitor (
    id bigint primary key, status text not null, tier text, full_name text, feeling mood[],
    share percent, code text unique, "Home Town" text, check (tier <> '')
);
comment on table visitor is 'Whoever comes by.';
insert into visitor
select n, (array['new', 'known'])[1 + n % 2], case n when 1 then 'alone' else 'gold' end,
       'somebody', '{good}', 7, 'c' || n, (array['Bern', 'Basel'])[1 + n % 2]
  from generate_series(1, 40) n;
create view known as select status, count(*) as n from visitor group by 1;
"""


@asynccontextmanager
async def catalog(
    reader: AsyncConnection, dsn: str, settings: CatalogSettings | None = None
) -> AsyncIterator[Catalog]:
    """A catalog as a process has it."""
    async with open_pool(dsn, size=2, application="test") as pool:
        yield Catalog(pool, Statements([Guard(reader)]), settings)


async def add_tables(conn: AsyncConnection, reader: AsyncConnection, more: str = "") -> None:
    """The tables, which the reader may read."""
    await run_all(conn, TABLES + more)
    await run_all(conn, f"grant select on all tables in schema public to {reader.info.user}")


async def shown(reader: AsyncConnection, dsn: str, **settings: object) -> dict[str, list[str]]:
    """The values that a model is shown, by column."""
    told = CatalogSettings(**settings)  # pyright: ignore[reportArgumentType]
    async with catalog(reader, dsn, told) as it:
        await it.index()
        found = (await it.describe("")).values
        return {name: sorted(values) for name, values in found if ".visitor." in name}


async def text(reader: AsyncConnection, dsn: str) -> str:
    """What a model is told of the schema."""
    async with catalog(reader, dsn) as it:
        return (await it.describe("")).text


async def test_it_says_what_a_planner_must_know(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """Kinds, keys, comments, enum and CHECK values, and names as they must be written."""
    await add_tables(
        conn,
        reader,
        """
        create materialized view totals as select 1 as one;
        create foreign data wrapper nothing;
        create server elsewhere foreign data wrapper nothing;
        create foreign table far (id bigint) server elsewhere;
        create table "Order" (id bigint references visitor);
        create table "Buyer" ("Id" bigint primary key, "Tax No" text unique);
        create table bought ("Who" bigint references "Buyer");
        analyze visitor, visit;
        """,
    )
    said = await text(reader, dsn)
    assert "table public.visitor, about 40 rows: Whoever comes by." in said
    assert "  id bigint key\n" in said
    assert "  feeling public.mood[] one of good, bad\n" in said
    assert "  share public.percent CHECK (((VALUE >= 0) AND (VALUE <= 100)))\n" in said
    assert '  "Home Town" text\n' in said
    assert "  unique (code)\n" in said
    assert "CHECK ((tier <> ''::text))" in said
    assert "partitioned table public.visit, about 300 rows, partitioned by RANGE (at)" in said
    assert "visit_2025" not in said
    assert "materialized view public.totals" in said
    assert "view public.known" in said
    assert "foreign table public.far, on another server: it cannot be read" in said
    assert 'table public."Order"' in said
    assert "(id) references public.visitor (id)" in said
    assert '("Who") references public."Buyer" ("Id")' in said
    assert '  unique ("Tax No")\n' in said


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("alter table visitor add column shoe integer", "shoe integer"),
        ("alter table visitor alter code type varchar(9)", "code character varying(9)"),
        ("comment on table visitor is 'Guests.'", "Guests."),
        ("comment on column visitor.code is 'Of the badge.'", "Of the badge."),
        ("alter type mood add value 'middling'", "good, bad, middling"),
        ("alter type mood rename value 'bad' to 'sad'", "good, sad"),
        ("alter table visitor add check (code > '')", "CHECK ((code > ''::text))"),
        ("create unique index on visitor (tier, code)", "unique (tier, code)"),
        ("alter domain percent add check (value <> 13)", "VALUE <> 13"),
        ("alter table visitor rename to guest", "table public.guest"),
        ("analyze visitor", "about 40 rows"),
    ],
)
async def test_a_change_is_seen_by_the_next_question(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str, change: str, says: str
) -> None:
    """By a process that has read the schema before, and by one that has it from there."""
    await add_tables(conn, reader)
    async with catalog(reader, dsn) as it:
        assert says not in (await it.describe("")).text
        await run_all(conn, change)
        assert says in (await it.describe("")).text
    assert says in await text(reader, dsn)


@pytest.mark.slow
async def test_what_may_not_be_read_any_more_is_gone(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """A grant that is taken back, of a column or of a table."""
    await add_tables(conn, reader)
    async with catalog(reader, dsn) as it:
        assert "full_name" in (await it.describe("")).text
        name = reader.info.user
        await run_all(
            conn,
            f"revoke select on visitor from {name}; grant select (id, status) on visitor to {name}",
        )
        said = (await it.describe("")).text
        assert "  status text" in said
        assert "full_name" not in said
        await run_all(conn, f"revoke select (id, status) on visitor from {name}")
        assert "visitor" not in (await it.describe("")).tables


@pytest.mark.slow
async def test_what_was_read_is_kept_for_the_next_process(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """Only `index` reads it anew without a reason, and says whether something was another."""
    await add_tables(conn, reader)
    await run_all(conn, "analyze")  # or the server does, at any time, and then knows more
    async with catalog(reader, dsn) as it:
        await it.describe("")
    change = (
        "update agent_internal.schema_table set description = jsonb_set(description,"
        " '{comment}', '%s')"
    )
    await run_all(conn, change % '"as it was kept"')
    async with catalog(reader, dsn) as it:
        assert "as it was kept" in (await it.describe("")).text
        found = await it.index()
        assert found.changed
        assert found.tables == await value(conn, "select count(*) from agent_internal.schema_table")
        assert found.sampled > 0
        assert "as it was kept" not in (await it.describe("")).text
        assert not (await it.index()).changed


@pytest.mark.slow
async def test_it_is_read_again_after_a_day(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """Values and numbers of rows grow old without any DDL."""
    await add_tables(conn, reader)
    async with catalog(reader, dsn) as it:
        await it.describe("")
    await run_all(
        conn, "update agent_internal.schema_index set read_at = read_at - interval '25 hours'"
    )
    await run_all(
        conn,
        'update agent_internal.schema_table set description = description || \'{"comment":'
        ' "old"}\'',
    )
    assert "old" not in (await text(reader, dsn)).split("public.visitor")[1].split("\n")[0]


async def test_readers_see_the_old_or_the_new_never_half(conn: AsyncConnection, dsn: str) -> None:
    """While it is written, the old one is whole."""
    old = [{"schema": "s", "name": f"t{n}", "of": "old"} for n in range(50)]
    new = [{"schema": "s", "name": f"t{n}", "of": "new"} for n in range(25, 75)]
    async with session(dsn) as writer:
        async with writer.transaction():
            await application_schema.keep_index(writer, "r", "1", old)
        async with writer.transaction():
            await application_schema.keep_index(writer, "r", "2", new)
            assert {t["of"] for t in await application_schema.load_index(conn, "r", "1")} == {"old"}
            assert len(await application_schema.load_index(conn, "r", "1")) == 50
            assert await application_schema.load_index(conn, "r", "2") == []
        assert await application_schema.load_index(conn, "r", "1") == []
        assert [t["of"] for t in await application_schema.load_index(conn, "r", "2")] == [
            "new"
        ] * 50


@pytest.mark.parametrize("analyzed", [True, False])
async def test_values_are_samples_of_what_the_role_may_see(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str, *, analyzed: bool
) -> None:
    """From statistics, or from the first rows: common ones, of columns that may be shown."""
    await add_tables(conn, reader, "analyze visitor;" if analyzed else "")
    town = {'public.visitor."Home Town"': ["Basel", "Bern"]}
    rest = {"public.visitor.status": ["known", "new"], "public.visitor.tier": ["gold"]}
    assert await shown(reader, dsn) == town | rest


@pytest.mark.slow
async def test_values_that_a_policy_hides_are_not_shown(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """Statistics of the whole table are no way around it, and a new policy is seen at once."""
    await add_tables(conn, reader, "analyze visitor;")
    async with catalog(reader, dsn) as it:
        assert ("public.visitor.status", ("known", "new")) in [
            (name, tuple(sorted(values))) for name, values in (await it.describe("")).values
        ]
        await run_all(
            conn,
            "alter table visitor enable row level security;"
            " create policy newcomers on visitor using (status = 'new')",
        )
        found = dict((await it.describe("")).values)
        assert found["public.visitor.status"] == ("new",)
        assert found['public.visitor."Home Town"'] == ("Bern",)
        await run_all(conn, "alter policy newcomers on visitor using (status = 'known')")
        assert dict((await it.describe("")).values)["public.visitor.status"] == ("known",)


@pytest.mark.slow
async def test_owners_and_operators_leave_columns_out(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """By a comment, by a pattern, or altogether."""
    await add_tables(conn, reader, "comment on column visitor.status is '@no-samples';")
    names = {'public.visitor."Home Town"', "public.visitor.tier"}
    assert (await shown(reader, dsn)).keys() == names
    found = await shown(reader, dsn, no_samples=["*.Home Town"])
    assert found.keys() == {"public.visitor.tier"}
    assert await shown(reader, dsn, samples=False) == {}
    kept = "select count(*) from agent_internal.schema_table where description::text like '%Basel%'"
    assert await value(conn, kept) == 0
    await run_all(conn, "comment on column visitor.full_name is 'the animal''s @samples'")
    assert (await shown(reader, dsn))["public.visitor.full_name"] == ["somebody"]


@pytest.mark.slow
async def test_an_index_is_of_the_login_that_made_it(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """Nobody writes what another login's model is told."""
    await add_tables(conn, reader)
    await text(reader, dsn)
    owners = await column(conn, "select distinct owner::text from agent_internal.schema_index")
    assert owners == [conn.info.user]
    roles = await column(conn, "select distinct role::text from agent_internal.schema_index")
    assert roles == [reader.info.user]


ENGLISH = """
create table customers (id bigint primary key, name text, city text);
create table employees (id bigint primary key, name text, salary numeric);
create table invoices (id bigint primary key, amount numeric, due date);
create table flights (id bigint primary key, airport text, departs timestamptz);
create table recipes (id bigint primary key, ingredient text, grams numeric);
create table rivers (id bigint primary key, length numeric, mouth text);
create table stars (id bigint primary key, magnitude numeric, constellation text);
create table vaccines (id bigint primary key, dose numeric, disease text);
"""
MADE = "select name, vector_of from agent_internal.schema_table order by 1"
GERMAN = {
    "Wie viel Gehalt bekommen unsere Angestellten?": "public.employees",
    "Welche Rechnungen sind noch offen?": "public.invoices",
    "Von welchem Flughafen fliegen wir ab?": "public.flights",
}


@asynccontextmanager
async def by_meaning(reader: AsyncConnection, dsn: str) -> AsyncIterator[Catalog]:
    """A catalog that shows two or three tables, and knows what they mean."""
    async with open_pool(dsn, size=2, application="test") as pool:
        vectors = Vectors(pool, shared_e5())
        await vectors.check()
        told = CatalogSettings(samples=False, most=250)
        yield Catalog(pool, Statements([Guard(reader)]), told, vectors)


@pytest.mark.slow
async def test_a_question_in_another_language_finds_tables_by_what_they_mean(
    conn: AsyncConnection, reader: AsyncConnection, dsn: str
) -> None:
    """Those that are there when the index is made; only what has changed is embedded again."""
    if not await column(conn, "select 1 from pg_available_extensions where name = 'vector'"):
        pytest.skip("this server has no pgvector")
    check_machine()
    await run_all(conn, "create extension vector;" + ENGLISH)
    await run_all(conn, f"grant select on all tables in schema public to {reader.info.user}")
    async with by_meaning(reader, dsn) as it:
        await it.index()
        for question, table in GERMAN.items():
            found = await it.describe(question)
            assert not found.whole
            assert found.tables[0] == table
    before = dict(await rows(conn, MADE))
    await run_all(conn, "drop table stars; comment on table rivers is 'Water'")
    async with by_meaning(reader, dsn) as it:
        await it.index()
    after = dict(await rows(conn, MADE))
    assert {name for name in after if after[name] != before[name]} == {"public.rivers"}
    assert before.keys() - after.keys() == {"public.stars"}


async def test_vectors_without_pgvector_are_refused_by_name(
    reader: AsyncConnection, dsn: str
) -> None:
    """Before anything is read."""
    with pytest.raises(PreconditionError, match=r"ask\.vectors needs the extension pgvector"):
        async with by_meaning(reader, dsn):
            pass
