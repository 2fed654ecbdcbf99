"""Each table, verb, role and tenant of a row: no principal reaches a row of another tenant.

Tables and functions are those of the catalog, so a new one is tested without a change here.  The
logins have far more privileges than any capability grants, and tables lose their checks and
triggers while they are filled: only what keeps tenants apart is left to stop them.
"""

import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

import pytest
from psycopg import AsyncConnection, Error, sql

from tests.helpers.database import column, role, rows, run_all, session, value
from walagent.message import Json

Call = tuple[str, list[Json]]  # a statement, and its values
Some = TypeVar("Some")

ROLES = ("admin", "developer", "approver", "auditor", "agent", "viewer")
OWN, OTHER = "acme", "umbra"
CANARY = "canary-of-umbra"
_TABLES = """
select c.oid::regclass::text
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'
 where c.relkind = 'r' and not a.attisdropped and c.oid <> 'agent_internal.login'::regclass
   and c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
 order by 1
"""
_COLUMNS = """
select a.attname, t.typname, t.typtype::text, a.attnotnull,
       (select enumlabel from pg_enum e where e.enumtypid = t.oid order by enumsortorder limit 1)
  from pg_attribute a join pg_type t on t.oid = a.atttypid
 where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
 order by a.attnum
"""
_CHECKS = """
select format('alter table %%s drop constraint %%I', conrelid::regclass, conname)
  from pg_constraint where contype = 'c' and conrelid::regclass::text = any (%s)
"""
# Policies that let anyone append: only functions with the owner's rights have the privilege.
_OPEN = """
select polrelid::regclass::text from pg_policy
 where polcmd = 'a' and pg_get_expr(polwithcheck, polrelid) = 'true'
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A database with a row of each tenant in each table, and logins of principals of one."""

    conn: AsyncConnection
    dsn: str
    tables: Sequence[str]
    logins: Mapping[str, str]  # by role

    async def others(self) -> list[tuple[Json, ...]]:
        """All rows of the other tenant, in all tables."""
        found = list[tuple[Json, ...]]()
        for table in self.tables:
            found += await rows(
                self.conn, f"select '{table}', to_jsonb(t) from {table} t where tenant = '{OTHER}'"
            )
        return sorted(found, key=str)


def _sample(kind: str, typtype: str, label: str | None, tenant: str, n: int) -> Json:
    """A value of a type that is nobody else's."""
    text = f"{CANARY}-{n}" if tenant == OTHER else f"{tenant}-{n}"
    if typtype == "e":
        return label
    if kind.startswith("_"):
        return "{}"
    number = n + (1_000_000 if tenant == OTHER else 0)
    samples: dict[str, Json] = {
        "int4": n, "int8": number, "int2": 1, "numeric": number, "float8": 0.5, "float4": 0.5,
        "bool": False, "uuid": str(uuid4()), "bytea": f"\\x{number:064x}", "pg_lsn": "0/1",
        "json": json.dumps({"text": text}), "jsonb": json.dumps({"text": text}), "oid": 1,
        "timestamptz": "2026-01-01", "interval": "1 day", "regclass": "agent.run",
        "tsvector": "", "date": "2026-01-01",
    }  # fmt: skip
    return samples.get(kind, text)


async def _fill(conn: AsyncConnection, table: str, tenant: str, n: int) -> None:
    """Insert a row of a tenant."""
    found = await rows(conn, _COLUMNS, table)
    values: dict[str, Json] = {
        str(name): _sample(
            str(kind), str(typtype), None if label is None else str(label), tenant, n
        )
        for name, kind, typtype, required, label in found
        if required or kind in {"text", "jsonb", "name"}
    }
    values["tenant"] = tenant
    if table == "agent.principal":
        values.pop("login", None)
    for scope in {"model_scope"} & values.keys():
        values[scope] = ""
    statement = sql.SQL(
        "insert into {} ({}) overriding system value values ({}) on conflict do nothing"
    ).format(
        sql.SQL(table),  # pyright: ignore[reportArgumentType] - of the catalog
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join(sql.Placeholder() * len(values)),
    )
    await conn.execute(statement, list(values.values()))


@pytest.fixture
async def stage(conn: AsyncConnection, dsn: str) -> AsyncIterator[Stage]:
    """Fill the tables, and let each role log in."""
    tables = [str(name) for name in await column(conn, _TABLES)]
    await run_all(conn, f"insert into agent.tenant (name) values ('{OWN}'), ('{OTHER}')")
    async with AsyncExitStack() as stack:
        logins = {name: await stack.enter_async_context(role(conn)) for name in ROLES}
        for name, login in logins.items():
            await run_all(
                conn,
                "insert into agent.principal (tenant, name, login)"
                f" values ('{OWN}', '{name}', '{login}');"
                f"insert into agent.role_grant (tenant, principal, role, granted_by)"
                f" values ('{OWN}', '{name}', '{name}', 'test');"
                f"grant usage on schema agent, agent_internal to {login};"
                f"grant all on all tables in schema agent, agent_internal to {login};"
                f"grant usage on all sequences in schema agent, agent_internal to {login};"
                f"grant execute on all functions in schema agent, agent_internal to {login};"
                # Whoever can update each run is the runner; and the key signs identities.
                f"revoke update on agent.run from {login};"
                f"grant update (result, tenant) on agent.run to {login};"
                f"revoke all on agent_internal.secret, agent_internal.login from {login};",
            )
            for table in await column(conn, _OPEN):
                await run_all(conn, f"revoke insert on {table} from {login}")
        await run_all(conn, "set session_replication_role = replica")
        for statement in await column(conn, _CHECKS, tables):
            await run_all(conn, str(statement))
        for n, table in enumerate(tables, 100):
            for tenant in (OWN, OTHER):
                await _fill(conn, table, tenant, n)
        await run_all(conn, "set session_replication_role = origin")
        yield Stage(conn, dsn, tables, logins)
        await run_all(conn, "delete from agent_internal.login")


async def attempt(conn: AsyncConnection, statement: str, *values: object) -> tuple[int, str]:
    """Execute what may be refused; return how many rows it concerned, and what it said."""
    try:
        async with conn.transaction():
            cursor = await conn.execute(statement.encode(), values or None)
            found = await cursor.fetchall() if cursor.description else []
            return cursor.rowcount, str(found)
    except Error as error:
        return 0, f"{error} {error.diag.message_detail} {error.diag.message_hint}"


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ROLES)
async def test_no_verb_reaches_a_row_of_another_tenant(stage: Stage, name: str) -> None:
    """Nor does it move a row there, and what it says contains nothing of it."""
    before, said = await stage.others(), list[str]()
    assert {table for table, _ in before} == set(stage.tables)
    async with session(stage.dsn, user=stage.logins[name]) as conn:
        assert await column(conn, "select name from agent.tenant") == [OWN]
        for table in stage.tables:
            (row,) = [row for where, row in before if where == table][:1]
            for statement in (
                f"select * from {table} where tenant = '{OTHER}'",
                f"update {table} set tenant = tenant where tenant = '{OTHER}'",
                f"delete from {table} where tenant = '{OTHER}'",
            ):
                count, text = await attempt(conn, statement)
                assert count <= 0, statement
                said.append(text)
            for statement in (
                f"select t from {table} t",
                f"update {table} set tenant = '{OTHER}'",
            ):
                said.append((await attempt(conn, statement))[1])
            count, text = await attempt(
                conn,
                f"insert into {table} overriding system value"
                f" select * from jsonb_populate_record(null::{table}, %s)",
                json.dumps(row),
            )
            assert count <= 0 and "duplicate key" not in text, f"{table}: {text}"  # noqa: PT018 - of one attempt
    assert await stage.others() == before
    assert [text for text in said if CANARY in text] == []


@pytest.mark.parametrize("identity", ["forged", "0" * 64 + '["umbra", "admin"]'])
async def test_who_forges_an_identity_is_nobody(stage: Stage, identity: str) -> None:
    """It sees no row at all, neither of its tenant nor of another; shared ones are everybody's."""
    async with session(stage.dsn, user=stage.logins["admin"]) as conn:
        await conn.execute("select set_config('walagent.identity', %s, false)", [identity])
        for table in stage.tables:
            count, text = await attempt(conn, f"select t from {table} t where tenant is not null")
            assert count <= 0, f"{table}: {text}"
            count, _ = await attempt(conn, f"delete from {table} where tenant is not null")
            assert count <= 0, table
    assert await value(stage.conn, "select count(*) from agent.run") == 2


_FUNCTIONS = """
select p.oid::regproc::text, array_agg(t.typname::text order by a.n)
  from pg_proc p
       cross join lateral unnest(p.proargtypes::oid[]) with ordinality as a (type, n)
       join pg_type t on t.oid = a.type
 where p.pronamespace = 'agent'::regnamespace and p.prokind = 'f'
   and p.prorettype <> 'trigger'::regtype and p.proname !~ '^grant_'
 group by p.oid
 order by 1
"""


@pytest.mark.parametrize("most", [4, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["admin", "viewer"])
async def test_no_interface_function_reaches_a_row_of_another_tenant(
    stage: Stage, name: str, most: int
) -> None:
    """Each is called with every value that names something of the other tenant, or *most*."""
    before = await stage.others()
    own = [f"{CANARY}-{n}" for n in range(100, 100 + len(stage.tables))]
    given: dict[str, list[Json]] = {"text": [OTHER, *own], "int8": [], "uuid": [], "name": [*own]}
    for _, row in before:
        assert isinstance(row, dict)
        given["int8"] += [v for k, v in row.items() if isinstance(v, int) and v > 1_000_000]
        given["uuid"] += [
            v for k, v in row.items() if k == "id" and isinstance(v, str) and len(v) == 36
        ]
    said = list[str]()
    async with session(stage.dsn, user=stage.logins[name]) as conn:
        await conn.execute("set statement_timeout = '5s'")
        for function, kinds in await rows(stage.conn, _FUNCTIONS):
            assert isinstance(kinds, list)
            for kind in {str(k) for k in kinds} & given.keys():
                for wanted in some([*dict.fromkeys(map(str, given[kind]))], most):
                    values = [wanted if k == kind else plain(str(k)) for k in kinds]
                    marks = ", ".join(f"%s::{k}" for k in kinds)
                    _, text = await attempt(conn, f"select {function}({marks})", *values)
                    said.append(text.replace(wanted, ""))
    assert await stage.others() == before
    assert [text for text in said if CANARY in text] == []


def plain(kind: str) -> Json:
    """A harmless value of an argument."""
    return {
        "bool": False, "int4": 1, "int8": 0, "jsonb": "{}", "json": "{}", "interval": "1 day",
        "regclass": "agent.run", "numeric": 1, "uuid": str(uuid4()), "float8": 0.5,
        "timestamptz": "2026-01-01", "bytea": "",
    }.get(kind, "{}" if kind.startswith("_") else "x")  # fmt: skip


def names_in(found: Sequence[tuple[Json, ...]]) -> dict[str, list[str]]:
    """What names the rows of a table, by the type of an argument."""
    given: dict[str, list[str]] = {"int8": [], "uuid": [], "text": []}
    for _, row in found:
        assert isinstance(row, dict)
        for key, each in row.items():
            if isinstance(each, int) and not isinstance(each, bool) and each >= 100:
                given["int8"].append(str(each))
            elif isinstance(each, str) and key == "id" and len(each) == len(str(uuid4())):
                given["uuid"].append(each)
            elif isinstance(each, str) and each.startswith((f"{OWN}-", CANARY)):
                given["text"].append(each)
    named = {kind: list(dict.fromkeys(values)) for kind, values in given.items()}
    return {**named, "_int8": [f"{{{n}}}" for n in named["int8"]], "name": named["text"]}


def calls(function: str, kinds: Sequence[Json], given: Mapping[str, Sequence[str]]) -> list[Call]:
    """Calls of a function in which one argument names a row."""
    statement = f"select {function}({', '.join(f'%s::{kind}' for kind in kinds)})"
    harmless = [plain(str(kind)) for kind in kinds]
    made = [(statement, harmless)]
    for kind in dict.fromkeys(map(str, kinds)):
        made += [
            (
                statement,
                [
                    wanted if each == kind else other
                    for each, other in zip(kinds, harmless, strict=True)
                ],
            )
            for wanted in given.get(kind, ())
        ]
    return made


def some(made: Sequence[Some], most: int) -> Sequence[Some]:
    """The first, and some of the others, which are other ones in each run."""
    return made if len(made) <= most else [made[0], *random.sample(made[1:], most - 1)]
