"""The audit: what is written, that writers do not block each other, that no edit is unseen."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import (
    DESK,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from tests.helpers.queue import add_runs
from walagent.store.people.audit import Head, audit_heads, verify_audit

CANARY = "s3cr3t-of-the-canary"

MOVED = """
update agent.audit set number = 99 where number = 2;
update agent.audit set number = 2 where number = 3;
update agent.audit set number = 3 where number = 99
"""
INSERTED = """
insert into agent.audit
select tenant, 7, at, principal, login, action, object, detail, digest,
       agent_internal.audit_digest(
           row(tenant, 7, at, principal, login, action, object, detail, digest, null))
  from agent.audit where number = 6
"""


@pytest.fixture(autouse=True)
async def _nothing_yet(conn: AsyncConnection) -> None:
    """Begin without what the migrations have created."""
    await tampered(conn, "delete from agent.audit; delete from agent_internal.audit_head")


async def entries(conn: AsyncConnection) -> list[tuple[str, str]]:
    """Actions and objects, in order."""
    return [
        (str(action), str(what))
        for action, what in await rows(
            conn, "select action, object from agent.audit order by tenant, number"
        )
    ]


async def first_bad(conn: AsyncConnection, head: Head | None = None) -> tuple[int | None, str]:
    """The number of the first bad row of the chain of `default`, and why."""
    (found,) = await verify_audit(conn, tenant="default", head=head)
    return found.bad_row, found.reason or ""


async def written(conn: AsyncConnection, count: int = 6) -> None:
    """Rows of the audit, each of its own transaction."""
    for number in range(count):
        await value(conn, "select agent_internal.audit('test.done', %s)", str(number))


async def tampered(conn: AsyncConnection, statements: str) -> None:
    """What the owner can do: disable the trigger, and edit."""
    await run_all(
        conn,
        f"alter table agent.audit disable trigger all; {statements};"
        "alter table agent.audit enable trigger all",
    )


async def test_definitions_and_their_changes_are_written(conn: AsyncConnection) -> None:
    """Noun and verb, what it was done to, and by whom; which columns, but not their values."""
    await run_all(conn, DESK)
    await attach(conn, "name=desk, tools=[refund_user]")
    await run_all(
        conn,
        f"update agent.agent set system_prompt = '{CANARY}';"
        f"update agent.attachment set condition = $$new.issue = '{CANARY}'$$ where name = 'desk';"
        "select agent.pause('desk', 'a reason'); select agent.resume('desk');"
        "update agent.model set input_price = 2 where name = 'fake';"
        "insert into agent.tool (name, kind, target)"
        " values ('refund', 'sql', 'refund_user(bigint, numeric)');"
        "insert into agent.principal (tenant, name) values ('default', 'ann');"
        "insert into agent.role_grant values ('default', 'ann', 'approver', 'me');"
        "insert into agent.token (tenant, principal, digest)"
        " values ('default', 'ann', sha256('x'));"
        "update agent.token set revoked_at = now();"
        f"insert into agent.persona (name, system_prompt) values ('clerk', '{CANARY}');"
        f"insert into agent.policy (name, point, action, condition)"
        f" values ('odd', 'tool', 'deny', $$call::text ~ '{CANARY}'$$);"
        "update agent.policy set enabled = false;"
        "insert into agent.egress_rule (host) values ('api.test');"
        f"insert into agent.role_tool (role, tool, allowed)"
        f" values ('viewer', 'refund', $${{\"amount\": [\"{CANARY}\"]}}$$);"
        "delete from agent.role_tool;"
        "delete from agent.role_grant;"
        "insert into agent.tenant (name) values ('acme');"
        "update agent.tenant set active = false where name = 'acme';"
        "select agent.detach('desk')",
    )
    token = await value(conn, "select id::text from agent.token")
    own = await rows(
        conn, "select action, object from agent.audit where tenant = 'default' order by number"
    )
    assert own == [
        ("model.created", "fake"),
        ("agent.created", "desk"),
        ("attachment.created", "desk"),
        ("agent.changed", "desk"),
        ("attachment.changed", "desk"),
        ("attachment.paused", "desk"),
        ("attachment.resumed", "desk"),
        ("model.changed", "fake"),
        ("tool.created", "refund"),
        ("principal.created", "ann"),
        ("role_grant.created", "ann approver"),
        ("token.created", token),
        ("token.revoked", token),
        ("persona.created", "clerk"),
        ("policy.created", "odd"),
        ("policy.changed", "odd"),
        ("egress_rule.created", "https api.test 443"),
        ("role_tool.created", "viewer refund"),
        ("role_tool.deleted", "viewer refund"),
        ("role_grant.deleted", "ann approver"),
        ("attachment.deleted", "desk"),
        ("agent.deleted", "desk"),
    ]
    assert await rows(
        conn, "select action, object from agent.audit where tenant = 'acme' order by number"
    ) == [
        ("tenant.created", "acme"),
        ("tenant.changed", "acme"),
    ]
    changed = await value(
        conn, "select detail from agent.audit where action = 'attachment.changed'"
    )
    assert changed["columns"] == ["condition"]
    everything = await column(conn, "select a::text from agent.audit a")
    assert CANARY not in "".join(map(str, everything))
    me = await value(conn, "select session_user")
    assert await rows(conn, "select distinct principal, login from agent.audit") == [(me, me)]


async def test_what_people_do_to_runs_is_written(conn: AsyncConnection) -> None:
    """Cancel, retry; once each."""
    await run_all(conn, DESK)
    await attach(conn, "")
    (run,) = await add_runs(conn, await value(conn, "select id from agent.attachment"), "a")
    await value(conn, "select agent.cancel(%s, %s)", run, CANARY)
    await value(conn, "select agent.retry(%s)", run)
    assert (await entries(conn))[-2:] == [("run.cancelled", str(run)), ("run.retried", str(run))]
    assert CANARY not in str(await column(conn, "select a::text from agent.audit a"))


async def test_what_is_rolled_back_was_not_done(conn: AsyncConnection) -> None:
    """Neither the transaction nor a savepoint of it leaves a row or a gap."""
    await written(conn, 1)
    await run_all(conn, "begin; select agent_internal.audit('test.undone', ''); rollback")
    await run_all(
        conn,
        "begin; select agent_internal.audit('test.done', '1'); savepoint s;"
        "select agent_internal.audit('test.undone', ''); rollback to s; commit",
    )
    assert await entries(conn) == [("test.done", "0"), ("test.done", "1")]
    assert await value(conn, "select count(*) from agent_internal.audit_entry") == 0
    assert await first_bad(conn) == (None, "")


@pytest.mark.slow
async def test_fifty_writers_make_one_chain_without_gaps(conn: AsyncConnection, dsn: str) -> None:
    """They lock rows before and after they write to the audit, in different orders."""
    await run_all(
        conn, "create table t (id int primary key); insert into t select generate_series(1, 5)"
    )
    await run_all(conn, "insert into agent.tenant (name) values ('acme'), ('zeta')")
    before = await value(
        conn, "select coalesce(max(number), 0) from agent.audit where tenant = 'default'"
    )

    async def write(own: AsyncConnection, number: int) -> None:
        tenants = ["acme", "default", "zeta"]
        order = tenants if number % 2 else tenants[::-1]
        for turn in range(4):
            async with own.transaction():
                for tenant in order:
                    await value(
                        own, "select agent_internal.audit('test.done', '', _tenant => %s)", tenant
                    )
                await value(
                    own, "select id from t where id = %s for update", (number + turn) % 5 + 1
                )
                await value(own, "select agent_internal.audit('test.done', 'again')")

    async with AsyncExitStack() as stack:
        writers = [await stack.enter_async_context(session(dsn)) for _ in range(50)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(write(own, number) for number, own in enumerate(writers)))
    numbers = await column(
        conn, "select number from agent.audit where tenant = 'default' order by number"
    )
    assert numbers == list(range(1, int(before) + 401))
    for each in await verify_audit(conn):
        assert each.bad_row is None, each


async def test_a_writer_holds_no_lock_until_its_commit(conn: AsyncConnection, dsn: str) -> None:
    """A person's transaction can stay open for an hour; others write meanwhile."""
    async with session(dsn) as slow, slow.transaction():
        await value(slow, "select agent_internal.audit('test.done', 'slow')")
        await run_all(conn, "set lock_timeout = '2s'")
        await value(conn, "select agent_internal.audit('test.done', 'fast')")
    assert await entries(conn) == [("test.done", "fast"), ("test.done", "slow")]


@pytest.mark.slow
async def test_who_holds_the_head_of_a_tenant_holds_up_nobody(
    conn: AsyncConnection, dsn: str
) -> None:
    """What others did meanwhile is numbered after, by the next act or the tick."""
    await run_all(conn, "set statement_timeout = '5s'")
    async with session(dsn) as holder:
        for number, numbers in enumerate(
            ("select agent_internal.audit('test.done', 'next')", "select agent_internal.tick()")
        ):
            async with holder.transaction():
                await value(holder, "select agent_internal.audit('test.done', 'held')")
                await run_all(holder, "set constraints all immediate")
                await value(conn, "select agent_internal.audit('test.done', %s)", str(number))
                await value(conn, "select agent_internal.tick()")  # it waits for nobody either
                assert ("test.done", str(number)) not in await entries(conn)
            await run_all(conn, numbers)
            assert ("test.done", str(number)) in await entries(conn)
    assert await value(conn, "select count(*) from agent_internal.audit_entry") == 0
    assert await first_bad(conn) == (None, "")


@pytest.mark.parametrize(
    ("edit", "bad", "word"),
    [
        ("update agent.audit set principal = 'somebody' where number = 3", 3, "changed"),
        (
            "update agent.audit set at = at + interval '1 microsecond' where number = 3",
            3,
            "changed",
        ),
        ("update agent.audit set detail = '{\"x\": 1}' where number = 1", 1, "changed"),
        ("delete from agent.audit where number = 4", 4, "removed"),
        ("delete from agent.audit where number = 1", 1, "removed"),
        (MOVED, 2, "changed"),
        (INSERTED, 7, "inserted"),
        ("delete from agent.audit where number > 4", 5, "removed"),
        ("delete from agent.audit", 1, "removed"),
    ],
)
async def test_verify_names_the_first_bad_row(
    conn: AsyncConnection, edit: str, bad: int, word: str
) -> None:
    """Changed, removed, reordered, inserted, truncated: also by the owner without the trigger."""
    await written(conn)
    assert await first_bad(conn) == (None, "")
    await tampered(conn, edit)
    number, reason = await first_bad(conn)
    assert number == bad
    assert word in reason


REWRITE = """
do $$
declare _row agent.audit; _before bytea := decode(repeat('00', 32), 'hex');
begin
    for _row in select * from agent.audit order by number loop
        _row.previous := _before;
        _row.digest := agent_internal.audit_digest(_row);
        update agent.audit set previous = _row.previous, digest = _row.digest
         where number = _row.number;
        _before := _row.digest;
    end loop;
    update agent_internal.audit_head set digest = _before, number = _row.number;
end $$
"""


@pytest.mark.parametrize(
    ("edit", "bad"),
    [
        ("update agent.audit set principal = 'somebody' where number = 3", 6),
        ("delete from agent.audit where number > 4", 5),
    ],
)
async def test_a_chain_that_was_rewritten_as_a_whole_is_found_by_its_head(
    conn: AsyncConnection, edit: str, bad: int
) -> None:
    """The head that the log has does not change with the database."""
    await written(conn)
    (head,) = [each async for each in audit_heads(conn)]
    assert (head.number, await first_bad(conn, head)) == (6, (None, ""))
    await tampered(conn, f"{edit}; {REWRITE}")
    assert await first_bad(conn) == (None, "")
    assert (await first_bad(conn, head))[0] == bad


async def test_a_function_that_lies_hides_nothing(conn: AsyncConnection) -> None:
    """What verifies is no function of the database."""
    await written(conn)
    await tampered(
        conn,
        "create or replace function agent_internal.audit_digest(_row agent.audit) returns bytea"
        " language sql as $$ select _row.digest $$;"
        "update agent.audit set object = 'x' where number = 2",
    )
    assert (await first_bad(conn))[0] == 2


async def test_nobody_changes_a_row(conn: AsyncConnection, dsn: str) -> None:
    """Neither the owner, whom the trigger refuses, nor roles, which have no privilege."""
    await written(conn)
    for statement in (
        "update agent.audit set object = 'x'",
        "delete from agent.audit",
        "truncate agent.audit",
    ):
        await refused(conn, statement, state="42501")
    async with role(conn) as login:
        for grant in ("runner", "approver", "developer", "asker", "member"):
            await value(conn, f"select agent.grant_{grant}('{login}')")
        async with session(dsn, user=login) as own:
            for statement in (
                "update agent.audit set object = 'x'",
                "delete from agent.audit",
                "insert into agent.audit select * from agent.audit",
                "insert into agent_internal.audit_entry (entry) values ('{}')",
                "update agent_internal.audit_head set number = 0",
            ):
                await refused(own, statement, state="42501")


async def test_only_an_auditor_reads_it(conn: AsyncConnection, dsn: str) -> None:
    """Of principals; and of its own tenant alone."""
    await run_all(conn, "insert into agent.tenant (name) values ('acme')")
    await written(conn, 1)
    async with role(conn) as login:
        await run_all(
            conn,
            f"select agent.grant_viewer('{login}');"
            f"insert into agent.principal (tenant, name, login) values ('acme', 'ann', '{login}')",
        )
        async with session(dsn, user=login) as own:
            assert await rows(own, "select * from agent.audit") == []
            await run_all(
                conn, "insert into agent.role_grant values ('acme', 'ann', 'auditor', 'me')"
            )
            assert await column(own, "select distinct tenant from agent.audit") == ["acme"]
        await run_all(conn, "delete from agent.principal")


async def test_the_audit_of_a_tenant_that_is_gone_can_be_removed(conn: AsyncConnection) -> None:
    """And no other: it outlives its tenant until somebody removes it."""
    await run_all(
        conn,
        "insert into agent.tenant (name) values ('acme');"
        "delete from agent.tenant where name = 'acme'",
    )
    assert await value(conn, "select count(*) from agent.audit where tenant = 'acme'") == 1
    assert ("tenant.deleted", "acme") in await entries(conn)
    await run_all(conn, "delete from agent.audit where tenant = 'acme'")
    await refused(conn, "delete from agent.audit", state="42501")
