"""The commands by which people say whether runs were right."""

from pathlib import Path

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, rows, run_all
from tests.integration.cli.user import User
from walagent.models.script import call

SCRIPT = [
    call("update_row", category="nonsense"),
    call("update_row", category="bug"),
    "done",
]


async def test_runs_to_score_are_listed_and_scored(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With what each wrote, by agent, reason and time; a scored one is listed no more."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(conn, "writes=[category], name=desk, corrections=true")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x'), (8, 'y')")
        await d.until("select count(*) = 2 from agent_internal.last_write")
        await run_all(conn, "update support_tickets set category = 'billing' where id = 7")
        await d.caught_up()
    user = User(tmp_path, dsn)
    second, first = user.types("runs", "unscored", "--json").worked().json
    assert [(row["key"], row["reasons"], row["wrote"]) for row in (first, second)] == [
        ("7", ["corrected", "mistakes"], {"category": "bug"}),
        ("8", ["mistakes"], {"category": "bug"}),
    ]
    for options, count in {
        ("--agent", "desk"): 2,
        ("--reason", "corrected"): 1,
        ("--reason", "corrected", "--reason", "mistakes"): 2,
        ("--reason", "sample"): 0,
        ("--since", "2999-01-01"): 0,
        ("--limit", "1"): 1,
    }.items():
        found = user.types("runs", "unscored", "--json", *options).worked().json
        assert len(found) == count, options
    shown = user.types("runs", "unscored").worked().out
    assert "corrected, mistakes" in shown
    assert user.types("runs", "unscored", "--agent", "dsk").code == 2
    assert user.types("runs", "unscored", "--reason", "odd").code == 2

    run = str(first["run"])
    said = user.types("runs", "score", run, "wrong", "--comment", "It is a refund.").worked()
    assert said.err.strip() == f"run {run} is scored as wrong"
    assert await rows(conn, "select value, comment from agent.score") == [(-1, "It is a refund.")]
    (shown,) = user.types("show", run, "--json").worked().json["scores"]
    assert (shown["value"], shown["comment"]) == (-1, "It is a refund.")
    assert "scored wrong by" in user.types("show", run).worked().out
    (left,) = user.types("runs", "unscored", "--json").worked().json
    assert left["run"] == second["run"]
    scored = user.types("runs", "score", str(left["run"]), "right", "--json").worked().json
    assert scored == {"run": left["run"], "value": 1}
    assert user.types("runs", "unscored").worked().err.strip() == "no runs to score"
    (accuracy,) = user.types("agents", "accuracy", "--json").worked().json
    assert (accuracy["scored"], accuracy["wrong"], accuracy["accuracy"]) == (2, 1, 0.5)
    assert user.types("runs", "score", run, "nearly").code == 2
    unknown = user.types("runs", "score", "999", "right")
    assert "run 999 does not exist" in unknown.err
