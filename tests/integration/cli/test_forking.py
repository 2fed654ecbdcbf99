"""The command that forks a run: what it takes, refuses and prints."""

from typing import Any

from psycopg import Connection

from tests.integration.cli.test_lists import db, run, user, value
from tests.integration.cli.user import User

__all__ = ["db", "run", "user"]


def test_a_run_is_forked(user: User, db: Connection[Any], run: int) -> None:
    """From a step of a run that has ended; the page of each names the other."""
    assert "is pending" in refused(user, str(run), "--from", "0")
    user.types("runs", "cancel", str(run)).worked()
    assert "has no step 9" in refused(user, str(run), "--from", "9")
    assert "is not JSON" in refused(user, str(run), "--from", "1", "--arguments", "{")
    assert "--reply is empty" in refused(user, str(run), "--from", "0", "--reply", "")
    given = '{"ticket_id": 1, "amount": 9}'
    said = ["--reply", f'{{"calls": [{{"name": "refund_user", "arguments": {given}}}]}}']
    would = user.types("fork", str(run), "--from", "0", *said, "--dry-run").worked().out
    assert would.startswith(f"keeps no step of run {run}\n")
    assert "begins with the reply that was given" in would
    assert "differs from step 0 on: a reply of" in would
    dry = user.types("fork", str(run), "--from", "1", "--dry-run", "--json").worked().json
    assert (dry["begins"], dry["call"], dry["differs"]) == ("call", "refund_user", [])
    assert "has no step 9" in refused(user, str(run), "--from", "9", "--dry-run")
    made = user.types("fork", str(run), "--from", "0", *said, "--json").worked().json["run"]
    edited = ["--from", "1", "--arguments", given, "--prompt", "Be careful."]
    again = user.types("runs", "fork", str(run), *edited, "--json").worked().json["run"]
    assert f"forks: {made}, {again}" in user.types("show", str(run)).worked().out
    shown = user.types("show", str(again)).worked().out
    assert f"fork of: {run}" in shown
    assert f"goes on from step 1 of run {run}" in shown
    assert "prompt: Be careful." in shown
    assert "replied (kept)" in shown
    assert "in place of the model" in user.types("show", str(made)).worked().out
    assert value(db, f"select count(*) from agent.step where run_id = {made}") == 2


def refused(user: User, *arguments: str) -> str:
    """Return what is said of a fork that is refused."""
    said = user.types("fork", *arguments)
    assert said.code == 2
    return said.err
