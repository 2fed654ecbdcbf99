"""Fall-back models: when another model is asked, what is recorded, reserved and shown."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, column, refused, rows, run_all, value
from tests.helpers.queue import add_runs
from walagent.base import faults
from walagent.errors import ModelLimitedError, ModelRejectedError, ModelUnavailableError
from walagent.message import ModelSpec, Reply, Request, Stop, Text, Usage
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.script import call, in_turn
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.worker_models import Models

TICKET = "insert into support_tickets (id, issue) values (1, 'x')"
CHANGE = {"op": "insert", "new": {"id": 1, "issue": "x"}}
OTHER = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('other', 'scripted', 'other', 1, 5);
"""
SPEC = "tools=[refund_user], bind=[ticket_id=id], fallback=other"
OWN = ModelSpec("fake", "scripted", "fake", input_price=10.0, output_price=50.0)
SECOND = ModelSpec("other", "scripted", "other", input_price=1.0, output_price=5.0)
OUT = ModelUnavailableError("nobody answers", retry_after=0.01)
FIRST_COSTS, SECOND_COSTS = Decimal("0.0015"), Decimal("0.00015")


async def desk(conn: AsyncConnection, spec: str = SPEC) -> None:
    """A run of the support desk, whose agent has a fall-back."""
    await run_all(conn, DESK + TICKET + ";" + OTHER)
    attached = await attach(conn, spec)
    await add_runs(conn, attached, "1", change=CHANGE)


def models(first: ScriptedModel, second: ScriptedModel) -> dict[str, ScriptedModel]:
    """Both models by name."""
    return {"fake": first, "other": second}


async def state(d: Daemon) -> tuple[Any, ...]:
    """Wait until the run has ended; return its state and result."""
    await d.until("select bool_and(agent_internal.is_final(state)) from agent.run")
    return (await rows(d.conn, "select state::text, result from agent.run"))[0]


REPLIES = """
select content ->> 'registered', content -> 'instead_of' ->> 'why', cost
  from agent.step where kind = 'reply' order by seq
"""


async def test_a_model_that_does_not_answer_is_replaced_after_its_attempts(
    conn: AsyncConnection, dsn: str
) -> None:
    """The steps say which model answered and why; its price counts."""
    await desk(conn)
    first = ScriptedModel([OUT], spec=OWN)
    second = ScriptedModel([call("refund_user", amount=7), "done"], spec=SECOND)
    async with daemon(conn, dsn, models(first, second), parts=("worker",)) as d:
        assert await state(d) == ("succeeded", "done")
    assert len(first.requests) == 3
    why = "no answer in 3 attempts"
    assert await rows(conn, REPLIES) == [("other", why, SECOND_COSTS)] * 2
    note = await value(conn, "select content from agent.step where kind = 'note'")
    assert note == {"fallback": "other", "for": "fake", "why": why}
    assert await value(conn, "select count(*) from refund") == 1


async def test_a_refusal_is_asked_of_the_other_model_which_does_not_see_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """The refused reply stays recorded with its cost; the other model gets the same request."""
    await desk(conn)
    no = Reply((Text("I cannot help."),), Stop.REFUSAL, Usage(100, 0, 0, 10), why="policy")
    first, second = ScriptedModel([no], spec=OWN), ScriptedModel(["done"], spec=SECOND)
    async with daemon(conn, dsn, models(first, second), parts=("worker",)) as d:
        assert await state(d) == ("succeeded", "done")
    assert first.requests[0].messages == second.requests[0].messages
    assert await rows(conn, REPLIES) == [
        ("fake", None, FIRST_COSTS),
        ("other", "refused (policy)", SECOND_COSTS),
    ]


async def test_two_refusals_end_the_run(conn: AsyncConnection, dsn: str) -> None:
    """There is no third model."""
    await desk(conn)
    no = Reply((Text("No."),), Stop.REFUSAL, Usage(100, 0, 0, 10))
    both = models(ScriptedModel([no], spec=OWN), ScriptedModel([no], spec=SECOND))
    async with daemon(conn, dsn, both, parts=("worker",)) as d:
        assert (await state(d))[0] == "failed"
    assert len(await rows(conn, REPLIES)) == 2


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ModelLimitedError("later", retry_after=300.0), "limited for 300 s"),
        (ModelLimitedError("open", retry_after=5.0, breaker=True), "circuit breaker open"),
        (ModelUnavailableError("trial", counts=False, breaker=True), "circuit breaker open"),
        (ModelRejectedError("filtered", refused=True), "refused"),
    ],
)
async def test_the_other_model_is_asked_at_once_where_waiting_does_not_help(
    conn: AsyncConnection, dsn: str, error: Exception, why: str
) -> None:
    """An open breaker, a long pause, and a filter of the provider."""
    await desk(conn)
    first, second = ScriptedModel([error], spec=OWN), ScriptedModel(["done"], spec=SECOND)
    async with daemon(conn, dsn, models(first, second), parts=("worker",)) as d:
        assert await state(d) == ("succeeded", "done")
    assert len(first.requests) == 1
    assert [(name, reason) for name, reason, _ in await rows(conn, REPLIES)] == [("other", why)]


async def test_a_short_pause_is_waited_for(conn: AsyncConnection, dsn: str) -> None:
    """A provider that asks to slow down answers soon."""
    await desk(conn)
    later = ModelLimitedError("soon", retry_after=0.01)
    first = ScriptedModel([in_turn(later, later, later, later, "done")], spec=OWN)
    both = models(first, ScriptedModel([], spec=SECOND))
    async with daemon(conn, dsn, both, parts=("worker",)) as d:
        assert await state(d) == ("succeeded", "done")
    assert [name for name, _, _ in await rows(conn, REPLIES)] == ["fake"]


async def test_a_run_continues_with_the_model_that_the_steps_name_after_a_crash(
    conn: AsyncConnection, dsn: str
) -> None:
    """Although the first model answers again by then."""
    await desk(conn)
    first = ScriptedModel([in_turn(ModelRejectedError("no", refused=True), "wrong")], spec=OWN)
    second = ScriptedModel([call("refund_user", amount=7), "done"], spec=SECOND)
    async with daemon(conn, dsn, models(first, second), parts=("worker",)) as d:
        with faults.armed("step.recorded"):
            await d.dies("worker")
        await d.expire_leases()
        await d.start_worker()
        assert await state(d) == ("succeeded", "done")
    assert len(first.requests) == 1
    kinds = "select kind from agent.step order by seq"
    assert await column(conn, kinds) == ["note", "reply", "result", "reply"]
    assert await value(conn, "select count(*) from refund") == 1


async def test_an_open_breaker_does_not_stop_claims_of_agents_that_have_a_fall_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """The worker claims no runs of a model that is out, unless they can ask another one."""
    await desk(conn)
    specs = {"fake": OWN, "other": SECOND}
    scripts = models(ScriptedModel([OUT], spec=OWN), ScriptedModel(["done"] * 9, spec=SECOND))
    limits = ModelLimits(LimitSettings(failures=1, open_for=3600.0))
    registry = Models(specs, lambda spec: scripts[spec.name], limits)
    attached = await value(conn, "select id from agent.attachment")
    async with daemon(conn, dsn, registry, parts=("worker",)) as d:
        assert (await state(d))[0] == "succeeded"
        await add_runs(conn, attached, "2", "3", change=CHANGE)
        await run_all(conn, "notify walagent_runs")
        await d.until("select count(*) = 3 from agent.run where state = 'succeeded'")
    assert len(scripts["fake"].requests) == 1


async def test_budgets_reserve_the_more_expensive_of_both_models(
    conn: AsyncConnection, dsn: str
) -> None:
    """And give the reservation for the first back when the other is asked."""
    await desk(conn)
    await run_all(
        conn, "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    )
    seen: list[Decimal] = []

    class Looking(ScriptedModel):
        async def complete(self, request: Request) -> Reply:
            seen.extend(await column(conn, "select reserved_cost from agent.budget_overview"))
            assert await value(conn, "select count(*) from agent.spend where settled_at is null")
            return await super().complete(request)

    cheap, expensive = replace(OWN, input_price=1.0, output_price=5.0), replace(OWN, name="other")
    first = Looking([ModelRejectedError("no", refused=True)], spec=cheap)
    second = Looking(["done"], spec=expensive)
    async with daemon(conn, dsn, models(first, second), parts=("worker",)) as d:
        assert await state(d) == ("succeeded", "done")
    assert seen[0] == seen[1] > 0
    left = "select spent_cost, reserved_cost from agent.budget_overview"
    assert await rows(conn, left) == [(FIRST_COSTS, 0)]


async def test_attach_refuses_a_fall_back_that_does_not_exist_or_is_the_model(
    conn: AsyncConnection,
) -> None:
    """As it refuses an unknown model, with the nearest name."""
    await run_all(conn, DESK + OTHER)
    tried = "select agent.attach('support_tickets', 'fake', fallback => '{}')"
    error = await refused(conn, tried.format("othr"))
    assert error.sqlstate == "WA014"
    assert 'fallback: model "othr" does not exist' in str(error)
    assert "other" in (error.diag.message_hint or "")
    assert "is the model itself" in str(await refused(conn, tried.format("fake")))
    await run_all(conn, "update agent.model set enabled = false where name = 'other'")
    assert (await refused(conn, tried.format("other"))).sqlstate == "WA014"


async def test_the_other_model_gets_its_own_parameters(conn: AsyncConnection, dsn: str) -> None:
    """Those of the first model are not sent to another provider; those of the agent are."""
    await run_all(conn, DESK + TICKET + ";" + OTHER)
    await run_all(
        conn,
        """update agent.model set parameters = '{"effort": "low"}' where name = 'fake';
           update agent.model set parameters = '{"thinking": null}' where name = 'other'""",
    )
    tried = """select agent.attach('support_tickets', 'fake', fallback => 'other',
                                   parameters => '{"seed": 1}')"""
    attached = await value(conn, tried)
    await add_runs(conn, attached, "1", change=CHANGE)
    first = ScriptedModel([ModelRejectedError("no", refused=True)], spec=OWN)
    second = ScriptedModel(["done"], spec=SECOND)
    async with daemon(conn, dsn, models(first, second), parts=("worker",)) as d:
        assert await state(d) == ("succeeded", "done")
    assert first.requests[0].parameters == {"effort": "low", "seed": 1}
    assert second.requests[0].parameters == {"seed": 1}


async def test_a_retry_asks_the_first_model_again(conn: AsyncConnection, dsn: str) -> None:
    """A person has looked at it since."""
    await desk(conn)
    no = Reply((Text("No."),), Stop.REFUSAL, Usage(100, 0, 0, 10))
    first = ScriptedModel([in_turn(no, "done")] * 3, spec=OWN)
    both = models(first, ScriptedModel([no] * 3, spec=SECOND))
    async with daemon(conn, dsn, both, parts=("worker",)) as d:
        assert (await state(d))[0] == "failed"
        await run_all(conn, "select agent.retry(id) from agent.run")
        await d.until("select state = 'succeeded' from agent.run")
    assert len(first.requests) == 2


async def test_a_node_of_a_workflow_falls_back(conn: AsyncConnection, dsn: str) -> None:
    """As its agent says; the next node begins with the first model again."""
    await run_all(conn, DESK + OTHER)
    await attach(conn, "name=judge, fallback=other")
    await run_all(
        conn,
        """select agent.create_workflow('w',
             '[{"name": "one", "kind": "model", "agent": "judge", "prompt": "x", "output": "a"},
               {"name": "two", "kind": "model", "agent": "judge", "prompt": "y", "output": "b"}]',
             '[{"from": "one", "to": "two"}]');
           select agent.start_workflow('w', '{}')""",
    )
    no = Reply((Text("No."),), Stop.REFUSAL, Usage(100, 0, 0, 10))
    first = ScriptedModel([in_turn(no, "mine")], spec=OWN)
    both = models(first, ScriptedModel(["yours"], spec=SECOND))
    async with daemon(conn, dsn, both, parts=("worker",)) as d:
        assert (await state(d))[0] == "succeeded"
    result = await value(conn, "select result::jsonb from agent.run")
    assert (result["a"], result["b"]) == ("yours", "mine")
    assert [name for name, _, _ in await rows(conn, REPLIES)] == ["fake", "other", "fake"]


async def test_a_turn_in_a_thread_falls_back(conn: AsyncConnection, dsn: str) -> None:
    """The answer of the other model is posted; people wait for one."""
    await run_all(
        conn,
        f"""{DESK}; {OTHER};
           insert into agent.agent (name, model, fallback) values ('sarah', 'fake', 'other');
           select agent.attach_to_threads('sarah')""",
    )
    first = ScriptedModel([ModelRejectedError("filtered", refused=True)], spec=OWN)
    both = models(first, ScriptedModel(["Hello."], spec=SECOND))
    async with daemon(conn, dsn, both) as d:
        thread = await value(conn, "select agent.open_thread('Talk', '{sarah}')")
        await value(conn, "select agent.post(%s, 'Hi!')", thread)
        assert (await state(d))[0] == "succeeded"
    said = "select data ->> 'text' from agent.event where author = 'sarah'"
    assert await column(conn, said) == ["Hello."]
