"""What a developer makes of the operator's policies, rules and grants: nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.database import (
    DESK,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from tests.helpers.people import acting, person
from tests.integration.runs.test_tool_checks import RESULTS, played
from tests.integration.sql.test_policies import AMOUNT, add, decide
from walagent.message import Json
from walagent.models.script import call

MORE = "jsonb_set(call, '{arguments,amount}', '5000')"
LEAST = f"jsonb_set(call, '{{arguments,amount}}', to_jsonb(least({AMOUNT}, 100)))"
MASK = "jsonb_set(call, '{result}', '\"***\"')"
CALL = {"tool": "pay", "risk": "high", "principal": "ann", "arguments": {"amount": 7}}
PAID = {**CALL, "arguments": {"amount": 5000}}


@dataclass(frozen=True, slots=True)
class Both:
    """The connection of the operator, and that of a developer without a principal."""

    operator: AsyncConnection
    developer: AsyncConnection
    login: str


@asynccontextmanager
async def _both(conn: AsyncConnection, dsn: str) -> AsyncIterator[Both]:
    async with role(conn) as dev:
        await run_all(
            conn,
            f"select agent.grant_developer('{dev}');"
            "select agent_internal.make_trampoline(current_user);"
            f"select agent_internal.make_trampoline('{dev}')",
        )
        async with session(dsn, user=dev) as developer:
            yield Both(conn, developer, dev)
        await run_all(conn, "delete from agent.policy")


@pytest.fixture
async def both(conn: AsyncConnection, dsn: str) -> AsyncIterator[Both]:
    """Both, in a database where policies can be evaluated."""
    async with _both(conn, dsn) as found:
        yield found


@pytest.mark.parametrize("action", ["deny", "require", "escalate"])
async def test_a_later_policy_changes_no_call_that_an_earlier_one_has_judged(
    both: Both, action: str
) -> None:
    """What is executed is judged, also if it is the developer's; it is recorded once."""
    await add(both.operator, "cap", action, condition=f"{AMOUNT} > 100")
    assert (await decide(both.operator, CALL))[0] == "allow"
    await add(both.developer, "more", "transform", expression=MORE, priority=200)
    verdict = "deny" if action == "deny" else "require"
    assert await decide(both.operator, CALL) == (verdict, "cap", PAID)
    assert (await decide(both.operator, PAID))[:2] == (verdict, "cap")
    escalated = "select count(*) from agent.audit where action = 'policy.escalated'"
    assert await value(both.operator, escalated) == (2 if action == "escalate" else 0)


async def test_what_was_required_of_the_call_that_was_made_is_required_still(both: Both) -> None:
    """The more severe verdict wins, whichever call it is about."""
    await add(both.operator, "ask", "require", condition=f"{AMOUNT} < 10")
    await add(both.developer, "more", "transform", expression=MORE, priority=200)
    assert await decide(both.operator, CALL) == ("require", "ask", PAID)


async def test_who_allows_one_call_allows_no_other(both: Both) -> None:
    """What an allow says of the call that was made is not said of what it becomes."""
    async with role(both.operator) as other:
        await run_all(
            both.operator,
            f"select agent.grant_developer('{other}');"
            f"select agent_internal.make_trampoline('{other}')",
        )
        small = {"condition": f"{AMOUNT} < 10", "priority": 1}
        await add(both.operator, "small", "allow", run_as=other, **small)
        await add(both.operator, "cap", "deny", run_as=other, condition=f"{AMOUNT} > 100")
        await add(both.developer, "more", "transform", expression=MORE, priority=200)
        assert await decide(both.operator, CALL) == ("deny", "cap", PAID)
        await run_all(both.operator, "delete from agent.policy")


async def test_a_later_policy_does_not_undo_what_a_stronger_one_has_made(both: Both) -> None:
    """It is refused; the operator's own, and one that leaves it as it is, are not."""
    conn = both.operator
    await add(conn, "least", "transform", expression=LEAST)
    await add(both.developer, "more", "transform", expression=MORE, priority=200)
    assert (await decide(conn, CALL))[:2] == ("deny", "least")
    set_ = "jsonb_set(call, '{arguments,note}', '\"x\"')"
    await both.developer.execute(
        "update agent.policy set expression = %s where name = 'more'", [set_]
    )
    noted = {**CALL, "arguments": {"amount": 7, "note": "x"}}
    assert await decide(conn, CALL) == ("allow", None, noted)
    await run_all(conn, "delete from agent.policy where name = 'more'")
    twice = f"jsonb_set(call, '{{arguments,amount}}', to_jsonb({AMOUNT} * 20))"
    await add(conn, "twice", "transform", priority=200, expression=twice)
    assert (await decide(conn, CALL))[2] == {**CALL, "arguments": {"amount": 140}}


@pytest.mark.parametrize(
    "lie",
    ['call || \'{"principal": "boss"}\'', 'call || \'{"risk": "low"}\'', "call - 'tool'"],
)
async def test_a_policy_changes_nothing_but_what_is_executed(both: Both, lie: str) -> None:
    """Not who calls which tool: later policies would decide about another call."""
    await add(both.developer, "lie", "transform", expression=lie, priority=1)
    await add(
        both.operator, "only", "deny",
        condition="coalesce(call ->> 'tool', '') = 'pay' and call ->> 'risk' = 'high'"
        " and call ->> 'principal' <> 'boss'",
    )  # fmt: skip
    assert await decide(both.operator, CALL) == ("deny", "only", CALL)


async def test_an_allow_ends_no_policy_that_its_role_could_not_change(both: Both) -> None:
    """Of the kinds that change a call; the operator's ends the developer's."""
    conn, result = both.operator, {**CALL, "result": "secret"}
    await add(conn, "mask", "transform", phase="after", expression=MASK)
    await add(both.developer, "fine", "allow", phase="after", priority=1)
    masked = {**CALL, "result": "***"}
    assert await decide(conn, result, phase="after") == ("allow", "fine", masked)
    await add(both.developer, "more", "transform", expression=MORE)
    await add(both.developer, "first", "allow", priority=1)
    await add(conn, "second", "allow", priority=2)
    await add(conn, "third", "deny", priority=3)
    assert await decide(conn, CALL) == ("allow", "second", CALL)


@pytest.mark.parametrize("how", ["changes what was judged", "allows before the mask"])
async def test_a_run_obeys_the_operator(conn: AsyncConnection, dsn: str, how: str) -> None:
    """The same in a worker: nothing is paid, and the model sees the mask."""
    await run_all(conn, DESK)
    async with _both(conn, dsn) as both:
        if how == "changes what was judged":
            await add(conn, "cap", "deny", condition=f"{AMOUNT} > 100", message="too much")
            await add(both.developer, "more", "transform", expression=MORE, priority=200)
        else:
            await add(conn, "mask", "transform", phase="after", expression=MASK)
            await add(both.developer, "fine", "allow", phase="after", priority=1)
        made = call("refund_user", ticket_id=1, amount=7)
        ended = await played(conn, dsn, (made, "Done."), "tools=[refund_user]")
        assert ended == ("succeeded", "")
        (seen,) = await column(conn, RESULTS)
        paid = await column(conn, "select amount::int from refund")
    if how == "changes what was judged":
        assert (paid, seen["denied"]) == ([], "too much")
    else:
        assert (paid, seen["content"]) == ([7], "***")


TARGET = "select agent_internal.check_egress('default', 'https://evil.test/', 'POST')"


@pytest.mark.parametrize("action", ["allow", "require"])
async def test_a_policy_opens_no_target_that_its_role_could_not(both: Both, action: str) -> None:
    """Beside the operator's rules; the operator's opens it, and no policy changes a target."""
    await run_all(both.operator, "insert into agent.egress_rule (host) values ('api.test')")
    await add(both.developer, "open", action, point="egress")
    assert (await value(both.operator, TARGET))["action"] == "deny"
    await run_all(both.operator, "update agent.policy set run_as = current_user")
    assert (await value(both.operator, TARGET))["action"] == action
    transform = (
        "insert into agent.policy (name, point, action, expression)"
        " values ('x', 'egress', 'transform', 'call')"
    )
    await refused(both.developer, transform, state="23514")


async def test_a_token_that_does_not_read_changes_no_rules_either(both: Both) -> None:
    """Rules that it does not see are asked for all the same."""
    conn = both.operator
    await run_all(conn, "insert into agent.egress_rule (host) values ('api.test')")
    token = await person(conn, "ann", "developer", scopes=("develop",))
    for change in (
        "delete from agent.egress_rule",
        "insert into agent.egress_rule (host) values ('evil.test')",
    ):
        async with _acting(both, token) as theirs:
            await refused(theirs, change, state="42501")
    assert await column(conn, "select host from agent.egress_rule") == ["api.test"]


GRANT = "insert into agent.role_tool (role, tool) values ('viewer', 'refund_user')"
GRANTS = "select role, made_by = current_user from agent.role_tool"


async def test_grants_of_tools_are_changed_by_who_made_them(both: Both) -> None:
    """Or by an admin: one more allows more, and none allow all."""
    conn, developer = both.operator, both.developer
    await run_all(conn, DESK)
    await run_all(conn, GRANT)
    other = "insert into agent.role_tool (role, tool, made_by) values ('agent', 'refund_user', %s)"
    for change, given in (
        ("delete from agent.role_tool", ()),
        ("update agent.role_tool set denied = '{}', made_by = current_user", ()),
        (GRANT.replace("viewer", "agent"), ()),
        (other, (both.login,)),
    ):
        await refused(developer, change, *given, state="42501")
    assert await rows(conn, GRANTS) == [("viewer", True)]
    await run_all(conn, "delete from agent.role_tool")
    me = await value(conn, "select current_user::text")
    await refused(developer, other, me, state="42501")
    await run_all(developer, GRANT)
    await run_all(developer, "update agent.role_tool set denied = '{\"amount\": true}'")
    await run_all(developer, "delete from agent.role_tool")


async def test_an_admin_changes_the_operator_s_grants(both: Both) -> None:
    """A principal with the role; a developer is refused as before."""
    conn = both.operator
    await run_all(conn, DESK)
    await run_all(conn, GRANT)
    for name, may in (("admin", True), ("developer", False)):
        token = await person(conn, name, name)
        async with _acting(both, token) as theirs:
            if may:
                await run_all(theirs, "delete from agent.role_tool")
            else:
                await refused(theirs, "delete from agent.role_tool", state="42501")


@asynccontextmanager
async def _acting(both: Both, token: str) -> AsyncIterator[AsyncConnection]:
    """The developer's login as the principal of a token."""
    await run_all(both.operator, f"select agent.grant_member('{both.login}')")
    async with acting(both.developer, token) as theirs:
        yield theirs


FUNCTIONS = """
select p.oid::regprocedure::text,
       jsonb_build_array(agent_internal.function_tool(p.oid) || '{"name": "f"}',
                         '{"name": "query", "kind": "builtin", "target": "query"}'::jsonb)
  from pg_proc p
 where p.pronamespace = any (array(select oid from pg_namespace where nspname ~ '^agent'))
   and p.prokind = 'f' and p.provolatile = %s
   and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
   and '' <> all (agent_internal.argument_names(p.oid))
"""


async def test_each_function_of_walagent_that_writes_is_a_way_out(conn: AsyncConnection) -> None:
    """Whatever the catalog has: it sends, or makes others send; those that read are none."""

    async def found(volatility: str) -> list[tuple[Json, ...]]:
        cursor = await conn.execute(FUNCTIONS.encode(), [volatility])
        return await cursor.fetchall()

    check = "select agent_internal.check_ways_out(%s::jsonb, %s)"
    writing = await found("v")
    assert "agent.send(text,text,jsonb)" in [name for name, _ in writing]
    assert len(writing) > 100
    for _, tools in writing:
        await refused(conn, check, Jsonb(tools), [], state="WA011")
    for _, tools in await found("s"):
        await conn.execute(check.encode(), [Jsonb(tools), []])


async def test_a_message_is_sent_by_a_function_as_by_a_tool(conn: AsyncConnection) -> None:
    """agent.send beside query, or one of an extension: not without a person, or the word."""
    await run_all(
        conn,
        DESK + "create function beam_up(it text) returns text language sql as 'select it';"
        "alter extension plpgsql add function beam_up(text);"
        "insert into agent.tool (name, kind, target)"
        " values ('tell', 'sql', 'agent.send'), ('beam', 'sql', 'beam_up')",
    )
    async with role(conn, "nologin") as analyst:
        for tool in ("agent.send", "tell", "beam"):
            tools = f"tools=[query, {tool}], query_as={analyst}"
            spec = f"name={tool[:5]}, model=fake, {tools}"
            attaching = "select agent.attach('support_tickets', %s)"
            error = await refused(conn, attaching, spec, state="WA011")
            assert f"lets_out=[{tool}]" in (error.diag.message_hint or "")
            await attach(conn, f"name=a, {tools}, lets_out=[{tool}]")
            await attach(conn, f"name=b, {tools}, approve=[{tool}]")
            await run_all(conn, "delete from agent.attachment")
