"""Can the WAL be read, and is the slot where the checkpoint thinks it is?"""

from collections.abc import Iterator, Sequence

from psycopg.sql import Identifier

from walagent.config import Config
from walagent.config.base import in_bytes
from walagent.doctor.finding import Finding, ok, problem, warning
from walagent.errors import WalagentError
from walagent.store.checkpoint import Checkpoint
from walagent.store.listings import Found
from walagent.wal.publications import PublishedTable
from walagent.wal.slots import SlotState, SystemIdentity

_BEHIND = 100 << 20  # bytes; a reader that runs is seldom more than a few behind


def check_reader(
    identity: SystemIdentity | WalagentError, database: str, checkpoint: Checkpoint | None
) -> Iterator[Finding]:
    """Evaluator the replication connection: what answered it, or why it did not come about."""
    if isinstance(identity, WalagentError):
        yield problem(f"the WAL cannot be read: {identity}", identity.hint)
    elif identity.database != database:
        yield problem(
            f'the replication DSN leads to database "{identity.database}", not "{database}"',
            "name the same database in both",
        )
    elif checkpoint is not None and checkpoint.system_id != identity.system_id:
        yield problem(
            "this server is not the one that the checkpoint was written for",
            "walagent resync",
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
    """Evaluator the slot against the checkpoint.

    Args:
        standby_slots: synchronized_standby_slots; None where the server has no such setting.
    """
    name = config.replication.slot
    if slot is None and checkpoint is None:
        yield warning(f"there is no slot {name} yet", "walagent init")
    elif slot is None:
        yield problem(
            f"the slot {name} is gone: what was committed since is lost",
            "walagent resync",
        )
    elif slot.database != database:
        yield problem(
            f'the slot {name} is of database "{slot.database}"; names are shared by the server',
            f"replication: {{slot: {name}_{database}}}",
        )
    elif slot.wal_status == "lost" or slot.invalidated:
        yield problem(
            f"the slot {name} is invalidated: {slot.invalidated or 'its WAL was removed'}",
            "walagent resync",
        )
    elif slot.plugin != config.replication.plugin:
        yield problem(
            f"the slot {name} is of plug-in {slot.plugin}, not {config.replication.plugin}",
            "walagent init --new-slot; or name another slot in the file",
        )
    elif (
        checkpoint is not None
        and slot.confirmed is not None
        and slot.confirmed > checkpoint.end_lsn
    ):
        yield problem(
            f"the slot {name} is at {slot.confirmed}, ahead of the checkpoint at"
            f" {checkpoint.end_lsn}: somebody else has read from it",
            "walagent resync; and give every reader a slot of its own",
        )
    else:
        yield from _healthy(slot)
        yield from _failover(config, slot, standby_slots)


def check_standby(name: str, slot: SlotState | None) -> Iterator[Finding]:
    """Evaluator a standby: what its promotion would mean for us."""
    if slot is None or not slot.synced:
        yield problem(
            f"this standby has no copy of the slot {name}: its promotion would be a gap",
            "walagent: replication: {failover: true}; here: sync_replication_slots = on, with"
            " hot_standby_feedback, primary_slot_name, and a dbname in primary_conninfo",
        )
    elif slot.invalidated:
        yield problem(
            f"the copy of the slot {name} is invalidated ({slot.invalidated}): the promotion of"
            " this standby would be a gap",
            "it is made anew by itself, if the slot on the primary is well: walagent doctor there",
        )
    elif slot.temporary:
        yield problem(
            f"the copy of the slot {name} is still temporary: a promotion now would be a gap",
            "let walagent run on the primary; the copy is kept once the slot has moved",
        )
    else:
        yield ok(f"the slot {name} is synchronised: this standby can be promoted without a gap")


def _failover(config: Config, slot: SlotState, standby_slots: str | None) -> Iterator[Finding]:
    if slot.failover:
        yield ok(f"standbys may synchronise the slot {slot.name}; walagent doctor there tells more")
    elif config.replication.failover:
        yield warning(
            f"the slot {slot.name} is no failover slot yet", "walagent run or init makes it one"
        )
    if slot.failover and not standby_slots:
        yield warning(
            "synchronized_standby_slots is empty: a standby that lags when it is promoted may lack"
            " changes that it takes for done, which is a gap",
            "alter system set synchronized_standby_slots = '<the standby''s primary_slot_name>';"
            " select pg_reload_conf();",
        )


def _healthy(slot: SlotState) -> Iterator[Finding]:
    kept = f"{in_bytes(slot.retained)} of WAL are kept for it"
    if slot.active_pid is None:
        yield warning(f"nobody reads the slot {slot.name}; {kept}", "walagent run")
    elif slot.wal_status in {"extended", "unreserved"} or slot.retained > _BEHIND:
        yield warning(f"the reader of the slot {slot.name} is behind; {kept}")
    else:
        yield ok(f"the slot {slot.name} is being read; {kept}")


def check_publications(
    missing: Sequence[str], published: Sequence[PublishedTable], trouble: Sequence[str]
) -> Iterator[Finding]:
    """Evaluator the publications.

    Args:
        missing: those that should be there and are not.
        published: tables of which updates and deletes are published.
        trouble: what has become of them behind our back.
    """
    if missing:
        yield problem(
            f"there is no publication {', '.join(missing)}: a slot that reads on is stuck",
            "walagent resync, which makes it again",
        )
    elif trouble:
        yield problem(
            f"{'; '.join(trouble)}: what was committed since was not sent", "walagent resync"
        )
    for table in (table for table in published if not table.has_identity):
        name = Identifier(table.schema, table.name).as_string()
        yield problem(
            f"{name} has no replica identity and is published: the application's own UPDATE and "
            "DELETE fail now",
            f"alter table {name} replica identity full; -- or add a primary key",
        )


def check_gaps(gaps: Sequence[Found]) -> Iterator[Finding]:
    """Evaluator stretches that were lost and that nobody has dealt with."""
    for gap in gaps:
        yield problem(
            f"gap {gap['id']} of slot {gap['slot']}: {gap['reason']}",
            f"walagent resync; or: walagent gaps --resolve {gap['id']} --note '…'",
        )
