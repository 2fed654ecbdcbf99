"""The tier batch: calls of many runs in one submission, half the price, up to a day."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.waiting import until_true
from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DEADLINE, DESK, attach, column, refused, rows, run_all, value
from tests.helpers.queue import add_runs
from walagent.base import faults
from walagent.config import Batches
from walagent.message import Json, Request
from walagent.models import build_model
from walagent.models.batches import BatchState
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.openai.batch_files import OpenAIBatches
from walagent.models.script import Answer, Fault, call
from walagent.models.wire_format import Body
from walagent.runs.batch_work import BatchWork
from walagent.runs.worker_models import Models
from walagent.testing import FakeProvider
from walagent.testing.fake_batches import FakeBatch

TICKETS = "insert into support_tickets (id, issue) select n, 'x' from generate_series(0, 9) n"
BATCHES = "update agent.model set provider = 'openai', batch_factor = 0.5 where name = 'fake'"
TABLE = {"schema": "public", "table": "support_tickets"}
PRICES: dict[str, Json] = {"input_price": 10.0, "output_price": 50.0, "batch_factor": 0.5}
STANDARD_COSTS, BATCH_COSTS = Decimal("0.0015"), Decimal("0.00075")
CLASSIFY: Sequence[Answer] = (call("update_row", category="bug"), "done")
FIRST = (
    "select content ->> 'tier', cost from agent.step where kind = 'reply' and seq = 0"
    " order by run_id"
)
NOTES = "select content ->> 'why' from agent.step where kind = 'note' order by run_id"
WAITING = "select count(*) from agent.run where state = 'waiting_retry' and error ? 'batch'"
# What was charged, as our books have it: replies, and those that no run could use.
PAID = """
select coalesce((select sum(cost) from agent.step), 0)
     + coalesce((select sum(unused_cost) from agent.batch), 0)
"""
RESERVED = "select sum(reserved_cost), sum(spent_cost) from agent_internal.budget_use"
providers = pytest.mark.parametrize("provider", ["openai", "anthropic"])


@dataclass(frozen=True, slots=True)
class Desk:
    """Runs of the support desk, a provider, and what works on batches."""

    d: Daemon
    provider: FakeProvider
    work: BatchWork
    attachment: int

    async def wait(self, runs: int) -> None:
        """Wait until so many runs wait for a batch."""
        await self.d.until(f"select ({WAITING}) = %s", runs)

    async def is_idle(self) -> None:
        """Wait until no run holds a slot: one is freed just after the run is seen to wait."""

        async def idle() -> bool:
            return self.d.worker is not None and not self.d.worker.active

        await until_true(idle, "no run holds a slot")

    async def turn(self) -> None:
        """Do all that is due with batches; let no time pass."""
        await run_all(self.d.conn, "update agent.batch set next_at = now() where next_at > now()")
        await self.work.work_some()

    async def ended(self, *, turns: bool = True) -> list[str]:
        """Wait until all runs have ended; return their states."""
        final = "select bool_and(agent_internal.is_final(state)) from agent.run"
        while turns and not await value(self.d.conn, final):
            await self.d.until(
                f"select ({final}) or ({WAITING}) = (select count(*) from agent.run"
                " where not agent_internal.is_final(state))"
            )
            await self.turn()
        await self.d.until(final)
        return await column(self.d.conn, "select state::text from agent.run order by id")


@asynccontextmanager
async def desk(
    conn: AsyncConnection,
    dsn: str,
    *answers: Answer,
    runs: int = 3,
    provider: str = "openai",
    settings: str = "",
    items: int = 100,
) -> AsyncIterator[Desk]:
    """Runs that update their row in the tier batch."""
    await run_all(conn, f"{DESK} {TICKETS}; {BATCHES}")
    attached = await attach(conn, f"tier=batch, writes=[category] {settings}")
    for n in range(runs):
        change = {**TABLE, "op": "insert", "new": {"id": n, "issue": "x"}}
        await add_runs(conn, attached, str(n), change=change, key=str(n))
    async with FakeProvider(answers or CLASSIFY) as fake:
        model = build_model(fake.spec(provider, **PRICES), environ=fake.environ)
        limits = ModelLimits(LimitSettings(pause=0.01))
        registry = Models({"fake": model.spec}, lambda _: model, limits)
        try:
            async with daemon(conn, dsn, registry, parts=("worker",)) as d:
                of_batches = Batches(items=items, wait=0.001, poll=5.0)
                work = BatchWork(of_batches, 30.0, d.shop.pool, registry)
                yield Desk(d, fake, work, attached)
        finally:
            await model.aclose()


async def books_agree(conn: AsyncConnection, fake: FakeProvider, direct: int = 0) -> None:
    """What the provider has charged is what was recorded, and nothing stays reserved."""
    charged = fake.batches.billed.total() * BATCH_COSTS + direct * STANDARD_COSTS
    assert await value(conn, PAID) == charged
    assert max(fake.batches.billed.values(), default=0) <= 1
    assert await column(conn, "select * from agent.broken_invariant") == []


@providers
async def test_replies_of_a_batch_cost_half_and_act_once(
    conn: AsyncConnection, dsn: str, provider: str
) -> None:
    """All first calls are one submission; the runs hold no slot meanwhile."""
    async with desk(conn, dsn, provider=provider, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        await desk_.is_idle()
        assert await desk_.ended() == ["succeeded"] * 3
        assert [len(each.calls) for each in desk_.provider.batches.batches.values()] == [3]
        await books_agree(conn, desk_.provider)
    assert await rows(conn, FIRST) == [("batch", BATCH_COSTS)] * 3
    bugs = "select count(*) from support_tickets where category = 'bug'"
    assert await value(conn, bugs) == 3
    batch = "select state, items, answered, unanswered, cost, unused_cost from agent.batch"
    assert await rows(conn, batch) == [("ended", 3, 3, 0, 3 * BATCH_COSTS, None)]
    left = "select state, body, answer from agent_internal.batch_item"
    assert await rows(conn, left) == [("used", None, None)] * 3


@providers
async def test_later_calls_of_a_run_wait_for_batches_of_their_own(
    conn: AsyncConnection, dsn: str, provider: str
) -> None:
    """Each has its step; the row is written between them."""
    async with desk(conn, dsn, provider=provider, settings=", finish=answer") as desk_:
        assert await desk_.ended() == ["succeeded"] * 3
        await books_agree(conn, desk_.provider)
    assert await value(conn, "select count(*) from agent.step where kind = 'reply'") == 6
    assert await value(conn, "select sum(answered) from agent.batch") == 6


async def test_a_batch_has_at_most_so_many_calls(conn: AsyncConnection, dsn: str) -> None:
    """What is left waits for the next."""
    async with desk(conn, dsn, runs=5, items=2, settings=", finish=after_call") as desk_:
        await desk_.wait(5)
        assert await desk_.ended() == ["succeeded"] * 5
        sizes = [len(each.calls) for each in desk_.provider.batches.batches.values()]
        assert sorted(sizes) == [1, 2, 2]
        await books_agree(conn, desk_.provider)


def doubled(_batch: FakeBatch, lines: list[Body]) -> list[Body]:
    """Repeat the first line."""
    return [lines[0], *lines]


def missing(_batch: FakeBatch, lines: list[Body]) -> list[Body]:
    """Leave the first line out."""
    return lines[1:]


def broken(_batch: FakeBatch, lines: list[Body]) -> list[Body]:
    """Let the first reply end nowhere."""
    answer: Any = lines[0]["response"]["body"]
    answer["choices"] = []
    return lines


def renamed(_batch: FakeBatch, lines: list[Body]) -> list[Body]:
    """Let the first line be of another batch."""
    return [{**lines[0], "custom_id": "someone-1-1-0"}, *lines[1:]]


@pytest.mark.parametrize(
    ("spoil", "why", "used"),
    [
        (doubled, None, 3),
        (missing, "no result", 2),
        (broken, "invalid reply", 2),
        (renamed, "no result", 2),
    ],
)
async def test_lines_that_are_wrong_are_asked_directly(
    conn: AsyncConnection,
    dsn: str,
    spoil: Callable[[FakeBatch, list[Body]], list[Body]],
    why: str | None,
    used: int,
) -> None:
    """One by one, and the steps say so; the other replies are used."""
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        desk_.provider.batches.spoil = spoil
        assert await desk_.ended() == ["succeeded"] * 3
    assert await column(conn, NOTES) == ([why] if why else [])
    tiers = await column(conn, "select content ->> 'tier' from agent.step where kind = 'reply'")
    assert sorted(tiers) == ["batch"] * used + ["default"] * (3 - used)
    assert await value(conn, "select count(*) from support_tickets where category = 'bug'") == 3


async def test_a_result_of_another_batch_is_not_taken(conn: AsyncConnection, dsn: str) -> None:
    """Each batch answers its own calls, whatever its file says about others."""

    def of_all(batch: FakeBatch, lines: list[Body]) -> list[Body]:
        if batch.id != "batch_0":
            return lines
        text = json.dumps(lines[0]).replace('\\"bug\\"', '\\"billing\\"')
        others = [each.calls for each in fake.batches.values() if each.id != batch.id]
        return [*lines, *({**json.loads(text), "custom_id": str(*calls)} for calls in others)]

    async with desk(conn, dsn, runs=2, items=1, settings=", finish=after_call") as desk_:
        fake = desk_.provider.batches
        fake.hold, fake.spoil = True, of_all
        await desk_.wait(2)
        await desk_.turn()
        assert len(fake.batches) == 2
        fake.hold = False
        assert await desk_.ended() == ["succeeded"] * 2
        await books_agree(conn, desk_.provider)
    categories = "select category from support_tickets where category is not null"
    assert await column(conn, categories) == ["bug"] * 2


@providers
async def test_a_call_that_fails_in_a_batch_is_asked_directly(
    conn: AsyncConnection, dsn: str, provider: str
) -> None:
    """As an overloaded provider says so of single calls."""
    asked = list[Request]()

    def overloaded(request: Request) -> Answer:
        asked.append(request)
        return Fault(529) if len(asked) == 1 else CLASSIFY[0]

    async with desk(
        conn, dsn, overloaded, provider=provider, settings=", finish=after_call"
    ) as desk_:
        assert await desk_.ended() == ["succeeded"] * 3
        await books_agree(conn, desk_.provider, direct=1)
    assert len(await column(conn, NOTES)) == 1


@providers
@pytest.mark.parametrize("status", ["expired", "cancelled", "failed"])
async def test_what_a_batch_has_not_answered_is_asked_directly(
    conn: AsyncConnection, dsn: str, status: str, provider: str
) -> None:
    """The part that is done is used, and charged."""
    async with desk(conn, dsn, provider=provider, settings=", finish=after_call") as desk_:
        fake = desk_.provider.batches
        fake.status, fake.answered = status, lambda custom_id: custom_id.endswith("-1-0")
        assert await desk_.ended() == ["succeeded"] * 3
        done = 0 if status == "failed" else 1
        assert fake.billed.total() == done
        await books_agree(conn, desk_.provider, direct=3 - done)
    assert len(await column(conn, NOTES)) == 3 - done


async def test_a_batch_that_is_refused_is_asked_directly(conn: AsyncConnection, dsn: str) -> None:
    """A server without batches answers 404, say."""
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        desk_.provider.batches.refuse = 404
        assert await desk_.ended() == ["succeeded"] * 3
        await books_agree(conn, desk_.provider, direct=3)
    assert set(await column(conn, NOTES)) == {"not submitted: ModelUnauthorizedError"}


@providers
@pytest.mark.parametrize("point", ["batch.formed", "batch.taken", "batch.submitted"])
async def test_a_submission_that_was_cut_off_is_found_at_the_provider(
    conn: AsyncConnection, dsn: str, provider: str, point: str
) -> None:
    """It is adopted after a crash, wherever that was: there is one batch."""
    async with desk(conn, dsn, provider=provider, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        with faults.armed(point), pytest.raises(faults.Crash):
            await desk_.turn()
        await run_all(conn, "update agent.batch set lease_expires_at = now() - interval '1 s'"
                            " where lease_expires_at is not null")  # fmt: skip
        assert await desk_.ended() == ["succeeded"] * 3
        assert len(desk_.provider.batches.batches) == 1
        await books_agree(conn, desk_.provider)


@providers
async def test_a_submission_without_an_answer_is_found_at_the_provider(
    conn: AsyncConnection, dsn: str, provider: str
) -> None:
    """Others, which are in progress or have ended, are not taken for it."""
    async with desk(conn, dsn, provider=provider, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        desk_.provider.batches.lose = 1
        desk_.provider.batches.hold = True
        await desk_.turn()
        assert await value(conn, "select state from agent.batch") == "forming"
        await desk_.turn()
        desk_.provider.batches.hold = False
        assert await desk_.ended() == ["succeeded"] * 3
        assert len(desk_.provider.batches.batches) == 1
        await books_agree(conn, desk_.provider)


async def test_results_are_fetched_again_after_a_crash_among_them(
    conn: AsyncConnection, dsn: str
) -> None:
    """What is stored is not stored again."""
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        await desk_.turn()
        with faults.armed("batch.fetched"), pytest.raises(faults.Crash):
            await desk_.turn()
        await run_all(conn, "update agent.batch set lease_expires_at = now() - interval '1 s'"
                            " where lease_expires_at is not null")  # fmt: skip
        assert await desk_.ended() == ["succeeded"] * 3
        await books_agree(conn, desk_.provider)
    assert await value(conn, "select answered from agent.batch") == 3


async def test_a_batch_that_another_process_holds_is_left_alone(
    conn: AsyncConnection, dsn: str
) -> None:
    """Until its lease ends; then the first one can store nothing more."""
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        with faults.armed("batch.submitting"), pytest.raises(faults.Crash):
            await desk_.turn()
        await desk_.turn()
        assert desk_.provider.batches.batches == {}
        await run_all(conn, "update agent.batch set lease_expires_at = now() - interval '1 s'")
        await desk_.turn()
        error = await refused(conn, "select agent_internal.submit_batch(1, 1, 'mine', 1)")
        assert error.sqlstate == "WA001"
        assert await desk_.ended() == ["succeeded"] * 3


async def test_a_run_that_is_cancelled_before_its_batch_costs_nothing(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its call is taken out, and its reservation released."""
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    await run_all(conn, budget)
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        await run_all(conn, "select agent.cancel((select min(id) from agent.run))")
        assert await desk_.ended() == ["cancelled", "succeeded", "succeeded"]
        assert len(desk_.provider.batches.billed) == 2
        await books_agree(conn, desk_.provider)
    assert await rows(conn, RESERVED) == [(0, 2 * BATCH_COSTS)]


async def test_a_run_that_is_cancelled_in_its_batch_is_charged_and_does_not_act(
    conn: AsyncConnection, dsn: str
) -> None:
    """The batch says what such replies cost, and budgets count them; a retry asks again."""
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    await run_all(conn, budget)
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        desk_.provider.batches.hold = True
        await desk_.turn()
        await run_all(conn, "select agent.cancel((select min(id) from agent.run))")
        await run_all(conn, "select agent.prune('0')")  # not while its reply will be charged
        desk_.provider.batches.hold = False
        await desk_.turn()
        assert await desk_.ended() == ["cancelled", "succeeded", "succeeded"]
        await books_agree(conn, desk_.provider)
        assert await rows(conn, RESERVED) == [(0, 3 * BATCH_COSTS)]
        assert await rows(conn, "select unused, unused_cost from agent.batch") == [(1, BATCH_COSTS)]
        bugs = "select count(*) from support_tickets where category = 'bug'"
        assert await value(conn, bugs) == 2
        await run_all(conn, "select agent.retry((select min(id) from agent.run))")
        assert await desk_.ended() == ["succeeded"] * 3
        await books_agree(conn, desk_.provider)
    assert await value(conn, bugs) == 3


async def test_what_a_batch_may_cost_stays_reserved_until_it_is_settled(
    conn: AsyncConnection, dsn: str
) -> None:
    """Also across ticks, which release the reservations of lost leases; others wait for it."""
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    await run_all(conn, budget)
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        desk_.provider.batches.hold = True
        await desk_.turn()
        (before, spent) = (await rows(conn, RESERVED))[0]
        assert before > 3 * STANDARD_COSTS
        assert spent == 0
        await run_all(
            conn,
            "update agent.spend set reserved_at = reserved_at - interval '1 hour';"
            "select agent_internal.tick()",
        )
        assert (await rows(conn, RESERVED))[0] == (before, 0)
        assert await column(conn, "select * from agent.broken_invariant") == []
        desk_.provider.batches.hold = False
        await desk_.turn()
        assert await rows(conn, RESERVED) == [(0, 3 * BATCH_COSTS)]
        assert await desk_.ended() == ["succeeded"] * 3
    assert await rows(conn, RESERVED) == [(0, 3 * BATCH_COSTS)]


async def test_runs_wait_for_what_a_batch_has_reserved_without_hurry(
    conn: AsyncConnection, dsn: str
) -> None:
    """Nothing is exceeded, and all are asked in the end: each in a batch that the budget allows."""
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'day', 0.1)"
    await run_all(conn, budget)
    refused_runs = "select count(*) from agent.run where error ->> 'budget' = 'all'"
    hurry = "select count(*) from agent.run where next_attempt_at < now() + interval '30 s'"
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(1)
        await desk_.d.until(f"select ({refused_runs}) = 2 and ({hurry}) = 0")
        for left in (2, 1, 0):
            await desk_.turn()
            await desk_.turn()
            done = "select count(*) = %s from agent.run where not agent_internal.is_final(state)"
            await desk_.d.until(done, left)
            await run_all(conn, "update agent.run set next_attempt_at = now()"
                                " where state = 'waiting_retry'")  # fmt: skip
            await run_all(conn, "notify walagent_runs")
            await desk_.wait(min(left, 1))
        assert await desk_.ended(turns=False) == ["succeeded"] * 3
        await books_agree(conn, desk_.provider)
    assert await rows(conn, RESERVED) == [(0, 3 * BATCH_COSTS)]


async def test_a_run_waits_no_longer_than_26_hours(conn: AsyncConnection, dsn: str) -> None:
    """Then it asks directly; what the provider may have charged stays counted."""
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    await run_all(conn, budget)
    async with desk(conn, dsn, runs=1, settings=", finish=after_call") as desk_:
        await desk_.wait(1)
        desk_.provider.batches.hold = True
        await desk_.turn()
        (before, _) = (await rows(conn, RESERVED))[0]
        late = "update agent.batch set formed_at = formed_at - interval '27 hours'"
        await run_all(conn, late)
        await desk_.turn()
        assert await desk_.ended(turns=False) == ["succeeded"]
    assert await column(conn, NOTES) == ["no result in time"]
    assert await rows(conn, RESERVED) == [(0, before + STANDARD_COSTS)]


async def test_equal_calls_share_the_reply_of_a_batch(conn: AsyncConnection, dsn: str) -> None:
    """One of them waits for the batch, the others for its reply; each writes its own row."""
    async with desk(conn, dsn, settings=", reuse=1d, finish=after_call") as desk_:
        await desk_.d.until("select count(*) = 2 from agent_internal.shared_wait")
        await desk_.wait(1)
        await desk_.turn()
        assert [len(each.calls) for each in desk_.provider.batches.batches.values()] == [1]
        await desk_.turn()
        assert await desk_.ended(turns=False) == ["succeeded"] * 3
        await books_agree(conn, desk_.provider)
    assert await value(conn, "select count(*) from support_tickets where category = 'bug'") == 3
    assert await value(conn, "select count(*) from agent.step where content ? 'reused'") == 2


async def test_the_next_asks_if_the_call_that_others_wait_for_is_cancelled(
    conn: AsyncConnection, dsn: str
) -> None:
    """In a batch of its own; the third has its reply."""
    async with desk(conn, dsn, settings=", reuse=1d, finish=after_call") as desk_:
        await desk_.d.until("select count(*) = 2 from agent_internal.shared_wait")
        await desk_.wait(1)
        await desk_.turn()
        await run_all(
            conn,
            "select agent.cancel((select min(of_run) from agent_internal.shared_wait));"
            "update agent.run set next_attempt_at = now() where state = 'waiting_retry'",
        )
        await desk_.d.until("select count(*) = 1 from agent_internal.shared_wait")
        await desk_.wait(1)
        for _ in range(2):
            await desk_.turn()
        ended = await desk_.ended(turns=False)
        assert sorted(ended) == ["cancelled", "succeeded", "succeeded"]
        assert desk_.provider.batches.billed.total() == 2
        await books_agree(conn, desk_.provider)


async def test_old_batches_are_removed_but_no_reply_that_a_run_has_yet_to_take(
    conn: AsyncConnection, dsn: str
) -> None:
    """As of a run whose attachment is paused."""
    async with desk(conn, dsn, runs=2, items=1, settings=", finish=after_call") as desk_:
        await desk_.wait(2)
        await desk_.turn()
        await run_all(conn, "select agent.pause('support_tickets')")
        await desk_.turn()
        await run_all(
            conn,
            "update agent.batch set ended_at = ended_at - interval '2 days';"
            "select agent_internal.prune_batches('1 day')",
        )
        assert await value(conn, "select count(*) from agent.batch") == 2
        await run_all(conn, "select agent.resume('support_tickets')")
        assert await desk_.ended(turns=False) == ["succeeded"] * 2
        await desk_.d.until(
            "select bool_and(state = 'used') from agent_internal.batch_item",
        )
        await run_all(conn, "select agent_internal.prune_batches('1 day')")
        assert await value(conn, "select count(*) from agent.batch") == 0


@providers
async def test_no_other_batch_is_taken_for_one_that_was_cut_off(
    conn: AsyncConnection, dsn: str, provider: str
) -> None:
    """Of a key that is used elsewhere, too: some of as many calls, in progress or not."""
    async with desk(conn, dsn, provider=provider, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        fake = desk_.provider.batches
        with faults.armed("batch.taken"), pytest.raises(faults.Crash):
            await desk_.turn()
        (ours,) = fake.batches.values()
        for number in range(5):
            calls = {f"other-{number}-{n}": body for n, body in enumerate(ours.calls.values())}
            other = replace(ours, id=f"other_{number}", calls=calls, metadata={"walagent": "other"})
            fake.batches[other.id] = other
            fake.end(other)
        fake.billed.clear()
        await run_all(conn, "update agent.batch set lease_expires_at = now() - interval '1 s'")
        assert await desk_.ended() == ["succeeded"] * 3
        assert len(fake.batches) == 6
        await books_agree(conn, desk_.provider)
    assert await column(conn, "select provider_id from agent.batch") == [ours.id]


async def test_calls_for_which_there_is_no_room_wait_for_smaller_batches(
    conn: AsyncConnection, dsn: str
) -> None:
    """Asked directly, they would cost twice as much; the limit is of all batches that wait."""
    later = "update agent.batch set ended_at = ended_at - interval '6 minutes'"
    async with desk(conn, dsn, runs=4, settings=", finish=after_call") as desk_:
        desk_.provider.batches.room = 2
        await desk_.wait(4)
        await desk_.turn()
        await desk_.turn()
        assert await rows(conn, "select items, requeued from agent.batch") == [(4, 4)]
        await desk_.d.until(
            "select count(*) = 4 from agent_internal.batch_item where state = 'waiting'"
        )
        await desk_.turn()
        assert await value(conn, "select count(*) from agent.batch") == 1  # not at once
        await run_all(conn, later)
        assert await desk_.ended() == ["succeeded"] * 4
        await books_agree(conn, desk_.provider)
    assert await column(conn, NOTES) == []
    sizes = "select items from agent.batch order by id"
    assert await column(conn, sizes) == [4, 2, 2]


async def test_a_call_for_which_there_never_is_room_is_asked_directly(
    conn: AsyncConnection, dsn: str
) -> None:
    """A batch of one cannot be smaller."""
    async with desk(conn, dsn, runs=1, settings=", finish=after_call") as desk_:
        desk_.provider.batches.room = 0
        assert await desk_.ended() == ["succeeded"]
    assert await column(conn, NOTES) == ["token_limit_exceeded"]


async def test_a_list_without_end_is_left_and_looked_at_again(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is submitted before it is known that the provider does not have it."""
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        fake = desk_.provider.batches
        with faults.armed("batch.taken"), pytest.raises(faults.Crash):
            await desk_.turn()
        (ours,) = fake.batches.values()
        for n in range(2):
            fake.batches[f"other_{n}"] = replace(ours, id=f"other_{n}", calls={}, metadata={})
        await run_all(conn, "update agent.batch set lease_expires_at = now() - interval '1 s'")
        with monkeypatch.context() as short:
            short.setattr("walagent.models.openai.batch_files.PAGES", 1)
            await desk_.turn()
        error = await value(conn, "select error from agent.batch")
        assert "a list of batches without end" in error
        assert len(fake.batches) == 3
        assert await desk_.ended() == ["succeeded"] * 3
        assert len(fake.batches) == 3
        await books_agree(conn, desk_.provider)


@pytest.mark.parametrize("submitted", [False, True])
async def test_a_model_that_is_changed_reads_its_batches_and_submits_none(
    conn: AsyncConnection,
    dsn: str,
    submitted: bool,  # noqa: FBT001
) -> None:
    """What was written for another model is not sent to this one."""
    async with desk(conn, dsn, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        if submitted:
            desk_.provider.batches.hold = True
            await desk_.turn()
            desk_.provider.batches.hold = False
        spec = replace(desk_.provider.spec("openai", **PRICES), model_id="newer")
        newer = build_model(spec, environ=desk_.provider.environ)
        registry = Models({"fake": spec}, lambda _: newer, ModelLimits(LimitSettings(pause=0.01)))
        work = BatchWork(Batches(wait=0.001, poll=5.0), 30.0, desk_.d.shop.pool, registry)
        try:
            assert await replace(desk_, work=work).ended() == ["succeeded"] * 3
        finally:
            await newer.aclose()
        await books_agree(conn, desk_.provider, direct=0 if submitted else 3)
    assert await column(conn, NOTES) == ([] if submitted else ["not submitted: ConfigError"] * 3)


async def test_a_server_that_does_not_answer_holds_up_its_own_batch_alone(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others end meanwhile."""
    go, looks = asyncio.Event(), asyncio.Event()
    look = OpenAIBatches.look

    async def slowly(files: OpenAIBatches, batch_id: str) -> BatchState:
        if batch_id == "batch_0":
            looks.set()
            await go.wait()
        return await look(files, batch_id)

    monkeypatch.setattr(OpenAIBatches, "look", slowly)
    async with desk(conn, dsn, items=1, settings=", finish=after_call") as desk_:
        await desk_.wait(3)
        desk_.provider.batches.hold = True
        await desk_.turn()
        desk_.provider.batches.hold = False
        turn = asyncio.create_task(desk_.turn())
        await asyncio.wait_for(looks.wait(), DEADLINE)
        await desk_.d.until("select count(*) = 2 from agent.run where state = 'succeeded'")
        assert not turn.done()
        go.set()
        await turn
        assert await desk_.ended(turns=False) == ["succeeded"] * 3


async def test_tenants_share_no_batch(conn: AsyncConnection, dsn: str) -> None:
    """Each has submissions of its own."""
    async with desk(conn, dsn, runs=1, settings=", finish=after_call") as desk_:
        await run_all(conn, "select agent.create_tenant('acme')")
        change = {"op": "insert", "new": {"id": 1, "issue": "x"}}
        await add_runs(conn, desk_.attachment, "1", change=change, key="1", tenant="acme")
        await desk_.wait(2)
        await desk_.turn()
        assert [len(each.calls) for each in desk_.provider.batches.batches.values()] == [1, 1]
    tenants = "select tenant from agent.batch order by tenant"
    assert await column(conn, tenants) == ["acme", "default"]


@pytest.mark.parametrize("model", ["embedded/e5", "llama3.3:70b"])
async def test_attach_refuses_batches_that_the_provider_does_not_have(
    conn: AsyncConnection, model: str
) -> None:
    """By the names of model, provider and tier."""
    await run_all(conn, DESK)
    tried = f"select agent.attach('support_tickets', '{model}', tier => 'batch')"
    error = await refused(conn, tried)
    assert error.sqlstate == "WA014"
    assert f'model "{model}" of provider ' in str(error)
    assert 'has no tier "batch"' in str(error)
