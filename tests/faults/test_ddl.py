"""Tables, functions, roles and types change beneath running agents.

Who keeps its ground goes on; who has lost it is paused with the reason, loses no change, and goes on
after the mend.  What must have been seen is written down by the test itself, in the transaction of
each change.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.stage import Figure
from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import column, refused, role, rows, run_all, session, told, until, value
from walagent import faults
from walagent.agent.models.scripted import Answer, call

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


async def test_a_table_keeps_its_agents_under_another_name(
    conn: AsyncConnection, dsn: str
) -> None:
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
        await run_all(conn, "alter table ticket rename to \"Case %1$s\"")
        await run_all(conn, 'insert into "Case %1$s" (id, amount) values (3, 8), (4, 0)')
        await d.stop("reader")
        await run_all(conn, 'alter table "Case %1$s" set schema desk')
        await run_all(conn, 'insert into desk."Case %1$s" (id, amount) values (5, 9)')
        await d.start_reader()
        await conn.execute("select agent.resume('desk')")
        await succeeded(d, "desk", [1, 2, 3, 5])
        await d.caught_up()
    marked = 'select id from desk."Case %1$s" where status = \'done\' order by 1'
    assert await column(conn, marked) == [1, 2, 3, 5]
    await nothing_went_wrong(conn)


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
        # The reader looked at the ground as it began, and this one has none now; but it was judged.
        assert await column(conn, KEYS, "amount", "pending") == [1, 2]
        assert 'no column "amount" any more' in await value(conn, REASON, "amount")
    assert await value(conn, "select count(*) from agent.unjudged") == 0
    assert await column(conn, "select name from agent.attachment where paused order by 1") == [
        "amount",
        "sentinel",
    ]
    await nothing_went_wrong(conn)


async def test_a_harmless_change_stops_nobody(conn: AsyncConnection, dsn: str) -> None:
    """Columns that nobody needs come, go and change; types widen; labels and indexes are added."""
    await run_all(conn, SCENE)
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "desk", 'when="new.amount > 5 and new.mood = \'good\'", writes=[mood]')
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
    judged: bool = True  # whether changes can be told apart while it is lost
    refusal: str = ""  # what resuming says before the mend


LOSSES = {
    "the condition's column dropped": Loss(
        "when=\"new.status = 'open'\"",
        "alter table ticket drop status",
        'no column "status" any more, which the condition reads',
        "update agent.attachment set condition = 'new.id > 0' where name = 'desk'",
        judged=False,
        refusal="status",
    ),
    "the condition's column renamed": Loss(
        "when=\"new.status = 'open'\"",
        "alter table ticket rename status to state",
        'no column "status" any more, which the condition reads',
        "update agent.attachment set condition = 'new.state = ''open''' where name = 'desk'",
        judged=False,
        refusal="status",
    ),
    "the condition's column retyped": Loss(
        'when="coalesce(new.amount, 6) > 5"',
        "alter table ticket alter amount type text",
        "(SQLSTATE 42",
        "update agent.attachment set condition = 'coalesce(new.amount::int, 6) > 5'"
        " where name = 'desk'",
        judged=False,
        refusal="COALESCE",
    ),
    "the condition's enum value renamed": Loss(
        "when=\"coalesce(new.mood, 'good') = 'good'\"",
        "alter type mood rename value 'good' to 'fine'",
        "(SQLSTATE 22P02)",
        "update agent.attachment set condition = 'coalesce(new.mood, ''fine'') = ''fine'''"
        " where name = 'desk'",
        judged=False,
        refusal="good",
    ),
    "a shown column dropped": Loss(
        "columns=[title, status]",
        "alter table ticket drop title",
        'no column "title" any more, which is named in columns',
        "update agent.attachment set columns = '{status}' where name = 'desk'",
        judged=False,
        refusal="columns names column",
    ),
    "a written column renamed": Loss(
        "writes=[status]",
        "alter table ticket rename status to state",
        'no column "status" any more, which is named in writes',
        "update agent.attachment set writes = '{state}' where name = 'desk'",
        judged=False,
        refusal="writes names column",
    ),
    "a written enum's value renamed": Loss(
        "writes=[mood]",
        "alter type mood rename value 'good' to 'fine'",
        '"good" is no value of public.ticket.mood any more',
    ),
    "a bound column renamed": Loss(
        'tools=[note], bind=["ticket=customer"], columns=[status]',
        "alter table ticket rename customer to client",
        'no column "customer" any more, which tool note is given as "ticket"',
        "update agent.attachment set bind = '{\"ticket\": \"client\"}' where name = 'desk'",
        judged=False,
        refusal="customer",
    ),
    "a lane's column dropped": Loss(
        "lane=[customer]",
        "alter table ticket drop customer",
        'no column "customer" any more, which the lane is made of',
        "update agent.attachment set lane_key = '{id}' where name = 'desk'",
        judged=False,
        refusal="lane_key names column",
    ),
    "the primary key replaced": Loss(
        "",
        "alter table ticket add uid uuid not null default gen_random_uuid();"
        "alter table ticket drop constraint ticket_pkey; alter table ticket add primary key (id, uid)",
        "the primary key of public.ticket is (id, uid) now, and was (id)",
    ),
    "the primary key renamed": Loss(
        "",
        "alter table ticket rename id to number",
        'no column "id" any more, which was in its primary key',
        more="number",
        judged=False,
    ),
    "the old row not carried any more": Loss(
        'on=[insert, update], when="old.status is null or old.status = \'open\'"',
        "alter table ticket replica identity default",
        'does not carry the old "status" any more',
        "alter table ticket replica identity full",
        judged=False,
    ),
    "no replica identity any more": Loss(
        "on=[insert, delete]",
        "alter table ticket replica identity nothing",
        "has no replica identity any more",
        "alter table ticket replica identity full",
        refusal="no replica identity",
    ),
    "the tool's function dropped": Loss(
        "tools=[note]",
        "drop function note",
        "the function public.note(bigint,text) is gone, which tool note calls",
        "create function note(ticket bigint, words text default 'new') returns void language sql"
        " as 'insert into public.noted values (ticket, words)'",
        refusal='there is no tool "note"',
    ),
    "the tool's signature changed": Loss(
        "tools=[note]",
        "drop function note; create function note(ticket bigint) returns void language sql"
        " as 'insert into public.noted values (ticket, null)'",
        "the function public.note(bigint,text) is gone",
    ),
    "the tool's arguments renamed": Loss(
        "tools=[note]",
        "drop function note; create function note(t bigint, words text default '') returns void"
        " language sql as 'insert into public.noted values (t, words)'",
        "the arguments of public.note(bigint,text) have other names now",
    ),
    "taken out of the publication": Loss(
        "",
        "alter publication walagent_inserts drop table ticket",
        "public.ticket is in no publication of walagent any more",
    ),
}


@pytest.mark.parametrize("what", LOSSES)
async def test_an_attachment_that_loses_its_ground_is_paused_and_loses_no_change(
    conn: AsyncConnection, dsn: str, what: str
) -> None:
    """With the reason; the agents beside it go on, and after the mend it does, from where it was."""
    loss = LOSSES[what]
    await run_all(conn, SCENE + "alter table ticket replica identity full")
    key = loss.more or "id"
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "beside", "lane=[]", "quiet")
        await attach(conn, "desk", loss.spec)
        await insert(conn, 1)
        await succeeded(d, "desk", [1])
        await run_all(conn, f"begin; insert into ticket (id) values (2); {loss.ddl};"
                            f" insert into ticket ({key}) values (3); commit")  # fmt: skip
        await run_all(conn, f"insert into ticket ({key}) values (4)")
        await d.until(PAUSED, "desk")
        assert loss.reason in await value(conn, REASON, "desk")
        await run_all(conn, "insert into quiet default values")
        await d.caught_up()
        await d.stop("reader")
        await d.start_reader()
        if loss.refusal:
            error = await refused(conn, "select agent.resume('desk')")
            assert loss.refusal in told(error)
        waiting = await column(conn, "select key from agent.run_overview where attachment = 'desk'"
                                     " and state = 'pending' order by id")  # fmt: skip
        assert len(waiting) <= 3
        if loss.mend:
            await run_all(conn, loss.mend)
        await conn.execute("select agent.resume('desk')")
        await run_all(conn, f"insert into ticket ({key}) values (5)")
        # What is not published is nowhere in the WAL for us; that much the reason says.
        wanted = [1, 2, 5] if "publication" in what else [1, 2, 3, 4, 5]
        await d.until(
            "select count(*) >= %s from agent.run_overview where attachment = 'desk'"
            " and state = 'succeeded'",
            len(wanted),
        )
        await d.caught_up()
    first = "split_part(replace(key, '∅', '0'), ',', 1)::int"
    found = await column(
        conn, f"select {first} from agent.run_overview where attachment = 'desk' order by 1"
    )
    assert found == wanted
    assert await value(
        conn, "select count(*) = 2 from agent.run_overview where attachment = 'beside'"
    )
    assert await value(conn, "select count(*) from agent.unjudged") == 0
    assert not await value(conn, PAUSED, "desk")
    await nothing_went_wrong(conn)
