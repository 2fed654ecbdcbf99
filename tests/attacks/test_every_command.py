"""Every command, route and tool beside tables whose owner put code into them.

They come from their registries, so a new one is tried as well.  The code stays the role that reads,
and what has the names of PostgreSQL's own functions, operators and views, first on everybody's
search_path, is not executed at all.
"""

import asyncio
import importlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx2 as httpx
import pytest
from mcp import Client, StdioServerParameters
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from tests.faults.rig.processes import free_port
from tests.helpers.database import role, run_all, until
from tests.helpers.live import no_shapes
from tests.helpers.owned_table import OwnedTable, owned_table
from tests.helpers.people import token_of
from tests.helpers.traps import NOTED_TRAPS
from tests.integration.cli.user import User
from walagent.app.console import make_api
from walagent.cli.commands import COMMANDS, Command, Entry, Group
from walagent.config.sections import Http
from walagent.console.declared import declared_mutations, declared_queries
from walagent.message import Json, Request, ToolResult
from walagent.models.script import Answer
from walagent.testing import FakeProvider, call

KEY, SECRET = "OWNED_API_KEY", "OWNED_SECRET"
COUNT = (
    "select count(*), sum(q.n) from owned.stock q join owned.parted p on p.n = q.n where q.n > 3"
)
PLAN = call(
    "plan",
    reasoning="Count them.",
    steps=[{"id": "a", "type": "SQL", "description": "n", "tool_input": {"query": COUNT}}],
)
ANSWER = call("answer", text="Many.", caveats=[])
THREAD = "00000000-0000-4000-8000-0000000000bb"
CONFIG = """
replication: {{slot: {slot}}}
http: {{port: {port}}}
ask: {{role: {reader}, connections: 2, schemas: [owned], model: m}}
sync:
  open: [owned.stock, owned.prices, owned.parted]
  secret: {secret}
  shapes:
    plain: {{query: "select id, n from owned.stock where n > 3", key: [id]}}
    read: {{query: "select id, n from owned.stock where n > 3", key: [id], run_as: {reader}}}
"""
# What a command is given to reach the tables; any other is given a word for each argument.
REACHING = {
    "why": ["owned.stock", "7"],
    "runs why": ["owned.stock", "7"],
    "ask": ["How many?", "-v"],
    "chat": [],
    "try": ["stock", "--last", "3"],
    "new": ["owned.stock"],
    "agents attach": ["owned.prices", 'model=m, name=more, when="new.n > 3", run_as=READER'],
    "database guard": ["--role", "READER", COUNT],
    "wal tail": ["--table", "owned.stock", "--where", "new.n > 3"],
    "wal watch": ["owned.stock"],
    "wal resync": ["--default", "all"],
}
STAYING = {"run", "serve worker", "serve sync", "serve mcp", "wal tail", "wal watch"}
# Last, in this order: they end what others need.
ENDING = ("wal resync", "tenants delete", "wal drop-slot", "database uninstall")
# With a server of their own, in which nobody else owns a table; or none.
ELSEWHERE = {"demo", "serve example burn", "database psql", "completion", "agents schema"}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command, by what is typed."""

    def leaves(entries: Sequence[Entry], *at: str) -> Iterator[tuple[str, Command]]:
        for entry in entries:
            if isinstance(entry, Group):
                yield from leaves(entry.entries, *at, entry.name)
            else:
                yield " ".join([*at, entry.name]), entry

    for section in COMMANDS.values():
        for path, entry in leaves(section):
            yield path, getattr(importlib.import_module(entry.path), entry.attribute)


def words_of(path: str, command: click.Command, reader: str) -> list[str]:
    """What is typed."""
    given = list(REACHING.get(path, ()))
    if path not in REACHING:
        for each in command.params:
            if isinstance(each, click.Argument) and each.required:
                given.append(THREAD if each.name == "thread" else "1")
            elif each.required:
                given += [each.opts[-1], "1"]
    return [*path.split(), *(word.replace("READER", reader) for word in given)]


def reply(request: Request) -> Answer:
    """Of the planner, the critic, or an agent."""
    names = {tool.name for tool in request.tools}
    if "plan" in names:
        return PLAN
    if "answer" in names:
        return ANSWER
    is_first = not any(
        isinstance(part, ToolResult) for message in request.messages for part in message.parts
    )
    return call("query", sql=COUNT) if "query" in names and is_first else "Done."


@dataclass(frozen=True, slots=True)
class Attacked:
    """A person at a shell, whose login is attacked."""

    user: User
    table: OwnedTable
    reader: str
    login: str
    port: int

    def type_all(self, chosen: Mapping[str, click.Command]) -> None:
        """Type commands one after the other; some are to be stopped."""
        for path, command in chosen.items():
            words = words_of(path, command, self.reader)
            if path not in STAYING:
                self.user.types(*words, stdin=f"How many?\n{COUNT}\nexit\n")
                continue
            with self.user.starts(*words) as started:
                try:
                    started.process.wait(3)
                except subprocess.TimeoutExpired:
                    started.process.send_signal(signal.SIGTERM)
                    started.process.wait(20)


@asynccontextmanager
async def attacked(
    conn: AsyncConnection, dsn: str, folder: Path, login: str
) -> AsyncIterator[Attacked]:
    """The daemon runs, with agents at the owner's tables; its login is a superuser or a runner."""
    async with (
        role(conn, "login noinherit createrole") as name,
        role(conn, "nologin") as reader,
        role(conn) as person,
        owned_table(conn) as table,
        FakeProvider([reply] * 1000) as fake,
    ):
        await run_all(
            conn,
            f"""
            grant usage on schema owned to {reader};
            grant select on all tables in schema owned to {reader};
            grant {reader} to {name}, {person}; grant {person} to {name};
            delete from agent.model;
            insert into agent.model (name, provider, model_id, base_url, credential)
            values ('m', 'openai', 'm', '{fake.spec("openai").base_url}', '{KEY}');
            select agent.grant_runner('{name}'), agent.grant_asker('{name}'),
                   agent.grant_member('{name}'), agent.grant_asker('{person}');
            insert into agent.agent (name, model, tools) values ('bot', 'm', '{{query}}');
            alter table owned.stock replica identity full;
            select agent.attach('owned.stock', 'name=stock, agent=bot, when="new.n > 3",
                on=[insert, update], run_as={reader}, query_as={reader}, backfill=true');
            """,
        )
        used = dsn if login == "superuser" else make_conninfo(dsn, user=name)
        variables = {KEY: fake.key, SECRET: "s3cret"}
        if login == "runner":
            variables["DATABASE_REPLICATION_URL"] = dsn
        user = User(folder, used, variables)
        port = free_port()
        slot = conn.info.dbname
        text = CONFIG.format(slot=slot, port=port, reader=reader, secret=SECRET)
        user.writes(text)
        user.types("init", DATABASE_URL=dsn)
        await conn.execute(NOTED_TRAPS.encode())
        path = sql.SQL("alter database {} set search_path = evil, pg_catalog, public")
        await conn.execute(path.format(sql.Identifier(conn.info.dbname)))
        with user.starts("run", "--no-apply") as started:
            await asyncio.to_thread(started.says, "reader.streaming")
            yield Attacked(user, table, reader, person, port)


async def write(conn: AsyncConnection, on: Attacked) -> None:
    """Write as the owner: an agent acts on it, and shapes change."""
    await run_all(
        conn,
        f"set role {on.table.owner}; insert into owned.stock (id, n, number) values (500, 7, 7);"
        "update owned.stock set n = n + 1 where id < 5; update owned.prices set n = n + 1;"
        "reset role",
    )
    await until(conn, "select exists (select from agent.run where key = '500' and state in"
                " ('succeeded', 'failed', 'dead'))")  # fmt: skip


async def ask_routes(conn: AsyncConnection, on: Attacked) -> None:
    """Request every route of the console's API, every declared query, and shapes."""
    api = make_api(None, no_shapes, Http())  # pyright: ignore[reportArgumentType]
    await run_all(
        conn,
        f"""
        insert into agent.principal (tenant, name, login)
        values ('default', 'ann', '{on.login}');
        insert into agent.role_grant (tenant, principal, role, granted_by)
        select 'default', 'ann', r, 'test' from unnest('{{admin,developer,approver}}'::text[]) r;
        """,
    )
    token = await token_of(conn, "ann")
    headers = {
        "authorization": f"Bearer {token}",
        "x-walagent-request": "1",
        "content-type": "application/json",
    }
    values: dict[str, Json] = {
        "relation": "owned.stock", "key": "7", "attachment": "stock", "at": {"id": "7"},
        "question": "How many?", "session": "s", "run": "1", "thread": THREAD,
    }  # fmt: skip
    texts = {name: each for name, each in values.items() if isinstance(each, str)}
    base = f"http://127.0.0.1:{on.port}/v1"
    async with httpx.AsyncClient(timeout=60, headers=headers) as client:
        for path, methods in api.routes:
            if path == "/replies":
                continue  # a stream, of no table
            names = [""]
            if "{name" in path:
                declared = declared_queries() if "queries" in path else declared_mutations()
                names = [each.name for each in declared if not each.name.endswith("_tenant")]
            for name in names:
                url = base + path.replace("{name:path}", name)
                for method in sorted(methods - {"HEAD", "DELETE"}):
                    body = None if method == "GET" else values
                    await client.request(method, url, params=texts, json=body)
        shown: dict[str, Any] = {"secret": "s3cret", "offset": "-1"}
        for table in ("owned.stock", "owned.prices", "owned.parted"):
            for more in ({}, {"where": "n > 3"}, {"where": "n + 1 > 5 and kind = 'a'"},
                         {"subset__where": "n > 5", "subset__order_by": "n"}):  # fmt: skip
                await client.get(f"{base}/shape", params={**shown, "table": table, **more})
        for name in ("plain", "read"):
            await client.get(f"{base}/shapes/{name}", params={"offset": "-1"})


async def call_tools(on: Attacked) -> None:
    """Call every tool that programs are given."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "walagent", "serve", "mcp", "--model", "m"],
        env=on.user.environment,
        cwd=on.user.folder,
    )
    given = {"sql": COUNT, "question": "How many?", "table": "owned.stock", "run": 1, "approval": 1}
    async with Client(server, read_timeout_seconds=60) as client:
        for tool in (await client.list_tools()).tools:
            wanted = tool.input_schema.get("properties", {})
            await client.call_tool(tool.name, {n: given[n] for n in wanted if n in given})


@pytest.mark.slow
@pytest.mark.parametrize("login", ["superuser", pytest.param("runner", marks=pytest.mark.slow)])
async def test_no_code_of_an_owner_becomes_more_than_who_reads(
    conn: AsyncConnection, dsn: str, tmp_path: Path, login: str
) -> None:
    """Whatever is typed, requested or called; and it is executed at all."""
    known = dict(commands())
    assert known.keys() >= {*REACHING, *STAYING, *ENDING, *ELSEWHERE}, "a command is gone"
    plain = {p: c for p, c in known.items() if p not in {*ENDING, *ELSEWHERE, "run"}}
    async with attacked(conn, dsn, tmp_path, login) as on:
        await write(conn, on)
        await ask_routes(conn, on)
        if login == "superuser":
            await call_tools(on)
        half = list(plain.items())
        await asyncio.gather(*(asyncio.to_thread(on.type_all, dict(half[n::3])) for n in range(3)))
        seen = {line.partition(" as ")[0] for line in on.table.lines}
        assert {"index", "index predicate", "statistics", "policy"} <= seen, on.table.lines
        assert on.table.escapes == []
    async with asyncio.timeout(60):
        await asyncio.to_thread(on.type_all, {p: known[p] for p in ENDING})
    assert on.table.escapes == []
    # Made by `database setup`; roles are the server's, and other tests make it.
    made = "select from pg_roles where rolname = 'walagent_analyst'"
    if (await conn.execute(made)).rowcount:
        await run_all(conn, "drop owned by walagent_analyst; drop role walagent_analyst")
