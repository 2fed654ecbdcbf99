"""A run goes on from a step of another one: what it keeps, changes, writes and refuses."""

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    message_of,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from walagent.message import Json, Request, ToolCall
from walagent.models.script import Answer, call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.people.forks import preview
from walagent.store.people.operator import Change

SPEC = "writes=[status, category], tools=[refund_user, escalate_to_human], on=[insert]"
REFUNDS = "select ticket_id::int, amount::int from refund order by at"
TICKET = "select category, status from support_tickets where id = 7"
SCRIPT: tuple[Answer, ...] = (
    call("refund_user", ticket_id=7, amount=5),
    call("update_row", status="closed"),
    "done",
)
STEPS = """
select seq, kind, content ? 'kept', coalesce(cost, 0) > 0, coalesce(input_tokens, 0)
  from agent.step where run_id = %s order by seq
"""


ENDED = "select state::text, coalesce(result, error ->> 'reason') from agent.run where id = %s"


@asynccontextmanager
async def desk(
    conn: AsyncConnection, dsn: str, script: Iterable[Answer] = SCRIPT, spec: str = SPEC
) -> AsyncIterator[tuple[Daemon, ScriptedModel]]:
    """A desk whose agent has handled ticket 7 by run 1."""
    await run_all(conn, DESK)
    model = ScriptedModel(script)
    async with daemon(conn, dsn, {"fake": model}) as d:
        await attach(conn, spec)
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        yield d, model


async def forked(d: Daemon, step: int, options: str = "", *given: object) -> tuple[int, str, Json]:
    """Fork run 1; give the new run, its state and its result or reason."""
    made = await value(d.conn, f"select agent.fork(1, %s{options})", step, *given)
    await d.until("select agent_internal.is_final(state) from agent.run where id = %s", made)
    ((state, text),) = await rows(d.conn, ENDED, made)
    assert isinstance(made, int)
    return made, str(state), text


async def test_effects_of_kept_steps_are_not_done_again(conn: AsyncConnection, dsn: str) -> None:
    """The refund is one of run 1; the row is written once by each run."""
    async with desk(conn, dsn) as (d, model):
        await d.ended()
        assert await rows(conn, REFUNDS) == [(7, 5)]
        await run_all(conn, "update support_tickets set status = 'open'")
        asked = len(model.requests)
        made, state, result = await forked(d, 2)
        assert (state, result) == ("succeeded", "done")
        assert len(model.requests) == asked + 2
        assert await rows(conn, REFUNDS) == [(7, 5)]
        assert await rows(conn, TICKET) == [(None, "closed")]
        await d.caught_up()
        await d.until("select count(*) = 2 from agent.row_change")
    assert await rows(conn, STEPS, made) == [
        (0, "reply", True, False, 0),
        (1, "result", True, False, 0),
        (2, "note", False, False, 0),
        (3, "reply", False, True, 100),
        (4, "result", False, False, 0),
        (5, "reply", False, True, 100),
    ]
    assert await rows(
        conn, "select run_id, table_name, step from agent.row_change order by commit_lsn"
    ) == [(1, "support_tickets", 3), (made, "support_tickets", 4)]
    spent = "select sum(s.cost) = r.cost, r.tokens from agent.run r join agent.step s"
    spent += " on s.run_id = r.id where r.id = %s group by r.id, r.tenant"
    assert await rows(conn, spent, made) == [(True, 220)]
    of = "select fork_of, fork_step, reason, key from agent.run where id = %s"
    assert await rows(conn, of, made) == [(1, 2, "manual", "7")]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_fork_without_changes_sends_what_the_run_sent(
    conn: AsyncConnection, dsn: str
) -> None:
    """At each reply and each call: messages and system prompt are those of the run."""
    async with desk(conn, dsn) as (d, model):
        await d.ended()
        first = list(model.requests)
        for step, asks in ((0, 0), (1, 1), (2, 1), (3, 2), (4, 2)):
            model.requests.clear()
            assert (await forked(d, step))[1:] == ("succeeded", "done")
            assert [_said(r) for r in model.requests] == [_said(r) for r in first[asks:]]


def _said(request: Request) -> tuple[object, ...]:
    """A request without the marker of its run."""
    opening, *rest = request.messages
    return (request.system, len(opening.parts), rest, request.tools)


async def test_another_prompt_holds_from_there_on(conn: AsyncConnection, dsn: str) -> None:
    """And in a fork of the fork; a retry that begins afresh has that of the version."""
    async with desk(conn, dsn) as (d, model):
        await d.ended()
        made, state, _ = await forked(d, 4, ", prompt => 'Be careful.'")
        assert state == "succeeded"
        assert model.requests[-1].system.startswith("Be careful.\n")
        again = await value(conn, "select agent.fork(%s, 5)", made)
        await d.until("select agent_internal.is_final(state) from agent.run where id = %s", again)
        assert model.requests[-1].system.startswith("Be careful.\n")
        assert not model.requests[0].system.startswith("Be careful.\n")


async def test_a_person_replies_in_place_of_the_model(conn: AsyncConnection, dsn: str) -> None:
    """With calls, which are checked and carried out, and then the model is asked again."""
    reply = {"text": "So.", "calls": [{"name": "update_row", "arguments": {"category": "bug"}}]}
    async with desk(conn, dsn) as (d, model):
        await d.ended()
        asked = len(model.requests)
        made, state, result = await forked(d, 2, ", reply => %s", Jsonb(reply))
        assert (state, result) == ("succeeded", "done")
        assert await rows(conn, TICKET) == [("bug", "closed")]
        assert len(model.requests) == asked + 1
        me = await value(conn, "select session_user")
        by = "select content ->> 'written_by' from agent.step where run_id = %s and seq = 3"
        assert await value(conn, by, made) == me
        assert (await forked(d, 2, ", reply => '\"No.\"'"))[1:] == ("succeeded", "No.")


async def test_arguments_are_changed_and_checked_like_the_models(
    conn: AsyncConnection, dsn: str
) -> None:
    """What the schema refuses goes back to the model, which corrects it here."""
    async with desk(conn, dsn) as (d, model):
        await d.ended()
        arguments = Jsonb({"ticket_id": 7, "amount": 9})
        made, state, _ = await forked(d, 1, ", arguments => %s", arguments)
        assert state == "succeeded"
        assert await rows(conn, REFUNDS) == [(7, 5), (7, 9)]
        shown = model.requests[-1].messages[1].parts
        assert [part.arguments for part in shown if isinstance(part, ToolCall)] == [
            {"ticket_id": 7, "amount": 9}
        ]
        calls = "select content -> 'parts' -> 0 -> 'arguments' ->> 'amount' from agent.step"
        assert await column(conn, f"{calls} where seq = 0 order by run_id") == ["5", "9"]
        made, state, _ = await forked(d, 1, ', arguments => \'{"ticket_id": 7, "amount": "much"}\'')
        refusal = "select content ->> 'correction' from agent.step where run_id = %s and seq = 2"
        assert await value(conn, refusal, made) == "true"
        assert await rows(conn, REFUNDS) == [(7, 5), (7, 9)]


async def test_a_call_that_requires_approval_is_asked_about_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """With its new arguments; who forked it is one who requested it."""
    async with desk(conn, dsn, spec=f"{SPEC}, approve=[refund_user]") as (d, _):
        await d.until("select count(*) = 1 from agent.pending_approval")
        await run_all(conn, "select agent.approve(id) from agent.pending_approval")
        await d.ended()
        arguments = Jsonb({"ticket_id": 7, "amount": 9})
        made = await value(conn, "select agent.fork(1, 3, arguments => %s)", arguments)
        await d.until("select count(*) = 1 from agent.pending_approval")
        assert await rows(
            conn, "select run_id, arguments ->> 'amount', requested_by @> array[session_user]"
            " from agent.approval where state = 'pending'"
        ) == [(made, "9", True)]  # fmt: skip
        assert await rows(conn, REFUNDS) == [(7, 5)]
        await run_all(conn, "select agent.approve(id) from agent.pending_approval")
        await d.until("select agent_internal.is_final(state) from agent.run where id = %s", made)
        assert await rows(conn, REFUNDS) == [(7, 5), (7, 9)]


async def test_a_revert_of_a_fork_takes_back_its_own_changes(
    conn: AsyncConnection, dsn: str
) -> None:
    """And that of the run its own, each once."""
    async with desk(conn, dsn) as (d, _):
        await d.ended()
        await run_all(conn, "update support_tickets set status = 'open'")
        made, _, _ = await forked(d, 2)
        await d.caught_up()
        made_revert = await value(conn, "select agent.revert(%s)", made)
        ended = "select agent_internal.is_final(state) from agent.run where id = %s"
        await d.until(ended, made_revert)
        result = "select coalesce(result, error::text) from agent.run where id = %s"
        assert await value(conn, result, made_revert) == f"1 change of run {made} was taken back"
        assert await rows(conn, TICKET) == [(None, "open")]
        assert await rows(conn, REFUNDS) == [(7, 5)]


async def test_a_run_that_was_taken_back_is_not_gone_on_from_what_it_did(
    conn: AsyncConnection, dsn: str
) -> None:
    """The model would be told of a refund and a status that are not there; at its start, it can."""
    writes = (call("update_row", status="closed"), call("update_row", category="x"), "done")
    async with desk(conn, dsn, writes) as (d, _):
        await d.ended()
        await d.caught_up()
        made = await value(conn, "select agent.revert(1)")
        await d.until("select agent_internal.is_final(state) from agent.run where id = %s", made)
        await d.caught_up()
        assert await rows(conn, TICKET) == [(None, "open")]
        said = await refused(conn, "select agent.fork(1, 2)", state="WA003")
        assert "was taken back" in message_of(said)
        _, state, result = await forked(d, 0)
        assert (state, result) == ("succeeded", "done")


UPDATE = """, reply => '{"calls": [{"name": "update_row", "arguments": {"category": "x"}}]}'"""
FLY = """, reply => '{"calls": [{"name": "fly", "arguments": {}}]}'"""


@pytest.mark.parametrize(
    ("prepare", "step", "options", "state", "says"),
    [
        ("", 9, "", "WA003", "has no step 9"),
        ("", 2, ", arguments => '{}'", "22023", "is a reply"),
        ("", 1, ", reply => '\"x\"'", "22023", "belongs to a call"),
        ("", 1, ", arguments => '[]'", "22023", "not a JSON object"),
        ("", 1, ", arguments => '{}'", "22023", 'requires the argument "ticket_id"'),
        ("", 1, ", arguments => '{\"ticket_id\": 7, \"to\": 1}'", "22023", 'no argument "to"'),
        ("", 2, FLY, "22023", 'no tool "fly"'),
        ("", 2, UPDATE, "22023", '"category" is not one of bug, billing'),
        ("", 3, ", arguments => '{\"category\": \"x\"}'", "22023", "is not one of bug, billing"),
        ("", 2, ", prompt => ''", "22023", "prompt must not be empty"),
        ("", 2, ", reply => to_jsonb(repeat('x', 3000000))", "22023", "reply has 3000002 bytes"),
        ("", 2, ", reply => '{}'", "22023", "must be a text"),
        ("", 2, FLY.replace("arguments", "with"), "22023", "must be a text"),
        ("select agent.detach('support_tickets')", 2, "", "WA003", "was detached"),
        ("delete from agent.attachment_version", 2, "", "WA003", "is gone"),
        ("update agent.run set kind = 'turn' where id = 1", 2, "", "WA003", 'is of kind "turn"'),
        ("delete from agent.run", 2, "", "WA003", "does not exist"),
    ],
)  # fmt: skip
async def test_what_cannot_be_forked_is_refused_by_name(  # noqa: PLR0917 - the columns of a table
    conn: AsyncConnection, dsn: str, prepare: str, step: int, options: str, state: str, says: str
) -> None:
    """Nothing is inserted."""
    async with desk(conn, dsn) as (d, _):
        await d.ended()
        await d.stop("worker", "reader")
        await run_all(conn, f"set session_replication_role = replica; {prepare};")
        await run_all(conn, "reset session_replication_role")
        before = await value(conn, "select count(*) from agent.run")
        error = await refused(conn, f"select agent.fork(1, %s{options})", step, state=state)
        assert says in message_of(error)
        assert await value(conn, "select count(*) from agent.run") == before


async def test_a_run_that_runs_is_not_forked(conn: AsyncConnection, dsn: str) -> None:
    """Its state is named; notes are no steps to go on from."""
    async with desk(conn, dsn, spec=f"{SPEC}, approve=[refund_user]") as (d, _):
        await d.until("select count(*) = 1 from agent.pending_approval")
        error = await refused(conn, "select agent.fork(1, 0)", state="WA003")
        assert "run 1 is waiting_approval" in message_of(error)
        await run_all(conn, "select agent.cancel(1); select agent.retry(1); select agent.cancel(1)")
        error = await refused(conn, "select agent.fork(1, 2)", state="WA003")
        assert 'is of kind "note"' in message_of(error)
        assert (await value(conn, "select agent.fork(1, 1)")) == 2


async def test_an_approver_forks_and_only_a_developer_says_what_is_said(
    conn: AsyncConnection, dsn: str
) -> None:
    """And only one that could attach an agent with the role of this one."""
    async with desk(conn, dsn) as (d, _):
        await d.ended()
        await d.stop("worker", "reader")
        async with role(conn) as viewer, role(conn) as approver, role(conn) as developer:
            await run_all(conn, f"select agent.grant_viewer('{viewer}')")
            await run_all(conn, f"select agent.grant_approver('{approver}')")
            await run_all(conn, f"select agent.grant_approver('{developer}')")
            await run_all(conn, f"select agent.grant_developer('{developer}')")
            async with _login(conn, viewer):
                await refused(conn, "select agent.fork(1, 2)", state="42501")
            async with _login(conn, approver):
                assert await value(conn, "select agent.fork(1, 2)") == 2
                for said in (", prompt => 'x'", ", reply => '\"x\"'"):
                    await refused(conn, f"select agent.fork(1, 2{said})", state="42501")
                await refused(conn, "select agent.fork(1, 1, arguments => '{}')", state="42501")
            async with _login(conn, developer):
                error = await refused(conn, "select agent.fork(1, 2, prompt => 'x')", state="42501")
                assert "cannot become role" in message_of(error)
            assert await value(conn, "select count(*) from agent.run") == 2
        audited = "select principal, object, detail from agent.audit where action = 'run.forked'"
        assert await rows(conn, audited) == [(approver, "1", {"step": 2, "by_run": 2})]


SAID: tuple[Answer, ...] = (
    call("refund_user", ticket_id=7, amount=5),
    [call("update_row", status="closed"), call("escalate_to_human", reason="why")],
    call("update_row", category="none such"),
    call("refund_user", ticket_id=7, amount="much"),
    call("fly"),
    [call("update_row", category="bug"), "And then?"],
    "",
)
TOLD = """
select kind, content - '{kept,by,requested_by,digest,approval}'::text[] from agent.step
 where run_id = %s and not content ? 'fork' order by seq
"""
FORKABLE = (
    "select seq from agent.step where run_id = 1 and kind in ('reply', 'result') order by seq"
)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(6))
async def test_a_fork_at_any_step_ends_as_the_run_did(
    conn: AsyncConnection, dsn: str, seed: int
) -> None:
    """Step by step, whatever was said: corrections, failures and limits included."""
    chance = random.Random(seed)
    script = [*chance.choices(SAID, k=chance.randint(1, 5)), "done"]
    async with desk(conn, dsn, script, f"{SPEC}, max_steps=4") as (d, _):
        await d.ended()
        ((state, result),) = await rows(
            conn, "select state::text, coalesce(result, error ->> 'reason') from agent.run"
        )
        told = await rows(conn, TOLD, 1)
        for step in await column(conn, FORKABLE):
            assert isinstance(step, int)
            made, *ended = await forked(d, step)
            assert (step, *ended) == (step, state, result)
            assert await rows(conn, TOLD, made) == told
    assert await rows(conn, "select * from agent.broken_invariant") == []


@asynccontextmanager
async def _login(conn: AsyncConnection, name: str) -> AsyncIterator[None]:
    """A session of the role, not only its rights."""
    await run_all(conn, f"set session authorization {name}")
    try:
        async with as_role(conn, name):
            yield
    finally:
        await run_all(conn, "reset session authorization")


async def test_a_dry_run_says_what_a_fork_would_be_and_makes_none(
    conn: AsyncConnection, dsn: str
) -> None:
    """What is kept, what can be done again, and where it differs; refused as the fork is."""
    async with desk(conn, dsn, spec=f"{SPEC}, approve=[escalate_to_human]") as (d, _):
        await d.ended()
        await d.until("select count(*) = 1 from agent.row_change")
    before = await rows(conn, "select count(*), max(id) from agent.run")
    same = await preview(conn, 1, 2, Change())
    assert [(each.step, each.kind, each.name) for each in same.kept] == [
        (0, "reply", None), (1, "result", "refund_user"),
    ]  # fmt: skip
    assert (same.begins, same.call, same.differs) == ("reply", None, [])
    assert [(each.step, each.name, each.rows) for each in same.again] == [(3, "update_row", 1)]
    edited = Change(prompt="Be brief.", arguments={"ticket_id": 7, "amount": 9})
    call = await preview(conn, 1, 1, edited)
    assert (call.begins, call.call, call.approval) == ("call", "refund_user", False)
    assert [(each.step, each.name) for each in call.again] == [
        (1, "refund_user"), (3, "update_row"),
    ]  # fmt: skip
    assert [(each.step, each.what) for each in call.differs] == [
        (0, "other arguments of the call"), (1, "another system prompt"),
    ]  # fmt: skip
    said = await preview(conn, 1, 0, Change(reply="I cannot."))
    me = await value(conn, "select session_user::text")
    assert (said.begins, said.kept) == ("written", [])
    assert [(each.step, each.what) for each in said.differs] == [
        (0, f"a reply of {me} in place of the model's")
    ]
    await run_all(conn, "update agent.attachment set approve = '{refund_user}'")
    newest = await preview(conn, 1, 1, Change(newest_version=True))
    assert (newest.approval, newest.version) == (True, 2)
    assert [(each.step, each.what) for each in newest.differs] == [
        (1, "version 2 of the attachment: approve, tools")
    ]
    with pytest.raises(psycopg.Error, match="has no step 9"):
        await preview(conn, 1, 9, Change())
    assert await rows(conn, "select count(*), max(id) from agent.run") == before
    assert await rows(conn, "select 1 from agent.audit where action = 'run.forked'") == []


async def test_a_dry_run_needs_what_the_fork_needs(conn: AsyncConnection, dsn: str) -> None:
    """An approver changes no prompt, and a viewer learns nothing more than it sees."""
    async with desk(conn, dsn) as (d, _):
        await d.ended()
    async with role(conn) as login:
        for capability, change in (("viewer", Change()), ("approver", Change(prompt="Pay."))):
            await run_all(conn, f"select agent.grant_{capability}('{login}')")
            async with session(dsn, user=login) as theirs:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await preview(theirs, 1, 0, change)
        async with session(dsn, user=login) as theirs:
            assert (await preview(theirs, 1, 0, Change())).begins == "reply"
    assert await rows(conn, "select count(*) from agent.run") == [(1,)]
