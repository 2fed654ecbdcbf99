"""What runs change is recorded from the WAL, once, with what was before as far as it is known."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, column, role, rows, run_all, value
from walagent.base import faults
from walagent.doctor.changes import check_changes
from walagent.message import Json
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.install.server_facts import attached_tables

CHANGES = (
    "select table_name, op, source, key, columns, before, after"
    " from agent.row_change order by run_id, commit_lsn, ordinal"
)
HISTORY = """
create table history (id bigint primary key generated always as identity, was text, became text);
create function keep() returns trigger language plpgsql as $$
begin
    insert into history (was, became) values (old.category, new.category);
    return null;
end $$;
create trigger keep after update on support_tickets for each row execute function keep();
"""
# Published with all its changes by an agent that never acts.
WATCH = (
    "select agent.attach('{0}', 'model=fake, name={0}, on=[insert, update, delete],"
    ' when="false"\')'
)


async def recorded(d: Daemon, count: int = 1) -> list[tuple[Json, ...]]:
    """Wait until *count* changes are recorded."""
    await d.until("select count(*) >= %s from agent.row_change", count)
    await d.caught_up()
    return list(await rows(d.conn, CHANGES))


@pytest.mark.parametrize(
    "plugin", ["pgoutput", pytest.param("wal2json", marks=pytest.mark.wal2json)]
)
@pytest.mark.parametrize("ops", ["insert", "insert, update"])
async def test_update_row_is_recorded_with_what_was_before(
    conn: AsyncConnection, dsn: str, plugin: str, ops: str
) -> None:
    """With the default identity; of a table whose updates are not published, by the call."""
    await run_all(conn, DESK)
    script = [call("update_row", category="billing", amount=1.5), "done"]
    async with daemon(conn, dsn, script, plugin=plugin) as d:
        await attach(conn, f"writes=[category, amount], on=[{ops}]")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        found = await recorded(d)
    before = {"id": "7", "issue": "x", "status": "open", "category": None, "amount": None}
    after = {**before, "category": "billing", "amount": "1.5"}
    assert found == [
        (
            "support_tickets",
            "update",
            "statement",
            {"id": "7"},
            ["amount", "category"],
            before,
            after,
        )
    ]
    assert await rows(
        conn,
        "select c.step, s.kind, s.content ->> 'name', c.relation = 'support_tickets'::regclass,"
        " c.numbers -> 'category', c.omitted, c.rows, c.tenant"
        " from agent.row_change c join agent.step s on (s.run_id, s.seq) = (c.run_id, c.step)",
    ) == [(1, "result", "update_row", True, 4, [], 1, "default")]
    assert await value(conn, "select count(*) from agent_internal.row_before") == 0


async def test_what_triggers_write_is_marked(conn: AsyncConnection, dsn: str) -> None:
    """The row that update_row names is the statement's; the rest of its transaction is not."""
    await run_all(conn, DESK + HISTORY)
    async with daemon(conn, dsn, [call("update_row", category="bug"), "done"]) as d:
        await attach(conn, "writes=[category]")
        await run_all(conn, WATCH.format("history"))
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        found = await recorded(d, 2)
    assert [(row[0], row[1], row[2]) for row in found] == [
        ("history", "insert", "trigger"),
        ("support_tickets", "update", "statement"),
    ]
    assert found[0][6] == {"id": "1", "was": None, "became": "bug"}


@pytest.mark.parametrize("identity", ["default", "full"])
async def test_a_function_is_recorded_as_far_as_the_wal_has_it(
    conn: AsyncConnection, dsn: str, identity: str
) -> None:
    """Before is known with replica identity full, and of rows that the transaction wrote itself."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        f"alter table support_tickets replica identity {identity};"
        "create function close() returns text language sql as $$"
        " update support_tickets set status = 'closed' where id = 7;"
        " insert into support_tickets (id, issue) values (8, 'new');"
        " update support_tickets set issue = 'newer' where id = 8;"
        " delete from support_tickets where id = 9; select 'closed' $$",
    )
    async with daemon(conn, dsn, [call("close"), "done"]) as d:
        await attach(conn, "tools=[close], on=[insert, update, delete], when=\"new.issue = 'x'\"")
        await run_all(conn, "insert into support_tickets (id, issue) values (9, 'old'), (7, 'x')")
        found = await recorded(d, 4)
    assert [(row[1], row[2], row[3]) for row in found] == [
        ("update", None, {"id": "7"}),
        ("insert", None, {"id": "8"}),
        ("update", None, {"id": "8"}),
        ("delete", None, {"id": "9"}),
    ]
    closing, _, renaming, deleting = found
    is_full = identity == "full"
    assert closing[4] == (["status"] if is_full else None)
    assert closing[5] == ({**closing[6], "status": "open"} if is_full else None)
    assert renaming[4] == ["issue"]
    assert renaming[5]["issue"] == "new"
    assert set(deleting[5]) == (
        {"id", "issue", "status", "category", "amount"} if is_full else {"id"}
    )


async def test_what_the_role_cannot_read_is_not_recorded(conn: AsyncConnection, dsn: str) -> None:
    """Nor a column that the agent is not shown: who reads steps reads no more here."""
    await run_all(conn, DESK + HISTORY)
    await run_all(conn, "alter function keep() security definer")
    async with (
        role(conn, "nologin") as app,
        daemon(conn, dsn, [call("update_row", category="bug"), "done"]) as d,
    ):
        await run_all(
            conn,
            f"grant select, update on support_tickets to {app};"
            f"grant usage on schema public to {app}",
        )
        await attach(conn, f"run_as={app}, columns=[issue], writes=[category]")
        await run_all(conn, WATCH.format("history"))
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        found = await recorded(d, 2)
    assert found[1][6] == {"id": "7", "issue": "x", "category": "bug"}
    assert found[0] == ("history", "insert", "trigger", None, None, None, None)
    assert await column(conn, "select omitted from agent.row_change order by ordinal") == [
        ["became", "id", "was"],
        ["amount", "status"],
    ]


async def test_rows_that_policies_could_hide_are_not_recorded(
    conn: AsyncConnection, dsn: str
) -> None:
    """Of a table with row-level security, only the row that the call names has values."""
    await run_all(conn, DESK + HISTORY)
    await run_all(
        conn,
        "alter table support_tickets enable row level security;"
        "create policy own on support_tickets using (issue <> 'secret');"
        "alter function keep() security definer;"
        "create or replace function keep() returns trigger language plpgsql security definer as $$"
        " begin if new.id = 7 then update support_tickets set status = 'seen' where id = 8;"
        " end if; return null; end $$",
    )
    async with role(conn, "nologin") as app:
        script = [call("update_row", category="bug"), "done"]
        async with daemon(conn, dsn, script) as d:
            await run_all(
                conn,
                f"grant usage on schema public to {app};"
                f"grant select, update on support_tickets to {app};"
                "insert into support_tickets (id, issue) values (8, 'secret')",
            )
            await attach(conn, f"run_as={app}, writes=[category], on=[insert, update]")
            await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
            found = await recorded(d, 2)
        await run_all(conn, f"drop owned by {app}")
    named = [row for row in found if row[2] == "statement"]
    hidden = [row for row in found if row[2] == "trigger"]
    assert [(row[3], row[6]["category"]) for row in named] == [({"id": "7"}, "bug")]
    assert [(row[1], *row[3:]) for row in hidden] == [("update", None, None, None, None)]


async def test_changes_of_people_and_rolled_back_ones_are_not_recorded(
    conn: AsyncConnection, dsn: str
) -> None:
    """Only transactions with a verified marker, and of them what was committed."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        "create function fails() returns text language plpgsql as $$ begin"
        " begin update support_tickets set status = 'no'; raise exception 'x';"
        " exception when others then null; end;"
        " update support_tickets set status = 'yes' where id = 7; return 'ok'; end $$",
    )
    async with daemon(conn, dsn, [call("fails"), "done"]) as d:
        await attach(conn, "tools=[fails], on=[insert, update], when=\"new.status = 'open'\"")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        forged = "pg_logical_emit_message(true, 'walagent', '1 1 0 00')"
        await run_all(conn, f"begin; select {forged}; delete from support_tickets; commit")
        found = await recorded(d)
    assert [(row[1], row[6]["status"]) for row in found] == [("update", "yes")]


@pytest.mark.parametrize(
    ("point", "spec"),
    [
        ("intake.committed", ""),
        ("intake.confirmed", ""),
        ("intake.runs_inserted", ", debounce=0.1"),
        ("intake.checkpoint_advanced", ", debounce=0.1"),
    ],
)
async def test_a_change_is_recorded_once_though_the_reader_crashes(
    conn: AsyncConnection, dsn: str, point: str, spec: str
) -> None:
    """It commits with the checkpoint: before it nothing is there, after it it is skipped.

    With debounce, in several statements.
    """
    await run_all(conn, DESK)
    models = {"fake": ScriptedModel([call("refund_user"), "done"]), "other": ScriptedModel(["ok"])}
    await run_all(
        conn, "insert into agent.model (name, provider, model_id) values ('other', 'scripted', 'x')"
    )
    async with daemon(conn, dsn, models) as d:
        await attach(conn, "tools=[refund_user], bind=[ticket_id=id]")
        await run_all(conn, f"select agent.attach('refund', 'model=other{spec}')")
        with faults.armed(point, skip=0 if spec else 1):
            await run_all(conn, "insert into support_tickets (id, issue) values (8, 'x')")
            await d.dies("reader")
        await d.start_reader()
        await d.until("select count(*) >= 1 from agent.row_change")
        await d.caught_up()
    assert await column(conn, "select after ->> 'ticket_id' from agent.row_change") == ["8"]


async def test_more_rows_than_are_recorded_are_counted(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of millions of rows is not copied."""
    monkeypatch.setattr("walagent.matching.row_changes.MOST_ROWS", 3)
    await run_all(conn, DESK)
    await run_all(
        conn,
        "create function many() returns text language sql as $$"
        " insert into support_tickets (issue) select 'y' from generate_series(1, 10);"
        " select 'ok' $$",
    )
    async with daemon(conn, dsn, [call("many"), "done"]) as d:
        await attach(conn, "tools=[many], when=\"new.issue = 'x'\"")
        await run_all(conn, "insert into support_tickets (issue) values ('x')")
        await d.until("select sum(rows) = 10 from agent.row_change")
    assert await rows(conn, "select op, rows from agent.row_change order by ordinal") == [
        *[("insert", 1)] * 3,
        ("more", 7),
    ]


async def test_changes_go_with_their_run(conn: AsyncConnection, dsn: str) -> None:
    """Retention removes both."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, [call("update_row", category="bug"), "done"]) as d:
        await attach(conn, "writes=[category]")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await recorded(d)
        await d.ended()
    await run_all(conn, "select agent.prune('0 s')")
    assert await value(conn, "select count(*) from agent.row_change") == 0


async def test_doctor_names_what_is_not_recorded(conn: AsyncConnection) -> None:
    """Tables that a role can write and that are not published with their updates."""
    await run_all(conn, DESK)
    async with role(conn, "nologin") as app:
        await run_all(
            conn,
            f"grant select, update on support_tickets to {app}; grant insert on refund to {app};"
            f"grant usage on schema public to {app}",
        )
        await attach(conn, f"run_as={app}, writes=[status], on=[insert, update]")
        tables = await attached_tables(conn)
        (found,) = await check_changes(conn, tables)
        assert f'role "{app}" can write public.refund, whose updates are not' in found.text
        await run_all(conn, f"revoke insert on refund from {app}")
        (found,) = await check_changes(conn, tables)
        assert found.text.startswith("what agents can write is published")
