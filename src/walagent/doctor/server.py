"""Check that the server is configured for logical replication.  Pure."""

from collections.abc import Iterator

from psycopg.sql import Identifier

from walagent.config import Config
from walagent.config.base import in_bytes
from walagent.doctor.finding import Finding, ok, problem, warning
from walagent.store.install.server_facts import ServerFacts
from walagent.wal.options import READER, SYNC_READER
from walagent.wal.refusals import PLUGIN_LIST
from walagent.wal.slots import SlotState
from walagent.wal.synchronous import HINT, is_synchronous

_OLDEST = 150000  # views with security_invoker
_SKEW = 2.0  # seconds; a round trip takes far less
_NEARLY = 0.5  # of max_slot_wal_keep_size


def check_server(
    facts: ServerFacts, config: Config, slot: SlotState | None, skew: float
) -> Iterator[Finding]:
    """Check version, settings and clock.

    Args:
        skew: seconds by which the server's clock is ahead of this machine's.
    """
    version = f"PostgreSQL {facts.version // 10000}.{facts.version % 10000}"
    if facts.version < _OLDEST:
        yield problem(f"{version} is not supported", "upgrade to PostgreSQL 15 or newer")
    elif facts.in_recovery:
        yield warning(
            f"{version} is a standby; only the checks for a standby are run",
            "use the primary for walagent run: the checkpoint is written there",
        )
    else:
        yield ok(f'{version}, database "{facts.database}", role "{facts.role}"')
    if facts.wal_level == "logical":
        yield ok("wal_level is logical")
    else:
        yield problem(
            f"wal_level is {facts.wal_level}",
            "alter system set wal_level = logical; -- then restart the server",
        )
    yield from _room(facts, slot)
    yield from _plugin(facts, config)
    yield from _keeping(facts, slot)
    yield from _clock(skew)
    yield from _connections(facts, config)
    yield from _synchronous(facts)
    yield from check_messages(facts)


def check_messages(facts: ServerFacts) -> Iterator[Finding]:
    """Check who can write logical messages: the reader receives each of them, up to 1 GB."""
    role, functions = Identifier(facts.role).as_string(), facts.message_functions
    if not facts.role_may_send:
        yield problem(
            f'role "{facts.role}" cannot call pg_logical_emit_message, which marks its own writes',
            f"grant execute on function {functions} to {role}; -- as superuser",
        )
    elif facts.anyone_may_send:
        yield warning(
            "any role can call pg_logical_emit_message: the reader has to receive each message",
            f"revoke execute on function {functions} from public;"
            f" grant execute on function {functions} to {role}; -- as superuser, in this database",
        )


def _room(facts: ServerFacts, slot: SlotState | None) -> Iterator[Finding]:
    """Check that one slot and one WAL sender are free, unless walagent has its slot."""
    if slot is None and facts.slots >= facts.max_slots:
        yield problem(
            f"all {facts.max_slots} replication slots are in use",
            f"alter system set max_replication_slots = {facts.max_slots + 10}; -- then restart",
        )
    has_sender = slot is not None and slot.active_pid is not None
    if not has_sender and facts.senders >= facts.max_senders:
        yield problem(
            f"all {facts.max_senders} WAL senders are in use",
            f"alter system set max_wal_senders = {facts.max_senders + 10}; -- then restart",
        )


def _synchronous(facts: ServerFacts) -> Iterator[Finding]:
    names = facts.synchronous_names
    if any(is_synchronous(names, application) for application in (READER, SYNC_READER)):
        yield problem(
            f"synchronous_standby_names = '{names}' makes a reader of walagent a synchronous"
            " standby: it reads nothing until that changes, so that commits do not wait for it",
            HINT,
        )


def _plugin(facts: ServerFacts, config: Config) -> Iterator[Finding]:
    plugin = config.replication.plugin
    allowed = [name.strip().strip('"') for name in facts.plugin_libraries.split(",")]
    if facts.plugin_libraries and plugin not in allowed:
        yield problem(f'the server does not allow output plugin "{plugin}"', PLUGIN_LIST)
    if plugin == "wal2json":
        yield warning(
            "wal2json rounds numeric values and loses NaN and infinities",
            "replication: {plugin: pgoutput} keeps them",
        )


def _keeping(facts: ServerFacts, slot: SlotState | None) -> Iterator[Finding]:
    if facts.keep_megabytes < 0:
        yield warning(
            "max_slot_wal_keep_size is not set: an inactive slot can fill the disk with WAL",
            "alter system set max_slot_wal_keep_size = '10GB'; select pg_reload_conf();",
        )
    elif slot is not None and slot.retained > facts.keep_megabytes * 2**20 * _NEARLY:
        yield warning(
            f"the slot retains {in_bytes(slot.retained)} of WAL, the limit is "
            f"{in_bytes(facts.keep_megabytes << 20)}",
            "start a reader, or raise max_slot_wal_keep_size",
        )
    if facts.idle_timeout:
        yield warning(
            "idle_replication_slot_timeout is set: a slot without a reader is invalidated",
            "alter system reset idle_replication_slot_timeout; select pg_reload_conf();",
        )


def _clock(skew: float) -> Iterator[Finding]:
    if abs(skew) > _SKEW:
        yield warning(
            f"the server's clock is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}",
            "leases and retries use the server's clock, log lines this machine's: use NTP for both",
        )


def _connections(facts: ServerFacts, config: Config) -> Iterator[Finding]:
    wanted = config.workers.connections + 8  # reader, evaluation, status, backfill, listener, spare
    if wanted > facts.max_connections // 2:
        yield warning(
            f"one process can open {wanted} of the server's {facts.max_connections} connections",
            "lower workers.connections, or raise max_connections",
        )
