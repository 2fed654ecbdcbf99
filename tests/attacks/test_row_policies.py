"""Each row-level policy by itself: a row that it alone hides, and one that it shows.

The tables are stripped of constraints and filled from the catalog, so that a new table and a new
policy are tested without a line here; a policy of an unknown name fails.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import role, rows, run_all, session, value

MINE, THEIRS = UUID(int=1), UUID(int=2)  # threads: bob takes part in the first
# Tables that say who acts: they have rows of their own, and keep their constraints.
WHO = {"agent.tenant", "agent.principal", "agent.role_grant", "agent.token", "agent_internal.login"}
# Tables of which those who see runs see all rows, and nobody else one.
WHOLE = {
    "agent.saved_filter", "agent.issue", "agent.dataset", "agent.dataset_case", "agent.evaluation",
    "agent.evaluation_case", "agent.batch",
}  # fmt: skip
POLICIES = """
select p.polrelid::regclass::text, p.polname, pg_get_expr(p.polqual, p.polrelid)
  from pg_policy p join pg_class c on c.oid = p.polrelid
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
 order by 1, 2
"""
STRIP = """
do $$
declare
    _statement text;
begin
    for _statement in
        select format('alter table %s drop constraint %I cascade', conrelid::regclass, conname)
          from pg_constraint
         where connamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
           and contype in ('c', 'f', 'u', 'p', 'x') and conrelid <> 0
           and conrelid::regclass::text <> all ('{agent.tenant, agent.principal, agent.role_grant,
                                                  agent.token, agent_internal.login}')
         order by contype  -- checks and references before keys
    loop
        begin
            execute _statement;
        exception when undefined_object then
            null;  -- it went with a key
        end;
    end loop;
    for _statement in
        select format('drop index %s', i.indexrelid::regclass)
          from pg_index i join pg_class c on c.oid = i.indrelid
         where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
           and i.indisunique
           and not exists (select from pg_constraint where conindid = i.indexrelid)
    loop
        execute _statement;
    end loop;
end;
$$
"""
COLUMNS = """
select a.attname, format_type(a.atttypid, a.atttypmod), t.typcategory = 'A',
       (select enumlabel from pg_enum where enumtypid = t.oid order by enumsortorder limit 1)
  from pg_attribute a join pg_type t on t.oid = a.atttypid
 where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
 order by a.attnum
"""
ISOLATED = """
select c.oid::regclass::text from pg_class c
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and c.relkind = 'r' and c.relrowsecurity
 order by 1
"""
VALUES = {
    "text": "x", "bigint": 1, "integer": 1, "numeric": 1, "double precision": 1, "boolean": False,
    "timestamp with time zone": "2026-01-01", "interval": "1 s", "jsonb": "{}", "json": "{}",
    "bytea": b"", "pg_lsn": "0/1", "regclass": "agent.run", "oid": 1, "xid8": "1",
    "regprocedure": "agent.act_as(text)", "tsvector": "", "smallint": 1,
}  # fmt: skip
PRINCIPALS = """
select agent.create_tenant('acme'), agent.create_tenant('other');
select agent.create_principal('ann', 'user', '{ann}', tenant => 'acme'),
       agent.create_principal('bob', 'user', '{bob}', tenant => 'acme'),
       agent.create_principal('vic', 'user', '{vic}', tenant => 'acme'),
       agent.create_principal('ann', 'user', tenant => 'other');
select agent.grant_role('ann', 'admin', tenant => 'acme'),
       agent.grant_role('ann', 'admin', tenant => 'other'),
       agent.grant_role('vic', 'viewer', tenant => 'acme');
select agent.create_token('bob', tenant => 'acme'), agent.create_token('ann', tenant => 'other');
"""
# What the rows of a table differ in, by column.
VARIANTS: dict[str, tuple[object, ...]] = {
    "tenant": ("acme", "other"),
    "thread_id": (MINE, THEIRS),
    "owner": ("ann", "eve"),
    "saved_by": ("ann", "eve"),
}


@dataclass
class World:
    """The database, and who looks at it."""

    admin: AsyncConnection
    logins: dict[str, AsyncConnection] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    async def count(self, who: str, table: str, where: str) -> int:
        """Count the rows that a principal sees; `ann:read` has a token without other scopes."""
        name, _, token = who.partition(":")
        conn = self.logins[name]
        async with conn.transaction(force_rollback=True):
            if token:
                await value(conn, "select agent.act_as(%s)", self.tokens[token])
            return int(str(await value(conn, f"select count(*) from {table} where {where}")))


def _dummy(type_: str, *, is_array: bool, label: str | None) -> object:
    """Return a value of a type: the same in each row."""
    if is_array:
        return "{}"
    if label is not None:
        return label
    return {"uuid": MINE, "name": "ann"}.get(type_) or VALUES[type_]


# What the rows of some tables differ in, beside what their columns say.
OF_TABLE: dict[str, dict[str, tuple[object, ...]]] = {
    "agent.thread": {"id": (MINE, THEIRS)},
    "agent.run": {"principal": ("ann", "bob")},
    "agent_internal.participation": {"principal": ("ann", "bob")},
    "agent.step": {"run_id": (1, 2)},
    "agent.row_change": {"run_id": (1, 2)},
    "agent.correction": {"run_id": (1, 2)},
    "agent.score": {"run_id": (1, 2)},
    "agent.approval": {"run_id": (1, 2)},
    "agent.question": {"session_id": ("x", "theirs")},
    "agent.model": {"tenant": ("acme", "other", None)},
    "agent.tool": {"tenant": ("acme", "other", None)},
    "agent.tool_version": {"tenant": ("acme", "other", None)},
}
# What follows from that.
FOLLOWS: dict[str, Callable[[Mapping[str, object]], dict[str, object]]] = {
    "agent.run": lambda row: {
        "id": 1 if row["principal"] == "ann" else 2,
        "ordering_key": str(THEIRS),
    },
    "agent.session": lambda row: {"id": "x" if row["owner"] == "ann" else "theirs"},
    "agent_internal.participation": lambda _: {"thread_id": MINE},
}


async def _fill(conn: AsyncConnection, table: str) -> None:
    found = await rows(conn, COLUMNS, table)
    base = {
        str(name): _dummy(str(type_), is_array=bool(is_array), label=label and str(label))
        for name, type_, is_array, label in found
    }
    variants = {name: VARIANTS[name] for name in base if name in VARIANTS} | OF_TABLE.get(table, {})
    for choice in product(*variants.values()):
        row = base | dict(zip(variants, choice, strict=True))
        if table in FOLLOWS:
            row |= FOLLOWS[table](row)
        listed = ", ".join(f'"{name}"' for name in row)
        places = ", ".join(["%s"] * len(row))
        insert = f"insert into {table} ({listed}) overriding system value values ({places})"
        await conn.execute(insert.encode(), list(row.values()))


@pytest.fixture
async def world(conn: AsyncConnection, dsn: str) -> AsyncIterator[World]:
    """Two tenants with the same names, and rows that differ in what policies look at."""
    async with AsyncExitStack() as stack:
        logins = {
            name: await stack.enter_async_context(role(conn)) for name in ("ann", "bob", "vic")
        }
        await run_all(conn, PRINCIPALS.format(**logins))
        found = World(conn)
        for token, scopes in (("all", "{read,post,approve,develop,admin}"), ("post", "{post}")):
            made = await rows(
                conn,
                "select (agent.create_token('ann', scopes => %s, tenant => 'acme')).token",
                scopes,
            )
            found.tokens[token] = str(made[0][0])
        await run_all(conn, STRIP)
        await run_all(conn, "set session_replication_role = replica")
        for table in await rows(conn, ISOLATED):
            if table[0] not in WHO:
                await _fill(conn, str(table[0]))
        await run_all(conn, "reset session_replication_role")
        for name, login in logins.items():
            grants = (
                "grant usage on schema agent, agent_internal to {0};"
                "grant select on all tables in schema agent, agent_internal to {0};"
                "grant insert, update, delete on agent.saved_filter to {0};"
                "grant execute on all functions in schema agent, agent_internal to {0}"
            )
            await run_all(conn, grants.format(login))
            found.logins[name] = await stack.enter_async_context(session(dsn, user=login))
        yield found


@dataclass(frozen=True, slots=True)
class Case:
    """Who does not see which rows because of a policy, and who sees which."""

    hides: tuple[str, str]
    shows: tuple[str, str]


def _tenant(table: str) -> Case:
    column = "name" if table == "agent.tenant" else "tenant"
    return Case(("ann", f"{column} = 'other'"), ("ann", f"{column} = 'acme'"))


def _reading(table: str) -> Case:
    column = "name" if table == "agent.tenant" else "tenant"
    return Case(("ann:post", f"{column} = 'acme'"), ("ann:all", f"{column} = 'acme'"))


def _member(table: str) -> Case:
    column = "id" if table == "agent.thread" else "thread_id"
    return Case(("bob", f"{column} = '{THEIRS}'"), ("bob", f"{column} = '{MINE}'"))


def _reader(table: str) -> Case:
    if table in WHOLE:
        return Case(("bob", "true"), ("vic", "true"))
    column = "id" if table == "agent.run" else "run_id"
    return Case(("bob", f"{column} = 1"), ("bob", f"{column} = 2"))


def _same(hides: tuple[str, str], shows: tuple[str, str]) -> Callable[[str], Case]:
    return lambda _: Case(hides, shows)


CASES: dict[str, Callable[[str], Case]] = {
    "tenant": _tenant,
    "reading": _reading,
    "member": _member,
    "reader": _reader,
    "of_its_owner": _same(("ann", "owner = 'eve'"), ("ann", "owner = 'ann'")),
    "of_its_session": _same(("ann", "session_id = 'theirs'"), ("ann", "session_id = 'x'")),
    "own": _same(("bob", "principal = 'ann'"), ("bob", "principal = 'bob'")),
    "auditor": _same(("bob", "true"), ("ann", "true")),
    "shared": _same(("bob", "tenant = 'other'"), ("bob", "tenant is null")),
}
# Policies of writing, and of functions with the owner's rights: where they are tested.
ELSEWHERE = {
    "append": "tests/integration/audit/test_audit.py",
    "judged": "tests/attacks/test_rows_of_others.py",
    "kept": "tests/integration/threads/test_threads.py",
    "of_definers": "tests/attacks/test_functions.py",
    "of_no_code": "tests/attacks/test_member_reads.py",
    "of_its_members": "tests/integration/sql/test_questions.py",
    "sought": "tests/integration/tenants/test_acting.py",
    "changer": "tests/integration/console/test_saved_filters.py",
    "remover": "tests/integration/console/test_saved_filters.py",
    "saver": "tests/integration/console/test_saved_filters.py",
}


# Another policy of the table can hide the same row: it asks for a role, which a token without the
# scope does not have, or for a row of another table.
COVERS = {
    "reading": frozenset({"member", "reader", "auditor", "of_its_session"}),
    "tenant": frozenset({"of_its_session"}),
}


async def test_each_policy_hides_and_shows(world: World, subtests: pytest.Subtests) -> None:
    """What it hides, nothing else hides: without it, the row is seen."""
    found = await rows(world.admin, POLICIES)
    assert len(found) > 100
    for table, name, expression in found:
        if name in ELSEWHERE:
            continue
        with subtests.test(f"{name} on {table}"):
            case = CASES[str(name)](str(table))
            assert await world.count(case.hides[0], str(table), case.hides[1]) == 0
            assert await world.count(case.shows[0], str(table), case.shows[1]) > 0
            if name == "shared":
                continue
            alter = f"alter policy {name} on {table} using ({{0}})"
            await run_all(world.admin, alter.format("true"))
            try:
                without = await world.count(case.hides[0], str(table), case.hides[1])
            finally:
                await run_all(world.admin, alter.format(expression))
            others = {other for of, other, _ in found if of == table}
            assert without > 0 or COVERS.get(str(name), frozenset()) & others


def test_policies_that_are_tested_elsewhere_are_named_there() -> None:
    """The file exists."""
    root = Path(__file__).parents[2]
    assert [name for name, file in ELSEWHERE.items() if not (root / file).exists()] == []
