"""Pages in Chromium with names, texts, calls and lists as long as they can be."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import run_all, value
from tests.helpers.desk import desk
from tests.helpers.people import person

# About as long as a name can be.
AGENT = "reviews_refunds_of_annual_renewals_that_were_charged_after_the"
END = "https://status.example.com/incidents/4711"
REASON = (
    "the provider refused " + "each of the calls that were made in the last minutes " * 20 + END
)
RUNS = """
set session_replication_role = replica;
insert into agent.run
    (id, queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
     committed_at, change, key, state, created_at, finished_at, tokens, cost, error)
overriding system value
select n, a.id, a.id, a.version, 1, '0/1', n, now(),
       jsonb_build_object('op', 'insert', 'schema', 'public', 'table', 'ticket',
           'new', jsonb_build_object('id', n, 'subject',
               case when n <= 1300 then 'a zebra ' else 'a subject ' end
               || repeat('that goes on ', 9))),
       n::text, case when n % 100 = 0 then 'failed' else 'succeeded' end::agent.run_state,
       now(), now(), 9000, 1.5,
       case when n % 100 = 0 then jsonb_build_object('reason', '{reason}') end
  from agent.attachment a cross join generate_series(1001, 13000) n
 where a.agent = '{agent}';
set session_replication_role = origin;
"""
ATTACH = f"""
select agent.attach('ticket', 'name={AGENT}, model=script, on=insert, system_prompt=Review,
    when="new.subject like ''never%'' and length(new.subject) > 100 and new.category is null"')
"""
WATCHES = """
select agent.attach('ticket', format('name=watch_%s, model=script, on=delete, system_prompt=x', n))
  from generate_series(1, 24) n;
"""
THREADS = """
select agent.open_thread(format('Thread %s', n)) from generate_series(1, 230) n
"""
CALL = """
set session_replication_role = replica;
update agent.approval
   set arguments = arguments || jsonb_build_object(
       'a_body', repeat('A long letter to the customer. ', 900),
       'a_document', (select jsonb_agg(jsonb_build_object('line', n, 'text', 'word'))
                        from generate_series(1, 150) n))
 where id = (select min(id) from agent.approval);
set session_replication_role = origin;
"""

pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


@pytest.mark.slow
async def test_long_names_and_many_rows_break_no_page(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """At each width and at 200 %, nothing is cut off, covered, or lost by Back."""
    async with desk(conn, dsn, tmp_path) as started:
        await run_all(conn, ATTACH)
        await run_all(conn, WATCHES)
        await run_all(conn, RUNS.replace("{agent}", AGENT).replace("{reason}", REASON))
        await run_all(conn, CALL)
        call = await value(conn, "select min(id)::text from agent.approval")
        title = "A thread about " + "renewals that were charged " * 7
        await run_all(conn, f"select agent.open_thread('{title}')")
        thread = await value(conn, "select id::text from agent.thread")
        await run_all(conn, THREADS)
        token = await person(conn, "omar")
        seen = await use("crowded.mjs", link=started.link, end=END, thread=thread, token=token)
        port = started.url.rpartition(":")[2]
        link = await started.command("console", "--link", "--http", port)
        at = await use("widths.mjs", link=link, agent=AGENT, call=call, thread=thread)
    assert seen["partial"].startswith("Searched back to run 3,001")
    assert seen["partial"].endswith("Older runs were not searched.")
    assert seen["found"][1] == "300 match"
    assert seen["back"] == [[True, True]] * 3
    assert at["faults"] == [], at["faults"]
    assert at["tall"] == []
    assert seen["cells"] == ["triage", "category = how_to"]
    assert [each.split()[0] for each in seen["facets"]] == ["succeeded", "failed"]
    assert seen["facets"][1].endswith("+")  # of the newest 10,000
    assert "failed, dead" in seen["bar"]
    assert seen["threads"] == 231
    assert seen["reason"]
    assert seen["mine"]
    assert (seen["typed"], seen["away"]) == ("Not sent yet", "/cost")
    assert seen["own"] == [0]
