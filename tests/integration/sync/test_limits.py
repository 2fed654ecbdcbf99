"""Too many shapes, and too large ones: refused, and others are unharmed."""

from collections.abc import Sequence
from hashlib import sha256

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from tests.helpers.shapes import Follower, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.definition import Definition
from walagent.sync.limits import EngineLimits
from walagent.sync.query import NamedQuery
from walagent.sync.shape import RowChange, Shape, ShapeChange
from walagent.sync.where import parse_where

TABLE = """
create table item (id bigint primary key, title text);
insert into item select n, repeat('x', 1000) from generate_series(1, 100) n;
insert into agent.principal (tenant, name) values ('default', 'ann'), ('default', 'bob');
"""
QUERIES = {
    "principals": NamedQuery("principals", "select name from agent.principal", ("name",)),
    "numbers": NamedQuery(
        "numbers", "select name, %(n)s as n, repeat('x', 10000) as x from agent.principal",
        ("name",), ("n",),
    ),
}  # fmt: skip
MOST = 20


@pytest.fixture
async def prepared(conn: AsyncConnection, dsn: str) -> None:
    """A table of 100 kB, and two people whose tokens are their names."""
    await run_all(conn, TABLE)
    for name in ("ann", "bob"):
        await conn.execute(
            "insert into agent.token (tenant, principal, digest) values ('default', %s, %s)",
            (name, sha256(name.encode()).digest()),
        )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))


@pytest.mark.slow
@pytest.mark.usefixtures("prepared")
async def test_too_many_shapes_of_tables_are_refused(conn: AsyncConnection, dsn: str) -> None:
    """Those that exist go on, and so do named ones; what nobody asks for makes room."""
    async with serving(conn, dsn, queries=QUERIES, limits=EngineLimits(shapes=MOST)) as served:
        client = Follower(served, table="item", where="id = 0")
        await client.catch_up()
        found = [
            (await served.get(table="item", where=f"id = {n}", offset="-1")).status_code
            for n in range(1, 3 * MOST)
        ]
        assert found == [200] * (MOST - 1) + [503] * (2 * MOST)
        refused = await served.get(table="item", where="id = 99", offset="-1")
        assert "20 shapes of tables already" in refused.text
        assert refused.headers["retry-after"] == "5"
        named = Follower(served, path="principals", token="ann")
        await named.catch_up()
        assert len(named.rows) > 0
        await run_all(conn, "insert into item values (0, 'zero')")
        await client.until({'"public"."item"/"0"': {"id": "0", "title": "zero"}})
        for n in range(1, MOST):
            definition = Definition("public", "item", parse_where(f"id = {n}", {}))
            shape = served.engine.find(definition)
            assert shape is not None
            shape.used_at -= 200
        again = await served.get(table="item", where="id = 99", offset="-1")
        assert again.status_code == httpx.codes.OK
        await run_all(conn, "update item set title = 'null' where id = 0")
        await client.until({'"public"."item"/"0"': {"id": "0", "title": "null"}})
        assert client.refetches == 0


@pytest.mark.usefixtures("prepared")
async def test_shapes_that_are_too_large_are_refused(conn: AsyncConnection, dsn: str) -> None:
    """All shapes together have a limit; a change of one that exists still arrives."""
    limits = EngineLimits(total_bytes=400_000)
    async with serving(conn, dsn, queries=QUERIES, limits=limits) as served:
        client = Follower(served, table="item", where="id < 3")
        await client.catch_up()
        found = list[int]()
        for n in range(6):
            served.engine.room.measure()
            answer = await served.get(table="item", where=f"id > {n}", offset="-1")
            found.append(answer.status_code)
        assert found == [200, 200, 200, 503, 503, 503]
        assert answer.headers["retry-after"] == "5"
        await run_all(conn, "update item set title = 'new' where id < 3")
        await client.until(
            {f'"public"."item"/"{n}"': {"id": f"{n}", "title": "new"} for n in (1, 2)}
        )


@pytest.mark.usefixtures("prepared")
async def test_one_principal_leaves_room_for_others(conn: AsyncConnection, dsn: str) -> None:
    """It is refused at half of what all shapes may use."""
    limits = EngineLimits(total_bytes=400_000)
    async with serving(conn, dsn, queries=QUERIES, limits=limits) as served:
        found = list[int]()
        for n in range(20):
            served.engine.room.measure()
            answer = await served.get(path="numbers", token="ann", n=f"{n}", offset="-1")
            found.append(answer.status_code)
        assert sorted(set(found)) == [200, 429]
        assert "sync.max_memory" in answer.text
        other = await served.get(path="numbers", token="bob", n="1", offset="-1")
        assert other.status_code == httpx.codes.OK


@pytest.mark.slow
async def test_many_shapes_of_values_do_not_slow_a_change_down(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is applied to the few shapes that it can be in: out of one, into another."""
    applied, real = list[str](), Shape.changes_of

    def noted(self: Shape, row: RowChange, *, matches: bool | None = None) -> Sequence[ShapeChange]:
        assert self.needs is not None
        applied.extend(self.needs[1])
        return real(self, row, matches=matches)

    monkeypatch.setattr(Shape, "changes_of", noted)
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        clients = [Follower(served, table="item", where=f"title = '{n}'") for n in range(30)]
        for client in clients:
            await client.catch_up()
        key = '"public"."item"/"1"'
        for n in (3, 7, 3):
            await run_all(conn, f"update item set title = '{n}' where id = 1")
            await clients[n].until({key: {"id": "1", "title": f"{n}"}})
            await clients[10 - n].until({})
        await run_all(conn, "delete from item where id = 1")
        await clients[3].until({})
    assert applied == ["3", "3", "7", "3", "7", "3"]
