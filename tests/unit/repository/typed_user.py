# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Code as users of the library write it; `test_typing.py` checks its types, and nothing runs it.

`assert_type` is what must be inferred, and a line with an ignored rule is an error that users must
see: an ignore that is not needed is an error, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_type

from walagent import (
    AskSettings,
    AsyncClient,
    Client,
    Decider,
    IndexSummary,
    Kind,
    ModelAsked,
    ModelSpec,
    Options,
    PlanMade,
    QuestionEvent,
    QuestionResult,
    ResultColumn,
    Rows,
    SessionWaiting,
    StepDone,
    StepResult,
    StepStarted,
    Supervisor,
    ToolContext,
    WalagentError,
    tool,
)
from walagent.errors import ModelUnavailableError
from walagent.moves import Act, Ask, Call, Move, Note, Prompt, Request, RunLog, RunSpec, Step, fail
from walagent.testing import DECIDER_CHECKS, DeciderCase
from walagent.tools import Effect


def asks() -> None:
    """Ask questions, and read results."""
    model = ModelSpec("gpt", "openai", "gpt-4o")
    settings = AskSettings(rows=100)
    with Client("postgresql://", model=model, settings=settings, options=Options()) as client:
        found = client.ask("How many?", candidates=3, on_event=sees)
        assert_type(found, QuestionResult)
        assert_type(found.rows, Rows)
        assert_type(found.rows.columns, Sequence[ResultColumn])
        assert_type(found.results, Mapping[str, StepResult])
        assert_type(found.sql, Sequence[str])
        assert_type(found.cost, float | None)
        for row in found.rows:
            assert_type(row, tuple[Any, ...])
        assert_type(client.query("select 1"), Rows)
        assert_type(client.index(), IndexSummary)
        assert_type(client.chat("monday").ask("And now?"), QuestionResult)

        client.ask(7)  # pyright: ignore[reportArgumentType]
        client.ask("How many?", retries="2")  # pyright: ignore[reportArgumentType]
        client.ask("How many?", "monday")  # pyright: ignore[reportCallIssue]
        found.text = "seven"  # pyright: ignore[reportAttributeAccessIssue]
        found.anser  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    Client(model="gpt-4o")  # pyright: ignore[reportCallIssue]


async def asks_in_a_loop() -> str:
    """Ask with `await`."""
    async with AsyncClient("postgresql://") as client:
        try:
            found = await client.ask("How many?", session="monday")
        except ModelUnavailableError as error:
            assert_type(error.hint, str)
            return error.hint
        except WalagentError as error:
            return str(error)
        conversation = await client.chat()
        assert_type(await conversation.ask("And now?"), QuestionResult)
        client.ask("How many?").text  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
        return found.text


def sees(event: QuestionEvent) -> None:
    """Show progress; every event is handled."""
    match event:
        case PlanMade(plan):
            assert_type(plan.reasoning, str)
        case StepStarted(step):
            assert_type(step.id, str)
        case StepDone(result):
            assert_type(result, StepResult)
        case ModelAsked(who):
            assert_type(who, str)
        case SessionWaiting(seconds):
            assert_type(seconds, float)


def sees_half(event: QuestionEvent) -> None:
    """A case that is missing is an error."""
    match event:  # pyright: ignore[reportMatchNotExhaustive]
        case PlanMade() | StepStarted() | StepDone() | ModelAsked():
            pass


@tool(effect=Effect.TRANSACTIONAL)
async def set_priority(ctx: ToolContext, ticket_id: int, priority: str) -> str:
    """Set the priority of a ticket."""
    if ctx.conn is not None:
        await ctx.conn.execute("update ticket set priority = %s", [priority])
    assert_type(ctx.run_id, int)
    return f"{ticket_id}: {priority}"


set_priority(1)  # pyright: ignore[reportCallIssue]


@tool(effect="write")  # pyright: ignore[reportArgumentType]
async def writes(ctx: ToolContext) -> str:
    """Tools have one of four effects."""
    return str(ctx.run_id)


class Echo:
    """A decider."""

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Ask once."""
        if run.claim.attempt > 1:
            return fail("tried once")
        return Ask((Prompt("echo"),)) if not steps else Act(())

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Ask for nothing."""
        return Request(f"{run.run_id} {len(steps)} {prompt.by} {model.name}", ())


class Silent:
    """An actor."""

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Do nothing."""


class Rude:
    """No decider: it decides without a run."""

    def next_move(self, steps: Sequence[Step]) -> Move:
        """Decide."""
        return Ask() if steps else Act(())


decider: Decider = Echo()
kind = Kind(Echo(), Silent())
rude: Decider = Rude()  # pyright: ignore[reportAssignmentType]
Kind(Rude(), Silent())  # pyright: ignore[reportArgumentType]
Note("note", {})  # pyright: ignore[reportArgumentType]


async def checks(run: RunSpec, history: Sequence[Step]) -> None:
    """Check a decider of one's own."""
    for check in DECIDER_CHECKS:
        await check(DeciderCase(Echo, run, history))


def supervises() -> None:
    """Use the interface of PG Agent."""
    supervisor = Supervisor(api_key="k", db_url="postgresql://")
    supervisor.ask("How many?")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
