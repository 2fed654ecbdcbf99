"""`agent.embed` keeps the embedding of columns of a row in another of its columns."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import column, rows, run_all, value
from walagent.message import Json
from walagent.models import build_model
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.wire_format import Body
from walagent.runs.worker_models import Models
from walagent.testing import FakeProvider
from walagent.testing.fake_embeddings import vector_of

MODEL = (
    "insert into agent.model (name, provider, model_id, dimensions, context_window, input_price,"
    " output_price) values ('fake', 'openai', 'fake-model', 8, 100, 10, 0)"
)
TABLE = """
create table docs (
    id        bigint primary key,
    title     text,
    body      text,
    embedding vector(8),
    views     integer not null default 0
);
alter table docs replica identity full;
insert into docs values (1, 'old', 'row');
"""
EMBED = (
    "select agent.embed('docs', columns => '{title,body}', writes => 'embedding',"
    " model => 'fake'%s)"
)
RUNS = "select count(*) from agent.run where change ->> 'table' = 'docs'"


async def with_vectors(conn: AsyncConnection) -> None:
    """Create the extension, or skip the test where the server does not have it."""
    ready = "select exists (select from pg_available_extensions where name = 'vector')"
    if not await value(conn, ready):
        pytest.skip("the server has no pgvector")
    await run_all(conn, "create extension vector")


@dataclass(frozen=True, slots=True)
class Desk:
    """A daemon, and the provider that it asks."""

    daemon: Daemon
    provider: FakeProvider
    conn: AsyncConnection

    def meanwhile(self, statement: str) -> None:
        """Execute a statement while the next embedding is made, as an application does."""
        left = [statement]

        def spoil(answer: Body) -> Body:
            if left:
                change(self.conn, left.pop())
            return answer

        self.provider.embeddings.spoil = spoil

    async def in_step(self) -> None:
        """Wait until each row of docs has the embedding of its text."""
        await self.daemon.caught_up()
        await self.daemon.until(
            "select not exists (select from agent.run r where r.change ->> 'table' = 'docs'"
            " and not agent_internal.is_final(r.state))"
            " and not exists (select from agent.backfill where finished_at is null)"
        )
        assert await stale(self.conn) == []


def change(conn: AsyncConnection, statement: str) -> None:
    """Execute a statement in a session beside that of *conn*."""
    with psycopg.connect(conn.info.dsn, autocommit=True) as beside:
        beside.execute(statement.encode())


async def stale(conn: AsyncConnection) -> list[Json]:
    """Return the keys of rows whose embedding is not that of their text."""
    found = await rows(
        conn,
        "select id, concat_ws(e'\\n', title, body), embedding::real[] from docs order by id",
    )
    return [
        key
        for key, text, vector in found
        if (vector and [round(each, 6) for each in vector])
        != (vector_of(text) if text.strip() else None)
    ]


@asynccontextmanager
async def desk(
    conn: AsyncConnection, dsn: str, *, table: str = TABLE, **fields: Json
) -> AsyncIterator[Desk]:
    """Start a daemon with a model of embeddings."""
    await with_vectors(conn)
    await run_all(conn, f"{MODEL}; {table}")
    async with FakeProvider() as fake:
        given = {"dimensions": 8, "context_window": 100, "input_price": 10.0, "output_price": 0.0}
        spec = fake.spec("openai", **{**given, **fields})
        model = build_model(spec, environ=fake.environ)
        registry = Models({"fake": spec}, lambda _: model, ModelLimits(LimitSettings(pause=0.01)))
        try:
            async with daemon(conn, dsn, registry) as d:
                yield Desk(d, fake, conn)
        finally:
            await model.aclose()


async def test_the_embedding_follows_what_it_is_made_of(conn: AsyncConnection, dsn: str) -> None:
    """Of rows that exist, that are new, and whose sources change; at no other change."""
    async with desk(conn, dsn) as d:
        await run_all(conn, EMBED % "")
        await d.in_step()
        await run_all(
            conn, "insert into docs values (2, 'new', null), (3, null, null), (4, ' ', '')"
        )
        await d.in_step()
        assert await column(conn, "select id from docs where embedding is null order by id") == [
            3,
            4,
        ]
        await run_all(conn, "update docs set views = 1")
        await run_all(conn, "update docs set body = 'x' where id = 2")
        await run_all(conn, "update docs set title = null, body = null where id = 1")
        await d.in_step()
        assert d.provider.embeddings.texts == ["old\nrow", "new", "new\nx"]
        assert await value(conn, RUNS) == 6
        assert float(await value(conn, "select sum(cost) from agent.step")) == pytest.approx(5e-5)


async def test_texts_of_concurrent_runs_are_sent_together(conn: AsyncConnection, dsn: str) -> None:
    """In fewer requests than rows; each run has its own reply, tokens and cost."""
    async with desk(conn, dsn) as d:
        await run_all(conn, "insert into docs select n, 't' || n from generate_series(2, 40) n")
        await run_all(conn, EMBED % "")
        await d.in_step()
        assert len(d.provider.embeddings.requests) <= 20
        assert len(d.provider.embeddings.texts) == 40
        used = "select sum(input_tokens) from agent.step where kind = 'reply'"
        said = sum(len(text) // 4 + 1 for text in d.provider.embeddings.texts)
        assert await value(conn, used) == said


async def test_texts_of_two_tenants_are_in_no_request(conn: AsyncConnection, dsn: str) -> None:
    """A text of one that is refused, or long, does nothing to those of another."""
    async with desk(conn, dsn) as d:
        await run_all(conn, "select agent.create_tenant('acme'), agent.create_tenant('globex')")
        await run_all(conn, "alter table docs add org text; update docs set org = 'acme'")
        await run_all(
            conn,
            "insert into docs (id, org, title) select n, (array['acme', 'globex'])[n % 2 + 1],"
            " (array['acme', 'globex'])[n % 2 + 1] || n from generate_series(2, 20) n",
        )
        await run_all(conn, EMBED % ", tenant => 'org'")
        await d.in_step()
        whose = [{"globex" in text for text in texts} for texts in d.provider.embeddings.requests]
        assert all(len(tenants) == 1 for tenants in whose)
        assert len(d.provider.embeddings.texts) == 20


async def test_an_embedding_of_former_values_is_not_written(
    conn: AsyncConnection, dsn: str
) -> None:
    """The run of the first change leaves the row; that of the second writes."""
    async with desk(conn, dsn) as d:
        await run_all(conn, EMBED % ", backfill => false")
        d.meanwhile("update docs set title = 'b'")
        await run_all(conn, "update docs set title = 'a'")
        await d.daemon.ended(2, attachment="docs_embedding")
        await d.in_step()
    found = "select content ->> 'content' from agent.step where kind = 'result' order by run_id"
    assert await column(conn, found) == ["not updated: the row has changed since", "updated"]


async def test_long_values_that_an_update_leaves_are_embedded(
    conn: AsyncConnection, dsn: str
) -> None:
    """The new row in the WAL does not have them: they are read from the old one, and compared."""
    async with desk(conn, dsn, context_window=100_000) as d:
        await run_all(conn, "alter table docs alter body set storage external")
        await run_all(conn, EMBED % "")
        await run_all(conn, "insert into docs values (2, 'a', repeat('long ', 2000))")
        await d.in_step()
        await run_all(conn, "update docs set title = 'b' where id = 2")
        await d.in_step()
        assert d.provider.embeddings.texts[-1] == "b\n" + "long " * 2000
        d.meanwhile("update docs set body = 'short' where id = 2")
        await run_all(conn, "update docs set title = 'c' where id = 2")
        await d.daemon.ended(5, attachment="docs_embedding")
        await d.in_step()
    found = "select count(*) from agent.step where content ->> 'content' like 'not updated%%'"
    assert await value(conn, found) == 1


async def test_a_text_beyond_the_context_window_is_cut(conn: AsyncConnection, dsn: str) -> None:
    """At four characters for each token."""
    async with desk(conn, dsn, context_window=10) as d:
        await run_all(conn, "update docs set title = repeat('x', 100)")
        await run_all(conn, EMBED % "")
        await d.daemon.ended(1, attachment="docs_embedding")
        assert d.provider.embeddings.texts == ["x" * 40]


async def test_a_text_that_is_refused_fails_its_run_alone(conn: AsyncConnection, dsn: str) -> None:
    """The others of its request are sent again, each alone."""
    async with desk(conn, dsn) as d:
        d.provider.embeddings.refuse = lambda texts: 400 if "bad" in texts else 0
        await run_all(conn, "insert into docs select n, 't' || n from generate_series(2, 9) n")
        await run_all(conn, "update docs set title = 'bad', body = null where id = 1")
        await run_all(conn, EMBED % "")
        await d.daemon.ended(9, attachment="docs_embedding")
    assert await stale(conn) == [1]
    failed = "select key from agent.run where state = 'failed'"
    assert await column(conn, failed) == ["1"]


def shorter(answer: Body) -> Body:
    """Send embeddings of another length."""
    return {**answer, "data": [{**each, "embedding": [0.5]} for each in answer["data"]]}


def missing(answer: Body) -> Body:
    """Leave the first embedding out."""
    return {**answer, "data": answer["data"][1:]}


async def test_an_embedding_of_another_length_fails_its_run(
    conn: AsyncConnection, dsn: str
) -> None:
    """And names both lengths."""
    async with desk(conn, dsn) as d:
        d.provider.embeddings.spoil = shorter
        await run_all(conn, EMBED % "")
        ((_, state, _, error),) = await d.daemon.ended(1, attachment="docs_embedding")
        assert state == "failed"
        assert "1 dimensions, expected 8" in str(error)


def of(*numbers: float) -> Callable[[Body], Body]:
    """Send these numbers as each embedding."""
    return lambda answer: {
        **answer,
        "data": [{**each, "embedding": list(numbers)} for each in answer["data"]],
    }


@pytest.mark.parametrize(
    "spoil",
    [shorter, of(*[float("nan")] * 8), of(*[10**400] * 8)],
    ids=["shorter", "NaN", "huge"],
)
async def test_an_embedding_that_cannot_be_used_counts_in_budgets(
    conn: AsyncConnection, dsn: str, spoil: Callable[[Body], Body]
) -> None:
    """The provider charges for it, and would for the next one: none is asked for."""
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'total', 100)"
    await run_all(conn, budget)
    async with desk(conn, dsn) as d:
        d.provider.embeddings.spoil = spoil
        await run_all(conn, EMBED % "")
        ((_, state, _, _),) = await d.daemon.ended(1, attachment="docs_embedding")
        assert state == "failed"
        assert len(d.provider.embeddings.requests) == 1
    spent = "select spent_cost::float8, reserved_cost from agent.budget_overview"
    ((cost, reserved),) = await rows(conn, spent)
    assert (cost, reserved) == (pytest.approx(len("old\nrow") // 4 * 1e-5 + 1e-5), 0)


async def test_an_answer_with_too_few_embeddings_is_not_used(
    conn: AsyncConnection, dsn: str
) -> None:
    """It is asked again, and no text gets the embedding of another."""
    async with desk(conn, dsn) as d:
        answers: list[Body] = []

        def spoil(answer: Body) -> Body:
            answers.append(answer)
            return missing(answer) if len(answers) == 1 else answer

        d.provider.embeddings.spoil = spoil
        await run_all(conn, "insert into docs select n, 't' || n from generate_series(2, 9) n")
        await run_all(conn, EMBED % "")
        await d.daemon.ended(9, attachment="docs_embedding")
        assert await stale(conn) == []


@pytest.mark.parametrize("kind", ["halfvec(8)", "real[]", "double precision[]", "vector"])
async def test_a_column_can_have_several_types(conn: AsyncConnection, dsn: str, kind: str) -> None:
    """`real[]` needs no extension."""
    table = TABLE.replace("vector(8)", kind)
    async with desk(conn, dsn, table=table) as d:
        await run_all(conn, EMBED % "")
        await d.daemon.ended(1, attachment="docs_embedding")
        found = f"select embedding::{'real[]' if 'precision' not in kind else 'float8[]'} from docs"
        vector = await value(conn, found)
        assert vector == pytest.approx(vector_of("old\nrow"), abs=0.001 if "half" in kind else 1e-6)


async def test_a_column_that_is_filled_is_taken_over(conn: AsyncConnection, dsn: str) -> None:
    """Without a backfill, what is there stays until its text changes."""
    async with desk(conn, dsn) as d:
        await run_all(conn, "update docs set embedding = '[1,0,0,0,0,0,0,0]'")
        await run_all(conn, EMBED % ", backfill => false")
        await run_all(conn, "insert into docs values (2, 'new')")
        await d.daemon.ended(1, attachment="docs_embedding")
        assert d.provider.embeddings.texts == ["new"]
        assert await stale(conn) == [1]
        await run_all(conn, "update docs set title = 'x' where id = 1")
        await d.in_step()


async def test_equal_texts_are_embedded_once_with_reuse(conn: AsyncConnection, dsn: str) -> None:
    """As replies of other models are shared."""
    async with desk(conn, dsn) as d:
        await run_all(conn, "insert into docs values (2, 'a'), (3, 'a'), (4, 'b')")
        await run_all(conn, EMBED % ", reuse => '1 day'")
        await d.in_step()
        assert sorted(d.provider.embeddings.texts) == ["a", "b", "old\nrow"]


@pytest.mark.parametrize("sizes", [(5, 300_000), (300_000, 5)])
async def test_a_value_that_is_cut_in_the_change_is_compared_as_it_is(
    conn: AsyncConnection, dsn: str, sizes: tuple[int, int]
) -> None:
    """The old row in the WAL can be cut where the new one is not, and the other way round."""
    was, becomes = (f"update docs set body = repeat('x', {size})" for size in sizes)
    async with desk(conn, dsn) as d:
        await run_all(conn, was)
        await run_all(conn, EMBED % ", backfill => false")
        await run_all(conn, becomes)
        await d.daemon.ended(1, attachment="docs_embedding")
        assert await value(conn, "select count(embedding) from docs") == 1


async def test_a_generated_column_is_embedded(conn: AsyncConnection, dsn: str) -> None:
    """The WAL has it from version 18 on: it is where a text is put together."""
    if conn.info.server_version < 180_000:
        pytest.skip("generated columns are not in the WAL")
    async with desk(conn, dsn) as d:
        said = "alter table docs add said text generated always as ('Title: ' || title) stored"
        await run_all(conn, said)
        await run_all(conn, EMBED.replace("{title,body}", "{said}") % "")
        await d.daemon.ended(1, attachment="docs_embedding")
        await run_all(conn, "update docs set title = 'new'")
        await d.daemon.ended(2, attachment="docs_embedding")
        assert d.provider.embeddings.texts == ["Title: old", "Title: new"]
