"""The tier flex: half the price, longer waits, and the standard tier where it has no capacity."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, column, refused, rows, run_all, value
from tests.helpers.queue import add_runs
from walagent.base import faults
from walagent.message import Json, Reply, Request, Stop, Text, Usage
from walagent.models import build_model
from walagent.models.cost import cost_of
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.script import Answer, Fault
from walagent.runs.worker_models import Models
from walagent.testing import FakeProvider

TICKET = "insert into support_tickets (id, issue) values (1, 'x')"
CHANGE = {"op": "insert", "new": {"id": 1, "issue": "x"}}
TIERED = "update agent.model set flex_factor = 0.5 where name = 'fake';"
PRICES: dict[str, Json] = {"input_price": 10.0, "output_price": 50.0, "flex_factor": 0.5}
STANDARD_COSTS, FLEX_COSTS = Decimal("0.0015"), Decimal("0.00075")
BUSY = Fault(429, "0.01", "resource_unavailable")
REPLIES = "select content ->> 'tier', cost from agent.step where kind = 'reply' order by run_id"


def in_flex(flex: Answer, standard: Answer = "done") -> Answer:
    """Answer by the tier that is asked for."""

    def answer(request: Request) -> Answer:
        return flex if request.tier == "flex" else standard

    return answer


@asynccontextmanager
async def desk(
    conn: AsyncConnection, dsn: str, answer: Answer, runs: int = 1
) -> AsyncIterator[tuple[Daemon, FakeProvider]]:
    """Runs of the support desk in the tier flex, and a provider that speaks OpenAI's format."""
    await run_all(conn, DESK + TICKET + ";" + TIERED)
    attached = await attach(conn, "tier=flex")
    await add_runs(conn, attached, *map(str, range(runs)), change=CHANGE)
    async with FakeProvider([answer]) as provider:
        model = build_model(provider.spec("openai", **PRICES), environ=provider.environ)
        limits = ModelLimits(LimitSettings(pause=0.01))
        registry = Models({"fake": model.spec}, lambda _: model, limits)
        try:
            async with daemon(conn, dsn, registry, parts=("worker",)) as d:
                yield d, provider
        finally:
            await model.aclose()


async def ended(d: Daemon) -> list[str]:
    """Wait until all runs have ended; return their states."""
    await d.until("select bool_and(agent_internal.is_final(state)) from agent.run")
    return await column(d.conn, "select state::text from agent.run order by id")


async def test_a_reply_of_the_tier_costs_half(conn: AsyncConnection, dsn: str) -> None:
    """The provider is asked for the tier, and says that it served it."""
    async with desk(conn, dsn, "done") as (d, provider):
        assert await ended(d) == ["succeeded"]
        assert [each.body["service_tier"] for each in provider.received] == ["flex"]
    assert await rows(conn, REPLIES) == [("flex", FLEX_COSTS)]
    assert await value(conn, "select cost from agent.run") == FLEX_COSTS


async def test_what_is_recorded_is_what_was_served_not_what_was_asked_for(
    conn: AsyncConnection, dsn: str
) -> None:
    """A provider that serves the standard tier bills it."""
    served = Reply((Text("done"),), Stop.END, Usage(100, 0, 0, 10), tier="default")
    async with desk(conn, dsn, served) as (d, _):
        assert await ended(d) == ["succeeded"]
    assert await rows(conn, REPLIES) == [("default", STANDARD_COSTS)]


async def test_budgets_reserve_the_standard_tier(conn: AsyncConnection, dsn: str) -> None:
    """Which may be served, and costs twice as much."""
    await run_all(
        conn, "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    )
    async with desk(conn, dsn, "done") as (d, _):
        assert await ended(d) == ["succeeded"]
    used = "select reserved_cost, cost from agent.spend"
    (reserved, cost) = (await rows(conn, used))[0]
    assert cost == FLEX_COSTS
    assert reserved > 100 * cost  # bytes bound tokens


async def test_after_three_pauses_of_the_tier_the_standard_one_is_asked(
    conn: AsyncConnection, dsn: str
) -> None:
    """And the steps say so; refusals without capacity are not billed."""
    async with desk(conn, dsn, in_flex(BUSY)) as (d, provider):
        assert await ended(d) == ["succeeded"]
        asked = [each.body.get("service_tier") for each in provider.received]
    assert asked == ["flex", "flex", "flex", None]
    assert await rows(conn, REPLIES) == [("default", STANDARD_COSTS)]
    note = await value(conn, "select content from agent.step where kind = 'note'")
    assert note == {"tier": "standard", "for": "flex", "why": "no capacity"}
    instead = "select content -> 'instead_of' from agent.step where kind = 'reply'"
    assert await value(conn, instead) == {"tier": "flex", "why": "no capacity"}


async def test_pauses_of_the_tier_hold_up_no_standard_call(conn: AsyncConnection, dsn: str) -> None:
    """They have limiters of their own: 429 of one says nothing of the other."""
    busy = Fault(429, "3600", "resource_unavailable")
    async with desk(conn, dsn, in_flex(busy), runs=5) as (d, provider):
        assert await ended(d) == ["succeeded"] * 5
        standard = [each for each in provider.received if "service_tier" not in each.body]
    assert len(standard) == 5


async def test_a_run_stays_in_the_standard_tier_after_a_crash(
    conn: AsyncConnection, dsn: str
) -> None:
    """The note is what counts, not what the process knew."""
    async with desk(conn, dsn, in_flex(BUSY)) as (d, provider):
        with faults.armed("model.answered"):
            await d.dies("worker")
        asked = len(provider.received)
        await d.expire_leases()
        await d.start_worker()
        assert await ended(d) == ["succeeded"]
        later = [each.body.get("service_tier") for each in provider.received[asked:]]
    assert later == [None]


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "gpt-4o", "embedded/e5"])
async def test_attach_refuses_a_tier_that_the_provider_does_not_have(
    conn: AsyncConnection, model: str
) -> None:
    """By the names of model, provider and tier."""
    await run_all(conn, DESK)
    error = await refused(
        conn, f"select agent.attach('support_tickets', '{model}', tier => 'flex')"
    )
    assert error.sqlstate == "WA014"
    assert f'model "{model}" of provider ' in str(error)
    assert 'has no tier "flex"' in str(error)


async def test_attach_refuses_a_tier_beside_the_parameter_that_sets_it(
    conn: AsyncConnection,
) -> None:
    """One of both would be sent, and the other be billed."""
    await run_all(conn, DESK)
    tried = """select agent.attach('support_tickets', 'gpt-5-mini', tier => 'flex',
                                   parameters => '{"service_tier": "default"}')"""
    assert "service_tier" in str(await refused(conn, tried))
    rejected = "update agent.model set flex_factor = 0.5 where name = 'claude-haiku-4-5'"
    assert (await refused(conn, rejected)).sqlstate == "23514"


async def test_calls_of_the_tier_have_time(conn: AsyncConnection) -> None:
    """An attempt has at least half an hour; more, if the agent says so."""
    await run_all(conn, DESK)
    seconds = "select (definition ->> 'max_seconds')::int from agent.attachment where name = '{}'"
    for name, given in (("short", 600), ("long", 7200)):
        await run_all(
            conn,
            f"select agent.attach('support_tickets', 'gpt-5-mini', name => '{name}',"
            f" tier => 'flex', max_seconds => {given})",
        )
    assert await value(conn, seconds.format("short")) == 1800
    assert await value(conn, seconds.format("long")) == 7200


def test_only_the_tier_of_the_books_has_another_price() -> None:
    """An unknown tier, or a model without the tier, costs what it costs."""
    spec = FakeProvider().spec("openai", **PRICES)
    plain = FakeProvider().spec("openai", input_price=10.0, output_price=50.0)
    usage = Usage(100, output_tokens=10)
    assert cost_of(usage, spec, "flex") == FLEX_COSTS
    assert cost_of(usage, spec, "priority") == cost_of(usage, spec) == STANDARD_COSTS
    assert cost_of(usage, plain, "flex") == STANDARD_COSTS


async def test_rows_that_exist_are_worked_in_the_tier_that_was_set_before(
    conn: AsyncConnection, dsn: str
) -> None:
    """A run keeps the version with which its change was recorded; later ones have another."""
    await run_all(conn, DESK + TICKET + ";" + TIERED)
    async with FakeProvider(["done"] * 2) as provider:
        model = build_model(provider.spec("openai", **PRICES), environ=provider.environ)
        registry = Models({"fake": model.spec}, lambda _: model, ModelLimits())
        try:
            async with daemon(conn, dsn, registry, parts=("reader",)) as d:
                await attach(conn, "tier=flex, backfill=true")
                await d.until("select count(*) = 1 from agent.run where reason = 'backfill'")
            await run_all(conn, "update agent.agent set tier = 'standard'")
            async with daemon(conn, dsn, registry) as d:
                await run_all(conn, "insert into support_tickets (id, issue) values (2, 'y')")
                await d.ended(2)
        finally:
            await model.aclose()
        tiers = [each.body.get("service_tier") for each in provider.received]
    assert sorted(map(str, tiers)) == ["None", "flex"]
