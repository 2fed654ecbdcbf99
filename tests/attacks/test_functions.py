"""Functions with the rights of the owner, through which nothing of another tenant is reached.

Where a superuser owns the schema, row-level security applies to none of those that keep its rights
(agent_internal.owner_function): each has to check the tenant itself.
"""

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from tests.attacks.test_matrix import (
    CANARY,
    OTHER,
    OWN,
    Stage,
    attempt,
    calls,
    names_in,
    some,
    stage,
)
from tests.helpers.database import column, refused, role, rows, run_all, session, value
from tests.helpers.people import person

__all__ = ["stage"]

CAPABILITIES = ("viewer", "approver", "developer", "asker", "member")
FUNCTIONS = """
select p.oid::regproc::text, array(select t.typname::text
           from unnest(p.proargtypes::oid[]) with ordinality as a (type, n)
                join pg_type t on t.oid = a.type order by a.n)
  from pg_proc p
 where p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype and p.provolatile <> 'i'
   and has_function_privilege(%s::name, p.oid, 'execute')
 order by 1
"""
# What a login other than the runner can call, and why no row of another tenant is reached by it.
_SIGNED = "does nothing without a signature of the daemon, which names run and tenant"
_HELD = "agent_internal.check_holder(): a run of a question of the caller, in its tenant"
SAFE = {
    "agent_internal.is_in_batch": "of the runs of that tenant, says whether a call is in a batch",
    "agent_internal.own_triggers": "says where the caller is, and nothing else",
    "agent_internal.readable_part": "gives what it is given, and reads the catalog alone",
    "agent_signed.admit_call": _SIGNED,
    "agent_signed.call_tool": _SIGNED,
    "agent_signed.check_egress": _SIGNED,
    "agent_signed.check_result": _SIGNED,
    "agent_signed.close_step": _SIGNED,
    "agent_signed.decide_policy": _SIGNED,
    "agent_signed.execute_as": _SIGNED,
    "agent_signed.open_step": _SIGNED,
    "agent_signed.read_as": _SIGNED,
    "agent_signed.revert_run": _SIGNED,
    "agent_signed.write_as": _SIGNED,
    "agent_internal.record_step": _HELD,
    "agent_internal.finish_run": _HELD,
    "agent_internal.finish_with_step": _HELD,
    "agent_internal.park_run": _HELD,
    "agent_internal.heartbeat": _HELD,
    "agent_internal.reserve": f"{_HELD}; budgets of that tenant",
    "agent_internal.settle_unusable": _HELD,
    "agent_internal.wait_for_budget": _HELD,
    "agent_internal.claim_runs": "the queue of a session of the caller, in its tenant",
    "agent_internal.ask": "sessions of the caller, in its tenant",
    "agent_internal.resume_session": "a session of the caller, in its tenant",
    "agent.cancel": "agent_internal.sees() of the run",
    "agent_internal.set_thread_state": "agent_internal.check_owner() of the thread, in its tenant",
    "agent_internal.set_enabled": "tools of the tenant of the caller; shared ones for the owner",
    "agent_internal.sees_threads": "reads no rows of tenants: a privilege of the caller",
    "agent_internal.is_sought": "whether a digest that the caller has is that of a token",
    "agent_internal.drift_of": "reads the catalog",
    "agent_internal.versions_of_others": "names of agents that runs of its tenant failed in",
    "agent_internal.lock_apply": "takes a lock",
    "agent_internal.read_as_member": "reads as a role that the login can become, with its rights",
    "agent_internal.make_trampoline_of_member": "the same; makes its function",
}

_HOLDING = {
    "agent_internal.record_step": "{run}, {lease}, 0, 'note', '{{}}'",
    "agent_internal.finish_run": "{run}, {lease}, 'failed', '', null, 0, 0",
    "agent_internal.finish_with_step": (
        "{run}, {lease}, 0, 'note', '{{}}', null, 0, 0, 'failed', '', null, 0, 0"
    ),
    "agent_internal.park_run": "{run}, {lease}, 'pending', '1 s', true, null, 0, 0",
    "agent_internal.heartbeat": "'w', array[{run}], array[{lease}], '1 h'",
    "agent_internal.reserve": "{run}, {lease}, 1, 'm', 1, 1",
    "agent_internal.settle_unusable": "{run}, {lease}, 1, '{{1,0,0,1}}', 1",
    "agent_internal.wait_for_budget": "{run}, {lease}, '{{}}', 1, 1",
    "agent_internal.claim_runs": "'w', 1, '1 min', '{{question}}', {queue}",
    "agent.cancel": "{run}",
}


@pytest.fixture
async def application(stage: Stage) -> AsyncIterator[str]:
    """A login with each capability but that of the runner."""
    async with role(stage.conn) as login:
        for name in CAPABILITIES:
            await run_all(stage.conn, f"select agent.grant_{name}('{login}')")
        yield login


async def test_what_keeps_the_rights_of_the_owner_is_known(conn: AsyncConnection) -> None:
    """A new one that others than the runner can call needs a reason here."""
    async with role(conn) as login:
        for name in CAPABILITIES:
            await run_all(conn, f"select agent.grant_{name}('{login}')")
        callable_ = await column(
            conn,
            "select distinct f.function::oid::regproc::text from agent_internal.owner_function f"
            "  join pg_proc p on p.oid = f.function"
            " where p.prorettype <> 'trigger'::regtype"
            "   and has_function_privilege(%s::name, f.function, 'execute')",
            login,
        )
    assert set(callable_) == set(SAFE)


@pytest.mark.parametrize("most", [3, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_no_function_reaches_a_row_of_another_tenant(
    stage: Stage, application: str, most: int
) -> None:
    """Each one that somebody can be granted is called with what names a row of the other."""
    before, said = await stage.others(), list[str]()
    given = names_in(before)
    given["text"].append(OTHER)
    token = "select token from agent.create_token('admin', tenant => %s)"
    secret = await value(stage.conn, token, OWN)
    async with session(stage.dsn, user=application) as conn:
        await conn.execute("set statement_timeout = '5s'")
        for kept in (False, True):  # first what is said, then what is changed
            async with conn.transaction():
                await conn.execute("select agent.act_as(%s)", [secret])
                for function, kinds in await rows(stage.conn, FUNCTIONS, application):
                    assert isinstance(kinds, list)
                    for statement, values in some(calls(str(function), kinds, given), most):
                        async with conn.transaction(force_rollback=not kept):
                            _, text = await attempt(conn, statement, *values)
                        for each in values:
                            text = text.replace(str(each), "") if CANARY in str(each) else text
                        said += [] if kept else [text]
    assert [text for text in said if CANARY in text] == []
    assert await stage.others() == before


async def test_a_question_of_the_same_name_in_another_tenant_is_not_held(
    conn: AsyncConnection, dsn: str
) -> None:
    """Two people called ann, one for each tenant: neither gets the run of the other."""
    ours, theirs = [await person(conn, "ann", "viewer", tenant=name) for name in (OWN, OTHER)]
    async with role(conn) as login:
        await run_all(conn, f"select agent.grant_member('{login}'), agent.grant_asker('{login}')")
        async with session(dsn, user=login) as app:
            async with app.transaction():
                await app.execute("select agent.act_as(%s)", [theirs])
                run, queue, _ = (
                    await rows(app, "select * from agent_internal.ask('talk', 'How many?')")
                )[0]
                claim = (
                    "select lease from agent_internal.claim_runs('w', 1, '1 min', '{question}', %s)"
                )
                lease = await value(app, claim, queue)
            state = "select state, lease, lease_expires_at, result from agent.run"
            before = await rows(conn, state)
            async with app.transaction():
                await app.execute("select agent.act_as(%s)", [ours])
                for name, arguments in _HOLDING.items():
                    given = arguments.format(run=run, lease=lease, queue=queue)
                    statement = f"select {name}({given})"
                    async with app.transaction(force_rollback=True):
                        await refused(app, statement)
                found = await rows(app, "select * from agent_internal.resume_session('talk')")
                assert found == []
            assert await rows(conn, state) == before
