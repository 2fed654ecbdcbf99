"""`agent.embed` attaches an agent that keeps an embedding in a column."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import role, rows, run_all, value
from walagent.models.embedded.nearest_label_model import EmbeddedModel

MODELS = (
    "insert into agent.model (name, provider, model_id, dimensions) values"
    " ('small', 'openai', 'small', 3), ('large', 'openai', 'large', 5);"
    " insert into agent.model (name, provider, model_id) values ('chat', 'openai', 'chat')"
)
TABLE = """
create table docs (
    id        bigint primary key,
    title     text,
    body      text,
    embedding real[],
    near      vector(3),
    half      halfvec(5)
);
alter table docs replica identity full;
create table narrow (id bigint primary key, title text, embedding vector(3));
"""
EMBED = (
    "select agent.embed('docs', columns => '{title,body}', writes => 'near', model => 'small'%s)"
)


@pytest.fixture
async def docs(conn: AsyncConnection) -> AsyncConnection:
    """Create models and tables, or skip the test where the server has no pgvector."""
    ready = "select exists (select from pg_available_extensions where name = 'vector')"
    if not await value(conn, ready):
        pytest.skip("the server has no pgvector")
    await run_all(conn, f"create extension vector; {MODELS}; {TABLE}")
    return conn


async def test_it_is_an_attachment_like_others(docs: AsyncConnection) -> None:
    """With a name of its own; another of the table has another name."""
    await run_all(docs, EMBED % "")
    await run_all(
        docs, "select agent.embed('docs', '{body}', 'half', 'large', name => 'bodies', cap => 2)"
    )
    assert await rows(
        docs,
        "select name, ops, columns, writes, only_unchanged, embeds, cap, backfill"
        " from agent.attachment order by id",
    ) == [
        ("docs_near", ["insert", "update"], ["title", "body"], ["near"], True, True, None, True),
        ("bodies", ["insert", "update"], ["body"], ["half"], True, True, 2, True),
    ]
    await run_all(docs, EMBED % ", cap => 3, replace => true")
    assert await value(docs, "select version from agent.attachment where name = 'docs_near'") == 2
    await run_all(docs, "select agent.detach('docs_near')")


@pytest.mark.parametrize(
    ("arguments", "state", "words"),
    [
        ("'{}', 'near', 'small'", "WA010", "columns: must name at least one"),
        ("'{title}', null, 'small'", "WA010", "writes: must name at least one"),
        ("'{title,NULL}', 'near', 'small'", "WA010", "columns: must not contain NULL"),
        ("'{titel}', 'near', 'small'", "WA013", 'Did you mean "title"'),
        ("'{title}', 'nearr', 'small'", "WA013", 'Did you mean "near"'),
        ("'{title}', 'title', 'small'", "WA013", 'column "title" is among those'),
        ("'{title}', 'id', 'small'", "WA013", "primary key"),
        ("'{title}', 'body', 'small'", "WA013", 'column "body" of public.docs is of type'),
        ("'{title}', 'near', 'large'", "WA013", "has 3 dimensions, and embeddings of model"),
        ("'{title}', 'half', 'small'", "WA013", "Use a column of type vector(3)"),
        ("'{title}', 'near', 'chat'", "WA014", 'model "chat" makes no embeddings'),
        ("'{title}', 'near', 'chat'", "WA014", '"embedded/e5" or "large" or "small"'),
        ("'{title}', 'near', 'smal'", "WA014", 'Did you mean "small"'),
        ("'{title}', 'near', 'small', priority => 9999", "WA010", "priority"),
    ],
)
async def test_what_cannot_be_embedded_is_refused(
    docs: AsyncConnection, arguments: str, state: str, words: str
) -> None:
    """And nothing is attached."""
    with pytest.raises(psycopg.Error) as found:
        await run_all(docs, f"select agent.embed('docs', {arguments})")
    assert found.value.sqlstate == state
    assert words in f"{found.value}{found.value.diag.message_hint}"
    assert await value(docs, "select count(*) from agent.attachment") == 0


async def test_old_values_must_be_in_the_wal(docs: AsyncConnection) -> None:
    """An update that leaves a long text would be embedded without it."""
    with pytest.raises(psycopg.Error) as found:
        await run_all(docs, "select agent.embed('narrow', '{title}', 'embedding', 'small')")
    assert found.value.sqlstate == "WA013"
    assert found.value.diag.message_hint == "alter table public.narrow replica identity full"


@pytest.mark.parametrize(
    ("changed", "state", "words"),
    [
        ("writes=[near, half]", "WA013", "one column in writes"),
        ("columns=[]", "WA013", "requires columns"),
        ("on=[insert, delete]", "WA013", "when it is inserted or updated"),
        ("only_unchanged=false", "WA013", "requires only_unchanged"),
        ("tools=[do_nothing]", "WA011", "an embedding calls none"),
        ("fallback=chat", "WA014", "cannot be compared"),
        ("rows_per_request=4", "WA014", "has rows_per_request"),
        ("cascade=[chat]", "WA014", "has cascade"),
    ],
)
async def test_what_has_no_meaning_for_embeddings_is_refused(
    docs: AsyncConnection, changed: str, state: str, words: str
) -> None:
    """Also where it is attached in other ways."""
    given = {
        "model": "small",
        "on": "[insert, update]",
        "columns": "[title]",
        "writes": "[near]",
        "only_unchanged": "true",
        "embeds": "true",
    }
    name, text = changed.split("=")
    spec = ", ".join(f"{key}={each}" for key, each in {**given, name: text}.items())
    with pytest.raises(psycopg.Error) as found:
        await run_all(docs, f"select agent.attach('docs', '{spec}')")
    assert (found.value.sqlstate, words in str(found.value)) == (state, True), found.value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("alter table docs drop column near", 'column "near" of public.docs does not exist'),
        ("alter table docs drop column body", 'column "body" of public.docs does not exist'),
        ("alter table docs alter near type vector(4)", "now has 4 dimensions, and embeddings have"),
        ("alter table docs alter near type text", "no longer holds embeddings"),
        ("alter table docs replica identity default", 'does not include column "title", which is'),
        ("alter table docs alter near set not null", "is NOT NULL, and a row without a text has"),
    ],
)
async def test_a_changed_table_pauses_it_by_name(
    docs: AsyncConnection, change: str, words: str
) -> None:
    """Resuming refuses with the same words; once mended, it goes on."""
    await run_all(docs, EMBED % ", backfill => false")
    await run_all(docs, change)
    ((name, reason),) = await rows(docs, "select * from agent_internal.pause_drifted()")
    assert name == "docs_near"
    assert words in reason
    with pytest.raises(psycopg.Error):
        await run_all(docs, "select agent.resume('docs_near')")


async def test_a_model_of_another_length_is_refused_later_too(docs: AsyncConnection) -> None:
    """The agent keeps the model that it had."""
    await run_all(docs, EMBED % "")
    with pytest.raises(psycopg.Error, match="has 3 dimensions"):
        await run_all(docs, "update agent.agent set model = 'large' where name = 'docs_near'")
    assert await value(docs, "select model from agent.agent where name = 'docs_near'") == "small"


@pytest.mark.parametrize(
    "statement",
    [
        "update agent.agent set model = 'other' where name = 'docs_near'",
        "select agent.embed('docs', '{title,body}', 'near', 'other', replace => true)",
        "select agent.canary('docs_near', 'model=other', share => 0.5)",
    ],
)
async def test_embeddings_of_two_models_are_not_mixed(
    docs: AsyncConnection, statement: str
) -> None:
    """Though they have the same length; what detaches and embeds again has all rows anew."""
    await run_all(
        docs,
        "insert into agent.model (name, provider, model_id, dimensions)"
        " values ('other', 'openai', 'other', 3)",
    )
    await run_all(docs, EMBED % "")
    with pytest.raises(psycopg.Error, match="cannot be compared with those of") as found:
        await run_all(docs, statement)
    assert found.value.sqlstate == "WA013"
    assert await value(docs, "select version from agent.attachment") == 1
    again = "select agent.embed('docs', '{title,body}', 'near', 'other')"
    await run_all(docs, f"select agent.detach('docs_near'); {again}")
    assert await value(docs, "select count(*) from agent.backfill where state = 'pending'") == 1


async def test_a_role_needs_what_attaching_needs(docs: AsyncConnection) -> None:
    """The function adds no right of its own."""
    async with role(docs) as user:
        await run_all(docs, f"set role {user}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await run_all(docs, EMBED % "")
        await run_all(docs, f"reset role; select agent.grant_developer('{user}'); set role {user}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await run_all(docs, EMBED % "")
        await run_all(docs, "reset role")


async def test_the_model_of_this_machine_embeds(docs: AsyncConnection, dsn: str) -> None:
    """Texts that mean the same are near."""
    await run_all(docs, "create table notes (id int primary key, note text, near vector(384))")
    await run_all(docs, "alter table notes replica identity full")
    await run_all(
        docs,
        "insert into notes values (1, 'How do I get my money back?'), (2, 'The printer is broken'),"
        " (3, 'Refund policy')",
    )
    async with daemon(docs, dsn, {"embedded/e5": EmbeddedModel()}) as d:
        await run_all(docs, "select agent.embed('notes', '{note}', 'near', 'embedded/e5')")
        await d.until("select count(near) = 3 from notes")
    nearest = (
        "select id from notes where id <> 1"
        " order by near <=> (select near from notes where id = 1) limit 1"
    )
    assert await value(docs, nearest) == 3
