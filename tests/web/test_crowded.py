"""Pages in Chromium with names, texts, calls and lists as long as they can be."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import run_all, value
from tests.helpers.desk import desk

AGENT = "reviews_refunds_of_annual_renewals_that_were_charged_after_the_cancel"
END = "https://status.example.com/incidents/4711"
REASON = "the provider refused " + "each of the calls that were made in the last minutes " * 20 + END
RUNS = """
set session_replication_role = replica;
insert into agent.run (id, queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal, committed_at,
                       change, key, state, created_at, finished_at, tokens, cost, error)
overriding system value
select n, a.id, a.id, a.version, 1, '0/1', n, now(),
       jsonb_build_object('op', 'insert', 'schema', 'public', 'table', 'ticket', 'new', jsonb_build_object(
           'id', n, 'subject', case when n <= 1300 then 'a zebra ' else 'a subject ' end || repeat('that goes on ', 9))),
       n::text, case when n %% 100 = 0 then 'failed' else 'succeeded' end::agent.run_state, now(), now(), 9000, 1.5,
       case when n %% 100 = 0 then jsonb_build_object('reason', '{reason}') end
  from agent.attachment a cross join generate_series(1001, 13000) n
 where a.agent = '{agent}';
set session_replication_role = origin;
"""
CALL = """
set session_replication_role = replica;
update agent.approval
   set arguments = arguments || jsonb_build_object(
       'a_body', repeat('A long letter to the customer. ', 900),
       'a_document', (select jsonb_agg(jsonb_build_object('line', n, 'text', 'word')) from generate_series(1, 150) n))
 where id = (select min(id) from agent.approval);
set session_replication_role = origin;
"""

pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


async def test_long_names_and_many_rows_break_no_page(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """At 1440, 1024 and 390 pixels, and at 200 % zoom: nothing is cut off, covered, or lost by Back."""
    async with desk(conn, dsn, tmp_path) as started:
        await run_all(
            conn,
            f"""select agent.attach('ticket', 'name={AGENT}, model=script, on=insert,
                when="new.subject like ''never this%'' and length(new.subject) > 100 and new.category is null",
                system_prompt="Review."')""",
        )
        for n in range(24):
            attach = f"'ticket', 'name=watch_{n}, model=script, on=delete, system_prompt=\"Watch.\"'"
            await run_all(conn, f"select agent.attach({attach})")
        await run_all(conn, RUNS.replace("{agent}", AGENT).replace("{reason}", REASON).replace("%%", "%"))
        await run_all(conn, CALL)
        call = await value(conn, "select min(id)::text from agent.approval")
        title = "A thread about " + "renewals that were charged " * 7
        await run_all(conn, f"select agent.open_thread('{title}')")
        thread = await value(conn, "select id::text from agent.thread")
        seen = await use("crowded.mjs", link=started.link, end=END)
        link = await started.command("console", "--link")
        at = await use("widths.mjs", link=link, agent=AGENT, call=call, thread=thread)
    assert seen["partial"].startswith("Searched back to run 3,001")
    assert seen["partial"].endswith("Older runs were not searched.")
    assert seen["found"][1] == "300 match"
    assert seen["back"] == [[True, True]] * 3
    assert at["faults"] == []
    assert at["tall"] == []
    assert seen["reason"]
