"""Markup in every text that a user can write: the pages show it, and none of it becomes one."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.burn import playing
from tests.helpers.database import run_all, until, value
from tests.helpers.desk import desk
from tests.helpers.talk import invite_people

pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]

TEXT = "<img src=x onerror=owned=1>\"'><script>owned=1;alert(1)</script>[x](javascript:alert(1))"
NAME = "<img src=x onerror=owned=1>"  # of a person, a table or a column: 63 bytes
COLUMN = "<iframe src=javascript:owned=1 onerror=owned>"
TEXTS = f"""
create or replace function page_engineer(ticket_id bigint) returns text language plpgsql as $$
begin
    raise exception $x${TEXT}$x$ using errcode = '42501', hint = $x${TEXT}$x$;
end $$;
create table "{NAME}" (id bigint primary key, "{COLUMN}" text);
select agent.attach('"{NAME}"'::regclass, model => 'script', name => 'marked',
    system_prompt => $x${TEXT}$x$, tools => '{{update_row}}', writes => '{{"{COLUMN}"}}');
select agent.create_principal($x${NAME}$x$, display_name => $x${TEXT}$x$);
"""
ROWS = f"""
insert into ticket (subject, body)
values ($x${TEXT}$x$, 'annual renewal'), ($x${TEXT}$x$, 'outage'), ($x${TEXT}$x$, 'archive');
insert into "{NAME}" values (1, $x${TEXT}$x$);
"""
SETTLED = """
select count(*) = 12 from agent.run
 where state in ('succeeded', 'failed', 'dead', 'waiting_approval') and kind = 'agent'
"""
THREAD = f"""
with opened as (select agent.open_thread($x${TEXT}$x$, '{{anna}}') as id)
select agent.post(id, $x${TEXT}$x$) from opened;
insert into agent.member (tenant, thread_id, principal)
select 'default', id, $x${NAME}$x$ from agent.thread on conflict do nothing;
select agent.add_fact(id, $x${NAME}$x$, $x${TEXT}$x$, $x${TEXT}$x$, $x${TEXT}$x$, 0.9)
  from agent.thread;
select agent.pause('triage', $x${TEXT}$x$);
update agent.attachment set paused = true, paused_reason = $x${TEXT}$x$ where name = 'marked';
select agent.reject(min(id), $x${TEXT}$x$) from agent.approval where state = 'pending';
insert into agent.session (id, owner) values ('marked', session_user);
insert into agent.question (session_id, text, answer)
select 'marked', t, jsonb_build_object('status', 'answered', 'answer', t, 'sql', array[t],
                                       'assumptions', array[t], 'caveats', array[t])
  from (values ($x${TEXT}$x$)) v (t);
select agent.remember($x${NAME}$x$, to_jsonb($x${TEXT}$x$::text), key => $x${TEXT}$x$,
                      principal => $x${NAME}$x$);
insert into agent.document (title, body, source, metadata)
values ($x${TEXT}$x$, $x${TEXT}$x$, $x${TEXT}$x$, jsonb_build_object($x${TEXT}$x$, $x${TEXT}$x$));
insert into agent.row_change (run_id, commit_lsn, ordinal, xid, committed_at, relation, schema_name,
                              table_name, op, key, after)
select max(id), '0/1', 0, 1, now(), '"{NAME}"'::regclass, 'public', '{NAME}', 'insert',
       jsonb_build_object('id', $x${TEXT}$x$), jsonb_build_object('{COLUMN}', $x${TEXT}$x$)
  from agent.run where kind = 'agent';
insert into agent.correction (run_id, commit_lsn, ordinal, column_name, number, kind, relation,
                              schema_name, table_name, key, wrote, value, xid, committed_at)
select max(id), '0/1', 0, '{COLUMN}', 1, 'changed', '"{NAME}"'::regclass, 'public', '{NAME}',
       jsonb_build_object('id', $x${TEXT}$x$), $x${TEXT}$x$, $x${TEXT}$x$, 1, now()
  from agent.run where kind = 'agent';
update agent.row_change c
   set numbers = (select jsonb_object_agg(attname, attnum) from pg_attribute
                   where attrelid = c.relation and attnum > 0);
update agent.correction c
   set number = (select attnum from pg_attribute
                  where attrelid = c.relation and attname = c.column_name);
"""


@pytest.mark.slow
async def test_markup_stays_a_text(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """On each page of the console, and in what opens on it."""
    async with desk(conn, dsn, tmp_path) as started:
        await invite_people(conn, started)
        await run_all(conn, TEXTS)
        await until(conn, "select bool_and(active_from is not null) from agent.attachment_version")
        await run_all(conn, ROWS)
        await until(conn, SETTLED)
        await run_all(conn, THREAD)
        thread = await value(conn, "select id::text from agent.thread")
        failed = await value(
            conn, "select max(id) from agent.run where state in ('failed', 'dead')"
        )
        marked = await value(
            conn, "select max(id) from agent.run_overview where attachment = 'marked'"
        )
        rejected = "select max(id) from agent.approval where state = 'rejected'"
        question = await value(conn, "select max(id) from agent.question")
        memory = await value(conn, "select max(id::text) from agent.memory")
        document = await value(conn, "select max(id::text) from agent.document")
        table = quote(f"public.{NAME}", safe="")
        paths = [
            "/",
            "/runs",
            f"/runs/{failed}",
            f"/runs/{marked}",
            f"/runs?panel={failed}",
            "/approvals",
            "/approvals?tab=history",
            f"/approvals/{await value(conn, rejected)}",
            "/agents",
            "/agents/triage",
            "/agents/marked",
            "/agents/marked/edit",
            "/attach",
            "/threads",
            f"/threads/{thread}",
            f"/threads/{thread}?computer=1",
            "/tables",
            f"/tables/{table}",
            "/ask",
            f"/ask?question={question}",
            "/cost",
            "/wal",
            "/failed",
            "/changes",
            "/changes?tab=corrections",
            "/access",
            "/audit",
            "/audit?did=principal",
            f"/memory?open={memory}",
            f"/documents?open={document}",
        ]
        seen = await use("markup.mjs", link=started.link, paths=paths)
    without = {"/cost", "/failed"}  # names alone, or only in what opens
    assert {path for path in paths if not seen["shown"][path]} == without
    assert (seen["dialogs"], seen["made"], seen["refused"]) == (0, [], [])
    assert set(seen["requests"]) == {started.url}


SAID = f"""
update agent.thread set title = $x${TEXT}$x$;
insert into agent.fact (tenant, thread_id, subject, predicate, object, category)
select 'default', id, 'mallory', $x${TEXT}$x$, $x${TEXT}$x$, $x${TEXT}$x$ from agent.thread;
insert into agent.event (tenant, thread_id, number, type, author, data)
select 'default', t.id, 1000 + n, 'text', 'mallory', jsonb_build_object('text', $x${TEXT}$x$)
  from agent.thread t, generate_series(1, 3) n;
"""


async def test_markup_in_burn_stays_a_text(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Titles, messages and facts, in the chat and in the computer beside it."""
    async with playing(dsn, tmp_path) as played:
        task = asyncio.create_task(
            use("markup.mjs", link=played.url, name="mallory", paths=["/", "/"])
        )
        await until(conn, "select exists (select from agent.member where principal = 'mallory')")
        await run_all(conn, SAID)
        seen = await task
    assert seen["shown"]["/"] > 2
    assert (seen["dialogs"], seen["made"], seen["refused"]) == (0, [], [])
