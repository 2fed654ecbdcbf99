"""What the server says when it refuses us, as errors of ours with what to do about it.

Decided by SQLSTATE wherever it tells enough, for the words depend on the server's language.

Source: PostgreSQL docs, Appendix A. PostgreSQL Error Codes.
"""

from collections.abc import Mapping
from typing import Final

from psycopg import Error

from walagent.errors import (
    GapError,
    PreconditionError,
    SlotBusyError,
    StreamLostError,
    WalagentError,
)

PLUGIN_LIST: Final = (
    "the server's output_plugin_libraries does not list the plug-in (minor releases since August "
    "2026 have it); as superuser, unquoted as here: ALTER SYSTEM SET output_plugin_libraries = "
    "pgoutput, test_decoding, wal2json; then SELECT pg_reload_conf(); or use pgoutput"
)
ROLE: Final = "give the login the right to replicate: ALTER ROLE <login> REPLICATION"
WAL_LEVEL: Final = "ALTER SYSTEM SET wal_level = logical; then restart the server"
POOLER: Final = "connect to PostgreSQL itself: a pooler such as PgBouncer cannot replicate"
SLOTS: Final = (
    "raise max_replication_slots and max_wal_senders and restart the server, or drop a slot that "
    "nobody uses: SELECT slot_name, active FROM pg_replication_slots"
)
LOST: Final = (
    "what was committed since cannot be read any more: `walagent resync` makes a new slot and runs "
    "the agents on the rows that you choose"
)

# Classes of SQLSTATE that mean "what we asked for is wrong", not "try again".
_OUR_FAULT: Final = ("22", "28", "3D", "42", "0A", "58")


def refused(error: Error, slot: str, *, streaming: bool = False) -> WalagentError:
    """Translate what the server said about *slot*, before or while *streaming*."""
    words, state = first_line(error), error.sqlstate or ""
    match state:
        case "42704" if streaming:  # the slot exists, so it is a publication that does not
            return GapError(words, hint=_PUBLICATION)
        case "42704":
            return GapError(words, hint=f"slot {slot} is gone; {LOST}")
        case "55000" if "wal_level" in words:
            return PreconditionError(words, hint=WAL_LEVEL)
        case "42501" if "library" in words or "output_plugin" in words:
            return PreconditionError(words, hint=PLUGIN_LIST)
        case _ if answer := _ANSWERS.get(state):
            kind, hint = answer
            return kind(words, hint=hint)
        case _ if state.startswith(_OUR_FAULT) and not streaming:
            return PreconditionError(words)
        case _:
            return StreamLostError(words)


_ANSWERS: Final[Mapping[str, tuple[type[WalagentError], str]]] = {
    "55006": (SlotBusyError, "another reader has the slot; one at a time"),
    "55000": (GapError, LOST),
    "42501": (PreconditionError, ROLE),
    "42601": (PreconditionError, POOLER),
    "08P01": (PreconditionError, POOLER),
    "53400": (PreconditionError, SLOTS),
    "58P01": (PreconditionError, "install the plug-in's package on the server"),
}
_PUBLICATION: Final = (
    "the slot has come to WAL of a time when its publication did not exist, and is stuck there for "
    "ever: `walagent resync` mends the publications, makes a new slot, and runs the agents on the "
    "rows that you choose"
)


def first_line(error: Error) -> str:
    """Say in one line what an error of psycopg says."""
    words = error.diag.message_primary or str(error) or type(error).__name__
    return words.strip().splitlines()[0] if words.strip() else type(error).__name__
