"""Named shapes and mutations over tables of the application: as the principal, as a role."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256

import pytest
from psycopg import AsyncConnection

from tests.docs_pages import ROOT, blocks
from tests.helpers.database import run_all, until, value
from tests.helpers.shapes import Follower, Served, serving
from walagent.app.sync import own_queries
from walagent.config import Replication
from walagent.config.environment import Environment
from walagent.config.loading import parse_text
from walagent.config.sections import MutationEntry
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.query import NamedQuery

PEOPLE = """
insert into agent.tenant (name) values ('a'), ('b');
insert into agent.principal (tenant, name) values ('a', 'ann'), ('a', 'amy'), ('b', 'bob');
"""
TABLES = """
create table public.todo (
    id      bigint generated always as identity primary key,
    tenant  text not null default agent.current_tenant(),
    author  name not null default agent.current_principal(),
    text    text not null check (text <> ''),
    price   numeric,
    done    boolean not null default false,
    secret  text default 'hidden'
);
create table public.shared (
    todo bigint references public.todo, reader name, primary key (todo, reader)
);
alter table public.todo enable row level security;
create policy own on public.todo using (
    tenant = agent.current_tenant() and (author = agent.current_principal() or exists (
        select from public.shared s where s.todo = id and s.reader = agent.current_principal())));
create role {role};
grant select (id, tenant, author, text, price, done), insert, update (text, done, tenant)
    on public.todo to {role};
grant select on public.shared to {role};
select agent.grant_viewer('{role}');
"""
STEAL = """
create table public.loot (who name, how text);
create function public.steal() returns trigger language plpgsql as $$
begin
    begin
        reset role;
        execute 'alter role ' || session_user || ' superuser';
    exception when others then null; end;
    insert into public.loot values (current_user, session_user);
    return new;
end $$;
create trigger steal before insert on public.todo for each row execute function public.steal();
grant insert on public.loot to {role};
"""


def _queries(role: str) -> dict[str, NamedQuery]:
    mine = "select id, author, text, price, done from public.todo where text like %(like)s"
    return {
        "todos": NamedQuery("todos", mine, ("id",), ("like",), role),
        "secrets": NamedQuery("secrets", "select id, secret from todo", ("id",), (), role),
        "catalog": NamedQuery(
            "catalog", "select rolname from pg_catalog.pg_authid", ("rolname",), (), role
        ),
        "slow": NamedQuery(
            "slow",
            "select coalesce(t.id, 0) as id from (select pg_sleep(4)) as s"
            " left join public.todo as t on t.text = %(like)s",
            ("id",),
            ("like",),
            role,
        ),
        "ours": NamedQuery("ours", "select id from public.todo", ("id",)),
        "superuser": NamedQuery("superuser", "select id from todo", ("id",), (), "postgres"),
    }


def _mutations(role: str) -> dict[str, MutationEntry]:
    def entry(statement: str, *parameters: str) -> MutationEntry:
        return MutationEntry(statement=statement, run_as=role, parameters=parameters)

    return {
        "add": entry(
            "insert into public.todo (text, price) values (%(text)s, %(price)s)"
            " returning id, author, text, price, done",
            "text",
            "price",
        ),
        "finish": entry("update public.todo set done = %(done)s where id = %(id)s", "id", "done"),
        "give": entry(
            "update public.todo set tenant = %(tenant)s where id = %(id)s", "id", "tenant"
        ),
        "approve": entry("select agent.has_scope('approve') as it"),
    }


@pytest.fixture
async def role(conn: AsyncConnection) -> AsyncIterator[str]:
    """A role for the table of the application."""
    name = f"app_{conn.info.dbname}"
    await run_all(conn, PEOPLE)
    await run_all(conn, TABLES.format(role=name))
    yield name
    await run_all(conn, f"drop owned by {name}; drop role {name}")


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str, role: str) -> AsyncIterator[Served]:
    """A server of named queries and mutations, and people whose tokens are their names."""
    for tenant, name, scopes in (("a", "ann", []), ("a", "amy", ["read"]), ("b", "bob", [])):
        await conn.execute(
            "insert into agent.token (tenant, principal, digest, scopes) values (%s, %s, %s, %s)",
            (tenant, name, sha256(name.encode()).digest(), scopes),
        )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, queries=_queries(role), mutations=_mutations(role)) as found:
        yield found


@pytest.mark.slow
async def test_slow_queries_of_a_tenant_leave_a_connection_to_others(
    conn: AsyncConnection, served: Served
) -> None:
    """Two principals wait for their own; another tenant reads and writes meanwhile."""
    await Follower(served, path="todos", token="bob", like="a%").catch_up()
    slow = [
        asyncio.create_task(Follower(served, path="slow", token=name, like=str(n)).catch_up())
        for name in ("ann", "amy")
        for n in range(6)
    ]
    sleeping = "select count(*) > 2 from pg_stat_activity where wait_event = 'PgSleep'"
    await until(conn, sleeping)
    bob = Follower(served, path="todos", token="bob", like="%")
    await bob.catch_up()
    answer = await served.mutate("bob", "add", text="milk", price="1")
    assert answer.status_code == 200
    assert not any(each.done() for each in slow)
    assert await value(conn, sleeping.replace("> 2", "")) == 3
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


@pytest.mark.slow
async def test_a_principal_writes_and_follows_its_rows(
    conn: AsyncConnection, served: Served
) -> None:
    """Rows come live with the transaction that wrote them; those of others never do."""
    ann, amy, bob = (
        Follower(served, path="todos", token=name, like="%") for name in ("ann", "amy", "bob")
    )
    for client in (ann, amy, bob):
        await client.catch_up()
        assert client.rows == {}
    answer = await served.mutate("ann", "add", text="milk, \"eggs\" \\ 'tea'", price="1.50")
    assert answer.status_code == 200, answer.text
    row = answer.json()["result"]
    assert row == {
        "id": "1",
        "author": "ann",
        "text": "milk, \"eggs\" \\ 'tea'",
        "price": "1.50",
        "done": False,
    }
    key = '"shape"."todos"/"1"'
    await ann.until({key: row | {"done": "f"}})
    txids = [t for m in ann.messages for t in m["headers"].get("txids", ())]
    assert int(answer.json()["txid"]) in txids
    await conn.execute("insert into public.shared values (1, 'amy')")
    await amy.until(ann.rows)
    assert (await served.query("amy", "todos", like="%")).json()["rows"] == [row]
    assert (await served.query("bob", "todos", like="%")).json()["rows"] == []
    await conn.execute("delete from public.shared")
    await amy.until({})
    await conn.execute("update public.todo set tenant = 'b', author = 'bob'")
    await bob.until({key: row | {"done": "f", "author": "bob"}})
    await ann.until({})
    assert not any(
        "milk" in str(m) for m in bob.messages if m.get("value", {}).get("author") != "bob"
    )
    assert ann.refetches == amy.refetches == bob.refetches == 0


@pytest.mark.slow
async def test_rights_of_the_role_and_of_the_token_hold(
    conn: AsyncConnection, served: Served, role: str
) -> None:
    """Columns, policies, constraints and scopes refuse, each with its status."""
    assert (await served.mutate("ann", "add", text="milk", price=None)).status_code == 200
    for token, name, values, status in (
        ("amy", "add", {"text": "x", "price": None}, 403),
        ("nobody", "add", {"text": "x", "price": None}, 401),
        ("ann", "add", {"text": "", "price": None}, 400),
        ("ann", "add", {"text": "x"}, 400),
        ("ann", "add", {"text": "x", "price": "dear"}, 400),
        ("ann", "add", {"text": "x\0", "price": None}, 400),
        ("ann", "add", {"text": "x", "price": None, "more": 1}, 400),
        ("bob", "finish", {"id": 1, "done": True}, 404),
        ("ann", "give", {"id": 1, "tenant": "b"}, 403),
        ("ann", "nothing", {}, 404),
    ):
        answer = await served.mutate(token, name, **values)
        assert answer.status_code == status, (name, values, answer.text)
    assert (await value(conn, "select count(*) from public.todo where not done")) == 1
    for name, status in (("secrets", 403), ("catalog", 403), ("ours", 400), ("superuser", 503)):
        for answer in (
            await served.get(path=name, token="ann", offset="-1"),
            await served.query("ann", name),
        ):
            assert answer.status_code == status, (name, answer.text)
            assert "hidden" not in answer.text
    assert (await served.query("ann", "todos")).status_code == 400
    ann = Follower(served, path="todos", token="ann", like="%")
    await ann.catch_up()
    assert len(ann.rows) == 1
    await run_all(conn, f"revoke select (id) on public.todo from {role}")
    await served.mutate("ann", "finish", id=1, done=True)
    await conn.execute("update public.todo set done = true")
    async for answer in _until_refused(served, ann):
        assert answer == 403


async def test_the_page_of_the_manual_works(conn: AsyncConnection, dsn: str) -> None:
    """Its table, role, query and mutation, under another name of the role."""
    role = f"page_{conn.info.dbname}"
    page = [each for each in blocks(ROOT / "docs" / "sync.md") if "run_as" in each.text]
    table = next(each.text for each in blocks(ROOT / "docs" / "sync.md") if each.language == "sql")
    await run_all(conn, PEOPLE)
    await run_all(
        conn,
        table.replace("role app", f"role {role}")
        .replace("to app", f"to {role}")
        .replace("'app'", f"'{role}'"),
    )
    config = parse_text(
        page[0].text.replace("run_as: app", f"run_as: {role}"), "f", Environment({})
    )
    await conn.execute(
        "insert into agent.token (tenant, principal, digest) values ('a', 'ann', %s)",
        (sha256(b"ann").digest(),),
    )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    queries, mutations = own_queries(config.sync), config.sync.mutations
    try:
        async with serving(conn, dsn, queries=queries, mutations=mutations) as served:
            ann = Follower(served, path="todos", token="ann")
            await ann.catch_up()
            answer = await served.mutate("ann", "add_todo", text="milk")
            assert answer.json()["result"] == {"id": "1", "author": "ann", "text": "milk"}
            await ann.until({'"shape"."todos"/"1"': answer.json()["result"]})
    finally:
        await run_all(conn, f"drop owned by {role}; drop role {role}")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "either function or statement"),
        ({"function": "post", "statement": "select 1", "run_as": "app"}, "either function"),
        ({"statement": "select 1"}, "needs run_as"),
        ({"statement": "select %(x)s", "run_as": "app"}, "not in parameters"),
        ({"statement": "select 1 % 2", "run_as": "app"}, "write %% for a percent sign"),
    ],
)
def test_a_mutation_that_cannot_work_is_refused(entry: dict[str, str], message: str) -> None:
    """Before a request uses it."""
    with pytest.raises(ValueError, match=message):
        MutationEntry.model_validate(entry)


async def _until_refused(served: Served, client: Follower) -> AsyncIterator[int]:
    while True:
        query = {"path": "todos", "token": "ann", "like": "%", "offset": client.offset}
        answer = await served.get(**query, handle=client.handle, live="true", cursor=client.cursor)
        if answer.status_code != 200:
            yield answer.status_code
            return
        client.offset = answer.headers["electric-offset"]


async def test_a_scope_of_the_token_holds_in_code_of_the_application(
    conn: AsyncConnection, served: Served
) -> None:
    """A statement that runs code acts with no more than the token."""
    await conn.execute("update agent.token set scopes = '{read,post}' where principal = 'ann'")
    answer = await served.mutate("ann", "approve")
    assert answer.json()["result"] == {"it": False}


@pytest.mark.slow
async def test_code_of_the_table_gains_nothing(
    conn: AsyncConnection, served: Served, role: str
) -> None:
    """A trigger that resets the role stays the role of the file."""
    await run_all(conn, STEAL.format(role=role))
    answer = await served.mutate("ann", "add", text="x", price=None)
    assert answer.status_code == 200, answer.text
    assert await value(conn, "select who::text from public.loot") == role
    login = await value(conn, "select how from public.loot")
    assert not await value(conn, f"select rolsuper from pg_roles where rolname = '{login}'")
