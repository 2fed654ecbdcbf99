"""Threads for people: list, show, change, and follow."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

from walagent.errors import ConfigError
from walagent.message import Json

Connection = AsyncConnection[Any]
Row = Mapping[str, Any]

_LIST = """
select t.id, t.title, t.state, t.last_number as events, t.agent_turns, t.max_agent_turns,
       (select array_agg(m.principal order by m.joined_at, m.principal) from agent.member m
         where (m.tenant, m.thread_id) = (t.tenant, t.id)) as members,
       coalesce(e.created_at, t.created_at) as active_at
  from agent.thread t
       left join agent.event e
         on (e.tenant, e.thread_id, e.number) = (t.tenant, t.id, t.last_number)
 where %(archived)s or t.state <> 'archived'
 order by active_at desc, t.id
 limit %(limit)s
"""
# Before the statements about one thread.  Of those of several tenants, who sees all has that of its
# own.
_ONE = """
with one as (select t.tenant, t.id from agent.thread t where t.id = %(thread)s
              order by t.tenant = agent.current_tenant() desc limit 1)
"""
_FIND = """
select id, title, state, summary, last_number as events, created_by, created_at
  from agent.thread where (tenant, id) = (table one)
"""
_EVENTS = """
select e.number, e.id, e.type, e.author, p.kind as author_kind, e.data, e.run_id, e.created_at
  from agent.event e join agent.principal p on (p.tenant, p.name) = (e.tenant, e.author)
 where (e.tenant, e.thread_id) = (table one) and e.number > %(after)s
 order by e.number desc
 limit %(limit)s
"""
_MEMBERS = """
select m.principal, p.kind, m.role, m.joined_at, m.seen
  from agent.member m join agent.principal p on (p.tenant, p.name) = (m.tenant, m.principal)
 where (m.tenant, m.thread_id) = (table one)
 order by m.joined_at, m.principal
"""
_FACTS = """
select f.id, f.subject, f.predicate, f.object, f.category, f.confidence, f.disputed, f.source_event
  from agent.fact f
 where (f.tenant, f.thread_id) = (table one) and f.superseded_by is null and f.retracted_at is null
 order by f.created_at, f.id
"""
# Runs without the right to read them: none, for a member who is no viewer.
_TURNS = """
select r.id, r.principal as agent, r.state::text
  from agent.run r
 where r.kind = 'turn' and r.ordering_key = %(thread)s::text
   and (r.tenant, %(thread)s) = (table one)
   and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
   and r.not_before is distinct from 'infinity'
 order by r.id
"""
_APPROVALS = """
select a.id, a.run_id, r.principal as agent, a.tool, a.arguments
  from agent.approval a join agent.run r on r.id = a.run_id
 where r.kind = 'turn' and r.ordering_key = %(thread)s::text and a.state = 'pending'
   and (r.tenant, %(thread)s) = (table one)
 order by a.id
"""


async def list_threads(conn: Connection, *, archived: bool, limit: int) -> Sequence[Row]:
    """List the threads that the caller can see, the latest active first."""
    return await _rows(conn, _LIST, archived=archived, limit=limit)


async def events(
    conn: Connection, thread: UUID, *, after: int = 0, limit: int = 1000
) -> Sequence[Row]:
    """Return the latest events of a thread, in order."""
    return (await _rows(conn, _ONE + _EVENTS, thread=thread, after=after, limit=limit))[::-1]


async def members(conn: Connection, thread: UUID) -> Sequence[Row]:
    """Return the members of a thread."""
    return await _rows(conn, _ONE + _MEMBERS, thread=thread)


async def find(conn: Connection, thread: UUID) -> Row:
    """Return a thread alone.

    Raises:
        ConfigError: there is none, or the caller cannot see it.
    """
    found = await _rows(conn, _ONE + _FIND, thread=thread)
    if not found:
        raise ConfigError(
            f"thread {thread} does not exist, or you are not a member of it",
            hint="Use walagent threads list to list yours.",
        )
    return found[0]


async def facts(conn: Connection, thread: UUID) -> Sequence[Row]:
    """Return the facts of a thread."""
    return await _rows(conn, _ONE + _FACTS, thread=thread)


async def show(conn: Connection, thread: UUID, limit: int) -> Row:
    """Return a thread with members, facts and its latest events.

    Raises:
        ConfigError: there is none, or the caller cannot see it.
    """
    return {
        **await find(conn, thread),
        "members": await members(conn, thread),
        "facts": await facts(conn, thread),
        "latest": await events(conn, thread, limit=limit),
    }


async def active_turns(conn: Connection, thread: UUID) -> Sequence[Row]:
    """Return the turns that have not ended, if the caller may read runs."""
    return await _if_allowed(conn, _TURNS, thread)


async def create_reading_token(conn: Connection) -> tuple[UUID, str]:
    """Create a token of this login that can read for 12 hours; return its ID and the token."""
    cursor = await conn.execute(
        "select id, token from agent.create_token(agent.current_principal(), 'walagent talk',"
        " '{read}', now() + interval '12 hours')"
    )
    (found,) = await cursor.fetchall()
    return found[0], found[1]


async def revoke_token(conn: Connection, token: UUID) -> None:
    """Revoke a token."""
    await conn.execute("select agent.revoke_token(%s)", [token])


async def pending_approvals(conn: Connection, thread: UUID) -> Sequence[Row]:
    """Return the calls of turns that wait for approval, if the caller may read them."""
    return await _if_allowed(conn, _APPROVALS, thread)


async def decided(conn: Connection, approvals: Collection[int]) -> Sequence[Row]:
    """Return those of *approvals* that a person has decided, and who."""
    query = (
        "select p.id, p.tool, p.state::text, p.decided_by from agent.approval p"
        " where p.id = any (%(ids)s) and p.decided_by is not null order by p.id"
    )
    return await _rows(conn, query, ids=list(approvals))


async def decide(conn: Connection, approval: int, *, approved: bool) -> None:
    """Decide about a call."""
    if approved:
        await conn.execute("select agent.approve(%(id)s)", {"id": approval})
    else:
        await conn.execute("select agent.reject(%(id)s, null)", {"id": approval})


async def answer(conn: Connection, approval: int, text: str) -> None:
    """Answer the question of an agent."""
    await conn.execute("select agent.answer(%(id)s, %(text)s)", {"id": approval, "text": text})


async def call(conn: Connection, function: str, arguments: Mapping[str, Json]) -> Any:  # noqa: ANN401 - SQL's
    """Call a function of the schema agent; return its result."""
    cursor = await conn.execute(
        sql.SQL("select agent.{}({})").format(
            sql.Identifier(function),
            sql.SQL(", ").join(
                sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name))
                for name in arguments
            ),
        ),
        arguments,
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def _if_allowed(conn: Connection, statement: str, thread: UUID) -> Sequence[Row]:
    cursor = await conn.execute(
        "select has_table_privilege('agent.run', 'select')"
        " and has_table_privilege('agent.approval', 'select')"
    )
    if await cursor.fetchone() != (True,):
        return []
    return await _rows(conn, _ONE + statement, thread=thread)


async def _rows(conn: Connection, statement: str, **parameters: object) -> Sequence[Row]:
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(statement.encode(), parameters)
    return await cursor.fetchall()


_POST: Final = 'select (agent.post(thread => %(thread)s, "text" => %(text)s, id => %(id)s)).number'
_INTERRUPT: Final = (
    'select (agent.interrupt(thread => %(thread)s, "text" => %(text)s, id => %(id)s)).number'
)


async def post(conn: Connection, arguments: Mapping[str, Json], *, interrupt: bool = False) -> int:
    """Post a text; return the number of its event.

    Args:
        interrupt: cut off what agents are saying, so that they take it in at once.
    """
    cursor = await conn.execute(_INTERRUPT if interrupt else _POST, arguments)
    row = await cursor.fetchone()
    return row[0] if row else 0
