"""ANALYZE: SQL over the rows of earlier steps, in a DuckDB of its own that reaches nothing else.

Each input is a table of the step's id.  The engine has no files, no network, no extensions, a
memory limit and a time limit, and forgets everything afterwards.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from walagent.ask.analysis_size import check_size
from walagent.ask.calculate import Number, calculate
from walagent.ask.plan import PlanStep
from walagent.ask.results import StepResult
from walagent.base.extras import install_hint
from walagent.errors import ConfigError, InvalidCallError
from walagent.guard.query import RowBuffer
from walagent.guard.read_limits import ReadLimits
from walagent.postgres import pgtypes
from walagent.postgres.quoting import quote_name
from walagent.rows.rows import ResultColumn, Rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH: Final = 50  # rows per fetch

# The types of DuckDB that a column can become, best first; where none holds all values: text.
_TYPES: Final[Mapping[int, Sequence[str]]] = {
    pgtypes.BOOL: ("BOOLEAN",),
    **dict.fromkeys((*pgtypes.INTEGERS, pgtypes.OID), ("BIGINT",)),
    **dict.fromkeys((*pgtypes.FLOATS, pgtypes.MONEY), ("DOUBLE",)),
    pgtypes.NUMERIC: ("DECIMAL(38, 9)", "DOUBLE"),
    pgtypes.DATE: ("DATE",),
    pgtypes.TIME: ("TIME",),
    pgtypes.TIMESTAMP: ("TIMESTAMP",),
    pgtypes.TIMESTAMPTZ: ("TIMESTAMPTZ",),
    pgtypes.INTERVAL: ("INTERVAL",),
    pgtypes.UUID: ("UUID",),
}
# And back: the type in PostgreSQL whose text a value of DuckDB's is.
_OIDS: Final = {
    "BOOLEAN": pgtypes.BOOL,
    "TINYINT": pgtypes.INT2,
    "SMALLINT": pgtypes.INT2,
    "INTEGER": pgtypes.INT4,
    "BIGINT": pgtypes.INT8,
    "HUGEINT": pgtypes.NUMERIC,
    "UINTEGER": pgtypes.INT8,
    "UBIGINT": pgtypes.NUMERIC,
    "FLOAT": pgtypes.FLOAT4,
    "DOUBLE": pgtypes.FLOAT8,
    "DATE": pgtypes.DATE,
    "TIME": pgtypes.TIME,
    "TIMESTAMP": pgtypes.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": pgtypes.TIMESTAMPTZ,
    "INTERVAL": pgtypes.INTERVAL,
    "UUID": pgtypes.UUID,
}


@dataclass(frozen=True, slots=True)
class AnalysisLimits:
    """How much one analysis may take."""

    seconds: float = 20.0
    memory: str = "256MB"
    rows: int = 1000
    cell: int = 10_000  # characters of one value; a longer value is truncated
    total: int = 4 << 20  # characters of all values together


def analyze(
    step: PlanStep, inputs: Mapping[str, StepResult], limits: AnalysisLimits | None = None
) -> StepResult:
    """Carry an ANALYZE step out.  It blocks: call it in a thread.

    Raises:
        InvalidCallError: the statement or operation is wrong, or took too much; for the planner.
        ConfigError: DuckDB is not installed.
    """
    limits = limits or AnalysisLimits()
    for name, result in inputs.items():
        if result.rows.lacks_rows:
            raise InvalidCallError(
                f"step {name} has {result.rows.cut[0]}, so an analysis of them would be wrong;"
                " let its SQL compute the totals"
            )
    if step.text("operation") == "calculate":
        value = calculate(step.text("expression"), _numbers(inputs))
        whole = isinstance(value, int) and abs(value) < 1 << 63
        oid = pgtypes.INT8 if whole else pgtypes.FLOAT8
        rows = Rows([ResultColumn("result", oid)], [(str(value),)])
        return StepResult(step.id, step.type, rows, step.text("expression"))
    query = step.text("sql") or _operation(step, inputs)
    with _database(limits) as database:
        for name, result in inputs.items():
            _load(database, name, result.rows)
        database.execute("set lock_configuration = true")
        rows = _run(database, query, limits)
    return StepResult(step.id, step.type, rows, query)


def _numbers(inputs: Mapping[str, StepResult]) -> Mapping[str, Number]:
    """Give the numbers of results that have one row, by column."""
    found: dict[str, Number] = {}
    for result in inputs.values():
        for row in result.rows.values if len(result.rows) == 1 else ():
            for name, value in zip(result.rows.names, row, strict=True):
                if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                    found[name] = value if isinstance(value, int) else float(value)
    return found


def _database(limits: AnalysisLimits) -> "DuckDBPyConnection":
    try:
        import duckdb  # noqa: PLC0415 - an extra, and only this step needs it
    except ImportError as error:
        raise ConfigError(
            "ANALYZE needs DuckDB, which is not installed", hint=install_hint("walagent[ask]")
        ) from error
    return duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": limits.memory,
            "max_temp_directory_size": "0KB",
            "temp_directory": "",  # else DuckDB may read what is in it: .tmp/ where it runs
            "threads": "1",
        },
    )


def _run(database: "DuckDBPyConnection", query: str, limits: AnalysisLimits) -> Rows:
    import duckdb  # noqa: PLC0415 - as above

    timer = threading.Timer(limits.seconds, database.interrupt)
    timer.start()
    try:
        statements = database.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InvalidCallError("ANALYZE takes one SELECT")
        check_size(database, query)
        # As text, which is exact; DuckDB's own values would need modules that may be missing.
        described = database.execute(f"describe {query}").fetchall()
        columns = [ResultColumn(name, _oid(kind)) for name, kind, *_ in described]
        whole = query.strip().rstrip(";")
        asked = f"select left(columns(*)::varchar, {limits.cell + 1}) from (\n{whole}\n)"  # noqa: S608 - one SELECT
        reading = RowBuffer(columns, ReadLimits(limits.rows, limits.cell, limits.total))
        found = database.execute(asked)
        while (batch := found.fetchmany(_BATCH)) and all(map(reading.take, batch)):
            pass
    except duckdb.InterruptException as error:
        raise InvalidCallError(f"the analysis took more than {limits.seconds:g} s") from error
    except duckdb.OutOfMemoryException as error:
        raise InvalidCallError(f"the analysis needs more than {limits.memory} of memory") from error
    except (duckdb.Error, MemoryError, RuntimeError, ValueError) as error:
        raise InvalidCallError(f"the analysis failed: {error}") from error
    finally:
        timer.cancel()
    rows = reading.rows()
    return replace(rows, texts=[_as_postgres(columns, row) for row in rows.texts])


def _oid(kind: str) -> int:
    return pgtypes.NUMERIC if kind.startswith("DECIMAL") else _OIDS.get(kind, pgtypes.TEXT)


def _as_postgres(
    columns: Sequence[ResultColumn], row: Sequence[str | None]
) -> tuple[str | None, ...]:
    """Spell truth as PostgreSQL does; everything else is the same in both."""
    return tuple(
        text[0] if text and column.type_oid == pgtypes.BOOL else text
        for column, text in zip(columns, row, strict=True)
    )


def _load(database: "DuckDBPyConnection", name: str, rows: Rows) -> None:
    """Make a table of rows: as text first, then each column as its type where all values fit."""
    names = _distinct(rows.names)
    columns = [[row[n] for row in rows.texts] for n in range(len(names))]
    if not names:
        return
    wanted = ", ".join(
        f"unnest(${n}::varchar[]) as {quote_name(each)}" for n, each in enumerate(names, 1)
    )
    database.execute(f"create table loaded as select {wanted}", columns)
    typed = ", ".join(
        _typed(database, each, column.type_oid)
        for each, column in zip(names, rows.columns, strict=True)
    )
    database.execute(f"create table {quote_name(name)} as select {typed} from loaded")  # noqa: S608
    database.execute("drop table loaded")


def _typed(database: "DuckDBPyConnection", name: str, oid: int) -> str:
    quoted = quote_name(name)
    for kind in _TYPES.get(oid, ("VARCHAR",)):
        lost = f"{quoted} is not null and try_cast({quoted} as {kind}) is null"
        exact = f" or try_cast({quoted} as {kind})::double <> try_cast({quoted} as double)"
        wrong = lost + (exact if kind.startswith("DECIMAL") else "")
        asked = f"select exists (select 1 from loaded where {wrong})"  # noqa: S608 - quoted
        found = database.execute(asked).fetchone()
        if found and not found[0]:
            return f"cast({quoted} as {kind}) as {quoted}"
    return quoted


def _distinct(names: Iterable[str]) -> Sequence[str]:
    """Give columns of the same name a number."""
    given: list[str] = []
    for name in names:
        numbered = (name if n == 1 else f"{name}_{n}" for n in count(1))
        given.append(next(each for each in numbered if each not in given))
    return given


# The operations that need no SQL.

_AGGREGATES: Final = {"sum": "sum", "mean": "avg", "count": "count"}


def _operation(step: PlanStep, inputs: Mapping[str, StepResult]) -> str:
    given: Mapping[str, Any] = step.tool_input or {}
    if len(inputs) != 1:
        raise InvalidCallError("an operation works on the rows of one step; use sql for several")
    ((name, result),) = inputs.items()
    columns = _distinct(result.rows.names)
    operations: dict[str, Callable[[], str]] = {
        "describe": lambda: f"select * from (summarize {quote_name(name)})",  # noqa: S608 - quoted
        "groupby": lambda: _group(name, columns, given),
        **{each: lambda each=each: _total(name, columns, given, each) for each in _AGGREGATES},
    }
    if (operation := operations.get(step.text("operation"))) is None:
        known = ", ".join(sorted([*operations, "calculate"]))
        raise InvalidCallError(f'there is no operation "{step.text("operation")}"; known: {known}')
    return operation()


def _total(name: str, columns: Sequence[str], given: Mapping[str, Any], operation: str) -> str:
    column = given.get("column") or given.get("target_column")
    what = "*" if column is None and operation == "count" else _one_of(columns, column)
    total = f"{_AGGREGATES[operation]}({what}) as {operation}"
    return f"select {total} from {quote_name(name)}"  # noqa: S608 - quoted


def _group(name: str, columns: Sequence[str], given: Mapping[str, Any]) -> str:
    keys = ", ".join(_one_of(columns, each) for each in given.get("group_by") or ())
    if not keys:
        raise InvalidCallError("groupby needs group_by, a list of columns")
    column = given.get("column") or given.get("target_column")
    totals = "count(*) as count"
    if column is not None:
        what = _one_of(columns, column)
        totals += (
            f", sum({what}) as sum, avg({what}) as mean, min({what}) as min, max({what}) as max"
        )
    groups = f"group by {keys} order by {keys}"
    return f"select {keys}, {totals} from {quote_name(name)} {groups}"  # noqa: S608 - quoted


def _one_of(columns: Sequence[str], column: object) -> str:
    if column not in columns:
        raise InvalidCallError(f"there is no column {column!r}; there are: {', '.join(columns)}")
    return quote_name(str(column))
