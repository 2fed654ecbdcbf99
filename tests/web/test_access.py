"""Access and audit in Chromium: people, roles and tokens, and what is recorded of them."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import column, rows, value
from tests.helpers.desk import desk
from tests.helpers.people import person

NAME = "omar_of_the_second_shift_of_the_harbour_support_desk_in_hamburg"  # 63 bytes
ROLES = "select role from agent.role_grant where principal = %s order by role"
LAST_RETRY = "select max(number)::text from agent.audit where action = 'run.retried'"
pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


async def test_an_admin_says_who_may_do_what_and_the_audit_has_it(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Roles are saved together, a token is shown once, and who may not is told what is missing."""
    async with desk(conn, dsn, tmp_path) as started:
        vera = await person(conn, "vera", "viewer")
        dead = await value(conn, "select min(id) from agent.run where state in ('failed', 'dead')")
        await conn.execute("select agent.retry(%s)", [dead])
        entry = await value(conn, LAST_RETRY)
        seen = await use("access.mjs", link=started.link, viewer=vera, name=NAME, entry=entry)
        revoked = await rows(
            conn, "select revoked_at is not null from agent.token where label like 'laptop%'"
        )
    assert seen["people"] == ["postgres", "vera"]
    assert seen["last"] == [True, 1]
    assert seen["taken"] == "Somebody has this name."
    assert "invalid e-mail address" in seen["wrong"]
    assert seen["draft"] == [
        f"{NAME} becomes approver: decides approvals, and retries, cancels and resolves runs",
        f"{NAME} becomes viewer: reads all runs, their steps and approvals",
        "vera is no longer viewer",
    ]
    assert seen["saved"] == [True, False]
    assert await column(conn, ROLES, NAME) == ["approver", "viewer"]
    assert seen["ended"] == "/sign-in"
    assert (seen["prefix"], seen["kept"], revoked) == ("wla_", False, [(True,)])
    assert seen["reader"] == [0, 1, 0]
    assert seen["auditor"][0] == "auditor"
    assert f"agent.grant_role('{NAME}', 'auditor')" in seen["auditor"][1]
    assert seen["hidden"] == 0
    assert seen["did"] == [
        "revoked token",
        "created token",
        f"created role grant {NAME} viewer",
        f"created role grant {NAME} approver",
        f"created principal {NAME}",
    ]
    assert seen["match"] == "5 match"
    assert seen["entry"][:6] == ["Entry", "When", "Who", "Login", "Did", "What"]
    assert seen["named"] == [NAME]
    assert seen["run"] == f"/runs/{dead}"
    assert "entries are as they were written" in seen["chain"]
    assert "64 hexadecimal digits" in seen["head"]
    assert "Entry 2 is not as it was written" in seen["rewritten"]
    assert (seen["axe"], seen["wide"]) == ([], [])
    assert [each for each in seen["errors"] if "40" not in each] == []
