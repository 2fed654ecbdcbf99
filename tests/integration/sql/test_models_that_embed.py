"""A model of embeddings answers nothing: it is refused wherever another model is named."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, run_all, value

SETUP = """
create table docs (id bigint primary key, title text, near real[], size text);
alter table docs replica identity full;
insert into agent.model (name, provider, model_id, dimensions) values
    ('e8', 'openai', 'e8', 8), ('e8b', 'openai', 'e8b', 8);
insert into agent.model (name, provider, model_id) values ('chat', 'openai', 'chat');
insert into agent.agent (name, model) values ('writer', 'chat');
"""
EMBED = "select agent.embed('docs', '{title}', 'near', 'e8')"
NAMED = {
    "agent.agent.model": [
        "select agent.attach('docs', 'model=e8')",
        (
            "insert into agent.agent (name, model) values ('odd', 'e8');"
            " select agent.attach('docs', 'agent=odd, writes=[size]')"
        ),
        (
            "select agent.attach('docs', 'chat', name => 'd');"
            " update agent.agent set model = 'e8' where name = 'd'"
        ),
        (
            "select agent.attach('docs', 'chat', name => 'd');"
            " select agent.canary('d', 'model=e8', share => 0.5)"
        ),
        (
            "insert into agent.agent (name, model) values ('odd', 'e8');"
            " select agent.attach_to_threads('odd')"
        ),
    ],
    "agent.agent.fallback": [
        "select agent.attach('docs', 'chat', fallback => 'e8')",
        "update agent.agent set fallback = 'e8' where name = 'writer'",
    ],
    "agent.agent.cascade": [
        "select agent.attach('docs', 'chat', cascade => '{e8}')",
        "update agent.agent set cascade = '{e8}' where name = 'writer'",
    ],
    "agent.persona.model": [
        "insert into agent.persona (name, model) values ('poet', 'e8')",
        "insert into agent.persona (name) values ('poet'); update agent.persona set model = 'e8'",
    ],
    "agent.tool.target": [
        (
            "insert into agent.tool (name, kind, target, effect, llm)"
            " values ('think', 'llm', 'e8', 'idempotent', '{}')"
        ),
    ],
    "agent.workflow_version.source": [
        (
            'select agent.create_workflow(\'w\', \'[{"name": "a", "kind": "model",'
            ' "model": "e8"}]\', \'[]\')'
        ),
    ],
    "agent.attach": ["select agent.attach('docs', model => 'e8', writes => '{size}')"],
    "agent.enrich": [
        "select agent.enrich('docs', '{title}', '{size}', model => 'e8')",
        "select agent.enrich('docs', '{title}', '{size}', model => 'chat', fallback => 'e8')",
        "select agent.enrich('docs', '{title}', '{size}', model => 'chat', cascade => '{e8}')",
    ],
    "agent.complete": [
        "select agent.complete('more', 'select id, title from docs', 'Long?', model => 'e8')",
    ],
}
# What names a model and asks it nothing, and what names one of embeddings.
OTHERS = {
    "agent.batch.model", "agent.budget.model", "agent.embed", "agent.evaluation.model",
    "agent.spend.model",
}  # fmt: skip


@pytest.fixture
async def docs(conn: AsyncConnection) -> AsyncConnection:
    """Create a table, and models of both kinds."""
    await run_all(conn, SETUP)
    return conn


@pytest.mark.parametrize("statement", [each for all_of in NAMED.values() for each in all_of])
async def test_a_model_of_embeddings_is_not_asked_for_anything_else(
    docs: AsyncConnection, statement: str
) -> None:
    """The error says what it is, and the hint what to use."""
    with pytest.raises(psycopg.Error) as found:
        await run_all(docs, statement)
    said = f"{found.value} {found.value.diag.message_detail} {found.value.diag.message_hint}"
    assert 'model "e8" makes embeddings, and answers nothing' in said
    assert "Use a model without dimensions" in said


async def test_each_place_that_names_a_model_is_tested(conn: AsyncConnection) -> None:
    """Columns of tables, and arguments of functions."""
    found = await column(
        conn,
        "select format('agent.%I.%I', c.relname, a.attname) from pg_attribute a"
        "  join pg_class c on c.oid = a.attrelid"
        " where c.relnamespace = 'agent'::regnamespace and c.relkind in ('r', 'p')"
        "   and a.attname = any (array['model', 'fallback', 'cascade', 'judge'])"
        " union select format('agent.%I', proname) from pg_proc"
        " where pronamespace = 'agent'::regnamespace"
        "   and proargnames && array['model', 'fallback', 'cascade', 'judge']",
    )
    tested = {*NAMED, *OTHERS} - {"agent.tool.target", "agent.workflow_version.source"}
    judged = "agent.evaluation.judge"  # see the tests of walagent replay
    assert set(found) == {*tested, judged}


@pytest.mark.parametrize(
    "arguments", ["'docs', 'chat', {} => array[null]::text[]", "'docs', '{{\"{}\": [null]}}'"]
)
async def test_no_list_has_an_element_that_is_null(docs: AsyncConnection, arguments: str) -> None:
    """It would be no name of a column, a tool or a model."""
    keys = await column(
        docs,
        "select k.key from agent_internal.attach_keys() k join pg_attribute a"
        "    on a.attrelid = format('agent.%I', k.of)::regclass and a.attname = k.column"
        " where a.atttypid = 'text[]'::regtype",
    )
    assert "cascade" in keys
    for key in keys:
        name = "ops" if key == "on" and "=>" in arguments else key
        with pytest.raises(psycopg.Error) as found:
            await run_all(docs, f"select agent.attach({arguments.format(name)})")
        assert found.value.sqlstate == "WA010", (key, found.value)
        assert str(found.value).startswith(f"{key}: "), found.value
    with pytest.raises(psycopg.Error, match="expected the name of a model, found NULL"):
        await run_all(docs, "update agent.agent set cascade = array[null]::text[]")


@pytest.mark.parametrize(
    "change",
    [
        "model_id = 'other'",
        "provider = 'scripted'",
        "dimensions = 9",
        "dimensions = null",
        "model_id = 'other', enabled = false",
    ],
)
async def test_a_model_stays_what_it_is_while_its_embeddings_are_kept(
    docs: AsyncConnection, change: str
) -> None:
    """Those of another could not be compared with them; a moved server or a new price can."""
    await run_all(docs, EMBED)
    with pytest.raises(psycopg.Error) as found:
        await run_all(docs, f"update agent.model set {change} where name = 'e8'")
    assert found.value.sqlstate == "WA014"
    assert 'column "near" of public.docs has its embeddings, of attachment "docs_near"' in str(
        found.value
    ).replace("of docs", "of public.docs")
    assert "agent.detach('docs_near')" in (found.value.diag.message_hint or "")
    await run_all(
        docs,
        "update agent.model set base_url = 'http://localhost:1/v1', input_price = 1"
        " where name = 'e8'; select agent.detach('docs_near')",
    )
    await run_all(docs, f"update agent.model set {change} where name = 'e8'")


@pytest.mark.parametrize(
    "second",
    [
        "select agent.embed('docs', '{title}', 'near', 'e8b', name => 'second')",
        "select agent.embed('docs', '{title}', 'near', 'e8b', name => 'second', paused => true)",
        (
            "select agent.embed('docs', '{id}', 'near', 'e8', name => 'second');"
            " update agent.agent set model = 'e8b' where name = 'second'"
        ),
        (
            "alter table docs add far real[];"
            " select agent.embed('docs', '{title}', 'far', 'e8b', name => 'second');"
            " update agent.attachment set writes = '{near}' where name = 'second'"
        ),
    ],
)
async def test_two_attachments_do_not_mix_embeddings_in_a_column(
    docs: AsyncConnection, second: str
) -> None:
    """Those of one model they do write."""
    await run_all(docs, EMBED)
    await run_all(docs, "select agent.embed('docs', '{title}', 'near', 'e8', name => 'same')")
    with pytest.raises(psycopg.Error) as found:
        await run_all(docs, second)
    assert (found.value.sqlstate, "cannot be compared" in str(found.value)) == ("WA013", True)
    assert await value(docs, "select count(*) from agent.attachment") == 2


async def test_a_column_that_is_not_null_is_refused(docs: AsyncConnection) -> None:
    """A row without a text has no embedding; the hint is the statement that allows it."""
    await run_all(docs, "alter table docs alter near set not null")
    with pytest.raises(psycopg.Error, match="is NOT NULL") as found:
        await run_all(docs, EMBED)
    await run_all(docs, found.value.diag.message_hint or "")
    await run_all(docs, EMBED)
