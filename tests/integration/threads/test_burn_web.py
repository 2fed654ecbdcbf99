"""What a page of `examples/burn` reads and writes: as the user who is signed in, and no more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import uuid4

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.burn import install, mutation, payload, sign_in
from tests.helpers.database import column, message_of, refused, rows, run_all, value
from tests.helpers.people import acting, application, person

CAST = ["frankie", "jerry", "sarah"]
AVATAR = "https://github.com/alice.png"


class Browser:
    """The session of a user, over the application's login."""

    def __init__(self, app: AsyncConnection, user: tuple[str, str]) -> None:
        self.app = app
        self.id, self.token = user

    async def see(self, query: str, *values: object) -> list[Any]:
        """The first column of a query, as the user."""
        async with acting(self.app, self.token) as conn:
            return await column(conn, query, *values)

    async def send(self, *mutations: dict[str, Any]) -> None:
        """Apply mutations, as the user."""
        async with self.app.transaction():
            await self.app.execute("select agent.act_as(%s)", [self.token])
            await self.app.execute("select burn.ingest(%s)", [payload(*mutations)])

    async def refused(self, *mutations: dict[str, Any], state: str) -> str:
        """Send mutations that must be refused; return the message."""
        with pytest.raises(Error) as caught:
            await self.send(*mutations)
        assert caught.value.sqlstate == state, caught.value
        return message_of(caught.value)

    async def thread(self, name: str = "%") -> str:
        """The thread of the user, or the one of this name."""
        (found,) = await self.see("select id::text from burn.threads where name like %s", name)
        return found

    def posting(self, thread: str, text: str, **row: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """A mutation that posts a text."""
        given = {"id": str(uuid4()), "thread_id": thread, "user_id": self.id, "type": "text"}
        return mutation("insert", "events", {**given, "data": {"text": text}, **row})

    def joining(self, thread: str, role: str = "member", **row: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """A mutation that joins a thread."""
        given = {"id": str(uuid4()), "thread_id": thread, "user_id": self.id, "role": role}
        return mutation("insert", "memberships", {**given, **row})

    async def removing(self, name: str) -> dict[str, Any]:
        """A mutation that removes somebody from the first thread."""
        query = (
            "select m.id::text from burn.memberships m join burn.users u on u.id = m.user_id"
            " where u.name = %s"
        )
        (found,) = await self.see(query, name)
        return mutation("delete", "memberships", {"id": found})


@asynccontextmanager
async def stage(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[Browser, Browser]]:
    """Alice and Bob, each with a thread, in two browsers."""
    await install(conn)
    async with application(conn, dsn, "viewer") as app:
        yield (
            Browser(app, await sign_in(conn, "alice", AVATAR)),
            Browser(app, await sign_in(conn, "bob")),
        )


MEMBERS = (
    "select u.name from burn.memberships m join burn.users u on u.id = m.user_id"
    " where m.role = any (%s) order by 1"
)


@pytest.mark.slow
async def test_a_new_user_has_a_thread_with_its_cast(conn: AsyncConnection, dsn: str) -> None:
    """It is its owner; the roles are those of the show."""
    async with stage(conn, dsn) as (alice, _):
        assert await alice.see("select name from burn.threads") == ["Untitled thread 1"]
        assert await alice.see("select name from burn.users order by 1") == ["alice", *CAST]
        assert await alice.see(MEMBERS, ["owner"]) == ["alice"]
        assert await alice.see(MEMBERS, ["producer"]) == ["sarah"]
        assert await alice.see(MEMBERS, ["comedian"]) == ["frankie", "jerry"]
        assert await alice.see("select data ->> 'action' from burn.events") == ["created"]
        avatars = "select avatar_url from burn.users where avatar_url is not null"
        assert await alice.see(avatars) == [AVATAR]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["a", "a" * 17, "Alice", "al ice", "al/ice", "", "älice", "a\nb"])
async def test_names_follow_the_rule(conn: AsyncConnection, name: str) -> None:
    """2 to 16 letters, digits, underscores and hyphens."""
    await install(conn)
    await refused(conn, "select burn.sign_in(%s)", name, state="23514")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "url",
    [
        "http://github.com/a.png",
        "https://github.com.example.org/a.png",
        "https://example.org/a.png",
        "https://github.com@example.org/a.png",
        "https://github.com/a b",
        "javascript:alert(1)",
    ],
)
async def test_avatars_are_addresses_at_github(conn: AsyncConnection, url: str) -> None:
    """What else a browser would load is refused; the server loads nothing."""
    await install(conn)
    await refused(conn, "select burn.sign_in('alice', %s)", url, state="23514")


async def test_a_name_belongs_to_who_used_it_first(conn: AsyncConnection) -> None:
    """Only its token renews the session; agents and principals of others cannot be claimed."""
    await install(conn)
    key, token = await sign_in(conn, "alice")
    for known in (None, "", "wla_of-nobody"):
        await refused(conn, "select burn.sign_in('alice', null, %s)", known, state="WA019")
    _, other = await sign_in(conn, "bob")
    await refused(conn, "select burn.sign_in('alice', null, %s)", other, state="WA019")
    again, second = await sign_in(conn, "alice", AVATAR, token)
    assert (again, second != token) == (key, True)
    threads = "select count(*) from agent.member where principal = 'alice'"
    assert await value(conn, threads) == 1
    of_operator = await person(conn, "operator", "admin")
    for name, known in (("sarah", None), ("operator", of_operator)):
        await refused(conn, "select burn.sign_in(%s, null, %s)", name, known, state="WA019")
    await run_all(conn, "update agent.token set revoked_at = now() where principal = 'alice'")
    await refused(conn, "select burn.sign_in('alice', null, %s)", second, state="WA019")


async def test_a_turn_of_an_agent_is_a_process(conn: AsyncConnection, dsn: str) -> None:
    """With its state and what went wrong; agents without a turn are idle."""
    async with stage(conn, dsn) as (alice, bob):
        query = (
            "select array[u.name, x.state, x.reason] from burn.processes x"
            " join burn.users u on u.id = x.user_id where x.state <> 'idle'"
        )
        assert await alice.see(query) == []
        thread = await alice.thread()
        await run_all(conn, TURN.format(thread=thread))
        assert await alice.see(query) == [["sarah", "waiting_retry", "busy"]]
        assert await bob.see(query) == []
        assert await alice.see("select count(*) from burn.processes") == [3]


TURN = """
insert into agent.run
       (kind, reason, queue_id, attachment_id, attachment_version, commit_lsn, ordinal, change,
        ordering_key, tenant, state, next_attempt_at, error)
select 'turn', 'change', q.id, a.id, a.version, '0/1', 0,
       '{{"op": "insert", "new": {{"thread_id": "{thread}", "tenant": "default"}}}}',
       '{thread}', 'default', 'waiting_retry', now(), '{{"reason": "busy"}}'
  from agent.attachment a, agent_internal.queue q where a.agent = 'sarah' limit 1
"""


async def test_only_the_daemon_signs_people_in(conn: AsyncConnection, dsn: str) -> None:
    """A login of an application cannot make tokens of others."""
    async with stage(conn, dsn) as (alice, _):
        await refused(alice.app, "select burn.sign_in('carol')", state="42501")


@pytest.mark.slow
async def test_people_see_their_threads_and_who_is_in_them(conn: AsyncConnection, dsn: str) -> None:
    """Flaw 7: sync is filtered by membership, also for who may see all threads otherwise."""
    async with stage(conn, dsn) as (alice, bob):
        await alice.send(alice.posting(await alice.thread(), "a secret"))
        await run_all(conn, "select agent.grant_role('bob', 'viewer')")
        for view in ("threads", "memberships", "users", "events", "facts", "processes", "page"):
            seen = await bob.see(f"select to_jsonb(v)::text from burn.{view} v")
            assert not [each for each in seen if "alice" in each or "secret" in each]
        await bob.send(bob.joining(await alice.thread()))
        texts = "select data ->> 'text' from burn.events where type = 'text'"
        assert await bob.see(texts) == ["a secret"]
        assert await bob.see(MEMBERS, ["member"]) == ["bob"]
        assert await alice.see("select name from burn.users where type = 'human' order by 1") == [
            "alice",
            "bob",
        ]


async def test_roles_are_not_claimed(conn: AsyncConnection, dsn: str) -> None:
    """Flaw 7: who joins is a member, whatever the request says; nobody adds somebody else."""
    async with stage(conn, dsn) as (alice, bob):
        thread = await alice.thread()
        for role in ("owner", "producer", "comedian", "x"):
            await bob.refused(bob.joining(thread, role), state="42501")
        await bob.send(bob.joining(thread))
        await bob.refused(bob.joining(thread, "owner"), state="42501")
        await alice.refused(alice.joining(thread, user_id=bob.id), state="42501")
        assert await alice.see(MEMBERS, ["owner"]) == ["alice"]


async def test_a_thread_and_its_owner_are_one_request(conn: AsyncConnection, dsn: str) -> None:
    """As the button sends it; repeated, it has its effect once; another's ID is refused."""
    async with stage(conn, dsn) as (alice, bob):
        key = str(uuid4())
        new = mutation(
            "insert", "threads", {"id": key, "name": "Untitled thread 2", "status": "started"}
        )
        for _ in range(2):
            await alice.send(new, alice.joining(key, "owner"))
        count = "select count(*) from agent.event where thread_id = %s"
        assert await value(conn, count, key) == 1
        await bob.refused(new, state="WA019")
        titles = ("", " x", "x" * 81, "a\nb")
        for title in titles:
            wrong = mutation("insert", "threads", {"id": str(uuid4()), "name": title})
            await alice.refused(wrong, state="23514")


@pytest.mark.slow
async def test_memberships_have_the_ids_of_who_joins(conn: AsyncConnection, dsn: str) -> None:
    """A page shows its own row before the database has it; an ID that is taken is refused."""
    async with stage(conn, dsn) as (alice, bob):
        key = str(uuid4())
        owner, member = alice.joining(key, "owner"), bob.joining(key)
        await alice.send(mutation("insert", "threads", {"id": key, "name": "A"}), owner)
        await bob.send(member)
        ids = "select id::text from burn.memberships where thread_id = %s and user_id = any (%s)"
        found = await alice.see(f"{ids} order by role desc", key, [alice.id, bob.id])
        assert found == [owner["key"], member["key"]]
        taken = bob.joining(await alice.thread("Untitled thread 1"), id=owner["key"])
        assert "taken" in await bob.refused(taken, state="WA019")
        again = bob.joining(key)
        await bob.send(again)  # he is a member already
        assert await bob.see(ids, key, [bob.id]) == [member["key"]]
        new = mutation("insert", "threads", {"id": str(uuid4()), "name": "B"})
        opening = bob.joining(new["key"], "owner", id=owner["key"])
        assert "taken" in await bob.refused(new, opening, state="WA019")


async def test_events_are_texts_of_their_author(conn: AsyncConnection, dsn: str) -> None:
    """The author rule: nobody writes for others, as an agent, as the system or as a stranger."""
    async with stage(conn, dsn) as (alice, bob):
        thread = await alice.thread()
        await bob.refused(bob.posting(thread, "hello"), state="WA019")
        await bob.send(bob.joining(thread))
        await bob.refused(bob.posting(thread, "hello", user_id=alice.id), state="42501")
        for kind in ("system", "tool_use", "tool_result"):
            await bob.refused(bob.posting(thread, "hello", type=kind), state="42501")
        forged = {"text": "hello", "name": "roast_user"}
        await bob.refused(bob.posting(thread, "", data=forged), state="42501")
        for text in ("", " \n", "x" * 4001):
            await bob.refused(bob.posting(thread, text), state="23514")
        said = bob.posting(thread, "hello")
        for _ in range(2):
            await bob.send(said)
        authors = "select u.name from burn.events e join burn.users u on u.id = e.user_id"
        assert await alice.see(f"{authors} where e.type = 'text'") == ["bob"]


@pytest.mark.slow
async def test_the_producer_stays(conn: AsyncConnection, dsn: str) -> None:
    """The owner removes comedians and users; nobody the producer, also not by way of its role."""
    async with stage(conn, dsn) as (alice, bob):
        thread = await alice.thread()
        await bob.send(bob.joining(thread))
        assert "producer" in await alice.refused(await alice.removing("sarah"), state="42501")
        async with acting(alice.app, alice.token) as app:
            statement = "select agent.add_member(%s, 'sarah', 'comedian')"
            await refused(app, statement, thread, state="42501")
        await alice.send(await alice.removing("jerry"))
        await alice.send(await alice.removing("bob"))
        everybody = ["owner", "producer", "comedian", "member"]
        assert await alice.see(MEMBERS, everybody) == ["alice", "frankie", "sarah"]
        assert await bob.see("select name from burn.threads where id = %s", thread) == []
        await run_all(conn, f"delete from agent.thread where id = '{thread}'")


@pytest.mark.slow
async def test_members_leave_and_remove_nobody(conn: AsyncConnection, dsn: str) -> None:
    """Flaw 7: leaving works; only an owner removes others."""
    async with stage(conn, dsn) as (alice, bob):
        thread = await alice.thread()
        await bob.send(bob.joining(thread))
        query = "select id::text from burn.memberships where thread_id = %s and user_id = %s"
        (mine,) = await bob.see(query, thread, bob.id)
        (hers,) = await bob.see(query, thread, alice.id)
        await bob.refused(mutation("delete", "memberships", {"id": hers}), state="42501")
        await bob.send(mutation("delete", "memberships", {"id": mine}))
        await bob.refused(mutation("delete", "memberships", {"id": hers}), state="WA019")
        left = "select data ->> 'action' from burn.events order by number desc limit 1"
        assert await alice.see(left) == ["left"]
        names = "select name from burn.users where id = %s"
        assert await alice.see(names, bob.id) == ["bob"]  # what he said keeps its name


async def test_members_rename_a_thread_and_change_nothing_else(
    conn: AsyncConnection, dsn: str
) -> None:
    """The name follows its rule; a stranger's thread does not exist."""
    async with stage(conn, dsn) as (alice, bob):
        row = {"id": await alice.thread(), "name": "Untitled thread 1", "status": "started"}
        rename = mutation("update", "threads", row, name="Hobbies")
        await bob.refused(rename, state="WA019")
        await alice.send(rename)
        assert await alice.see("select name from burn.threads") == ["Hobbies"]
        await alice.refused(mutation("update", "threads", row, status="completed"), state="22023")
        await alice.refused(mutation("update", "threads", row, name=""), state="23514")


WRONG: list[tuple[Any, str]] = [
    ({}, "22023"),
    ([], "22023"),
    ([{}] * 101, "22023"),
    ([{}], "22023"),
    ([1], "22023"),
    ([mutation("insert", "facts", {"id": str(uuid4())})], "22023"),
    ([mutation("delete", "threads", {"id": str(uuid4())})], "22023"),
    ([mutation("update", "users", {"id": str(uuid4())}, name="x")], "22023"),
    ([mutation("insert", "threads", {"id": "x", "name": "x"})], "22P02"),
    ([mutation("delete", "memberships", {"id": "'; drop table x"})], "22P02"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("given", "state"), WRONG)
async def test_other_mutations_are_refused(
    conn: AsyncConnection, dsn: str, given: object, state: str
) -> None:
    """With an error that says what can be sent."""
    async with stage(conn, dsn) as (alice, _), acting(alice.app, alice.token) as app:
        await refused(app, "select burn.ingest(%s)", cast("str", _json(given)), state=state)


def _json(given: object) -> object:
    return payload(*given) if isinstance(given, list) else "{}"


async def test_a_request_is_one_transaction(conn: AsyncConnection, dsn: str) -> None:
    """If one mutation is refused, none is applied."""
    async with stage(conn, dsn) as (alice, bob):
        thread = await alice.thread()
        await bob.refused(bob.joining(thread), bob.joining(thread, "owner"), state="42501")
        assert await rows(conn, "select from agent.member where principal = 'bob'") == [()]
