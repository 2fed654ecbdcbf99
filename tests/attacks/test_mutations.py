"""Requests that no page of the console sends: each is refused, and named is what is wrong."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, value
from tests.helpers.people import person, token_of
from tests.helpers.shapes import Served, serving
from walagent.config import Replication
from walagent.config.sections import MutationEntry
from walagent.console.declared import declared_mutations, declared_queries
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.query import NamedQuery

MUTATIONS = {"say": MutationEntry(function="post", parameters=("thread", "text", "id"))}
QUERIES = {
    "titled": NamedQuery(
        "titled", "select id, title from agent.thread where title = %(t)s", ("id",), ("t",)
    )
}
WRITE = {"x-walagent-request": "1", "content-type": "application/json"}
BAD = httpx.codes.BAD_REQUEST
DEEP = b"[" * 500 + b"]" * 500
ODD = (b'"\\u0000"', DEEP, b"null", b"1e400", b"-1", b'"%s"' % (b"9" * 30), b"[]", b"{}", b'"x"')


@dataclass(frozen=True, slots=True)
class Desk:
    """A server, and the token of an admin."""

    served: Served
    token: str

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Send a body."""
        url = f"http://127.0.0.1:{self.served.port}/v1/{path}"
        return await self.served.http.post(url, content=body, headers=headers)

    async def mutate(self, name: str, body: bytes) -> httpx.Response:
        """Write as the admin."""
        headers = {**WRITE, "authorization": f"Bearer {self.token}"}
        return await self.post(f"mutations/{name}", body, headers)


@pytest.fixture
async def desk(conn: AsyncConnection, dsn: str) -> AsyncIterator[Desk]:
    """A server, and a person who may do everything."""
    token = await person(conn, "ann", "admin")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, queries=QUERIES, mutations=MUTATIONS) as served:
        yield Desk(served, token)


async def test_a_mutation_without_a_parameter_is_refused(desk: Desk) -> None:
    """By its name; all runs would match a filter that is missing."""
    for each in declared_mutations():
        answer = await desk.mutate(each.name, b"{}")
        assert answer.status_code == BAD, (each.name, answer.text)
        assert f'needs the parameter "{each.parameters[0]}"' in answer.json()["message"]
    for body, missing in ((b"{}", "thread"), (b'{"thread": null}', "text")):
        answer = await desk.mutate("say", body)
        assert (answer.status_code, answer.json()["code"]) == (BAD, ""), answer.text
        assert f'needs the parameter "{missing}"' in answer.json()["message"]


@pytest.mark.slow
async def test_odd_values_are_refused(desk: Desk) -> None:
    """In each mutation and query: no error of the server, and no text of its inside."""
    for each in declared_mutations():
        for odd in ODD:
            pairs = b",".join(b'"%s":%s' % (name.encode(), odd) for name in each.parameters)
            answer = await desk.mutate(each.name, b"{%s}" % pairs)
            assert answer.status_code < 500, (each.name, odd, answer.text)
    for query in declared_queries():
        for odd in ("\0", "x", "9" * 30, "-1", "1e400", "'", "{", '["', "NaN"):
            answer = await desk.served.query(
                desk.token, query.name, **dict.fromkeys(query.parameters, odd)
            )
            assert answer.status_code in {200, BAD}, (query.name, odd, answer.text)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "body",
    [b'{"code":"\\u0000"}', b'{"token":"\\u0000"}', b'{"code":1}', DEEP, b'{"code":%s}' % DEEP],
)
async def test_nobody_signs_in_with_what_is_no_text(desk: Desk, body: bytes) -> None:
    """The answer says what was expected."""
    answer = await desk.post("session", body, WRITE)
    assert answer.status_code in {BAD, 401}
    assert "SQLSTATE" not in answer.text


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "cookie", ['"\\000"', "\u00e9", "x" * 7000, '"\\377"', "a; walagent_session"]
)
async def test_a_cookie_that_is_no_token_is_nobody(desk: Desk, cookie: str) -> None:
    """Also one that names a character which no text of PostgreSQL has."""
    answer = await desk.served.http.get(
        f"http://127.0.0.1:{desk.served.port}/v1/session",
        headers=[(b"cookie", f"walagent_session={cookie}".encode())],
    )
    assert answer.status_code == httpx.codes.UNAUTHORIZED


async def test_a_named_shape_refuses_what_it_does_not_have(desk: Desk) -> None:
    """A value that no text has; and if the client asks for it, an unknown parameter."""
    answer = await desk.served.get(path="titled", token=desk.token, offset="-1", t="\0")
    assert (answer.status_code, answer.json()["errors"].keys()) == (BAD, {"t"})
    url = f"{desk.served.url}s/titled"
    query = {"offset": "-1", "t": "x", "titel": "x", "expired_handle": "y"}
    headers = {"authorization": f"Bearer {desk.token}"}
    assert (await desk.served.http.get(url, params=query, headers=headers)).status_code == 200
    headers["prefer"] = "handling=strict"
    answer = await desk.served.http.get(url, params=query, headers=headers)
    assert (answer.status_code, answer.json()["errors"].keys()) == (BAD, {"expired_handle"})
    del query["expired_handle"]
    answer = await desk.served.http.get(url, params=query, headers=headers)
    assert answer.json()["errors"] == {"titel": ["is no parameter of shape titled"]}


async def test_a_refused_write_is_in_the_audit(desk: Desk, conn: AsyncConnection) -> None:
    """With principal and mutation, without arguments; a token of nobody leaves nothing."""
    viewer, reader = await person(conn, "vic", "viewer"), await token_of(conn, "ann", "read")
    before = await value(conn, "select count(*) from agent.audit")
    run = b'{"run": "1", "reason": "secret words"}'
    for token in (viewer, reader):
        answer = await Desk(desk.served, token).mutate("console.cancel", run)
        assert answer.status_code == httpx.codes.FORBIDDEN, answer.text
    for token, name in (("wla_unknown", "console.cancel"), (viewer, "console.nothing")):
        assert (await Desk(desk.served, token).mutate(name, run)).status_code in {401, 404}
    found = await rows(
        conn,
        "select principal, action, object, detail ->> 'sqlstate' from agent.audit"
        f" where number > {before} order by number",
    )
    refused = ("request.refused", "mutation console.cancel", "42501")
    assert found == [("vic", *refused), ("ann", *refused)]
    text = await value(conn, "select string_agg(a::text, '') from agent.audit a")
    assert "secret words" not in str(text)
