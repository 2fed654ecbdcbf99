"""Every query and mutation of the console, asked by one tenant for what another one has."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.attacks.test_matrix import CANARY, OTHER, OWN, Stage, stage
from tests.helpers.database import value
from walagent.app.console import make_api
from walagent.config.sections import Http
from walagent.console.declared import Declared, declared_mutations, declared_queries
from walagent.http.server import listen, serve_on
from walagent.store.errors import translating
from walagent.store.sessions.connections import Pool, open_pool
from walagent.sync.asgi import Receive, Scope, Send

__all__ = ["stage"]

WRITE = {"x-walagent-request": "1", "content-type": "application/json"}
Send_ = Callable[[str, dict[str, str]], Awaitable[httpx.Response]]


class _Engine:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        with translating():
            async with self._pool.connection() as conn:
                yield conn


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("it is no query")


@pytest.fixture
async def browser(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    """An admin of one tenant, signed in to the console of a daemon whose login sees all."""
    secret = "select token from agent.create_token('admin', tenant => %s)"
    token = await value(stage.conn, secret, OWN)
    sockets = await listen("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    headers = {"authorization": f"Bearer {token}"}
    address = f"http://127.0.0.1:{port}"
    async with open_pool(stage.dsn, size=4, application="walagent sync") as pool:
        api = make_api(_Engine(pool), _nothing, Http())
        serving = asyncio.create_task(serve_on(api, sockets))
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as found:
            yield found
        serving.cancel()
        await asyncio.wait({serving})


FEW_NAMES = [12, pytest.param(10_000, marks=pytest.mark.slow)]  # of the rows of the other tenant


async def _names(stage: Stage, most: int) -> list[str]:
    """Some of what names the rows of the other tenant: their numbers, UUIDs, keys and names."""
    found = {OTHER}
    for _, row in await stage.others():
        assert isinstance(row, dict)
        for each in ("id", "name", "key"):
            value = row.get(each)  # the key of a changed row has columns
            found |= set(map(str, value.values() if isinstance(value, dict) else [value]))
    found -= {"", "None"}
    return [OTHER, *random.sample(sorted(found - {OTHER}), min(most, len(found) - 1))]


async def _ask(declared: Declared, names: list[str], send: Send_) -> list[str]:
    """Give each name in each parameter; return what shows a row of the other tenant."""
    shown, free = list[str](), asyncio.Semaphore(4)

    async def ask(given: dict[str, str]) -> None:
        async with free:
            answer = await send(declared.name, given)
        assert answer.status_code < 500, answer.text
        text = answer.text
        for each in given.values():
            text = text.replace(json.dumps(each)[1:-1], "")
        if CANARY in text:
            shown.append(answer.text)

    every = [{each: name} for each in declared.parameters for name in names]
    await asyncio.gather(*map(ask, [{}, *every]))
    return shown


@pytest.mark.parametrize("most", FEW_NAMES)
async def test_no_query_shows_a_row_of_another_tenant(
    stage: Stage, browser: httpx.AsyncClient, most: int
) -> None:
    """Neither rows, nor what an error says of them, whatever it is asked for."""
    names = await _names(stage, most)

    async def send(name: str, given: dict[str, str]) -> httpx.Response:
        return await browser.get(f"/v1/queries/{name}", params=given)

    own = await send("console.runs", {"limit": "5"})
    assert len(own.json()["rows"]) > 0  # so an answer can have rows
    for declared in declared_queries():
        assert await _ask(declared, names, send) == [], declared.name


@pytest.mark.parametrize("most", FEW_NAMES)
async def test_no_mutation_changes_a_row_of_another_tenant(
    stage: Stage, browser: httpx.AsyncClient, most: int
) -> None:
    """Nor does its answer show one."""
    before, names = await stage.others(), await _names(stage, most)

    async def send(name: str, given: dict[str, str]) -> httpx.Response:
        return await browser.post(f"/v1/mutations/{name}", json=given, headers=WRITE)

    for declared in declared_mutations():
        assert await _ask(declared, names, send) == [], declared.name
    assert await stage.others() == before
