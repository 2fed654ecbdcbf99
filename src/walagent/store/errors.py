"""Translate PostgreSQL's errors.  walagent's SQLSTATEs are listed in the migrations."""

from collections.abc import Generator
from contextlib import contextmanager

from psycopg import Error, InterfaceError, OperationalError
from psycopg_pool import PoolClosed, PoolTimeout

from walagent.errors import (
    BrokenAttachmentError,
    ConfigError,
    ConflictError,
    DatabaseLostError,
    FencedError,
    LeaseLostError,
    PreconditionError,
    RoleRefusedError,
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
    "WA008": RoleRefusedError,
    "WA009": BrokenAttachmentError,
    "WA010": ConfigError,
    "WA011": ConfigError,
    "WA012": ConfigError,
    "WA013": ConfigError,
    "WA014": ConfigError,
    "WA015": ConfigError,
    "WA017": PreconditionError,
    "WA018": PreconditionError,
    "WA019": ConfigError,
    "WA020": ConfigError,
    "WA021": ConfigError,
    "WA022": ConfigError,
    "WA023": ConfigError,
    "WA024": ConfigError,
    "WA025": ConfigError,
    "WA026": ConfigError,
    "WA027": ConfigError,
    "WA028": ConfigError,
    "42501": PreconditionError,  # insufficient_privilege
    "3F000": PreconditionError,  # invalid_schema_name: not migrated
    "42P01": PreconditionError,  # undefined_table
    "42883": PreconditionError,  # undefined_function
}
# Transient conditions: connections, resources, shutdown, serialization, and the timeout of
# a session that was idle in a transaction because this process was frozen.
_PASSING = ("08", "53", "57P", "40", "55P03", "25P03", "25P04")
# Conflicts with another transaction: serialization, deadlock, lock_timeout.
_CONFLICTS = frozenset({"40001", "40P01", "55P03"})
FORBIDDEN = "42501"  # insufficient_privilege
# Objects of walagent's schema are missing.
NOT_MIGRATED = frozenset({"3F000", "42P01", "42883"})
# Viewers and runners cannot do it.
MIGRATE = "Run walagent database migrate as the owner of the schema."
# The server is read-only: a standby, or by setting.  From a tool, it can be its own transaction.
_READ_ONLY = "25006"
# A pooler has sent the statement to a session that does not know what the driver prepared, or has
# another statement by that name.
_PREPARED = frozenset({"26000", "42P05"})
_DRIVERS_NAME = '"_pg3_'  # psycopg's


def is_passing(error: Error) -> bool:
    """Return whether the same statement can succeed later."""
    if error.sqlstate is None:
        return isinstance(error, OperationalError | InterfaceError)
    if error.sqlstate in _PREPARED:
        return _DRIVERS_NAME in (error.diag.message_primary or "")
    return error.sqlstate.startswith(_PASSING)


def is_conflict(error: Error | WalagentError) -> bool:
    """Return whether another transaction was in the way."""
    return error.sqlstate in _CONFLICTS


def translated(error: Error) -> WalagentError:
    """Translate a PostgreSQL error, with its message, hint and SQLSTATE."""
    state, message = error.sqlstate, error.diag.message_primary or str(error).strip()
    if is_conflict(error):
        hint = error.diag.message_hint or ""
        return ConflictError(f"{message} (SQLSTATE {state})", hint=hint, sqlstate=state)
    if is_passing(error) or state == _READ_ONLY:
        text = f"{message} (SQLSTATE {state})" if state else message
        return DatabaseLostError(f"database lost: {text}", sqlstate=state)
    hint = error.diag.message_hint or ""
    kind = _OURS.get(state or "")
    if kind is None:
        return ConfigError(f"{message} (SQLSTATE {state})", hint=hint, sqlstate=state)
    if kind is RoleRefusedError:  # it includes PostgreSQL's message
        state = error.diag.message_detail or state
    return kind(message, hint=hint or _hint(error), sqlstate=state)


def _hint(error: Error) -> str:
    missing = error.sqlstate in NOT_MIGRATED
    return f"If the schema is missing or out of date: {MIGRATE}" if missing else ""


@contextmanager
def translating() -> Generator[None]:
    """Translate the PostgreSQL errors of a block."""
    try:
        yield
    except (PoolTimeout, PoolClosed) as error:
        state = getattr(error, "sqlstate", None)
        raise DatabaseLostError(f"no database connection: {error}", sqlstate=state) from error
    except Error as error:
        raise translated(error) from error
