"""What VERIFY finds in statements over the shop: nothing in honest ones, the join in wrong ones."""

import pytest

from evals.questions import Question
from tests.shop.test_answers import WITH_ROWS
from tests.shop.wrong import FANNED_OUT
from walagent.ask.verify import check_rows
from walagent.store.guard.query import Guard
from walagent.store.guard.repeats import find_repeats

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("question", WITH_ROWS, ids=lambda each: each.id)
async def test_an_honest_statement_has_no_finding(guard: Guard, question: Question) -> None:
    """But for the one whose answer is that there are no rows."""
    found = [*check_rows(await guard.read(question.sql)), *await find_repeats(guard, question.sql)]
    assert found == (["there are no rows"] if question.id == "icelanders" else [])


@pytest.mark.parametrize("name", FANNED_OUT)
async def test_a_total_over_repeated_rows_is_found(guard: Guard, name: str) -> None:
    """It says which total, of which table, and what repeats its rows."""
    found = await find_repeats(guard, FANNED_OUT[name])
    assert found
    assert "once for each row of" in found[0]
