"""Whose rights somebody else's SQL may have: a role that can read and nothing else."""

from typing import Any

from psycopg import AsyncConnection

from walagent.errors import PreconditionError
from walagent.store.queries import query


async def check_role(conn: AsyncConnection[Any]) -> None:
    """See that the present role could write nothing, even if everything else failed.

    Raises:
        PreconditionError: it could, or may not do what the analysis needs; the hint has the mend.
    """
    rows = await (await conn.execute(query("guard_role"))).fetchall()
    if rows:
        raise PreconditionError(
            "; ".join(reason for reason, _ in rows),
            hint="\n".join(dict.fromkeys(mend for _, mend in rows)),
        )
