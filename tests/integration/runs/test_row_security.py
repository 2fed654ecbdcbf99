"""What row level security hides from an agent's role, no model is shown."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.tools.toolbox import Toolbox
from walagent.runs.worker import Worker, WorkerSettings
from walagent.store import attachments
from walagent.store.sessions.connections import open_pool
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.workers.worker_resources import agent_resources

_SETUP = """
create role {role};
create table note (id int primary key, owner name, body text);
alter table note enable row level security;
create policy own on note for select to {role} using (owner = current_user);
grant select on note to {role};
insert into agent.model (name, provider, model_id) values ('scripted', 'scripted', 'x');
select agent.attach('note', 'model=scripted, run_as={role}');
insert into note values (1, '{role}', 'mine'), (2, 'somebody', 'theirs');
insert into agent.run (queue_id, attachment_id, attachment_version, commit_lsn, ordinal, change,
                       key)
select 1, 1, 1, '0/1', id, jsonb_build_object('op', 'insert', 'new', to_jsonb(note)), id from note;
"""

_GOODBYE = "select agent.detach('{table}'); drop owned by {role}; drop role {role}"


async def _work_all(dsn: str, conn: AsyncConnection[Any], model: ScriptedModel) -> None:
    async with (
        open_pool(dsn, size=2, application="test") as pool,
        open_tool_connections(pool, lambda: dsn) as calls,
    ):
        key = await attachments.secret_key(conn)
        shop = agent_resources(pool, Toolbox(calls, {}), lambda _: model, key)
        worker = Worker(WorkerSettings("w"), shop)
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(20):
            while (await _states(conn)).keys() & {"pending", "running"}:
                await asyncio.wait({running}, timeout=0.05)
        worker.stop()
        await running


async def _states(conn: AsyncConnection[Any]) -> dict[str, str]:
    cursor = await conn.execute(
        "select state::text, string_agg(coalesce(key, 'hidden'), ',') from agent.run group by 1"
    )
    return dict(await cursor.fetchall())


async def test_a_row_that_the_role_cannot_see_reaches_no_model(
    dsn: str, conn: AsyncConnection[Any]
) -> None:
    """The run of a hidden row is skipped with the reason, before anything is asked."""
    role = f"reader_{conn.info.dbname}"
    await conn.execute(_SETUP.format(role=role).encode())
    model = ScriptedModel(["seen"])
    try:
        await _work_all(dsn, conn, model)
        assert await _states(conn) == {"succeeded": "1", "skipped": "hidden"}
        cursor = await conn.execute(
            "select error ->> 'reason', change::text from agent.run where state = 'skipped'"
        )
        (skipped,) = await cursor.fetchall()
        assert "cannot see the row" in str(skipped)
        assert "theirs" not in str(skipped)
    finally:
        await conn.execute(_GOODBYE.format(table="note", role=role).encode())


async def test_a_role_that_may_not_read_a_column_is_not_shown_it(
    conn: AsyncConnection[Any],
) -> None:
    """Attaching names the column and the grant; naming other columns helps too."""
    role = f"blind_{conn.info.dbname}"
    setup = (
        f"create role {role}; create table pay (id int primary key, card text, sum int);"
        f"grant select (id, sum) on pay to {role};"
        "insert into agent.model (name, provider, model_id) values ('scripted', 'scripted', 'x')"
    )
    await conn.execute(setup.encode())
    attach, spec = "select agent.attach('pay', %s)", f"model=scripted, run_as={role}"
    try:
        with pytest.raises(psycopg.Error, match='lacks SELECT on column "card"'):
            await conn.execute(attach, [spec])
        await conn.execute(attach, [f"{spec}, columns=[sum]"])
    finally:
        await conn.execute(_GOODBYE.format(table="pay", role=role).encode())
