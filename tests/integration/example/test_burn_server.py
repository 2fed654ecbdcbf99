"""The server of Burn: requests in the form of its own front end, by people with cookies alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.burn import Played, mutation, playing
from tests.helpers.database import DEADLINE, run_all, until, value


@pytest.fixture
async def burn(dsn: str, tmp_path: Path) -> AsyncIterator[Played]:
    """The example, with a page that says who it is."""
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("<!doctype html><title>a page</title>")
    (page / "a.js").write_text("1")
    (tmp_path / "secret.txt").write_text("a secret")
    async with playing(dsn, tmp_path, "--assets", str(page)) as played:
        yield played


async def sign_in(client: httpx.AsyncClient, name: str, **more: str) -> dict[str, Any]:
    """Sign in as the front end does."""
    answer = await client.post(
        "/auth/sign-in",
        json={"avatar_url": None, "username": name},
        headers={"Authorization": "Bearer anything", **more},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def rows_of(client: httpx.AsyncClient, view: str) -> list[dict[str, Any]]:
    """The rows of a view, by requests of its shape until it is up to date."""
    place, rows = {"offset": "-1"}, dict[str, dict[str, Any]]()
    while True:
        answer = await client.get(f"/sync/{view}", params=place)
        assert answer.status_code == 200, answer.text
        for message in answer.json():
            match message["headers"].get("operation"):
                case "insert" | "update":
                    rows[message["key"]] = rows.get(message["key"], {}) | message["value"]
                case "delete":
                    del rows[message["key"]]
                case _:
                    pass
        if "electric-up-to-date" in answer.headers:
            return list(rows.values())
        headers = answer.headers
        place = {"offset": headers["electric-offset"], "handle": headers["electric-handle"]}


async def ingest(client: httpx.AsyncClient, *mutations: dict[str, Any]) -> httpx.Response:
    """Send mutations as the front end does: with a bearer that means nothing."""
    return await client.post(
        "/ingest/mutations",
        json={"mutations": mutations},
        headers={"Authorization": f"Bearer {uuid4()}"},
    )


def text_of(user: str, thread: str, text: str) -> dict[str, Any]:
    """A mutation that posts a text."""
    row = {"id": str(uuid4()), "thread_id": thread, "user_id": user, "type": "text"}
    return mutation("insert", "events", {**row, "data": {"text": text}})


def joining(user: str, thread: str) -> dict[str, Any]:
    """A mutation that joins a thread."""
    row = {"id": str(uuid4()), "thread_id": thread, "user_id": user, "role": "member"}
    return mutation("insert", "memberships", row)


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a check holds."""
    async with asyncio.timeout(DEADLINE):
        while not await check():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_session_is_a_cookie_that_no_script_reads(burn: Played) -> None:
    """It expires, and is sent to this site alone."""
    async with burn.browser() as alice:
        answer = await alice.post("/auth/sign-in", json={"username": "alice"})
        user, cookie = answer.json(), answer.headers["set-cookie"]
        assert set(user) == {"id", "name", "type", "avatar_url"}
        assert (user["name"], user["type"], user["avatar_url"]) == ("alice", "human", None)
        for part in ("HttpOnly", "SameSite=Strict", "Max-Age=2592000", "Path=/"):
            assert part in cookie.split("; ")
        assert (await alice.get("/auth/user")).json() == user
        assert "wla_" not in answer.text


@pytest.mark.slow
async def test_the_cookie_alone_authenticates(burn: Played) -> None:
    """Flaw 7: a bearer is ignored, whether it is a user's ID or a token that is valid."""
    async with burn.browser() as alice, burn.browser() as bob:
        first = await sign_in(alice, "alice")
        second = await sign_in(bob, "bob")
        token = alice.cookies[burn.cookie]
        async with burn.browser() as nobody:
            for bearer in (first["id"], token):
                given = {"authorization": f"Bearer {bearer}"}
                shape = await nobody.get("/sync/users", params={"offset": "-1"}, headers=given)
                assert shape.status_code == 401
                sent = await nobody.post("/ingest/mutations", json={"mutations": []}, headers=given)
                assert sent.status_code == 401
                assert (await nobody.get("/auth/user", headers=given)).status_code == 204
        given = {"authorization": f"Bearer {token}"}
        seen = await bob.get("/sync/users", params={"offset": "-1"}, headers=given)
        assert first["id"] not in seen.text
        assert second["id"] in seen.text


@pytest.mark.slow
async def test_a_name_is_taken_until_its_browser_returns(
    burn: Played, conn: AsyncConnection
) -> None:
    """Signing in again keeps the user; another browser is refused."""
    async with burn.browser() as alice, burn.browser() as other:
        first = await sign_in(alice, "alice")
        assert await sign_in(alice, "alice") == first
        refused = await other.post("/auth/sign-in", json={"username": "alice"})
        assert (refused.status_code, refused.json()["hint"]) == (409, "Choose another name.")
        wrong = await other.post("/auth/sign-in", json={"username": "Not A Name"})
        assert wrong.status_code == 400
        assert await value(conn, "select count(*) from agent.principal where kind = 'user'") == 1


@pytest.mark.slow
async def test_nobody_follows_no_rows_until_somebody_signs_in(burn: Played) -> None:
    """Its own front end says so in the place of a bearer; with the cookie it starts over."""
    async with burn.browser() as alice:
        given = {"authorization": "Unauthenticated"}
        first = await alice.get("/sync/threads?offset=-1", headers=given)
        assert (first.status_code, first.json()) == (200, [{"headers": {"control": "up-to-date"}}])
        place = {
            "offset": first.headers["electric-offset"],
            "handle": first.headers["electric-handle"],
            "live": "true",
        }
        again = await alice.get("/sync/threads", params=place, headers=given)
        assert (again.status_code, again.json()) == (200, first.json())
        await sign_in(alice, "alice")
        over = await alice.get("/sync/threads", params=place, headers=given)
        assert (over.status_code, over.headers["electric-handle"] != "nobody") == (409, True)
        assert [each["name"] for each in await rows_of(alice, "threads")] == ["Untitled thread 1"]


@pytest.mark.few(1)
@pytest.mark.parametrize("stop", ["terminate", "kill"])
async def test_a_restart_keeps_threads_and_sessions(
    conn: AsyncConnection, dsn: str, tmp_path: Path, stop: str
) -> None:
    """Flaws 1 and 3: nothing is deleted, and what was answered is not answered again."""
    said = "select count(*) from agent.event where type = 'tool_use'"
    idle = "select bool_and(agent_internal.is_final(state)) from agent.run where kind = 'turn'"
    async with playing(dsn, tmp_path) as first, first.browser() as alice:
        await sign_in(alice, "alice")
        cookie = alice.cookies[first.cookie]
        await until(conn, f"select ({said}) = 1 and ({idle})")
        getattr(first.process, stop)()
        await first.process.wait()
    async with playing(dsn, tmp_path) as again, again.browser() as alice:
        alice.cookies[again.cookie] = cookie
        (thread,) = await rows_of(alice, "threads")
        user = (await alice.get("/auth/user")).json()
        sent = await ingest(alice, text_of(user["id"], thread["id"], "Hello!"))
        assert sent.status_code == 200
        await until(conn, f"select ({said}) > 1 and ({idle})")
        assert await value(conn, said) == 2  # to Hello, Sarah does nothing


@pytest.mark.slow
async def test_requests_that_wait_when_it_stops_are_answered(burn: Played) -> None:
    """With 503, after which clients ask again."""
    async with burn.browser() as alice:
        await sign_in(alice, "alice")
        answer, place = await alice.get("/sync/facts?offset=-1"), dict[str, str]()
        held: asyncio.Task[httpx.Response] | None = None
        while held is None or held.done():  # until nothing more is to be sent
            headers = (await held if held else answer).headers
            place |= {"offset": headers["electric-offset"], "handle": headers["electric-handle"]}
            live = "electric-up-to-date" in headers
            asked = place | ({"live": "true"} if live else {})
            held = asyncio.create_task(alice.get("/sync/facts", params=asked))
            await asyncio.wait({held}, timeout=1)
        burn.process.terminate()
        answer = await held
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert await burn.process.wait() == 0


@pytest.mark.slow
async def test_signing_out_ends_the_session(burn: Played) -> None:
    """The cookie opens nothing more, but the same browser can sign in under its name."""
    async with burn.browser() as alice:
        user = await sign_in(alice, "alice")
        assert (await alice.post("/auth/sign-out", json={})).status_code == 200
        assert (await alice.get("/auth/user")).status_code == 401
        assert (await ingest(alice, joining(user["id"], str(uuid4())))).status_code == 401
        assert await sign_in(alice, "alice") == user


@pytest.mark.slow
async def test_nothing_of_the_console_is_served(burn: Played) -> None:
    """A user's token reads rows of Burn alone: guests see no runs of others."""
    async with burn.browser() as alice:
        await sign_in(alice, "alice")
        given = {"authorization": f"Bearer {alice.cookies[burn.cookie]}", "accept": "text/html"}
        for path in ("/v1/shapes/burn-users?offset=-1", "/v1/queries/console.runs", "/v1/session"):
            assert (await alice.get(path, headers=given)).status_code == 404


@pytest.mark.slow
async def test_a_write_answers_with_the_txid_of_its_rows(burn: Played) -> None:
    """The client that sent it sees the ID in the stream, and so knows that it is synced."""
    async with burn.browser() as alice:
        user = await sign_in(alice, "alice")
        (thread,) = await rows_of(alice, "threads")
        first = await alice.get("/sync/events", params={"offset": "-1"})
        place = {
            "offset": first.headers["electric-offset"],
            "handle": first.headers["electric-handle"],
        }
        sent = await ingest(alice, text_of(user["id"], thread["id"], "I like chess"))
        assert sent.status_code == 200, sent.text
        txid, seen = int(sent.json()["txid"]), set[int]()
        async with asyncio.timeout(DEADLINE):
            while txid not in seen:
                answer = await alice.get("/sync/events", params={**place, "live": "true"})
                place["offset"] = answer.headers["electric-offset"]
                for message in answer.json():
                    seen |= set(message["headers"].get("txids", ()))


WRONG = [
    (b"{", 400),
    (b"[]", 400),
    (b"{}", 400),
    (b'{"mutations": [{"type": "insert"}]}', 400),
    (b'{"mutations": "x"}', 400),
    (b'{"mutations": [' + b" " * (4 << 20) + b"]}", 413),
]


@pytest.mark.slow
async def test_wrong_bodies_are_refused(burn: Played, subtests: pytest.Subtests) -> None:
    """With a message; a session stays."""
    async with burn.browser() as alice:
        await sign_in(alice, "alice")
        kind = {"content-type": "application/json"}
        for given, status in WRONG:
            with subtests.test(given[:40].decode()):
                answer = await alice.post("/ingest/mutations", content=given, headers=kind)
                assert (answer.status_code, "message" in answer.json()) == (status, True)
                assert (await alice.get("/auth/user")).status_code == 200


@pytest.mark.slow
async def test_other_sites_cannot_use_a_session(burn: Played) -> None:
    """Other names of the host, other origins, and forms are refused; answers name no origin."""
    async with burn.browser() as alice:
        await sign_in(alice, "alice")
        for headers in ({"host": "burn.example"}, {"origin": "http://evil.example"}):
            for path in ("/sync/users?offset=-1", "/auth/user"):
                assert (await alice.get(path, headers=headers)).status_code == 403
            body = {"mutations": []}
            answer = await alice.post("/ingest/mutations", json=body, headers=headers)
            assert answer.status_code == 403
        form = await alice.post("/ingest/mutations", data={"mutations": "[]"})
        assert form.status_code == 415
        rows = await alice.get("/sync/users", params={"offset": "-1"})
        assert not [name for name in rows.headers if name.startswith("access-control")]


@pytest.mark.slow
async def test_a_revoked_session_ends(burn: Played, conn: AsyncConnection) -> None:
    """Writes at once, reads within seconds."""
    async with burn.browser() as alice:
        user = await sign_in(alice, "alice")
        (thread,) = await rows_of(alice, "threads")
        await run_all(conn, "update agent.token set revoked_at = now()")
        sent = await ingest(alice, text_of(user["id"], thread["id"], "still here"))
        assert sent.status_code == 401

        async def is_refused() -> bool:
            return (await alice.get("/sync/events?offset=-1")).status_code == 401

        await eventually(is_refused)


@pytest.mark.slow
async def test_every_route_of_the_page_is_the_page(burn: Played) -> None:
    """And no file beside it; only pages of GitHub are sources of pictures."""
    async with burn.browser() as anybody:
        html = {"accept": "text/html"}
        for path in ("/", "/welcome", f"/join/{uuid4()}", "/threads/x"):
            answer = await anybody.get(path, headers=html)
            assert (answer.status_code, "a page" in answer.text) == (200, True)
        policy = (await anybody.get("/", headers=html)).headers["content-security-policy"]
        images = next(part for part in policy.split("; ") if part.startswith("img-src"))
        github = ["https://github.com", "https://avatars.githubusercontent.com"]
        assert images.split() == ["img-src", "'self'", "data:", *github]
        assert (await anybody.get("/a.js")).text == "1"
        for path in ("/../secret.txt", "/%2e%2e/secret.txt", "//secret.txt", "/b.js", "/sync/x"):
            answer = await anybody.get(f"{burn.url}{path}", headers=html)
            assert (path, answer.status_code) == (path, 404)
        assert (await anybody.get("/%00", headers=html)).status_code == 200


async def test_the_show_over_http(burn: Played, conn: AsyncConnection) -> None:
    """Two people, three agents: join by ID, questions, facts, jokes, a removal and a new name."""
    async with burn.browser() as alice, burn.browser() as bob:
        a, b = await sign_in(alice, "alice"), await sign_in(bob, "bob")
        (thread,) = await rows_of(alice, "threads")
        key = thread["id"]
        assert (await ingest(bob, text_of(b["id"], key, "hello"))).status_code == 404
        assert (await ingest(bob, joining(b["id"], key))).status_code == 200
        for liking in ("chess", "cooking", "hiking"):
            sent = await ingest(alice, text_of(a["id"], key, f"I like {liking}"))
            assert sent.status_code == 200
            await until(conn, "select count(*) = 1 from agent.fact where object = %s", liking)
        joke = "select count(*) = 1 from agent.event where data ->> 'name' = 'roast_user'"
        await until(conn, joke)

        async def has_facts() -> bool:
            return len(await rows_of(bob, "facts")) == 3

        await eventually(has_facts)
        members = await rows_of(alice, "memberships")
        (comedian,) = await named(bob, "jerry")
        jerry = next(each for each in members if each["user_id"] == comedian)
        removing = mutation("delete", "memberships", jerry)
        removing["syncMetadata"] = {"relation": ["shape", "burn-memberships"]}  # as the stream says
        assert (await ingest(bob, removing)).status_code == 403
        assert (await ingest(alice, removing)).status_code == 200
        rename = mutation("update", "threads", thread, name="Hobbies")
        assert (await ingest(bob, rename)).status_code == 200

        async def is_renamed() -> bool:
            return [each["name"] for each in await rows_of(alice, "threads")] == ["Hobbies"]

        await eventually(is_renamed)
        assert await named(alice, "jerry")  # his jokes keep their name


async def named(client: httpx.AsyncClient, name: str) -> set[str]:
    """IDs of users with a name."""
    return {row["id"] for row in await rows_of(client, "users") if row["name"] == name}
