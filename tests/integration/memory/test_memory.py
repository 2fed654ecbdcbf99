"""What an agent remembers: stored, merged, replaced, recalled and removed."""

import json
from typing import cast
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, message_of, refused, role, rows, run_all, session, value
from tests.helpers.queue import set_clock
from walagent.message import Json


async def remember(conn: AsyncConnection, text: Json, agent: str = "bot", **fields: Json) -> UUID:
    """Store a memory as a person."""
    named = "".join(f", {name} => %s" for name in fields)
    query = f"select agent.remember(%s, %s{named})"
    return cast("UUID", await value(conn, query, agent, json.dumps(text), *fields.values()))


async def recalled(
    conn: AsyncConnection, query: str | None = None, agent: str = "bot"
) -> list[Json]:
    """The values that an agent recalls, best first."""
    return await column(conn, "select value from agent.recall(%s, %s, k => 20)", agent, query)


async def test_a_memory_is_recalled_in_another_session_and_its_accesses_count(
    conn: AsyncConnection, dsn: str
) -> None:
    """Reading it back is what memory is for: `recall` writes, so it is volatile."""
    await remember(conn, "Sarah likes green tea", key="drink")
    await remember(conn, {"city": "Oslo"}, kind="episodic")
    async with session(dsn) as other:
        assert await recalled(other, "Which tea?") == ["Sarah likes green tea"]
        assert await recalled(other, "oslo") == [{"city": "Oslo"}]
        assert await recalled(other, "chess") == []
        assert len(await recalled(other)) == 2
    counts = "select access_count, accessed_at is not null from agent.memory order by kind"
    assert await rows(conn, counts) == [(2, True), (2, True)]


async def test_a_read_only_transaction_recalls_without_counting(conn: AsyncConnection) -> None:
    """As on a standby."""
    await remember(conn, "tea")
    async with conn.transaction():
        await run_all(conn, "set transaction read only")
        assert await recalled(conn, "tea") == ["tea"]
    assert await value(conn, "select access_count from agent.memory") == 0


async def test_equal_memories_are_merged(conn: AsyncConnection) -> None:
    """With the greater importance and the later expiry."""
    first = await remember(conn, "likes tea", importance=0.3, expires_at="2100-01-01")
    assert await remember(conn, "likes tea", importance=0.9, expires_at="2200-01-01") == first
    assert await remember(conn, "likes tea", kind="episodic") != first
    assert await remember(conn, "likes tea", agent="other") != first
    found = "select importance, extract(year from expires_at)::int from agent.memory where id = %s"
    assert await rows(conn, found, first) == [(pytest.approx(0.9), 2200)]


async def test_another_value_of_a_key_replaces_the_one_before(conn: AsyncConnection) -> None:
    """What was corrected is kept, and never recalled."""
    first = await remember(conn, "lives in Oslo", key="home")
    second = await remember(conn, "lives in Rome", key="home")
    third = await value(conn, "select agent.correct(%s, %s)", second, '"lives in Bern"')
    assert await recalled(conn, "lives") == ["lives in Bern"]
    assert await rows(conn, "select id, superseded_by from agent.memory order by created_at") == [
        (first, second),
        (second, third),
        (third, None),
    ]
    again = await refused(conn, "select agent.correct(%s, '1')", first, state="WA024")
    assert "replaced" in message_of(again)
    assert await value(conn, "select agent.correct(%s, %s)", third, '"lives in Bern"') == third


async def test_what_is_withdrawn_disputed_expired_or_forgotten(conn: AsyncConnection) -> None:
    """Withdrawn and expired ones do not come back, disputed ones come last."""
    withdrawn = await remember(conn, "tea one")
    disputed = await remember(conn, "tea two", importance=1)
    await remember(conn, "tea three", expires_at="2000-01-01")
    forgotten = await remember(conn, "tea four", key="four")
    newer = await value(conn, "select agent.correct(%s, '\"tea 4\"')", forgotten)
    await run_all(conn, f"select agent.retract('{withdrawn}'), agent.dispute('{disputed}')")
    assert await recalled(conn, "tea") == ["tea 4", "tea two"]
    assert await value(conn, "select agent.forget(%s)", newer) is True
    assert await value(conn, "select agent.forget(%s)", newer) is False
    assert await value(conn, "select count(*) from agent.memory where id = %s", forgotten) == 0
    await refused(conn, "select agent.dispute(%s)", withdrawn, state="WA024")
    assert await value(conn, "select agent.prune_memory()") == 1  # the expired one
    await set_clock(conn, "31 days")
    assert await value(conn, "select agent.prune_memory()") == 1
    assert await recalled(conn) == ["tea two"]


async def test_the_retention_of_runs_removes_old_memories(conn: AsyncConnection) -> None:
    """The reader's job calls it."""
    await remember(conn, "old", expires_at="2000-01-01")
    await run_all(conn, "select agent_internal.prune_rest('1 day')")
    assert await value(conn, "select count(*) from agent.memory") == 0


async def test_a_memory_of_a_thread_is_recalled_there_alone(conn: AsyncConnection) -> None:
    """One of no thread is recalled everywhere."""
    here, there = await column(
        conn, "insert into agent.thread (title) values ('a'), ('b') returning id"
    )
    await remember(conn, "tea here", thread_id=here)
    await remember(conn, "tea there", thread_id=there)
    await remember(conn, "tea everywhere")
    query = "select value from agent.recall('bot', 'tea', thread_id => %s) order by 1"
    assert await column(conn, query, here) == ["tea everywhere", "tea here"]
    assert await recalled(conn, "tea") == ["tea everywhere"]
    await run_all(conn, f"delete from agent.thread where id = '{here}'")
    assert await value(conn, "select count(*) from agent.memory") == 2


async def test_rank_similarity_and_importance_order_what_is_recalled(conn: AsyncConnection) -> None:
    """The more of the words and the more important, the earlier; a typo is found with pg_trgm."""
    await remember(conn, "Frankie keeps bees", importance=0.1)
    await remember(conn, "Frankie keeps bees and sells honey", importance=0.1)
    await remember(conn, "Frankie keeps a diary", importance=1)
    assert (await recalled(conn, "bees honey"))[0] == "Frankie keeps bees and sells honey"
    assert (await recalled(conn, "keeps"))[0] == "Frankie keeps a diary"
    assert await recalled(conn, "honny") == []
    await run_all(conn, "create extension pg_trgm")
    assert await recalled(conn, "honny") == ["Frankie keeps bees and sells honey"]


@pytest.mark.parametrize("extension", [False, True])
async def test_embeddings_find_what_has_no_word_in_common(
    conn: AsyncConnection, *, extension: bool
) -> None:
    """With `vector` and with arrays alike; embeddings of another model are not compared."""
    available = "select exists (select from pg_available_extensions where name = 'vector')"
    if extension:
        if not await value(conn, available):
            pytest.skip("the server has no pgvector")
        await run_all(conn, "create extension vector")
    for text, vector, model in [
        ("a cat", [1.0, 0.0], "m"),
        ("a dog", [0.6, 0.8], "m"),
        ("a car", [1.0, 0.0], "other"),
        ("a bus", [1.0, 0.0, 0.0], "m"),
    ]:
        await remember(conn, text, embedding=vector, embedding_model=model)
    found = await rows(
        conn,
        "select value, score from agent.recall('bot', 'kitten', embedding => '{1,0}',"
        " embedding_model => 'm')",
    )
    assert found == [("a cat", pytest.approx(0.425)), ("a dog", pytest.approx(0.255))]


async def test_agents_do_not_recall_one_another(conn: AsyncConnection) -> None:
    """Neither by name nor by a key that both use."""
    await remember(conn, "mine", key="k")
    await remember(conn, "theirs", agent="other", key="k")
    assert await recalled(conn) == ["mine"]
    assert await recalled(conn, agent="other") == ["theirs"]


async def test_tenants_do_not_share_memories(conn: AsyncConnection) -> None:
    """An agent of the same name in another tenant has its own."""
    await run_all(
        conn,
        """
        insert into agent.tenant (name) values ('a'), ('b');
        insert into agent.principal (tenant, name) values ('a', 'ann'), ('b', 'bob');
        insert into agent.role_grant (tenant, principal, role, granted_by)
        values ('a', 'ann', 'developer', 'test'), ('b', 'bob', 'developer', 'test');
        """,
    )
    ids = {}
    for tenant, name in [("a", "ann"), ("b", "bob")]:
        async with conn.transaction():
            await conn.execute("select agent_internal.assume(%s, %s)", [tenant, name])
            ids[tenant] = await remember(conn, f"secret of {tenant}", key="k")
    async with role(conn) as login:
        await run_all(
            conn,
            f"select agent.grant_developer('{login}');"
            f"update agent.principal set login = '{login}' where name = 'ann'",
        )
        async with session(conn.info.dsn, user=login) as ann:
            assert await recalled(ann) == ["secret of a"]
            assert await column(ann, "select value from agent.memory") == ["secret of a"]
            for name in ("forget", "retract", "dispute"):
                statement = f"select agent.{name}(%s)"
                if name == "forget":
                    assert await value(ann, statement, ids["b"]) is False
                else:
                    await refused(ann, statement, ids["b"], state="WA024")
            await refused(ann, "select agent.correct(%s, '1')", ids["b"], state="WA024")
            await run_all(conn, "delete from agent.role_grant")
            await refused(ann, "select agent.remember('bot', '1')", state="42501")
            await refused(ann, "select * from agent.recall('bot')", state="42501")
    assert await column(conn, "select value from agent.memory order by 1") == [
        "secret of a",
        "secret of b",
    ]


@pytest.mark.parametrize(
    "fields",
    [{"kind": "dream"}, {"importance": 2}, {"key": ""}, {"thread_id": str(UUID(int=1))}],
)
async def test_a_memory_that_is_none_is_refused(
    conn: AsyncConnection, fields: dict[str, Json]
) -> None:
    """Nothing is stored."""
    named = "".join(f", {name} => %s" for name in fields)
    await refused(conn, f"select agent.remember('bot', '1'{named})", *fields.values())
    assert await value(conn, "select count(*) from agent.memory") == 0
