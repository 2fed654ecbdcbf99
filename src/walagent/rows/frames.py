"""Convert rows to a data frame of pandas or polars, with native types where they are exact.

Neither library is a dependency; the caller installs the one it uses.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, Final, NamedTuple

from walagent.errors import PreconditionError
from walagent.postgres import pgtypes

# Types that distinguish NULL from every value; columns of other types are of Python objects.
_PANDAS: Final[Mapping[int, str]] = {
    pgtypes.BOOL: "boolean",
    pgtypes.INT8: "Int64",
    pgtypes.INT2: "Int16",
    pgtypes.INT4: "Int32",
    pgtypes.OID: "UInt32",
    pgtypes.TIMESTAMP: "datetime64[us]",
    pgtypes.TIMESTAMPTZ: "datetime64[us, UTC]",
    pgtypes.INTERVAL: "timedelta64[us]",
    **dict.fromkeys(pgtypes.TEXTS, "string"),
}
_PYTHON: Final[Mapping[int, type]] = {
    pgtypes.BOOL: bool,
    pgtypes.BYTEA: bytes,
    pgtypes.INT8: int,
    pgtypes.INT2: int,
    pgtypes.INT4: int,
    pgtypes.OID: int,
    pgtypes.FLOAT4: float,
    pgtypes.FLOAT8: float,
    pgtypes.NUMERIC: Decimal,
    pgtypes.DATE: date,
    pgtypes.TIME: time,
    pgtypes.TIMESTAMP: datetime,
    pgtypes.TIMESTAMPTZ: datetime,
    pgtypes.INTERVAL: timedelta,
    **dict.fromkeys(pgtypes.TEXTS, str),
}
_DIGITS: Final = 38  # precision of polars' widest decimal


class Column(NamedTuple):
    """A column of a frame: its distinct name, its PostgreSQL type, its texts and its values."""

    name: str
    type_oid: int
    texts: Sequence[str | None]
    values: Sequence[Any]

    @property
    def fits(self) -> bool:
        """Whether all values were converted to the Python type of the column."""
        wanted = _PYTHON.get(self.type_oid, object)
        return all(value is None or isinstance(value, wanted) for value in self.values)


def to_pandas(columns: Sequence[Column], rows: int) -> Any:  # noqa: ANN401 - a pandas.DataFrame
    """Convert to a pandas DataFrame; NULL is NA, NaT, NaN, or None in a column of objects.

    Raises:
        PreconditionError: pandas is not installed.
    """
    pandas = _library("pandas")
    series = {
        each.name: pandas.Series(each.values, dtype=_pandas_type(each) if each.fits else "object")
        for each in columns
    }
    return pandas.DataFrame(series, index=range(rows))


def to_polars(columns: Sequence[Column]) -> Any:  # noqa: ANN401 - a polars.DataFrame
    """Convert to a polars DataFrame; a type that polars lacks, such as uuid, becomes text.

    Raises:
        PreconditionError: polars is not installed.
    """
    polars = _library("polars")
    types = _polars_types(polars)
    series: list[Any] = []
    for each in columns:
        known = each.fits and each.type_oid in types
        dtype = types[each.type_oid](each.values) if known else None
        shown = each.texts if dtype is None else each.values
        series.append(polars.Series(each.name, shown, dtype or polars.String))
    return polars.DataFrame(series)


def _pandas_type(column: Column) -> str:
    """Return the pandas type of a column; float64 does not distinguish NULL from NaN."""
    values = column.values
    if column.type_oid in pgtypes.FLOATS:
        has_both = None in values and any(value != value for value in values)  # noqa: PLR0124 - NaN
        return "object" if has_both else "float64"
    return _PANDAS.get(column.type_oid, "object")


def _polars_types(polars: Any) -> Mapping[int, Callable[[Sequence[Any]], Any]]:  # noqa: ANN401 - a module
    """Return, by type OID, what determines the polars type of a column; it can return None."""
    fixed = {
        pgtypes.BOOL: polars.Boolean,
        pgtypes.BYTEA: polars.Binary,
        pgtypes.INT8: polars.Int64,
        pgtypes.INT2: polars.Int16,
        pgtypes.INT4: polars.Int32,
        pgtypes.OID: polars.UInt32,
        pgtypes.FLOAT4: polars.Float32,
        pgtypes.FLOAT8: polars.Float64,
        pgtypes.DATE: polars.Date,
        pgtypes.TIME: polars.Time,
        pgtypes.TIMESTAMP: polars.Datetime("us"),
        pgtypes.TIMESTAMPTZ: polars.Datetime("us", "UTC"),
        pgtypes.INTERVAL: polars.Duration("us"),
    }

    def always(dtype: Any) -> Callable[[Sequence[Any]], Any]:  # noqa: ANN401 - a type of polars
        return lambda _: dtype

    def decimal(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a type of polars
        shape = _shape([value for value in values if value is not None])
        return None if shape is None else polars.Decimal(*shape)

    return {oid: always(dtype) for oid, dtype in fixed.items()} | {pgtypes.NUMERIC: decimal}


def _shape(values: Sequence[Decimal]) -> tuple[int, int] | None:
    """Return a precision and scale that represent all values exactly; None without values."""
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
            f"{name} is not installed", hint=f"Run pip install {name}"
        ) from error
