"""Set up the support desk in a database: its tables, customers, and the attached agent."""

from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from walagent.demo.tickets import CUSTOMERS, definition, schema, story, ticket_at

Connection = AsyncConnection[Any]

_JSON = ("bind", "examples", "parameters")
_CHANGE = """
update agent.agent
   set model = %(model)s, parameters = %(parameters)s
 where name = %(name)s
   and (model, parameters) is distinct from (%(model)s, %(parameters)s)
"""


async def open_desk(conn: Connection) -> int:
    """Create missing tables and customers; return the first unused ticket number."""
    if await _is_open(conn):
        row = await (await conn.execute("select max(id) from support_tickets")).fetchone()
        return (row[0] if row and row[0] else 0) + 1
    async with conn.transaction():
        await conn.execute(schema())
        await conn.execute(story())
        for name in CUSTOMERS:
            await conn.execute(
                "insert into customers (name, email) values (%s, %s)",
                [name, f"{name.split()[0].lower()}@example.org"],
            )
    return 1


async def take_payments(conn: Connection, first: int, count: int) -> None:
    """Insert one payment for each ticket to come, so that each can be refunded."""
    async with conn.transaction():
        for number in range(first, first + count):
            await conn.execute(
                "insert into payments (customer_id, amount, paid_at)"
                " values (%s, 29, now() - interval '1 day')",
                [ticket_at(number).customer_id],
            )


async def attach_agent(conn: Connection, model: str, *, by_labels: bool) -> None:
    """Attach the agent with agent.attach(); an attached one changes to this model.

    Args:
        by_labels: whether the model chooses between labels, given by the agent's parameters.
    """
    given = definition() | {"model": model}
    if not by_labels:
        given["parameters"] = {}
    arguments = {key: Jsonb(value) if key in _JSON else value for key, value in given.items()}
    if await _is_attached(conn, given["name"]):
        await conn.execute(_CHANGE, arguments)
        await conn.execute("select agent.resume(%(name)s)", arguments)
        return
    names = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name))
        for name in arguments
    )
    await conn.execute(sql.SQL("select agent.attach({})").format(names), arguments)


async def _is_attached(conn: Connection, name: str) -> bool:
    cursor = await conn.execute("select from agent.attachment where name = %s", [name])
    return await cursor.fetchone() is not None


async def _is_open(conn: Connection) -> bool:
    cursor = await conn.execute("select to_regclass('public.ticket_story') is not null")
    row = await cursor.fetchone()
    return bool(row and row[0])
