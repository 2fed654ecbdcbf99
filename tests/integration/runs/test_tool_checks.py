"""What is checked when a tool is called; a refused call has no effect, a result, an audit row."""

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.daemon import daemon
from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from walagent.domain.tool_spec import Effect
from walagent.message import Json
from walagent.models.script import Answer, call
from walagent.tools.python import PythonTool, ToolContext, tool

PAY: tuple[Answer, ...] = (call("refund_user", ticket_id=1, amount=7), "Done.")
REGISTER = """
insert into agent.tool (name, kind, target) values ('refund_user', 'sql', 'refund_user');
"""
RESULTS = "select content from agent.step where kind = 'result' order by run_id, seq"
REFUSED = "select object, detail ->> 'reason' from agent.audit where action = 'tool.refused'"
WITHHELD = "select agent_internal.refused_by_grants(id, 'c', 'refund_user', '{}') from agent.run"
PAID = "select count(*) from refund"


@tool(effect=Effect.UNSAFE)
async def post(ctx: ToolContext, text: str) -> str:
    """Post something outside."""
    del ctx
    _POSTED.append(text)
    return f'{{"sent": "{text}"}}'


@tool()
async def note(ctx: ToolContext) -> str:
    """Take a note."""
    assert ctx.conn is not None
    await ctx.conn.execute("update support_tickets set status = 'noted'")
    return "noted"


_POSTED: list[str] = []
PYTHON: list[PythonTool] = [vars(f)["__walagent_tool__"] for f in (post, note)]


async def played(
    conn: AsyncConnection, dsn: str, answers: tuple[Answer, ...] = PAY, spec: str = ""
) -> tuple[str, str]:
    """One ticket, to its end or to a wait; return state and error of the run."""
    _POSTED.clear()
    async with daemon(conn, dsn, list(answers), python=PYTHON) as d:
        await attach(conn, spec or "tools=[refund_user, post, note]")
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'twice')")
        await d.until(
            "select count(*) = 1 from agent.run where state in"
            " ('succeeded', 'failed', 'dead', 'waiting_approval', 'needs_review', 'waiting_retry')"
        )
    (found,) = await rows(
        conn, "select state::text, coalesce(error ->> 'reason', '') from agent.run"
    )
    return found[0], found[1]


async def policy(conn: AsyncConnection, action: str, **columns: Json) -> None:
    """A policy at the point `tool`."""
    given = {"name": "p", "point": "tool", "action": action, **columns}
    names, places = ", ".join(given), ", ".join(["%s"] * len(given))
    await conn.execute(
        f"insert into agent.policy ({names}) values ({places})".encode(), list(given.values())
    )


async def test_without_grants_and_policies_nothing_is_refused(
    conn: AsyncConnection, dsn: str
) -> None:
    """As before."""
    await run_all(conn, DESK)
    assert await played(conn, dsn) == ("succeeded", "")
    assert await value(conn, PAID) == 1
    assert await rows(conn, REFUSED) == []


async def test_an_unknown_tool_is_refused_and_recorded(conn: AsyncConnection, dsn: str) -> None:
    """Also one that exists, if the agent does not have it."""
    await run_all(conn, DESK)
    answers = (call("escalate_to_human"), "Sorry.")
    assert await played(conn, dsn, answers, "tools=[refund_user]") == ("succeeded", "")
    (result,) = await column(conn, RESULTS)
    assert result["is_error"]
    assert "there is no tool" in result["content"]
    ((found, _),) = await rows(conn, REFUSED)
    assert found == "escalate_to_human"


async def test_a_tool_that_was_taken_from_the_definition_is_refused(
    conn: AsyncConnection, dsn: str
) -> None:
    """The database asks the version that the run is pinned to, not the worker."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, list(PAY)) as d:
        await attach(conn, "tools=[refund_user]")
        await run_all(
            conn,
            "create function forge() returns trigger language plpgsql as $$ begin"
            " update agent.attachment_version set definition = definition || '{\"tools\": []}';"
            " return null; end $$;"
            "create trigger forge after insert on agent.step for each row"
            " when (new.kind = 'reply') execute function forge();"
            "insert into support_tickets (id, issue) values (1, 'x')",
        )
        await d.ended()
    assert await value(conn, PAID) == 0
    ((found, reason),) = await rows(conn, REFUSED)
    assert (found, "does not have" in reason) == ("refund_user", True)


CALLS: list[tuple[Answer, str]] = [
    (call("refund_user", ticket_id=1), PAID),
    (call("note"), "select count(*) from support_tickets where status = 'noted'"),
    (call("post", text="x"), "select 0"),
    (call("query", sql="select 1"), "select 0"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("made", "effect"), CALLS)
async def test_a_policy_refuses_each_kind_of_tool(
    conn: AsyncConnection, dsn: str, made: Answer, effect: str
) -> None:
    """No effect, an error result with its reason, an audit row; in one transaction."""
    await run_all(conn, DESK)
    await policy(conn, "deny", message="not today")
    async with role(conn, "nologin") as reader:
        tools = (
            f"[query], query_as={reader}" if "query" in str(made) else "[refund_user, post, note]"
        )
        assert await played(conn, dsn, (made, "Sorry."), f"tools={tools}") == ("succeeded", "")
    assert (await value(conn, effect), _POSTED) == (0, [])
    (result,) = await column(conn, RESULTS)
    assert (result["is_error"], result["denied"]) == (True, "not today")
    assert [reason for _, reason in await rows(conn, REFUSED)] == ["not today"]


async def test_a_policy_requires_an_approval_once(conn: AsyncConnection, dsn: str) -> None:
    """The run waits; approved, the call is executed with exactly these arguments."""
    await run_all(conn, DESK)
    await policy(conn, "require", condition="call ->> 'tool' = 'refund_user'")
    async with daemon(conn, dsn, list(PAY)) as d:
        await attach(conn, "tools=[refund_user]")
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
        await d.until("select exists (select from agent.pending_approval)")
        assert await value(conn, PAID) == 0
        await run_all(conn, "select agent.approve(id) from agent.approval")
        assert await d.ended() == [("1", "succeeded", "Done.", None)]
    assert await value(conn, PAID) == 1


async def test_a_rejection_reaches_the_model(conn: AsyncConnection, dsn: str) -> None:
    """And the call is not executed."""
    await run_all(conn, DESK)
    await policy(conn, "require")
    async with daemon(conn, dsn, list(PAY)) as d:
        await attach(conn, "tools=[refund_user]")
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
        await d.until("select exists (select from agent.pending_approval)")
        await run_all(conn, "select agent.reject(id, 'no') from agent.approval")
        await d.ended()
    assert await value(conn, PAID) == 0
    assert "a person refused" in (await column(conn, RESULTS))[0]["content"]


@pytest.mark.parametrize(
    ("made", "expression", "seen"),
    [
        (
            call("refund_user", ticket_id=1, amount=700),
            "jsonb_set(call, '{arguments,amount}', '5')",
            "select amount::text from refund",
        ),
        (call("post", text="secret"), "jsonb_set(call, '{arguments,text}', '\"***\"')", ""),
    ],
)
async def test_a_policy_changes_arguments(
    conn: AsyncConnection, dsn: str, made: Answer, expression: str, seen: str
) -> None:
    """Before anything is executed; the result has what was executed."""
    await run_all(conn, DESK)
    await policy(conn, "transform", expression=expression)
    assert await played(conn, dsn, (made, "Done."), "tools=[refund_user, post]") == (
        "succeeded",
        "",
    )
    if seen:
        assert await value(conn, seen) == "5"
    else:
        assert _POSTED == ["***"]
    (result,) = await column(conn, RESULTS)
    assert set(result["arguments"].values()) & {5, "***"}


@pytest.mark.few(1)
@pytest.mark.parametrize(("made", "effect"), CALLS[:3])
async def test_a_policy_denies_a_result(
    conn: AsyncConnection, dsn: str, made: Answer, effect: str
) -> None:
    """What is in the transaction is rolled back; the model does not see the result."""
    await run_all(conn, DESK)
    await policy(conn, "deny", phase="after", condition="call ->> 'result' <> ''", message="secret")
    assert await played(conn, dsn, (made, "Sorry."), "tools=[refund_user, post, note]") == (
        "succeeded",
        "",
    )
    assert await value(conn, effect) == 0
    (result,) = await column(conn, RESULTS)
    assert "not allowed: secret" in result["content"]
    assert len(await rows(conn, REFUSED)) == 1


async def test_a_policy_changes_a_result(conn: AsyncConnection, dsn: str) -> None:
    """As the model receives it."""
    await run_all(conn, DESK)
    expression = "jsonb_set(call, '{result}', to_jsonb(upper(call ->> 'result')))"
    await policy(conn, "transform", phase="after", expression=expression)
    await played(conn, dsn, (call("refund_user", ticket_id=1), call("post", text="x"), "Done."))
    assert [r["content"] for r in await column(conn, RESULTS)] == ["REFUNDED", '{"SENT": "X"}']


ASK = "select agent_internal.grant_refusal('default', %s, %s, %s, %s)"
GRANTS: list[tuple[str, Json, Json, Json, bool]] = [
    ("viewer", None, {}, {"ticket_id": 1}, True),
    ("viewer", {"ticket_id": True, "amount": [5, 7]}, {}, {"ticket_id": 1, "amount": 7}, True),
    ("viewer", {"ticket_id": True, "amount": [5]}, {}, {"ticket_id": 1, "amount": 7}, False),
    ("viewer", {"ticket_id": True, "amount": [5]}, {}, {"ticket_id": 1}, False),  # its default
    ("viewer", {"ticket_id": True, "amount": [None]}, {}, {"ticket_id": 1}, False),
    ("viewer", {"ticket_id": True}, {}, {"ticket_id": 1, "amount": 5}, False),
    ("viewer", {}, {}, {"ticket_id": 1}, False),
    ("viewer", None, {"amount": True}, {"ticket_id": 1}, True),
    ("viewer", None, {"amount": True}, {"ticket_id": 1, "amount": None}, False),
    ("viewer", None, {"amount": [7]}, {"ticket_id": 1, "amount": 7.0}, False),
    ("viewer", {"o": [{"a": 1, "b": 2}]}, {}, {"o": {"a": 1}}, False),  # a part is no value
    ("approver", None, {}, {"ticket_id": 1}, False),  # a role that the principal does not have
    ("admin", None, {}, {"ticket_id": 1}, False),
]


@pytest.mark.parametrize("grant", GRANTS, ids=str)
async def test_grants_fail_closed(
    conn: AsyncConnection, grant: tuple[str, Json, Json, Json, bool]
) -> None:
    """What is missing or NULL is not allowed."""
    held, allowed, denied, arguments, granted = grant
    await run_all(
        conn,
        "create function pay(ticket_id bigint, amount numeric, o jsonb) returns text language sql"
        " as $$ select 'paid' $$;"
        "insert into agent.principal (tenant, name) values ('default', 'ann'), ('default', 'boss');"
        "insert into agent.role_grant (tenant, principal, role, granted_by) values"
        " ('default', 'ann', 'viewer', 'x'), ('default', 'boss', 'admin', 'x')",
    )
    await conn.execute(
        "insert into agent.role_tool (role, tool, allowed, denied) values (%s, 'pay', %s, %s)",
        [held, allowed if allowed is None else Jsonb(allowed), Jsonb(denied)],
    )

    async def asked(who: str | None, tool: str = "pay", *, named: bool | None = True) -> str | None:
        return await value(conn, ASK, who, named, tool, Jsonb(arguments))

    assert (await asked("ann") is None) is granted
    assert await asked("ann", "other") is not None
    assert await asked("nobody") is not None
    assert await asked(None) is not None
    assert await asked("ann", named=None) == await asked("ann")
    assert await asked("login", named=False) is None
    admitted = not (held == "admin" and denied)
    assert (await asked("boss", "other") is None) is admitted
    assert await value(conn, ASK, "ann", True, "pay", None) is not None or not granted  # noqa: FBT003
    await run_all(conn, "update agent.role_grant set expires_at = now() - interval '1 s'")
    assert await asked("ann") is not None


async def test_who_starts_a_run_with_a_token_needs_a_grant(conn: AsyncConnection) -> None:
    """The principal of the run need not be a login, nor have the name of its login."""
    await run_all(
        conn,
        "insert into agent.principal (tenant, name, login) values ('default', 'ann', null),"
        " ('default', 'dev', current_user)",
    )
    asked = (
        "select principal::text, named from agent_internal.acting_for(jsonb_populate_record("
        "null::agent.run, jsonb_build_object('tenant', 'default', 'principal', %s::text,"
        " 'change', '{}'::jsonb)), %s)"
    )
    me = await value(conn, "select current_user")

    async def acting(principal: str | None, attached_by: str = "x") -> tuple[Json, ...]:
        cursor = await conn.execute(
            asked.encode(), [principal, Jsonb({"attached_by": attached_by})]
        )
        return (await cursor.fetchall())[0]

    assert await acting("ann") == ("ann", True)
    assert await acting("dev") == ("dev", True)
    assert await acting("a login of none") == ("a login of none", False)
    assert await acting(None, str(me)) == ("dev", True)
    assert await acting(None) == ("x", False)


@pytest.mark.slow
async def test_nobody_is_asked_to_approve_what_grants_refuse(
    conn: AsyncConnection, dsn: str
) -> None:
    """The model reads why; with a grant, a person is asked."""
    await run_all(conn, DESK)
    async with role(conn) as dev, daemon(conn, dsn, [PAY[0], "No.", PAY[0]]) as d:
        await run_all(
            conn,
            f"grant all on support_tickets, refund to {dev}; select agent.grant_developer('{dev}');"
            f"select agent.create_principal('dev', login => '{dev}');"
            "select agent.grant_role('dev', 'developer');"
            "insert into agent.role_tool (role, tool, allowed)"
            " values ('developer', 'refund_user', '{\"amount\": [5]}');",
        )
        async with session(dsn, user=dev) as theirs:
            await attach(theirs, "tools=[refund_user], approve=[refund_user]")
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
        assert (await d.ended())[0][1:3] == ("succeeded", "No.")
        assert "are not allowed" in (await rows(conn, REFUSED))[0][1]
        assert await value(conn, "select count(*) from agent.approval") == 0
        async with role(conn) as runner:
            await value(conn, "select agent.grant_runner(%s)", runner)
            async with as_role(conn, runner):
                assert await value(conn, WITHHELD)
        await run_all(
            conn,
            "update agent.role_tool set allowed = null;"
            "insert into support_tickets (id, issue) values (2, 'x')",
        )
        await d.until("select exists (select from agent.pending_approval)")
        await d.stop("reader", "worker")
        await run_all(conn, "delete from agent.principal where name = 'dev'")


@pytest.mark.slow
async def test_a_grant_allows_what_is_executed(conn: AsyncConnection, dsn: str) -> None:
    """Not what the model asked for before a policy changed it."""
    await run_all(conn, DESK)
    made = call("refund_user", ticket_id=1, amount=7)
    async with role(conn) as dev, daemon(conn, dsn, [made, "No.", made, "Done."]) as d:
        await run_all(
            conn,
            f"grant all on support_tickets, refund to {dev}; select agent.grant_developer('{dev}');"
            f"select agent.create_principal('dev', login => '{dev}');"
            "select agent.grant_role('dev', 'developer');"
            "insert into agent.role_tool (role, tool, allowed)"
            " values ('developer', 'refund_user', '{\"amount\": [7], \"ticket_id\": true}');",
        )
        async with session(dsn, user=dev) as theirs:
            await attach(theirs, "tools=[refund_user]")
        await policy(conn, "transform", expression="jsonb_set(call, '{arguments,amount}', '777')")
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
        assert (await d.ended())[0][1:3] == ("succeeded", "No.")
        assert await rows(conn, "select * from refund") == []
        said = "select content ->> 'content' from agent.step where kind = 'result'"
        assert "are not allowed" in str(await value(conn, said))
        await run_all(conn, "delete from agent.policy")
        await run_all(conn, "insert into support_tickets (id, issue) values (2, 'x')")
        await d.ended(2)
        assert await value(conn, "select amount::int from refund") == 7
        await d.stop("reader", "worker")
        await run_all(conn, "delete from agent.principal where name = 'dev'")


async def test_a_call_needs_a_grant_for_whom_it_is_made(conn: AsyncConnection, dsn: str) -> None:
    """The principal of the login that attached, here without one, then with one."""
    await run_all(conn, DESK)
    async with role(conn) as dev, daemon(conn, dsn, [*PAY, *PAY], python=PYTHON) as d:
        await run_all(
            conn,
            f"grant all on support_tickets, refund to {dev}; select agent.grant_developer('{dev}');"
            f"select agent.create_principal('dev', login => '{dev}');"
            "select agent.grant_role('dev', r) from unnest('{developer,admin}'::text[]) r;"
            "insert into agent.role_tool (role, tool) values ('developer', 'note');",
        )
        async with session(dsn, user=dev) as theirs:
            await attach(theirs, "tools=[refund_user, note]")
        await run_all(
            conn,
            "delete from agent.role_grant where role = 'admin';"
            "insert into support_tickets (id, issue) values (1, 'x')",
        )
        await d.ended()
        assert await value(conn, PAID) == 0
        assert "has no grant for refund_user" in (await rows(conn, REFUSED))[0][1]
        await run_all(
            conn,
            "insert into agent.role_tool (role, tool) values ('developer', 'refund_user');"
            "insert into support_tickets (id, issue) values (2, 'x')",
        )
        await d.ended(2)
        assert await value(conn, PAID) == 1
        await d.stop("reader", "worker")
        await run_all(conn, "delete from agent.principal where name = 'dev'")


async def test_a_disabled_version_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """Also by runs that are pinned to it; another version can be called."""
    await run_all(
        conn,
        DESK + REGISTER,
    )
    async with daemon(conn, dsn, [*PAY, *PAY]) as d:
        await attach(conn, "tools=[refund_user]")
        await run_all(conn, "update agent.tool set description = 'Pay.' where name = 'refund_user'")
        await run_all(
            conn,
            "select agent.disable_tool('refund_user', 1);"
            "insert into support_tickets (id, issue) values (1, 'x')",
        )
        await d.ended()
        assert await value(conn, PAID) == 0
        assert "version 1 of refund_user is disabled" in (await rows(conn, REFUSED))[0][1]
        await run_all(
            conn,
            "update agent.agent set max_steps = 9;"  # a new version of the attachment
            "insert into support_tickets (id, issue) values (2, 'x')",
        )
        await d.ended(2)
    assert await value(conn, PAID) == 1
    versions = (
        "select version, enabled from agent.tool_version where tool = 'refund_user' order by 1"
    )
    assert await rows(conn, versions) == [(1, False), (2, True)]
    await run_all(conn, "select agent.disable_tool('refund_user')")
    await refused(conn, "update agent.agent set max_steps = 8", state="WA011")
    await refused(conn, "select agent.disable_tool('refund_user', 9)", state="WA022")


@pytest.mark.parametrize(("schema", "fits"), [({"type": "string"}, 1), ({"type": "number"}, 0)])
async def test_output_that_does_not_fit_is_an_error(
    conn: AsyncConnection, dsn: str, schema: Json, fits: int
) -> None:
    """The model receives it as one, and a transaction is rolled back."""
    await run_all(
        conn,
        DESK + REGISTER,
    )
    await conn.execute(
        "update agent.tool set output_schema = %s where kind = 'sql'", [Jsonb(schema)]
    )
    assert (await played(conn, dsn, PAY, "tools=[refund_user]"))[0] == "succeeded"
    (result,) = await column(conn, RESULTS)
    assert result["is_error"] is not bool(fits)
    assert fits or "output schema" in result["content"]
    assert await value(conn, PAID) == fits


@pytest.mark.few(1)
@pytest.mark.parametrize(("retries", "paid"), [(1, 1), (0, 0)])
async def test_a_call_that_timed_out_is_repeated_as_its_tool_says(
    conn: AsyncConnection, dsn: str, retries: int, paid: int
) -> None:
    """The first attempt is slow, and rolled back; a sequence counts both."""
    await run_all(
        conn,
        DESK
        + REGISTER
        + f"""
        create sequence attempts;
        create function slow() returns trigger language plpgsql as $$ begin
            if nextval('attempts') = 1 then perform pg_sleep(60); end if;
            return new;
        end $$;
        create trigger slow before insert on refund for each row execute function slow();
        grant usage on attempts to public;
        update agent.tool set timeout_seconds = 1, retries = {retries}, retry_seconds = 0
         where name = 'refund_user';
        """,
    )
    assert await played(conn, dsn, PAY, "tools=[refund_user]") == ("succeeded", "")
    assert await value(conn, PAID) == paid
    assert await value(conn, "select last_value from attempts") == retries + 1
    (result,) = await column(conn, RESULTS)
    assert ("did not end within 1 s" in result["content"]) is not bool(paid)


@pytest.mark.parametrize("effect", ["idempotent", "unsafe"])
async def test_a_call_outside_has_no_retries(conn: AsyncConnection, effect: str) -> None:
    """Its effect says whether it is repeated, and once."""
    statement = (
        "insert into agent.tool (name, kind, target, effect, retries)"
        " values ('x', 'python', 'm:f', %s, %s)"
    )
    await refused(conn, statement, effect, 1, state="23514")
    await conn.execute(statement.encode(), [effect, 0])


async def test_a_result_for_a_call_that_was_not_made_is_refused(conn: AsyncConnection) -> None:
    """The reply has no such call; or has it with other arguments, which are then returned."""
    await run_all(conn, DESK)
    attached = await attach(conn, "tools=[refund_user]")
    reply = {
        "parts": [{"call": "c1", "name": "refund_user", "arguments": {"amount": 5}}],
        "stop": "tool",
    }
    run = await value(
        conn,
        "insert into agent.run (queue_id, attachment_id, attachment_version, change, reason,"
        " max_attempts) values (%s, %s, 1, '{}', 'manual', 5) returning id",
        attached,
        attached,
    )
    await conn.execute(
        "insert into agent.step (run_id, seq, kind, content) values (%s, 0, 'reply', %s)",
        [run, Jsonb(reply)],
    )
    check = "select agent_internal.check_call(%s, %s, %s, %s)"
    for call_id, name, given, action in [
        ("c1", "refund_user", {"amount": 5}, "allow"),
        ("c1", "refund_user", {"amount": 500}, "transform"),
        ("c1", "update_row", {"amount": 5}, "deny"),
        ("c2", "refund_user", {"amount": 5}, "deny"),
        (None, "refund_user", {"amount": 5}, "deny"),
        ("c1", None, {"amount": 5}, "deny"),
    ]:
        found = await value(conn, check, run, call_id, name, Jsonb(given))
        assert found["action"] == action, (call_id, name, found)
    assert (await value(conn, check, 99, "c1", "refund_user", Jsonb({})))["action"] == "deny"
