"""An upgrade: the first release's schema with runs in flight becomes that of a new installation.

The migrations up to `FIRST` are those of the first release and are not edited after it.  Each later
migration is tested here as it is; what it does to the rows in flight is for its own tests.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest
from psycopg import AsyncConnection

from tests.helpers.catalog import catalog
from tests.helpers.database import column, refused, role, rows, run_all, session, value
from tests.helpers.queue import claim, finish, ids, states
from tests.integration.cli.user import empty_database
from tests.integration.runs.test_toolbox import Bench
from walagent.app import migrate as upgrade
from walagent.domain.attachment import Attachment
from walagent.runs.tools.toolbox import Toolbox
from walagent.store.migrations import Migration, apply_migration, find_migrations
from walagent.store.sessions.connections import open_pool
from walagent.store.sessions.tool_connections import open_tool_connections

FIRST = "0025_roles.sql"
# As the first release stores them: a run that is executed, one that is blocked by it, one that
# waits for its retry, one that has ended.
IN_FLIGHT = """
create table ticket (id bigint primary key, status text);
select agent.attach('ticket', 'name=desk, model=gpt-4o');
insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                       change, key, ordering_key, state, worker, lease, attempt, lease_expires_at,
                       next_attempt_at, finished_at, blocked_by)
select a.id, a.id, a.version, 1, '0/10', r.n,
       '{"op": "insert", "new": {"id": 1}}', '1', r.ordering_key, r.state::agent.run_state, 'w1',
       r.lease, 1, now() + r.leased, now() + r.delay, now() + r.ended, r.blocked_by
  from agent.attachment a,
       (values (1, 'a', 'running', 7, interval '1 hour', null, null, null),
               (2, 'a', 'pending', 0, null, null, null, 1),
               (3, 'b', 'waiting_retry', 1, null, interval '-1 second', null, null),
               (4, 'c', 'succeeded', 1, null, null, interval '0', null))
       as r (n, ordering_key, state, lease, leased, delay, ended, blocked_by);
insert into agent.step (run_id, seq, kind, content)
values (1, 0, 'reply', '{"text": "", "calls": []}'),
       (4, 0, 'reply', '{"text": "done", "calls": []}');
"""
TOOLS_IN_FLIGHT = """
create table ticket (id bigint primary key, status text);
insert into ticket values (1, 'open');
create function close_ticket(ticket_id bigint) returns text language sql as
    $$ update ticket set status = 'closed' where id = ticket_id returning 'closed' $$;
select agent.attach('ticket', 'name=desk, model=gpt-4o, tools=[close_ticket], writes=[status]');
insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                       change, key, ordering_key, state, lease, attempt)
select id, id, version, 1, '0/10', 1,
       '{"op": "insert", "new": {"id": 1}}', '1', 'a', 'pending', 1, 1
  from agent.attachment;
insert into agent.step (run_id, seq, kind, content)
values (1, 0, 'reply', '{"stop": "tool", "parts": [
    {"call": "c1", "name": "close_ticket", "arguments": {"ticket_id": 1}},
    {"call": "c2", "name": "update_row", "arguments": {"status": "seen"}}]}');
"""
FILTERED = """
create sequence noted;
create function note(text) returns boolean language sql as 'select nextval(''noted'') > 0';
create domain checked as text check (note(value));
create table dirty (id int primary key, n int);
create table clean (id int primary key, n int, "a.b" text);
create table mixed (id int primary key, n int);
select agent.attach(t::regclass, 'gpt-4o', name => name, ops => '{insert}', server_filter => true,
                    condition => c)
  from (values ('dirty', 'dirty', $$new.n > 3 and '{zz}'::checked[] is not null$$),
               ('clean', 'clean', $$new.n > 3 and new."a.b" = 'a.b::c.d'$$),
               ('mixed', 'mixed', 'new.n = 1'),
               ('mixed', 'mixed too', $$new.n = 2 and '{zz}'::checked[] is not null$$)
       ) as x (t, name, c);
"""
SCRATCH = Migration(
    "9999_scratch.sql",
    b"alter table agent.run add note text not null default 'none';"
    b"create function agent_internal.scratch() returns integer language sql as 'select 1';"
    b"revoke all on function agent_internal.scratch() from public",
)


@pytest.fixture
async def databases(server: str) -> AsyncIterator[Sequence[AsyncConnection]]:
    """Two empty databases: one to upgrade, one to install in."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                await AsyncConnection.connect(
                    stack.enter_context(empty_database(server)), autocommit=True
                )
            )
            for _ in range(2)
        ]


@pytest.mark.parametrize("more", [[], [SCRATCH]], ids=["this release", "a later one"])
async def test_an_upgrade_ends_as_a_new_installation(
    databases: Sequence[AsyncConnection],
    monkeypatch: pytest.MonkeyPatch,
    more: Sequence[Migration],
) -> None:
    """The catalogs are equal, every row is kept, and what was in flight is executed."""
    known = [*find_migrations(), *more]
    first = [migration for migration in known if migration.name <= FIRST]
    old, new = databases
    for migration in first:
        async with old.transaction():
            await apply_migration(old, migration)
    await run_all(old, IN_FLIGHT)
    before = await rows(old, "select to_jsonb(r) from agent.run r order by id")
    monkeypatch.setattr(upgrade, "find_migrations", lambda: known)
    assert await upgrade.migrate(old) == known[len(first) :]
    await upgrade.migrate(new)
    assert await catalog(old) == await catalog(new)
    after = await rows(old, "select to_jsonb(r) from agent.run r order by id")
    assert [{**now, **was} for (now,), (was,) in zip(after, before, strict=True)] == [
        now for (now,) in after
    ]
    await value(old, "select agent_internal.tick()")
    assert await states(old) == ["running", "pending", "pending", "succeeded"]
    assert ids(await claim(old)) == [3]
    await value(old, "select agent.cancel(1)")
    await run_all(
        old, "update agent.run set lease_expires_at = now() - interval '1 s' where id = 1"
    )
    await value(old, "select agent_internal.tick()")
    (held,) = await claim(old)
    assert held.run_id == 2
    await finish(old, held)
    assert await states(old) == ["cancelled", "succeeded", "running", "succeeded"]
    assert await value(old, "select count(*) from pg_proc where proname = 'scratch'") == len(more)


async def test_a_login_that_could_ask_can_delete_its_sessions_after_the_upgrade(
    databases: Sequence[AsyncConnection],
) -> None:
    """Nobody has to grant again what a later release adds."""
    old, _ = databases
    for migration in find_migrations():
        if migration.name <= FIRST:
            async with old.transaction():
                await apply_migration(old, migration)
    async with role(old) as login:
        await run_all(old, f"select agent.grant_asker('{login}')")
        await upgrade.migrate(old)
        may = f"select has_function_privilege('{login}', 'agent.delete_session(text)', 'execute')"
        assert await value(old, may)


async def test_what_was_there_is_of_one_tenant_after_the_upgrade(
    databases: Sequence[AsyncConnection],
) -> None:
    """It is called default; who could read and attach can do so, and sees all of it."""
    old, _ = databases
    for migration in find_migrations():
        if migration.name <= FIRST:
            async with old.transaction():
                await apply_migration(old, migration)
    await run_all(old, IN_FLIGHT)
    async with role(old) as login, role(old) as reads:
        await run_all(
            old,
            f"select agent.grant_viewer('{login}'), agent.grant_developer('{login}');"
            f"grant select, insert on ticket to {login};"
            f"grant usage on schema agent to {reads}; grant select on agent.run to {reads}",
        )
        await upgrade.migrate(old)
        for table in ("agent.run", "agent.step", "agent.agent", "agent.attachment_version"):
            found = await rows(old, f"select distinct tenant from {table}")
            assert found == [("default",)], table
        async with session(old.info.dsn, user=login) as viewer:
            assert await value(viewer, "select count(*) from agent.run") == 4
            assert await value(viewer, "select count(*) from agent.model") > 10
            await refused(
                viewer, "select agent.attach('ticket', 'name=mine, model=nobody')", state="WA014"
            )
        async with session(old.info.dsn, user=reads) as other:
            assert await value(other, "select count(*) from agent.run") == 4
    kept = "insert into agent.run (queue_id, attachment_id, attachment_version, reason, change)"
    await run_all(old, f"{kept} select id, id, version, 'manual', '{{}}' from agent.attachment")
    assert await value(old, "select tenant from agent.run order by id desc limit 1") == "default"


async def test_a_run_from_before_the_upgrade_calls_its_tools(
    databases: Sequence[AsyncConnection],
) -> None:
    """Its attachment was made when tools were executed in another way."""
    old, _ = databases
    for migration in find_migrations():
        if migration.name <= FIRST:
            async with old.transaction():
                await apply_migration(old, migration)
    await run_all(old, TOOLS_IN_FLIGHT)
    await upgrade.migrate(old)
    (held,) = await claim(old)
    attachment = Attachment.from_json(await value(old, "select definition from agent.attachment"))
    dsn = old.info.dsn
    async with (
        open_pool(dsn, size=1, application="walagent test") as pool,
        open_tool_connections(pool, lambda: dsn) as calls,
    ):
        bench = Bench(pool, Toolbox(calls, {}), held, attachment)
        assert await bench.answer("close_ticket", ticket_id=1) == "closed"
        assert await bench.answer("update_row", status="seen") == "updated"
    assert await rows(old, "select status from ticket") == [("seen",)]
    assert await rows(old, "select seq, kind::text from agent.step order by seq") == [
        (0, "reply"), (1, "result"), (2, "result"),
    ]  # fmt: skip


async def test_no_filter_from_before_the_upgrade_has_a_type_whose_input_runs_code_of_others(
    databases: Sequence[AsyncConnection],
) -> None:
    """The upgrade executes none of that code, and nothing is lost: the reader evaluates it."""
    old, _ = databases
    for migration in find_migrations():
        if migration.name <= FIRST:
            async with old.transaction():
                await apply_migration(old, migration)
    await run_all(old, FILTERED)
    filtered = "select tablename from pg_publication_tables where rowfilter is not null order by 1"
    assert await column(old, filtered) == [
        "clean"
    ]  # PostgreSQL refuses the others, but parses them
    recorded = (
        "select name from agent.attachment where server_filter"
        " and definition ->> 'row_filter' is not null order by 1"
    )
    assert await column(old, recorded) == ["clean", "dirty", "mixed", "mixed too"]
    noted = "select last_value from noted"
    before = await value(old, noted)
    await upgrade.migrate(old)
    assert await column(old, filtered) == ["clean"]
    published = "select tablename from pg_publication_tables where tablename in ('dirty', 'mixed')"
    assert sorted(await column(old, published)) == ["dirty", "mixed"]
    assert await column(old, recorded) == ["clean", "mixed"]
    await run_all(old, "select agent_internal.republish(); select agent.detach('mixed')")
    assert await value(old, noted) == before
    assert await rows(old, "select * from agent.broken_invariant") == []
