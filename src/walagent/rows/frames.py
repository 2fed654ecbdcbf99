"""Rows as a data frame of pandas or polars: each value of its own type, or as PostgreSQL wrote it.

Neither library is a dependency: whoever wants a frame has one of them.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from walagent.errors import PreconditionError

if TYPE_CHECKING:
    from walagent.rows.rows import Rows

_BOOL, _BYTEA, _OID, _NUMERIC = 16, 17, 26, 1700
_INT8, _INT2, _INT4, _FLOAT4, _FLOAT8 = 20, 21, 23, 700, 701
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _INTERVAL = 1082, 1083, 1114, 1184, 1186
_TEXTS: Final = frozenset({18, 19, 25, 1042, 1043})

# Types that keep NULL apart from every value; what is not here stays an object of Python's.
_PANDAS: Final[Mapping[int, str]] = {
    _BOOL: "boolean",
    _INT8: "Int64",
    _INT2: "Int16",
    _INT4: "Int32",
    _OID: "UInt32",
    _TIMESTAMP: "datetime64[us]",
    _TIMESTAMPTZ: "datetime64[us, UTC]",
    _INTERVAL: "timedelta64[us]",
    **dict.fromkeys(_TEXTS, "string"),
}
_PYTHON: Final[Mapping[int, type]] = {
    _BOOL: bool,
    _BYTEA: bytes,
    _INT8: int,
    _INT2: int,
    _INT4: int,
    _OID: int,
    _FLOAT4: float,
    _FLOAT8: float,
    _NUMERIC: Decimal,
    _DATE: date,
    _TIME: time,
    _TIMESTAMP: datetime,
    _TIMESTAMPTZ: datetime,
    _INTERVAL: timedelta,
    **dict.fromkeys(_TEXTS, str),
}
_DIGITS: Final = 38  # of the widest decimal that polars has


def to_pandas(rows: "Rows") -> Any:  # noqa: ANN401 - a pandas.DataFrame
    """Make a DataFrame of pandas; NULL is NA, NaT, NaN, or None in a column of objects.

    Raises:
        PreconditionError: pandas is not installed.
    """
    pandas = _library("pandas")
    series = {
        name: pandas.Series(values, dtype=_pandas_type(oid, values) if fits else "object")
        for name, oid, values, fits in _columns(rows)
    }
    return pandas.DataFrame(series, index=range(len(rows)))


def to_polars(rows: "Rows") -> Any:  # noqa: ANN401 - a polars.DataFrame
    """Make a DataFrame of polars; a type that it does not have, such as uuid, is text.

    Raises:
        PreconditionError: polars is not installed.
    """
    polars = _library("polars")
    types = _polars_types(polars)
    series: list[Any] = []
    for n, (name, oid, values, fits) in enumerate(_columns(rows)):
        dtype = types[oid](values) if fits and oid in types else None
        plain = [row[n] for row in rows.texts]
        series.append(
            polars.Series(name, plain if dtype is None else values, dtype or polars.String)
        )
    return polars.DataFrame(series)


def _pandas_type(oid: int, values: list[Any]) -> str:
    """Say which type a column has in pandas; to its float64, NULL and NaN are the same."""
    if oid in {_FLOAT4, _FLOAT8}:
        has_both = None in values and any(value != value for value in values)  # noqa: PLR0124 - NaN
        return "object" if has_both else "float64"
    return _PANDAS.get(oid, "object")


def _columns(rows: "Rows") -> Sequence[tuple[str, int, list[Any], bool]]:
    """Give name, type and values of each column, and whether all values are of Python's type."""
    given: list[tuple[str, int, list[Any], bool]] = []
    for n, (name, column) in enumerate(zip(rows.distinct_names, rows.columns, strict=True)):
        values = [row[n] for row in rows.values]
        wanted = _PYTHON.get(column.type_oid, object)
        fits = all(value is None or isinstance(value, wanted) for value in values)
        given.append((name, column.type_oid, values, fits))
    return given


def _polars_types(polars: Any) -> Mapping[int, Callable[[list[Any]], Any]]:  # noqa: ANN401 - the module
    """Say which type the values of a column have in polars; None: none."""
    fixed = {
        _BOOL: polars.Boolean,
        _BYTEA: polars.Binary,
        _INT8: polars.Int64,
        _INT2: polars.Int16,
        _INT4: polars.Int32,
        _OID: polars.UInt32,
        _FLOAT4: polars.Float32,
        _FLOAT8: polars.Float64,
        _DATE: polars.Date,
        _TIME: polars.Time,
        _TIMESTAMP: polars.Datetime("us"),
        _TIMESTAMPTZ: polars.Datetime("us", "UTC"),
        _INTERVAL: polars.Duration("us"),
    }

    def always(dtype: Any) -> Callable[[list[Any]], Any]:  # noqa: ANN401 - a type of polars
        return lambda _: dtype

    def decimal(values: list[Any]) -> Any:  # noqa: ANN401 - a type of polars
        shape = _shape([value for value in values if value is not None])
        return None if shape is None else polars.Decimal(*shape)

    return {oid: always(dtype) for oid, dtype in fixed.items()} | {_NUMERIC: decimal}


def _shape(values: Sequence[Decimal]) -> tuple[int, int] | None:
    """Give precision and scale that hold all values exactly; None where there are none."""
    if not all(value.is_finite() for value in values):
        return None
    scale = max((max(0, -int(value.as_tuple().exponent)) for value in values), default=0)
    whole = max((max(1, value.adjusted() + 1) for value in values), default=1)
    return (_DIGITS, scale) if whole + scale <= _DIGITS else None


def _library(name: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise PreconditionError(
            f"{name} is not installed, which a frame needs", hint=f"pip install {name}"
        ) from error
