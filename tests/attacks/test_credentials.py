"""The key of a tenant is used for its own runs alone: models of the same names, other keys."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, refused, run_all
from walagent.errors import ModelUnauthorizedError, ModelUnavailableError
from walagent.message import ModelSpec
from walagent.models import build_model
from walagent.models.limits import ModelLimits
from walagent.models.model import Model
from walagent.runs.worker_models import Models
from walagent.store import attachments
from walagent.testing import FakeProvider

TENANTS = ("", "acme", "umbra")  # the shared model, and those of two tenants, have one name


@pytest.fixture
async def providers(conn: AsyncConnection) -> AsyncIterator[Mapping[str, FakeProvider]]:
    """A server for each scope, which accepts only its own key; and a model `fake` at each."""
    await run_all(
        conn, DESK + "insert into agent.tenant (name) values ('acme'), ('umbra'), ('plain')"
    )
    await run_all(conn, "delete from agent.model where name = 'fake'")
    async with AsyncExitStack() as stack:
        found = {
            tenant: await stack.enter_async_context(FakeProvider(["done"] * 20))
            for tenant in TENANTS
        }
        for tenant, provider in found.items():
            provider.key = f"key-of-{tenant or 'all'}"
            await conn.execute(
                "insert into agent.model (tenant, name, provider, model_id, base_url, credential)"
                " values (nullif(%s, ''), 'fake', 'openai', 'fake-model', %s, %s)",
                [tenant, provider.spec("openai").base_url, _credential(tenant)],
            )
        yield found


def _credential(tenant: str) -> str:
    return f"{tenant.upper() or 'SHARED'}_API_KEY"


async def _registry(conn: AsyncConnection, providers: Mapping[str, FakeProvider]) -> Models:
    environ = {_credential(tenant): each.key for tenant, each in providers.items()}
    environ["OPENAI_API_KEY"] = "key-of-all"

    def build(spec: ModelSpec) -> Model:
        return build_model(spec, environ=environ)

    return Models(await attachments.load_registry(conn), build, ModelLimits())


async def test_the_key_of_a_tenant_is_used_for_its_own_runs_alone(
    conn: AsyncConnection, dsn: str, providers: Mapping[str, FakeProvider]
) -> None:
    """Also if the attachment of one makes runs of another, which has a model of that name, too."""
    models = await _registry(conn, providers)
    await run_all(conn, "create table ticket (id bigint primary key, tenant_id text, body text)")
    async with daemon(conn, dsn, models) as d:
        await conn.execute(
            "select agent.attach('ticket', 'model=fake, name=desk, tenant=tenant_id')"
        )
        for n, tenant in enumerate(("acme", "umbra", "plain", "default") * 3):
            await conn.execute(
                "insert into ticket values (%s, %s, %s)", [n, tenant, f"row of {tenant}"]
            )
        await d.until("select count(*) = 12 from agent.run where state = 'succeeded'")
    await models.aclose()
    for tenant, provider in providers.items():
        said = json.dumps([received.body for received in provider.received])
        keys = {received.headers["authorization"] for received in provider.received}
        assert keys == {f"Bearer {provider.key}"}
        assert provider.requests == len(provider.received)  # no other key arrived
        expected = {"acme": {"acme"}, "umbra": {"umbra"}}.get(tenant, {"plain", "default"})
        for name in ("acme", "umbra", "plain", "default"):
            assert (f"row of {name}" in said) is (name in expected), (tenant, name)


async def test_a_model_of_another_tenant_is_no_model(
    conn: AsyncConnection, providers: Mapping[str, FakeProvider]
) -> None:
    """Neither by its name, nor by its label, nor while one's own is disabled."""
    await run_all(
        conn,
        "delete from agent.model where tenant is null;"
        "update agent.model set enabled = false where tenant = 'umbra'",
    )
    models = await _registry(conn, providers)
    assert models.get("fake", "acme").spec.tenant == "acme"
    for name, tenant in (
        ("fake", "umbra"), ("fake", ""), ("fake", "plain"), ("acme/fake", "umbra"),
        ("acme/fake", ""), ("fake", "default"),
    ):  # fmt: skip
        with pytest.raises(ModelUnavailableError):
            models.get(name, tenant)
    await models.aclose()


async def test_a_disabled_model_of_a_tenant_is_not_replaced_by_the_shared_one(
    conn: AsyncConnection, providers: Mapping[str, FakeProvider]
) -> None:
    """Who disabled it does not want its agents to go on with another key."""
    await run_all(conn, "update agent.model set enabled = false where tenant = 'umbra'")
    models = await _registry(conn, providers)
    with pytest.raises(ModelUnavailableError):
        models.get("fake", "umbra")
    assert models.get("fake", "plain").spec.tenant == ""
    await models.aclose()


async def test_a_model_of_a_tenant_without_credential_has_no_key(
    conn: AsyncConnection, providers: Mapping[str, FakeProvider]
) -> None:
    """The keys that providers find in the environment are those of the shared models."""
    await run_all(
        conn, "update agent.model set credential = null, base_url = null where tenant = 'umbra'"
    )
    models = await _registry(conn, providers)
    with pytest.raises(ModelUnauthorizedError, match="has no credential"):
        models.get("fake", "umbra")
    await models.aclose()


async def test_a_credential_belongs_to_one_tenant(
    conn: AsyncConnection, providers: Mapping[str, FakeProvider]
) -> None:
    """A model of another one, or a shared one, cannot name it."""
    assert len(providers) == len(TENANTS)
    for tenant, credential in (
        ("plain", "ACME_API_KEY"), (None, "ACME_API_KEY"), ("plain", "SHARED_API_KEY"),
    ):  # fmt: skip
        error = await refused(
            conn,
            "insert into agent.model (tenant, name, provider, model_id, credential)"
            " values (%s, 'other', 'openai', 'x', %s)",
            tenant,
            credential,
            state="WA014",
        )
        assert credential in str(error)
    await refused(
        conn,
        "update agent.model set credential = 'ACME_API_KEY' where tenant = 'umbra'",
        state="WA014",
    )
    await run_all(
        conn,
        "insert into agent.model (tenant, name, provider, model_id, credential)"
        " values ('acme', 'other', 'openai', 'x', 'ACME_API_KEY')",
    )
