"""Describe a failed statement to a model: why and where, without values from rows."""

from typing import Final

from psycopg import errors as pg_errors

from walagent.errors import StatementRefusedError, WalagentError

# Errors of these classes are of the statement, of what it takes, or of the session: their messages
# name schema objects only.  All others can quote values.
_PLAIN: Final = ("0A", "25", "42", "53", "54", "55", "57")
# Those that the server raises by itself while a statement is executed: a timeout, a cancel request,
# no privilege, a lock.
_OF_SERVER: Final = frozenset({"57014", "42501", "55P03", "25006", "53200", "53100"})


def without_values(error: WalagentError) -> str:
    """Describe an error without values from rows, which messages can quote.

    While a statement is executed, an error of any class can: `name::regclass` raises 42P01 with the
    name.  When it is only analyzed, there are no rows.
    """
    state = getattr(error, "sqlstate", None)
    if state is None:
        return str(error)
    said = str(error)
    executed = isinstance(error, StatementRefusedError) and error.executed
    if (executed and state not in _OF_SERVER) or not state.startswith(_PLAIN):
        said = _named(state)
    at = getattr(error, "position", None)
    return f"{said} (SQLSTATE {state}" + (f", at character {at})" if at else ")")


def _named(state: str) -> str:
    try:
        name = pg_errors.lookup(state).__name__
    except KeyError:
        return "error"
    spaced = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    return spaced.strip()
