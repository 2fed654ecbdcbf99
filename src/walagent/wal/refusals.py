"""Translate errors of the server into walagent's errors, with hints.

By SQLSTATE wherever possible, because messages depend on the server's language.

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
    "Add the plugin to output_plugin_libraries (in minor releases since August 2026). As superuser,"
    " unquoted as shown: ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding, "
    "wal2json; then SELECT pg_reload_conf(); or use pgoutput."
)
ROLE: Final = "Grant the right to replicate: ALTER ROLE <login> REPLICATION"
WAL_LEVEL: Final = "Run ALTER SYSTEM SET wal_level = logical and restart the server."
POOLER: Final = "Connect to PostgreSQL directly: poolers such as PgBouncer cannot replicate."
SLOTS: Final = (
    "Raise max_replication_slots and max_wal_senders and restart the server, or drop an unused "
    "slot: SELECT slot_name, active FROM pg_replication_slots"
)
LOST: Final = (
    "Run walagent wal resync to create a new slot and choose the rows that the agents run on: the "
    "changes since then are lost."
)

# Classes of SQLSTATE for invalid requests, which a retry does not fix.
_OUR_FAULT: Final = ("22", "28", "3D", "42", "0A", "58")


def refused(error: Error, slot: str, *, streaming: bool = False) -> WalagentError:
    """Translate an error about *slot*, from before or while *streaming*."""
    words, state = first_line(error), error.sqlstate or ""
    match state:
        case "42704" if streaming:  # the slot exists, so a publication does not
            return GapError(words, hint=_PUBLICATION)
        case "42704":
            return GapError(words, hint=f'Slot "{slot}" does not exist. {LOST}')
        case "55000" if "wal_level" in words:
            return PreconditionError(words, hint=WAL_LEVEL)
        case "55000" if "max_replication_slots" in words:
            return PreconditionError(words, hint=SLOTS)
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
    "55006": (SlotBusyError, "A slot accepts one reader at a time."),
    "55000": (GapError, LOST),
    "42501": (PreconditionError, ROLE),
    "42601": (PreconditionError, POOLER),
    "08P01": (PreconditionError, POOLER),
    "53400": (PreconditionError, SLOTS),
    "58P01": (PreconditionError, "Install the plugin's package on the server."),
}
_PUBLICATION: Final = (
    "The slot reached WAL written before its publication was created and cannot advance. Run "
    "walagent wal resync to fix the publications, create a new slot, and choose the rows that the "
    "agents run on."
)


def first_line(error: Error) -> str:
    """Return the first line of an error's message."""
    words = error.diag.message_primary or str(error) or type(error).__name__
    return words.strip().splitlines()[0] if words.strip() else type(error).__name__
