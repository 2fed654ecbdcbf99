"""Describe a failed statement to a model: why and where, without values from rows."""

from typing import Final

from psycopg import errors as pg_errors

from walagent.errors import WalagentError

# Messages of these classes quote values: cardinality, data, integrity, errors raised by functions,
# internal errors.
_QUOTING: Final = ("21", "22", "23", "44", "P0", "XX")


def without_values(error: WalagentError) -> str:
    """Describe an error without values from rows, which messages of some classes quote."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return str(error)
    said = str(error)
    if state.startswith(_QUOTING):
        said = _named(pg_errors.lookup(state).__name__)
    at = getattr(error, "position", None)
    return f"{said} (SQLSTATE {state}" + (f", at character {at})" if at else ")")


def _named(name: str) -> str:
    spaced = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    return spaced.strip()
