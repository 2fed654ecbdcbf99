"""The reference statements of the shop's questions: what the guard says, and what they give."""

import hashlib
from collections import Counter

import pytest

from evals.by_hand import ANSWERS, answer_to
from evals.questions import Question, the_questions
from evals.shop.rows import the_shop
from tests.shop.conftest import Stage
from tests.shop.wrong import FANNED_OUT
from walagent.ask.fanout.repeats import find_repeats
from walagent.ask.traps.find import find_traps
from walagent.ask.verify import check_rows
from walagent.guard.query import Guard
from walagent.rows.equal import same_rows

WITH_ROWS = [each for each in the_questions() if each.expect == "rows"]


@pytest.mark.few(12)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("question", WITH_ROWS, ids=lambda each: each.id)
async def test_the_reference_gives_what_was_worked_out_by_hand(
    guard: Guard, question: Question
) -> None:
    """The guard accepts it, PostgreSQL and Python agree, and the checks have nothing to say.

    But for the one whose answer is that there are no rows.
    """
    found = await guard.read(question.sql)
    expected = answer_to(question.id)
    assert not found.cut
    assert same_rows(expected, found.texts, ordered=question.ordered, within=question.within), (
        expected,
        found.texts,
    )
    said = [
        *check_rows(found),
        *await find_repeats(guard, question.sql, found),
        *await find_traps(guard, question.sql, found),
    ]
    assert said == ([] if expected else ["there are no rows"])


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", FANNED_OUT)
async def test_a_total_over_repeated_rows_is_found(guard: Guard, name: str) -> None:
    """It says which total, of which table, and what repeats its rows."""
    sql = FANNED_OUT[name]
    found = await find_repeats(guard, sql, await guard.read(sql))
    assert found
    assert "once for each row of" in found[0]


def test_there_are_questions_of_every_level_and_kind() -> None:
    """Forty with rows at least, some that go on, and some that have no answer."""
    assert len(WITH_ROWS) >= 40
    assert {each.id for each in WITH_ROWS} == ANSWERS.keys()
    assert {each.level for each in WITH_ROWS} == {1, 2, 3, 4, 5}
    kinds = Counter(each.expect for each in the_questions())
    assert min(kinds[each] for each in ("clarify", "refused", "harmless")) >= 4
    assert sum(each.after is not None for each in WITH_ROWS) >= 3


@pytest.mark.slow
def test_the_shop_is_large_and_has_its_traps(shop: Stage) -> None:
    """What makes the questions hard is there."""
    rows = the_shop()
    assert shop.rows >= 100_000
    assert any(each.invoice_id is None for each in rows.payment)
    assert any(each.reason is None for each in rows.refund)
    assert {each.currency for each in rows.invoice} == {"EUR", "CHF", "GBP", "SEK", "USD"}
    assert {each.state for each in rows.invoice} == {"draft", "open", "paid", "void"}
    assert 0 < len(answer_to("overpaid")) < 20
    assert 0 < len(answer_to("lines_and_totals")) < 20
    assert answer_to("icelanders") == []


def test_the_shop_is_the_same_everywhere() -> None:
    """Figures that were measured on it can be compared; a change of the rows changes this, too."""
    digest = hashlib.sha256()
    for name, rows in the_shop().tables():
        digest.update(repr((name, rows)).encode())
    assert digest.hexdigest()[:16] == "f29cbf49d8694b54"
