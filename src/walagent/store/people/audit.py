"""The audit: list it, verify its hash chains, read their heads."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Head:
    """The last row of the audit of a tenant; the digest is hexadecimal."""

    tenant: str
    number: int
    digest: str

    def __str__(self) -> str:
        """Return what `walagent tenants audit verify --head` takes."""
        return f"{self.number}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Verified:
    """Whether the chain of a tenant is as it was written.

    Args:
        rows: number of rows.
        head: the last row, as NUMBER:DIGEST; None: there is no row.
        bad_row: number of the first row that is not as it was written; None: all are.
        reason: what is wrong with it.
    """

    tenant: str
    rows: int
    head: str | None
    bad_row: int | None
    reason: str | None


async def list_audit(
    conn: Connection,
    *,
    tenant: str | None = None,
    action: str | None = None,
    principal: str | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """List rows, the newest first.

    Args:
        action: a noun such as `approval`, or noun and verb.
    """
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        query("list_audit"),
        {"tenant": tenant, "action": action, "principal": principal, "limit": limit},
    )
    return await cursor.fetchall()


async def verify_audit(
    conn: Connection, *, tenant: str | None = None, head: Head | None = None
) -> list[Verified]:
    """Verify the chain of each tenant that the caller sees, in one statement.

    Args:
        tenant: only of this one.
        head: a row that the log, or an earlier verification, has named; its tenant can be empty.
    """
    cursor = conn.cursor(row_factory=class_row(Verified))
    await cursor.execute(
        query("verify_audit"),
        {
            "tenant": tenant,
            "number": head and head.number,
            "digest": head and head.digest,
        },
    )
    return await cursor.fetchall()


async def audit_heads(conn: Connection) -> AsyncIterator[Head]:
    """Yield the last row of each tenant."""
    cursor = conn.cursor(row_factory=class_row(Head))
    await cursor.execute(
        "select tenant, number, encode(digest, 'hex') as digest from agent_internal.audit_head"
        " order by tenant"
    )
    for row in await cursor.fetchall():
        yield row
