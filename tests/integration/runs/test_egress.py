"""Egress: which requests a tenant allows, and limits that hold."""

import asyncio

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, column, refused, rows, run_all, session, value
from tests.helpers.web import web
from walagent.apply.apply import apply
from walagent.config import Config
from walagent.config.environment import Environment
from walagent.message import Json
from walagent.models.script import call
from walagent.workers.host_rules import http_tools

CHECK = "select agent_internal.check_egress('default', %s, %s)"
RULE = "insert into agent.egress_rule (scheme, host, port, methods) values"


async def asked(conn: AsyncConnection, url: str, method: str = "POST") -> str:
    """What is decided about a request."""
    return (await value(conn, CHECK, url, method))["action"]


async def test_without_rules_the_worker_alone_decides(conn: AsyncConnection) -> None:
    """As before."""
    assert await asked(conn, "https://api.test/x") == "allow"


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("url", "method", "action"),
    [
        ("https://api.test/", "POST", "allow"),
        ("https://API.test.:443/a?b=c", "post", "allow"),
        ("https://api.test/", "DELETE", "deny"),
        ("http://api.test/", "POST", "deny"),
        ("https://api.test:8443/", "POST", "deny"),
        ("https://api.test.evil.test/", "POST", "deny"),
        ("https://evil.test/?x=https://api.test/", "POST", "deny"),
        ("https://evil.test/https://api.test/", "POST", "deny"),
        ("https://api.test@evil.test/", "POST", "deny"),
        ("https://evil.test#https://api.test/", "POST", "deny"),
        ("https://xapi.test/", "POST", "deny"),
        ("https://apixtest/", "POST", "deny"),
        ("https://api.test\\@evil.test/", "POST", "deny"),
        ("javascript:alert(1)", "POST", "deny"),
        ("", "POST", "deny"),
        (None, "POST", "deny"),
        ("https://api.test/", None, "deny"),
    ],
)
async def test_a_target_matches_exactly(
    conn: AsyncConnection, url: str, method: str, action: str
) -> None:
    """Scheme, host, port and method; no pattern, no part of another URL."""
    await run_all(conn, f"{RULE} ('https', 'api.test', 443, '{{POST}}')")
    assert await asked(conn, url, method) == action


@pytest.mark.parametrize("host", ["*.test", "api.*", "", "API.test", "a b", "api.test/x", "^api"])
async def test_a_rule_has_no_pattern(conn: AsyncConnection, host: str) -> None:
    """A host is what it says."""
    await refused(conn, f"{RULE} ('https', %s, 443, '{{GET}}')", host, state="23514")


async def test_a_policy_decides_about_other_targets(conn: AsyncConnection) -> None:
    """They become an approval; one that denies wins over a rule; another tenant has its own."""
    await run_all(
        conn,
        "select agent_internal.make_trampoline(current_user);"
        f"{RULE} ('https', 'api.test', 443, '{{POST}}');"
        "insert into agent.tenant (name) values ('acme');"
        "insert into agent.policy (name, point, action, condition)"
        " values ('ask', 'egress', 'require', 'not (call -> ''listed'')::boolean')",
    )
    assert await asked(conn, "https://api.test/") == "allow"
    assert await asked(conn, "https://other.test/") == "require"
    await run_all(conn, "update agent.policy set condition = null, action = 'deny'")
    assert await asked(conn, "https://api.test/") == "deny"
    other = "select agent_internal.check_egress('acme', 'https://x.test/', 'GET') ->> 'action'"
    assert await value(conn, other) == "allow"


async def test_the_limit_per_minute_holds(conn: AsyncConnection, dsn: str) -> None:
    """Of fifty requests at once, from as many sessions, the limit passes."""
    await run_all(
        conn, f"{RULE} ('https', 'api.test', 443, '{{POST}}');"
        "update agent.egress_rule set requests_per_minute = 5",
    )  # fmt: skip

    async def one() -> str:
        async with session(dsn) as other:
            return await asked(other, "https://api.test/")

    found = await asyncio.gather(*(one() for _ in range(50)))
    assert (found.count("allow"), found.count("wait")) == (5, 45)


@pytest.mark.parametrize(
    ("rule", "sent", "said"),
    [
        ("('http', '127.0.0.1', {port}, '{{POST}}')", 1, "HTTP 200"),
        ("('http', '127.0.0.1', 1, '{{POST}}')", 0, "not among the egress rules"),
        ("('http', '127.0.0.1', {port}, '{{GET}}')", 0, "not among the egress rules"),
        ("('http', 'localhost', {port}, '{{POST}}')", 0, "not among the egress rules"),
    ],
)
async def test_a_tool_is_called_within_the_rules(
    conn: AsyncConnection, dsn: str, rule: str, sent: int, said: str
) -> None:
    """A refused call sends nothing; the model and the audit have the reason."""
    await run_all(conn, DESK)
    async with web() as server:
        await run_all(conn, f"{RULE} {rule.format(port=server.port)}")
        await played(conn, dsn, server.port)
        assert len(server.sent) == sent
    (result,) = await column(conn, "select content from agent.step where kind = 'result'")
    assert said in result["content"]
    audited = await rows(conn, "select object from agent.audit where action = 'tool.refused'")
    assert len(audited) == 1 - sent


async def test_a_body_beyond_the_rule_is_not_sent(conn: AsyncConnection, dsn: str) -> None:
    """Nor is more than that read of an answer."""
    await run_all(conn, DESK)
    async with web() as server:
        await run_all(
            conn,
            f"{RULE} ('http', '127.0.0.1', {server.port}, '{{POST}}');"
            "update agent.egress_rule set max_bytes = 8",
        )
        await played(conn, dsn, server.port)
        assert server.sent == []
    (result,) = await column(conn, "select content from agent.step where kind = 'result'")
    assert "exceeds 8 bytes" in result["content"]


async def played(conn: AsyncConnection, dsn: str, port: int) -> None:
    """One ticket, whose agent calls a tool over HTTP."""
    entry: dict[str, Json] = {
        "url": f"http://127.0.0.1:{port}/alerts",
        "description": "Alert the team on call.",
        "body": {"text": "{text}"},
        "networks": "127.0.0.0/8",
    }
    made = Config.model_validate({"http_tools": {"alert": entry}})
    await apply(conn, made)
    answers = [call("alert", text="on fire"), "Done."]
    async with daemon(conn, dsn, answers, http=http_tools(made, Environment({}))) as d:
        await attach(conn, "tools=[alert]")
        await run_all(conn, "insert into support_tickets (issue) values ('smoke')")
        await d.ended()
