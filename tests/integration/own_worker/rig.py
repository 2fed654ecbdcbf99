"""A desk with an agent whose turns a program of one's own works, and its people."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from psycopg import AsyncConnection

from tests.helpers.database import role, run_all, session, value
from walagent.message import Json

TOOLS = """
insert into agent.tool (name, kind, target, description, effect, input_schema) values
    ('look_up', 'python', 'own:look_up', 'Look something up.', 'idempotent', '{
        "type": "object", "additionalProperties": false, "required": ["query"],
        "properties": {"query": {"type": "string"}}}'),
    ('send_letter', 'python', 'own:send_letter', 'Send a letter.', 'unsafe', '{
        "type": "object", "additionalProperties": false, "required": ["to"],
        "properties": {"to": {"type": "string"}}}');
create table note (text text primary key, by name default current_user);
create function add_note(text text) returns text language sql
    as $$ insert into note (text) values ($1); select 'noted ' || $1 $$;
insert into agent.model (name, provider, model_id, input_price, output_price, parameters)
values ('fake', 'scripted', 'fake-1', 1, 5, '{"temperature": 0.1}');
insert into agent.agent (name, model, system_prompt, tools)
values ('helper', 'fake', 'You help.', '{web_search,look_up,send_letter,add_note,remember}');
"""


@dataclass(frozen=True)
class Desk:
    """Sessions of a worker, of a second one of the same principal, and of a person."""

    worker: AsyncConnection
    second: AsyncConnection
    person: AsyncConnection
    names: tuple[str, str, str]  # worker, person, role of the tools
    thread: str

    async def call(self, function: str, *given: object, who: AsyncConnection | None = None) -> Json:
        """Call a function of schema agent as the worker."""
        places = ", ".join("%s::jsonb" if isinstance(g, bytes) else "%s" for g in given)
        plain = [g.decode() if isinstance(g, bytes) else g for g in given]
        return await value(who or self.worker, f"select agent.{function}({places})", *plain)

    async def start(self, text: str = "Hello?", *, who: AsyncConnection | None = None) -> int:
        """Post as the person, and start a turn."""
        await self.call("add_user_message", self.thread, text, who=self.person)
        return await self.call("start_turn", self.thread, who=who)


@asynccontextmanager
async def desk(
    conn: AsyncConnection, dsn: str, *, approve: str = "{}", lease: str = "1 minute"
) -> AsyncIterator[Desk]:
    """Open a thread of a person and the agent."""
    await run_all(conn, TOOLS)
    async with AsyncExitStack() as stack:
        worker, person, app = [await stack.enter_async_context(role(conn)) for _ in range(3)]
        for name in (worker, person):
            await run_all(conn, f"select agent.grant_member('{name}')")
        await run_all(conn, f"grant insert, select on note to {app}")
        await value(
            conn,
            "select agent.attach_worker('helper', %s, %s, %s::text[], %s::interval)",
            worker, app, approve, lease,
        )  # fmt: skip
        working, second, talking = [
            await stack.enter_async_context(session(dsn, user=name))
            for name in (worker, worker, person)
        ]
        thread = await value(talking, "select agent.open_thread('Talk', '{helper}')")
        yield Desk(working, second, talking, (worker, person, app), thread)
        await run_all(conn, "delete from agent.thread")
