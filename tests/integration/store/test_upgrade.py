"""An upgrade: a database with runs in flight gets a later schema, or stays as it is."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from psycopg import AsyncConnection

from tests.helpers.catalog import catalog
from tests.helpers.database import role, rows, run_all, value
from tests.helpers.later_schema import UPGRADE, later
from tests.helpers.queue import claim, finish, ids, states
from tests.integration.cli.user import empty_database
from walagent.errors import ConfigError, PreconditionError
from walagent.store.install.files import SchemaFile, find_files
from walagent.store.install.migrate import migrate

# A run that is executed, one that is blocked by it, one that waits for its retry, one that has
# ended.
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
NOW = find_files()
THEN = later(NOW)
# The code before with the state then: what was dropped and made again comes back.
NOW_AGAIN = replace(THEN, schema=NOW.schema)
SEES = "select has_table_privilege('{0}', 'agent.worker', 'select')"
CALLS = "select has_function_privilege('{0}', 'agent_internal.scratch()', 'execute')"


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


async def test_an_upgrade_ends_as_a_new_installation(
    databases: Sequence[AsyncConnection],
) -> None:
    """The catalogs are equal, every row is kept, and what was in flight is executed."""
    old, new = databases
    await migrate(old)
    await run_all(old, IN_FLIGHT)
    before = await rows(old, "select to_jsonb(r) from agent.run r order by id")
    plan = await migrate(old, THEN)
    assert UPGRADE.name in plan.names
    assert not await migrate(old, THEN)
    await migrate(new, THEN)
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


@pytest.mark.slow
async def test_roles_have_what_their_capabilities_have_then(
    databases: Sequence[AsyncConnection],
) -> None:
    """Nobody has to grant again; what a DBA granted in addition stays."""
    old, _ = databases
    await migrate(old)
    async with role(old) as viewer, role(old) as runner, role(old) as asker, role(old) as other:
        await run_all(
            old,
            f"select agent.grant_viewer('{viewer}'), agent.grant_runner('{runner}'),"
            f" agent.grant_asker('{asker}');"
            f"grant select on agent.run_overview, agent.dashboard to {other};"
            f"grant execute on function agent.cancel(bigint, text) to {other}",
        )
        await migrate(old, THEN)
        assert not await value(old, SEES.format(viewer))
        assert await value(old, SEES.format(runner))
        assert [await value(old, CALLS.format(each)) for each in (viewer, asker, other)] == [
            True, True, False,
        ]  # fmt: skip
        assert await value(
            old, f"select has_table_privilege('{other}', 'agent.dashboard', 'select')"
        )
        may = f"select has_function_privilege('{other}', 'agent.cancel(bigint, text)', 'execute')"
        assert await value(old, may)


@pytest.mark.slow
async def test_a_privilege_alone_is_no_capability(databases: Sequence[AsyncConnection]) -> None:
    """What a DBA granted or revoked by hand is the same after the upgrade."""
    old, _ = databases
    await migrate(old)
    async with role(old) as reads, role(old) as acts, role(old) as strict:
        await run_all(
            old,
            f"grant select on agent.run to {reads}; grant execute on function agent.act_as(text)"
            f" to {acts}; select agent.grant_viewer('{strict}');"
            f"revoke select on agent.step from {strict}",
        )
        count = (
            "select (select count(*) from pg_class c, aclexplode(c.relacl) x"
            "         where x.grantee::regrole::text = '{0}')"
            "     + (select count(*) from pg_proc p, aclexplode(p.proacl) x"
            "         where x.grantee::regrole::text = '{0}')"
        )
        before = [await value(old, count.format(each)) for each in (reads, acts)]
        await migrate(old, THEN)
        assert [await value(old, count.format(each)) for each in (reads, acts)] == before == [1, 1]
        assert not await value(
            old, f"select has_table_privilege('{strict}', 'agent.step', 'select')"
        )


@pytest.mark.slow
async def test_what_a_dba_has_put_into_the_schemas_stays(
    databases: Sequence[AsyncConnection],
) -> None:
    """A policy, a function, a view; and grants on what is dropped and made again."""
    old, _ = databases
    await migrate(old)
    async with role(old) as other:
        await run_all(
            old,
            "create policy strict on agent.run as restrictive for select"
            " using (state <> 'failed');"
            "create function agent.helper() returns integer language sql as 'select 1';"
            "create view agent.mine as select id from agent.run;"
            f"grant select on agent.run_overview to {other};"
            "grant execute on function agent_internal.edit_distance(text, text)"
            f" to {other} with grant option",
        )
        await migrate(old, THEN)
        await migrate(old, NOW_AGAIN)
        assert await value(old, "select count(*) from pg_policy where polname = 'strict'") == 1
        assert await value(old, "select agent.helper()") == 1
        assert await rows(old, "select * from agent.mine") == []
        assert await value(
            old,
            f"select has_table_privilege('{other}', 'agent.run_overview', 'select')"
            f" and has_function_privilege('{other}', 'agent_internal.edit_distance(text, text)',"
            " 'execute with grant option')",
        )
        await run_all(old, "drop function agent.helper(); drop view agent.mine")


TRAPS = """
create function public.format(text, name) returns text language sql as
    $$ insert into public.trapped values (current_user); select pg_catalog.format($1, $2) $$;
create function public.format(text, text) returns text language sql as
    $$ insert into public.trapped values (current_user); select pg_catalog.format($1, $2) $$;
create function public.unnest(text[]) returns setof text language sql as
    $$ insert into public.trapped values (current_user); select pg_catalog.unnest($1) $$;
"""


@pytest.mark.slow
async def test_functions_of_others_are_not_called_by_grants_and_upgrades(
    databases: Sequence[AsyncConnection],
) -> None:
    """They have the names of PostgreSQL's, and fit better."""
    old, _ = databases
    await migrate(old)
    await run_all(old, f"create table public.trapped (who name); {TRAPS}")
    async with role(old) as viewer:
        for capability in ("viewer", "approver", "developer", "asker", "member", "runner"):
            await run_all(old, f"select agent.grant_{capability}('{viewer}')")
        await migrate(old, THEN)
        assert await rows(old, "select * from public.trapped") == []


OTHER_RESULT = """create or replace function agent.workflow_dot(_other text)
    returns integer language sql as $$ select 1 $$;
"""


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("upgrades/9999_wrong.sql", ""),
        ("schema/worker/views.sql", ""),
        ("schema/worker/views.sql", OTHER_RESULT),
    ],
)
async def test_an_upgrade_that_fails_changes_nothing(
    databases: Sequence[AsyncConnection], kind: str, first: str
) -> None:
    """Neither state nor code, even if what fails is the last of it; the file is named."""
    old, _ = databases
    await migrate(old)
    await run_all(old, IN_FLIGHT)
    before = await catalog(old)
    wrong = SchemaFile(kind, f"{first}create view agent.wrong as select nothing".encode())
    files = (
        replace(THEN, upgrades=[*THEN.upgrades, wrong])
        if kind.startswith("upgrades/")
        else replace(THEN, schema=[*THEN.schema, wrong])
    )
    with pytest.raises((ConfigError, PreconditionError), match=f"{kind}: .*nothing"):
        await migrate(old, files)
    assert await catalog(old) == before
    assert not await migrate(old)


@pytest.mark.slow
async def test_a_view_of_a_user_survives_an_upgrade(
    databases: Sequence[AsyncConnection],
) -> None:
    """It depends on ours, which is replaced in place."""
    old, _ = databases
    await migrate(old)
    await run_all(
        old,
        "create view mine as select run_id, agent from agent.error_log;"
        "create view ours as select agent.current_tenant() as tenant",
    )
    await migrate(old, THEN)
    assert await rows(old, "select * from mine") == []
    assert await rows(old, "select * from ours") == [("default",)]
