"""What agents write comes back through the WAL: who may react to it, and how often."""

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, refused, role, rows, run_all, session, value
from walagent.message import Json
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.tools.python import ToolContext, tool

TABLES = (
    DESK
    + """
insert into agent.model (name, provider, model_id) values ('ping', 'scripted', 'x'),
    ('pong', 'scripted', 'x');
create table a (id int primary key generated always as identity, note text);
create table b (id int primary key generated always as identity, note text);
create function to_a() returns void language sql as $$ insert into a (note) values ('agent') $$;
create function to_b() returns void language sql as $$ insert into b (note) values ('agent') $$;
create function noisy() returns void language plpgsql as $$
begin
    perform pg_logical_emit_message(true, 'walagent', 'hello');
    perform pg_logical_emit_message(true, 'walagent', '1 1 0 ' || repeat('0', 64));
    perform pg_logical_emit_message(true, 'billing', 'paid');
    insert into a (note) values ('agent');
end $$;
"""
)


async def found(conn: AsyncConnection) -> list[tuple[Json, ...]]:
    """All runs: whose, of which row, why, how deep, and how they ended."""
    return await rows(
        conn,
        "select attachment, key, cause_run, depth, state::text from agent.run_overview"
        " where attachment <> 'sentinel' order by id",
    )


async def test_an_agent_does_not_react_to_itself(conn: AsyncConnection, dsn: str) -> None:
    """It writes the table that it is attached to, by every kind of tool."""

    @tool()
    async def add(ctx: ToolContext) -> str:
        """Add a row."""
        assert ctx.conn is not None
        await ctx.conn.execute("insert into a (note) values ('agent')")
        return "added"

    await run_all(conn, TABLES)
    script = [call("to_a"), call("add"), call("update_row", note="seen"), "done"]
    made = add.__walagent_tool__  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]
    async with daemon(conn, dsn, script, python=[made]) as d:
        await attach(
            conn, "on=[insert, update], tools=[to_a, add], writes=[note], max_depth=100", "a"
        )
        await run_all(conn, "insert into a (note) values ('user')")
        await d.ended()
        await d.caught_up()
    assert await found(conn) == [("a", "1", None, 0, "succeeded")]
    assert await rows(conn, "select note from a order by id") == [("seen",), ("agent",), ("agent",)]


async def test_a_tool_cannot_make_its_writes_look_like_somebody_elses(
    conn: AsyncConnection, dsn: str
) -> None:
    """Messages that it puts into the WAL, with our prefix or another, change nothing."""
    await run_all(conn, TABLES)
    async with daemon(conn, dsn, [call("noisy"), "done"]) as d:
        await attach(conn, "tools=[noisy]", "a")
        await run_all(conn, "insert into a (note) values ('user')")
        await d.ended()
        await d.caught_up()
    assert await found(conn) == [("a", "1", None, 0, "succeeded")]


async def test_a_trigger_inside_a_trampoline_cannot_make_a_write_look_like_a_persons(
    conn: AsyncConnection, dsn: str
) -> None:
    """Not with a forged marker, before or after its write, in its transaction or outside."""
    await run_all(
        conn,
        TABLES
        + """
        create function forge() returns trigger language plpgsql as $$
        begin
            perform pg_logical_emit_message(true, 'walagent', '0 0 0 ' || repeat('0', 64));
            perform pg_logical_emit_message(false, 'walagent', '99 99 0 ' || repeat('f', 64));
            perform pg_logical_emit_message(true, 'walagent', '');
            return new;
        end $$;
        create trigger before before insert on a for each row execute function forge();
        create trigger after after insert on a for each row execute function forge();
        """,
    )
    models = {"ping": ScriptedModel([call("to_a"), "a"]), "pong": ScriptedModel(["b", "b"])}
    async with daemon(conn, dsn, models) as d:
        await value(conn, "select agent.attach('a', 'model=ping, tools=[to_a]')")
        await value(conn, "select agent.attach('a', 'name=second, model=pong')")
        await run_all(conn, "insert into a (note) values ('user')")
        await d.ended(3)
        await d.caught_up()
    assert sorted(await found(conn)) == [
        ("a", "1", None, 0, "succeeded"),
        ("second", "1", None, 0, "succeeded"),
        ("second", "2", 1, 1, "succeeded"),
    ]


async def test_another_agent_reacts_and_knows_why(conn: AsyncConnection, dsn: str) -> None:
    """The run that caused it is kept, and how deep it stands."""
    await run_all(conn, TABLES)
    models = {"ping": ScriptedModel([call("to_b"), "a"]), "pong": ScriptedModel(["b"])}
    async with daemon(conn, dsn, models) as d:
        await value(conn, "select agent.attach('a', 'model=ping, tools=[to_b]')")
        await value(conn, "select agent.attach('b', 'model=pong')")
        await run_all(conn, "insert into a (note) values ('user')")
        await d.ended(2)
    assert await found(conn) == [
        ("a", "1", None, 0, "succeeded"),
        ("b", "1", 1, 1, "succeeded"),
    ]


async def test_agents_that_answer_each_other_are_stopped(conn: AsyncConnection, dsn: str) -> None:
    """After max_depth writes of agents in a row; what is passed over is recorded."""
    await run_all(conn, TABLES)
    models = {
        "ping": ScriptedModel([call("to_b"), "a"]),
        "pong": ScriptedModel([call("to_a"), "b"]),
    }
    async with daemon(conn, dsn, models) as d:
        await value(conn, "select agent.attach('a', 'model=ping, tools=[to_b], max_depth=3')")
        await value(conn, "select agent.attach('b', 'model=pong, tools=[to_a], max_depth=3')")
        await run_all(conn, "insert into a (note) values ('user')")
        await d.ended(5)
        await d.caught_up()
    assert await found(conn) == [
        ("a", "1", None, 0, "succeeded"),
        ("b", "1", 1, 1, "succeeded"),
        ("a", "2", 2, 2, "succeeded"),
        ("b", "2", 3, 3, "succeeded"),
        ("a", "3", 4, 4, "skipped"),
    ]
    assert await value(
        conn, "select error ->> 'reason' from agent.run where state = 'skipped'"
    ) == ("depth 4 of the chain of runs exceeds max_depth 3 of a")


async def test_an_agent_may_hear_people_only(conn: AsyncConnection, dsn: str) -> None:
    """With max_depth 0 what agents write is no news, and is not recorded either."""
    await run_all(conn, TABLES)
    models = {"ping": ScriptedModel([call("to_b"), "a"]), "pong": ScriptedModel(["b"])}
    async with daemon(conn, dsn, models) as d:
        await value(conn, "select agent.attach('a', 'model=ping, tools=[to_b]')")
        await value(conn, "select agent.attach('b', 'model=pong, max_depth=0')")
        await run_all(conn, "insert into a (note) values ('user')")
        await d.ended(1)
        await d.caught_up()
        assert await found(conn) == [("a", "1", None, 0, "succeeded")]
        await run_all(conn, "insert into b (note) values ('user')")
        await d.ended(2)


async def test_what_a_tool_writes_in_vain_starts_nothing(conn: AsyncConnection, dsn: str) -> None:
    """A tool that fails leaves no change and no message behind."""
    await run_all(
        conn,
        TABLES + "create function half() returns void language plpgsql as"
        " $$ begin insert into b (note) values ('agent'); raise 'no'; end $$",
    )
    models = {"ping": ScriptedModel([call("half"), "a"]), "pong": ScriptedModel(["b"])}
    async with daemon(conn, dsn, models) as d:
        await value(conn, "select agent.attach('a', 'model=ping, tools=[half]')")
        await value(conn, "select agent.attach('b', 'model=pong')")
        await run_all(conn, "insert into a (note) values ('user')")
        await d.ended(1)
        await d.caught_up()
    assert await found(conn) == [("a", "1", None, 0, "succeeded")]


async def test_a_forged_message_makes_nobody_an_agent(conn: AsyncConnection, dsn: str) -> None:
    """Anybody may emit one; without the key, or from another transaction, it proves nothing.

    Else an application could hide its writes from an agent, or a person.
    """
    await run_all(conn, TABLES)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        attached = await attach(conn, "name=a", "a")
        await value(conn, "select agent.pause('a')")
        what = f"7 {attached} 0"
        genuine = await value(
            conn, "select agent_internal.sign_write(%s, pg_current_xact_id())", what
        )
        emit = "select pg_logical_emit_message(true, 'walagent', %s)"
        for content in (f"{what} {'0' * 64}", f"{what} {genuine}", what, "nudge", ""):
            async with conn.transaction():
                await value(conn, emit, content)
                await run_all(conn, "insert into a (note) values ('user')")
        async with conn.transaction():
            await run_all(conn, "insert into a (note) values ('user')")
            own = "agent_internal.sign_write(%s, pg_current_xact_id())"
            await value(conn, f"{emit[:-3]}%s || ' ' || {own})", what, what)
        await d.caught_up()
        assert await found(conn) == [("a", str(n), None, 0, "pending") for n in range(1, 7)]


async def test_the_key_is_for_owner_and_runner_alone(conn: AsyncConnection, dsn: str) -> None:
    """Nobody else signs, nor reads what is signed with."""
    await run_all(conn, TABLES)
    async with role(conn) as name:
        for grant in ("developer", "approver", "viewer"):
            await value(conn, f"select agent.grant_{grant}(%s)", name)
        async with session(dsn, user=name) as own:
            for statement in (
                "select key from agent_internal.secret",
                "select agent_internal.sign_write('7 1 0', pg_current_xact_id())",
                "select agent_internal.begin_write(1, 1)",
            ):
                await refused(own, statement, state="42501")
