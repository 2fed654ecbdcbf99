"""What must be true in the end, asked in SQL alone: nothing of the code under test is used here.

Each query lists what is wrong, so that a failing test shows it.
"""

from typing import Any

from psycopg import AsyncConnection

from tests.faults.rig.stage import SHAPES
from tests.faults.rig.waiting import DEADLINE, fetch, until

# The changes of topics: each in a run of its own, or in one that an earlier change began.
_TOPICS = """
select r.id as run, (r.change -> 'new' ->> 'id')::bigint as id, r.state
  from agent.run r where r.change ->> 'table' = 'topic'
union all
select r.id, (m.change -> 'new' ->> 'id')::bigint, r.state
  from agent_internal.merged_change m join agent.run r on r.id = m.run_id
 where m.change ->> 'table' = 'topic'
"""
_OF = """
select count(*) from agent.run join agent.attachment a on a.id = attachment_id
 where a.name = '{}' and agent_internal.is_final(state)
"""
ALL_ENDED = f"""
select ({_OF.format("item")}) >= (select count(*) from written)
   and ({_OF.format("parcel")}) >= (select count(*) from parcel_written)
   and (select count(*) from ({_TOPICS}) t where agent_internal.is_final(t.state))
       >= (select count(*) from topic)
"""

_PARCELS = """
select r.id as run, r.change ->> 'op' as op, coalesce(r.change -> 'new', r.change -> 'old') as row
  from agent.run r where r.change ->> 'table' = 'parcel'
"""
_SHAPES = ", ".join(f"('{name}', {replies}, {calls})" for name, (replies, calls) in SHAPES.items())
_WRONG = {
    # Exactly one run per change that the writer committed, and none that it did not.
    "runs": """
        select w.item, w.version, w.n as written, r.n as runs
          from (select item, version, count(*) as n from written group by 1, 2) w
               full join
               (select (change -> 'new' ->> 'id')::bigint as item,
                       (change -> 'new' ->> 'version')::integer as version, count(*) as n
                  from agent.run where change ->> 'table' = 'item' group by 1, 2) r
               using (item, version)
         where w.n is distinct from r.n limit 20""",
    "effects": """
        select tool, w.item, w.version, w.n as written, e.n as effects
          from (select tool, item, version, count(*) as n
                  from written cross join unnest('{sql,python}'::text[]) as tool group by 1, 2, 3) w
               full join
               (select tool, item, version, count(*) as n from effect group by 1, 2, 3) e
               using (tool, item, version)
         where w.n is distinct from e.n limit 20""",
    "order of a row's effects": """
        select item, version, before
          from (select item, version,
                       lag(version) over (partition by tool, item order by seq) as before
                  from effect) e
         where before >= version limit 20""",
    "order of a row's runs": """
        select key, id
          from (select key, id, (change -> 'new' ->> 'version')::integer as version,
                       lag((change -> 'new' ->> 'version')::integer)
                           over (partition by key order by id) as before
                  from agent.run where change ->> 'table' = 'item') r
         where before >= version limit 20""",
    "states": """
        select state, count(*), min(id), min(error::text)
          from agent.run where state <> 'succeeded' group by 1""",
    # Each thing's changes, key changes and deletion have one run, in their order.
    "parcels' runs": f"""
        select thing, w.seen as written, r.seen as runs
          from (select thing, array_agg((op, id, version) order by seq) as seen
                  from parcel_written group by 1) w
               full join
               (select (row ->> 'thing')::bigint as thing,
                       array_agg((op, (row ->> 'id')::bigint, (row ->> 'version')::integer)
                                 order by run) as seen
                  from ({_PARCELS}) p group by 1) r
               using (thing)
         where w.seen::text is distinct from r.seen::text limit 20""",
    "parcels' effects": """
        select thing, w.seen as written, e.seen as effects
          from (select thing, array_agg((id, version) order by seq) as seen
                  from parcel_written group by 1) w
               full join
               (select thing, array_agg((id, version) order by seq) as seen
                  from parcel_effect group by 1) e
               using (thing)
         where w.seen is distinct from e.seen limit 20""",
    "topics": f"""
        select id, count(run)
          from topic full join ({_TOPICS}) t using (id)
         group by 1 having count(run) <> 1 or bool_or(topic is null) limit 20""",
    "steps": f"""
        select run_id, array_agg(s.kind order by seq)
          from agent.step s join agent.run r on r.id = run_id
               join (values {_SHAPES}) as shape (name, replies, calls)
                    on shape.name = r.change ->> 'table'
         group by run_id, replies, calls
        having count(*) filter (where s.kind = 'reply') <> replies
            or count(*) filter (where s.kind = 'result'
                                  and content ->> 'is_error' = 'false') <> calls
            or count(*) <> replies + calls limit 20""",
    "rows that no agent marked": """
        select id from item where status <> 'seen' limit 20""",
    "promises": "select * from agent.broken_invariant limit 20",
    "gaps": "select * from agent.gap",
}

LAG = """
select pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) < %s
  from pg_replication_slots where slot_name = %s
"""


async def all_is_well(conn: AsyncConnection[Any], *, shapes: bool = True) -> None:
    """See that everything happened once, in order, and that nothing is left between states.

    Args:
        shapes: whether each run has the steps of its script and no others.
    """
    asked = {what: query for what, query in _WRONG.items() if shapes or what != "steps"}
    wrong = {what: await fetch(conn, query) for what, query in asked.items()}
    found = {what: rows for what, rows in wrong.items() if rows}
    assert not found, found


async def caught_up(
    conn: AsyncConnection[Any], slot: str, *, lag: int = 1 << 20, seconds: float = DEADLINE
) -> None:
    """Wait until the slot keeps at most *lag* bytes of WAL back."""
    await until(conn, LAG, lag, slot, seconds=seconds)
