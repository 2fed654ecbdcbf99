"""Approvals, the audit and the outbox on the command line."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from click.testing import CliRunner, Result
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.integration.outbox.approving import ask, people
from tests.integration.outbox.sending import channel, send
from walagent.cli import main

Typed = Callable[..., Awaitable[Result]]


@pytest.fixture
def types(dsn: str) -> Typed:
    """Run a command on the database of the test, in a thread: it has a loop of its own."""

    async def typed(*words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, main, [*words, "--dsn", dsn])

    return typed


async def test_approvals_are_selected_and_counted_first(
    conn: AsyncConnection, types: Typed
) -> None:
    """By agent, tool, risk and age; nothing is approved without --yes."""
    await people(conn)
    for _ in range(3):
        await ask(conn)
    listed = await types("approvals", "list", "--tool", "refund_user", "--json")
    assert [row["agent"] for row in json.loads(listed.output)] == ["desk"] * 3
    refused = await types("approvals", "approve", "--agent", "desk")
    assert refused.exit_code == 2
    assert "3 would be changed" in refused.output
    for nothing in (["--older", "1h"], ["--risk", "low"]):
        none = await types("approvals", "approve", *nothing, "--yes")
        assert "no matching approvals" in none.output
    done = await types("approvals", "reject", "--all", "--reason", "no", "--yes")
    assert done.exit_code == 0, done.output
    assert await rows(conn, "select distinct state, reason from agent.approval") == [
        ("rejected", "no")
    ]


async def test_edited_arguments_are_checked_against_the_schema_first(
    conn: AsyncConnection, types: Typed
) -> None:
    """Before anything is decided."""
    await people(conn)
    approval = str(await ask(conn))
    for wrong in ('{"amount": "all"}', '{"dollars": 1}', "[1]", "{"):
        ended = await types("approvals", "approve", approval, "--arguments", wrong)
        assert ended.exit_code == 2, wrong
    assert await value(conn, "select state from agent.approval") == "pending"
    amount = "12345678901234567890.123456789"
    done = await types("approvals", "approve", approval, "--arguments", f'{{"amount": {amount}}}')
    assert done.exit_code == 0, done.output
    assert await value(conn, "select edited ->> 'amount' from agent.approval") == amount


async def test_the_audit_is_listed_and_verified(conn: AsyncConnection, types: Typed) -> None:
    """The exit code says whether it is unchanged; --head takes what verify prints."""
    await people(conn)
    listed = await types("tenants", "audit", "list", "--action", "role_grant", "--json")
    assert {row["action"] for row in json.loads(listed.output)} == {"role_grant.created"}
    verified = await types("tenants", "audit", "verify", "--json")
    (found,) = json.loads(verified.output)
    assert (verified.exit_code, found["bad_row"]) == (0, None)
    good = await types("tenants", "audit", "verify", "--head", found["head"])
    assert good.exit_code == 0
    await run_all(
        conn,
        "alter table agent.audit disable trigger all;"
        "update agent.audit set object = 'x' where number = 2",
    )
    bad = await types("tenants", "audit", "verify", "--json")
    assert (bad.exit_code, json.loads(bad.output)[0]["bad_row"]) == (1, 2)
    other = await types("tenants", "audit", "verify", "--head", f"1:{'0' * 64}")
    assert other.exit_code == 1


async def test_messages_are_listed_shown_cancelled_and_retried(
    conn: AsyncConnection, types: Typed
) -> None:
    """By the ID of the delivery."""
    await channel(conn, "email", "ann@acme.test")
    delivery = await send(conn, "email")
    listed = await types("outbox", "list", "--json")
    assert [row["id"] for row in json.loads(listed.output)] == [delivery]
    shown = await types("outbox", "show", delivery, "--json")
    assert json.loads(shown.output)["body"] == {"text": "Hello."}
    for verb, state in (("cancel", "cancelled"), ("retry", "pending")):
        done = await types("outbox", verb, delivery)
        assert done.exit_code == 0, done.output
        assert await value(conn, "select state::text from agent.delivery") == state
    unknown = await types("outbox", "show", "nothing")
    assert unknown.exit_code == 2
