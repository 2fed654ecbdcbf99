"""Checks of results: what is odd, what is not, and values of every kind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walagent.ask.plan import PlanStep, StepType
from walagent.ask.results import StepResult
from walagent.ask.verify import check_rows, verify
from walagent.rows.rows import ResultColumn, Rows, Texts

INT, NUMERIC, FLOAT, TEXT, UUID, BYTEA = 23, 1700, 701, 25, 2950, 17
INTERVAL, JSONB, RANGE, DATE = 1186, 3802, 3904, 1082


def rows(names: str, *texts: Texts, kind: int = NUMERIC, cut: str = "") -> Rows:
    """Rows with columns of one type."""
    return Rows([ResultColumn(name, kind) for name in names.split()], texts, (cut,) if cut else ())


def step_of(inputs: dict[str, Rows], **queries: str) -> StepResult:
    """What a VERIFY step says of results."""
    step = PlanStep(id="v", type=StepType.VERIFY, description="", depends_on=list(inputs))
    results = {
        name: StepResult(name, StepType.SQL, each, queries.get(name, ""), findings=check_rows(each))
        for name, each in inputs.items()
    }
    return verify(step, results)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (rows("a"), "there are no rows"),
        (rows("a b", ("1", None), ("2", None)), "b is NULL in every row"),
        (rows("a", (None,)), "a is NULL in every row"),
        (rows("a", ("1",), cut="only the first 1 rows"), "not all rows were read"),
        (rows("a b", ("1", "2"), ("1", "2")), "all rows are the same"),
        (rows("a", *[("1",), ("2",)] * 5), "most rows appear more than once"),
        (rows("a", ("NaN",), ("1",)), "a is not a finite number in 1 row"),
        (
            rows("a", ("Infinity",), ("-Infinity",), kind=FLOAT),
            "a is not a finite number in 2 rows",
        ),
        (rows("percent", ("99",), ("100.5",)), "percent is outside of 0 to 100 in 1 row: 100.5"),
        (rows("paid_pct", ("-1",)), "paid_pct is outside of 0 to 100"),
        (rows("paidPercentage", ("101",), kind=FLOAT), "paidPercentage is outside"),
        (rows("in_%", ("101",)), "in_% is outside"),
        (rows("share", ("0",), ("0",), ("0",), kind=INT), "share is 0 in every row"),
    ],
)
def test_what_is_odd_is_said(found: Rows, says: str) -> None:
    """One finding each."""
    (said,) = check_rows(found)
    assert said.startswith(says)


@pytest.mark.parametrize(
    "honest",
    [
        rows("n", ("0",)),
        rows("a b", ("1", None), (None, "2")),
        rows("percent", ("0",), ("100",), ("33.3",)),
        rows("growth_percent", ("-20",), ("250",)),
        rows("percent_change", ("-20",)),
        rows("shares", ("4000",)),
        rows("percent", ("half",), ("400",), kind=TEXT),
        rows("percentile_note", ("400",)),
        rows("rate", ("0",), ("0",), ("0",)),
        rows("error_rate", ("0",), ("0",), kind=INT),
        rows("name", ("Anna",), ("Anna",), ("Ben",), kind=TEXT),
        rows("a", ("1",), ("1",)),
        rows("a", ("x" * 10,), cut="long values of a", kind=TEXT),
    ],
)
def test_what_is_not_odd_is_not_said(honest: Rows) -> None:
    """Zeros, gaps, namesakes, and growth of more than all."""
    assert check_rows(honest) == ()


def test_parts_that_do_not_add_up_are_found() -> None:
    """Results with one row are totals of those with several, where the columns have one name."""
    parts = rows("country amount", ("CH", "10.00"), ("DE", "20.00"))
    parts = Rows([ResultColumn("country", TEXT), ResultColumn("amount", NUMERIC)], parts.texts)
    found = step_of({"all": rows("amount", ("35",)), "parts": parts})
    assert found.findings == ("parts: amount adds up to 30.00, and is 35 in all",)
    assert [row[:2] for row in found.rows.texts] == [("all", "t"), ("parts", "f")]
    assert step_of({"all": rows("Amount", ("30.004",)), "parts": parts}).findings == ()


@pytest.mark.parametrize(
    ("total", "parts", "query"),
    [
        (rows("amount", ("35",)), rows("amount", ("10",), ("20",)), "select … limit 2"),
        (rows("amount", ("35",)), rows("amount", ("10",), ("20",)), "select … having 1 > 0"),
        (rows("people", ("25",)), rows("people", ("10",), ("20",)), "select count(distinct x) …"),
        (rows("amount", ("25",)), rows("amount", ("10",), ("20",)), "… group by rollup (x)"),
        (rows("average", ("25",)), rows("average", ("10",), ("20",)), ""),
        (rows("amount", ("25",)), rows("amount", ("10",), (None,)), ""),
        (rows("amount", ("25",)), rows("amount", ("10",), ("NaN",)), ""),
        (rows("amount", ("NaN",)), rows("amount", ("10",), ("20",)), ""),
        (rows("amount", ("25",)), rows("sum", ("10",), ("20",)), ""),
        (rows("amount", ("25",), kind=TEXT), rows("amount", ("10",), ("20",), kind=TEXT), ""),
        (rows("n", ("1e3",), kind=FLOAT), rows("n", ("999.999",), ("0.001",), kind=FLOAT), ""),
    ],
)
def test_parts_that_need_not_add_up_are_let_be(total: Rows, parts: Rows, query: str) -> None:
    """Some of all, things that are in several parts, averages, gaps, other columns."""
    said = [each for each in step_of({"t": total, "p": parts}, p=query).findings if "adds" in each]
    assert said == []


def test_the_first_few_cannot_be_more_than_all() -> None:
    """Whatever was left out."""
    parts = rows("amount", ("30",), ("20",))
    found = step_of({"t": rows("amount", ("35",)), "p": parts}, p="select … limit 2")
    assert found.findings == ("p: amount adds up to 50, and is 35 in t",)


def test_what_failed_and_what_was_found_before_does_not_pass() -> None:
    """A VERIFY step says it again, for each step that it is about."""
    step = PlanStep(id="v", type=StepType.VERIFY, description="", depends_on=["a", "b"])
    failed = StepResult("a", StepType.SQL, error="no such column")
    found = verify(step, {"a": failed, "b": StepResult("b", StepType.SQL, findings=("odd",))})
    assert found.findings == ("a: no such column", "b: odd")


def test_what_was_found_on_the_web_passes() -> None:
    """Its source is a note, not a fault; a search that found nothing is one."""
    step = PlanStep(id="v", type=StepType.VERIFY, description="", depends_on=["a", "b"])
    note = ("it comes from the web, and nobody vouches for it",)
    found = StepResult("a", StepType.SEARCH, rows("title", ("x",), kind=TEXT), findings=note)
    nothing = StepResult("b", StepType.SEARCH, findings=("nothing was found on the web",))
    said = verify(step, {"a": found, "b": nothing})
    assert said.findings == ("b: nothing was found on the web",)


VALUES = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from([
        "NaN", "Infinity", "-Infinity", "1e308", "-0", "\\x00ff", '{"a": [1, null]}', "[1,5)",
        "empty", "1 day 02:03:04", "infinity", "0044-03-15 BC", "t", "{NULL,1}", "12345…",
        "550e8400-e29b-41d4-a716-446655440000", "9" * 400, "0." + "1" * 400,
    ]),
)  # fmt: skip
KINDS = st.sampled_from(
    [INT, 20, 21, 700, FLOAT, NUMERIC, TEXT, UUID, BYTEA, INTERVAL, JSONB, RANGE, DATE, 790, 0]
)
NAMES = st.one_of(st.text(max_size=10), st.sampled_from(["percent", "total", "share", "?column?"]))


@st.composite
def any_rows(draw: st.DrawFn) -> Rows:
    """Rows of any shape: equal names, no columns, values that are none of their type."""
    columns = draw(st.lists(st.builds(ResultColumn, NAMES, KINDS), max_size=4))
    width = len(columns)
    texts = draw(st.lists(st.tuples(*[VALUES] * width), max_size=5))
    return Rows(columns, texts, draw(st.sampled_from([(), ("only the first 5 rows",)])))


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from("abcd"), any_rows(), max_size=4))
def test_no_value_makes_it_fail(inputs: dict[str, Rows]) -> None:
    """Whatever the rows hold, it says something or nothing."""
    found = step_of(inputs)
    assert len(found.rows) == len(inputs)
