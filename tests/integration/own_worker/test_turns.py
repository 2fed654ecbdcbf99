"""Turns that a program of one's own works over SQL."""

from decimal import Decimal

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, message_of, refused, role, rows, run_all, session, value
from tests.integration.own_worker.rig import desk
from walagent.cli.runs.run_view import lines
from walagent.store.people.listings import show_run

STEPS = "select kind from agent.step where run_id = %s order by seq"


async def test_a_turn_from_question_to_answer(conn: AsyncConnection, dsn: str) -> None:
    """The history has calls and results in order; the answer is an event of the agent."""
    async with desk(conn, dsn) as d:
        turn = await d.start("How do I join?")
        state = await d.call("run_turn", turn)
        assert state["status"] == "running"
        assert state["system_prompt"] == "You help."
        assert (state["model"], state["parameters"]["temperature"]) == ("fake-1", 0.1)
        assert state["messages"] == [{"role": "user", "content": "How do I join?"}]
        assert [tool["function"]["name"] for tool in state["tools"]] == [
            "web_search",
            "look_up",
            "send_letter",
            "add_note",
            "remember",
        ]
        made = await d.call("process_tool_call", turn, "look_up", b'{"query": "joins"}')
        assert (made["status"], made["arguments"]) == ("ready", {"query": "joins"})
        await d.call("record_tool_result", turn, "look_up", b'{"found": "a book"}')
        done = await d.call("process_tool_call", turn, "add_note", b'{"text": "joins"}')
        assert (done["status"], done["result"]) == ("done", "noted joins")
        assert await rows(conn, "select text, by from note") == [("joins", d.names[2])]
        state = await d.call("run_turn", turn)
        assert [m["role"] for m in state["messages"]] == [
            "user", "assistant", "tool", "assistant", "tool"
        ]  # fmt: skip
        asked = state["messages"][1]["tool_calls"][0]
        assert asked["function"] == {"name": "look_up", "arguments": '{"query": "joins"}'}
        assert state["messages"][2] == {
            "role": "tool", "tool_call_id": asked["id"], "content": '{"found": "a book"}'
        }  # fmt: skip
        usage = b'{"prompt_tokens": 1000000, "completion_tokens": 10}'
        ended = await d.call("finish_turn", turn, "Use INNER JOIN.", usage)
        assert ended["status"] == "succeeded"
        steps = [kind for (kind,) in await rows(conn, STEPS, turn)]
        assert steps == [
            "note", "reply", "intent", "result", "reply", "result", "reply"
        ]  # fmt: skip
        found = await rows(conn, "select state::text, tokens, result from agent.run")
        assert found == [("succeeded", 1_000_010, "Use INNER JOIN.")]
        turn = await d.start("And then?")
        roles = [m["role"] for m in (await d.call("run_turn", turn))["messages"]]
        assert roles == [
            "user", "assistant", "tool", "assistant", "tool", "assistant", "user"
        ]  # fmt: skip


async def test_a_turn_answers_once(conn: AsyncConnection, dsn: str) -> None:
    """A second finish is an error; without a new message, no turn starts."""
    async with desk(conn, dsn) as d:
        turn = await d.start()
        assert await d.call("start_turn", d.thread) == turn
        await d.call("finish_turn", turn, "Hi.")
        await refused(d.worker, "select agent.finish_turn(%s, 'Hi.')", turn, state="WA027")
        await refused(
            d.worker, "select agent.process_tool_call(%s, 'x', '{}')", turn, state="WA027"
        )
        assert await d.call("start_turn", d.thread) is None
        said = "select count(*) from agent.event where author = 'helper'"
        assert await value(conn, said) == 1


async def test_two_turns_of_a_thread_are_not_worked_side_by_side(
    conn: AsyncConnection, dsn: str
) -> None:
    """As no claim does it; when the first has ended, the second is there."""
    async with desk(conn, dsn) as d:
        first = await d.start()
        second = await value(
            conn,
            "insert into agent.run (tenant, kind, reason, principal, queue_id, attachment_id,"
            " attachment_version, change, key, ordering_key)"
            " select tenant, kind, 'manual', principal, queue_id, attachment_id,"
            "        attachment_version, change, key, ordering_key from agent.run where id = %s"
            " returning id",
            first,
        )
        assert await d.call("start_turn", d.thread) == first
        error = await refused(d.worker, "select agent.run_turn(%s)", second, state="WA027")
        assert f'another turn of thread "{d.thread}" is being worked' in str(error)
        await d.call("finish_turn", first, "Hi.")
        assert await d.call("start_turn", d.thread) == second


async def test_only_calls_that_were_made_get_a_result(conn: AsyncConnection, dsn: str) -> None:
    """Not one that was never made, was denied, awaits an approval, or has its result."""
    async with desk(conn, dsn, approve="{send_letter}") as d:
        turn = await d.start()
        record = "select agent.record_tool_result(%s, %s, '\"x\"')"
        await refused(d.worker, record, turn, "look_up", state="WA027")
        denied = await d.call("process_tool_call", turn, "delete_table", b"{}")
        assert denied["status"] == "denied"
        await refused(d.worker, record, turn, "delete_table", state="WA027")
        wrong = await d.call("process_tool_call", turn, "look_up", b'{"q": 1}')
        assert (wrong["status"], '"q"' in wrong["reason"]) == ("denied", True)
        await d.call("process_tool_call", turn, "look_up", b'{"query": "a"}')
        await d.call("record_tool_result", turn, "look_up", b'"b"')
        await refused(d.worker, record, turn, "look_up", state="WA027")
        waiting = await d.call("process_tool_call", turn, "send_letter", b'{"to": "a"}')
        assert waiting["status"] == "awaiting_approval"
        await refused(d.worker, record, turn, "send_letter", state="WA027")
        assert (await d.call("run_turn", turn))["status"] == "awaiting_approval"


async def test_a_text_is_posted_or_refused(conn: AsyncConnection, dsn: str) -> None:
    """While a call waits for a person, the turn cannot end; after the decision, it can."""
    async with desk(conn, dsn, approve="{send_letter}") as d:
        turn = await d.start()
        mail = ("process_tool_call", turn, "send_letter", b'{"to": "a"}')
        assert (await d.call(*mail))["status"] == "awaiting_approval"
        finish = "select agent.finish_turn(%s, 'Bye.')"
        error = await refused(d.worker, finish, turn, state="WA027")
        assert "awaiting_approval" in message_of(error)
        assert "not posted" in message_of(error)
        assert (await d.call("finish_turn", turn, None))["status"] == "awaiting_approval"
        await run_all(conn, "select agent.reject(id, 'no') from agent.pending_approval")
        assert (await d.call(*mail))["status"] == "denied"
        assert (await d.call("finish_turn", turn, "Bye."))["status"] == "succeeded"
        said = "select data ->> 'text' from agent.event where type = 'text' order by number"
        assert (await column(conn, said))[-1] == "Bye."


async def test_an_approval_decides_about_a_call(conn: AsyncConnection, dsn: str) -> None:
    """Approved: with the arguments that a person edited.  Rejected: the model receives it."""
    async with desk(conn, dsn, approve="{send_letter,add_note}") as d:
        turn = await d.start()
        mail = ("process_tool_call", turn, "send_letter", b'{"to": "a"}')
        for _ in range(2):
            assert (await d.call(*mail))["status"] == "awaiting_approval"
        ids = await rows(conn, "select id from agent.pending_approval")
        assert len(ids) == 1
        await value(conn, 'select agent.approve(%s, \'{"to": "b"}\')', ids[0][0])
        ready = await d.call(*mail)
        assert (ready["status"], ready["arguments"]) == ("ready", {"to": "b"})
        await d.call("record_tool_result", turn, "send_letter", b'"sent"')
        note = ("process_tool_call", turn, "add_note", b'{"text": "x"}')
        assert (await d.call(*note))["status"] == "awaiting_approval"
        await run_all(conn, "select agent.reject(id, 'no') from agent.pending_approval")
        denied = await d.call(*note)
        assert denied == {
            "status": "denied",
            "call_id": denied["call_id"],
            "reason": "a person refused this call: no",
        }
        messages = (await d.call("run_turn", turn))["messages"]
        assert messages[-1]["content"] == "a person refused this call: no"
        assert await value(conn, "select count(*) from note") == 0


async def test_two_workers_never_share_a_turn(conn: AsyncConnection, dsn: str) -> None:
    """After the lease, another one takes over, and the former one is refused."""
    async with desk(conn, dsn, lease="30 minutes") as d:
        turn = await d.start()
        run = "select agent.run_turn(%s)"
        await refused(d.second, run, turn, state="WA027")
        await refused(d.second, "select agent.start_turn(%s)", d.thread, state="WA027")
        await d.call("process_tool_call", turn, "look_up", b'{"query": "a"}')
        await run_all(conn, "update agent.run set lease_expires_at = now() - interval '1 s'")
        assert await d.call("start_turn", d.thread, who=d.second) == turn
        state = await d.call("run_turn", turn, who=d.second)
        (open_call,) = state["calls"]
        assert open_call["arguments"] == {"query": "a"}
        finish = "select agent.finish_turn(%s, 'x')"
        await refused(d.worker, finish, turn, state="WA027")
        again = ("process_tool_call", turn, "look_up", b'{"query": "a"}')
        assert (await d.call(*again, who=d.second))["status"] == "ready"
        await d.call("record_tool_result", turn, "look_up", b'"b"', who=d.second)
        await d.call("finish_turn", turn, "Done.", who=d.second)
        assert await value(conn, "select attempt from agent.run") == 2


async def test_an_unsafe_call_of_a_dead_worker_is_reviewed(conn: AsyncConnection, dsn: str) -> None:
    """Nobody knows whether the letter left: a person says."""
    async with desk(conn, dsn) as d:
        turn = await d.start()
        await d.call("process_tool_call", turn, "send_letter", b'{"to": "a"}')
        await run_all(conn, "update agent.run set lease_expires_at = now() - interval '1 s'")
        state = await d.call("run_turn", turn, who=d.second)
        assert (state["status"], "send_letter" in state["error"]) == ("needs_review", True)
        await value(conn, "select agent.resolve(%s, true, 'sent')", turn)
        state = await d.call("run_turn", turn, who=d.second)
        assert (state["status"], state["calls"]) == ("running", [])
        assert state["messages"][-1]["content"] == "sent"


@pytest.mark.slow
async def test_limits_end_a_turn(conn: AsyncConnection, dsn: str) -> None:
    """The number of replies and of tokens are those of the agent."""
    async with desk(conn, dsn) as d:
        await run_all(conn, "update agent.agent set max_steps = 2, max_tokens = 1000")
        await run_all(conn, "update agent.attachment set approval_ttl = '1 day'")
        turn = await d.start()
        for text in ("a", "b"):
            given = f'{{"text": "{text}"}}'.encode()
            assert (await d.call("process_tool_call", turn, "add_note", given))["status"] == "done"
        state = await d.call("run_turn", turn)
        assert (state["status"], "max_steps" in state["error"]) == ("failed", True)
        turn = await d.start()
        spend = b'{"prompt_tokens": 1001}'
        await d.call("process_tool_call", turn, "add_note", b'{"text": "c"}', None, spend)
        state = await d.call("run_turn", turn)
        assert (state["status"], "max_tokens" in state["error"]) == ("failed", True)


async def test_who_is_not_the_worker_works_nothing(conn: AsyncConnection, dsn: str) -> None:
    """Not a person of the thread either, nor a setting that names another worker."""
    async with desk(conn, dsn) as d:
        turn = await d.start()
        await run_all(d.person, f"set walagent.worker = '{d.names[0]}'")
        await refused(d.person, "select agent.run_turn(%s)", turn, state="WA027")
        await refused(d.person, "select agent.finish_turn(%s, 'x')", turn, state="WA027")
        await refused(d.person, "select agent.start_turn(%s)", d.thread, state="WA027")
        internal = "select agent_internal.take_turn(%s)"
        await refused(d.worker, internal, turn, state="42501")


async def test_an_agent_that_leaves_ends_its_turn(conn: AsyncConnection, dsn: str) -> None:
    """Nothing is posted any more; its worker learns of it."""
    async with desk(conn, dsn) as d:
        turn = await d.start()
        await value(d.person, "select agent.remove_member(%s, 'helper')", d.thread)
        ended = await d.call("finish_turn", turn, "Late.")
        assert ended["status"] == "cancelled"
        assert await value(conn, "select count(*) from agent.event where type = 'text'") == 1


async def test_another_tenant_works_nothing(conn: AsyncConnection, dsn: str) -> None:
    """Not even a principal of the worker's name."""
    async with desk(conn, dsn) as d, role(conn) as login:
        turn = await d.start()
        await run_all(
            conn,
            f"""
            insert into agent.tenant (name) values ('acme');
            insert into agent.principal (tenant, name, login)
            values ('acme', '{d.names[0]}', '{login}'), ('acme', 'helper', null);
            insert into agent.role_grant (tenant, principal, role, granted_by)
            values ('acme', '{d.names[0]}', 'admin', 'x');
            select agent.grant_member('{login}'), agent.grant_viewer('{login}');
            """,
        )
        async with session(dsn, user=login) as other:
            assert await value(other, "select agent.current_principal()") == d.names[0]
            for call in (
                "run_turn(%s)",
                "finish_turn(%s, 'x')",
                "process_tool_call(%s, 'x', '{}')",
            ):
                await refused(other, f"select agent.{call}", turn, state="WA027")
            await refused(other, "select agent.start_turn(%s)", d.thread, state="WA027")
            own = await value(other, "select agent.open_thread('T', '{helper}')")
            await value(other, "select agent.add_user_message(%s, 'x')", own)
            await refused(other, "select agent.start_turn(%s)", own, state="WA027")


async def test_show_prints_a_turn(conn: AsyncConnection, dsn: str) -> None:
    """Its steps are those of every turn."""
    async with desk(conn, dsn) as d:
        turn = await d.start()
        await d.call("process_tool_call", turn, "add_note", b'{"text": "x"}')
        await d.call("finish_turn", turn, "Done.")
        run = await show_run(conn, turn)
        assert run is not None
        shown = "\n".join(lines(run))
        assert all(text in shown for text in ("add_note", "noted x", "Done."))


USED = (
    "select spent_cost, reserved_cost > 0, spent_tokens from agent.budget_overview"
    " where name = 'all'"
)
BUDGET = "insert into agent.budget (name, agent, period, max_cost, on_exceeded) values"


async def test_a_budget_counts_what_a_worker_reports(conn: AsyncConnection, dsn: str) -> None:
    """Each reply is reserved before it is asked for; one without usage counts as reserved."""
    async with desk(conn, dsn) as d:
        await run_all(conn, f"{BUDGET} ('all', 'helper', 'day', 1, 'wait')")
        turn = await d.start()
        for _ in range(2):  # asked again, it is reserved once
            assert (await d.call("run_turn", turn))["status"] == "running"
        assert (await rows(conn, USED))[0][:2] == (0, True)
        usage = (
            b'{"prompt_tokens": 1000, "completion_tokens": 10,'
            b' "prompt_tokens_details": {"cached_tokens": null}}'
        )
        await d.call("process_tool_call", turn, "add_note", b'{"text": "x"}', "c1", usage)
        await d.call("process_tool_call", turn, "add_note", b'{"text": "y"}', "c2")
        assert await rows(conn, USED) == [(Decimal("0.00105"), False, 1010)]
        await d.call("run_turn", turn)
        open_one = "select reserved_tokens from agent.spend where settled_at is null"
        (reserved,) = await column(conn, open_one)
        assert (await d.call("finish_turn", turn, "Hi."))["status"] == "succeeded"
        assert (await rows(conn, USED))[0][1:] == (False, 1010 + reserved)


async def test_a_turn_waits_for_its_budget(conn: AsyncConnection, dsn: str) -> None:
    """Its worker is not to ask the model; when the budget is raised, it continues."""
    async with desk(conn, dsn) as d:
        await run_all(conn, f"{BUDGET} ('all', 'helper', 'day', 1, 'wait')")
        await run_all(conn, "update agent_internal.budget_use set spent_cost = 0.999")
        turn = await d.start()
        state = await d.call("run_turn", turn)
        assert state["status"] == "waiting_retry"
        assert state["error"].startswith('budget "all" exhausted')
        assert await d.call("start_turn", d.thread) == turn
        assert (await d.call("run_turn", turn))["status"] == "waiting_retry"
        await run_all(conn, "update agent.budget set max_cost = 2")
        assert (await d.call("run_turn", turn))["status"] == "running"
        assert await rows(conn, "select attempt, error from agent.run") == [(1, None)]
        await d.call("finish_turn", turn, "Hi.")


async def test_a_turn_fails_with_its_budget(conn: AsyncConnection, dsn: str) -> None:
    """As its budget says; nothing stays reserved when a turn ends without a reply."""
    async with desk(conn, dsn) as d:
        await run_all(conn, f"{BUDGET} ('all', 'helper', 'day', 1, 'fail')")
        turn = await d.start()
        await d.call("run_turn", turn)
        await run_all(conn, f"select agent.cancel({turn})")
        assert (await d.call("run_turn", turn))["status"] == "cancelled"
        assert await rows(conn, USED) == [(0, False, 0)]
        await run_all(conn, "update agent_internal.budget_use set spent_cost = 1")
        turn = await d.start()
        assert (await d.call("run_turn", turn))["status"] == "failed"
        reason = "select error ->> 'reason' from agent.run where state = 'failed'"
        assert "exhausted" in await value(conn, reason)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "usage",
    [
        b'{"completion_tokens": -1000000}',
        b'{"prompt_tokens": -1000000}',
        b'{"prompt_tokens": 10, "cache_creation_input_tokens": -1000000}',
        b'{"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": -1000000}}',
        b'{"prompt_tokens": 9999999999}',
        b'{"prompt_tokens": 1.5}',
        b'{"prompt_tokens": "many"}',
        b'{"prompt_tokens": [1]}',
        b'{"prompt_tokens": true}',
        b"[1, 2]",
        b'"none"',
    ],
)
async def test_a_worker_reports_no_usage_that_is_none(
    conn: AsyncConnection, dsn: str, usage: bytes
) -> None:
    """Tokens below zero would give back what a budget has spent; the turn goes on."""
    async with desk(conn, dsn) as d:
        turn = await d.start()
        given = usage.decode()
        call = (
            "select agent.process_tool_call(%s, 'look_up', '{\"query\": \"a\"}', null, %s::jsonb)"
        )
        for statement, values in (
            (call, (turn, given)),
            ("select agent.finish_turn(%s, 'Bye.', %s::jsonb)", (turn, given)),
        ):
            error = await refused(d.worker, statement, *values, state="WA027")
            assert "usage" in message_of(error)
        assert await value(conn, "select tokens from agent.run") == 0
        ended = await d.call("finish_turn", turn, "Bye.", b'{"prompt_tokens": 3, "total": null}')
        assert ended["status"] == "succeeded"


async def test_the_messages_of_a_turn_begin_as_those_before_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """Byte for byte, so that the provider's cache holds: a denied call, and one done later."""
    async with desk(conn, dsn) as d:
        turn = await d.start("Look it up.")
        ready = await d.call("process_tool_call", turn, "look_up", b'{"query": "x"}')
        assert ready["status"] == "ready"
        denied = await d.call("process_tool_call", turn, "rm", b"{}")
        assert denied["status"] == "denied"
        await d.call("record_tool_result", turn, "look_up", b'"found"')
        before = (await d.call("run_turn", turn))["messages"]
        assert [each["role"] for each in before] == ["user", *["assistant", "tool"] * 2]
        await d.call("finish_turn", turn, "Here it is.")
        again = await d.start("Thanks.")
        after = (await d.call("run_turn", again))["messages"]
        assert after[: len(before)] == before
        assert [each["content"] for each in after[len(before) :]] == ["Here it is.", "Thanks."]


async def test_arguments_mean_what_the_schema_says(conn: AsyncConnection, dsn: str) -> None:
    """Whole numbers are integers at every depth, and null is what is left out."""
    async with desk(conn, dsn) as d:
        await run_all(
            conn,
            "create type place as (no int, name text);"
            " create function count_it(n bigint, list int[], at place,"
            " why text default 'none given')"
            " returns text language sql as $$ select concat_ws(' ', n, list, at, why) $$;"
            " grant execute on function count_it to public;"
            " update agent.agent set tools = tools || '{count_it}' where name = 'helper'",
        )
        turn = await d.start()
        given = b'{"n": 7.0, "list": [1.0, 1e2], "at": {"no": 3.0, "name": "a"}, "why": null}'
        result = await d.call("process_tool_call", turn, "count_it", given)
        assert result["result"] == "7 {1,100} (3,a) none given", result
