"""What PostgreSQL raises, as errors of ours.  Our own SQLSTATEs are listed in the migrations."""

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
    "42501": PreconditionError,  # insufficient_privilege
    "3F000": PreconditionError,  # invalid_schema_name: not migrated
    "42P01": PreconditionError,  # undefined_table
    "42883": PreconditionError,  # undefined_function
}
# Classes of conditions that pass: connection trouble, resources, shutdown, serialization, and our
# own transactions that rested for too long while this process was frozen.
_PASSING = ("08", "53", "57P", "40", "55P03", "25P03", "25P04")
# Somebody else's transaction was in the way: serialization, deadlock, lock_timeout.
_CONFLICTS = frozenset({"40001", "40P01", "55P03"})
# The server takes no writes for now: a standby, or told so.  A tool that says this may mean itself.
_READ_ONLY = "25006"


def is_passing(error: Error) -> bool:
    """Whether the same statement may well succeed later."""
    if error.sqlstate is None:
        return isinstance(error, OperationalError | InterfaceError)
    return error.sqlstate.startswith(_PASSING)


def is_conflict(error: Error) -> bool:
    """Whether somebody else's transaction was in the way."""
    return error.sqlstate in _CONFLICTS


def translated(error: Error) -> WalagentError:
    """Make one of our errors of PostgreSQL's, keeping its sentence, hint and SQLSTATE."""
    state, message = error.sqlstate, error.diag.message_primary or str(error).strip()
    if is_conflict(error):
        return ConflictError(f"{message} (SQLSTATE {state})", sqlstate=state)
    if is_passing(error) or state == _READ_ONLY:
        told = f"{message} (SQLSTATE {state})" if state else message
        return DatabaseLostError(f"database lost: {told}", sqlstate=state)
    hint = error.diag.message_hint or ""
    kind = _OURS.get(state or "")
    if kind is None:
        return ConfigError(f"{message} (SQLSTATE {state})", hint=hint, sqlstate=state)
    if kind is RoleRefusedError:  # which carries what PostgreSQL said
        state = error.diag.message_detail or state
    return kind(message, hint=hint or _hint(error), sqlstate=state)


def _hint(error: Error) -> str:
    missing = error.sqlstate in {"3F000", "42P01", "42883"}
    return "is this database migrated? run: walagent migrate" if missing else ""


@contextmanager
def translating() -> Generator[None]:
    """Translate what PostgreSQL raises inside the block."""
    try:
        yield
    except (PoolTimeout, PoolClosed) as error:
        state = getattr(error, "sqlstate", None)
        raise DatabaseLostError(f"no database connection: {error}", sqlstate=state) from error
    except Error as error:
        raise translated(error) from error
