"""Teams: roles, votes that are decided once, tasks in order, artifacts without lost versions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest
from psycopg import AsyncConnection, DatabaseError

from tests.helpers.daemon import daemon
from tests.helpers.database import column, refused, role, rows, run_all, session, value
from tests.helpers.people import acting, application, person
from tests.helpers.queue import set_clock
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel

VOTE = "select agent.vote(%s, %s)"
STATE = "select state from agent.proposal where id = %s"
ACTIONS = "select data ->> 'action' from agent.event where type = 'system' order by number"
DECIDED = (
    "select data ->> 'result' from agent.event where data ->> 'action' = 'decided' order by number"
)


@dataclass(frozen=True)
class Team:
    """Sessions of a leader, of two members and of somebody else."""

    leader: AsyncConnection
    one: AsyncConnection
    two: AsyncConnection
    stranger: AsyncConnection
    names: tuple[str, str, str, str]
    thread: str


@asynccontextmanager
async def team(conn: AsyncConnection, dsn: str) -> AsyncIterator[Team]:
    """The team `crew`: a leader, who names itself and two members; and a stranger."""
    async with AsyncExitStack() as stack:
        names = [await stack.enter_async_context(role(conn)) for _ in range(4)]
        for name in names:
            await run_all(conn, f"select agent.grant_member('{name}')")
        people = [await stack.enter_async_context(session(dsn, user=name)) for name in names]
        thread = await value(people[0], "select agent.create_team('crew', %s::name[])", names[:3])
        leader, one, two, stranger = people
        yield Team(leader, one, two, stranger, (names[0], names[1], names[2], names[3]), thread)
        await run_all(conn, "delete from agent.thread")


async def propose(who: AsyncConnection, rest: str = "") -> str:
    """Propose something to the team; return the ID."""
    return await value(who, f"select agent.propose('crew', 'Ship it'{rest})")


async def test_a_team_is_a_thread_with_roles(conn: AsyncConnection, dsn: str) -> None:
    """Only a leader gives roles and removes others; strangers see nothing, and it has a leader."""
    async with team(conn, dsn) as t:
        seen = "select principal from agent.team_member"
        assert set(await column(t.one, seen)) == set(t.names[:3])
        for query in (seen, "select name from agent.team"):
            assert await column(t.stranger, query) == []
        give = "select agent.set_team_member('crew', %s, %s)"
        await refused(t.stranger, give, t.names[3], "leader", state="WA026")
        await refused(t.one, give, t.names[1], "leader", state="42501")
        await refused(t.leader, give, t.names[0], "member", state="WA026")
        await refused(t.leader, give, t.names[1], "king", state="WA026")
        await refused(t.leader, give, "nobody at all", "member", state="WA019")
        forged = (
            "insert into agent.team_member (team, thread_id, principal, role)"
            " select 'crew', %s, %s, 'leader'"
        )
        await refused(t.stranger, forged, t.thread, t.names[3], state="42501")
        remove = "select agent.remove_team_member('crew', %s)"
        await refused(t.one, remove, t.names[2], state="42501")
        await refused(t.leader, remove, t.names[0], state="WA026")
        await value(t.leader, give, t.names[3], "observer")
        discussion = await value(t.one, "select agent.open_discussion('crew', 'Colors')")
        assert await value(t.stranger, "select agent.post(%s, 'Blue.')", discussion)
        await value(t.leader, remove, t.names[3])
        await refused(t.stranger, "select agent.post(%s, 'Red.')", discussion, state="WA019")
        # Who leaves the thread leaves the team.
        await value(t.two, "select agent.leave_thread(%s)", t.thread)
        assert set(await column(t.one, seen)) == set(t.names[:2])
        await refused(t.leader, "select agent.create_team('crew')", state="WA026")
        await refused(t.leader, "select agent.create_team('a b')", state="WA026")


async def test_a_team_keeps_a_leader(conn: AsyncConnection, dsn: str) -> None:
    """In whatever way leaders leave, also at once; a team can still be deleted with its thread."""
    async with team(conn, dsn) as t:
        leave = "select agent.leave_thread(%s)"
        await refused(t.leader, leave, t.thread, state="WA026")
        give = "select agent.set_team_member('crew', %s, %s)"
        await value(t.leader, give, t.names[1], "leader")
        ends = await asyncio.gather(
            value(t.leader, give, t.names[0], "member"),
            value(t.one, leave, t.thread),
            return_exceptions=True,
        )
        assert [isinstance(each, DatabaseError) for each in ends].count(True) == 1
        leads = "select count(*) from agent.team_member where role = 'leader'"
        assert await value(conn, leads) == 1
        await run_all(conn, f"delete from agent.thread where id = '{t.thread}'")
        assert await value(conn, "select count(*) from agent.team") == 0


async def test_a_team_has_no_more_members_than_it_can_have(conn: AsyncConnection, dsn: str) -> None:
    """Also if two are added at once."""
    async with team(conn, dsn) as t:
        await run_all(conn, "update agent.team set max_members = 4")
        await run_all(
            conn,
            "insert into agent.principal (tenant, name)"
            " select 'default', 'p' || n from generate_series(1, 8) n",
        )

        async def add(n: int) -> str:
            async with session(dsn, user=t.names[0]) as own:
                try:
                    await value(own, "select agent.set_team_member('crew', %s)", f"p{n}")
                except DatabaseError as error:
                    return str(error.sqlstate)
                return "added"

        ends = await asyncio.gather(*map(add, range(1, 9)))
        assert sorted(ends) == ["WA026"] * 7 + ["added"]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("rest", "choices", "state"),
    [
        ("", ["yes"], "open"),
        ("", ["yes", "yes"], "accepted"),
        ("", ["no", "no"], "rejected"),
        ("", ["yes", "no", "no"], "rejected"),
        ("", ["yes", "no", "abstain"], "rejected"),
        ("", ["abstain", "abstain", "abstain"], "rejected"),
        (", rule => 'majority'", ["yes", "yes"], "accepted"),
        (", rule => 'majority'", ["yes", "no"], "open"),
        (", rule => 'majority'", ["yes", "abstain", "abstain"], "accepted"),
        (", rule => 'majority'", ["yes", "no", "abstain"], "rejected"),
        (", rule => 'unanimity'", ["yes", "yes"], "open"),
        (", rule => 'unanimity'", ["yes", "yes", "yes"], "accepted"),
        (", rule => 'unanimity'", ["no"], "rejected"),
        (", rule => 'unanimity'", ["yes", "yes", "abstain"], "accepted"),
        (", threshold => 1", ["yes", "no"], "rejected"),
        (", threshold => 0.3, quorum => 1", ["yes", "yes"], "open"),
    ],
)
async def test_a_proposal_is_decided_when_no_vote_can_change_it(
    conn: AsyncConnection, dsn: str, rest: str, choices: list[str], state: str
) -> None:
    """Not before, and by its rule."""
    async with team(conn, dsn) as t:
        proposal = await propose(t.leader, rest)
        for who, choice in zip((t.leader, t.one, t.two), choices, strict=False):
            last = await value(who, VOTE, proposal, choice)
        assert (last, await value(conn, STATE, proposal)) == (state, state)
        assert await column(conn, DECIDED) == ([] if state == "open" else [state])


async def test_weights_count_and_observers_have_no_vote(conn: AsyncConnection, dsn: str) -> None:
    """The weight is that at the time of the vote."""
    async with team(conn, dsn) as t:
        give = "select agent.set_team_member('crew', %s, %s, %s)"
        await value(t.leader, give, t.names[1], "critic", 5)
        await value(t.leader, give, t.names[2], "observer", 1)
        proposal = await propose(t.leader)
        await refused(t.two, VOTE, proposal, "yes", state="42501")
        await refused(t.two, "select agent.propose('crew', 'x')", state="42501")
        assert await value(t.leader, VOTE, proposal, "no") == "open"
        assert await value(t.one, VOTE, proposal, "yes") == "accepted"
        found = await rows(t.two, "select yes, no, votes, voters from agent.proposal_overview")
        assert found == [(5, 1, 2, 2)]


async def test_votes_that_are_refused(conn: AsyncConnection, dsn: str) -> None:
    """A second one, one of a stranger, one after the decision or the deadline, another choice."""
    async with team(conn, dsn) as t:
        proposal = await propose(t.one)
        await refused(t.stranger, VOTE, proposal, "yes", state="WA026")
        await refused(t.one, VOTE, proposal, "maybe", state="WA026")
        await refused(t.one, VOTE, str(uuid4()), "yes", state="WA026")
        await value(t.one, VOTE, proposal, "yes")
        for choice in ("yes", "no"):
            await refused(t.one, VOTE, proposal, choice, state="WA026")
        forged = (
            "insert into agent.vote (proposal_id, thread_id, principal, choice, weight)"
            " values (%s, %s, %s, 'yes', 1000)"
        )
        await refused(t.one, forged, proposal, t.thread, t.names[2], state="42501")
        await refused(t.one, "update agent.vote set choice = 'no'", state="42501")
        await value(t.two, VOTE, proposal, "yes")
        await refused(t.leader, VOTE, proposal, "no", state="WA026")
        await refused(t.one, "select agent.withdraw_proposal(%s)", proposal, state="WA026")
        mine = await propose(t.one)
        await refused(t.two, "select agent.withdraw_proposal(%s)", mine, state="42501")
        await value(t.one, "select agent.withdraw_proposal(%s)", mine)
        await refused(t.one, VOTE, mine, "yes", state="WA026")
        for wrong in (
            "rule => 'coin'", "threshold => 2", "quorum => -1",
            "deadline => now() - interval '1 s'",
            "rule => 'majority', threshold => 0.7", "rule => 'unanimity', quorum => 0.5",
            f"thread => '{uuid4()}'",
        ):  # fmt: skip
            await refused(t.one, f"select agent.propose('crew', 'x', {wrong})", state="WA026")


async def test_a_deadline_decides_by_the_votes_there_are(conn: AsyncConnection, dsn: str) -> None:
    """With the quorum, or not; any tick does it; an archived thread stops nothing."""
    async with team(conn, dsn) as t:
        until = ", deadline => now() + interval '1 hour'"
        accepted = await propose(t.leader, until + ", quorum => 0.3")
        lacking = await propose(t.leader, until)
        empty = await propose(t.leader, until + ", rule => 'majority', quorum => 0")
        for proposal in (accepted, lacking):
            assert await value(t.one, VOTE, proposal, "yes") == "open"
        await set_clock(conn, "2 hours")
        await refused(t.two, VOTE, accepted, "no", state="WA026")
        await value(t.leader, "select agent.archive_thread(%s)", t.thread)
        await value(conn, "select agent_internal.tick()")
        states = [await value(conn, STATE, p) for p in (accepted, lacking, empty)]
        assert states == ["accepted", "rejected", "rejected"]
        assert await value(conn, "select agent_internal.settle_due_proposals()") == 0


@pytest.mark.slow
async def test_twenty_votes_at_once_decide_once(conn: AsyncConnection, dsn: str) -> None:
    """Each member's vote counts once, and one event says what was decided."""
    async with AsyncExitStack() as stack:
        names = [await stack.enter_async_context(role(conn)) for _ in range(20)]
        for name in names:
            await run_all(conn, f"select agent.grant_member('{name}')")
        people = [await stack.enter_async_context(session(dsn, user=name)) for name in names]
        create = "select agent.create_team('crew', %s::name[], max_members => 20)"
        await value(people[0], create, names[1:])
        proposal = await propose(people[0], ", rule => 'majority'")

        async def vote(who: AsyncConnection, choice: str) -> str:
            try:
                return await value(who, VOTE, proposal, choice)
            except DatabaseError as error:
                return str(error.sqlstate)

        choices = ["yes", "no", "yes", "yes"] * 5
        ends = await asyncio.gather(*map(vote, people, choices))
        assert set(ends) <= {"open", "accepted", "WA026"}
        assert ends.count("accepted") == 1
        assert await column(conn, DECIDED) == ["accepted"]
        cast = await rows(conn, "select votes, yes > 10 from agent.proposal_overview")
        assert cast == [(20 - ends.count("WA026"), True)]
        await run_all(conn, "delete from agent.thread")


async def test_tasks_start_in_order(conn: AsyncConnection, dsn: str) -> None:
    """What a task needs comes first; only its assignee or a coordinator changes it."""
    async with team(conn, dsn) as t:
        create = "select agent.create_task('crew', %s, assignee => %s, needs => %s::uuid[])"
        first = await value(t.leader, create, "Dig", t.names[1], [])
        second = await value(t.leader, create, "Plant", t.names[2], [first])
        await refused(t.one, create, "x", t.names[2], [], state="42501")
        await refused(t.one, create, "x", t.names[3], [], state="WA026")
        await refused(t.one, create, "x", None, [str(uuid4())], state="WA026")
        update = "select agent.update_task(%s, %s)"
        error = await refused(t.two, update, second, "started", state="WA026")
        assert "Dig" in str(error)
        await refused(t.two, update, first, "started", state="42501")
        await refused(t.stranger, update, first, "started", state="WA026")
        await refused(t.one, update, first, "completed", state="WA026")
        for state in ("started", "blocked", "started", "completed"):
            await value(t.one, update, first, state)
        await refused(t.one, update, first, "started", state="WA026")
        await refused(t.one, update, first, "done", state="WA026")
        await value(t.two, update, second, "started")
        hand = "select agent.hand_over(%s, %s, 'Water it.', %s)"
        await refused(t.one, hand, t.thread, t.names[2], second, state="42501")
        await refused(t.two, hand, t.thread, t.names[3], second, state="WA026")
        await value(t.two, hand, t.thread, t.names[1], second)
        await refused(t.two, update, second, "completed", state="42501")
        await value(t.one, update, second, "completed")
        nobody = await value(t.one, create, "Rest", None, [])
        await value(t.two, update, nobody, "started")
        await refused(t.one, "select agent.assign_task(%s, %s)", nobody, t.names[1], state="42501")
        await value(t.leader, "select agent.assign_task(%s, %s)", nobody, t.names[1])
        found = await rows(
            t.one, "select title, state, assignee from agent.task order by created_at"
        )
        assert found == [
            ("Dig", "completed", t.names[1]),
            ("Plant", "completed", t.names[1]),
            ("Rest", "started", t.names[1]),
        ]


async def test_no_version_of_an_artifact_is_lost(conn: AsyncConnection, dsn: str) -> None:
    """Of two who change the same version, one must read again."""
    async with team(conn, dsn) as t:
        save = "select agent.save_artifact('crew', 'plan', %s, expected => %s)"
        assert await value(t.one, save, "a", 0) == 1

        async def change(who: AsyncConnection, text: str) -> int | str:
            try:
                return await value(who, save, text, 1)
            except DatabaseError as error:
                return str(error.sqlstate)

        ends = await asyncio.gather(change(t.one, "b"), change(t.two, "c"))
        assert set(ends) == {2, "WA026"}
        assert await value(t.two, save, "d", None) == 3
        await refused(t.stranger, save, "e", None, state="WA026")
        await refused(t.one, "delete from agent.artifact", state="42501")
        key = "sk-" + "ant-api03-" + "a" * 40
        await refused(t.one, save, f"the key is {key}", None, state="23514")
        assert await column(t.leader, "select version from agent.artifact order by 1") == [1, 2, 3]


async def test_comments_and_reactions_are_events(conn: AsyncConnection, dsn: str) -> None:
    """A reaction is there once until it is taken back; a comment is about something there."""
    async with team(conn, dsn) as t:
        comment = "select (agent.comment(%s, 'Why?', 'question', %s, %s)).id"
        task = await value(t.one, "select agent.create_task('crew', 'Dig')")
        said = await value(t.one, comment, t.thread, task, t.names[0])
        await refused(t.stranger, comment, t.thread, None, None, state="WA019")
        await refused(t.one, comment, t.thread, str(uuid4()), None, state="WA026")
        await refused(t.one, comment, t.thread, None, t.names[3], state="WA026")
        await refused(t.one, "select agent.comment(%s, 'x', 'shout')", t.thread, state="WA026")
        react = "select agent.react(%s, %s, %s::boolean)"
        assert await value(t.two, react, said, "+1", "no")
        assert not await value(t.two, react, said, "+1", "no")
        assert await value(t.leader, react, said, "+1", "no")
        assert await value(t.two, react, said, "+1", "yes")
        assert not await value(t.two, react, said, "+1", "yes")
        await refused(t.two, react, said, "two words", "no", state="WA026")
        await refused(t.stranger, react, said, "+1", "no", state="WA019")
        found = await rows(t.one, "select event_id, principal, reaction from agent.reaction")
        assert found == [(said, t.names[0], "+1")]
        assert await rows(t.stranger, "select * from agent.reaction") == []


@pytest.mark.slow
async def test_an_agent_votes_works_and_hands_over_as_itself(
    conn: AsyncConnection, dsn: str
) -> None:
    """Once, in its own name; what it may not do is an error for the model."""
    await run_all(
        conn,
        "insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');"
        "insert into agent.agent (name, model, tools)"
        " values ('sarah', 'fake', '{propose,vote,task_update,hand_over}');"
        "insert into agent.principal (tenant, name, kind) values ('default', 'sarah', 'agent');"
        "select agent.attach_to_threads('sarah', \"new.data ->> 'to' = 'sarah'\")".replace(
            '"', "$$"
        ),
    )
    async with team(conn, dsn) as t:
        await value(t.leader, "select agent.set_team_member('crew', 'sarah')")
        proposal = await propose(t.leader, ", rule => 'unanimity'")
        task = await value(t.leader, "select agent.create_task('crew', 'Dig', assignee => 'sarah')")
        other = await value(
            t.one, "select agent.create_task('crew', 'x', assignee => %s)", t.names[1]
        )
        script = [
            call("vote", proposal=str(proposal), choice="yes", reason="It is ready."),
            call("vote", proposal=str(proposal), choice="no"),
            call("task_update", task=str(task), state="started"),
            call("task_update", task=str(other), state="started"),
            call("hand_over", to=t.names[1], note="Dig deeper.", task=str(task)),
            call("propose", team="crew", title="Rest"),
            "Done.",
        ]
        async with daemon(conn, dsn, {"fake": ScriptedModel(script)}) as d:
            await value(t.leader, "select agent.comment(%s, 'Go.', \"to\" => 'sarah')", t.thread)
            waiting = 'select principal, text, "to" from agent.pending_message'
            assert await rows(t.one, waiting) in ([("sarah", "Go.", "sarah")], [])
            await d.until(
                "select bool_or(agent_internal.is_final(state)) from agent.run where kind = 'turn'"
            )
        said = "select content ->> 'content', content ->> 'is_error' from agent.step"
        results = await rows(conn, f"{said} where kind = 'result' order by run_id, seq")
        assert len(results) == 6, results
        errors = [text for text, is_error in results if is_error == "true"]
        assert [error.split(" (SQLSTATE ")[1][:5] for error in errors] == ["WA026", "42501"]
        assert await rows(conn, "select principal, choice, reason from agent.vote") == [
            ("sarah", "yes", "It is ready.")
        ]
        assert await rows(conn, "select assignee, state from agent.task where id = %s", task) == [
            (t.names[1], "started")
        ]
        by_run = "select run_id is not null from agent.event where data ->> 'kind' = 'hand_over'"
        assert await column(conn, by_run) == [True]
        assert "Rest" in await column(conn, "select title from agent.proposal")
        assert await rows(t.one, waiting) == []


async def test_another_tenant_sees_no_team(conn: AsyncConnection, dsn: str) -> None:
    """And uses none, by name or ID; it can have one of the same name."""
    async with team(conn, dsn) as t:
        proposal = await propose(t.leader)
        task = await value(t.one, "select agent.create_task('crew', 'Dig')")
        token = await person(conn, "eve", "admin", tenant="other")
        attempts = [
            "agent.propose('crew', 'x')",
            f"agent.vote('{proposal}', 'yes')",
            f"agent.withdraw_proposal('{proposal}')",
            f"agent.update_task('{task}', 'started')",
            f"agent.assign_task('{task}', 'eve')",
            "agent.save_artifact('crew', 'x', 'y')",
            "agent.open_discussion('crew', 'x')",
            "agent.set_team_member('crew', 'eve', 'leader')",
        ]
        async with application(conn, dsn, "viewer") as app:
            for attempt in attempts:
                async with acting(app, token):
                    await refused(app, f"select {attempt}", state="WA026")
            async with acting(app, token):
                for table in ("team", "team_member", "proposal", "vote", "task", "artifact"):
                    assert await value(app, f"select count(*) from agent.{table}") == 0
                assert await value(app, "select agent.create_team('crew')")
