"""What attaching checks, what it freezes, and what it leaves behind."""

from collections.abc import Mapping

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.database import (
    DESK,
    attach,
    column,
    message_of,
    refused,
    role,
    rows,
    run_all,
    value,
)
from walagent.domain.attachment import Attachment
from walagent.domain.change import Op
from walagent.domain.tool_spec import Effect
from walagent.message import Json

MODELS = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('priced', 'scripted', 'x', 1, 20), ('unpriced', 'scripted', 'x', null, null);
"""


async def frozen(conn: AsyncConnection) -> Attachment:
    """The one attachment, as the reader and the workers read it."""
    return Attachment.from_json(await value(conn, "select definition from agent.attachment"))


# Tables.

TABLES = """
create table plain (id int primary key, t text);
create table no_key (t text);
create table full_identity (t text);
alter table full_identity replica identity full;
create table no_identity (id int primary key);
alter table no_identity replica identity nothing;
create table by_index (id int not null unique, t text);
alter table by_index replica identity using index by_index_id_key;
create table lost_index (id int not null unique, t text);
alter table lost_index replica identity using index lost_index_id_key;
alter table lost_index drop constraint lost_index_id_key;
create unlogged table forgetful (id int primary key);
create temporary table passing (id int primary key);
create view looked_at as select * from plain;
create materialized view kept as select * from plain;
create sequence counted;
create table parts (id int primary key, t text) partition by range (id);
create table parts_1 partition of parts for values from (0) to (10);
create table keyless_parts (id int, t text) partition by range (id);
create table keyless_parts_1 partition of keyless_parts for values from (0) to (10);
"""


@pytest.mark.parametrize(
    ("op", "tables"),
    [
        ("insert", {"plain", "no_key", "full_identity", "no_identity", "by_index", "lost_index",
                    "parts", "keyless_parts"}),
        ("update", {"plain", "full_identity", "by_index", "parts"}),
        ("delete", {"plain", "full_identity", "by_index", "parts"}),
        ("truncate", {"plain", "no_key", "full_identity", "no_identity", "by_index", "lost_index",
                      "parts", "keyless_parts"}),
    ],
)  # fmt: skip
async def test_only_tables_that_can_be_followed_are_attached_to(
    conn: AsyncConnection, op: str, tables: set[str]
) -> None:
    """And no table whose own updates and deletes would start to fail."""
    await run_all(conn, DESK + TABLES)
    names = await column(
        conn,
        "select relname from pg_class where relkind in ('r', 'p', 'v', 'm', 'S') and"
        " relnamespace in ('public'::regnamespace, pg_my_temp_schema()) and not relispartition"
        " and relname not in ('support_tickets', 'refund')",
    )
    taken = set[str]()
    for name in names:
        async with conn.transaction(force_rollback=True):
            error = None
            try:
                async with conn.transaction():
                    await attach(conn, f"on={op}", name)
            except Exception as raised:  # noqa: BLE001 - whatever it says is looked at below
                error = raised
            if error is None:
                taken.add(name)
            else:
                assert name in str(error)
    # A truncate is published together with updates, so it needs an identity all the same.
    expected = {"plain", "full_identity", "by_index", "parts"} if op == "truncate" else tables
    assert taken == expected


REFUSED_TABLES = [
    ("looked_at", "insert", "is not a table"),
    ("kept", "insert", "is not a table"),
    ("counted", "insert", "is not a table"),
    ("forgetful", "insert", "is unlogged and not written to the WAL"),
    ("passing", "insert", "is temporary and not written to the WAL"),
    ("agent.run", "insert", "system table"),
    ("pg_catalog.pg_class", "insert", "system table"),
    ("no_key", "update", "alter table public.no_key add primary key (...), or: alter table"),
    ("no_identity", "delete", "has no replica identity"),
    ("lost_index", "update", "has no replica identity"),
    ("keyless_parts", "update", "has no replica identity"),
]


async def test_a_table_that_cannot_be_followed_is_refused_with_the_reason(
    conn: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """And with the statement that mends it."""
    await run_all(conn, DESK + TABLES)
    for table, op, tells in REFUSED_TABLES:
        with subtests.test(table):
            error = await refused(
                conn, "select agent.attach(%s, 'model=fake, on=' || %s)", table, op, state="WA013"
            )
            assert tells in message_of(error)


async def test_a_virtual_column_under_a_full_identity_is_refused(conn: AsyncConnection) -> None:
    """PostgreSQL would refuse the application's updates once the table is published."""
    if conn.info.server_version < 180000:
        pytest.skip("virtual generated columns came with version 18")
    await run_all(
        conn,
        DESK + "create table doubled (n int, twice int generated always as (n * 2) virtual);"
        "alter table doubled replica identity full",
    )
    await refused(conn, "select agent.attach('doubled', 'model=fake, on=update')", state="WA013")
    await attach(conn, "on=insert", "doubled")


async def test_a_partition_is_not_attached_to_beside_its_parent(conn: AsyncConnection) -> None:
    """Its changes are told as the parent's: the second attachment would never act."""
    await run_all(conn, DESK + TABLES)
    await attach(conn, "", "parts_1")
    error = await refused(conn, "select agent.attach('parts', 'model=fake')", state="WA013")
    assert "parts_1" in message_of(error)
    await value(conn, "select agent.detach('parts_1')")
    await attach(conn, "", "parts")
    error = await refused(conn, "select agent.attach('parts_1', 'model=fake')", state="WA013")
    assert "parts" in message_of(error)


# Conditions.

CONDITION = "select agent.attach('support_tickets', 'fake', condition => %s)"
SETUP = (
    DESK
    + """
create function mine(text) returns boolean language sql immutable as 'select true';
create function always() returns boolean language sql immutable as 'select true';
create domain checked as text check (always());
create operator === (leftarg = text, rightarg = text, function = texteq);
create table other (id int);
create extension if not exists pg_trgm;
"""
)
REFUSED_CONDITIONS = [
    ("", "WA010", "when: must be a string that is not empty"),
    ("new.status", "42804", "must be type boolean"),
    ("status = 'open'", "42702", "ambiguous"),
    ("new.nothing = 1", "42703", "nothing"),
    ("1", "42804", "boolean"),
    ("true) or (true", "WA012", "not a single expression"),
    ("true)", "WA012", "not a single expression"),
    ("(true", "WA012", "not a single expression"),
    ("true; drop table other", "WA012", "not a single expression"),
    ("true) union select from other where (true", "WA012", "not a single expression"),
    ("true -- ", "WA012", "not a single expression"),
    ("true /* ", "WA012", "not a single expression"),
    ("$$a$$ = 'a'", "WA012", "not a single expression"),
    ("new.id = $1", "WA012", "not a single expression"),
    ("new.status = E'\\') or (\\''", "WA012", "not a single expression"),
    ("new.status = 'open", "WA012", "not a single expression"),
    ('new."status = 1', "WA012", "not a single expression"),
    ("exists (select from other)", "WA012", "subquery"),
    ("new.id in (select id from other)", "WA012", "subquery"),
    ("new.id = any (array(select 1))", "WA012", "subquery"),
    ("random() > 0.5", "WA012", "random()"),
    ("current_setting('walagent.identity', true) = 'a'", "WA012", "current_setting(text,boolean)"),
    ("clock_timestamp() > '2020-01-01'", "WA012", "clock_timestamp()"),
    ("nextval('refund_seq') > 0", "42P01", "refund_seq"),
    ("set_config('role', 'postgres', true) = ''", "WA012", "set_config"),
    ("pg_sleep(10) is null", "WA012", "pg_sleep"),
    ("pg_read_file('/etc/passwd') = ''", "WA012", "pg_read_file"),
    ("pg_backend_pid() = 1", "WA012", "pg_backend_pid"),
    ("table_to_xml('other', true, true, '') is null", "WA012", "table_to_xml"),
    ("query_to_xml('select 1', true, true, '') is null", "WA012", "query_to_xml"),
    ("mine(new.status)", "WA012", "mine(text)"),
    ("new.status === 'open'", "WA012", "==="),
    ("new.status::checked = 'open'", "WA012", "domain"),
    ("count(*) > 1", "42803", "aggregate"),
    ("row_number() over () = 1", "42P20", "window"),
    ("generate_series(1, 2) = 1", "0A000", "set-returning"),
    ("new.ctid = '(0,1)'", "WA012", "system column"),
    ("new.tableoid = 1", "WA012", "system column"),
    ("new.xmin = '1'", "WA012", "system column"),
]


async def test_a_condition_that_is_no_plain_question_about_the_row_is_refused(
    conn: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """Nothing gets out of its parentheses, and nothing in it can act or look elsewhere."""
    await run_all(conn, SETUP)
    for condition, state, tells in REFUSED_CONDITIONS:
        with subtests.test(condition):
            error = await refused(conn, CONDITION, condition, state=state)
            assert tells in message_of(error)
    assert await value(conn, "select count(*) from agent.attachment") == 0
    assert await value(conn, "select count(*) from pg_class where relname ~ 'walagent_'") == 0


GOOD_CONDITIONS = [
    ("true", []),
    ("new.status = 'e'", ["status"]),
    ("new.status like '%--%' or new.issue like '100%'", ["issue", "status"]),
    ("new.issue = 'it''s (; $1 /* \"x\"'", ["issue"]),
    ('new."status" <> old."status"', ["status"]),
    ("new.amount > 10.5 and old.amount is null", ["amount"]),
    ("new is distinct from old", []),
    ("new.id::text ~ '^[0-9]{2}$'", ["id"]),
    ("lower(new.status) in ('a', 'b')", ["status"]),
    ("new.issue % 'refund'", ["issue"]),
    ("similarity(new.issue, 'x') > 0.3", ["issue"]),
    ("now() > '2020-01-01'", []),
    ("new.issue collate \"C\" < 'b'", ["issue"]),
    ("case when new.amount > 1 then true else new.id = 1 end", ["amount", "id"]),
    ("(new.issue, new.status) = ('a', 'b')", ["issue", "status"]),
]


@pytest.mark.slow
async def test_a_condition_may_say_what_sql_can_say_about_a_row(
    conn: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """Quotes, percent signs, comment marks and brackets inside strings are just letters."""
    await run_all(conn, SETUP)
    for condition, columns in GOOD_CONDITIONS:
        with subtests.test(condition):
            async with conn.transaction(force_rollback=True):
                await value(conn, CONDITION, condition)
                assert list((await frozen(conn)).trigger.condition_columns) == columns
                kept = await value(conn, "select condition from agent.attachment")
                assert kept == condition


async def test_a_condition_keeps_its_meaning_on_any_search_path(conn: AsyncConnection) -> None:
    """Types and functions of other schemas are written with them; casts are spelled out."""
    await run_all(
        conn,
        "create schema app; set search_path = app, public;"
        + DESK
        + "create type mood as enum ('good', 'bad'); alter table support_tickets add mood mood;",
    )
    await value(conn, CONDITION, "new.mood > 'good'::mood and length(new.status) > 3")
    condition = (await frozen(conn)).trigger.condition
    assert condition == "((new.mood > 'good'::app.mood) AND (length(new.status) > 3))"


async def test_no_table_name_smuggles_text_into_a_condition(conn: AsyncConnection) -> None:
    """What PostgreSQL writes back begins with the table's name, which is its owner's to choose."""
    name = "x new,\n    y old\n  WHERE mine('x') -- "
    await run_all(conn, SETUP + f'create table "{name}" (id int primary key, status text)')
    await value(
        conn,
        "select agent.attach(%s::regclass, 'fake', name => 'sly', condition => 'new.id = 1')",
        f'"{name}"',
    )
    assert (await frozen(conn)).trigger.condition == "(new.id = 1)"
    await run_all(conn, "update agent.attachment set server_filter = true")
    filters = "select pg_get_expr(prqual, prrelid) from pg_publication_rel where prqual is not null"
    assert await column(conn, filters) == ["(id = 1)"]


# Tools.


async def tool_of(conn: AsyncConnection, name: str, spec: str = "") -> Json:
    """A tool as it is frozen."""
    async with conn.transaction(force_rollback=True):
        await attach(conn, f"tools=[{name}], {spec}")
        return await value(conn, "select definition -> 'tools' -> 0 from agent.attachment")


async def test_a_function_needs_no_registration_to_be_a_tool(conn: AsyncConnection) -> None:
    """Its arguments are the schema, its comment the description, its volatility the effect."""
    await run_all(conn, DESK)
    found = await tool_of(conn, "refund_user")
    assert found == {
        "name": "refund_user",
        "kind": "sql",
        "target": "public.refund_user(bigint,numeric)",
        "schema": "public",
        "function": "refund_user",
        "owner": conn.info.user,
        "arguments": [
            {"name": "ticket_id", "type": "bigint"},
            {"name": "amount", "type": "numeric"},
        ],
        "returns_set": False,
        "description": "Pay money back.",
        "input_schema": {
            "type": "object",
            "properties": {
                "ticket_id": {"type": "integer"},
                "amount": {"type": ["number", "null"]},
            },
            "required": ["ticket_id"],
            "additionalProperties": False,
        },
        "effect": "transactional",
        "timeout": 30,
        "bind": {},
        "approval": False,
    }


async def test_a_tool_whose_arguments_have_no_names_is_refused(conn: AsyncConnection) -> None:
    """No provider takes it, and the first row would find out."""
    await run_all(
        conn,
        DESK
        + "insert into agent.tool (name, kind, target, input_schema)"
        + " values ('listed', 'python', 'desk:listed', '{\"type\": \"array\"}')",
    )
    with pytest.raises(Error, match="input_schema must be") as caught:
        await attach(conn, "tools=[listed]")
    assert caught.value.sqlstate == "WA011"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_more_tools_than_a_provider_takes_are_refused(
    conn: AsyncConnection, provider: str
) -> None:
    """Servers of Chat Completions take 128; those of the Messages API have no such limit."""
    await run_all(conn, DESK)
    await conn.execute(
        "insert into agent.tool (name, kind, target) select 't' || n, 'python', 'desk:t'"
        " from generate_series(1, 129) n"
    )
    await conn.execute(
        "update agent.model set provider = %s, base_url = null where name = 'fake'", [provider]
    )
    tools = ", ".join(f"t{n}" for n in range(1, 130))
    if provider == "anthropic":
        await attach(conn, f"tools=[{tools}]")
        return
    with pytest.raises(Error, match="129 tools"):
        await attach(conn, f"tools=[{tools}]")


@pytest.mark.parametrize(
    "url",
    [
        "localhost:11434",
        "127.0.0.1:8000/v1",
        "ftp://u:secret@h/v1",
        "http://",
        "https:///v1",
        "http://a b",
    ],
)
async def test_a_base_url_that_is_none_is_refused(conn: AsyncConnection, url: str) -> None:
    """Where it is written, not at the first row; it may hold a password and is not shown."""
    with pytest.raises(Error, match="must begin with http") as caught:
        await conn.execute(
            "insert into agent.model (name, provider, model_id, base_url)"
            " values ('m', 'openai', 'x', %s)",
            [url],
        )
    assert caught.value.sqlstate == "WA014"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:11434/v1", "https://u:p@h", "http://[::1]:80/v1/"]
)
async def test_a_base_url_is_taken(conn: AsyncConnection, url: str) -> None:
    """With a path or without, on any host."""
    await conn.execute(
        "insert into agent.model (name, provider, model_id, base_url)"
        " values ('m', 'openai', 'x', %s)",
        [url],
    )


async def test_a_bound_argument_is_not_the_models_to_choose(conn: AsyncConnection) -> None:
    """It leaves the schema; the column it comes from stays with the tool."""
    await run_all(conn, DESK)
    found = await tool_of(conn, "refund_user", "bind=[ticket_id=id]")
    assert found["bind"] == {"ticket_id": "id"}
    assert found["input_schema"]["properties"] == {"amount": {"type": ["number", "null"]}}
    assert found["input_schema"]["required"] == []


FUNCTIONS = """
create function twice(a int) returns int language sql as 'select 1';
create function twice(a text) returns int language sql as 'select 1';
create function unnamed(int, b text) returns int language sql as 'select 1';
create function answers(out a text, b int, out c text) language sql as $$ select 'x', 'y' $$;
create function many(variadic xs int[]) returns int language sql as 'select 1';
create function anything(a anyelement) returns int language sql as 'select 1';
create procedure acts(a int) language sql as '';
create function looks(a int) returns int stable language sql as 'select 1';
create function lists() returns table (n int, s text) stable language sql as $$ select 1, 'a' $$;
create schema app;
create type app.mood as enum ('good', 'bad');
create function app.feel(mood app.mood) returns int language sql as 'select 1';
create function app.twice(a int) returns int language sql as 'select 1';
insert into agent.tool (name, kind, target, description, approval, timeout_seconds, effect)
values ('which', 'sql', 'twice(text)', 'The second.', true, 7, 'read'),
       ('gone', 'sql', 'not_here', '', false, 30, 'read'),
       ('post', 'python', 'desk:post', 'Post it.', false, 9, 'idempotent');
insert into agent.tool (name, kind, target, enabled) values ('looks', 'sql', 'looks', false);
"""
REFUSED_TOOLS = [
    ("tools=[nothing_here]", 'tool "nothing_here" does not exist'),
    ("tools=[twice]", 'tool "twice" is ambiguous: public.twice(integer), public.twice(text)'),
    ("tools=[unnamed]", "function public.unnamed(integer,text) has an unnamed argument"),
    ("tools=[many]", "many"),
    ("tools=[anything]", "anything"),
    ("tools=[acts]", 'tool "acts" does not exist'),
    ("tools=[gone]", 'tool "gone" does not exist'),
    ("tools=[looks]", 'tool "looks" is disabled'),
    ("tools=[refund_user, refund_user]", 'tool "refund_user" is listed twice'),
    ("tools=[app.feel, app_feel]", 'tool "app_feel" does not exist'),
    ("tools=[update_row]", 'tool "update_row" requires writes'),
    ("tools=[refund_user], bind=[ticket_id=nothing]", 'bind: column "nothing"'),
    ("tools=[refund_user], approve=[do_nothing]", 'approve: "do_nothing"'),
    ("tools=[refund_user], tool_choice=do_nothing", 'tool_choice "do_nothing"'),
    ("tools=[refund_user], bind=[ticketid=id]", 'no tool has an argument "ticketid"'),
]


@pytest.mark.parametrize("effect", ["idempotent", "unsafe"])
async def test_a_sql_function_does_not_act_outside_the_database(
    conn: AsyncConnection, effect: str
) -> None:
    """Its calls are rolled back in trials and shadows: an effect outside would stay."""
    await run_all(conn, DESK)
    made = "insert into agent.tool (name, kind, target, effect) values ('x', 'sql', 'f', %s)"
    error = await refused(conn, made, effect, state="WA011")
    assert f"read or transactional, by its volatility, not {effect}" in message_of(error)


async def test_a_tool_that_cannot_be_called_is_refused(
    conn: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """When it is attached, not when the model calls it."""
    await run_all(conn, DESK + FUNCTIONS)
    for spec, tells in REFUSED_TOOLS:
        with subtests.test(spec):
            error = await refused(
                conn,
                "select agent.attach('support_tickets', %s)",
                f"model=fake, {spec}",
                state="WA011",
            )
            assert tells in message_of(error)


async def test_tools_are_found_and_frozen(conn: AsyncConnection) -> None:
    """Registered ones with what was registered, functions with what the catalog says."""
    await run_all(conn, DESK + FUNCTIONS)
    which = await tool_of(conn, "which")
    assert which["target"] == "public.twice(text)"
    assert (which["description"], which["approval"], which["timeout"]) == ("The second.", True, 7)
    assert which["effect"] == "transactional"  # of a SQL function, the catalog knows better
    post = await tool_of(conn, "post")
    assert (post["kind"], post["target"], post["effect"]) == ("python", "desk:post", "idempotent")
    answers = await tool_of(conn, "answers")
    assert answers["arguments"] == [{"name": "b", "type": "integer"}]
    assert answers["input_schema"]["required"] == ["b"]
    assert (await tool_of(conn, "lists"))["returns_set"] is True
    assert (await tool_of(conn, "lists"))["effect"] == Effect.READ
    assert (await tool_of(conn, "app.twice"))["target"] == "app.twice(integer)"
    assert (await tool_of(conn, "refund_user", "approve=[refund_user]"))["approval"] is True


async def test_a_tools_types_are_found_on_any_search_path(conn: AsyncConnection) -> None:
    """Whoever attaches may see schemas that the worker does not look into."""
    await run_all(conn, DESK + FUNCTIONS + "set search_path = app, public")
    feel = await tool_of(conn, "feel")
    assert feel["arguments"] == [{"name": "mood", "type": "app.mood"}]
    assert feel["schema"] == "app"


async def test_a_tool_with_a_schema_in_its_name_can_be_required(conn: AsyncConnection) -> None:
    """The model knows it by a name without a dot; so must whoever requires it."""
    await run_all(conn, DESK + FUNCTIONS)
    await attach(conn, "tools=[app.feel], tool_choice=app.feel, approve=[app.feel]")
    found = await frozen(conn)
    assert found.agent.tool_choice == found.agent.tools[0].name == "app_feel"
    assert found.agent.tools[0].approval


async def test_run_as_must_be_able_to_execute_the_tool(conn: AsyncConnection) -> None:
    """The hint is the statement that lets it."""
    await run_all(conn, DESK + "revoke execute on function refund_user from public")
    async with role(conn) as name:
        await run_all(conn, f"grant select on support_tickets to {name}")
        spec = f"model=fake, tools=[refund_user], run_as={name}"
        error = await refused(
            conn, "select agent.attach('support_tickets', %s)", spec, state="WA011"
        )
        grant = f"grant execute on function public.refund_user(bigint,numeric) to {name}"
        assert error.diag.message_hint == grant
        await run_all(conn, grant)
        await attach(conn, f"tools=[refund_user], run_as={name}")
        await value(conn, "select agent.detach('support_tickets')")


async def test_update_row_needs_a_key(conn: AsyncConnection) -> None:
    """Without one the row cannot be found again."""
    await run_all(conn, DESK + TABLES)
    error = await refused(
        conn, "select agent.attach('no_key', 'model=fake, writes=[t]')", state="WA011"
    )
    assert "requires a primary key on public.no_key" in message_of(error)


async def test_writes_bring_the_tool_that_writes(conn: AsyncConnection) -> None:
    """With the columns' own types, lists and comments as its schema."""
    await run_all(conn, DESK + "comment on column support_tickets.category is 'What it is about.'")
    await attach(conn, "writes=[status, category]")
    (tool,) = (await frozen(conn)).agent.tools
    assert (tool.name, tool.effect) == ("update_row", Effect.TRANSACTIONAL)
    assert tool.input_schema["properties"] == {
        "status": {"type": "string"},
        "category": {
            "type": ["string", "null"],
            "enum": ["bug", "billing", None],
            "description": "What it is about.",
        },
    }


# Schemas from the catalog.

TYPES = """
create type mood as enum ('good', 'it''s bad', 'so-so');
comment on type mood is 'How it feels.';
create type place as (street text, no int);
create domain grade as text check (value in ('a', 'b'));
comment on domain grade is 'A mark.';
create domain short as varchar(3);
create table all_types (
    id uuid primary key,
    small smallint, whole int, big bigint, exact numeric(9,2), rough float8, truth boolean,
    words text, few varchar(5), padded char(4), tag "char", day date, at timestamptz, span interval,
    blob bytea, doc jsonb, mood mood, moods mood[], numbers int[], place place, places place[],
    grade grade, grades grade[], short short,
    one_of text check (one_of in ('x', 'y')),
    few_of varchar(9) check (few_of in ('x', 'it''s', '[y], "z"')),
    maybe text check (maybe in ('x', 'y') or maybe is null),
    any_of text check (any_of = any (array['x', 'y'])),
    none_of text check (not (none_of in ('x', 'y'))),
    not_in text check (not_in not in ('x', 'y')),
    or_else text check (or_else in ('x', 'y') or or_else like 'z%'),
    upper_of text check (upper(upper_of) in ('X', 'Y')),
    both_of text check (both_of in ('x', 'y') and length(both_of) = 1),
    digit int check (digit in (1, 2, 3)),
    comment text
);
comment on column all_types.comment is 'Say "why".';
"""
SCHEMAS: dict[str, Json] = {
    "id": {"type": "string", "format": "uuid"},
    "small": {"type": "integer"},
    "whole": {"type": "integer"},
    "big": {"type": "integer"},
    "exact": {"type": "number"},
    "rough": {"type": "number"},
    "truth": {"type": "boolean"},
    "words": {"type": "string"},
    "few": {"type": "string", "maxLength": 5},
    "padded": {"type": "string", "maxLength": 4},
    "tag": {"type": "string"},
    "day": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "span": {"type": "string"},
    "blob": {"type": "string"},
    "doc": {},
    "mood": {
        "type": "string",
        "enum": ["good", "it's bad", "so-so"],
        "description": "How it feels.",
    },
    "moods": {
        "type": "array",
        "items": {
            "type": "string",
            "enum": ["good", "it's bad", "so-so"],
            "description": "How it feels.",
        },
    },
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "place": {
        "type": "object",
        "properties": {"street": {"type": ["string", "null"]}, "no": {"type": ["integer", "null"]}},
        "additionalProperties": False,
    },
    "places": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "street": {"type": ["string", "null"]},
                "no": {"type": ["integer", "null"]},
            },
            "additionalProperties": False,
        },
    },
    "grade": {"type": "string", "enum": ["a", "b"], "description": "A mark."},
    "grades": {
        "type": "array",
        "items": {"type": "string", "enum": ["a", "b"], "description": "A mark."},
    },
    "short": {"type": "string", "maxLength": 3},
    "one_of": {"type": "string", "enum": ["x", "y"]},
    "few_of": {"type": "string", "maxLength": 9, "enum": ["x", "it's", '[y], "z"']},
    "maybe": {"type": "string", "enum": ["x", "y"]},
    "any_of": {"type": "string", "enum": ["x", "y"]},
    "none_of": {"type": "string"},
    "not_in": {"type": "string"},
    "or_else": {"type": "string"},
    "upper_of": {"type": "string"},
    "both_of": {"type": "string"},
    "digit": {"type": "integer"},
    "comment": {"type": "string", "description": 'Say "why".'},
}


def or_null(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema of a column that can be NULL."""
    if "type" not in schema:
        return schema
    listed = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **listed}


async def test_a_columns_schema_says_what_the_catalog_says(
    conn: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """And never more: a check that is not a plain list of values makes no list."""
    await run_all(conn, TYPES)
    found = dict(
        await rows(
            conn,
            "select attname, agent_internal.column_schema(attrelid, attname) from pg_attribute"
            " where attrelid = 'all_types'::regclass and attnum > 0",
        )
    )
    assert found.keys() == SCHEMAS.keys()
    for name, schema in SCHEMAS.items():
        with subtests.test(name):
            assert found[name] == (schema if name == "id" else or_null(schema))


# Names, versions, ends.


async def test_what_is_frozen_is_read_back_complete(conn: AsyncConnection) -> None:
    """The definition that the WAL carries is all that reader and workers need."""
    await run_all(conn, DESK)
    attached = await attach(
        conn,
        'tools=[refund_user], on=[insert, delete], when="new.amount > 1", columns=[amount],'
        " ordering_key=[status], debounce=2s, max_cost=0.25, max_depth=0",
    )
    found = await frozen(conn)
    assert (found.id, found.version, found.target.relation) == (
        attached,
        1,
        ("public", "support_tickets"),
    )
    assert found.trigger.ops == {Op.INSERT, Op.DELETE}
    assert (found.target.key_columns, found.queueing.ordering_key) == (("id",), ("status",))
    assert (found.target.columns, found.trigger.condition_columns) == (
        frozenset({"amount"}),
        ("amount",),
    )
    assert (found.queueing.debounce, found.agent.limits.max_cost, found.trigger.max_depth) == (
        2.0,
        0.25,
        0,
    )
    assert found.authority.approval_seconds == 7 * 86400


async def test_a_name_is_given_once(conn: AsyncConnection) -> None:
    """The second attachment of a table needs a name of its own."""
    await run_all(conn, DESK)
    await attach(conn, "")
    error = await refused(
        conn, "select agent.attach('support_tickets', 'model=fake')", state="WA013"
    )
    assert 'attachment "support_tickets" already exists' in message_of(error)
    await attach(conn, "name=second")
    assert await value(conn, "select agent.detach('support_tickets')") == 1
    await attach(conn, "")
    assert await column(conn, "select name from agent.attachment order by 1") == [
        "second",
        "support_tickets",
    ]


async def test_an_attachment_is_replaced_on_request(conn: AsyncConnection) -> None:
    """It keeps its ID, so its runs and its queue; another table and a file are not overwritten."""
    await run_all(conn, DESK)
    first = await attach(conn, "when=\"new.status = 'open'\", tools=[refund_user]")
    error = await refused(conn, "select agent.attach('support_tickets', 'model=fake')")
    assert "replace=true" in message_of(error)
    assert await attach(conn, "tools=[], replace=true") == first
    assert await rows(
        conn, "select a.condition, g.tools, a.version > 1 from agent.attachment a, agent.agent g"
    ) == [(None, [], True)]
    await conn.execute("create table other (id int primary key)")
    other = "select agent.attach('other', 'model=fake, name=support_tickets, replace=true')"
    assert "agent.detach" in message_of(await refused(conn, other, state="WA013"))
    await conn.execute("update agent.attachment set source = 'file'")
    same = "select agent.attach('support_tickets', 'model=fake, replace=true')"
    assert "walagent apply" in message_of(await refused(conn, same, state="WA013"))


async def test_a_table_lets_all_of_its_agents_go(conn: AsyncConnection) -> None:
    """Its name stands for all attachments, where no attachment has it as its own."""
    await run_all(conn, DESK)
    await attach(conn, "name=a")
    await attach(conn, "name=b")
    assert await value(conn, "select agent.detach('public.support_tickets')") == 2
    assert await value(conn, "select count(*) from agent.attachment") == 0
    error = await refused(conn, "select agent.detach('support_ticket')", state="WA013")
    assert 'no attachment or attached table is named "support_ticket"' in message_of(error)


async def test_what_is_not_there_cannot_be_paused(conn: AsyncConnection) -> None:
    """A misspelled name is not silently fine."""
    await run_all(conn, DESK)
    await attach(conn, "name=desk")
    for function in ("pause", "resume"):
        error = await refused(conn, f"select agent.{function}('dessk')", state="WA013")
        assert 'Did you mean "desk"?' in message_of(error)


async def test_pausing_makes_no_version(conn: AsyncConnection) -> None:
    """It changes neither what is matched nor what a run does."""
    await run_all(conn, DESK)
    await attach(conn, "name=desk")
    await value(conn, "select agent.pause('desk', 'lunch')")
    assert await rows(conn, "select paused, paused_reason, version from agent.attachment") == [
        (True, "lunch", 1)
    ]
    assert await value(conn, "select paused from agent_internal.queue") is True
    await value(conn, "select agent.resume('desk')")
    assert await rows(conn, "select paused, paused_reason, version from agent.attachment") == [
        (False, None, 1)
    ]
    assert await value(conn, "select paused from agent_internal.queue") is False
    assert await value(conn, "select count(*) from agent.attachment_version") == 1


async def test_every_change_of_attachment_or_agent_is_a_new_version(conn: AsyncConnection) -> None:
    """The old ones stay as they were: runs are pinned to them."""
    await run_all(conn, DESK)
    await attach(conn, "name=desk, tools=[refund_user]")
    await run_all(
        conn,
        "update agent.attachment set condition = 'new.id > 1';"
        "update agent.agent set system_prompt = 'Be kind.';"
        "update agent.agent set system_prompt = 'Be kind.';"
        "update agent.agent set tools = '{}'",
    )
    found = await rows(
        conn,
        "select version, definition ->> 'version', definition ->> 'condition',"
        " definition ->> 'system_prompt', jsonb_array_length(definition -> 'tools'),"
        " definition ->> 'agent_version'"
        " from agent.attachment_version order by 1",
    )
    assert found == [
        (1, "1", None, "", 1, "1"),
        (2, "2", "(new.id > 1)", "", 1, "1"),
        (3, "3", "(new.id > 1)", "Be kind.", 1, "2"),
        (4, "4", "(new.id > 1)", "Be kind.", 0, "3"),
    ]


async def test_a_plain_update_is_checked_like_an_attach(conn: AsyncConnection) -> None:
    """A wrong value is refused, and nothing changes."""
    await run_all(conn, DESK)
    await attach(conn, "name=desk")
    before = await rows(conn, "select * from agent.attachment")
    for changed, state in (
        ("condition = 'random() > 0'", "WA012"),
        ("columns = '{nothing}'", "WA013"),
        ("writes = '{nothing}'", "WA013"),
        ("relation = 'pg_catalog.pg_class'", "WA013"),
        ("run_as = 'nobody_at_all'", "42704"),
        ("agent = 'nobody'", "WA013"),
        ("approve = '{refund_user}'", "WA011"),
    ):
        await refused(conn, f"update agent.attachment set {changed}", state=state)
    for changed in ("tools = '{nothing_here}'", "tool_choice = 'nothing'"):
        await refused(conn, f"update agent.agent set {changed}", state="WA011")
    assert await rows(conn, "select * from agent.attachment") == before


async def test_a_disabled_model_is_refused_by_every_way_in(conn: AsyncConnection) -> None:
    """No run of it could succeed."""
    await run_all(conn, DESK + "update agent.model set enabled = false where name = 'fake'")
    await refused(conn, "select agent.attach('support_tickets', 'model=fake')", state="WA014")
    await run_all(conn, "insert into agent.agent (name, model) values ('desk', 'fake')")
    plain = (
        "insert into agent.attachment (name, agent, relation)"
        " values ('desk', 'desk', 'support_tickets')"
    )
    await refused(conn, plain, state="WA014")


async def test_nobody_writes_what_the_triggers_write(conn: AsyncConnection) -> None:
    """Definition, version, owner and time are overwritten, whatever a statement says."""
    await run_all(conn, DESK + "insert into agent.agent (name, model) values ('desk', 'fake')")
    forged = '\'{"run_as": "somebody"}\''
    await run_all(
        conn,
        "insert into agent.attachment (name, agent, relation, version, definition, attached_by,"
        f" attached_at) values ('desk', 'desk', 'support_tickets', 9, {forged}, 'x', 'epoch')",
    )
    check = (
        "select version, definition ->> 'version', definition ? 'condition',"
        " attached_by = current_user, attached_at > 'epoch' from agent.attachment"
    )
    assert await rows(conn, check) == [(1, "1", True, True, True)]
    await run_all(
        conn,
        f"update agent.attachment set definition = {forged}, attached_by = 'x', id = 99",
    )
    definition = await value(conn, "select definition from agent.attachment")
    assert definition["run_as"] != "somebody"
    assert await value(conn, "select id = 99 or attached_by = 'x' from agent.attachment") is False
    await run_all(conn, f"update agent.attachment set version = 50, definition = {forged}")
    assert await value(conn, "select definition ->> 'version' from agent.attachment") in {"2", "3"}


async def test_the_table_of_attachments_is_not_truncated(conn: AsyncConnection) -> None:
    """It would leave tables published that nobody is attached to."""
    await run_all(conn, DESK)
    await attach(conn, "")
    await refused(conn, "truncate agent.attachment cascade", state="P0001")


async def test_an_attachment_outlives_neither_table_nor_role_in_chains(
    conn: AsyncConnection,
) -> None:
    """Where table, owner and run_as have been dropped, it can still be paused and detached."""
    await run_all(conn, DESK)
    async with role(conn, "superuser") as name:
        await run_all(conn, f"set role {name}")
        await attach(conn, "name=orphan")
        await run_all(conn, "reset role; drop table support_tickets")
    await value(conn, "select agent.pause('orphan')")
    assert await value(conn, "select agent.detach('orphan')") == 1


async def test_a_statement_that_fails_later_takes_the_attach_back(conn: AsyncConnection) -> None:
    """Attaching is part of its transaction, the publication included."""
    await run_all(conn, DESK)
    async with conn.transaction(force_rollback=True):
        await attach(conn, "")
        assert await value(conn, "select count(*) from pg_publication_rel") == 2
    assert await value(conn, "select count(*) from pg_publication_rel") == 1
    assert await value(conn, "select count(*) from agent.attachment") == 0


# Limits that fit.


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("model=priced, max_cost=0.005", "too low: one call of model"),
        ("model=unpriced, max_cost=5", "max_cost requires a model with prices"),
    ],
)
async def test_a_limit_within_which_no_call_is_possible_is_refused(
    conn: AsyncConnection, spec: str, said: str
) -> None:
    """Each run would fail before its first call."""
    await run_all(conn, DESK + MODELS)
    error = await refused(conn, f"select agent.attach('support_tickets', '{spec}')")
    assert error.sqlstate == "WA014"
    assert said in message_of(error)
    assert error.diag.message_hint


async def test_a_long_prompt_counts_towards_the_least_cost(conn: AsyncConnection) -> None:
    """Its bytes are sent with each call."""
    await run_all(conn, DESK + MODELS)
    attached = "select agent.attach('support_tickets', 'priced', %s, name => %s, max_cost => 0.05)"
    await conn.execute(attached, ["Be kind.", "short"])
    with pytest.raises(Error, match="too low"):
        await conn.execute(attached, ["Be kind. " * 10_000, "long"])


async def test_a_limit_is_checked_when_the_agent_changes(conn: AsyncConnection) -> None:
    """As when it is attached; a price that is gone is found at the next change."""
    await run_all(conn, DESK + MODELS)
    await value(conn, "select agent.attach('support_tickets', 'model=priced, max_cost=0.05')")
    error = await refused(conn, "update agent.agent set max_cost = 0.0001")
    assert error.sqlstate == "WA014"


# When runs end.


@pytest.mark.parametrize(
    ("spec", "finish"),
    [
        ("writes=[status]", "after_call"),
        ("writes=[status], tools=[do_nothing], tool_choice=required", "after_call"),
        ("tools=[refund_user], tool_choice=refund_user", "after_call"),
        ("tools=[refund_user]", "answer"),
        ("tools=[refund_user], writes=[status]", "answer"),
        ("tools=[refund_user], finish=after_call", "after_call"),
        ("writes=[status], finish=answer", "answer"),
        ("", "answer"),
    ],
)
async def test_runs_end_after_their_calls_where_one_call_is_enough(
    conn: AsyncConnection, spec: str, finish: str
) -> None:
    """Unless the attachment says otherwise."""
    await run_all(conn, DESK)
    await attach(conn, spec)
    assert (await frozen(conn)).agent.finish == finish


async def test_a_definition_of_the_first_release_ends_with_an_answer(
    conn: AsyncConnection,
) -> None:
    """As its runs have begun."""
    await run_all(conn, DESK)
    await attach(conn, "writes=[status]")
    old = "select definition - 'finish' from agent.attachment"
    assert Attachment.from_json(await value(conn, old)).agent.finish == "answer"
