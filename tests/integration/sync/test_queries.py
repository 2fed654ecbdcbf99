"""Shapes of queries: each principal has the rows that it can see, live."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from uuid import uuid4

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, run_all, value
from tests.helpers.shapes import Follower, Served, serving
from walagent import ShapeClient
from walagent.config import Replication
from walagent.domain.tenant import Actor
from walagent.errors import PreconditionError
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.limits import EngineLimits
from walagent.sync.query import NamedQuery, QueryDefinition

QUERIES = {
    "threads": NamedQuery("threads", "select id, title, state from agent.thread", ("id",)),
    "events": NamedQuery(
        "events",
        "select number, author, data ->> 'text' as text from agent.event"
        " where thread_id = %(thread)s::uuid and type = 'text'",
        ("number",),
        ("thread",),
    ),
    "secrets": NamedQuery(
        "secrets", "select rolname, rolsuper from pg_catalog.pg_roles", ("rolname",)
    ),
    "settings": NamedQuery(
        "settings",
        "select name, current_setting(name) as value from (values ('jit')) as s (name)",
        ("name",),
    ),
    "scopes": NamedQuery(
        "scopes",
        "select name, agent.has_scope(name) as has from (values ('approve'), ('read')) as s (name)",
        ("name",),
    ),
}
MOST = 6
PEOPLE = """
insert into agent.tenant (name) values ('a'), ('b');
insert into agent.principal (tenant, name) values ('a', 'ann'), ('a', 'amy'), ('b', 'bob');
"""


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server of named queries, and people of two tenants with tokens that are their names."""
    await run_all(conn, PEOPLE)
    for tenant, name in (("a", "ann"), ("a", "amy"), ("b", "bob")):
        await conn.execute(
            "insert into agent.token (tenant, principal, digest) values (%s, %s, %s)",
            (tenant, name, sha256(name.encode()).digest()),
        )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    limits = EngineLimits(of_principal=MOST)
    async with serving(conn, dsn, queries=QUERIES, limits=limits) as found:
        yield found


async def act(conn: AsyncConnection, name: str, statement: str) -> object:
    """Execute a statement as a person."""
    async with conn.transaction():
        await conn.execute("select agent.act_as(%s)", (name,))
        return await value(conn, statement)


async def test_queries_are_not_compiled(served: Served) -> None:
    """With the policies of many tables, compiling takes longer than reading."""
    client = Follower(served, path="settings", token="ann")
    await client.catch_up()
    assert [row["value"] for row in client.rows.values()] == ["off"]
    headers = {"authorization": "Bearer ann"}
    once = served.url.removesuffix("/shape") + "/queries/settings"
    answer = await served.http.get(once, headers=headers)
    assert [row["value"] for row in answer.json()["rows"]] == ["off"]


@pytest.mark.slow
async def test_a_person_follows_the_threads_it_is_in(conn: AsyncConnection, served: Served) -> None:
    """Joining and leaving are rows that come and go; another tenant sees nothing of them."""
    ann, amy, bob = (Follower(served, path="threads", token=name) for name in ("ann", "amy", "bob"))
    for client in (ann, amy, bob):
        await client.catch_up()
        assert client.rows == {}
    thread = await act(conn, "ann", "select agent.open_thread('plans')")
    row = {
        f'"shape"."threads"/"{thread}"': {"id": str(thread), "title": "plans", "state": "active"}
    }
    await ann.until(row)
    await act(conn, "ann", f"select agent.add_member('{thread}', 'amy')")
    await amy.until(row)
    events = Follower(served, path="events", token="amy", thread=str(thread))
    await events.catch_up()
    await act(conn, "ann", f"select agent.post('{thread}', 'hello')")
    while not events.rows:
        await events.step(live=events.is_up_to_date)
    assert [each["text"] for each in events.rows.values()] == ["hello"]
    await act(conn, "ann", f"select agent.remove_member('{thread}', 'amy')")
    await amy.until({})
    await events.until({})
    other = Follower(served, path="events", token="bob", thread=str(thread))
    for client in (bob, other):
        await client.catch_up()
        assert client.rows == {}
    assert ann.refetches == amy.refetches == 0


async def test_what_a_token_does_not_allow_is_refused(
    conn: AsyncConnection, served: Served
) -> None:
    """No token or an unknown one, an unknown name, no parameter, tables of others."""
    for query, status in (
        ({"path": "threads", "token": ""}, 401),
        ({"path": "threads", "token": "nobody"}, 401),
        ({"path": "nothing", "token": "ann"}, 404),
        ({"path": "events", "token": "ann"}, 400),
        ({"path": "secrets", "token": "ann"}, 400),
    ):
        answer = await served.get(**query, offset="-1")
        assert answer.status_code == status, answer.text
    invalid = await served.get(path="events", token="ann", thread="x", offset="-1")
    assert invalid.status_code == httpx.codes.BAD_REQUEST
    assert "uuid" in invalid.text
    await conn.execute("update agent.token set revoked_at = now() where principal = 'amy'")
    refused = await served.get(path="threads", token="amy", offset="-1")
    assert refused.status_code == httpx.codes.UNAUTHORIZED


@pytest.mark.slow
async def test_a_query_has_the_scopes_of_its_token(conn: AsyncConnection, served: Served) -> None:
    """Another token of the same person gets rows of its own, on a page and live."""
    await conn.execute(
        "insert into agent.token (tenant, principal, digest, scopes)"
        " values ('a', 'ann', %s, '{read}')",
        (sha256(b"reads").digest(),),
    )
    once = served.url.removesuffix("/shape") + "/queries/scopes"
    for token, approves in (("ann", "t"), ("reads", "f"), ("ann", "t")):
        wanted = {"approve": approves, "read": "t"}
        client = Follower(served, path="scopes", token=token)
        await client.catch_up()
        assert {row["name"]: row["has"][0] for row in client.rows.values()} == wanted
        answer = await served.http.get(once, headers={"authorization": f"Bearer {token}"})
        assert {row["name"]: "ft"[row["has"]] for row in answer.json()["rows"]} == wanted


@pytest.mark.slow
async def test_a_handle_of_another_gives_nothing(conn: AsyncConnection, served: Served) -> None:
    """A handle is no right: with it, another principal receives its own rows from the start."""
    await act(conn, "ann", "select agent.open_thread('hers')")
    ann = Follower(served, path="threads", token="ann")
    await ann.catch_up()
    assert len(ann.rows) == 1
    answer = await served.get(path="threads", token="bob", offset=ann.offset, handle=ann.handle)
    assert answer.status_code == httpx.codes.CONFLICT
    assert "hers" not in answer.text
    assert answer.headers["electric-handle"] != ann.handle


@pytest.mark.slow
async def test_one_principal_cannot_take_the_shapes_of_all(served: Served) -> None:
    """Also if it asks for all of them at once: the others are served, and so is it later."""
    threads = [str(uuid4()) for _ in range(5 * MOST)]
    answers = await asyncio.gather(
        *(served.get(path="events", token="ann", thread=each, offset="-1") for each in threads)
    )
    refused = [each for each in answers if each.status_code != httpx.codes.OK]
    assert len(refused) == len(threads) - MOST
    assert {each.status_code for each in refused} == {httpx.codes.TOO_MANY_REQUESTS}
    assert "sync.max_shapes" in refused[0].text
    assert refused[0].headers["retry-after"]
    assert len(served.engine.queries) == MOST
    other = await served.get(path="threads", token="bob", offset="-1")
    assert other.status_code == httpx.codes.OK
    kept = next(t for t, a in zip(threads, answers, strict=True) if a.status_code == httpx.codes.OK)
    shape = served.engine.queries.find(
        QueryDefinition(QUERIES["events"], (kept,), Actor("a", "ann"))
    )
    assert shape is not None
    shape.used_at -= 600
    later = await served.get(path="threads", token="ann", offset="-1")
    assert later.status_code == httpx.codes.OK
    assert shape.ended
    assert len(served.engine.queries) == MOST + 1  # with that of bob


@pytest.mark.slow
async def test_a_client_whose_token_is_revoked_receives_an_error(
    conn: AsyncConnection, served: Served
) -> None:
    """It ends, and does not ask again without end."""
    base = served.url.removesuffix("/v1/shape")
    async with asyncio.timeout(DEADLINE), ShapeClient(base, token="amy") as shapes:
        changes = shapes.changes(name="threads")
        while (await anext(changes)).operation != "current":
            pass
        await conn.execute("update agent.token set revoked_at = now() where principal = 'amy'")
        with pytest.raises(PreconditionError):
            _ = [each async for each in changes]
