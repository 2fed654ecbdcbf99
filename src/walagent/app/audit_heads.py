"""Log the heads of the audit, so that a chain that was rewritten as a whole does not match them."""

from collections.abc import Callable
from contextlib import suppress

from walagent.base.concurrency import Periodic
from walagent.errors import WalagentError
from walagent.store.errors import translating
from walagent.store.people.audit import Head, audit_heads
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log


async def log_heads(dsn: Callable[[], str], every: float) -> None:
    """Log each head that has changed, every so many seconds and when this is cancelled."""
    logged: dict[str, Head] = {}
    try:
        async for _ in Periodic(every):
            await _log_changed(dsn(), logged)
    finally:
        await _log_changed(dsn(), logged)


async def _log_changed(dsn: str, logged: dict[str, Head]) -> None:
    """Log; while the database is unavailable, the next time logs more."""
    with suppress(WalagentError), translating():
        async with await connect(dsn, application="walagent audit") as conn:
            async for head in audit_heads(conn):
                if logged.get(head.tenant) != head:
                    log.info(
                        "audit.head", tenant=head.tenant, number=head.number, digest=head.digest
                    )
                    logged[head.tenant] = head
