"""What could never work is refused when it is attached, with the words that name it."""

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.database import DESK, run_all, value

TABLES = """
create table orders (
    id bigint generated always as identity primary key,
    qty int, price numeric, total numeric generated always as (qty * price) stored,
    note text, paid boolean, tags text[], due date, body jsonb, code varchar(9));
create table "MixedCase" (id int primary key);
create schema "Other";
create table "Other"."Odd Name" (id int primary key);
create table metrics (at timestamptz primary key, value float8);
create table metrics_1 (check (at >= '2026-01-01')) inherits (metrics);
create function shout() returns trigger language plpgsql as 'begin return new; end';
create procedure proc(a int) language sql as 'select 1';
create domain short as text check (length(value) < 9);
create function of_int(a int) returns text language sql as 'select 1::text';
create function of_uuid(a uuid) returns text language sql as 'select 1::text';
create function of_text(a text) returns text language sql as 'select 1::text';
create function of_numeric(a numeric) returns text language sql as 'select 1::text';
create function of_date(a timestamptz) returns text language sql as 'select 1::text';
create function of_texts(a varchar[]) returns text language sql as 'select 1::text';
create function of_ints(a int[]) returns text language sql as 'select 1::text';
create function of_bool(a boolean) returns text language sql as 'select 1::text';
create function of_short(a short) returns text language sql as 'select 1::text';
create function of_json(a jsonb) returns text language sql as 'select 1::text';
insert into agent.tool (name, kind, target, http, input_schema) values
  ('web', 'http', 'https://example.com/{a}', '{"method": "GET"}',
   '{"type": "object", "properties": {"a": {"type": "integer"}}}');
"""
REFUSED = [
    ("orders", "writes=[total]", 'writes: column "total" of public.orders is generated'),
    ("orders", "writes=[note, id]", 'column "id" of public.orders is generated always as identity'),
    ("metrics", "", "its rows can be in public.metrics_1, which inherits from it"),
    ("orders", "tools=[shout]", "is a trigger function"),
    ("orders", "tools=[proc]", "It is a procedure"),
    ("orders", "tools=[of_int], bind=[a=note]", 'column "note" of public.orders is of type text'),
    ("orders", "tools=[of_int], bind=[a=paid]", "expected integer"),
    ("orders", "tools=[of_uuid], bind=[a=code]", "expected uuid"),
    ("orders", "tools=[of_ints], bind=[a=tags]", "expected integer[]"),
    ("orders", "tools=[of_bool], bind=[a=qty]", "expected boolean"),
    ("orders", "tools=[of_date], bind=[a=note]", "expected timestamp with time zone"),
    ("orders", "tools=[web], bind=[a=note]", "expected integer"),
    ("MixedCase", "", "Write '\"MixedCase\"'"),
    ("mixedcase", "", "Did you mean '\"MixedCase\"'?"),
    ("Other.Odd Name", "", 'Write \'"Other"."Odd Name"\''),
    ("orders", "system_prompt='Be brief, please.'", "is in single quotes"),
    ("orders", "when='new.qty > 1'", "is in single quotes"),
    ("orders", 'when="new.qty"', 'condition "new.qty": it must be type boolean'),
    ("orders", 'when="new.qty ="', 'condition "new.qty =": syntax error'),
    ("orders", "when=\"new.qty = 'abc'\"", "condition \"new.qty = 'abc'\": invalid input syntax"),
    ("orders", 'when="new.note > 1"', 'condition "new.note > 1": operator does not exist'),
]
ACCEPTED = [
    ("tools=[of_int], bind=[a=qty]"),
    ("tools=[of_numeric], bind=[a=qty]"),
    ("tools=[of_int], bind=[a=id]"),
    ("tools=[of_text], bind=[a=qty]"),
    ("tools=[of_text], bind=[a=paid]"),
    ("tools=[of_texts], bind=[a=tags]"),
    ("tools=[of_date], bind=[a=due]"),
    ("tools=[of_short], bind=[a=code]"),
    ("tools=[of_json], bind=[a=body]"),
    ("tools=[of_json], bind=[a=qty]"),
    ("tools=[of_ints], bind=[a=body]"),
    ("tools=[web], bind=[a=id]"),
    ("writes=[note, qty]"),
    ("when='a' || new.note = 'ab'"),
]  # fmt: skip


async def said_by(conn: AsyncConnection, statement: str, *parameters: object) -> str:
    """Return the message and the hint of a statement that fails."""
    with pytest.raises(Error) as caught:
        await value(conn, statement, *parameters)
    return f"{caught.value.diag.message_primary} {caught.value.diag.message_hint or ''}"


@pytest.fixture
async def shop(conn: AsyncConnection) -> AsyncConnection:
    """The tables, and a model."""
    await run_all(conn, DESK)
    await run_all(conn, TABLES)
    return conn


@pytest.mark.parametrize(("table", "spec", "words"), REFUSED)
async def test_what_could_never_work_is_refused(
    shop: AsyncConnection, table: str, spec: str, words: str
) -> None:
    """Each names the column, the type or the name, and what to write instead."""
    text = f"model=gpt-4o{', ' if spec else ''}{spec}"
    assert words in await said_by(shop, "select agent.attach(%s, %s)", table, text)


@pytest.mark.parametrize("spec", ACCEPTED)
async def test_what_is_converted_is_accepted(shop: AsyncConnection, spec: str) -> None:
    """PostgreSQL assigns it, or it is text."""
    await value(shop, "select agent.attach('orders', %s)", f"model=gpt-4o, {spec}")


async def test_a_table_as_regclass_a_spec_as_json_and_a_row_without_name(
    shop: AsyncConnection,
) -> None:
    """Each way that somebody tries ends in an attachment."""
    await value(shop, "select agent.attach('orders'::regclass, 'model=gpt-4o, name=a')")
    await value(shop, "select agent.attach('metrics_1'::regclass, 'gpt-4o')")
    await value(
        shop,
        """select agent.attach('orders', '{"model": "gpt-4o", "name": "b", "max_steps": 3}')""",
    )
    await run_all(shop, "insert into agent.attachment (relation, agent) values ('orders', 'a')")
    names = "select string_agg(name, ',' order by name) from agent.attachment"
    assert await value(shop, names) == "a,b,metrics_1,orders"
    said = await said_by(shop, "select agent.attach('orders', '{\"model\": }')")
    assert "it begins as JSON" in said


async def test_a_name_that_is_near_to_none_suggests_none(shop: AsyncConnection) -> None:
    """Of forty models, the nearest of nope is no help."""
    said = await said_by(shop, "select agent.attach('orders', 'model=nope')")
    assert "o1," not in said
    assert "walagent agents models" in said
