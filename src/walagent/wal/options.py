"""Options of a stream, and its START_REPLICATION command.

Replication commands have no parameters, so identifiers and literals are quoted here.

Source: PostgreSQL docs, 55.4 Streaming Replication Protocol and 55.5.1 Logical Streaming
Replication Parameters; wal2json's README, "Parameters".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from walagent.errors import ConfigError
from walagent.postgres.lsn import Lsn
from walagent.postgres.quoting import quote_name, quote_text

Plugin = Literal["pgoutput", "wal2json"]
MARKER_PREFIX: Final = "walagent"
# application_name of the durable reader, and of readers of live rows
READER: Final = "walagent"
SYNC_READER: Final = "walagent sync"

_LONGEST_SILENCE: Final = 10.0  # seconds between two status updates, at most


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of one stream.  Times are in seconds."""

    slot: str
    plugin: Plugin = "pgoutput"
    publications: tuple[str, ...] = ()  # pgoutput
    tables: tuple[tuple[str, str], ...] = ()  # wal2json: (schema, table); empty means all
    prefixes: tuple[str, ...] = (MARKER_PREFIX,)  # of the logical messages to decode
    protocol: Literal[1, 2] = 1  # of pgoutput; 2 sends large transactions before they commit
    start: Lsn = Lsn(0)  # noqa: RUF009 - immutable; the checkpoint's end LSN, 0: the slot's
    status_interval: float = 10.0
    sender_timeout: float = 4.0  # wal_sender_timeout of the session: a frozen reader loses the slot
    stall_timeout: float = 20.0  # how long a full buffer can suspend reading
    application_name: str = READER

    @property
    def tick(self) -> float:
        """Seconds between status updates: three fit into the sender timeout."""
        timeout = self.sender_timeout or _LONGEST_SILENCE * 3  # 0 disables it
        return min(self.status_interval, _LONGEST_SILENCE, timeout / 3)


def start_command(options: StreamOptions) -> str:
    """Build the START_REPLICATION command.

    Raises:
        ConfigError: pgoutput was given no publication.
    """
    pairs = _wal2json(options) if options.plugin == "wal2json" else _pgoutput(options)
    words = ", ".join(f"{quote_name(name)} {quote_text(value)}" for name, value in pairs)
    slot = quote_name(options.slot)
    return f"START_REPLICATION SLOT {slot} LOGICAL {options.start} ({words})"


def _pgoutput(options: StreamOptions) -> Sequence[tuple[str, str]]:
    if not options.publications:
        raise ConfigError("pgoutput requires a publication name")
    names = ",".join(map(quote_name, options.publications))
    pairs = [("proto_version", str(options.protocol)), ("publication_names", names)]
    pairs.append(("messages", "true"))
    return [*pairs, ("streaming", "on")] if options.protocol > 1 else pairs


def _wal2json(options: StreamOptions) -> Sequence[tuple[str, str]]:
    # Format 1 writes a transaction as one document of up to 1 GB: never for a live slot.
    pairs = [("format-version", "2")]
    pairs += [
        (f"include-{what}", "true")
        for what in ("xids", "timestamp", "lsn", "types", "type-oids", "pk")
    ]
    pairs.append(("add-msg-prefixes", ",".join(map(_escape, options.prefixes))))
    if options.tables:
        tables = (f"{_escape(schema)}.{_escape(table)}" for schema, table in options.tables)
        pairs.append(("add-tables", ",".join(tables)))
    return pairs


def _escape(name: str) -> str:
    """Escape the characters that are special in wal2json's lists."""
    return "".join(f"\\{letter}" if letter in " ',.*\\" else letter for letter in name)
