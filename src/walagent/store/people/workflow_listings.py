"""Workflows, their runs and interrupts, for people."""

from collections.abc import Mapping
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from walagent.errors import ConfigError
from walagent.message import Json

Connection = AsyncConnection[Any]
Row = dict[str, Any]

_LIST: Final = """
select w.name, w.version, w.description, w.updated_at,
       (select count(*) from agent.workflow_node n
         where n.tenant = w.tenant and n.workflow = w.name and n.version = w.version) as nodes
  from agent.workflow w where w.tenant = agent.current_tenant() order by w.name
"""
_SHOW: Final = """
select w.name, w.version, w.description, v.entry, v.exits, v.max_steps, v.timeout, v.run_as,
       v.source -> 'nodes' as nodes, v.source -> 'edges' as edges
  from agent.workflow w
       join agent.workflow_version v
         on v.tenant = w.tenant and v.workflow = w.name and v.version = w.version
 where w.tenant = agent.current_tenant() and w.name = %(name)s
"""
_RUNS: Final = """
select r.id, r.change #>> '{new,workflow}' as workflow, r.state, r.created_at, r.finished_at,
       r.error ->> 'reason' as reason
  from agent.run r
 where r.kind = 'node' and r.tenant = agent.current_tenant()
   and (%(name)s::text is null or r.change #>> '{new,workflow}' = %(name)s)
 order by r.id desc limit %(last)s
"""
_INTERRUPTS: Final = """
select i.run_id, i.workflow, i.node, i.type, i.prompt, i.asked_at, i.expires_at
  from agent.workflow_interrupt i where i.state = 'pending' order by i.asked_at
"""
# By key of a file, the type of the argument of agent.create_workflow().
ARGUMENTS: Final = {
    "name": "text",
    "nodes": "jsonb",
    "edges": "jsonb",
    "entry": "text",
    "exits": "text[]",
    "max_steps": "integer",
    "timeout": "interval",
    "description": "text",
    "run_as": "name",
}


async def list_workflows(conn: Connection) -> list[Row]:
    """List workflows by name."""
    return await _rows(conn, _LIST)


async def show_workflow(conn: Connection, name: str) -> Row | None:
    """Return the newest version of a workflow."""
    return next(iter(await _rows(conn, _SHOW, name=name)), None)


async def list_workflow_runs(conn: Connection, name: str | None, last: int) -> list[Row]:
    """List runs of one workflow or of all, the latest first."""
    return await _rows(conn, _RUNS, name=name, last=last)


async def list_interrupts(conn: Connection) -> list[Row]:
    """List interrupts that wait for a person, the oldest first."""
    return await _rows(conn, _INTERRUPTS)


async def create_workflow(conn: Connection, given: Mapping[str, Json]) -> int:
    """Create a workflow or its next version; return the version.

    Args:
        given: by the names of `ARGUMENTS`.
    """
    arguments = ", ".join(f"{name} => %({name})s::{ARGUMENTS[name]}" for name in given)
    values = {
        name: Jsonb(value) if ARGUMENTS[name] == "jsonb" else value for name, value in given.items()
    }
    return await _value(conn, f"select agent.create_workflow({arguments})", **values)


async def validate_workflow(conn: Connection, name: str) -> list[Row]:
    """List what is wrong with the newest version."""
    query = "select severity, code, node, message from agent.validate_workflow(%(name)s)"
    return await _rows(conn, query, name=name)


async def workflow_dot(conn: Connection, name: str) -> str:
    """Return the graph in the language of Graphviz."""
    return await _value(conn, "select agent.workflow_dot(%(name)s)", name=name)


async def start_workflow(conn: Connection, name: str, state: Mapping[str, Json]) -> int:
    """Start a run; return its ID."""
    query = "select agent.start_workflow(%(name)s, %(state)s)"
    return await _value(conn, query, name=name, state=Jsonb(state))


async def workflow_state(conn: Connection, run: int) -> list[Row]:
    """List the checkpoints of a run, in order; before a worker has executed it, there is none.

    Raises:
        ConfigError: it is no run of a workflow.
    """
    query = "select number, node, came_from, state, at from agent.workflow_state(%(run)s)"
    found = await _rows(conn, query, run=run)
    known = "select from agent.run where id = %(run)s and kind = 'node'"
    if not found and not (await conn.execute(known, {"run": run})).rowcount:
        raise ConfigError(
            f"run {run} is not a run of a workflow",
            hint="Use walagent workflows runs to list them.",
        )
    return found


async def resume_workflow(
    conn: Connection, run: int, patch: Mapping[str, Json], answer: str | None
) -> None:
    """Resume a run after its interrupt."""
    query = "select agent.resume_workflow(%(run)s, %(patch)s, %(answer)s)"
    await _value(conn, query, run=run, patch=Jsonb(patch), answer=answer)


async def fork_workflow(
    conn: Connection, run: int, checkpoint: int, patch: Mapping[str, Json]
) -> int:
    """Start a run at a checkpoint of another one; return its ID."""
    query = "select agent.fork_workflow(%(run)s, %(checkpoint)s, %(patch)s)"
    return await _value(conn, query, run=run, checkpoint=checkpoint, patch=Jsonb(patch))


async def drop_workflow(conn: Connection, name: str) -> None:
    """Drop a workflow that has no unfinished runs."""
    await _value(conn, "select agent.drop_workflow(%(name)s)", name=name)


async def _rows(conn: Connection, query: str, **parameters: object) -> list[Row]:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), parameters)
        return await cursor.fetchall()


async def _value(conn: Connection, query: str, **parameters: object) -> Any:  # noqa: ANN401 - any column
    row = await (await conn.execute(query.encode(), parameters)).fetchone()
    return row and row[0]
