"""The decider of questions keeps the contract, for questions as they were answered."""

from collections.abc import Sequence

import pytest
from psycopg import AsyncConnection

from tests.helpers.build import attachment, claim, run_of
from tests.helpers.database import rows
from tests.integration.ask.test_asking import COUNT, answer, plan, scene, step
from walagent.ask.decider import PromptLimits, QuestionDecider
from walagent.ask.options import Options
from walagent.domain.run import Step, StepKind
from walagent.store.questions import SessionHistory
from walagent.testing import DECIDER_CHECKS, DeciderCase
from walagent.testing import call as reply

QUESTION = "How many customers are there in each country?"
ONE = plan(step("a", COUNT))
APPROVED = reply("critic", approved=True, reason="")
ANSWER = answer("Twenty in each.")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("replies", "options"),
    [
        ([ONE, ANSWER], Options()),
        ([plan(step("a", COUNT), step("b", COUNT)), APPROVED, ANSWER], Options()),
        ([plan(step("a", "select nothing")), ONE, ANSWER], Options()),
        ([ONE, ONE, ANSWER], Options(candidates=2)),
        ([plan(outcome="clarify", reply="Which?")], Options()),
    ],
)
async def test_the_decider_of_questions_keeps_the_contract(
    conn: AsyncConnection, dsn: str, replies: Sequence[object], options: Options
) -> None:
    """Plain, reviewed, planned again, with several plans, and asked back."""
    async with scene(conn, dsn, replies) as on:  # pyright: ignore[reportArgumentType]
        await on.ask(QUESTION, retries=options.retries, candidates=options.candidates)
        found = await rows(conn, "select seq, kind::text, content from agent.step order by seq")
        history = [Step(seq, StepKind(kind), content) for seq, kind, content in found]
        assert len(history) >= len(replies)
        run = run_of(attachment(), claim(kind="question", question={"text": QUESTION}))

        def made() -> QuestionDecider:
            return QuestionDecider(options, SessionHistory(), on.resources.catalog, PromptLimits())

        for check in DECIDER_CHECKS:
            await check(DeciderCase(made, run, history))
