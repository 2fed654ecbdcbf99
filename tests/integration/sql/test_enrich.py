"""`agent.enrich` keeps columns of a table in step with others of their row."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, role, rows, run_all, value
from walagent.message import ModelSpec
from walagent.models.limits import ModelLimits
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.worker_models import Models

TABLE = """
create table products (
    id       bigint primary key,
    title    text,
    body     text,
    category text check (category in ('book', 'tool')),
    views    integer not null default 0
);
insert into products values (1, 'old');
"""
ENRICH = (
    "select agent.enrich('products', columns => '{title,body}', writes => '{category}',"
    " model => 'fake'%s)"
)
PRICED = ModelSpec("fake", "scripted", "fake", input_price=10.0, output_price=50.0)
RUNS = (
    "select count(*) from agent.run r join agent.attachment a on a.id = r.attachment_id"
    " where a.name = 'products_category'"
)


@pytest.mark.parametrize("identity", ["default", "full"])
async def test_values_follow_what_they_are_made_of(
    conn: AsyncConnection, dsn: str, identity: str
) -> None:
    """Of rows that exist, that are new, and whose sources change; not at other changes."""
    await run_all(conn, f"{DESK}{TABLE}alter table products replica identity {identity}")
    async with daemon(conn, dsn, [call("update_row", category="book")]) as d:
        await run_all(conn, ENRICH % "")
        await d.until("select count(*) = 1 from products where category = 'book'")
        await run_all(conn, "insert into products values (2, 'new')")
        await d.until("select count(*) = 2 from products where category = 'book'")
        await run_all(conn, "update products set category = 'tool'")
        await run_all(conn, "update products set views = 1")
        await run_all(conn, "update products set body = 'x' where id = 2")
        await d.until("select category = 'book' from products where id = 2")
        await d.caught_up()
        if identity == "full":
            assert await value(conn, RUNS) == 3
            assert await rows(conn, "select category from products where id = 1") == [("tool",)]


async def test_a_value_of_a_row_that_changed_meanwhile_is_made_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """The run of the first change asks no model: that of the second waits."""
    await run_all(conn, DESK + TABLE)
    async with daemon(conn, dsn, [call("update_row", category="book")]) as d:
        await run_all(conn, ENRICH % ", paused => true, backfill => false")
        await run_all(conn, "insert into products values (2, 'a')")
        await run_all(conn, "update products set title = 'b' where id = 2")
        await d.caught_up()
        await run_all(conn, "select agent.resume('products_category')")
        await d.ended(2, attachment="products_category")
    found = "select run_id, content ->> 'content' from agent.step where kind = 'result'"
    assert await rows(conn, found) == [(2, "updated")]
    assert await rows(conn, "select state from agent.run order by id limit 2") == [
        ("skipped",), ("succeeded",),
    ]  # fmt: skip


async def test_it_is_an_attachment_like_others(conn: AsyncConnection) -> None:
    """With a name of its own, which a second of the table does not have."""
    await run_all(conn, DESK + TABLE + "alter table products replica identity full")
    await run_all(conn, ENRICH % ", system_prompt => 'Be brief.'")
    await run_all(
        conn,
        "select agent.enrich('products', '{title}', '{body}', 'fake', name => 'bodies', cap => 2)",
    )
    assert await rows(
        conn,
        "select name, ops, columns, writes, only_unchanged, cap from agent.attachment order by id",
    ) == [
        ("products_category", ["insert", "update"], ["title", "body"], ["category"], True, None),
        ("bodies", ["insert", "update"], ["title"], ["body"], True, 2),
    ]
    prompt = await value(conn, "select system_prompt from agent.agent where name like 'products%%'")
    assert '"category"' in prompt
    assert prompt.endswith("Be brief.")
    await run_all(conn, ENRICH % ", replace => true")
    assert (
        await value(conn, "select version from agent.attachment where name like 'products%%'") == 2
    )


@pytest.mark.parametrize(
    ("arguments", "state", "words"),
    [
        ("columns => '{}', writes => '{category}'", "WA010", "columns: must name at least one"),
        ("columns => '{title}', writes => null", "WA010", "writes: must name at least one"),
        ("columns => '{title}', writes => '{title}'", "WA013", 'column "title" is among those'),
        ("columns => '{titel}', writes => '{category}'", "WA013", 'Did you mean "title"'),
        ("columns => '{title}', writes => '{body,x}'", "WA013", '"x"'),
        ("columns => '{title}', writes => '{id}'", "WA013", "primary key"),
        ("columns => '{title,NULL}', writes => '{body}'", "WA010", "columns: must not contain"),
        ("columns => '{title}', writes => '{category}', priority => 9999", "WA010", "priority"),
    ],
)
async def test_what_cannot_be_kept_is_refused(
    conn: AsyncConnection, arguments: str, state: str, words: str
) -> None:
    """And nothing is attached."""
    await run_all(conn, DESK + TABLE)
    with pytest.raises(psycopg.Error) as found:
        await run_all(conn, f"select agent.enrich('products', {arguments}, model => 'fake')")
    assert found.value.sqlstate == state
    assert words in f"{found.value}{found.value.diag.message_hint}"
    assert await value(conn, "select count(*) from agent.attachment") == 0


async def test_a_role_needs_what_attaching_needs(conn: AsyncConnection) -> None:
    """The function adds no right of its own."""
    await run_all(conn, DESK + TABLE)
    async with role(conn) as user:
        await run_all(conn, f"set role {user}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await run_all(conn, ENRICH % "")
        await run_all(conn, f"reset role; select agent.grant_developer('{user}'); set role {user}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await run_all(conn, ENRICH % "")
        await run_all(conn, "reset role")


async def test_equal_values_ask_no_model_again(conn: AsyncConnection, dsn: str) -> None:
    """Where the WAL does not say what changed, a run of each update costs nothing."""
    await run_all(conn, DESK + TABLE)
    model = ScriptedModel([call("update_row", category="book")], spec=PRICED)
    registry = Models({"fake": PRICED}, lambda _: model, ModelLimits())
    async with daemon(conn, dsn, registry) as d:
        await run_all(conn, ENRICH % ", reuse => '1 day', backfill => false")
        await run_all(conn, "insert into products values (2, 'a'), (3, 'a')")
        await d.ended(2, attachment="products_category")
        assert len(model.requests) == 1
        for n in range(3):
            await run_all(conn, "update products set views = views + 1 where id > 1")
            await d.ended(2 * n + 4, attachment="products_category")
    assert len(model.requests) == 2  # of an insert, and of an update
    assert await value(conn, "select count(*) from products where category = 'book'") == 2
