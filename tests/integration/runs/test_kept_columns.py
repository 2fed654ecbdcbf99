"""Columns that keep themselves: rows that change, move or go while their values are made."""

from collections.abc import Callable

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, column, rows, run_all, value
from tests.integration.runs.test_embeddings import EMBED, change, desk, stale
from tests.integration.sql.test_enrich import ENRICH
from tests.integration.sql.test_enrich import TABLE as PRODUCTS
from walagent.message import Request
from walagent.models.script import ScriptedCall, call
from walagent.models.wire_format import Body

NOT_UPDATED = "not updated: the row has changed since"
RESULTS = "select content ->> 'content' from agent.step where kind = 'result' order by run_id, seq"
OURS = "from agent.run where change ->> 'table' in ('docs', 'products')"
STATES = f"select state, error ->> 'reason' {OURS} order by id"


@pytest.mark.parametrize("statement", ["update docs set id = 7", "update docs set id = id + 100"])
async def test_a_row_whose_key_changes_meanwhile_gets_its_embedding(
    conn: AsyncConnection, dsn: str, statement: str
) -> None:
    """The run of the former key leaves it; the update of the key starts another."""
    async with desk(conn, dsn) as d:
        d.meanwhile(statement)
        await run_all(conn, EMBED % "")
        await d.daemon.ended(2, attachment="docs_embedding")
        await d.in_step()
    assert await column(conn, RESULTS) == [NOT_UPDATED, "updated"]
    assert await column(conn, f"select key {OURS} order by id") == [
        "1",
        str(await value(conn, "select id from docs")),
    ]


async def test_a_row_that_is_deleted_meanwhile_fails_no_run(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its embedding is made once."""
    async with desk(conn, dsn) as d:
        d.meanwhile("delete from docs")
        await run_all(conn, EMBED % "")
        await d.daemon.ended(1, attachment="docs_embedding")
        assert len(d.provider.embeddings.texts) == 1
    assert await rows(conn, STATES) == [("succeeded", None)]
    assert await column(conn, RESULTS) == [NOT_UPDATED]


def deleting(conn: AsyncConnection) -> Callable[[Request], ScriptedCall]:
    """Reply with a category after the rows were deleted."""

    def answer(_request: Request) -> ScriptedCall:
        change(conn, "delete from products")
        return call("update_row", category="book")

    return answer


async def test_a_row_that_is_deleted_while_it_is_enriched_fails_no_run(
    conn: AsyncConnection, dsn: str
) -> None:
    """The model is asked once."""
    await run_all(conn, DESK + PRODUCTS)
    async with daemon(conn, dsn, [deleting(conn)]) as d:
        await run_all(conn, ENRICH % "")
        await d.ended(1, attachment="products_category")
    assert await rows(conn, STATES) == [("succeeded", None)]
    assert await column(conn, RESULTS) == [NOT_UPDATED]


@pytest.mark.parametrize(
    ("prepare", "number", "said"),
    [
        ("alter table docs add check (embedding is null)", 0.5, "violates check constraint"),
        ("alter table docs alter embedding type halfvec(8)", 1e30, "out of range"),
    ],
)
async def test_an_embedding_that_cannot_be_written_is_made_once(
    conn: AsyncConnection, dsn: str, prepare: str, number: float, said: str
) -> None:
    """The run ends with the error of the write."""

    def spoil(answer: Body) -> Body:
        return {**answer, "data": [{**one, "embedding": [number] * 8} for one in answer["data"]]}

    async with desk(conn, dsn) as d:
        await run_all(conn, prepare)
        d.provider.embeddings.spoil = spoil
        await run_all(conn, EMBED % "")
        await d.daemon.ended(1, attachment="docs_embedding")
        ((state, why),) = await rows(conn, STATES)
        assert (state, said in why) == ("failed", True), why
        assert len(d.provider.embeddings.texts) == 1
        assert await value(conn, f"select error ->> 'sqlstate' {OURS}") in {"23514", "22003"}
        d.provider.embeddings.spoil = lambda answer: answer
        await run_all(conn, "alter table docs drop constraint if exists docs_embedding_check")
        await run_all(conn, f"select agent.retry(id) {OURS}")
        await d.daemon.until(f"select state = 'succeeded' {OURS}")
        assert await stale(conn) == ([] if said[0] == "v" else [1])


async def test_of_many_changes_of_a_row_the_last_is_embedded(
    conn: AsyncConnection, dsn: str
) -> None:
    """Runs for which a later one waits end before a model is asked."""
    async with desk(conn, dsn) as d:
        await run_all(conn, EMBED % ", paused => true, backfill => false")
        for n in range(9):
            await run_all(conn, f"update docs set title = 'v{n}'")
        await run_all(conn, "insert into docs values (2, 'other')")
        await d.daemon.caught_up()
        await run_all(conn, "select agent.resume('docs_embedding')")
        await d.in_step()
        assert sorted(d.provider.embeddings.texts) == ["other", "v8\nrow"]
    found = await rows(conn, STATES)
    assert [state for state, _ in found] == ["skipped"] * 8 + ["succeeded"] * 2
    assert found[0][1] == "the row has changed since: run 2 has the change"


async def test_a_change_that_a_backfill_reads_is_left_to_neither(
    conn: AsyncConnection, dsn: str
) -> None:
    """A run of a backfill may have read the row before the change: it replaces no other."""
    async with desk(conn, dsn) as d:
        await run_all(conn, EMBED % ", paused => true")
        await run_all(conn, "update docs set title = 'new'")
        await d.daemon.caught_up()
        await d.daemon.until(f"select count(*) = 2 {OURS}")
        await run_all(conn, "select agent.resume('docs_embedding')")
        await d.in_step()
