"""Cascades: which model is asked, what is recorded, reserved, compared and refused."""

from collections.abc import Mapping, Sequence
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
from walagent.models.embedded.nearest_label_model import EmbeddedModel
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.script import Answer, call, in_turn
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.worker_models import Models

TICKET = "insert into support_tickets (id, issue) values (1, 'x')"
CHANGE = {"op": "insert", "new": {"id": 1, "issue": "x"}}
OTHERS = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('tiny', 'scripted', 'tiny', 0, 0), ('small', 'scripted', 'small', 0.1, 0.5);
"""
SPEC = (
    "tools=[refund_user], bind=[ticket_id=id], finish=after_call, cascade=[tiny, small],"
    " cascade_control=0"
)
COSTS = {"tiny": Decimal(0), "small": Decimal("0.000015"), "fake": Decimal("0.00015")}
PRICES = {"tiny": (0.0, 0.0), "small": (0.1, 0.5), "fake": (1.0, 5.0)}
UNSURE = call("unsure", reason="two meanings")
REFUND = call("refund_user", amount=7)
REPLIES = """
select content ->> 'registered', (content ->> 'stage')::int, cost
  from agent.step where kind = 'reply' order by seq
"""
KINDS = "select kind from agent.step order by seq"


async def desk(conn: AsyncConnection, spec: str = SPEC) -> None:
    """A run of the support desk, whose agent asks two models before its own."""
    await run_all(conn, DESK + TICKET + ";" + OTHERS)
    attached = await attach(conn, spec)
    await add_runs(conn, attached, "1", change=CHANGE)


def models(**answers: Sequence[Answer]) -> dict[str, ScriptedModel]:
    """The three models, with what each answers."""
    return {
        name: ScriptedModel(
            answers.get(name, ()),
            spec=ModelSpec(name, "scripted", name, input_price=prices[0], output_price=prices[1]),
        )
        for name, prices in PRICES.items()
    }


async def state(d: Daemon) -> str:
    """Wait until the run has ended; return its state."""
    await d.until("select bool_and(agent_internal.is_final(state)) from agent.run")
    return str(await value(d.conn, "select state from agent.run order by id desc limit 1"))


async def asked(conn: AsyncConnection, dsn: str, scripts: Mapping[str, ScriptedModel]) -> list[Any]:
    """Execute the run; return which models replied, at which stage and cost."""
    async with daemon(conn, dsn, dict(scripts), parts=("worker",)) as d:
        assert await state(d) == "succeeded"
    return await rows(conn, REPLIES)


async def test_a_sure_model_decides_and_the_next_ones_are_not_asked(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its reply is the run's: its calls have their effects, at its price."""
    await desk(conn)
    scripts = models(tiny=[REFUND])
    assert await asked(conn, dsn, scripts) == [("tiny", 1, 0)]
    assert await value(conn, "select amount from refund") == 7
    assert not scripts["small"].requests
    assert not scripts["fake"].requests


async def test_unsure_models_are_passed_and_the_last_one_answers(
    conn: AsyncConnection, dsn: str
) -> None:
    """Each unsure reply is a step with its cost; a note says who is asked next, and why."""
    await desk(conn)
    half = [REFUND, call("refund_user", amount="much")]
    scripts = models(tiny=[UNSURE], small=[half], fake=[REFUND])
    assert await asked(conn, dsn, scripts) == [
        (name, stage, COSTS[name]) for stage, name in enumerate(("tiny", "small", "fake"), 1)
    ]
    assert await column(conn, KINDS) == ["reply", "note", "reply", "note", "reply", "result"]
    notes = await column(conn, "select content from agent.step where kind = 'note' order by seq")
    assert notes[0] == {
        "cascade": "small",
        "for": "tiny",
        "why": "unsure: two meanings",
        "unsure": True,
    }
    assert "amount" in notes[1]["why"]
    assert await value(conn, "select count(*) from refund") == 1
    first, last = scripts["tiny"].requests[0], scripts["fake"].requests[0]
    assert first.messages == last.messages
    assert {each.name for each in first.tools} - {each.name for each in last.tools} == {"unsure"}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ModelLimitedError("later", retry_after=300.0), "limited for 300 s"),
        (ModelUnavailableError("trial", counts=False, breaker=True), "circuit breaker open"),
        (ModelRejectedError("too long"), "rejected: too long"),
        (ModelUnavailableError("silence", retry_after=0.01), "no answer in 3 attempts"),
    ],
)
async def test_a_model_that_is_out_is_passed(
    conn: AsyncConnection, dsn: str, error: Exception, why: str
) -> None:
    """As soon as a fall-back would be asked; and where it takes no such request."""
    await desk(conn)
    assert [
        name for name, _, _ in await asked(conn, dsn, models(tiny=[error], small=[REFUND]))
    ] == ["small"]
    note = await value(conn, "select content from agent.step where kind = 'note'")
    assert note == {"cascade": "small", "for": "tiny", "why": why}


async def test_the_fall_back_is_that_of_the_last_model(conn: AsyncConnection, dsn: str) -> None:
    """A stage that refuses is passed; the last model has its fall-back."""
    await desk(conn, SPEC.replace("cascade=[tiny, small]", "cascade=[tiny], fallback=small"))
    no = Reply((Text("No."),), Stop.REFUSAL, Usage(100, 0, 0, 10))
    scripts = models(tiny=[no], fake=[no], small=[REFUND])
    found = await asked(conn, dsn, scripts)
    assert [(name, stage) for name, stage, _ in found] == [("tiny", 1), ("fake", 2), ("small", 2)]
    assert {each.name for each in scripts["small"].requests[0].tools} == {"refund_user"}


async def test_the_tier_is_that_of_the_last_model(conn: AsyncConnection, dsn: str) -> None:
    """The models before it are asked in the standard one, which they need not have."""
    await run_all(conn, DESK + TICKET + ";" + OTHERS)
    await run_all(conn, "update agent.model set flex_factor = 0.5 where name = 'fake'")
    attached = await attach(conn, SPEC + ", tier=flex")
    await add_runs(conn, attached, "1", change=CHANGE)
    scripts = models(tiny=[UNSURE], small=[UNSURE], fake=[REFUND])
    scripts["fake"] = ScriptedModel([REFUND], spec=replace(scripts["fake"].spec, flex_factor=0.5))
    await asked(conn, dsn, scripts)
    assert [scripts[name].requests[0].tier for name in ("tiny", "small", "fake")] == [
        "",
        "",
        "flex",
    ]


async def test_a_retry_asks_the_first_model_again(conn: AsyncConnection, dsn: str) -> None:
    """A person has looked at it since."""
    await desk(conn)
    no = Reply((Text("No."),), Stop.REFUSAL, Usage(100, 0, 0, 10))
    scripts = models(tiny=[UNSURE], small=[in_turn(UNSURE, REFUND)], fake=[no])
    async with daemon(conn, dsn, scripts, parts=("worker",)) as d:
        assert await state(d) == "failed"
        await run_all(conn, "select agent.retry(id, fresh => true) from agent.run")
        await d.until("select state = 'succeeded' from agent.run")
    found = await rows(conn, REPLIES)
    assert [(name, stage) for name, stage, _ in found] == [
        ("tiny", 1), ("small", 2), ("fake", 3), ("tiny", 1), ("small", 2),
    ]  # fmt: skip


async def test_runs_are_claimed_while_the_last_model_is_out(
    conn: AsyncConnection, dsn: str
) -> None:
    """A model before it can decide them; those that it is not sure of wait."""
    await desk(conn)
    out = ModelUnavailableError("nobody answers", retry_after=0.01)
    scripts = models(tiny=[in_turn(UNSURE, *[REFUND] * 9)], small=[UNSURE], fake=[out])
    specs = {name: model.spec for name, model in scripts.items()}
    limits = ModelLimits(LimitSettings(failures=1, open_for=3600.0))
    registry = Models(specs, lambda spec: scripts[spec.name], limits)
    attached = await value(conn, "select id from agent.attachment")
    async with daemon(conn, dsn, registry, parts=("worker",)) as d:
        await d.until("select state = 'waiting_retry' from agent.run")
        await add_runs(conn, attached, "2", "3", change=CHANGE)
        await run_all(conn, "notify walagent_runs")
        await d.until("select count(*) = 2 from agent.run where state = 'succeeded'")


async def test_the_embedded_model_decides_what_it_is_sure_of(
    conn: AsyncConnection, dsn: str
) -> None:
    """It chooses from the values of a column; what has no words is left to the last model."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        "comment on column support_tickets.category is"
        " 'bug = the app crashes or fails; billing = money, invoices, refunds and payments'",
    )
    attached = await attach(conn, "writes=[category], cascade=[embedded/e5>0.6], cascade_control=0")
    for number, issue in enumerate(("The invoice is wrong, I want my money back", "17"), 1):
        await conn.execute(
            "insert into support_tickets (id, issue) values (%s, %s)", [number, issue]
        )
        change = {"op": "insert", "new": {"id": number, "issue": issue}}
        await add_runs(conn, attached, str(number), change=change)
    scripts: dict[str, Any] = {
        **models(fake=[call("update_row", category="bug")]),
        "embedded/e5": EmbeddedModel(),
    }
    async with daemon(conn, dsn, scripts, parts=("worker",)) as d:
        await d.until("select count(*) = 2 from agent.run where state = 'succeeded'")
    assert await column(conn, "select category from support_tickets order by id") == [
        "billing",
        "bug",
    ]
    found = await rows(conn, REPLIES.replace("by seq", "by run_id, seq"))
    assert [(name, stage) for name, stage, _ in found] == [
        ("embedded/e5", 1), ("embedded/e5", 1), ("fake", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("skip", [0, 1])
async def test_no_model_is_asked_again_after_a_crash(
    conn: AsyncConnection, dsn: str, skip: int
) -> None:
    """What a model has answered is a step, and the next one follows from it."""
    await desk(conn)
    scripts = models(tiny=[in_turn(UNSURE, REFUND)], small=[in_turn(UNSURE, REFUND)], fake=[REFUND])
    async with daemon(conn, dsn, scripts, parts=("worker",)) as d:
        with faults.armed("step.recorded", skip=skip):
            await d.dies("worker")
        await d.expire_leases()
        await d.start_worker()
        assert await state(d) == "succeeded"
    assert [name for name, _, _ in await rows(conn, REPLIES)] == ["tiny", "small", "fake"]
    assert [len(scripts[name].requests) for name in ("tiny", "small", "fake")] == [1, 1, 1]
    assert await value(conn, "select count(*) from refund") == 1


async def test_budgets_reserve_what_the_model_that_is_asked_can_cost(
    conn: AsyncConnection, dsn: str
) -> None:
    """A run that a less expensive model decides needs no room for the last one."""
    await desk(conn)
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    await run_all(conn, budget)
    seen = dict[str, Decimal]()

    class Looking(ScriptedModel):
        async def complete(self, request: Request) -> Reply:
            reserved = "select reserved_cost from agent.budget_overview"
            seen[self.spec.name] = await value(conn, reserved)
            return await super().complete(request)

    scripts = {
        name: Looking([REFUND if name == "fake" else UNSURE], spec=model.spec)
        for name, model in models().items()
    }
    await asked(conn, dsn, scripts)
    assert seen["tiny"] == 0
    assert 0 < seen["small"] * 9 < seen["fake"]
    left = "select spent_cost, reserved_cost from agent.budget_overview"
    assert await rows(conn, left) == [(COSTS["small"] + COSTS["fake"], 0)]


async def test_a_run_of_the_control_sample_asks_the_last_model_without_effect(
    conn: AsyncConnection, dsn: str
) -> None:
    """After what the stage decided has happened; it is a step, paid as any."""
    await desk(conn, SPEC.replace("cascade_control=0", "cascade_control=1"))
    scripts = models(tiny=[REFUND], fake=[call("refund_user", amount=9)])
    found = await asked(conn, dsn, scripts)
    assert found == [("tiny", 1, 0), ("fake", None, COSTS["fake"])]
    assert await column(conn, KINDS) == ["reply", "result", "reply"]
    assert await column(conn, "select amount from refund") == [7]
    assert {each.name for each in scripts["fake"].requests[0].tools} == {"refund_user"}
    assert scripts["fake"].requests[0].messages == scripts["tiny"].requests[0].messages


@pytest.mark.parametrize(
    "error", [ModelUnavailableError("out"), ModelRejectedError("no"), ModelLimitedError("later")]
)
async def test_a_control_that_has_no_reply_does_not_hold_the_run(
    conn: AsyncConnection, dsn: str, error: Exception
) -> None:
    """A note says why; nothing waits, and nothing stays reserved."""
    await desk(conn, SPEC.replace("cascade_control=0", "cascade_control=1"))
    await run_all(
        conn, "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    )
    found = await asked(conn, dsn, models(tiny=[REFUND], fake=[error]))
    assert [name for name, _, _ in found] == ["tiny"]
    note = await value(conn, "select content from agent.step where kind = 'note'")
    assert note == {"control": "none", "why": str(error)}
    assert await value(conn, "select reserved_cost from agent.budget_overview") == 0


async def test_a_control_that_a_budget_refuses_is_left_out(conn: AsyncConnection, dsn: str) -> None:
    """The run has done its work; it does not wait until tomorrow for a comparison."""
    await desk(conn, SPEC.replace("cascade_control=0", "cascade_control=1"))
    await run_all(
        conn, "insert into agent.budget (name, period, max_cost) values ('all', 'day', 1e-9)"
    )
    found = await asked(conn, dsn, models(tiny=[REFUND]))
    assert [name for name, _, _ in found] == ["tiny"]
    assert "budget" in await value(
        conn, "select content ->> 'why' from agent.step where kind = 'note'"
    )


async def test_a_fork_goes_on_at_the_stage_that_the_kept_steps_have_reached(
    conn: AsyncConnection, dsn: str
) -> None:
    """And from before it, the first model is asked again."""
    await desk(conn)
    scripts = models(tiny=[UNSURE], small=[UNSURE], fake=[REFUND])
    async with daemon(conn, dsn, scripts, parts=("worker",)) as d:
        assert await state(d) == "succeeded"
        run = await value(conn, "select id from agent.run")
        await value(conn, "select agent.fork(%s, 2)", run)
        assert await state(d) == "succeeded"
    assert [len(scripts[name].requests) for name in ("tiny", "small", "fake")] == [1, 2, 2]


async def test_a_canary_of_a_cascade_is_a_version_with_its_own_models(
    conn: AsyncConnection,
) -> None:
    """The frozen definition has the stages, so a run keeps those with which it began."""
    await run_all(conn, DESK + OTHERS)
    await attach(conn, "name=desk, tools=[refund_user], bind=[ticket_id=id]")
    await value(conn, "select agent.canary('desk', 'cascade=[tiny, small]', share => 0.5)")
    frozen = await rows(
        conn,
        "select definition -> 'stages' -> 0 ->> 'model', definition -> 'control'"
        " from agent.attachment_version order by version",
    )
    assert frozen == [(None, None), ("tiny", 0.02)]


async def test_turns_and_nodes_ask_the_last_model_alone(conn: AsyncConnection, dsn: str) -> None:
    """People wait for a turn, and a node has no row that a cascade was measured on."""
    await run_all(
        conn,
        f"""{DESK}; {OTHERS};
           insert into agent.agent (name, model, cascade) values ('sarah', 'fake', '{{tiny}}');
           select agent.attach_to_threads('sarah');
           select agent.create_workflow('w',
             '[{{"name": "one", "kind": "model", "agent": "sarah", "prompt": "x"}}]', '[]');
           select agent.start_workflow('w', '{{}}')""",
    )
    scripts = models(fake=["Hello."])
    async with daemon(conn, dsn, scripts) as d:
        thread = await value(conn, "select agent.open_thread('Talk', '{sarah}')")
        await value(conn, "select agent.post(%s, 'Hi!')", thread)
        await d.until("select count(*) = 2 from agent.run where state = 'succeeded'")
    assert not scripts["tiny"].requests


ATTACH = "select agent.attach('support_tickets', 'fake', cascade => '{}'{})"
UNKNOWN = 'cascade: model "smal" does not exist'


@pytest.mark.parametrize(
    ("cascade", "more", "says", "hint"),
    [
        ("{smal}", "", UNKNOWN, 'Did you mean "small"?'),
        ("{off}", "", 'cascade: model "off" does not exist or is not enabled', "models lists"),
        ("{fake}", "", "is the model itself", "before it"),
        ("{tiny}", ", fallback => 'tiny'", "is the fallback itself", "before it"),
        ("{tiny,small,tiny}", "", 'model "tiny" is named twice', "once"),
        ("{tiny>0.5}", "", "has no threshold", "itself whether it is sure"),
        ("{embedded/e5>1.5}", "", 'invalid threshold "1.5"', "from 0 to 1"),
        ("{embedded/e5>-1}", "", 'invalid threshold "-1"', "from 0 to 1"),
        ("{embedded/e5>}", "", 'invalid threshold ""', "from 0 to 1"),
        ("{tiny}", ", reuse => '1 day'", "cannot be combined with reuse", "Remove one of them"),
        ("{tiny}", ", tools => '{unsure}'", 'has a tool "unsure"', "Rename"),
        ("{tiny}", ", cascade_control => 2", "cascade_control", ""),
        (
            "{embedded/e5>0.9}",
            """, tools => '{refund_user}', bind => '{"ticket_id": "id"}',
               parameters => '{"margin": 0.5}'""",
            "margin 0.5",
            "at least 0.8",
        ),
        ("{free}", ", max_cost => 1", "max_cost requires a model with prices", "input_price"),
    ],
)
async def test_attach_refuses_a_cascade_that_cannot_be(
    conn: AsyncConnection, cascade: str, more: str, says: str, hint: str
) -> None:
    """With what is wrong and what to do, and nothing is stored."""
    await run_all(
        conn,
        DESK
        + OTHERS
        + """insert into agent.model (name, provider, model_id, enabled)
             values ('off', 'scripted', 'off', false), ('free', 'scripted', 'x', true);
             create function unsure() returns void language sql as '';""",
    )
    error = await refused(conn, ATTACH.format(cascade, more))
    assert says in str(error)
    assert hint in (error.diag.message_hint or "")
    assert await value(conn, "select count(*) from agent.agent") == 0


async def test_the_embedded_model_keeps_its_margin_whatever_its_row_says_later(
    conn: AsyncConnection,
) -> None:
    """What it decides by is frozen with the version; a new version is checked again."""
    await run_all(conn, DESK)
    tried = """select agent.attach('support_tickets', 'fake', cascade => '{embedded/e5>0.6}',
                   tools => '{refund_user}', bind => '{"ticket_id": "id"}')"""
    await run_all(conn, tried)
    lower = """update agent.model set parameters = '{"margin": 0.5}' where name = 'embedded/e5'"""
    await run_all(conn, lower)
    stages = "select definition -> 'stages' from agent.attachment"
    (stage,) = await value(conn, stages)
    assert stage == {"model": "embedded/e5", "parameters": {"threshold": 0.6, "margin": 0.8}}
    error = await refused(conn, "update agent.agent set max_steps = 9")
    assert "margin 0.5" in str(error)
    own = """select agent.attach('support_tickets', 'fake', name => 'own', writes => '{category}',
                 cascade => '{embedded/e5}')"""
    await run_all(conn, own)  # it writes its own row alone
