"""With `only_unchanged`, update_row writes while the row is as the agent was shown it."""

from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, role, rows, run_all, value
from walagent.message import Reply, Stop, ToolCall, Usage
from walagent.models.script import call

NOT_UPDATED = "not updated: the row has changed since"
SCRIPT = [call("update_row", category="billing"), "done"]

# Values of types whose text, equality or JSON is of its own kind, and others of each.
TYPES = {
    "bigint": ("1", "2"),
    "numeric": ("1.50", "1.51"),
    "numeric(40, 20)": ("12345678901234567890.12345678901234567890", "12345678901234567890"),
    "amount": ("0.10", "'NaN'"),
    "double precision": ("1e300", "'NaN'"),
    "float8": ("'-0'", "1"),
    "real": ("'-0'", "'-infinity'"),
    "boolean": ("true", "false"),
    "text": ("'a'", "'A'"),
    "text collate loose": ("'a'", "'A'"),
    "character(4)": ("'a'", "'b'"),
    "varchar(4)": ("'a '", "'a'"),
    "bytea": (r"'\x00ff'", r"'\x00fe'"),
    "timestamptz": ("'2026-03-29 02:30:00.000001+02'", "'2026-03-29 02:30:00+02'"),
    "interval": ("'1 day'", "'24 hours'"),
    "json": ("""'{"a":1}'""", """'{"a": 1}'"""),
    "jsonb": ("""'{"a":1.50}'""", """'{"a":"1.5"}'"""),
    "document": ("""'[1.50]'""", "'null'"),
    "nothing": ("""'null'""", "'[]'"),
    "text_as_json": ("""'[1]'""", """'[1 ]'"""),
    "text[]": ("""'{a,NULL,"b,c"}'""", "'{a}'"),
    "jsonb[]": ("""array['{"a":[1]}'::jsonb]""", """array['{"a":[2]}'::jsonb]"""),
    "point": ("'(1,2)'", "'(1,3)'"),
    "pair": ("row(1, 'x')::pair", "row(1, null)::pair"),
    "mood": ("'good'", "'bad'"),
    "tstzrange": ("'[2026-01-01, 2026-01-02)'", "'empty'"),
    "inet": ("'10.0.0.1'", "'10.0.0.1/31'"),
}
LOOSE = "create collation loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
MADE = """
create type pair as (n integer, t text);
create type mood as enum ('good', 'bad');
create domain text_as_json as json;
create domain document as jsonb;
create domain nothing as jsonb;
create domain amount as numeric;
"""


async def results(conn: AsyncConnection) -> list[tuple[Any, ...]]:
    """Key and result of each call."""
    return list(
        await rows(
            conn,
            "select r.key, s.content ->> 'content'"
            " from agent.step s join agent.run r on r.id = s.run_id"
            " where s.kind = 'result' order by r.id, s.seq",
        )
    )


async def test_what_somebody_has_changed_meanwhile_is_not_overwritten(
    conn: AsyncConnection, dsn: str
) -> None:
    """The run ends well and says so; nothing is recorded as a change of it."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(conn, "writes=[category], only_unchanged=true, paused=true")
        await run_all(conn, "insert into support_tickets (issue) values ('a'), ('b')")
        await d.caught_up()
        await run_all(conn, "update support_tickets set issue = 'A' where id = 1")
        await run_all(conn, "select agent.resume('support_tickets')")
        ended = await d.ended(2)
        await d.caught_up()
        changed = await rows(conn, "select key from agent.change_overview")
        kept = await value(conn, "select count(*) from agent_internal.row_before")
    assert [row[:2] for row in ended] == [("1", "succeeded"), ("2", "succeeded")]
    assert await rows(conn, "select id, category from support_tickets order by id") == [
        (1, None),
        (2, "billing"),
    ]
    assert await results(conn) == [("1", NOT_UPDATED), ("2", "updated")]
    assert (changed, kept) == ([("2",)], 0)


async def test_columns_that_the_agent_is_not_shown_do_not_count(
    conn: AsyncConnection, dsn: str
) -> None:
    """Those that it is shown do, each."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(
            conn, "columns=[issue, amount], writes=[category], only_unchanged=true, paused=true"
        )
        await run_all(
            conn, "insert into support_tickets (issue) select 'x' from generate_series(1, 3)"
        )
        await run_all(
            conn, "update support_tickets set status = 'closed', category = 'bug' where id = 1"
        )
        await run_all(conn, "update support_tickets set amount = 1 where id = 2")
        await d.caught_up()
        await run_all(conn, "select agent.resume('support_tickets')")
        await d.ended(3)
    assert await results(conn) == [("1", "updated"), ("2", NOT_UPDATED), ("3", "updated")]


async def test_what_the_run_has_written_itself_does_not_count(
    conn: AsyncConnection, dsn: str
) -> None:
    """Of two calls, the second finds what the first wrote."""
    await run_all(conn, DESK)
    twice = [call("update_row", category="bug"), call("update_row", category="billing"), "done"]
    async with daemon(conn, dsn, twice) as d:
        await attach(conn, "writes=[category], only_unchanged=true, finish=answer")
        await run_all(conn, "insert into support_tickets (issue) values ('a')")
        await d.ended()
    assert await rows(conn, "select category from support_tickets") == [("billing",)]


async def test_a_call_that_was_refused_lets_no_later_one_pass(
    conn: AsyncConnection, dsn: str
) -> None:
    """A model that is told so tries again: in the same reply, or in the next one."""
    await run_all(conn, DESK)
    both = Reply(
        (
            ToolCall("1", "update_row", {"category": "bug"}),
            ToolCall("2", "update_row", {"category": "bug"}),
        ),
        Stop.TOOL,
        Usage(),
    )
    async with daemon(conn, dsn, [both, call("update_row", category="bug"), "done"]) as d:
        await attach(conn, "writes=[category], only_unchanged=true, paused=true, finish=answer")
        await run_all(conn, "insert into support_tickets (issue) values ('a')")
        await d.caught_up()
        await run_all(conn, "update support_tickets set category = 'billing'")
        await run_all(conn, "select agent.resume('support_tickets')")
        await d.ended()
    assert await results(conn) == [("1", NOT_UPDATED)] * 3
    assert await rows(conn, "select category from support_tickets") == [("billing",)]


async def test_after_an_update_of_its_own_the_run_compares_with_what_it_left(
    conn: AsyncConnection, dsn: str
) -> None:
    """With what triggers and expressions made of it; another's change is found, in any column."""
    await run_all(
        conn,
        DESK
        + """
        alter table support_tickets add said text generated always as (upper(category)) stored;
        alter table support_tickets add touched integer default 0;
        create function touch() returns trigger language plpgsql as
            $$ begin new.touched := new.touched + 1; return new; end $$;
        create trigger touch before update on support_tickets
            for each row execute function touch();
        create function wait_for_somebody() returns text language plpgsql as $$ begin
            update support_tickets set category = 'billing' where issue = 'b'; return 'ok'; end $$;
        """,
    )
    script = [
        call("update_row", category="bug"),
        call("wait_for_somebody"),
        call("update_row", category=None),
        "done",
    ]
    async with daemon(conn, dsn, script) as d:
        await attach(
            conn,
            "writes=[category], tools=[wait_for_somebody, update_row], only_unchanged=true,"
            " finish=answer",
        )
        await run_all(conn, "insert into support_tickets (issue) values ('a')")
        await d.ended()
        await run_all(conn, "insert into support_tickets (issue) values ('b')")
        await d.ended(2)
    found = await rows(conn, "select issue, category from support_tickets order by id")
    assert found == [("a", None), ("b", "billing")]
    assert [text for _, text in await results(conn)] == [
        "updated", "ok", "updated", "updated", "ok", NOT_UPDATED,
    ]  # fmt: skip


async def test_a_row_that_a_policy_or_a_trigger_keeps_is_not_said_to_have_changed(
    conn: AsyncConnection, dsn: str
) -> None:
    """It is not found, as without `only_unchanged`."""
    await run_all(
        conn,
        DESK
        + """
        create function keep() returns trigger language plpgsql as 'begin return null; end';
        create trigger keep before update on support_tickets
            for each row execute function keep();
        """,
    )
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(conn, "writes=[category], only_unchanged=true")
        await run_all(conn, "insert into support_tickets (issue) values ('a')")
        await d.ended()
    ((_, text),) = await results(conn)
    assert "row does not exist or is not visible" in text


async def test_a_column_that_was_dropped_is_not_compared(conn: AsyncConnection, dsn: str) -> None:
    """The others are; a table with no attached column left is written."""
    await run_all(conn, DESK + "create table plain (id bigint primary key, a text, said text)")
    async with daemon(conn, dsn, [call("update_row", said="yes"), "done"]) as d:
        await attach(conn, "writes=[said], only_unchanged=true, paused=true", "plain")
        await run_all(conn, "insert into plain values (1, 'a'), (2, 'b')")
        await d.caught_up()
        await run_all(conn, "alter table plain drop a")
        await run_all(conn, "update plain set said = 'no' where id = 2")
        await run_all(conn, "select agent.resume('plain')")
        await d.ended(2)
    assert await rows(conn, "select id, said from plain order by id") == [(1, "yes"), (2, "no")]


async def _made(conn: AsyncConnection) -> list[tuple[str, str]]:
    """Make a table with a column of each type, and `said`; return the values of its columns."""
    types = dict(TYPES)
    try:
        await run_all(conn, LOOSE)
    except psycopg.errors.FeatureNotSupported:  # the server was built without ICU
        del types["text collate loose"]
    columns = ", ".join(f"c{n} {each}" for n, each in enumerate(types))
    await run_all(conn, DESK + MADE)
    await run_all(conn, f"create table sample (id bigint primary key, {columns}, said text)")
    return list(types.values())


@pytest.mark.parametrize("null", [False, True])
async def test_values_of_every_kind_are_compared(
    conn: AsyncConnection, dsn: str, *, null: bool
) -> None:
    """As PostgreSQL stores them: row N of those that changed has another value in column N."""
    # JSON's null is shown as NULL.
    values = [("null", b if a == "'null'" else a) if null else (a, b) for a, b in await _made(conn)]
    async with daemon(conn, dsn, [call("update_row", said="yes"), "done"]) as d:
        await attach(conn, "writes=[said], only_unchanged=true, paused=true", "sample")
        same = ", ".join(value for value, _ in values)
        for n in range(2 * len(values)):
            await run_all(conn, f"insert into sample values ({n}, {same})")
        await d.caught_up()
        for n, (_, other) in enumerate(values):
            await run_all(conn, f"update sample set c{n} = {other} where id = {n}")
        await run_all(conn, "select agent.resume('sample')")
        ended = await d.ended(2 * len(values))
    found = await rows(conn, "select id, said from sample order by id")
    assert found == [(n, None if n < len(values) else "yes") for n in range(2 * len(values))]
    assert {state for _, state, *_ in ended} == {"succeeded"}


@pytest.mark.parametrize("at", [10, 299_999])
async def test_a_long_text_is_compared_by_its_beginning_and_length(
    conn: AsyncConnection, dsn: str, at: int
) -> None:
    """Of a text that is cut, the run has no more: a change behind it, of equal length, passes."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(conn, "writes=[category], only_unchanged=true, paused=true")
        await run_all(
            conn,
            "insert into support_tickets (issue)"
            " select repeat('ä', 300000) from generate_series(1, 3)",
        )
        await d.caught_up()
        await run_all(
            conn,
            f"update support_tickets set issue = overlay(issue placing 'b' from {at}) where id = 1",
        )
        await run_all(conn, "update support_tickets set issue = issue || 'c' where id = 2")
        await run_all(conn, "select agent.resume('support_tickets')")
        await d.ended(3)
    found = await rows(conn, "select id, category from support_tickets order by id")
    assert found == [(1, "billing" if at > 262_144 else None), (2, None), (3, "billing")]


async def test_no_operator_of_the_search_path_compares(conn: AsyncConnection, dsn: str) -> None:
    """One that says yes to everything would let stale values through."""
    async with role(conn) as agent:
        await run_all(
            conn,
            DESK
            + f"""
            create schema theirs;
            create function theirs.yes(text, text) returns boolean
                language sql immutable as 'select true';
            create operator theirs.= (leftarg = text, rightarg = text,
                                      function = theirs.yes);
            grant usage on schema theirs to {agent};
            grant select, update on support_tickets to {agent};
            set search_path = theirs, public;
            """,
        )
        async with daemon(conn, dsn, SCRIPT) as d:
            await attach(
                conn, f"writes=[category], only_unchanged=true, paused=true, run_as={agent}"
            )
            await run_all(conn, "insert into support_tickets (issue) values ('a'), ('b')")
            await d.caught_up()
            await run_all(conn, "update support_tickets set issue = 'A' where id = 1")
            await run_all(conn, "select agent.resume('support_tickets')")
            await d.ended(2)
        found = await rows(conn, "select id, category from support_tickets order by id")
    assert found == [(1, None), (2, "billing")]


async def test_it_requires_columns_to_write(conn: AsyncConnection) -> None:
    """Otherwise it would promise what nothing keeps."""
    await run_all(conn, DESK)
    with pytest.raises(psycopg.Error, match="only_unchanged requires writes"):
        await attach(conn, "tools=[refund_user], only_unchanged=true")
