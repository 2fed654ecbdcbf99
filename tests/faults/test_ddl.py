"""Tables, functions, roles and types change beneath running agents.

Who keeps its ground goes on; who has lost it is paused with the reason, loses no change, and goes
on after the mend.  What must have been seen is written down by the test itself, with the change.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.faults.rig import storm
from tests.faults.rig.stage import Figure
from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import column, message_of, refused, role, rows, run_all, session, value
from tests.integration.cli.user import User
from walagent.base import faults
from walagent.models.script import Answer, call

pytestmark = pytest.mark.scenario(10)

# `ticket` is what changes; `quiet` is a table beside it, whose agent must notice nothing.
SCENE = """
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
create type mood as enum ('good', 'bad');
create table ticket (
    id       bigint primary key,
    title    text,
    status   text not null default 'open',
    customer bigint,
    amount   integer,
    mood     mood
);
create table quiet (id bigint primary key generated always as identity);
create table noted (ticket bigint, words text);
create function note(ticket bigint, words text default 'seen')
    returns void
    language sql
as $$ insert into public.noted values (ticket, words) $$;
"""
PLUGINS = ["pgoutput", pytest.param("wal2json", marks=pytest.mark.wal2json)]
ALL_ENDED = """
select bool_and(agent_internal.is_final(r.state))
  from agent.run r join agent.attachment a on a.id = attachment_id
 where a.name <> 'sentinel'
"""
PAUSED = "select paused from agent.attachment where name = %s"
REASON = "select paused_reason from agent.attachment where name = %s"
KEYS = """
select key::int from agent.run_overview where attachment = %s and state = %s order by key::int
"""
UNHAPPY = """
select attachment, key, state::text, error from agent.run_overview
 where state in ('failed', 'dead', 'cancelled', 'needs_review') order by id
"""


async def attach(conn: AsyncConnection, name: str, spec: str = "", table: str = "ticket") -> None:
    """Attach the scripted model under a name."""
    text = f"model=fake, name={name}" + (f", {spec}" if spec else "")
    await conn.execute("select agent.attach(%s, %s)", [table, text])


async def insert(conn: AsyncConnection, *ids: int, **more: str) -> None:
    """Insert tickets, and a row into the quiet table with each."""
    names = "".join(f", {name}" for name in more)
    values = "".join(f", {given}" for given in more.values())
    for n in ids:
        await run_all(
            conn,
            f"begin; insert into ticket (id{names}) values ({n}{values});"
            " insert into quiet default values; commit",
        )


async def succeeded(d: Daemon, name: str, ids: Iterable[int]) -> None:
    """Wait until exactly these rows' runs have succeeded, each once."""
    wanted = sorted(ids)
    await d.until(
        "select count(*) >= %s from agent.run_overview where attachment = %s"
        " and state = 'succeeded'",
        len(wanted),
        name,
    )
    assert await column(d.conn, KEYS, name, "succeeded") == wanted


async def nothing_went_wrong(conn: AsyncConnection) -> None:
    """No run has failed, and every promise holds."""
    assert await rows(conn, UNHAPPY) == []
    assert await rows(conn, "select * from agent.broken_invariant") == []


# Whoever keeps its ground goes on.


@pytest.mark.slow
async def test_a_table_keeps_its_agents_under_another_name(conn: AsyncConnection, dsn: str) -> None:
    """Renamed, moved to another schema, both while runs wait; their tools find it all the same."""
    await run_all(conn, SCENE + "create schema desk")
    answers = [call("update_row", status="done"), "ok"]
    async with daemon(conn, dsn, answers) as d:
        await attach(conn, "desk", 'writes=[status], when="new.amount > 5"')
        await insert(conn, 1, amount="6")
        await succeeded(d, "desk", [1])
        await conn.execute("select agent.pause('desk')")
        await insert(conn, 2, amount="7")
        await d.caught_up()
        await run_all(conn, 'alter table ticket rename to "Case %1$s"')
        await run_all(conn, 'insert into "Case %1$s" (id, amount) values (3, 8), (4, 0)')
        await d.stop("reader")
        await run_all(conn, 'alter table "Case %1$s" set schema desk')
        await run_all(conn, 'insert into desk."Case %1$s" (id, amount) values (5, 9)')
        await d.start_reader()
        await conn.execute("select agent.resume('desk')")
        await succeeded(d, "desk", [1, 2, 3, 5])
        await d.caught_up()
    marked = "select id from desk.\"Case %1$s\" where status = 'done' order by 1"
    assert await column(conn, marked) == [1, 2, 3, 5]
    await nothing_went_wrong(conn)


@pytest.mark.slow
async def test_changes_are_judged_by_the_table_as_it_was(conn: AsyncConnection, dsn: str) -> None:
    """Those that the reader comes to only after the column was retyped, renamed or dropped."""
    await run_all(conn, SCENE)
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "title", "when=\"new.title = 'x'\"")
        await attach(conn, "amount", 'when="new.amount > 5", columns=[status]')
        await attach(conn, "mood", "when=\"new.mood = 'good'\"")
        await d.caught_up()
        await d.stop("reader")
        await insert(conn, 1, 2, title="'x'", amount="6", mood="'good'")
        await insert(conn, 3, title="'y'", amount="5", mood="'bad'")
        await run_all(
            conn,
            "alter table ticket drop title; alter table ticket rename amount to price;"
            "alter table ticket alter mood type int using 1; alter table ticket add title int",
        )
        await d.start_reader()
        await succeeded(d, "title", [1, 2])
        await succeeded(d, "mood", [1, 2])
        await d.caught_up()
        # The reader looked at the ground as it began, and this one has none now; but it was
        # evaluated.
        assert await column(conn, KEYS, "amount", "pending") == [1, 2]
        assert 'column "amount"' in await value(conn, REASON, "amount")
    assert await value(conn, "select count(*) from agent_internal.deferred_change") == 0
    assert await column(conn, "select name from agent.attachment where paused order by 1") == [
        "amount",
        "sentinel",
    ]
    await nothing_went_wrong(conn)


@pytest.mark.slow
async def test_a_harmless_change_stops_nobody(conn: AsyncConnection, dsn: str) -> None:
    """Columns that nobody needs come, go and change; types widen; labels and indexes are added."""
    await run_all(conn, SCENE)
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "desk", "when=\"new.amount > 5 and new.mood = 'good'\", writes=[mood]")
        wanted: list[int] = []
        for n, statement in enumerate((
            "alter table ticket add extra numeric default 5",
            "alter table ticket alter amount type bigint",
            "alter table ticket rename extra to more",
            "alter type mood add value 'indifferent'",
            "alter table ticket drop more",
            "alter table ticket replica identity full",
            "create index on ticket (amount)",
            "alter table ticket alter status type varchar(40)",
            "alter table ticket add check (amount > -100)",
        )):  # fmt: skip
            await run_all(conn, statement)
            await insert(conn, 2 * n, amount="6", mood="'good'")
            await insert(conn, 2 * n + 1, amount="5", mood="'good'")
            wanted.append(2 * n)
        await succeeded(d, "desk", wanted)
        await d.caught_up()
    assert not await value(conn, PAUSED, "desk")
    await nothing_went_wrong(conn)


# Whoever loses its ground is paused, and nobody else.


@dataclass(frozen=True)
class Loss:
    """What an attachment rests on, how that is taken away, and how it is mended.

    `writes` is what the insert of a row adds; `mend` is what a person does before resuming, and
    where it is empty, resuming alone takes the table as it is.
    """

    spec: str
    ddl: str
    reason: str
    mend: str = ""
    more: str = ""
    in_wal: bool = True  # whether the WAL shows it; else the reader looks now and then
    refusal: str = ""  # what resuming says before the mend


LOSSES = {
    "the condition's column dropped": Loss(
        "when=\"new.status = 'open'\"",
        "alter table ticket drop status",
        'column "status"',
        "update agent.attachment set condition = 'new.id > 0' where name = 'desk'",
        refusal="status",
    ),
    "the condition's column renamed": Loss(
        "when=\"new.status = 'open'\"",
        "alter table ticket rename status to state",
        'column "status"',
        "update agent.attachment set condition = 'new.state = ''open''' where name = 'desk'",
        refusal="status",
    ),
    "the condition's column retyped": Loss(
        'when="coalesce(new.amount, 6) > 5"',
        "alter table ticket alter amount type text",
        "(SQLSTATE 42",
        "update agent.attachment set condition = 'coalesce(new.amount::int, 6) > 5'"
        " where name = 'desk'",
        refusal="COALESCE",
    ),
    "the condition's enum value renamed": Loss(
        "when=\"coalesce(new.mood, 'good') = 'good'\"",
        "alter type mood rename value 'good' to 'fine'",
        "(SQLSTATE 22P02)",
        "update agent.attachment set condition = 'coalesce(new.mood, ''fine'') = ''fine'''"
        " where name = 'desk'",
        refusal="good",
    ),
    "a shown column dropped": Loss(
        "columns=[title, status]",
        "alter table ticket drop title",
        'column "title"',
        "update agent.attachment set columns = '{status}' where name = 'desk'",
        refusal="columns: column",
    ),
    "a written column renamed": Loss(
        "writes=[status]",
        "alter table ticket rename status to state",
        'column "status"',
        "update agent.attachment set writes = '{state}' where name = 'desk'",
        refusal="writes: column",
    ),
    "a written enum's value renamed": Loss(
        "writes=[mood]",
        "alter type mood rename value 'good' to 'fine'",
        '"good" is no longer a value of public.ticket.mood',
        in_wal=False,
    ),
    "a bound column renamed": Loss(
        'tools=[note], bind=["ticket=customer"], columns=[status]',
        "alter table ticket rename customer to client",
        'column "customer"',
        "update agent.attachment set bind = '{\"ticket\": \"client\"}' where name = 'desk'",
        refusal="customer",
    ),
    "an ordering_key's column dropped": Loss(
        "ordering_key=[customer]",
        "alter table ticket drop customer",
        'column "customer"',
        "update agent.attachment set ordering_key = '{id}' where name = 'desk'",
        refusal="ordering_key: column",
    ),
    "the primary key replaced": Loss(
        "",
        "alter table ticket add uid uuid not null default gen_random_uuid();"
        "alter table ticket drop constraint ticket_pkey;"
        "alter table ticket add primary key (id, uid)",
        "the primary key of public.ticket is now (id, uid); it was (id)",
    ),
    "the primary key renamed": Loss(
        "",
        "alter table ticket rename id to number",
        'column "id"',
        more="number",
    ),
    "the old row no longer in the WAL": Loss(
        "on=[insert, update], when=\"old.status is null or old.status = 'open'\"",
        "alter table ticket replica identity default",
        "the replica identity of public.ticket does not",
        "alter table ticket replica identity full",
    ),
    "replica identity nothing": Loss(
        "on=[insert, delete]",
        "alter table ticket replica identity nothing",
        "has no replica identity",
        "alter table ticket replica identity full",
        refusal="no replica identity",
    ),
    "the tool's function dropped": Loss(
        "tools=[note]",
        "drop function note",
        "function public.note(bigint,text) does not exist",
        "create function note(ticket bigint, words text default 'new') returns void language sql"
        " as 'insert into public.noted values (ticket, words)'",
        refusal='tool "note" does not exist',
        in_wal=False,
    ),
    "the tool's signature changed": Loss(
        "tools=[note]",
        "drop function note; create function note(ticket bigint) returns void language sql"
        " as 'insert into public.noted values (ticket, null)'",
        "function public.note(bigint,text) does not exist",
        in_wal=False,
    ),
    "a child that inherits": Loss(
        "",
        "create table urgent () inherits (ticket); insert into urgent (id) values (-3)",
        "rows of public.ticket can be in public.urgent",
        refusal="which inherits from it",
        mend="drop table urgent",
    ),
    "the tool's arguments renamed": Loss(
        "tools=[note]",
        "drop function note; create function note(t bigint, words text default '') returns void"
        " language sql as 'insert into public.noted values (t, words)'",
        "arguments of function public.note(bigint,text) were renamed",
        in_wal=False,
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("what", LOSSES)
async def test_an_attachment_that_loses_its_ground_is_paused_and_loses_no_change(
    conn: AsyncConnection, dsn: str, what: str
) -> None:
    """With the reason; the agents beside it go on, and after the mend it does, where it was."""
    loss = LOSSES[what]
    await run_all(conn, SCENE + "alter table ticket replica identity full")
    key = loss.more or "id"
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "beside", "ordering_key=[]", "quiet")
        await attach(conn, "desk", loss.spec)
        await insert(conn, 1)
        await succeeded(d, "desk", [1])
        await run_all(conn, f"begin; insert into ticket (id) values (2); {loss.ddl};"
                            f" insert into ticket ({key}) values (3); commit")  # fmt: skip
        await run_all(conn, f"insert into ticket ({key}) values (4)")
        if not loss.in_wal:
            await d.caught_up()
            await d.stop("reader")
            await d.start_reader()
        await d.until(PAUSED, "desk")
        assert loss.reason in await value(conn, REASON, "desk")
        await run_all(conn, "insert into quiet default values")
        await d.caught_up()
        await d.stop("reader")
        await d.start_reader()
        if loss.refusal:
            error = await refused(conn, "select agent.resume('desk')")
            assert loss.refusal in message_of(error)
        waiting = await column(conn, "select key from agent.run_overview where attachment = 'desk'"
                                     " and state = 'pending' order by id")  # fmt: skip
        assert len(waiting) <= 3
        if loss.mend:
            await run_all(conn, loss.mend)
        await conn.execute("select agent.resume('desk')")
        await run_all(conn, f"insert into ticket ({key}) values (5)")
        wanted = [1, 2, 3, 4, 5]
        await d.until(
            "select count(*) >= %s from agent.run_overview where attachment = 'desk'"
            " and state = 'succeeded'",
            len(wanted),
        )
        await d.caught_up()
    first = r"split_part(replace(key, '\N', '0'), ',', 1)::int"
    found = await column(
        conn, f"select {first} from agent.run_overview where attachment = 'desk' order by 1"
    )
    assert found == wanted
    assert await value(
        conn, "select count(*) = 2 from agent.run_overview where attachment = 'beside'"
    )
    assert await value(conn, "select count(*) from agent_internal.deferred_change") == 0
    assert not await value(conn, PAUSED, "desk")
    await nothing_went_wrong(conn)


@pytest.mark.slow
async def test_a_role_that_is_gone_stops_its_agent_alone(conn: AsyncConnection, dsn: str) -> None:
    """Renamed while changes come; conditions are evaluated as it, and tools run as it."""
    await run_all(conn, SCENE)
    async with role(conn) as desk, role(conn) as other, daemon(conn, dsn, ["ok"]) as d:
        for name in (desk, other):
            await run_all(conn, f"grant select on ticket to {name}")
        await attach(conn, "evaluated", f'run_as={desk}, when="new.id > 0"')
        await attach(conn, "plain", f"run_as={desk}")
        await attach(conn, "beside")
        await insert(conn, 1)
        for name in ("evaluated", "plain", "beside"):
            await succeeded(d, name, [1])
        await run_all(conn, f"alter role {desk} rename to {desk}_2")
        try:
            await insert(conn, 2)
            await d.until(PAUSED, "evaluated")
            await d.caught_up()
            await d.stop("reader")
            await d.start_reader()
            for name in ("evaluated", "plain"):
                await d.until(PAUSED, name)
                assert f'role "{desk}"' in await value(conn, REASON, name)
            await succeeded(d, "beside", [1, 2])
            await run_all(
                conn, f"update agent.attachment set run_as = '{other}' where run_as = '{desk}'"
            )
            await run_all(conn, "select agent.resume('evaluated'), agent.resume('plain')")
            for name in ("evaluated", "plain"):
                await succeeded(d, name, [1, 2])
        finally:
            await run_all(conn, f"alter role {desk}_2 rename to {desk}")
    await nothing_went_wrong(conn)


# In the middle of a run.


async def test_a_tool_that_goes_while_its_model_thinks_costs_no_answer(
    conn: AsyncConnection, dsn: str
) -> None:
    """It was not the model's mistake: the run waits, and makes the call after the mend."""
    await run_all(conn, SCENE)
    asked: list[int] = []

    def think(_: object) -> Answer:
        asked.append(1)
        with_sync(dsn, "drop function note")
        return call("note", ticket=1)

    async with daemon(conn, dsn, [think, "ok"]) as d:
        await attach(conn, "desk", "tools=[note]")
        await insert(conn, 1)
        await d.until(PAUSED, "desk")
        assert "public.note(bigint,text) does not exist" in await value(conn, REASON, "desk")
        await d.until("select state = 'pending' from agent.run")
        assert await column(conn, "select kind from agent.step") == ["reply"]
        await run_all(
            conn,
            "create function note(ticket bigint, words text default 'new') returns void"
            " language sql as 'insert into public.noted values (ticket, words)'",
        )
        await conn.execute("select agent.resume('desk')")
        await succeeded(d, "desk", [1])
    assert await rows(conn, "select * from noted") == [(1, "new")]
    assert len(asked) == 1
    await nothing_went_wrong(conn)


async def test_a_row_is_never_written_by_half_of_its_key(conn: AsyncConnection, dsn: str) -> None:
    """The key grows by a column between the reply and the update: other rows have the same half."""
    await run_all(conn, SCENE)

    asked: list[int] = []

    def think(_: object) -> Answer:
        if not asked:
            with_sync(
                dsn,
                "alter table ticket drop constraint ticket_pkey;"
                "update ticket set customer = 1; alter table ticket add primary key (id, customer);"
                "insert into ticket (id, customer) values (1, 2)",
            )
        asked.append(1)
        return call("update_row", status="done")

    async with daemon(conn, dsn, [think, "I give up."]) as d:
        await attach(conn, "desk", "writes=[status]")
        await insert(conn, 1)
        await d.until(PAUSED, "desk")
        assert "is now (id, customer); it was (id)" in await value(conn, REASON, "desk")
        assert await value(conn, "select count(*) from ticket where status = 'done'") == 0
        await conn.execute("select agent.resume('desk')")
        # It began with the old key, and its row cannot be told: the model hears that.
        await d.until("select count(*) = 2 from agent.run where state = 'succeeded'")
        answers = await column(
            conn,
            "select content ->> 'content' from agent.step where kind = 'result' order by run_id",
        )
        assert "primary key of public.ticket is now (id, customer)" in answers[0]
        assert answers[1] == "updated"
        assert await rows(conn, "select id, customer, status from ticket order by 2") == [
            (1, 1, "open"),
            (1, 2, "done"),
        ]
    await nothing_went_wrong(conn)


def with_sync(dsn: str, statements: str) -> None:
    """Let somebody else do something, at once."""
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(statements.encode())


# Another table of the same name.


@pytest.mark.slow
async def test_a_new_partition_without_the_old_row_is_named(
    conn: AsyncConnection, dsn: str
) -> None:
    """The replica identity of the root is not inherited: the condition would see NULL in old."""
    await run_all(
        conn,
        f"{SCENE}{PARTS} alter table sale add amount int; alter table sale replica identity full;"
        "alter table sale_n replica identity full",
    )
    condition = "when=old.amount < new.amount, on=update"
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(
            conn, "lame", condition, "sale"
        )  # with a warning: of sale_s, old has no amount
        missing = "select definition -> 'missing_old' from agent.attachment where name = %s"
        assert await value(conn, missing, "lame") == ["amount"]
        await run_all(conn, "alter table sale_s replica identity full")
        await attach(conn, "sales", condition, "sale")
        await run_all(conn, "create table sale_w partition of sale for values in ('w')")
        await d.until(PAUSED, "sales")
        reason = await value(conn, REASON, "sales")
        assert 'identity of public.sale_w does not include column "amount"' in reason
        await run_all(conn, "alter table sale_w replica identity full")
        await value(conn, "select agent.resume('sales')")
        await run_all(
            conn, "insert into sale values (1, 'w', 1); update sale set amount = 2 where id = 1"
        )
        await d.until(
            "select exists (select from agent.run_overview"
            " where attachment = 'sales' and key = '1,w' and state = 'succeeded')"
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("plugin", PLUGINS)
async def test_a_new_table_of_the_old_name_is_not_adopted(
    conn: AsyncConnection, dsn: str, plugin: str
) -> None:
    """Said with what to do; a person attaches it, and what waited for the old one is not its."""
    await run_all(conn, SCENE)
    async with daemon(conn, dsn, [call("update_row", status="done"), "ok"], plugin=plugin) as d:
        await attach(conn, "desk", "writes=[status]")
        await attach(conn, "beside", "ordering_key=[]", "quiet")
        await insert(conn, 1)
        await succeeded(d, "desk", [1])
        await conn.execute("select agent.pause('desk')")
        await insert(conn, 2)
        await d.caught_up()
        await conn.execute("select agent.resume('desk')")
        await succeeded(d, "desk", [1, 2])
        await run_all(
            conn,
            "drop table ticket; create table ticket (id bigint primary key, status text);"
            "alter publication walagent_inserts add table ticket;"
            "insert into ticket values (1, 'new'); insert into quiet default values",
        )
        await d.caught_up()
        await d.until(PAUSED, "desk")
        reason = await value(conn, REASON, "desk")
        assert "ticket" in reason
        assert "a new one" in reason or "replaced" in reason  # whoever notices first
        error = await refused(conn, "select agent.resume('desk')", state="WA013")
        assert "update agent.attachment set relation = 'public.ticket'" in message_of(error)
        assert await column(conn, "select status from ticket") == ["new"]
        await run_all(
            conn, "update agent.attachment set relation = 'public.ticket' where name = 'desk'"
        )
        await conn.execute("select agent.resume('desk')")
        await run_all(conn, "insert into ticket values (2, 'new')")
        await d.until("select status = 'done' from ticket where id = 2")
        await d.caught_up()
    assert await column(conn, "select status from ticket order by id") == ["new", "done"]
    assert (
        await value(conn, "select count(*) from agent.run_overview where attachment = 'beside'")
        == 3
    )
    await nothing_went_wrong(conn)


@pytest.mark.slow
async def test_a_file_adopts_no_new_table_either(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """It names the table, and is applied at every start; a person resumes what has moved."""
    await run_all(conn, SCENE)
    (tmp_path / "agents.yaml").write_text(
        "agents: {desk: {model: fake, attach: [{table: ticket, writes: [status]}]}}"
    )
    user = User(tmp_path, dsn)
    user.types("apply").worked()
    again = "drop table ticket; create table ticket (id int primary key, status text)"
    await run_all(conn, again)
    user.types("apply").worked()
    assert await value(
        conn, "select paused and relation = 'ticket'::regclass from agent.attachment"
    )
    assert "was dropped; the table with its name is a new one" in await value(conn, REASON, "desk")
    user.types("agents", "resume", "desk").worked()
    user.types("apply").worked()
    assert not await value(conn, PAUSED, "desk")


async def test_what_waited_for_a_dropped_table_does_not_reach_the_next(
    conn: AsyncConnection, dsn: str
) -> None:
    """A row of the new table has the old one's key: the waiting run ends, and writes nothing."""
    await run_all(conn, SCENE)
    async with daemon(conn, dsn, [call("update_row", status="done"), "ok"]) as d:
        await attach(conn, "desk", "writes=[status]")
        await conn.execute("select agent.pause('desk')")
        await insert(conn, 1)
        await d.caught_up()
        await run_all(
            conn,
            "drop table ticket; create table ticket (id bigint primary key, status text);"
            "insert into ticket values (1, 'new');"
            "update agent.attachment set relation = 'ticket' where name = 'desk'",
        )
        await conn.execute("select agent.resume('desk')")
        await d.until(ALL_ENDED)
    assert await rows(conn, "select status from ticket") == [("new",)]
    (run,) = await rows(
        conn, "select state::text, error from agent.run_overview where relation like '%%ticket'"
    )
    assert run == ("skipped", 'role "postgres" cannot see the row, or it is gone')


# Partitions and TRUNCATE.


PARTS = """
create table sale (id bigint, region text, primary key (id, region)) partition by list (region);
create table sale_n partition of sale for values in ('n');
create table sale_s partition of sale for values in ('s');
"""


async def test_partitions_come_and_go(conn: AsyncConnection, dsn: str) -> None:
    """Their changes are the root's for as long as they belong to it."""
    await run_all(conn, SCENE + PARTS)
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "sales", "on=[insert, update, delete]", "sale")
        await run_all(
            conn,
            "insert into sale values (1, 'n'); insert into sale_s values (2, 's');"
            "create table sale_w (id bigint, region text, primary key (id, region));"
            "insert into sale_w values (3, 'w');"  # before it belongs: nobody's business
            "alter table sale attach partition sale_w for values in ('w');"
            "begin; insert into sale values (4, 'w'); update sale set region = 'n' where id = 2;"
            "alter table sale detach partition sale_s; insert into sale_s values (5, 's'); commit",
        )
        await d.stop("reader")
        await run_all(
            conn,
            "insert into sale_w values (6, 'w'); alter table sale detach partition sale_w;"
            "insert into sale_w values (7, 'w'); drop table sale_s;"
            "create table sale_s partition of sale for values in ('s');"
            "insert into sale values (8, 's')",
        )
        await d.start_reader()
        await d.caught_up()
        found = await rows(
            conn,
            "select op, relation, key from agent.run_overview"
            " where attachment = 'sales' order by id",
        )
    assert found == [
        ("insert", "public.sale", "1,n"),
        ("insert", "public.sale", "2,s"),
        ("insert", "public.sale", "4,w"),
        ("delete", "public.sale", "2,s"),  # an update that moves a row to another partition
        ("insert", "public.sale", "2,n"),
        ("insert", "public.sale", "6,w"),
        ("insert", "public.sale", "8,s"),
    ]
    assert not await value(conn, PAUSED, "sales")
    await nothing_went_wrong(conn)


async def test_a_table_that_becomes_a_partition_of_an_attached_one_is_reported(
    conn: AsyncConnection, dsn: str
) -> None:
    """From then on its changes are its parent's, and its own agent would wait for ever."""
    await run_all(conn, SCENE + PARTS)
    async with daemon(conn, dsn, ["ok"]) as d:
        await run_all(
            conn, "create table sale_w (id bigint, region text, primary key (id, region))"
        )
        await attach(conn, "sales", "", "sale")
        await attach(conn, "west", "", "sale_w")
        await run_all(conn, "insert into sale_w values (1, 'w')")
        await run_all(conn, "alter table sale attach partition sale_w for values in ('w')")
        await run_all(conn, "insert into sale_w values (2, 'w')")
        await d.until(PAUSED, "west")
        assert "is now a partition of public.sale" in await value(conn, REASON, "west")
        await d.caught_up()
        found = await rows(conn, "select attachment, key from agent.run_overview"
                                 " where attachment <> 'sentinel' order by id")  # fmt: skip
    assert found == [("west", "1,w"), ("sales", "2,w")]


@pytest.mark.few(1)
@pytest.mark.parametrize("plugin", PLUGINS)
async def test_a_truncate_is_reported_where_it_is_asked_for(
    conn: AsyncConnection, dsn: str, plugin: str
) -> None:
    """Of several tables, by CASCADE too; to nobody who did not ask, and only if it commits."""
    await run_all(
        conn,
        SCENE + "create table part (id int primary key, ticket bigint references ticket);"
        "create table alone (id int primary key);",
    )
    async with daemon(conn, dsn, ["ok"], plugin=plugin) as d:
        for table in ("ticket", "part", "alone"):
            await attach(conn, table, "on=[truncate]", table)
        await attach(conn, "inserts")
        await attach(conn, "both", 'on=[insert, truncate], when="new.id is null or new.id > 1"')
        await insert(conn, 1, 2)
        await run_all(
            conn,
            "begin; truncate ticket cascade; rollback; truncate ticket restart identity cascade;"
            "truncate alone, part;"
            "begin; insert into ticket (id) values (3); truncate ticket, part;"
            "insert into ticket (id) values (4); commit",
        )
        await d.caught_up()
        await d.until(ALL_ENDED)
    found = await rows(
        conn,
        "select attachment, array_agg(op || coalesce(nullif(key, E'\\\\N'), '') order by id)"
        "  from agent.run_overview where attachment <> 'sentinel' group by 1 order by 1",
    )
    assert found == [
        ("alone", ["truncate"]),
        ("both", ["insert2", "truncate", "insert3", "truncate", "insert4"]),
        ("inserts", ["insert1", "insert2", "insert3", "insert4"]),
        ("part", ["truncate"] * 3),
        ("ticket", ["truncate"] * 2),
    ]
    await nothing_went_wrong(conn)


async def test_a_truncate_of_partitions_is_the_roots(conn: AsyncConnection, dsn: str) -> None:
    """Of the root: once.  Of one partition alone: PostgreSQL tells it to nobody."""
    await run_all(conn, SCENE + PARTS)
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "sales", "on=[truncate]", "sale")
        await run_all(conn, "insert into sale values (1, 'n'); truncate sale_n; truncate sale")
        await d.caught_up()
        assert await rows(
            conn, "select op, relation from agent.run_overview where attachment = 'sales'"
        ) == [("truncate", "public.sale")]


# Crashes, and people in between.


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "point", ["intake.runs_inserted", "intake.checkpoint_advanced", "intake.committed"]
)
async def test_pausing_survives_a_crash_at_any_point(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """Changes that nobody can evaluate are ingested once, whole, and the attachment is paused."""
    await run_all(conn, SCENE)
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "desk", "when=\"new.status = 'open'\"")
        await insert(conn, 1)
        await succeeded(d, "desk", [1])
        with faults.armed(point):
            await run_all(conn, "alter table ticket rename status to state")
            await insert(conn, 2, 3)
            await d.dies("reader")
        await d.start_reader()
        await d.caught_up()
        assert await column(conn, KEYS, "desk", "pending") == [2, 3]
        assert await value(conn, "select count(*) from agent_internal.deferred_change") == 2
        await run_all(
            conn, "update agent.attachment set condition = 'new.id = 3' where name = 'desk'"
        )
        await conn.execute("select agent.resume('desk')")
        await succeeded(d, "desk", [1, 3])
        await d.until("select state = 'skipped' from agent.run where key = '2'"
                      " and change ->> 'table' = 'ticket'")  # fmt: skip
    await nothing_went_wrong(conn)


@pytest.mark.slow
async def test_a_person_in_the_middle_of_a_change_holds_nobody_up(
    conn: AsyncConnection, dsn: str
) -> None:
    """Their open transaction has the attachment: it is paused later, and the stream goes on."""
    await run_all(conn, SCENE)
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "desk", "when=\"new.status = 'open'\"")
        await attach(conn, "beside")
        await insert(conn, 1)
        await succeeded(d, "desk", [1])
        async with session(dsn) as person, person.transaction(force_rollback=True):
            await person.execute("select agent.pause('desk', 'let me think')")
            await run_all(conn, "alter table ticket rename status to state")
            await insert(conn, 2)
            await succeeded(d, "beside", [1, 2])
            await d.caught_up()
            assert not await value(conn, PAUSED, "desk")
            assert await rows(conn, UNHAPPY) == []
        await insert(conn, 3)
        await d.until(PAUSED, "desk")
        await run_all(conn, "alter table ticket rename state to status")
        await conn.execute("select agent.resume('desk')")
        await d.until("select count(*) = 2 from agent.run_overview where attachment = 'desk'"
                      " and state = 'dead'")  # fmt: skip


# All of it at random.


async def weather(
    conn: AsyncConnection, dsn: str, chance: random.Random, plugin: str, transactions: int
) -> tuple[int, int]:
    """Let a storm pass over two agents, with restarts of the reader; give changes and DDL."""
    await run_all(conn, storm.SCENE)
    application = storm.Storm(chance, renames=plugin == "pgoutput")
    async with daemon(conn, dsn, ["ok"], plugin=plugin) as d:
        await attach(conn, "every", "on=[insert, update, delete]", "thing")
        await attach(conn, "even", 'on=[insert, update], when="new.n % 2 = 0"', "thing")
        for _ in range(transactions):
            if chance.random() < 0.1:
                await d.stop("reader")
                await run_all(conn, application.transaction())
                await d.start_reader()
            await run_all(conn, application.transaction())
        await d.caught_up()
        await d.until(ALL_ENDED)
    wanted = await rows(conn, "select op, id::text from wrote order by seq")
    found = "select op, key from agent.run_overview where attachment = %s order by id"
    assert await rows(conn, found, "every") == wanted
    assert await rows(conn, found, "even") == await rows(
        conn, "select op, id::text from wrote where op <> 'delete' and n % 2 = 0 order by seq"
    )
    assert await column(conn, "select name from agent.attachment where paused") == ["sentinel"]
    await nothing_went_wrong(conn)
    return len(wanted), application.ddl


@pytest.mark.few(1)
@pytest.mark.parametrize("plugin", PLUGINS)
async def test_a_storm_of_ddl_takes_nothing_away(
    conn: AsyncConnection, dsn: str, chance: random.Random, plugin: str
) -> None:
    """Between the changes and in their transactions: every change is seen once, and in order."""
    await weather(conn, dsn, chance, plugin, 25)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS)
async def test_a_long_storm_of_ddl_takes_nothing_away(
    conn: AsyncConnection, dsn: str, chance: random.Random, plugin: str, figure: Figure
) -> None:
    """The same for longer."""
    changes, ddl = await weather(conn, dsn, chance, plugin, 400)
    figure("changes between DDL", changes)
    figure("DDL statements", ddl)


# What a person is told.


@pytest.mark.slow
async def test_a_person_who_asks_learns_why_an_agent_stands_still(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The list, the doctor, `why` for a row of the table, and `why` for one of its successor."""
    await run_all(conn, SCENE + "create table kept (id int primary key, a text)")
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "lost", "columns=[title]")
        await attach(conn, "gone", "", "kept")
        await insert(conn, 1)
        await succeeded(d, "lost", [1])
        await run_all(conn, "alter table ticket rename title to name")
        await insert(conn, 2)
        await d.until(PAUSED, "lost")
        await d.until("select exists (select from agent.run where key = '2')")  # a moment later
        await run_all(conn, "drop table kept; create table kept (id int primary key);"
                            "insert into kept values (1)")  # fmt: skip
        await d.stop("reader")
        await d.start_reader()
        await d.until(PAUSED, "gone")
    user = User(tmp_path, dsn)

    def said(*words: str) -> str:
        return user.types(*words).out

    column, table = 'column "title"', "table public.kept was dropped"
    agents = said("agents")
    assert column in agents
    assert table in agents
    assert "public.kept" in agents
    doctor = said("doctor")
    assert column in doctor
    assert table in doctor
    assert "update agent.attachment set relation" in doctor
    why = said("why", "ticket", "2")
    assert f"paused: {column} of public.ticket" in why
    assert "evaluation deferred" in why
    assert "paused: " in said("why", "ticket", "7")
    assert table in said("why", "kept", "1")


@pytest.mark.slow
async def test_a_domain_that_takes_no_null_does_not_get_in_the_way(
    conn: AsyncConnection, dsn: str
) -> None:
    """Half a row, as a delete brings it, is no row of the table; nor is what update_row sets."""
    await run_all(
        conn,
        SCENE + "create domain sure as text not null check (value <> '');"
        "create domain amount as numeric check (value >= 0);"
        "create table firm (id int primary key, name sure default 'x', a amount, b text);"
        "alter table firm enable row level security",
    )
    async with daemon(conn, dsn, [call("update_row", b="done"), "ok"]) as d:
        await attach(conn, "deleted", 'on=[delete], when="old.id > 1"', "firm")
        await attach(conn, "inserted", "when=\"new.a > 1 and new.name = 'x'\", writes=[b]", "firm")
        await run_all(conn, "insert into firm (id, a) values (1, 2), (2, 2), (3, 1)")
        await succeeded(d, "inserted", [1, 2])
        await run_all(conn, "alter domain amount drop constraint amount_check;"
                            "alter domain amount add check (value > 5) not valid;"
                            "delete from firm")  # fmt: skip
        await d.until("select count(*) = 2 from agent.run_overview where attachment = 'deleted'")
        await d.caught_up()
    deleted = "select key from agent.run_overview where attachment = 'deleted' order by key"
    assert await column(conn, deleted) == ["2", "3"]
    assert (
        await value(conn, "select count(*) from agent.step where content ->> 'content' = 'updated'")
        == 2
    )
