"""Which tables a question is about, among a thousand."""

import pytest

from tests.helpers.large_schema import QUESTIONS, large_schema
from walagent.ask.context import describe_schema
from walagent.ask.prompts import planner_request
from walagent.ask.retrieval import Index, stem, words

TABLES = large_schema()
GOAL = 0.95  # of the tables that the questions need are among the first 20


def test_the_tables_that_are_needed_are_among_the_first_twenty() -> None:
    """Measured over questions in the words of people, with copies of every table in the way."""
    assert len(TABLES) > 1000
    index = Index(TABLES)
    needed = [(question, table) for question, tables in QUESTIONS for table in tables]
    missed = [
        (question, table) for question, table in needed if table not in index.rank(question, 20)
    ]
    assert 1 - len(missed) / len(needed) >= GOAL, missed


@pytest.mark.parametrize(
    ("question", "table"),
    [
        ("overdue invoices", "billing.invoices"),
        ("invoice history", "history.invoices_history"),
        ("What is in the staging table of tickets?", "staging.stg_support_tickets"),
        ("emploees and departmnts", "hr.departments"),
        ("orders per shipment carrier", "logistics.carriers"),
    ],
)
def test_copies_slips_and_joins_are_understood(question: str, table: str) -> None:
    """A copy is meant only when it is named; slips are forgiven; joined tables come along."""
    assert table in Index(TABLES).rank(question, 5)


def test_a_question_about_nothing_here_finds_little() -> None:
    """No table is made up for it."""
    assert Index(TABLES).rank("zzz qqq") == []
    assert Index([]).rank("anything") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("custOrderLines", "cust order lin"),
        ("HTTPRequests_2024", "http request 2024"),
        ("Which categories were shipped?", "category shipp"),
        ("addresses", "address"),
        ("the average of all", ""),
    ],
)
def test_words_are_split_as_people_join_them(text: str, found: str) -> None:
    """Endings and filler do not count."""
    assert " ".join(words(text)) == found


def test_a_stem_is_a_fixed_point_for_short_words() -> None:
    """Nothing is left of neither "is" nor "as" by taking endings off."""
    assert [stem(word) for word in ("gas", "bus", "id", "yes")] == ["gas", "bus", "id", "yes"]


def test_a_schema_that_fits_is_shown_whole() -> None:
    """One that does not, in part, and that is said."""
    few = describe_schema(TABLES[:5])
    assert few.whole
    assert len(few.tables) == 5
    many = describe_schema(TABLES, question="overdue invoices", most=5000)
    assert not many.whole
    assert many.tables[0] == "billing.invoices"
    assert len(many.text) < 6000
    assert "more tables are not shown" in many.text


def test_a_question_in_another_language_sees_what_all_others_are_about() -> None:
    """Where its words lead nowhere, the tables that most others refer to are shown."""
    found = describe_schema(TABLES, question="Wie hoch ist der Umsatz je Kunde?", most=20_000)
    assert {"sales.customers", "sales.orders", "billing.invoices"} <= set(found.tables)
    copies = ("history.", "staging.", "archive.")
    assert not any(name.startswith(copies) for name in Index(TABLES).central(20))


def test_what_changes_with_the_question_comes_last() -> None:
    """The system prompt is the same for every question, so that a provider can cache it."""

    def asked(question: str, most: int) -> tuple[str, str]:
        schema = describe_schema(TABLES[:200], question=question, most=most, terms=[(question, "")])
        request = planner_request(question, schema, (), (), rows=10, marker="m")
        return request.system, str(request.messages)

    for most in (5000, 10_000_000):
        (one, said), (other, _) = asked("overdue invoices", most), asked("open tickets", most)
        assert one == other
        assert "Words of this business:" in said
    assert "billing.invoices" in one
