"""Whatever runs, triggers, cascades and others do: a revert restores, or refuses and does nothing.

Random runs of up to three steps beside up to three writers.  A journal, which a trigger keeps, says
who changed which row in which order:

- without writers, all tables are as before the run, or as after it if something is refused;
- beside writers, the revert overwrites only what its run wrote last, by what was there before, and
  writes no row that its run did not write, but for what triggers keep;
- a total that a trigger keeps is right after each round.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, rows, run_all, session, value
from tests.integration.changes.test_revert import revert
from walagent.models.script import call

WORLD = """
create table job (id bigint primary key);
create table acts (step int, n int, statement text);
create table customer (id bigint primary key, name text, tickets int not null default 0);
create table ticket (
    id bigint primary key, customer bigint references customer on delete cascade,
    slug text unique, category text, price numeric, body json, updated_at timestamptz,
    shout text generated always as (upper(category)) stored);
create table note (
    id bigint primary key, ticket bigint references ticket on delete cascade,
    parent bigint references note on delete set null deferrable, text text);
create table history (
    id bigint primary key generated always as identity, ticket bigint, was text, became text);
create table event (id bigint, at int, what text, primary key (id, at)) partition by range (at);
create table event_1 partition of event for values from (0) to (10);
create table event_2 (what text, extra int, at int not null, id bigint not null);
alter table event_2 drop extra;
alter table event attach partition event_2 for values from (10) to (20);
create index on ticket (customer); create index on note (ticket);
create function touch() returns trigger language plpgsql as $$
begin new.updated_at := clock_timestamp(); return new; end $$;
create trigger touch before update on ticket for each row execute function touch();
create function keep() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' then
        update customer set tickets = tickets - 1 where id = old.customer;
    end if;
    if tg_op <> 'DELETE' then
        update customer set tickets = tickets + 1 where id = new.customer;
    end if;
    if tg_op = 'UPDATE' and old.category is distinct from new.category then
        insert into history (ticket, was, became) values (new.id, old.category, new.category);
    end if;
    return null;
end $$;
create trigger keep after insert or delete or update on ticket
    for each row execute function keep();
create table journal (
    n bigint generated always as identity,
    xid bigint, tab text, key text, before jsonb, after jsonb);
create function note_it() returns trigger language plpgsql as $$
declare
    _tab text := split_part(tg_table_name, '_', 1);
begin
    insert into journal (xid, tab, key, before, after) values (
        (pg_current_xact_id()::text::numeric % 4294967296)::bigint, _tab,
        case _tab when 'event'
            then concat(coalesce(new.id, old.id), ' ',
                        coalesce(to_jsonb(new), to_jsonb(old)) ->> 'at')
            else coalesce(new.id, old.id)::text end,
        to_jsonb(old), to_jsonb(new));
    return null;
end $$;
create function act(step int) returns text language plpgsql as $$
declare
    _statement text;
begin
    for _statement in select a.statement from acts a where a.step = act.step order by a.n loop
        begin
            execute _statement;
        exception when integrity_constraint_violation then
            null;
        end;
    end loop;
    return 'ok';
end $$;
"""
TABLES = ("customer", "ticket", "note", "history", "event")
DERIVED = {"customer", "history"}  # triggers write them, too
BY_ITSELF = {"updated_at", "shout"}  # set at each update
STATE = (
    "select coalesce(jsonb_object_agg(t.{key}, to_jsonb(t) - '{{updated_at}}'::text[]), '{{}}')"
    " from {} t"
)
WRITTEN = """
select j.tab, j.key, j.before, j.after
  from journal j
 where j.xid in (select c.xid from agent.row_change c where c.run_id = %s)
 order by j.n
"""


def some_act(at: random.Random, own: Iterator[int]) -> str:
    """Choose a statement; *own*: keys of new rows."""
    ticket, customer, other = at.randrange(40), at.randrange(8), at.randrange(40)
    word = at.choice(["'bug'", "'billing'", "'Bug'", "null", "''"])
    number = at.choice(["1.0", "1.00", "'NaN'", "null", "2", "-0.0"])
    doc = at.choice(["'{\"a\":1}'", "'{\"a\": 1}'", "null"])
    new = next(own)
    return at.choice([
        f"update ticket set category = {word} where id = {ticket}",
        f"update ticket set category = {word}, price = {number} where id in ({ticket}, {other})",
        f"update ticket set body = {doc} where id = {ticket}",
        f"update ticket set customer = {customer} where id = {ticket}",
        f"update ticket set slug = 's{at.randrange(60)}' where id = {ticket}",
        f"update ticket set price = {number} where customer = {customer}",
        f"update customer set name = 'n{at.randrange(3)}' where id = {customer}",
        f"insert into ticket values ({new}, {customer}, 't{new}', {word})",
        f"insert into note values ({new}, {ticket}, {at.choice([str(other), 'null'])})",
        f"update note set text = {word}, ticket = {ticket} where id = {other}",
        f"delete from note where id = {other}",
        f"delete from ticket where id = {ticket}",
        *([f"delete from customer where id = {customer}"] if at.random() < 0.3 else []),
        f"insert into event values ({new}, {at.randrange(20)}, {word})",
        f"update event set at = {at.randrange(20)} where id = {other}",
        f"update event set what = {word} where id = {other}",
        f"delete from event where id = {other}",
    ])  # fmt: skip


async def _world(conn: AsyncConnection) -> None:
    await run_all(conn, DESK + WORLD)
    await run_all(conn, "alter table event replica identity full")
    for table in ("customer", "ticket", "note", "history", "event_1", "event_2"):
        await run_all(conn, f"alter table {table} replica identity full")
        await run_all(
            conn,
            f"create trigger zz after insert or update or delete on {table}"
            " for each row execute function note_it()",
        )
    await run_all(conn, "select agent.attach('job', 'model=fake, name=job, tools=[act]')")
    for table in TABLES:
        await run_all(
            conn,
            f"select agent.attach('{table}', 'model=fake, name={table},"
            ' on=[insert, update, delete], when="false"\')',
        )


async def _fill(conn: AsyncConnection, at: random.Random, own: Iterator[int]) -> None:
    await run_all(conn, "truncate customer, ticket, note, history, event, acts, journal cascade")
    await run_all(
        conn,
        "insert into customer select n, 'c' from generate_series(0, 7) n;"
        "insert into ticket (id, customer, slug, category, price, body)"
        " select n, n % 8, 's' || n, 'new', 5, '{}' from generate_series(0, 39) n;"
        "insert into note select n, n from generate_series(0, 39) n;"
        "insert into event select n, n % 20 from generate_series(0, 39) n; truncate journal",
    )
    for step in range(1, 1 + at.choice([1, 2, 3])):
        for n in range(at.choice([1, 1, 2, 6])):
            statement = some_act(at, own)
            await conn.execute("insert into acts values (%s, %s, %s)", [step, n, statement])


async def _state(conn: AsyncConnection, *, history: bool) -> Sequence[Mapping[str, Any]]:
    found = list[Mapping[str, Any]]()
    for table in TABLES:
        if table == "history" and not history:
            continue
        key = "id::text" if table != "event" else "id || ' ' || t.at"
        found.append(await value(conn, STATE.format(table, key=key)))
    return found


async def _writer(dsn: str, seed: str, own: Iterator[int], stop: asyncio.Event) -> None:
    at = random.Random(seed)
    async with session(dsn) as conn:
        while not stop.is_set():
            with suppress(psycopg.Error):
                async with conn.transaction():
                    for _ in range(at.choice([1, 1, 1, 3])):
                        await run_all(conn, some_act(at, own))
            await asyncio.sleep(at.random() / 50)


async def _round(d: Daemon, dsn: str, seed: str, own: Iterator[int]) -> str:
    """Act, revert, and compare; return what became of the revert."""
    at = random.Random(seed)
    await _fill(d.conn, at, own)
    before = await _state(d.conn, history=False)
    stop = asyncio.Event()
    count_of = at.choice([0, 0, 2, 3])
    writers = [asyncio.create_task(_writer(dsn, f"{seed} {n}", own, stop)) for n in range(count_of)]
    try:
        key = next(own)
        await run_all(d.conn, f"insert into job values ({key})")
        await d.until(
            "select coalesce(bool_and(agent_internal.is_final(state)), false) from agent.run"
            " where key = %s and kind = 'agent'", str(key),
        )  # fmt: skip
        run = int(str(await value(d.conn, "select max(id) from agent.run where kind = 'agent'")))
        after = await _state(d.conn, history=True)
        only = at.random() < 0.7
        state, text = await revert(d, run, f", only_unchanged => {only}")
    finally:
        stop.set()
        await asyncio.gather(*writers)
    made = int(str(await value(d.conn, "select max(id) from agent.run where kind = 'revert'")))
    where = f"seed {seed}, run {run}, revert {made}: {state}, {text}"
    if not count_of:
        now = await _state(d.conn, history=state == "failed")
        partial = await value(
            d.conn, "select change ? 'partial' from agent.run where id = %s", made
        )
        if state == "failed":
            assert now == after, where
        elif not partial:
            assert now == before, where
    await _check_journal(d, run, made, where)
    wrong = await rows(
        d.conn,
        "select c.id, c.tickets, count(t.id)"
        " from customer c left join ticket t on t.customer = c.id"
        " group by c.id having c.tickets <> count(t.id)",
    )
    assert wrong == [], where
    return state if count_of else f"{state}, alone"


async def _check_journal(d: Daemon, run: int, made: int, where: str) -> None:
    """Compare what the revert wrote with what its run wrote."""
    await d.caught_up()
    written, of_run = [await rows(d.conn, WRITTEN, each) for each in (made, run)]
    changed: dict[tuple[Any, Any], list[tuple[Any, Any]]] = {}
    for tab, key, was, became in of_run:
        changed.setdefault((tab, key), []).append((was, became))
        if was and tab == "event":
            changed.setdefault((tab, f"{was['id']} {was['at']}"), []).append((was, became))
    first = set[tuple[Any, Any]]()
    for tab, key, was, became in written:
        if tab in DERIVED or (tab, key) in first:
            continue
        first.add((tab, key))
        assert (tab, key) in changed, f"beside the plan: {tab} {key}, {where}"
        images = changed[tab, key]
        for name in (was or became).keys() - BY_ITSELF:
            old, new = (was or {}).get(name), (became or {}).get(name)
            if old != new:
                assert any((after or {}).get(name) == old for _, after in images), (
                    f"another's change was lost: {tab} {key} {name}, {where}"
                )
                assert any((before or {}).get(name) == new for before, _ in images), (
                    f"not what was there before: {tab} {key} {name}, {where}"
                )


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 8), *(pytest.param(n, 120, marks=pytest.mark.slow) for n in range(2, 6))],
)
async def test_a_revert_restores_or_does_nothing(
    conn: AsyncConnection, dsn: str, seed: int, rounds: int
) -> None:
    """Each round by itself; the seed and the round are in the message."""
    await _world(conn)
    script = [call("act", step=1), call("act", step=2), call("act", step=3), "done"]
    own, found = count(1000), dict[str, int]()
    async with daemon(conn, dsn, script) as d:
        for n in range(rounds):
            outcome = await _round(d, dsn, f"{seed} {n}", own)
            found[outcome] = found.get(outcome, 0) + 1
    assert sum(found.values()) == rounds, found
