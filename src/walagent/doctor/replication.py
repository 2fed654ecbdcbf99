"""Check that the WAL can be read, and that slot and checkpoint agree."""

from collections.abc import Iterable, Iterator, Sequence

from psycopg.sql import Identifier

from walagent.config import Config
from walagent.config.base import in_bytes
from walagent.doctor.finding import Finding, ok, problem, warning
from walagent.errors import WalagentError
from walagent.postgres.quoting import quote_name, quote_text
from walagent.store.checkpoint import Checkpoint
from walagent.store.install.server_facts import WalKeeper
from walagent.store.people.listings import Found
from walagent.wal.publications import PublishedTable
from walagent.wal.slots import SlotState, SystemIdentity

KEEPING = 300.0  # seconds after which an open transaction is reported
_BEHIND = 100 << 20  # bytes; an active reader is rarely more than a few behind


def check_reader(
    identity: SystemIdentity | WalagentError,
    database: str,
    checkpoint: Checkpoint | None,
    login: str = "",
) -> Iterator[Finding]:
    """Check the replication connection: the server's identity, or the error of connecting.

    Args:
        login: of the replication connection; "": not known.
    """
    if isinstance(identity, WalagentError):
        named = quote_name(login) if login else "<login>"
        yield problem(f"cannot read the WAL: {identity}", identity.hint.replace("<login>", named))
    elif identity.database != database:
        yield problem(
            f'the replication DSN names database "{identity.database}", expected "{database}"',
            "Name the same database in both.",
        )
    elif checkpoint is not None and checkpoint.system_id != identity.system_id:
        yield problem(
            "the system identifier does not match the one in the checkpoint",
            "walagent wal resync",
        )
    else:
        yield ok("the replication login can read the WAL")


def check_slot(
    config: Config,
    database: str,
    slot: SlotState | None,
    checkpoint: Checkpoint | None,
    standby_slots: str | None = None,
) -> Iterator[Finding]:
    """Check the slot against the checkpoint.

    Args:
        standby_slots: synchronized_standby_slots; None if the server has no such setting.
    """
    name = config.replication.slot
    if slot is None and checkpoint is None:
        yield warning(f'slot "{name}" does not exist yet', "walagent init")
    elif slot is None:
        yield problem(
            f'slot "{name}" does not exist: what was committed since the checkpoint is lost',
            "walagent wal resync",
        )
    elif slot.database != database:
        yield problem(
            f'slot "{name}" belongs to database "{slot.database}"; all databases share slot names',
            f"replication: {{slot: {name}_{database}}}, or --slot {name}_{database}",
        )
    elif slot.wal_status == "lost" or slot.invalidated:
        yield problem(
            f'slot "{name}" is invalidated: {slot.invalidated or "its WAL was removed"}',
            "walagent wal resync",
        )
    elif slot.plugin != config.replication.plugin:
        yield problem(
            f'slot "{name}" uses plugin "{slot.plugin}", expected "{config.replication.plugin}"',
            "walagent init --new-slot; or set another slot name in the file",
        )
    elif (
        checkpoint is not None
        and slot.confirmed is not None
        and slot.confirmed > checkpoint.end_lsn
    ):
        yield problem(
            f'slot "{name}" is at {slot.confirmed}, ahead of the checkpoint at'
            f" {checkpoint.end_lsn}: another client has read from it",
            "walagent wal resync; and use a separate slot for each reader",
        )
    else:
        yield from _healthy(slot)
        yield from _failover(config, slot, standby_slots)


def check_standby(name: str, slot: SlotState | None) -> Iterator[Finding]:
    """Check a standby: whether its promotion would cause a gap."""
    if slot is None or not slot.synced:
        yield problem(
            f'this standby has no copy of slot "{name}": its promotion would cause a gap',
            "walagent: replication: {failover: true}; here: sync_replication_slots = on, with"
            " hot_standby_feedback, primary_slot_name, and a dbname in primary_conninfo",
        )
    elif slot.invalidated:
        yield problem(
            f'the copy of slot "{name}" is invalidated ({slot.invalidated}): the promotion of'
            " this standby would cause a gap",
            "it is created again when the slot on the primary is valid: walagent doctor there",
        )
    elif slot.temporary:
        yield problem(
            f'the copy of slot "{name}" is still temporary: a promotion now would cause a gap',
            "start walagent on the primary; the copy becomes permanent when the slot has advanced",
        )
    else:
        yield ok(f'slot "{name}" is synchronized: this standby can be promoted without a gap')


def _failover(config: Config, slot: SlotState, standby_slots: str | None) -> Iterator[Finding]:
    if slot.failover:
        yield ok(f'standbys can synchronize slot "{slot.name}"; run walagent doctor there, too')
    elif config.replication.failover:
        yield warning(
            f'slot "{slot.name}" is not a failover slot', "walagent run or init changes it"
        )
    if slot.failover and not standby_slots:
        yield warning(
            "synchronized_standby_slots is empty: a standby that lags when it is promoted can lack"
            " changes that were confirmed, which is a gap",
            "alter system set synchronized_standby_slots = '<the standby''s primary_slot_name>';"
            " select pg_reload_conf();",
        )


def _healthy(slot: SlotState) -> Iterator[Finding]:
    kept = f"it retains {in_bytes(slot.retained)} of WAL"
    if slot.active_pid is None:
        yield warning(f'slot "{slot.name}" is not active; {kept}', "walagent run")
    elif slot.wal_status in {"extended", "unreserved"} or slot.retained > _BEHIND:
        yield warning(f'the reader of slot "{slot.name}" is behind; {kept}')
    else:
        yield ok(f'slot "{slot.name}" is active; {kept}')


def check_keepers(keepers: Iterable[WalKeeper], slot: SlotState | None) -> Iterator[Finding]:
    """Name the transactions because of which the slot retains WAL, whatever its reader does."""
    retained = f': slot "{slot.name}" retains {in_bytes(slot.retained)} of WAL' if slot else ""
    for each in keepers:
        age = f"{each.age / 60:.0f} min"
        if each.prepared is not None:
            name = quote_text(each.prepared)
            yield warning(
                f'prepared transaction "{each.prepared}" is open for {age}{retained}',
                f"rollback prepared {name}; or commit prepared {name};"
                f" -- in database {each.database}, as {each.application}",
            )
        else:
            app = f" ({each.application})" if each.application else ""
            yield warning(
                f"the transaction of PID {each.pid}{app} is open for {age}{retained}",
                f"select pg_terminate_backend({each.pid}); -- or wait for its end",
            )


def check_publications(
    missing: Sequence[str], published: Sequence[PublishedTable], trouble: Sequence[str]
) -> Iterator[Finding]:
    """Check the publications.

    Args:
        missing: publications that do not exist.
        published: tables whose updates and deletes are published.
        trouble: unexpected changes to the publications.
    """
    if missing:
        yield problem(
            f"publication does not exist: {', '.join(missing)}; the reader cannot advance",
            "walagent wal resync, which creates it again",
        )
    elif trouble:
        yield problem(
            f"{'; '.join(trouble)}: what was committed since was not sent", "walagent wal resync"
        )
    for table in (table for table in published if not table.has_identity):
        name = Identifier(table.schema, table.name).as_string()
        yield problem(
            f"{name} has no replica identity and is published: the application's own UPDATE and "
            "DELETE fail",
            f"alter table {name} replica identity full; -- or add a primary key",
        )


def check_gaps(gaps: Sequence[Found]) -> Iterator[Finding]:
    """Report gaps that are not resolved."""
    for gap in gaps:
        yield problem(
            f"gap {gap['id']} of slot {gap['slot']}: {gap['reason']}",
            f"walagent wal resync; or: walagent wal gaps --resolve {gap['id']} --note '…'",
        )
