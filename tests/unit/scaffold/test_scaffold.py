"""A first agents.yaml, from what a database and an environment offer."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from walagent.config.environment import Environment
from walagent.config.loading import parse_text
from walagent.message import Json
from walagent.scaffold.file import Choice, default_prompt, file_of
from walagent.scaffold.models import BY_KEY, ModelOption, find_models, named_model
from walagent.scaffold.tables import TableOption, table_option
from walagent.testing.http_server import HttpServer, Incoming, Outgoing

MIGRATIONS = Path(__file__).parents[3] / "migrations"
NOWHERE = "127.0.0.1:9"


def column(
    name: str, *, not_null: bool = False, text: bool = True, **more: Json
) -> dict[str, Json]:
    """A column as `read_schema` describes it."""
    return {"name": name, "not_null": not_null, "text": text, "values": None, **more}


def table(**more: Json) -> Mapping[str, Json]:
    """A table as `read_schema` describes it."""
    return {
        "schema": "public", "name": "tickets", "quoted": None, "kind": "table", "rows": 20,
        "key": ["id"], "references": None, "checks": None,
        "columns": [column("id", not_null=True, text=False), column("issue", not_null=True)],
        **more,
    }  # fmt: skip


def test_columns_without_a_value_as_yet_are_suggested() -> None:
    """No keys, no references, nothing that the application must fill."""
    found = table_option(
        table(
            columns=[
                column("id", not_null=True), column("issue", not_null=True), column("category"),
                column("customer"), column("amount", text=False),
            ],
            references=[{"columns": ["customer"]}],
        )
    )  # fmt: skip
    assert found.name == "tickets"
    assert list(found.writable(plans=True)) == ["category"]
    assert list(found.writable(plans=False)) == []  # a model that only decides writes no free text


def test_a_list_of_values_is_preferred() -> None:
    """By an enum, or by a check."""
    checks = ["CHECK ((category = ANY (ARRAY['bug'::text, 'billing'::text])))"]
    found = table_option(
        table(
            columns=[column("category"), column("level", values=["a"]), column("note")],
            checks=checks,
        )
    )
    assert list(found.writable(plans=False)) == ["category", "level"]


def test_the_file_can_be_read_and_names_what_was_chosen() -> None:
    """Whatever the instructions and names contain."""
    prompt = 'Say "yes": ${HOME} #1\nand: {go}'
    option = TableOption('sales."Big Table"', None, ["note"], ["note"], [])
    model = ModelOption("qwen3:8b", "", {"provider": "openai", "base_url": "http://localhost/v1"})
    text = file_of(Choice("host=h dbname=d", model, option, prompt, ["note"]))
    config = parse_text(text, "agents.yaml", Environment({}))
    agent = config.agents["Big Table"]
    assert (agent.model, agent.system_prompt) == ("qwen3:8b", prompt)
    assert (agent.attach[0].table, agent.attach[0].writes) == ('sales."Big Table"', ("note",))
    assert config.database.dsn == "host=h dbname=d"
    assert config.models["qwen3:8b"].base_url == "http://localhost/v1"
    assert default_prompt(option, ["note"])


def test_the_suggested_models_are_registered_with_a_price() -> None:
    """One whose cost is unknown is no first choice."""
    registered = "\n".join(path.read_text() for path in sorted(MIGRATIONS.rglob("*.sql")))
    for name in BY_KEY.values():
        row = next(line for line in registered.splitlines() if f"('{name}'" in line)
        assert "null, null, null, null)" not in row


@pytest.mark.parametrize("key", BY_KEY)
def test_a_key_finds_a_model(key: str) -> None:
    """The one of that provider, before others."""
    found = find_models({key: "x", "OLLAMA_HOST": NOWHERE})
    assert found[0].name == BY_KEY[key]
    assert named_model("mine", found).name == "mine"


async def test_the_models_of_ollama_are_asked_for() -> None:
    """With the address that a file must name, since they are registered nowhere."""

    async def answer(_: Incoming) -> Outgoing:
        return Outgoing(200, b'{"models": [{"name": "qwen3:8b"}]}')

    server = HttpServer(answer)
    address = f"127.0.0.1:{await server.start()}"
    try:
        found = await asyncio.to_thread(find_models, {"OLLAMA_HOST": address})
    finally:
        await server.stop()
    assert found[0].name == "qwen3:8b"
    assert found[0].entry == {"provider": "openai", "base_url": f"http://{address}/v1"}


def test_an_empty_key_finds_none() -> None:
    """Nor does Ollama where it does not answer."""
    found = find_models({"OPENAI_API_KEY": " ", "OLLAMA_HOST": NOWHERE})
    assert {each.plans for each in found} <= {False}
