"""Policies: what they decide, and that one which fails denies."""

import pytest
from psycopg import AsyncConnection, Error
from psycopg.types.json import Jsonb

from tests.helpers.database import column, refused, role, rows, run_all, session, value
from walagent.message import Json


@pytest.fixture
async def policies(conn: AsyncConnection) -> AsyncConnection:
    """A connection, with the trampoline of the login."""
    await run_all(conn, "select agent_internal.make_trampoline(current_user)")
    return conn


async def add(conn: AsyncConnection, name: str, action: str, **columns: Json) -> None:
    """Add a policy at the point `tool`."""
    given = {"point": "tool", **columns}
    names, places = ", ".join(given), ", ".join(["%s"] * len(given))
    await conn.execute(
        f"insert into agent.policy (name, action, {names}) values (%s, %s, {places})".encode(),
        [name, action, *given.values()],
    )


async def decide(conn: AsyncConnection, call: Json, **more: Json) -> tuple[Json, ...]:
    """What is decided: action, policy, call."""
    found = await value(
        conn,
        "select agent_internal.decide_policy(%s, %s, %s, %s)",
        more.get("point", "tool"),
        more.get("phase", "before"),
        Jsonb(call),
        more.get("tenant"),
    )
    return found["action"], found["policy"], found["call"]


CALL = {"tool": "pay", "arguments": {"amount": 7}}
AMOUNT = "(call #>> '{arguments,amount}')::numeric"


async def test_without_policies_all_is_allowed(policies: AsyncConnection) -> None:
    """Nothing changes for who has none."""
    assert await decide(policies, CALL) == ("allow", None, CALL)


async def test_in_order_of_priority(policies: AsyncConnection) -> None:
    """Allow ends it, deny ends it, require waits for a later deny."""
    await add(policies, "large", "require", condition=f"{AMOUNT} > 5", priority=10)
    await add(
        policies, "huge", "deny", condition=f"{AMOUNT} > 100", priority=20, message="too much"
    )
    assert await decide(policies, CALL) == ("require", "large", CALL)
    huge = {"tool": "pay", "arguments": {"amount": 700}}
    assert await decide(policies, huge) == ("deny", "huge", huge)
    assert (await decide(policies, {"arguments": {"amount": 1}}))[0] == "allow"
    await add(policies, "boss", "allow", condition="call ->> 'principal' = 'boss'", priority=1)
    assert (await decide(policies, {**huge, "principal": "boss"}))[0] == "allow"
    assert (await decide(policies, huge, phase="after"))[0] == "allow"
    assert (await decide(policies, huge, point="egress"))[0] == "allow"


async def test_a_call_is_changed(policies: AsyncConnection) -> None:
    """By one policy after the other."""
    await add(
        policies, "cap", "transform", priority=1,
        expression=f"jsonb_set(call, '{{arguments,amount}}', to_jsonb(least({AMOUNT}, 5)))",
    )  # fmt: skip
    await add(policies, "large", "deny", condition=f"{AMOUNT} > 5", priority=2)
    assert await decide(policies, CALL) == ("allow", None, {**CALL, "arguments": {"amount": 5}})


@pytest.mark.parametrize(
    "columns",
    [
        {"action": "allow", "condition": "1 / 0 = 1"},
        {"action": "allow", "condition": "null"},
        {"action": "allow", "condition": "call ->> 'missing' = 'x'"},
        {"action": "transform", "expression": "null::jsonb"},
        {"action": "transform", "expression": "'[]'::jsonb"},
        {"action": "transform", "expression": "call -> 'missing'"},
        {"action": "require", "condition": "(call ->> 'amount')::int > 5"},
    ],
)
async def test_one_that_fails_denies(policies: AsyncConnection, columns: dict[str, Json]) -> None:
    """Raises, or returns NULL: no call is allowed by it."""
    await add(policies, "broken", columns.pop("action"), **columns)
    found = await decide(policies, CALL)
    assert found[:2] == ("deny", "broken"), found


@pytest.mark.parametrize(
    "columns",
    [
        {"action": "allow", "condition": "no_such_function(call)"},
        {"action": "allow", "condition": "true) from pg_class, (select 1"},
        {"action": "allow", "condition": "'maybe'"},
        {"action": "transform", "expression": "call || "},
    ],
)
async def test_what_cannot_be_compiled_is_refused(
    policies: AsyncConnection, columns: dict[str, Json]
) -> None:
    """When it is created, with its name: nobody learns it from refused calls."""
    with pytest.raises(Error, match='policy "broken"') as raised:
        await add(policies, "broken", columns.pop("action"), **columns)
    assert raised.value.sqlstate == "WA022"


async def test_a_function_that_is_dropped_denies(policies: AsyncConnection) -> None:
    """What was allowed by it is allowed by nothing."""
    create = "create function fine(call jsonb) returns boolean language sql return true"
    await run_all(policies, create)
    await add(policies, "broken", "allow", condition="fine(call)")
    assert (await decide(policies, CALL))[:2] == ("allow", "broken")
    await run_all(policies, "drop function fine(jsonb)")
    assert (await decide(policies, CALL))[:2] == ("deny", "broken")


async def test_it_leaves_nothing_behind(policies: AsyncConnection) -> None:
    """It cannot write, and no setting, cursor or identity of it outlasts it."""
    await run_all(
        policies,
        "create table kept (n int);"
        "create function write() returns boolean language sql as"
        " 'insert into kept values (1) returning true';"
        "create function open() returns boolean language plpgsql as $$ begin"
        " execute 'declare held cursor with hold for select 1'; return false; end $$",
    )
    await add(policies, "writes", "allow", condition="write()")
    assert (await decide(policies, CALL))[0] == "deny"
    await run_all(policies, "delete from agent.policy")
    await add(
        policies, "sets", "deny",
        condition="open() or set_config('walagent.identity', 'forged', false) is null"
        " or set_config('search_path', 'evil', false) is null",
    )  # fmt: skip
    async with policies.transaction():
        assert (await decide(policies, CALL))[0] == "allow"
        assert (
            await value(policies, "select coalesce(current_setting('walagent.identity', true), '')")
            == ""
        )
        assert "evil" not in await value(policies, "select current_setting('search_path')")
        assert await column(policies, "select name from pg_cursors where name = 'held'") == []
        assert await value(policies, "select current_setting('transaction_read_only')") == "off"
        await run_all(policies, "insert into kept values (2)")
    assert await column(policies, "select n from kept") == [2]


async def test_a_policy_is_of_one_tenant(policies: AsyncConnection) -> None:
    """Another's are not asked; of an unknown tenant, all is denied."""
    await run_all(policies, "insert into agent.tenant (name) values ('acme')")
    await add(policies, "none", "deny", tenant="acme")
    assert (await decide(policies, CALL))[0] == "allow"
    assert (await decide(policies, CALL, tenant="acme"))[0] == "deny"
    await run_all(policies, "update agent.policy set enabled = false")
    assert (await decide(policies, CALL, tenant="acme"))[0] == "allow"


async def test_to_escalate_is_recorded(policies: AsyncConnection) -> None:
    """A person decides, and the audit has it."""
    await add(policies, "odd", "escalate")
    assert (await decide(policies, CALL))[0] == "require"
    audited = "select object, detail from agent.audit where action = 'policy.escalated'"
    assert await rows(policies, audited) == [
        ("odd", {"point": "tool", "phase": "before", "tool": "pay"})  # no arguments
    ]


@pytest.mark.parametrize(
    ("point", "phase"),
    [("run", "before"), ("egress", "after"), ("retrieval", "error"), ("node", "error")],
)
async def test_a_policy_that_is_never_asked_is_refused(
    conn: AsyncConnection, point: str, phase: str
) -> None:
    """It would look as if it protected something."""
    await refused(
        conn,
        "insert into agent.policy (name, point, phase, action) values ('p', %s, %s, 'deny')",
        point,
        phase,
        state="23514",
    )


async def test_without_a_trampoline_nothing_is_decided(conn: AsyncConnection) -> None:
    """The worker makes it, and asks again."""
    await add(conn, "any", "allow")
    await add(conn, "some", "deny", condition="true", priority=1)
    await refused(
        conn, "select agent_internal.decide_policy('tool', 'before', '{}')", state="WA016"
    )
    await run_all(conn, "select agent_internal.make_policy_trampolines()")
    assert (await decide(conn, CALL))[0] == "deny"


async def test_a_policy_is_changed_by_its_role_alone(policies: AsyncConnection, dsn: str) -> None:
    """A developer neither deletes, disables nor takes over the operator's, and overrules none."""
    conn = policies
    await add(conn, "operator", "require")
    async with role(conn) as dev:
        await run_all(conn, f"select agent.grant_developer('{dev}')")
        await run_all(conn, f"select agent_internal.make_trampoline('{dev}')")
        async with session(dsn, user=dev) as developer:
            for change in (
                "delete from agent.policy",
                "update agent.policy set enabled = false",
                "update agent.policy set run_as = current_user",
                "update agent.policy set name = 'other'",
            ):
                await refused(developer, change, state="42501")
            await add(developer, "first", "allow", priority=0)
            assert (await decide(conn, CALL))[:2] == ("require", "operator")
            await add(developer, "second", "deny", priority=1)
            assert (await decide(conn, CALL))[:2] == (
                "require",
                "operator",
            )  # its own allow ends it
            await run_all(developer, "delete from agent.policy where name in ('first', 'second')")
        await add(conn, "free", "allow", priority=0)
        assert (await decide(conn, CALL))[:2] == ("allow", "free")


async def test_egress_rules_are_changed_by_who_made_them(conn: AsyncConnection, dsn: str) -> None:
    """One more allows more, and none allow all."""
    insert = "insert into agent.egress_rule (host) values (%s)"
    await conn.execute(insert, ["operator.example"])
    async with role(conn) as dev:
        await run_all(conn, f"select agent.grant_developer('{dev}')")
        async with session(dsn, user=dev) as developer:
            await refused(developer, "delete from agent.egress_rule", state="42501")
            await refused(developer, "update agent.egress_rule set host = 'x'", state="42501")
            await refused(developer, insert, "mine.example", state="42501")
            mine = "insert into agent.egress_rule (host, made_by) values ('x', %s)"
            await refused(developer, mine, dev, state="42501")
            await run_all(conn, "delete from agent.egress_rule")
            await developer.execute(insert, ["mine.example"])
            await run_all(developer, "delete from agent.egress_rule")
