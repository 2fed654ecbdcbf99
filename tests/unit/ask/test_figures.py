"""Numbers in the text of an answer against its rows."""

import pytest

from walagent.ask.figures import unfounded
from walagent.ask.plan import StepType
from walagent.ask.results import StepResult
from walagent.postgres import pgtypes
from walagent.rows.rows import ResultColumn, Rows

ONE = [["12000"]]
GROUPS = [
    ["DE", "1819"],
    ["US", "1818"],
    ["JP", "1818"],
    ["BR", "1818"],
    ["IN", "1818"],
    ["AU", "1819"],
]
MONTHS = [["2025-01-01", "1000.50", "800"], ["2025-02-01", "1500.00", "900"]]

FOUNDED = [
    ("There are 12000 customers.", ONE),
    ("There are 12,000 customers.", ONE),
    ("Es sind 12.000 Kunden.", ONE),
    ("Il y a 12 000 clients.", ONE),
    ("About 12k customers, that is 0.012 million.", ONE),
    ("There are 10,910 customers in 6 countries.", GROUPS),
    ("Germany has 1819, which is 16.7 % of all; on average there are 1818.3.", GROUPS),
    ("Two countries have 1819, 1 more than the other 4.", GROUPS),
    ("The top 3 are DE, AU and US.", GROUPS),
    ("Revenue grew by 49.9% from 1,000.50 to 1,500 in February 2025.", MONTHS),
    ("It grew by 499.50, or 1.5 times; 80 % and 60 % of it was paid.", MONTHS),
    ("2025-01-01: 1000.5\n2025-02-01: 1500\n1. Revenue rose.", MONTHS),
    ("In total 2,500.50 in 2025, of which 1,700 was paid.", MONTHS),
    ("More than 2,000 in all, about 1000 in January.", MONTHS),
    ("In the last 90 days there were 12000.", ONE),
    ("There are none.", []),
]
UNFOUNDED = [
    ("There are 13500 customers.", ONE, ["13500"]),
    ("There are 13,500 customers, or 12 thousand.", ONE, ["13,500"]),
    ("There are 12000 customers in total.", GROUPS, ["12000"]),
    ("Germany has 21 % of all.", GROUPS, ["21 %"]),
    ("Revenue grew by 35% to 1,500.", MONTHS, ["35%"]),
    ("Revenue was 1.2 million.", MONTHS, ["1.2 million"]),
    ("There were 2024 orders.", ONE, ["2024"]),
    ("There are 7 countries.", GROUPS, ["7"]),
    ("It is about 13000.", ONE, ["13000"]),
]


def results(rows: list[list[str]], *cut: str) -> dict[str, StepResult]:
    """A result of rows."""
    columns = [ResultColumn(f"c{n}", pgtypes.TEXT) for n in range(len(rows[0]) if rows else 1)]
    query = "select 1 from t where at > now() - interval '90 days'"
    found = Rows(columns, [tuple(row) for row in rows], cut)
    return {"a": StepResult("a", StepType.SQL, found, query)}


@pytest.mark.parametrize(("text", "rows"), FOUNDED)
def test_a_number_that_follows_from_the_rows_is_founded(text: str, rows: list[list[str]]) -> None:
    """As a value, a sum, mean, count, share or difference, rounded, however it is spelled."""
    assert unfounded(text, "How many, by country?", results(rows)) == []


@pytest.mark.parametrize(("text", "rows", "numbers"), UNFOUNDED)
def test_a_number_that_nothing_accounts_for_is_found(
    text: str, rows: list[list[str]], numbers: list[str]
) -> None:
    """The note has it as it is written."""
    assert unfounded(text, "How many, by country?", results(rows)) == numbers


def test_the_question_accounts_for_its_numbers() -> None:
    """Also where it writes them in another way."""
    assert unfounded("12000 of them have more than 5,000.", "More than 5000?", results(ONE)) == []


def test_a_total_of_rows_that_were_cut_is_unfounded() -> None:
    """Their sum and number are not those of all rows."""
    cut = "only the first 6 rows"
    assert unfounded("There are 10910.", "", results(GROUPS, cut)) == ["10910"]
    assert unfounded("DE has 1819.", "", results(GROUPS, cut)) == []
