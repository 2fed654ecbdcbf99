"""Filters that a person saved for all who see the runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows
from tests.helpers.people import person
from tests.helpers.shapes import Follower, Served, serving
from walagent.config import Replication
from walagent.console.declared import declared_queries
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.query import NamedQuery

SHAPE = "console.saved_filters"
FILTER = {"name": "Refunds", "query": "state=failed&agent=triage"}


@asynccontextmanager
async def people(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[Served, dict[str, str]]]:
    """A server, and tokens of viewers, an admin, nobody, and a viewer of another tenant."""
    tokens = {
        "ann": await person(conn, "ann", "viewer"),
        "vic": await person(conn, "vic", "viewer"),
        "adi": await person(conn, "adi", "admin", "viewer"),
        "nob": await person(conn, "nob"),
        "bob": await person(conn, "bob", "viewer", tenant="b"),
    }
    (found,) = [each for each in declared_queries() if each.name == SHAPE]
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, queries={SHAPE: NamedQuery(SHAPE, found.text, found.key)}) as on:
        yield on, tokens


async def names(served: Served, token: str) -> list[tuple[str, bool]]:
    """The filters that a person sees, and whether it can remove them."""
    found = (await served.query(token, SHAPE)).json()["rows"]
    return [(each["name"], each["is_removable"]) for each in found]


@pytest.mark.slow
async def test_a_filter_is_saved_for_all_who_see_the_runs(conn: AsyncConnection, dsn: str) -> None:
    """Live, in its tenant; who saved it and an admin can remove it."""
    async with people(conn, dsn) as (served, tokens):
        client = Follower(served, path=SHAPE, token=tokens["vic"])
        await client.catch_up()
        assert (await served.mutate(tokens["ann"], "console.save_filter", **FILTER)).is_success
        while not client.rows:
            await client.step(live=True)
        (row,) = client.rows.values()
        assert (row["name"], row["query"]) == (FILTER["name"], FILTER["query"])
        seen = {name: await names(served, token) for name, token in tokens.items()}
        mine, other = [("Refunds", True)], [("Refunds", False)]
        assert seen == {"ann": mine, "adi": mine, "vic": other, "nob": [], "bob": []}
        removed = await served.mutate(tokens["adi"], "console.remove_filter", name="Refunds")
        assert removed.is_success
        assert await names(served, tokens["ann"]) == []


@pytest.mark.slow
async def test_the_filter_of_another_person_stays(conn: AsyncConnection, dsn: str) -> None:
    """It is neither replaced nor removed; one's own is replaced."""
    async with people(conn, dsn) as (served, tokens):
        for query in ("state=dead", FILTER["query"]):
            found = await served.mutate(
                tokens["ann"], "console.save_filter", name="Refunds", query=query
            )
            assert found.is_success
        for token in (tokens["vic"], tokens["nob"]):
            found = await served.mutate(
                token, "console.save_filter", name="Refunds", query="state=dead"
            )
            assert (found.status_code, found.json()["code"]) == (403, "42501")
            await served.mutate(token, "console.remove_filter", name="Refunds")
        assert (await served.mutate(tokens["bob"], "console.save_filter", **FILTER)).is_success
        await served.mutate(tokens["bob"], "console.remove_filter", name="Refunds")
        kept = await rows(conn, "select tenant, name, query, saved_by from agent.saved_filter")
        assert kept == [("default", *FILTER.values(), "ann")]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "query"), [("", "a=b"), ("x" * 61, "a=b"), ("x", ""), ("x", "y" * 2001)]
)
async def test_what_is_no_filter_is_refused(
    conn: AsyncConnection, dsn: str, name: str, query: str
) -> None:
    """Without a name or a query, or too long."""
    async with people(conn, dsn) as (served, tokens):
        found = await served.mutate(tokens["ann"], "console.save_filter", name=name, query=query)
        assert (found.status_code, found.json()["code"]) == (400, "23514")
