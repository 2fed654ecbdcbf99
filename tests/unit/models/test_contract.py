"""Every provider of the registry keeps what walagent relies on."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from walagent.message import Message, ModelSpec, Request, Text, ToolSpec
from walagent.models import build_model
from walagent.models.registry import BUILT_IN, find_provider
from walagent.testing import PROVIDER_CHECKS, ProviderCheck

REMOTE = sorted(name for name, one in BUILT_IN.items() if one.load_wire is not None)


def scripted(folder: Path) -> ModelSpec:
    """A model that follows a file."""
    (folder / "script.yaml").write_text("replies: [{call: find, arguments: {q: x}}]")
    return ModelSpec("m", "scripted", "script", str(folder / "script.yaml"))


# Rows of providers that are asked without a network.
LOCAL: dict[str, Callable[[Path], ModelSpec]] = {
    "embedded": lambda _: ModelSpec("m", "embedded", "e5"),
    "scripted": scripted,
}


def test_every_provider_has_a_wire_format_or_needs_no_network() -> None:
    """So each is checked below."""
    assert {*REMOTE, *LOCAL} == set(BUILT_IN)


@pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("provider", REMOTE)
async def test_a_provider_keeps_the_contract(provider: str, check: ProviderCheck) -> None:
    """Against its own wire format."""
    await asyncio.wait_for(check(provider), 60)


@pytest.mark.parametrize("provider", LOCAL)
async def test_a_local_provider_calls_a_tool_and_counts(provider: str, tmp_path: Path) -> None:
    """With what a row says, and no key."""
    model = build_model(LOCAL[provider](tmp_path), environ={})
    tools = (ToolSpec("find", "Find a thing that was lost.", {"type": "object"}),)
    request = Request("", (Message("user", (Text("I have lost my keys"),)),), tools)
    reply = await model.complete(request)
    assert [call.name for call in reply.calls] == ["find"]
    assert reply.usage.total > 0
    await model.aclose()


@pytest.mark.parametrize("provider", BUILT_IN)
def test_what_a_provider_says_of_itself_is_so(provider: str) -> None:
    """It is found under its name; what it can load is there."""
    found = find_provider(provider)
    assert found.name == provider
    assert callable(found.load())
    assert found.load_wire is None or found.load_wire().path.startswith("/")
    assert found.api is None or found.load_wire is not None
