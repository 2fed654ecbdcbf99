"""Runs that a claim has passed over, in favor of those of a lower priority."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection

from tests.helpers.database import rows, value

# Neither written nor locked by another transaction since {snapshot}: what was, might not have been
# so when the claim looked.  A number below that of the writer is that of several lockers.
_UNCHANGED = """
pg_visible_in_snapshot({0}.xmin::text::xid8, {{snapshot}})
and ({0}.xmax::text in ('0', pg_current_xact_id()::text)
     or {0}.xmax::text::bigint >= {0}.xmin::text::bigint
        and pg_visible_in_snapshot({0}.xmax::text::xid8, {{snapshot}}))
"""
# Ready, free and startable all the while, of the tenant of one that was taken, and more urgent.  A
# run is as urgent as those of its key that wait for it, unless another tenant has runs of the key:
# those are looked at when it is their turn.
_PASSED = """
select h.id as passed, h.rank, m.least, m.tenant
  from (select r.tenant, min(r.priority) as least from agent.run r
         where r.id = any ({{taken}}) group by 1) m
       cross join lateral (
           select r.*, greatest(r.priority, (
                      select max(w.priority) from agent.run w
                       where w.queue_id = r.queue_id and w.ordering_key = r.ordering_key
                         and w.tenant = r.tenant and w.id > r.id
                         and w.state = 'pending' and w.not_before is null and {w}
                         and not exists (
                             select from agent.run o
                              where o.queue_id = r.queue_id and o.ordering_key = r.ordering_key
                                and o.tenant <> r.tenant
                                and not (agent_internal.is_final(o.state) and {o})))) as rank
             from agent.run r
            where r.tenant = m.tenant and r.state = 'pending'
              and r.blocked_by is null and r.not_before is null and {r}) h
       join agent_internal.queue q on q.id = h.queue_id and q.cap is null and {q}
 where h.rank > m.least and h.queue_id <> all ({{paused}})
   -- While somebody prevents starts, claims lock queues and pass over those that others have.
   and q.xmax::text <> pg_current_xact_id()::text
   and not exists (
           select from agent.run p
            where p.queue_id = h.queue_id and p.ordering_key = h.ordering_key and p.id <> h.id
              and (p.id < h.id or p.started_at is not null)
              and not (agent_internal.is_final(p.state) and {p}))
""".format(**{name: _UNCHANGED.format(name) for name in "orqpw"})


@asynccontextmanager
async def looking(
    conn: AsyncConnection, broken: list[str], pauses: list[int], *, idle: bool
) -> AsyncIterator[list[int]]:
    """Begin a transaction for a claim, and give a list of what it takes to be filled.

    Then add to *broken* what the claim has passed over.

    Args:
        pauses: queues, in the order in which somebody begins to pause them, one at a time.  Their
            rows do not show it: the numbers of subtransactions are always visible.
        idle: do neither: the transaction would hold locks of caps for longer than the claim does.
    """
    if idle:
        yield []
        return
    begun = max(0, len(pauses) - 1)
    async with conn.transaction():
        snapshot = await value(conn, "select pg_current_snapshot()::text")
        taken = list[int]()
        yield taken
        if taken:
            query = _PASSED.format(
                snapshot=f"'{snapshot}'::pg_snapshot",
                taken=f"array{taken}",
                paused=f"array{[0, *pauses[begun:]]}",
            )
            broken += [f"passed over: {each}" for each in await rows(conn, query)]
