"""The roles of docs/security.md for one test: who runs, who reads the WAL, as whom tools act.

The runner may do everything on the tables of the scene that the agent's role may, and more.  So a
statement that ran as the runner by mistake would succeed; `witness` would tell of it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from psycopg.conninfo import make_conninfo

from tests.faults.rig.stage import Place
from tests.faults.rig.waiting import fetch
from walagent.store.sessions.tool_connections import ensure_login

_TABLES = """
create table witness (seq bigint generated always as identity, who name, wrote text);
grant insert on witness to public;
create function bear_witness() returns trigger language plpgsql as $$
begin
    insert into public.witness (who, wrote) values (current_user, tg_table_name);
    return null;
end $$;
create trigger bear_witness after insert or update on item
    for each row execute function bear_witness();
create trigger bear_witness after insert or update on effect
    for each row execute function bear_witness();
"""
_ROLES = """
create role {runner} login noinherit;
create role {reader} login replication;
create role {agent} nologin;
select agent.grant_runner('{runner}');
grant all on item, effect to {runner};
"""
_AGENT = """
grant {agent} to {runner};
grant select, update (status) on item to {agent};
grant insert on effect to {agent};
"""


@dataclass(frozen=True, slots=True)
class Roles:
    """Their names, and the place where they act."""

    place: Place
    runner: str
    reader: str
    agent: str

    @property
    def attach(self) -> str:
        """Attach as `stage.ATTACH` does, but with tools that act as the agent's role."""
        return (
            "select agent.attach('item', 'model=script, tools=[note_change, note_in_python],"
            " writes=[status], bind=[item=id, version=version], max_attempts=3,"
            f" run_as={self.agent}')"
        )

    @property
    def running(self) -> Place:
        """The place as the runner comes to it."""
        return replace(self.place, dsn=self.dsn(self.runner))

    def dsn(self, user: str, **more: str) -> str:
        """How a role connects."""
        return make_conninfo(self.place.dsn, user=user, **more)

    async def do(self, statements: str) -> None:
        """Carry statements out as the superuser; {runner}, {reader} and {agent} are names."""
        await self.place.conn.execute(self.named(statements).encode())

    def named(self, statements: str) -> str:
        """Put the names in."""
        return statements.format(runner=self.runner, reader=self.reader, agent=self.agent)

    async def let_agent_act(self) -> None:
        """Give the agent's role what its tools need, and the runner leave to become it."""
        await self.do(_AGENT)

    async def hang_up(self) -> None:
        """End every connection of runner and reader, so that new ones must be made."""
        await self.place.conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = any (%s)",
            [[self.runner, self.reader]],
        )

    async def wrote(self) -> set[str]:
        """Who has written rows of the application, beside the application."""
        found = await fetch(
            self.place.conn, "select distinct who from witness where who <> current_user"
        )
        return {who for (who,) in found}


@asynccontextmanager
async def roles(place: Place) -> AsyncIterator[Roles]:
    """Make the roles for the tables of the scene, which must be there; drop them at the end."""
    name = place.conn.info.dbname
    made = Roles(place, f"{name}_runner", f"{name}_reader", f"{name}_agent")
    await place.conn.execute(_TABLES)
    await made.do(_ROLES)
    await ensure_login(place.conn)
    await made.let_agent_act()
    try:
        yield made
    finally:
        await made.hang_up()
        for role in (made.runner, made.reader, made.agent):
            if await fetch(place.conn, "select from pg_roles where rolname = %s", role):
                await place.conn.execute(f"drop owned by {role}; drop role {role}".encode())
