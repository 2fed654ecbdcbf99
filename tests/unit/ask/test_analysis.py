"""ANALYZE: SQL and a few operations over rows that are here, and over nothing else."""

from pathlib import Path

import pytest

from walagent.ask.analysis import AnalysisLimits, analyze
from walagent.ask.plan import PlanStep, StepType
from walagent.ask.results import StepResult
from walagent.errors import InvalidCallError
from walagent.message import Json
from walagent.rows.rows import ResultColumn, Rows, Texts

SALES = StepResult(
    "sales",
    StepType.SQL,
    Rows(
        [
            ResultColumn("shop", 25),
            ResultColumn("sold", 23),
            ResultColumn("total", 1700),
            ResultColumn("on", 1082),
        ],
        [
            ("a", "1", "10.50", "2026-01-01"),
            ("a", "2", "0.25", "2026-02-01"),
            ("b", "3", "7", None),
            ("b", None, None, "2026-03-01"),
        ],
    ),
)


def one(oid: int, *texts: str | None, name: str = "v") -> StepResult:
    """A result with one column."""
    return StepResult(
        "t", StepType.SQL, Rows([ResultColumn(name, oid)], [(text,) for text in texts])
    )


def ran(*inputs: StepResult, limits: AnalysisLimits | None = None, **given: Json) -> StepResult:
    """An ANALYZE step over some results."""
    step = PlanStep(
        id="x", type=StepType.ANALYZE, description="", tool_input=given,
        depends_on=[each.id for each in inputs],
    )  # fmt: skip
    return analyze(step, {each.id: each for each in inputs}, limits)


def texts(result: StepResult) -> list[Texts]:
    """The rows of a result."""
    return list(result.rows.texts)


def test_sql_runs_over_earlier_rows() -> None:
    """Each step's rows are a table of its name, with the types that PostgreSQL gave them."""
    stock = StepResult("stock", StepType.SQL, Rows([ResultColumn("shop", 25)], [("a",), ("c",)]))
    found = ran(
        SALES,
        stock,
        sql='select shop, sum(total) as total, max("on") as last, count(s.shop) > 1 as many'
        " from stock left join sales s using (shop) group by shop order by shop;",
    )
    assert found.rows.names == ["shop", "total", "last", "many"]
    assert [(a, str(b), str(c), d) for a, b, c, d in found.rows] == [
        ("a", "10.750000000", "2026-02-01", True),
        ("c", "None", "None", False),
    ]
    assert StepResult.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({"operation": "sum", "column": "sold"}, [("6",)]),
        ({"operation": "sum", "target_column": "total"}, [("17.750000000",)]),
        ({"operation": "mean", "column": "sold"}, [("2.0",)]),
        ({"operation": "count"}, [("4",)]),
        ({"operation": "count", "column": "sold"}, [("3",)]),
        ({"operation": "groupby", "group_by": ["shop"]}, [("a", "2"), ("b", "2")]),
        (
            {"operation": "groupby", "group_by": ["shop"], "column": "sold"},
            [("a", "2", "3", "1.5", "1", "2"), ("b", "2", "3", "3.0", "3", "3")],
        ),
    ],
)
def test_an_operation_does_what_it_says(given: dict[str, Json], rows: list[Texts]) -> None:
    """Over the data, not over its own words."""
    assert texts(ran(SALES, **given)) == rows


def test_describe_has_a_row_for_each_column() -> None:
    """Counts, bounds and quartiles."""
    found = ran(SALES, operation="describe")
    assert [row[0] for row in found.rows.texts] == ["shop", "sold", "total", "on"]
    assert {"min", "max", "avg", "q50", "null_percentage"} <= set(found.rows.names)


def test_calculate_sees_the_numbers_of_single_rows() -> None:
    """A share of two totals needs no SQL."""
    whole = ran(SALES, operation="sum", column="sold")
    found = ran(whole, operation="calculate", expression="sum / 24 * 100")
    assert texts(found) == [("25.0",)]


@pytest.mark.parametrize(
    ("oid", "values", "asked", "answer"),
    [
        (1700, ["NaN", "1"], "count(*) filter (isnan(v))", "1"),
        (1700, ["12345678901234567890123456789012345678", "1"], "max(v) > 1", "t"),
        (701, ["Infinity", "-Infinity"], "max(v)", "inf"),
        (20, ["9223372036854775807"], "max(v)", "9223372036854775807"),
        (1082, ["infinity", "2026-01-01"], "max(v)", "infinity"),
        (1082, ["0044-03-15 BC"], "count(v)", "1"),
        (1184, ["2026-01-01 10:00:00+02"], "max(v) = timestamptz '2026-01-01 08:00:00+00'", "t"),
        (1186, ["1 day 02:00:00"], "max(v) > interval 1 day", "t"),
        (2950, ["00000000-0000-0000-0000-000000000001"], "count(v)", "1"),
        (3802, ['{"a": 1}'], "max(v)", '{"a": 1}'),
        (17, ["\\xdeadbeef"], "max(v)", "\\xdeadbeef"),
        (23, ["1", "2…"], "max(v)", "2…"),
        (16, ["t", "f", None], "count(*) filter (v)", "1"),
    ],
)
def test_no_value_is_too_odd(oid: int, values: list[str | None], asked: str, answer: str) -> None:
    """Where DuckDB lacks a type, or one of its values, the column is text."""
    assert texts(ran(one(oid, *values), sql=f"select {asked} from t")) == [(answer,)]


def test_columns_of_the_same_name_are_distinguished() -> None:
    """As joins make them."""
    twice = StepResult(
        "t",
        StepType.SQL,
        Rows(
            [ResultColumn("n", 23), ResultColumn("n", 23), ResultColumn('"', 23)], [("1", "2", "3")]
        ),
    )
    assert texts(ran(twice, sql='select n, n_2, """" from t')) == [("1", "2", "3")]


def test_rows_are_bounded_and_it_is_said() -> None:
    """As for a statement to the database."""
    found = ran(SALES, sql="select * from range(5000)", limits=AnalysisLimits(rows=10))
    assert len(found.rows) == 10
    assert list(found.rows.cut) == ["only the first 10 rows"]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("select * from read_text('/etc/passwd')", "disabled"),
        ("select * from '/etc/passwd'", "does not exist"),
        ("select * from read_csv('https://example.com/x.csv')", "disabled"),
        ("select * from glob('/*')", "disabled"),
        ("copy sales to 'walagent-stolen.csv'", "one SELECT"),
        ("attach '/tmp/x.db' as y", "one SELECT"),
        ("install httpfs", "one SELECT"),
        ("set memory_limit = '10GB'", "one SELECT"),
        ("drop table sales", "one SELECT"),
        ("select 1; select 2", "one SELECT"),
        ("pragma database_list", "one SELECT"),
        ("", "there is no operation"),
        ("select nope from sales", "nope"),
        ("selct 1", "failed"),
        ("select count(*) from range(1000000000000) a, range(1000) b", "more than 0.5 s"),
        ("select list(range) from range(1000000000)", "failed|more than"),
    ],
)
def test_what_an_analysis_may_not_do_is_reported(sql: str, says: str) -> None:
    """Files, networks and settings are out of reach, and so are endless loops."""
    limits = AnalysisLimits(seconds=0.5, memory="100MB")
    with pytest.raises(InvalidCallError, match=says):
        ran(SALES, sql=sql, limits=limits)
    assert not Path("walagent-stolen.csv").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"operation": "sum", "column": "nope"}, "there are: shop, sold, total, on"),
        ({"operation": "sum"}, "there is no column None"),
        ({"operation": "shake"}, "there is no operation"),
        ({"operation": "groupby"}, "needs group_by"),
        ({"operation": "groupby", "group_by": ["x"]}, "there is no column 'x'"),
        ({"operation": "calculate", "expression": "9**9**9"}, "too large"),
    ],
)
def test_a_wrong_operation_says_what_there_is(given: dict[str, Json], says: str) -> None:
    """For the planner's next try."""
    with pytest.raises(InvalidCallError, match=says):
        ran(SALES, **given)


def test_no_file_is_read_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB allows its temporary directory, which is .tmp there unless it has none."""
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "a.csv").write_text("a\n1\n")
    monkeypatch.chdir(tmp_path)
    for source in ("'.tmp/a.csv'", "read_csv('.tmp/a.csv')", "glob('.tmp/*')"):
        with pytest.raises(InvalidCallError, match=r"(?i)permission|not exist|cannot"):
            ran(SALES, sql=f"select * from {source}")


@pytest.mark.parametrize(
    "sql",
    [
        "select repeat('x', 1000000000)",
        "select repeat('x', '1000000000')",
        "select repeat(repeat('x', 100000), 100000)",
        "select repeat('x', 100000 * 100000)",
        "select repeat('x', n) from (values (1000000000)) v (n)",
        "select repeat('x', 1e9::int)",
        "select lpad('x', 1000000000, ' ')",
        "select length(repeat('x', 1000000000)) from sales",
        "select range(1000000000)",
        "select replace(repeat('a', 30000), 'a', repeat('b', 30000))",
        "select regexp_replace(repeat('a', 30000), 'a', repeat('b', 30000), 'g')",
        "select list_transform(range(30000), lambda x: repeat('b', 30000))",
    ],
)
def test_large_values_are_refused(sql: str) -> None:
    """Before they are computed: the memory limit does not count them."""
    with pytest.raises(InvalidCallError, match="smaller"):
        ran(SALES, sql=sql)


def test_small_values_are_repeated() -> None:
    """Constants elsewhere in the statement do not count."""
    found = ran(SALES, sql="select replace(repeat('ab', 3), 'a', lpad('-', 2, ' ')), 3000000 * 1")
    assert texts(found) == [(" -b -b -b", "3000000")]


def test_values_and_results_are_cut() -> None:
    """As those of a statement, and what was cut is said."""
    long = ran(SALES, sql="select repeat('x', 20000) as a, 'y' as b from sales limit 2")
    assert texts(long)[0] == ("x" * 10_000 + "…", "y")
    assert long.rows.cut == ("long values of a",)
    limits = AnalysisLimits(total=1000)
    large = ran(SALES, sql="select repeat('x', 400) as a from sales", limits=limits)
    assert len(large.rows) == 2
    assert "large" in large.rows.cut[0]
    few = ran(SALES, sql="select shop, repeat('#', sold) from sales where sold is not null")
    assert len(few.rows) == 3


def test_too_much_memory_is_an_error_for_the_planner() -> None:
    """And it says what was too much."""
    with pytest.raises(InvalidCallError, match="memory"):
        ran(
            SALES,
            sql="select count(distinct hash(i) || 'abcdefghijklmnopqrstuvwxyz')"
            " from generate_series(1, 1000000) a (i), generate_series(1, 20)",
            limits=AnalysisLimits(memory="8MB"),
        )
