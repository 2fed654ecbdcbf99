"""Each index of the tables that grow has a statement that needs it."""

from uuid import UUID

from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, run_all
from walagent.store.queries import query

TABLES = ("agent.run", "agent.step", "agent.event")
# With many ended runs, and few that wait for something.
RUNS = """
alter table agent.run disable trigger user;
insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                       change, key, ordering_key, state, lease_expires_at, next_attempt_at,
                       not_before, blocked_by, finished_at, tenant, created_at)
select {id}, {id}, 1, 1, '0/100'::pg_lsn + n, 0, '{{}}', n::text, n % 499, s.state,
       case when s.state = 'running' then now() end,
       case when s.state = 'waiting_retry' then now() end,
       case when s.state = 'pending' and n % 50 = 0 then now() end,
       case when s.state = 'pending' and n % 50 = 1 then n end,
       case when agent_internal.is_final(s.state) then now() end, 'default',
       now() - interval '1 minute' * (30000 - n)
  from generate_series(1, 30000) n,
       lateral (select coalesce((
           '{{pending,pending,running,waiting_retry,waiting_approval,failed,dead}}'
           ::agent.run_state[])[n % 300], 'succeeded') as state) s;
insert into agent.run (kind, reason, queue_id, change, ordering_key, state, finished_at)
select 'turn', 'event', {id}, '{{}}', 'thread ' || n % 40, 'succeeded', now()
  from generate_series(1, 4000) n;
insert into agent.step (run_id, seq, kind, content)
select r.id, 0, 'note', '{{}}' from agent.run r;
alter table agent.run enable trigger user;
insert into agent.tenant (name) values ('other');
insert into agent.principal (tenant, name, is_login) values ('default', session_user, true)
    on conflict do nothing;
insert into agent.thread (id, tenant, title, created_by)
select gen_random_uuid(), 'default', 'x', session_user from generate_series(1, 20);
alter table agent.event disable trigger user;
insert into agent.event (tenant, thread_id, number, id, type, author, data)
select 'default', t.id, n, gen_random_uuid(),
       case when n % 100 = 0 then 'system' else 'text' end, session_user, '{{"text": "x"}}'
  from agent.thread t, generate_series(1, 500) n;
alter table agent.event enable trigger user;
analyze agent.run; analyze agent.step; analyze agent.event;
"""
READY = """
select r.id from agent.run r
 where r.queue_id = 1 and {} r.state = 'pending' and r.blocked_by is null and r.not_before is null
 order by {} r.id + 0 limit 42 for update skip locked
"""
# By index: where the statement stands, and the statement.
USES = {
    "run_pkey": ("a worker reads its run", "select * from agent.run where id = 7"),
    "run_ready": ("run/claim.sql claim_in_order", READY.format("", "r.priority desc,")),
    "run_ready_in_turn": (
        "run/claim.sql claim_in_order",
        READY.format("r.tenant = 'other' and r.priority = 0 and", ""),
    ),
    "run_ordering": (
        "run/claim.sql claim_in_order",
        """select p.id from agent.run p
            where p.queue_id = 1 and p.ordering_key = '7' and p.id + 0 < 9 and p.state in
              ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')""",
    ),
    "run_leased": (
        "run/tick.sql expire_leases",
        "select id from agent.run where state = 'running' and lease_expires_at < now()",
    ),
    "run_due": (
        "run/tick.sql wake_due",
        "select id from agent.run where state = 'waiting_retry' and next_attempt_at <= now()",
    ),
    "run_collecting": (
        "run/tick.sql wake_due",
        "select id from agent.run where not_before <= now()",
    ),
    "run_blocked": (
        "run/finish.sql unblock",
        "select id from agent.run where blocked_by = any (array[7, 8])",
    ),
    "run_of_row": ("walagent why", query("explain_runs")),
    "run_created": (
        "the view agent.dashboard",
        "select count(*) from agent.run where created_at > now() - interval '1 hour'",
    ),
    "run_waits": (
        "the view agent.live_activity",
        "select r.* from agent.run r where r.state in ('waiting_approval', 'needs_review')",
    ),
    "run_failed": (
        "console/queries/failures.sql",
        """select r.* from agent.run r
            where r.state in ('failed', 'dead') and r.finished_at >= now() - interval '1 hour'""",
    ),
    "run_undoing": (
        "row_change/revert.sql",
        "select id from agent.run r where r.undoes = 7",
    ),
    "run_forked": (
        "console/queries/forks.sql",
        "select id from agent.run r where r.fork_of = 7",
    ),
    "run_of_thread": (
        "console/queries/thread_turns.sql",
        """select id from agent.run r where r.kind = 'turn' and r.ordering_key = 'thread 7'
            order by r.id desc limit 50""",
    ),
    "step_pkey": ("a claim reads the steps", "select * from agent.step where run_id = 7"),
    "event_pkey": (
        "turn/functions.sql look_turn",
        """select * from agent.event
            where tenant = 'default' and thread_id = (select id from agent.thread limit 1)
            order by number desc limit 20""",
    ),
    "event_tenant_id_key": (
        "thread/facts.sql event_of",
        f"select * from agent.event where tenant = 'default' and id = '{UUID(int=1)}'",
    ),
    "event_of_system": (
        "turn/functions.sql look_turn",
        """select * from agent.event
            where tenant = 'default' and thread_id = (select id from agent.thread limit 1)
              and type = 'system'""",
    ),
}
# What guarantees that a change has one run, and an ordering key one that is running.
CONSTRAINTS = {"run_once_per_change", "run_once_per_backfilled_row", "run_alone"}
INDEXES = "select relname::text from pg_class c join pg_index i on i.indexrelid = c.oid where {}"


async def test_every_index_has_a_statement(conn: AsyncConnection) -> None:
    """What no statement needs costs each insert and each claim."""
    of = " or ".join(f"i.indrelid = '{table}'::regclass" for table in TABLES)
    found = set(await column(conn, INDEXES.format(of)))
    assert found == USES.keys() | CONSTRAINTS


async def test_the_statements_use_their_indexes(conn: AsyncConnection) -> None:
    """In tables of some size, most of it ended runs."""
    await run_all(conn, DESK)
    attachment = await attach(conn, "")
    await run_all(conn, RUNS.format(id=attachment))
    parameters = {"keys": ["7"], "schema": "public", "table": "support_tickets"}
    for index, (where, statement) in USES.items():
        cursor = await conn.execute(
            f"explain (costs off) {statement}".encode(),
            parameters if index == "run_of_row" else None,
        )
        plan = "\n".join(line for (line,) in await cursor.fetchall())
        assert f"{index}\n" in f"{plan}\n" or f"{index} on" in plan, f"{where}:\n{plan}"
