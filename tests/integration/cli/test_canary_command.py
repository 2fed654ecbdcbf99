"""The commands for canaries."""

import re
from pathlib import Path

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, run_all
from tests.integration.canary.test_canary_rules import SECOND, ran
from tests.integration.canary.test_shadow import REAL, says, sets, shadow, tickets
from tests.integration.canary.test_shadow import SECOND as SCRIPTED
from tests.integration.cli.terminal import at_terminal
from tests.integration.cli.user import User


def shown_in(user: User, columns: int, *arguments: str) -> str:
    """What a terminal of so many columns shows."""
    with at_terminal(user, *arguments, columns=columns) as terminal:
        assert terminal.ends() == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)


async def test_a_canary_is_begun_compared_changed_and_promoted(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """As text and as JSON, and in each width of a terminal."""
    await run_all(conn, DESK + SECOND)
    made = await attach(conn, "name=desk")
    user = User(tmp_path, dsn)
    canary = ("agents", "canary")
    assert "no canaries" in user.types(*canary, "list").worked().err
    rule = "failures > 2 * baseline + 0.5"
    begin = (*canary, "begin", "desk", "model=second", "--rollback-if", rule, "--min-runs", "5")
    begun = user.types(*begin, "--json").worked().json
    assert (begun["attachment"], begun["canary"]) == ("desk", 2)
    await ran(conn, made, 1, 8, failed=1)
    await ran(conn, made, 2, 4, failed=2, cost=0.02)
    baseline, other = user.types(*canary, "list", "desk", "--json").worked().json
    assert (baseline["side"], baseline["version"], baseline["ended"], baseline["failures"]) == (
        "baseline", 1, 8, 0.125,
    )  # fmt: skip
    assert (other["side"], other["version"], other["share"], other["cost"]) == (
        "canary", 2, 0.1, 0.02,
    )  # fmt: skip
    assert "0.1250" in user.types(*canary, "list").worked().out
    for width in (60, 80, 140):
        shown = shown_in(user, width, *canary, "list")
        assert "12.5 %" in shown
        assert "rolled back if failures > 2 * baseline + 0.5" in " ".join(shown.split())
        lines = [line for line in shown.splitlines() if not line.startswith("note:")]
        assert max(map(len, lines)) <= width
    assert user.types(*canary, "change", "desk").code == 2
    assert user.types(*canary, "change", "desk", "--share", "1").code == 2
    user.types(*canary, "change", "desk", "--share", "0.4").worked()
    promoted = user.types(*canary, "promote", "desk", "--json").worked().json
    assert (promoted["attachment"], promoted["version"]) == ("desk", 2)


async def test_a_canary_is_rolled_back_and_errors_name_what_is_wrong(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With the exit code of a refusal, and what to do."""
    await run_all(conn, DESK + SECOND)
    await attach(conn, "name=desk")
    user = User(tmp_path, dsn)
    canary = ("agents", "canary")
    refused = user.types(*canary, "roll-back", "desk")
    assert (refused.code, "no canary" in refused.err) == (2, True)
    refused = user.types(*canary, "begin", "desk", "model=second", "--rollback-if", "cost >> 1")
    assert (refused.code, "cost >> 1" in refused.err) == (2, True)
    user.types(*canary, "begin", "desk", "model=second").worked()
    user.types(*canary, "roll-back", "desk", "--reason", "too slow").worked()
    assert "too slow" in shown_in(user, 100, *canary, "list")
    assert "no canaries" in user.types(*canary, "list", "other").worked().err


async def test_a_shadow_is_begun_and_compared(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With what came of each change, and where the rows are that differ."""
    script = says(tmp_path, *sets("bug"), money=sets("billing"))
    await run_all(conn, DESK + SCRIPTED.format(script))
    await attach(conn, "name=desk, writes=[category]")
    user = User(tmp_path, dsn)
    canary = ("agents", "canary")
    assert user.types(*canary, "shadow", "desk").code == 2
    assert user.types(*canary, "shadow", "desk", "model=second", "--share", "1.1").code == 2
    begun = user.types(*canary, "shadow", "desk", "model=second", "--json").worked().json
    assert (begun["attachment"], begun["shadow"]) == ("desk", 2)
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "broken", "money", "broken")
        assert await shadow(dsn, 2) == 2
    baseline, other = user.types(*canary, "list", "--json").worked().json
    assert (baseline["side"], baseline["ended"], baseline["same"]) == ("baseline", 2, 0)
    assert (other["side"], other["share"]) == ("shadow", 1)
    assert [other[n] for n in ("same", "other", "failed", "waiting")] == [1, 1, 0, 1]
    for width in (60, 80, 140):
        shown = shown_in(user, width, *canary, "list")
        assert "1 same, 1 other, 0 failed, 1 waiting" in " ".join(shown.split())
        lines = [line for line in shown.splitlines() if not line.startswith("note:")]
        assert max(map(len, lines)) <= width
    shown = user.types("evaluations", "show", str(other["evaluation"])).worked().out
    assert "candidate: update_row(category=billing)" in shown
    assert "2 cases of shadow version 2; 1 agree, 1 differ" in shown
    assert "shadow version 2" in shown_in(user, 140, "agents", "list")
    user.types(*canary, "shadow", "desk", "--share", "0.5").worked()
    user.types(*canary, "change", "desk", "--share", "0.2").worked()
    (_, other) = user.types(*canary, "list", "--json").worked().json
    assert (other["side"], other["share"]) == ("canary", 0.2)
