"""What PostgreSQL raises, as errors of ours.  Our own SQLSTATEs are listed in the migrations."""

from collections.abc import Generator
from contextlib import contextmanager

from psycopg import Error, InterfaceError, OperationalError
from psycopg_pool import PoolClosed, PoolTimeout

from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    FencedError,
    LeaseLostError,
    PreconditionError,
    RunCancelledError,
    StepTakenError,
    WalagentError,
)

_OURS: dict[str, type[WalagentError]] = {
    "WA001": LeaseLostError,
    "WA002": RunCancelledError,
    "WA003": ConfigError,
    "WA004": StepTakenError,
    "WA005": ConfigError,
    "WA006": ConfigError,
    "WA007": FencedError,
    "WA010": ConfigError,
    "WA011": ConfigError,
    "WA012": ConfigError,
    "WA013": ConfigError,
    "WA014": ConfigError,
    "42501": PreconditionError,  # insufficient_privilege
    "3F000": PreconditionError,  # invalid_schema_name: not migrated
    "42P01": PreconditionError,  # undefined_table
    "42883": PreconditionError,  # undefined_function
}
# Classes of conditions that pass: connection trouble, resources, shutdown, serialization.
_PASSING = ("08", "53", "57P", "40", "55P03")


def is_passing(error: Error) -> bool:
    """Whether the same statement may well succeed later."""
    if error.sqlstate is None:
        return isinstance(error, OperationalError | InterfaceError)
    return error.sqlstate.startswith(_PASSING)


def translated(error: Error) -> WalagentError:
    """Make one of our errors of PostgreSQL's, keeping its sentence and hint."""
    if is_passing(error):
        return DatabaseLostError(f"database lost: {str(error).strip()}")
    kind = _OURS.get(error.sqlstate or "")
    message = error.diag.message_primary or str(error).strip()
    if kind is None:
        return ConfigError(
            f"{message} (SQLSTATE {error.sqlstate})", hint=error.diag.message_hint or ""
        )
    return kind(message, hint=error.diag.message_hint or _hint(error))


def _hint(error: Error) -> str:
    missing = error.sqlstate in {"3F000", "42P01", "42883"}
    return "is this database migrated? run: walagent migrate" if missing else ""


@contextmanager
def translating() -> Generator[None]:
    """Translate what PostgreSQL raises inside the block."""
    try:
        yield
    except (PoolTimeout, PoolClosed) as error:
        raise DatabaseLostError(f"no database connection: {error}") from error
    except Error as error:
        raise translated(error) from error
