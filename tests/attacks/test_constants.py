"""To parse a constant is to execute code, and so is to plan a call: nobody does it for another."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, as_role, column, refused, role, rows, run_all, value
from tests.integration.cli.user import User
from walagent.apply.apply import apply
from walagent.config.environment import Environment
from walagent.config.loading import parse_text
from walagent.postgres.quoting import quote_name

# A developer's functions and types; each says as whom it is executed.
SETUP = """
create schema dev authorization {dev};
grant usage on schema dev to public;
set role {dev};
create function dev.said() returns boolean language plpgsql as $$
begin
    raise notice 'executed as %', current_user;
    return true;
end $$;
create function dev.folded() returns boolean immutable language plpgsql
    as 'begin return dev.said(); end';
create function dev.folded(anyelement) returns boolean immutable language plpgsql
    as 'begin return dev.said(); end';
create function dev.mul(int, numeric) returns numeric immutable language plpgsql
    as 'begin perform dev.said(); return $1::numeric * $2; end';
create operator dev.* (leftarg = int, rightarg = numeric, function = dev.mul);
create domain dev.plain as text check (value <> 'no');
create domain dev.tag as text check (dev.said());
create domain dev.tag_of_tag as dev.tag;
create domain dev.tags as dev.tag[];
create domain dev.indirect as text check (value::dev.tag is not null);
create domain dev.hidden as text
    check (query_to_xml('select dev.said()', true, true, '') is not null);
create domain dev.parsed as text
    check (domain_in('x'::cstring, 'dev.tag'::regtype::oid, -1) is not null);
create type dev.mood as enum ('glad');
create function dev.shown(dev.mood) returns json language sql
    as $$ select to_json(dev.said()) $$;
create cast (dev.mood as json) with function dev.shown(dev.mood);
create domain dev.made as text check (to_jsonb('glad'::dev.mood) is not null);
create type dev."İnt" as (inside dev.tag);
create type dev.nchar as (inside dev.tag);
create domain dev.number as numeric check (dev.said());
create type dev.holder as (inside dev.tag);
create type dev.outer as (a int, holders dev.holder[]);
create type dev.span as range (subtype = dev.number, multirange_type_name = dev.spans);
create type dev."A ""b"" c" as (inside dev.tag);
create function dev.look(dev.holder) returns boolean language sql as 'select true';
create table dev.t (id int primary key, tags dev.tag[], held dev.holder, plain dev.plain[], a text);
reset role;
"""
CONSTANTS = (
    "'{vip}'::dev.tag[] is not null",
    "'{vip}'::dev._tag is not null",
    "dev._tag '{vip}' is not null",
    "dev . _tag\n'{vip}' is not null",
    "tag[] '{vip}' is not null",
    "_tag '{vip}' is not null",
    "_TAG'{vip}' is not null",
    "cast('{vip}' as tag[]) is not null",
    "_tag('{vip}') is not null",
    "U&'{vip}'::tag[] is not null",
    "U&\"\\005ftag\" '{vip}' is not null",
    "'{'\n'vip}'::tag[] is not null",
    "'{vip}'::tags is not null",
    "'{vip}'::tag_of_tag[] is not null",
    "'{vip}'::indirect[] is not null",
    "'{vip}'::hidden[] is not null",
    "'{x}'::parsed[] is not null",
    "'{x}'::made[] is not null",
    "İnt '(vip)' is not null",
    "dev.N'(vip)' is not null",
    "array['x'::tag] is distinct from '{vip}'",
    "'{vip}' is not distinct from null::tag[]",
    "'(vip)'::holder is not null",
    "'{(vip)}'::holder[] is not null",
    "'(1,\"{(vip)}\")'::outer is not null",
    "'[1,2]'::span is not null",
    "'{[1,2]}'::spans is not null",
    "array['(vip)']::holder[] is not null",
    '"A ""b"" c" \'(vip)\' is not null',
    "look('(vip)')",
    "coalesce(null, '(vip)', '(vip)'::holder) is not null",
    "case when true then '{vip}' else '{vip}'::tag[] end is not null",
    "'(vip)' in ('(vip)', '(x)'::holder)",
    "timestamp(3) '2026-01-01' > '2025-01-01' and '{vip}'::tag[] is null",
)
OF_COLUMNS = (
    "new.tags = '{vip}'",
    "coalesce(new.held, '(vip)') is not null",
    "new.tags[1:2] <> '{}'",
    "new.tags is distinct from '{vip}'",
    "'{vip}' is not distinct from (new.tags)",
)
NODES = '[{"name": "r", "kind": "router"}, {"name": "b", "kind": "human", "prompt": "hi"}]'
CREATE = "select agent.create_workflow('w', %s, %s, run_as => %s)"
REFUSES = """create or replace function dev.said() returns boolean language plpgsql as $$
begin
    if (select rolsuper from pg_roles where rolname = current_user) then
        raise exception 'ESCAPED';
    end if;
    return true;
end $$"""
FILE = """
models:
  fake: {provider: scripted, model_id: fake}
agents:
  clerk: {model: fake, system_prompt: %s}
workflows:
  w:
    nodes:
      - {name: r, kind: router}
      - {name: clerk, kind: model, agent: clerk, prompt: hi}
    edges:
      - {from: r, to: clerk, condition: "folded() and folded(state) and 2 * 1.5 > 3"}
      - {from: r, to: __end__}
    run_as: %s
"""
PATH = "set search_path = dev, pg_catalog, public"


def edges(condition: str) -> str:
    """From the router to the person, or to the end."""
    return json.dumps(
        [{"from": "r", "to": "b", "condition": condition}, {"from": "r", "to": "__end__"}]
    )


class Scene:
    """What was executed, and as whom."""

    def __init__(self, conn: AsyncConnection[Any], dev: str) -> None:
        self.dev = dev
        self.said: list[str] = []
        conn.add_notice_handler(lambda notice: self.said.append(notice.message_primary or ""))

    @property
    def executed(self) -> list[str]:
        """The notices of the functions, since the last call."""
        found = [line for line in self.said if line.startswith("executed")]
        self.said.clear()
        return found


@pytest.fixture
async def scene(conn: AsyncConnection[Any]) -> AsyncIterator[Scene]:
    """A developer with types and functions; the login is a superuser."""
    await run_all(conn, DESK)
    async with role(conn) as dev:
        await value(conn, "select agent.grant_developer(%s)", dev)
        await run_all(conn, f"grant create on database {quote_name(conn.info.dbname)} to {dev}")
        await run_all(conn, SETUP.format(dev=dev))
        yield Scene(conn, dev)


@pytest.mark.slow
async def test_no_condition_has_a_constant_that_executes_code(
    conn: AsyncConnection[Any], scene: Scene, subtests: pytest.Subtests
) -> None:
    """Of an attachment or of an edge: it is refused before anything reads it."""
    attach = (
        "select agent.attach('dev.t'::regclass, 'fake', name => 't', condition => %s, run_as => %s)"
    )
    await run_all(conn, PATH)
    for condition in (*CONSTANTS, *OF_COLUMNS):
        with subtests.test(condition):
            error = await refused(conn, attach, condition, scene.dev)
            assert error.sqlstate in {"WA012", "42601", "42704"}, error
            assert scene.executed == []
    for condition in CONSTANTS:
        with subtests.test(condition):
            error = await refused(conn, CREATE, NODES, edges(condition), scene.dev, state="WA025")
            assert "invalid_condition" in str(error)
            assert scene.executed == []
    await run_all(conn, "do $$ begin perform '{vip}'::dev.tag[]; end $$")
    assert scene.executed != []


async def test_a_cast_that_executes_code_is_refused_in_a_condition(
    conn: AsyncConnection[Any], scene: Scene
) -> None:
    """Of an attachment: many share the session that evaluates them."""
    await run_all(conn, PATH)
    for cast in ("new.a::tag[]", "new.a::holder", "new.a::tags", "new.a::span", "n'{vip}'::tag[]"):
        await refused(
            conn,
            "select agent.attach('dev.t'::regclass, 'fake', condition => %s, run_as => %s)",
            f"{cast} is not null",
            scene.dev,
            state="WA012",
        )
    assert scene.executed == []


GOOD = (
    "'[1,2]'::int4range @> 1",
    "date '2026-01-01' < current_date and interval '1 day' > '2 hours'",
    "interval '1' day > '0'",
    "date ( '2026-01-02' ) = date('2026-01-02') and pg_catalog.int4('7') + \"numeric\"('1') = 8",
    "timestamp with time zone '2026-01-01' at time zone 'utc' > '2025-01-01'",
    "timestamp(3) '2026-01-01 10:00' > '2025-01-01'",
    "double precision '1.5' > 1",
    "extract('year' from date '2026-01-01') = 2026",
    "'it''s (' like '%(' escape '!' and 'a' not in ('b', U&'\\0062')",
    "b'101' = x'5'::bit(3) or n'a' = 'a'",
    "'a' operator(pg_catalog.=) 'b' or 'a' collate \"C\" < 'b'",
    "case 'a' when 'b' then 'c' else 'd' end = 'd'",
    "trim(both 'x' from 'xax') = 'a' and overlay('abc' placing 'x' from 1) = 'xbc'",
    "'{a}'::jsonb is null and 'é' <> 'ä'",
)


async def test_other_constants_may_be_used(
    conn: AsyncConnection[Any], scene: Scene, subtests: pytest.Subtests
) -> None:
    """They mean what they say: all are true or false, as PostgreSQL has it."""
    await run_all(conn, PATH)
    for condition in GOOD:
        with subtests.test(condition):
            text = condition.replace("'{a}'::jsonb", "'{}'::jsonb")
            await value(conn, CREATE, NODES, edges(text), scene.dev)
            (compiled,) = await column(
                conn,
                "select definition #>> '{edges,r,0,condition}' from agent.workflow_version"
                " order by version desc limit 1",
            )
            assert (await rows(conn, f"select {text}")) == (await rows(conn, f"select {compiled}"))


IN_EDGES = (
    "dev.folded()",
    "folded()",
    "folded(state)",
    "(state ->> 'n')::numeric > 10 * 1.5",
    "'vip'::tag is not null",
    "n'{vip}'::tag[] is not null",
    "array['vip']::tag[] is not null",
    "(select folded() from dev.t limit 1)",
    "exists (select from dev.t where folded(id))",
)


@pytest.mark.parametrize("condition", IN_EDGES)
async def test_the_condition_of_an_edge_is_executed_by_nobody_who_handles_it(
    conn: AsyncConnection[Any], scene: Scene, condition: str
) -> None:
    """Who writes it, validates it, or makes the next version of it only parses it."""
    await run_all(conn, PATH)
    async with as_role(conn, scene.dev):
        await value(conn, CREATE, NODES, edges(condition), scene.dev)
    await value(conn, CREATE, NODES, edges(condition), scene.dev)
    for path in ("pg_catalog", "dev, pg_catalog", "public"):
        await run_all(conn, f"set search_path = {path}")
        assert await rows(conn, "select * from agent.validate_workflow('w')") == []
    await value(conn, "select agent.workflow_dot('w')")
    await value(conn, "select agent.start_workflow('w', '{}')")
    assert scene.executed == []


async def test_a_file_is_applied_without_executing_a_condition(
    conn: AsyncConnection[Any], scene: Scene
) -> None:
    """Created, changed, and renewed with the agents of its nodes."""
    await run_all(conn, PATH)
    for prompt in ("Help.", "Help soon."):
        await apply(conn, parse_text(FILE % (prompt, scene.dev), "a.yaml", Environment({})))
    assert await value(conn, "select version from agent.workflow") == 2
    assert scene.executed == []


async def test_the_command_line_executes_no_condition(
    conn: AsyncConnection[Any], dsn: str, scene: Scene, tmp_path: Path
) -> None:
    """To validate, list, show, start or create: as a superuser, it would fail."""
    user = User(tmp_path, dsn)
    await run_all(conn, f"set role {scene.dev}; {REFUSES}; {PATH}")
    await value(conn, CREATE, NODES, edges("folded()"), scene.dev)
    await run_all(conn, "reset role")
    file = tmp_path / "w.json"
    file.write_text(
        f'{{"name": "w", "nodes": {NODES}, "run_as": "{scene.dev}",'
        f' "edges": {edges("dev.folded(state)")}}}'
    )
    for command in (
        ("validate", "w"), ("list",), ("show", "w"), ("dot", "w"), ("start", "w"), ("runs", "w"),
        ("create", str(file)), ("validate", "w"),
    ):  # fmt: skip
        (await asyncio.to_thread(user.types, "workflows", *command)).worked()


async def test_a_condition_is_executed_as_its_role_and_means_what_it_meant(
    conn: AsyncConnection[Any], dsn: str, scene: Scene
) -> None:
    """What is created later, earlier on the path, does not replace what was there."""
    await run_all(conn, f"set role {scene.dev}; {REFUSES}; set search_path = public, dev")
    condition = f"folded(state ->> 'n') and current_user = '{scene.dev}' and s.state ? 'n'"
    await value(conn, CREATE, NODES, edges(condition), scene.dev)
    await run_all(
        conn,
        "reset role; reset search_path; create function public.folded(text) returns boolean"
        " language sql as 'select false'",
    )
    async with daemon(conn, dsn, parts=("worker",)) as d:
        run = await value(conn, "select agent.start_workflow('w', '{\"n\": \"1\"}')")
        await d.until("select state = 'waiting_approval' from agent.run where id = %s", run)
