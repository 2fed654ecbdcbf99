"""What a model is told of a statement that failed: why and where, and no value of any row."""

from typing import Final

from psycopg import errors as pg_errors

from walagent.errors import WalagentError

# Messages of these classes quote what the rows hold: cardinality, data, integrity, what a function
# raises itself, internal errors.
_QUOTING: Final = ("21", "22", "23", "44", "P0", "XX")


def without_values(error: WalagentError) -> str:
    """Say what went wrong without a value of any row: errors of some classes quote them."""
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
