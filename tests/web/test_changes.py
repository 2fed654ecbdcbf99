"""Changes in Chromium: that of a run, and the rows that runs changed."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import role, run_all, until, value
from tests.helpers.desk import SUBJECTS, desk
from tests.helpers.people import person

pytestmark = MARKS
FIRST = "select min(id) from agent.run where change -> 'new' ->> 'subject' = %s"


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_the_row_of_a_run_is_shown_to_who_can_read_it(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The other sees the run, and that columns are hidden; no page fails for want of them."""
    word = SUBJECTS[0]
    async with desk(conn, dsn, tmp_path) as started, role(conn) as login:
        people = {name: await person(conn, name, "viewer") for name in ("vic", "bob")}
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        await run_all(conn, f"grant select on ticket to {login}")
        run = await value(conn, FIRST, word)
        seen = await use("changes.mjs", base=started.url, people=people, run=run, word=word)
        await run_all(conn, "update agent.principal set login = null")
        await run_all(conn, f"drop owned by {login}")
    assert seen["vic"]["word"] >= 3
    assert (seen["vic"]["hidden"], seen["vic"]["errors"]) == (0, [])
    assert seen["bob"] == {"word": 0, "hidden": 1, "errors": []}


ODD = r"U&'a\202E<b>b</b>'"
SORTED = """
select r.id from agent.run r where change -> 'new' ->> 'subject' = %s and state = 'succeeded'
"""
NOTED = "select count(*) = 1 from agent.row_change where table_name = 'note'"
CORRECTED = "select count(*) = 1 from agent.correction"
TRIGGERED = """
create function note_category() returns trigger language plpgsql as $$
begin
    insert into note (body) values ({odd});
    return null;
end $$;
create table note (id bigint primary key generated always as identity, body text, who text);
select agent.attach('note', 'name=reads_notes, model=script, system_prompt="Read.", when="false"');
create trigger note_category after update on ticket
    for each row when (new.subject = 'dark mode, again') execute function note_category();
"""
INSERTED = "insert into ticket (subject) values ('dark mode, again')"
FILTERS = [
    ("agent:triage", 8),
    ("table:note", 1),
    ("table:public.ticket,note", 8),
    ("5", 1),
    ("column:category key:5,6", 2),
    ("since:1h", 8),
    ("until:1h", 0),
]


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_rows_that_runs_changed_are_listed_and_taken_back(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With what was there before; values are texts; filters are in the address."""
    async with desk(conn, dsn, tmp_path) as started:
        await run_all(conn, TRIGGERED.format(odd=ODD))
        await conn.execute(INSERTED)
        await until(conn, NOTED)
        run, corrected = [await value(conn, SORTED, SUBJECTS[n]) for n in (4, 1)]
        async with conn.transaction():
            await conn.execute("select agent.sign_changes()")
            await conn.execute(
                "update ticket set category = 'bug' where subject = %s", [SUBJECTS[1]]
            )
        await until(conn, CORRECTED)
        viewer = await person(conn, "vera", "viewer")
        given = {"run": run, "corrected": corrected, "viewer": viewer, "filters": FILTERS}
        seen = await use("row_changes.mjs", link=started.link, **given)
        taken = "select category is null from ticket where subject = %s"
        assert await value(conn, taken, SUBJECTS[4])
        dry = "select count(*) filter (where change ? 'dry_run') from agent.run where undoes = %s"
        assert await value(conn, dry, run) == 1
    assert seen["listed"][0] == (
        "INSERT note 1 by a trigger id + 1 who + NULL body + a\\u{202e}<b>b</b>"
    )
    assert "UPDATE ticket 2 by update_row category \u2212 NULL + how_to" in seen["listed"]
    assert [count for _, count in seen["filtered"]] == [count for _, count in FILTERS]
    assert seen["filtered"][3:5] == [["?key=5", 1], ["?column=category&key=5,6", 2]]
    assert seen["tabs"] == ["Corrections"]
    assert seen["corrected"] == ["changed later ticket 2 by postgres category \u2212 how_to + bug"]
    assert seen["accuracy"] == ["category v1 85.7 % 7 1 1 0 0"]
    assert seen["wrong"] == "?tab=corrections&agent=triage&column=category"
    assert seen["hidden"] == ["UPDATE ticket 5 by update_row category \u2212 hidden + hidden"]
    assert (seen["offered"], seen["again"], seen["reverts"]) == (0, 0, 2)
    assert "1 change of run 5 would be taken back" in seen["looked"][0][0]
    assert seen["looked"][1] == ["would be restored UPDATE ticket 5"]
    assert "1 change of run 5 was taken back" in seen["taken"][0][0]
    assert seen["taken"][1] == ["restored UPDATE ticket 5"]
    assert seen["refused"] == ["refused UPDATE ticket 2 changed since category \u2212 how_to + bug"]
    assert (seen["axe"], seen["wide"], seen["dialogs"]) == ([], [], 0)
