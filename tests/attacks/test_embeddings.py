"""Embeddings against roles that must not write or read, rows of others, and types of others."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import as_role, column, refused, role, rows, run_all, value
from walagent.message import ModelSpec, Reply, Request, Stop, Text, ToolCall
from walagent.models.limits import ModelLimits
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.worker_models import Models

CAPABILITIES = ("runner", "viewer", "developer", "approver", "asker", "member")
TABLE = """
create table docs (id bigint primary key, owner text, title text, secret text, embedding real[]);
alter table docs replica identity full;
insert into agent.model (name, provider, model_id, dimensions) values ('fake', 'scripted', 's', 2);
"""
EMBED = "select agent.embed('docs', '{{title}}', 'embedding', 'fake', run_as => '{}'{})"
SPEC = ModelSpec("fake", "scripted", "s", input_price=0.0, output_price=0.0, dimensions=2)


def embedding(request: Request) -> Reply:
    """Answer as a model of embeddings, with two numbers."""
    (text,) = (part.text for part in request.messages[0].parts if isinstance(part, Text))
    arguments = {request.embeds: [float(len(text)), 1.0]}
    return Reply((ToolCall("embedding", request.tools[0].name, arguments),), Stop.TOOL)


@asynccontextmanager
async def working(
    conn: AsyncConnection, dsn: str, models: Mapping[str, ModelSpec] | None = None
) -> AsyncIterator[tuple[Daemon, dict[str, ScriptedModel]]]:
    """Start a daemon with a model of embeddings for each spec."""
    specs = dict(models or {"fake": SPEC})
    made = {label: ScriptedModel([embedding] * 9, spec=spec) for label, spec in specs.items()}
    registry = Models(specs, lambda spec: made[spec.label], ModelLimits())
    async with daemon(conn, dsn, registry) as d:
        yield d, made


async def test_a_role_that_cannot_write_the_column_writes_none(
    conn: AsyncConnection, dsn: str
) -> None:
    """The model's answer has the rights of run_as, and no others."""
    await run_all(conn, TABLE)
    async with role(conn) as agent, working(conn, dsn) as (d, _):
        await run_all(conn, f"grant select, update (title) on docs to {agent}")
        await run_all(conn, EMBED.format(agent, ""))
        await run_all(conn, "insert into docs (id, title) values (1, 'a')")
        await d.ended(1, attachment="docs_embedding")
        assert await value(conn, "select count(embedding) from docs") == 0
        said = "select content ->> 'content' from agent.step where kind = 'result' limit 1"
        assert "permission denied" in await value(conn, said)


async def test_columns_that_the_role_cannot_read_are_not_embedded(conn: AsyncConnection) -> None:
    """An embedding says what its text says."""
    await run_all(conn, TABLE)
    async with role(conn) as agent:
        await run_all(conn, f"grant select (id, title), update on docs to {agent}")
        hidden = EMBED.format(agent, "").replace("{title}", "{title,secret}")
        error = await refused(conn, hidden, state="42501")
        assert "secret" in str(error)
        assert await value(conn, "select count(*) from agent.attachment") == 0


async def test_a_row_that_a_policy_hides_is_not_written(conn: AsyncConnection, dsn: str) -> None:
    """Its run ends without an effect."""
    await run_all(conn, TABLE)
    async with role(conn) as agent, working(conn, dsn) as (d, _):
        await run_all(
            conn,
            f"grant select, update on docs to {agent}; alter table docs enable row level security;"
            f" create policy own on docs using (owner = current_user)",
        )
        await run_all(conn, EMBED.format(agent, ""))
        await conn.execute(
            "insert into docs (id, owner, title) values (1, %s, 'mine'), (2, 'other', 'theirs')",
            [agent],
        )
        await d.ended(2, attachment="docs_embedding")
        assert await column(conn, "select id from docs where embedding is not null") == [1]


async def test_a_row_is_embedded_by_the_model_of_its_tenant(
    conn: AsyncConnection, dsn: str
) -> None:
    """Never with the key of another."""
    await run_all(conn, TABLE)
    await run_all(
        conn,
        "insert into agent.tenant (name) values ('acme'), ('umbra');"
        " insert into agent.model (name, provider, model_id, dimensions, tenant)"
        " values ('fake', 'scripted', 'own', 2, 'acme')",
    )
    own = ModelSpec("fake", "scripted", "own", dimensions=2, tenant="acme")
    async with working(conn, dsn, {"fake": SPEC, own.label: own}) as (d, made):
        await run_all(conn, EMBED.format("postgres", ", tenant => 'owner'"))
        await run_all(
            conn,
            "insert into docs (id, owner, title) values (1, 'acme', 'of acme'),"
            " (2, 'umbra', 'of umbra')",
        )
        await d.until("select count(embedding) = 2 from docs")
        said = {
            label: [str(one.messages) for one in model.requests] for label, model in made.items()
        }
    assert ["of acme" in each for each in said[own.label]] == [True]
    assert ["of umbra" in each for each in said["fake"]] == [True]
    tenants = "select tenant from agent.run where change ->> 'table' = 'docs' order by id"
    assert await column(conn, tenants) == ["acme", "umbra"]


async def test_an_embedding_starts_no_run_of_its_own(conn: AsyncConnection, dsn: str) -> None:
    """Nor does it where the column is among those that start another's runs, which has a depth."""
    await run_all(conn, TABLE)
    async with working(conn, dsn) as (d, _):
        await run_all(conn, EMBED.format("postgres", ""))
        await run_all(conn, "insert into docs (id, title) values (1, 'a')")
        await d.until("select count(embedding) = 1 from docs")
        await d.caught_up()
    runs = "select count(*) from agent.run where change ->> 'table' = 'docs'"
    assert await value(conn, runs) == 1


async def test_a_type_that_is_only_called_vector_is_refused(conn: AsyncConnection) -> None:
    """Its input function would be code of somebody else."""
    await run_all(conn, TABLE)
    await run_all(conn, "create type vector as (x real); alter table docs add near vector")
    statement = "select agent.embed('docs', '{title}', 'near', 'fake')"
    error = await refused(conn, statement, state="WA013")
    assert "holds no embedding" in str(error)


@pytest.mark.parametrize("capability", CAPABILITIES)
async def test_who_may_not_attach_may_not_embed(conn: AsyncConnection, capability: str) -> None:
    """Only a developer may, and of a table that it can read and write."""
    await run_all(conn, TABLE)
    async with role(conn) as user:
        await run_all(conn, f"select agent.grant_{capability}('{user}')")
        async with as_role(conn, user):
            await refused(conn, EMBED.format(user, ""), state="42501")
        await run_all(conn, f"grant all on docs to {user}")
        async with as_role(conn, user):
            if capability == "developer":
                await run_all(conn, EMBED.format(user, ""))
            else:
                await refused(conn, EMBED.format(user, ""), state="42501")


async def test_a_lower_role_reads_no_model_that_is_not_its_own(conn: AsyncConnection) -> None:
    """The hint names the models of the tenant, and shared ones."""
    await run_all(conn, TABLE)
    await run_all(
        conn,
        "insert into agent.tenant (name) values ('acme');"
        " insert into agent.model (name, provider, model_id, dimensions, tenant)"
        " values ('theirs', 'scripted', 's', 2, 'acme');"
        " insert into agent.model (name, provider, model_id) values ('chat', 'scripted', 's')",
    )
    statement = "select agent.embed('docs', '{title}', 'embedding', 'chat')"
    error = await refused(conn, statement, state="WA014")
    assert "theirs" not in f"{error} {error.diag.message_hint}"
    assert await rows(conn, "select * from agent.attachment") == []
