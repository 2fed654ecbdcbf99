"""Kinds of runs beside agents' and questions': their queues, and one worker for all of them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, refused, rows, run_all, value
from tests.helpers.queue import LEASE
from walagent.domain.agent_spec import AgentSpec, Authority
from walagent.domain.run import Claim, RunSpec, Step
from walagent.message import ModelSpec, Request
from walagent.moves import Call, Kind, Move, Prompt, RunLog, succeed
from walagent.store import claiming
from walagent.store.claiming import ClaimScope

NEW = (
    "insert into agent.run (kind, reason, queue_id, change)"
    " values (%s, %s, agent_internal.queue_of(%s, 'first'), '{}') returning id"
)


async def test_each_kind_has_queues_with_names(conn: AsyncConnection) -> None:
    """A name stands for one queue of a kind; a claim takes the kinds that it names, alone."""
    made = [await value(conn, NEW, kind, "manual", kind) for kind in ("node", "delivery")]
    again = await value(conn, "select agent_internal.queue_of('node', 'first')")
    (queue,) = await rows(conn, "select queue_id from agent.run where id = %s", made[0])
    assert queue == (again,)
    scope = ClaimScope(kinds=("delivery",))
    claims = await claiming.claim_runs(conn, "w", 9, LEASE, scope)
    assert [(claim.run_id, claim.kind) for claim in claims] == [(made[1], "delivery")]


@pytest.mark.parametrize("kind", ["turn", "node", "delivery"])
async def test_a_run_of_a_kind_may_have_an_attachment(conn: AsyncConnection, kind: str) -> None:
    """With one it has a version, too; a change has a position."""
    await run_all(conn, DESK)
    attached = await attach(conn, "tools=[]")
    with_attachment = (
        "insert into agent.run (kind, reason, queue_id, attachment_id, attachment_version, change)"
        f" values ('{kind}', %s, {attached}, {attached}, %s, '{{}}') returning id"
    )
    assert await value(conn, with_attachment, "manual", 1)
    await refused(conn, with_attachment, "manual", None, state="23514")
    await refused(conn, with_attachment, "change", 1, state="23514")
    await refused(conn, NEW, kind, "change", kind, state="23514")


class _Done:
    """Ends each run at once."""

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        assert not steps
        return succeed(run.claim.kind)

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        raise NotImplementedError

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        raise NotImplementedError


async def test_one_worker_executes_several_kinds(conn: AsyncConnection, dsn: str) -> None:
    """A kind that needs no attachment says itself what is executed."""

    async def specify(claim: Claim) -> RunSpec:
        return RunSpec(claim, AgentSpec("none", "fake"), Authority("nobody"))

    await run_all(conn, DESK)
    done = _Done()
    kind = Kind(done, done, specify=specify)
    async with daemon(conn, dsn, parts=()) as d:
        d.shop = replace(d.shop, kinds={**d.shop.kinds, "node": kind, "delivery": kind})
        await d.start_worker()
        for name in ("node", "delivery"):
            await value(conn, NEW, name, "manual", name)
        await run_all(conn, "notify walagent_runs")
        await d.until("select count(*) = 2 from agent.run where state = 'succeeded'")
    done_runs = await rows(conn, "select result from agent.run order by id")
    assert done_runs == [("node",), ("delivery",)]
