"""Sessions, queries and mutations of the console over HTTP, and who cannot use them."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection, sql

from tests.helpers.database import run_all
from tests.helpers.people import token_of
from walagent.app.console import make_api
from walagent.config.sections import Http, MutationEntry
from walagent.console.declared import declared_mutations, declared_queries
from walagent.console.sessions import leave_all, make_code
from walagent.http.server import listen, serve_on
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.sync.asgi import Receive, Scope, Send

PEOPLE = """
insert into agent.tenant (name) values ('a'), ('b');
insert into agent.principal (tenant, name) values ('a', 'ann'), ('a', 'vic'), ('b', 'bob');
insert into agent.role_grant (tenant, principal, role, granted_by)
values ('a', 'ann', 'approver', 'test'), ('a', 'vic', 'viewer', 'test'),
       ('b', 'bob', 'admin', 'test');
"""
RUN = """
insert into agent.run (tenant, kind, reason, queue_id, principal, change, state, finished_at, error)
values (%(tenant)s, 'question', 'question', 1, 'someone', '{}', 'failed', now(),
        '{"reason": "no answer", "sqlstate": "XX000"}')
returning id
"""
MUTATIONS = {
    "open": MutationEntry(function="open_thread", parameters=("title", "id")),
    "post": MutationEntry(function="post", parameters=("thread", "text", "id")),
    "archive": MutationEntry(function="archive_thread", parameters=("thread",)),
}
OF_MEMBERS = {
    f"console.{name}_thread"
    for name in ("open", "join", "leave", "rename", "pause", "resume", "complete", "archive")
} | {
    "console.post",
    "console.interrupt",
    "console.add_member",
    "console.remove_member",
    "console.save_query",
}
OF_VIEWERS = {"console.save_filter", "console.remove_filter", "console.revoke_token"}
MATCHING = (
    *("state", "agent", "relation", "key", "kind", "reason", "sqlstate"),
    *("model", "duration", "cost", "since", "until", "ended"),
    *("tenant", "q", "oldest", "before"),
)
WRITE = {"x-walagent-request": "1", "content-type": "application/json"}


class _Engine:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        with translating():
            async with await connect(self._dsn, application="walagent sync") as conn:
                yield conn


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    given = b"yes" if b"authorization" in dict(scope["headers"]) else b"no"
    headers = [(b"x-with-token", given)]
    await send({"type": "http.response.start", "status": 418, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def client(conn: AsyncConnection, dsn: str) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a session, and people of two tenants."""
    await run_all(conn, PEOPLE)
    async with served_at(dsn) as (_, found):
        yield found


@asynccontextmanager
async def served_at(dsn: str) -> AsyncIterator[tuple[str, httpx.AsyncClient]]:
    """A server, and a browser that asks it."""
    api = make_api(_Engine(dsn), _nothing, Http(hosts=("console.example",)), mutations=MUTATIONS)
    sockets = await listen("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    task = asyncio.create_task(serve_on(api, sockets))
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url) as found:
        yield url, found
    task.cancel()
    await asyncio.wait({task})


async def _enter(client: httpx.AsyncClient, secret: Mapping[str, str]) -> httpx.Response:
    return await client.post("/v1/session", json=secret, headers=WRITE)


async def _sign_in(client: httpx.AsyncClient, conn: AsyncConnection, name: str) -> None:
    tenant = "b" if name == "bob" else "a"
    token = await token_of(conn, name, tenant=tenant)
    client.cookies.clear()
    (await _enter(client, {"token": token})).raise_for_status()


def cookie_in(client: httpx.AsyncClient) -> tuple[str, str]:
    """The name and the token of the only session of a browser."""
    ((name, token),) = client.cookies.items()
    return name, token


async def _run(conn: AsyncConnection, tenant: str) -> int:
    cursor = await conn.execute(RUN, {"tenant": tenant})
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def test_a_link_signs_in_once(conn: AsyncConnection, client: httpx.AsyncClient) -> None:
    """The code gives a cookie that scripts cannot read; a second use is refused."""
    async with conn.transaction():
        code = (await make_code(conn)).text
    first = await _enter(client, {"code": code})
    cookie = first.headers["set-cookie"]
    assert first.status_code == 200
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert code not in cookie
    who = (await client.get("/v1/session")).json()
    assert "admin" in who["roles"]
    client.cookies.clear()
    assert (await _enter(client, {"code": code})).status_code == 401
    assert (await client.get("/v1/session")).status_code == 401


async def test_a_link_expires(conn: AsyncConnection, client: httpx.AsyncClient) -> None:
    """After five minutes, the code signs in nobody, although nobody used it."""
    async with conn.transaction():
        code = (await make_code(conn)).text
    cursor = await conn.execute(
        "update agent.token set expires_at = expires_at - interval '5 minutes'"
        " where label = 'console link' returning expires_at between created_at - interval '1 s'"
        " and created_at + interval '1 s'"
    )
    assert await cursor.fetchall() == [(True,)]
    refused = await _enter(client, {"code": code})
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers


async def test_of_two_browsers_with_one_link_one_signs_in(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """Also if both send the code at the same time."""
    async with conn.transaction():
        code = (await make_code(conn)).text
    answers = await asyncio.gather(*(_enter(client, {"code": code}) for _ in range(4)))
    assert sorted(each.status_code for each in answers) == [200, 401, 401, 401]


async def test_a_code_is_no_token_and_a_token_no_code(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """A code that was read over a shoulder opens no session as a token, and changes nothing."""
    async with conn.transaction():
        code = (await make_code(conn)).text
    assert (await _enter(client, {"token": code})).status_code == 401
    assert (
        await _enter(client, {"code": await token_of(conn, "ann", tenant="a")})
    ).status_code == 401
    used = await client.post(
        "/v1/mutations/console.retry",
        json={"run": "1", "same_version": False, "fresh": False},
        headers={**WRITE, "authorization": f"Bearer {code}"},
    )
    assert used.status_code in {403, 404}


async def test_signing_out_ends_the_session(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """The token of the cookie is revoked, not only forgotten."""
    await _sign_in(client, conn, "ann")
    name, token = cookie_in(client)
    assert (await client.get("/v1/session")).json()["principal"] == "ann"
    (await client.delete("/v1/session", headers=WRITE)).raise_for_status()
    client.cookies.set(name, token)
    assert (await client.get("/v1/session")).status_code == 401


async def test_sessions_at_two_ports_of_a_host_are_two(
    conn: AsyncConnection, client: httpx.AsyncClient, dsn: str
) -> None:
    """Browsers send cookies to every port: signing in and out at one does not touch the other."""
    await _sign_in(client, conn, "ann")
    async with served_at(dsn) as (other, _):
        assert (await client.get(f"{other}/v1/session")).status_code == 401
        assert (await client.get("/v1/session")).json()["principal"] == "ann"
        token = await token_of(conn, "bob", tenant="b")
        entered = await client.post(f"{other}/v1/session", json={"token": token}, headers=WRITE)
        assert entered.status_code == 200
        assert len(client.cookies) == 2
        assert (await client.get("/v1/session")).json()["principal"] == "ann"
        assert (await client.get(f"{other}/v1/session")).json()["principal"] == "bob"
        await client.delete(f"{other}/v1/session", headers=WRITE)
        assert (await client.get("/v1/session")).json()["principal"] == "ann"


async def test_sessions_below_two_prefixes_are_two(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """Those of `/` are sent to `/ops`, too; a proxy that removes the prefix says which it was."""
    await _sign_in(client, conn, "ann")
    at_ops = WRITE | {"x-forwarded-prefix": "/ops"}
    assert (await client.get("/v1/session", headers=at_ops)).status_code == 401
    token = await token_of(conn, "bob", tenant="b")
    (await client.post("/v1/session", json={"token": token}, headers=at_ops)).raise_for_status()
    assert len(client.cookies) == 2
    assert (await client.get("/v1/session")).json()["principal"] == "ann"
    assert (await client.get("/v1/session", headers=at_ops)).json()["principal"] == "bob"


@pytest.mark.parametrize("prefix", ["a=b; c", "/é", "//x", '"', "/" + "x" * 9000])
async def test_a_prefix_of_an_attacker_makes_no_other_header(
    conn: AsyncConnection, client: httpx.AsyncClient, prefix: str
) -> None:
    """It is a part of the cookie's name, without what would end the name."""
    token = await token_of(conn, "ann", tenant="a")
    headers = {**WRITE, "x-forwarded-prefix": prefix.encode()}
    answer = await client.post("/v1/session", json={"token": token}, headers=headers)
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert re.fullmatch(r"walagent_session[A-Za-z0-9.~_-]{,80}", name)
    assert rest.count("Path=/") == 1


async def test_a_link_says_whom_it_made_an_admin(conn: AsyncConnection) -> None:
    """Once, for a login without a principal."""
    async with conn.transaction():
        first, second = await make_code(conn), await make_code(conn)
    login = (await (await conn.execute("select current_user")).fetchone() or ("",))[0]
    assert (first.granted, second.granted) == (f"default/{login}", None)


async def test_one_command_ends_all_sessions(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """`walagent console --sign-out-all` revokes sessions and unused links, and no other token."""
    other = await token_of(conn, "vic", tenant="a")
    await _sign_in(client, conn, "ann")
    async with conn.transaction():
        assert await leave_all(conn) == 1
    assert (await client.get("/v1/session")).status_code == 401
    assert (await _enter(client, {"token": other})).status_code == 200


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:80"}, 403),
        ({"host": "evil.example@127.0.0.1"}, 200),
        ({"host": ""}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "console.example"}, 200),
        ({"host": "localhost:8642"}, 200),
    ],
)
async def test_requests_under_other_names_and_from_other_sites_are_refused(
    conn: AsyncConnection, client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    """A name that points to this machine does not make it this server."""
    await _sign_in(client, conn, "ann")
    _, token = cookie_in(client)
    port = httpx.URL(f"http://{headers.get('host', client.base_url.netloc.decode())}").port
    name = f"walagent_session_{port}" if port else "walagent_session"
    cookie = {"cookie": f"{name}={token}"}
    answer = await client.get("/v1/session", headers={**headers, **cookie})
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json"},
        {"x-walagent-request": "1", "content-type": "text/plain"},
        {"x-walagent-request": "1", "content-type": "application/x-www-form-urlencoded"},
        {"x-walagent-request": "1"},
    ],
)
async def test_a_form_of_another_site_cannot_write(
    conn: AsyncConnection, client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    """A write needs a header and a type that a form cannot have."""
    await _sign_in(client, conn, "ann")
    run = await _run(conn, "a")
    answer = await client.post(
        "/v1/mutations/console.retry", content=f'{{"run": "{run}"}}', headers=headers
    )
    assert answer.status_code in {403, 415}


async def test_a_cookie_reads_shapes_only_from_its_own_site(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """The guard stands before shapes; with a bearer token, they are for everyone who has one."""
    await _sign_in(client, conn, "ann")
    own = await client.get("/v1/shapes/console.runs")
    other = await client.get("/v1/shapes/console.runs", headers={"origin": "https://evil.example"})
    bearer = await client.get(
        "/v1/shapes/console.runs",
        headers={"origin": "https://app.example", "authorization": "Bearer x"},
    )
    assert (own.status_code, other.status_code, bearer.status_code) == (418, 403, 418)
    assert own.headers["x-with-token"] == "yes"
    for path in ("/v1/shape", "/v1/health", "/v1/shapes/console.runs/v1/shape"):
        unguarded = await client.get(path, headers={"origin": "https://evil.example"})
        assert unguarded.headers.get("x-with-token", "no") == "no", path


async def test_a_tenant_reads_and_changes_its_own_runs_alone(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """Of another tenant's run there is no trace: not in lists, counts or errors."""
    own, other = await _run(conn, "a"), await _run(conn, "b")
    await _sign_in(client, conn, "ann")
    given = {"before": "", "limit": "50"}
    rows = (await client.get("/v1/queries/console.runs", params=given)).json()["rows"]
    assert [row["id"] for row in rows] == [str(own)]
    count = (await client.get("/v1/queries/console.runs_count")).json()["rows"]
    assert count[0]["count"] == "1"
    assert (await client.get("/v1/queries/console.run", params={"run": str(other)})).json()[
        "rows"
    ] == []
    retried = await client.post(
        "/v1/mutations/console.retry",
        json={"run": str(other), "same_version": False, "fresh": False},
        headers=WRITE,
    )
    assert retried.status_code == 409
    assert "does not exist" in retried.json()["message"]


async def test_numbers_count_no_runs_of_others(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """Nor do statistics of the whole table tell them, however large it is."""
    await _run(conn, "a")
    await conn.execute(
        "insert into agent.run"
        " (tenant, kind, reason, queue_id, principal, change, state, finished_at)"
        " select 'b', kind, reason, queue_id, principal, change, state, finished_at"
        "   from agent.run cross join generate_series(1, 10050)"
    )
    await conn.execute("analyze agent.run")
    await _sign_in(client, conn, "ann")
    for name, column in (("counts", "runs"), ("runs_count", "count")):
        (row,) = (await client.get(f"/v1/queries/console.{name}")).json()["rows"]
        assert row[column] == "1", name


async def test_runs_that_collect_changes_are_pending_once(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """On the first page."""
    await _run(conn, "a")
    await conn.execute(
        "update agent.run set state = 'pending', finished_at = null, not_before = now() + '1 hour'"
    )
    await _sign_in(client, conn, "ann")
    (home,) = (await client.get("/v1/queries/console.home")).json()["rows"]
    assert home["pending"] == "1"


@pytest.mark.slow
async def test_a_viewer_changes_nothing(conn: AsyncConnection, client: httpx.AsyncClient) -> None:
    """Each mutation names the role that it needs, but for threads, saved filters and own tokens."""
    run = await _run(conn, "a")
    await _sign_in(client, conn, "vic")
    for mutation in declared_mutations():
        if mutation.name in OF_MEMBERS | OF_VIEWERS:
            continue
        assert mutation.role is not None
        answer = await client.post(
            f"/v1/mutations/{mutation.name}",
            json={name: str(run) for name in mutation.parameters},
            headers=WRITE,
        )
        assert answer.status_code == 403, mutation.name
        assert "role" in answer.json()["message"]


async def test_a_batch_retries_all_that_match(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """The answer has the transaction, the count, and where the next batch starts."""
    run = await _run(conn, "a")
    await _sign_in(client, conn, "ann")
    answer = await client.post(
        "/v1/mutations/console.retry_matching",
        json={**dict.fromkeys(MATCHING, ""), "state": "failed"},
        headers=WRITE,
    )
    body = answer.json()
    assert answer.status_code == 200, body
    assert body["result"] == {"done": 1, "last": None}
    assert body["txid"].isdigit()
    state = await conn.execute("select state::text from agent.run where id = %s", (run,))
    assert await state.fetchone() == ("pending",)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/queries/console.nothing", 404),
        ("/v1/queries/console.run?run=nonsense", 400),
        ("/v1/queries/console.runs?since=nonsense&limit=10", 400),
        ("/v1/queries/console.run?run=%00", 400),
        ("/v1/queries/../session", 405),
    ],
)
async def test_bad_requests_get_an_answer(
    conn: AsyncConnection, client: httpx.AsyncClient, path: str, status: int
) -> None:
    """A status, a message, and nothing of the server's inside."""
    await _sign_in(client, conn, "ann")
    answer = await client.get(path)
    assert answer.status_code in {status, 200 if "session" in path else status}
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("body", ["[]", "nonsense", '{"run": 1, "other": 2}', "null"])
async def test_bad_arguments_are_named(
    conn: AsyncConnection, client: httpx.AsyncClient, body: str
) -> None:
    """Nothing is executed."""
    await _sign_in(client, conn, "ann")
    answer = await client.post("/v1/mutations/console.cancel", content=body, headers=WRITE)
    assert answer.status_code == 400
    assert answer.json()["message"]


async def test_values_are_no_sql(conn: AsyncConnection, client: httpx.AsyncClient) -> None:
    """Quotes, backslashes and percent signs are text."""
    run = await _run(conn, "a")
    await _sign_in(client, conn, "ann")
    for text in ("' or true --", "\\'; drop table agent.run; --", "%(state)s %s", "'||1||'"):
        rows = await client.get(
            "/v1/queries/console.runs", params={"q": text, "agent": text, "limit": "5"}
        )
        assert rows.json()["rows"] == []
    found = await conn.execute(sql.SQL("select count(*) from agent.run where id = %s"), (run,))
    assert await found.fetchone() == (1,)


async def test_the_prompt_of_a_run_is_for_those_who_see_the_run(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """A number is expected; a run of another tenant has none."""
    other = await _run(conn, "b")
    await _sign_in(client, conn, "ann")
    path = "/v1/queries/console.run_prompt"
    assert (await client.get(path, params={"run": "1; drop"})).status_code == 400
    assert (await client.get(path, params={"run": str(other)})).json()["rows"] == []


@pytest.mark.slow
async def test_every_query_can_be_read_without_parameters(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """An admin reads all, in an empty database, too; keys are columns of the rows."""
    await _sign_in(client, conn, "bob")
    for query in declared_queries():
        given = {name: "1" if name in {"run", "id", "limit"} else "" for name in query.parameters}
        answer = await client.get(f"/v1/queries/{query.name}", params=given)
        assert answer.status_code == 200, (query.name, answer.json())
        for row in answer.json()["rows"]:
            assert set(query.key) <= row.keys()
        assert query.key, query.name


async def _call(client: httpx.AsyncClient, name: str, **given: object) -> httpx.Response:
    return await client.post(f"/v1/mutations/{name}", json=given, headers=WRITE)


async def test_a_function_of_the_file_is_called_as_the_principal(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """The answer has its transaction, by which a client finds the row in its shape."""
    await _sign_in(client, conn, "ann")
    opened = await _call(client, "open", title="plans; \" 'quoted' %s", id=None)
    assert opened.status_code == 200, opened.text
    thread = opened.json()["result"]
    posted = await _call(client, "post", thread=thread, text="hello")
    assert posted.json()["result"]["author"] == "ann"
    found = await conn.execute(
        "select e.xmin::text, t.title from agent.event e join agent.thread t on t.id = e.thread_id"
        " where e.type = 'text'"
    )
    assert await found.fetchall() == [(posted.json()["txid"], "plans; \" 'quoted' %s")]
    archived = await _call(client, "archive", thread=thread)
    assert archived.status_code == 200, archived.text


async def test_a_function_of_the_file_writes_for_none_that_may_not(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """Another tenant, a token that can only read, other parameters, and functions not listed."""
    await _sign_in(client, conn, "ann")
    thread = (await _call(client, "open", title="hers")).json()["result"]
    for name, given, status in (
        ("post", {"thread": thread, "text": "x", "membership": thread}, 400),
        ("post", {"thread": thread, 'text" => null) f; drop table agent.event; --': "x"}, 400),
        ("post", {"thread": "none", "text": "x"}, 400),
        ("post", {"text": "x"}, 400),
        ("grant_role", {}, 404),
    ):
        refused = await _call(client, name, **given)
        assert refused.status_code == status, refused.text
    await _sign_in(client, conn, "bob")
    refused = await _call(client, "post", thread=thread, text="from elsewhere")
    assert refused.status_code in {403, 404}
    assert "hers" not in refused.text
    token = await token_of(conn, "ann", "read", tenant="a")
    client.cookies.clear()
    (await _enter(client, {"token": token})).raise_for_status()
    refused = await _call(client, "post", thread=thread, text="read only")
    assert refused.status_code == 403, refused.text
    count = await conn.execute("select count(*) from agent.event where type = 'text'")
    assert await count.fetchone() == (0,)


THREAD = "c15d31e2-b3ee-4ca6-b90b-1596d739d4fd"


async def _read(client: httpx.AsyncClient, query: str, **given: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/queries/console.{query}", params=given)
    assert answer.status_code == 200, answer.json()
    return answer.json()["rows"]


async def _do(client: httpx.AsyncClient, mutation: str, /, **given: object) -> int:
    url = f"/v1/mutations/console.{mutation}"
    return (await client.post(url, json=given, headers=WRITE)).status_code


TURNS = f"""
insert into agent.thread (tenant, id, title) values ('a', '{THREAD}', 'Plans');
insert into agent.run (tenant, kind, reason, queue_id, principal, change, state, finished_at, key,
                       ordering_key)
select 'a', 'turn', 'event', 1, 'jerry', '{{"op": "insert", "schema": "agent", "table": "event"}}',
       'succeeded', now(), 'a,{THREAD}', k
  from unnest(array['{THREAD}', 'summary {THREAD}', 'none']) k
"""


async def test_a_turn_is_listed_with_its_thread(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """A viewer sees all threads of its tenant; who does not see the thread sees no title."""
    await run_all(conn, TURNS)
    for name, thread, title in (("vic", THREAD, "Plans"), ("ann", None, None)):
        await _sign_in(client, conn, name)
        rows = await _read(client, "runs", kind="turn", limit="9")
        shown = [(row["thread"], row["title"]) for row in rows]
        assert shown == [(None, None), (thread, title), (thread, title)]
        (run,) = await _read(client, "run", run=rows[1]["id"])
        assert (run["thread"], run["title"]) == (thread, title)


@pytest.mark.slow
async def test_a_thread_is_read_and_written_by_its_members(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """Who knows its ID can join; the owner manages it; nobody else of the tenant sees it."""
    await run_all(
        conn, "insert into agent.principal (tenant, name) values ('a', 'kim'), ('a', 'lou')"
    )
    await _sign_in(client, conn, "kim")
    assert await _do(client, "open_thread", title="Plans", members=[], id=THREAD) == 200
    given = {"thread": THREAD, "text": "Hi <b>all</b>", "id": THREAD}
    assert [await _do(client, "post", **given) for _ in range(2)] == [200, 200]
    (row,) = await _read(client, "threads")
    assert (row["title"], row["author"], row["text"]) == ("Plans", "kim", "Hi <b>all</b>")
    (row,) = await _read(client, "thread", thread=THREAD)
    assert (row["is_member"], row["can_manage"], row["can_post"]) == (True, True, True)
    await _sign_in(client, conn, "lou")
    names = [each.name for each in declared_queries() if "thread" in each.parameters]
    assert len(names) >= 5
    for name in names:
        if name != "console.principals":
            assert await _read(client, name.removeprefix("console."), thread=THREAD) == []
    assert await _read(client, "threads") == []
    assert await _do(client, "post", **given) == 404
    assert await _do(client, "rename_thread", thread=THREAD, title="Mine") == 404
    assert await _do(client, "archive_thread", thread=THREAD) == 404
    assert await _do(client, "join_thread", thread=THREAD) == 200
    assert await _do(client, "rename_thread", thread=THREAD, title="Ours") == 200
    assert await _do(client, "remove_member", thread=THREAD, name="kim") == 403
    (row,) = await _read(client, "thread", thread=THREAD)
    assert (row["title"], row["can_manage"]) == ("Ours", False)
    assert await _do(client, "leave_thread", thread=THREAD) == 200
    assert await _read(client, "thread_events", thread=THREAD) == []


@pytest.mark.slow
async def test_a_viewer_reads_a_thread_and_writes_nothing_in_it(
    conn: AsyncConnection, client: httpx.AsyncClient
) -> None:
    """Neither does a member whose token is for reading; another tenant does not even see it."""
    await _sign_in(client, conn, "ann")
    assert await _do(client, "open_thread", title="Plans", members=["vic"], id=THREAD) == 200
    assert await _do(client, "remove_member", thread=THREAD, name="vic") == 200
    await _sign_in(client, conn, "vic")
    (row,) = await _read(client, "thread", thread=THREAD)
    assert (row["is_member"], row["can_manage"], row["can_post"]) == (False, False, False)
    assert len(await _read(client, "thread_events", thread=THREAD, limit="2")) == 2
    (first,) = await _read(client, "thread_events", thread=THREAD, before="2")
    assert first["data"]["action"] == "created"
    refused = {
        "post": {"text": "Hi", "id": THREAD},
        "rename_thread": {"title": "Mine"},
        "add_member": {"name": "vic"},
        "remove_member": {"name": "ann"},
        "leave_thread": {},
        **{f"{each}_thread": {} for each in ("pause", "resume", "complete", "archive")},
    }
    for name, given in refused.items():
        assert await _do(client, name, thread=THREAD, **given) in {403, 404}, name
    await _sign_in(client, conn, "bob")
    assert await _read(client, "thread", thread=THREAD) == []
    assert await _do(client, "join_thread", thread=THREAD) == 404
    token = await token_of(conn, "ann", "read", tenant="a")
    client.cookies.clear()
    (await _enter(client, {"token": token})).raise_for_status()
    (row,) = await _read(client, "thread", thread=THREAD)
    assert (row["is_member"], row["can_post"]) == (True, False)
    assert await _do(client, "post", thread=THREAD, text="Hi", id=THREAD) == 403
