"""The commands that list and decide; `test_screens` has what they print."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from tests.integration.cli.user import DESK, User, empty_database

SPEC = 'model=gpt-4o, system_prompt="Categorize, and resolve.", tools=[refund_user], name=desk'
EVIL = "\x1b]0;owned\x07 then [red]text[/red]"


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a support desk."""
    with psycopg.connect(dsn) as conn:
        conn.execute(DESK)
    return User(tmp_path, dsn)


@pytest.fixture
def db(user: User) -> Iterator[Connection[Any]]:
    """A hand in the database."""
    assert user.dsn is not None
    with psycopg.connect(user.dsn, autocommit=True) as conn:
        yield conn


def value(db: Connection[Any], query: str) -> object:
    """Give the first value."""
    row = db.execute(query.encode()).fetchone()
    return row and row[0]


@pytest.fixture
def run(user: User, db: Connection[Any]) -> int:
    """A run of an attached agent that has said and done something."""
    user.types("agents", "attach", "support_tickets", SPEC).worked()
    change = {
        "op": "insert", "schema": "public", "table": "support_tickets",
        "new": {"id": 1, "issue": EVIL},
    }  # fmt: skip
    given = {
        "attachment_id": value(db, "select id from agent.attachment"), "attachment_version": 1,
        "commit_lsn": "0/99", "ordinal": 0, "committed_at": "2026-01-02", "change": change,
        "key": "1", "max_attempts": 5,
    }  # fmt: skip
    db.execute("select agent_internal.insert_runs(1, %s)", [Jsonb([given])])
    steps = [
        ("reply", {"parts": [{"text": "Let me see."}, {"call": "c1", "name": "refund_user",
                   "arguments": {"amount": 5}}], "stop": "tool", "model": "gpt-4o-2024"}),
        ("result", {"call_id": "c1", "name": "refund_user", "content": "refunded",
                    "is_error": False}),
    ]  # fmt: skip
    found = value(db, "select max(id) from agent.run")
    assert isinstance(found, int)
    for seq, (kind, content) in enumerate(steps):
        db.execute(
            "insert into agent.step (run_id, seq, kind, content, input_tokens, cost)"
            " values (%s, %s, %s, %s, 10, 0.5)",
            [found, seq, kind, Jsonb(content)],
        )
    return found


def test_attach_pause_resume_and_detach(user: User, db: Connection[Any]) -> None:
    """The whole life of an attachment."""
    user.types("agents", "attach", "support_tickets", SPEC).worked()
    user.types("agents", "pause", "desk", "--reason", "holidays").worked()
    (agent,) = user.types("agents", "list", "--json").worked().json
    assert (agent["state"], agent["paused_reason"]) == ("paused", "holidays")
    user.types("agents", "resume", "desk").worked()
    assert value(db, "select paused from agent.attachment") is False
    user.types("agents", "detach", "support_tickets").worked()
    assert value(db, "select count(*) from agent.attachment") == 0


def test_detach_says_which_attachments_it_removed(user: User, db: Connection[Any]) -> None:
    """And which a table of that name still has: a name can be that of both."""
    for name in ("desk", "night", "support_tickets"):
        db.execute(
            "select agent.attach('support_tickets', %s)",
            [f"name={name}, model=gpt-4o, tools=[refund_user]"],
        )
    first = user.types("agents", "detach", "support_tickets").worked()
    assert first.err.splitlines()[0] == "detached support_tickets"
    assert "still has desk, night" in first.err
    second = user.types("agents", "detach", "public.Support_Tickets").worked()
    assert second.err.splitlines()[0] == "detached desk, night"
    assert "name it" in second.err
    refused = user.types("agents", "detach", "no such: name")
    assert refused.code == 2
    assert '"no such: name"' in refused.err


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["attach", "support_tickets", "model=gpt-4oo"], '"gpt-4o"'),
        (["attach", "support_tickets", "modell=gpt-4o"], '"modell"'),
        (["attach", "suport_tickets", "model=gpt-4o"], '"suport_tickets"'),
        (["detach", "nothing"], '"nothing"'),
        (["pause", "nothing"], '"nothing"'),
        (["show", "1"], "run 1"),
        (["retry", "1"], "run 1"),
        (["cancel", "1"], "run 1"),
        (["approve", "1"], "approval 1"),
        (["resolve", "1", "--happened"], "run 1"),
        (["gaps", "--resolve", "1", "--note", "x"], "gap 1 "),
        (["gaps", "--resolve", "1"], "--note"),
        (["runs", "--state", "lost"], "'lost'"),
    ],
)
def test_what_is_wrong_is_said_with_exit_code_2(user: User, command: list[str], said: str) -> None:
    """A sentence, and where there is one the hint; nothing on stdout, never a traceback."""
    refused = user.types(*command)
    assert refused.code == 2
    assert said in refused.err
    assert refused.out == ""
    assert "Traceback" not in refused.err


@pytest.mark.slow
def test_an_empty_list_is_said_and_is_no_error(user: User) -> None:
    """Nothing on stdout for programs to trip over; an empty list in JSON."""
    for command in (["agents"], ["runs"], ["approvals"], ["gaps"], ["check"]):
        ended = user.types(*command).worked()
        assert (ended.out, bool(ended.err)) == ("", True)
        assert user.types(*command, "--json").worked().json == []


def test_runs_are_found_by_state_and_attachment(user: User, run: int) -> None:
    """And no more of them than were asked for."""

    def found(*options: str) -> list[int]:
        return [each["id"] for each in user.types("runs", "list", "--json", *options).worked().json]

    assert found("--state", "pending", "--state", "dead") == [run]
    assert found("--state", "dead") == []
    assert found("--attachment", "desk") == [run]
    refused = user.types("runs", "list", "--attachment", "dsk")
    assert (refused.code, refused.out) == (2, "")
    assert 'Did you mean "desk"?' in refused.err
    assert found("--limit", "1") == [run]


@pytest.mark.slow
def test_runs_are_found_by_key_and_time(user: User, run: int, db: Connection[Any]) -> None:
    """The time is that of the end or, before it, of the creation."""

    def found(*options: str) -> list[int]:
        return [each["id"] for each in user.types("runs", "list", "--json", *options).worked().json]

    assert found("--key", "1") == [run]
    assert found("--key", "2") == []
    assert found("--since", "1h") == [run]
    db.execute("update agent.run set created_at = now() - interval '3 hours'")
    assert found("--since", "1h") == []
    assert found("--since", "2020-01-31 14:00") == [run]
    user.types("runs", "cancel", str(run)).worked()
    assert found("--since", "1h", "--state", "cancelled") == [run]
    wrong = user.types("runs", "list", "--since", "soon")
    assert (wrong.code, "3h" in wrong.err) == (2, True)


def test_a_row_cannot_write_to_the_terminal(user: User, run: int) -> None:
    """What a stranger wrote is shown as text, and as it is in JSON."""
    said = user.types("show", str(run)).worked().out
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "[red]text[/red]" in said
    assert user.types("show", str(run), "--json").json["change"]["new"]["issue"] == EVIL


def test_runs_that_wait_are_prioritized(user: User, run: int, db: Connection[Any]) -> None:
    """By ID, or all that the options select; one that has ended is refused."""
    priority = "select priority from agent.run"
    user.types("runs", "prioritize", str(run), "--to", "100").worked()
    assert value(db, priority) == 100
    done = user.types("runs", "prioritize", "--attachment", "desk", "--to", "-5", "--yes", "--json")
    assert done.worked().json == {"prioritized": [run]}
    assert value(db, priority) == -5
    wrong = user.types("runs", "prioritize", str(run), "--to", "2001")
    assert (wrong.code, "2000" in wrong.err) == (2, True)
    user.types("runs", "cancel", str(run)).worked()
    late = user.types("runs", "prioritize", str(run), "--to", "1")
    assert (late.code, f"run {run} is cancelled" in late.err) == (2, True)


def test_a_run_is_cancelled_and_retried(user: User, run: int, db: Connection[Any]) -> None:
    """Each decision is refused where the state does not allow it."""
    user.types("runs", "cancel", str(run), "--reason", "no need").worked()
    again = user.types("runs", "cancel", str(run))
    assert (again.code, "cancelled" in again.err) == (2, True)
    user.types("runs", "retry", str(run)).worked()
    assert value(db, "select state::text from agent.run") == "pending"


@pytest.fixture
def approval(run: int, db: Connection[Any]) -> int:
    """A call of the run that waits for a person."""
    db.execute("select * from agent_internal.claim_runs('worker', 1, '1 minute')")
    row = db.execute(
        "select agent_internal.ask_approval(%s, 1, 2, 'c2', 'refund_user', '{\"amount\": 99}',"
        " 'nobody',"
        " '1 day', 0, 0)",
        [run],
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.few(1)
@pytest.mark.parametrize(("command", "state"), [("approve", "approved"), ("reject", "rejected")])
def test_a_call_that_waits_is_decided_once(  # noqa: PLR0917 - fixtures
    user: User, approval: int, run: int, db: Connection[Any], command: str, state: str
) -> None:
    """It is listed with its arguments, told in the run's story, decided, and then gone."""
    (waiting,) = user.types("approvals", "list", "--json").worked().json
    assert (waiting["id"], waiting["arguments"]) == (approval, {"amount": 99})
    assert f"walagent approvals approve {approval}" in user.types("show", str(run)).worked().out
    user.types(command, str(approval)).worked()
    assert value(db, "select state from agent.approval") == state
    assert value(db, "select state::text from agent.run") == "pending"
    again = user.types("approvals", "approve", str(approval))
    assert again.code == 2
    assert state in again.err
    assert user.types("approvals", "list", "--json").json == []


def test_a_request_over_http_is_shown_whole(user: User, run: int, db: Connection[Any]) -> None:
    """A person approves what is sent, with the secret by its name."""
    db.execute(
        "insert into agent.tool (name, kind, target, http) values ('alert', 'http',"
        ' \'https://hooks.example/{secret:HOOK}/{level}\', \'{"body": {"text": "{text}"}}\')'
    )
    db.execute("update agent.agent set tools = '{alert}'")
    db.execute("update agent.run set attachment_version = 2")
    db.execute("select * from agent_internal.claim_runs('worker', 1, '1 minute')")
    arguments = Jsonb({"level": "a/b", "text": "on fire"})
    db.execute(
        "select agent_internal.ask_approval(%s, 1, 2, 'c2', 'alert', %s, 'nobody', '1 day', 0, 0)",
        [run, arguments],
    )
    (waiting,) = user.types("approvals", "list", "--json").worked().json
    assert waiting["request"] == "POST https://hooks.example/{secret:HOOK}/a%2Fb"


def test_an_unknown_outcome_is_resolved(user: User, run: int, db: Connection[Any]) -> None:
    """The person says what happened, and the model is told."""
    db.execute("select * from agent_internal.claim_runs('worker', 1, '1 minute')")
    intent = Jsonb({"call_id": "c9", "name": "pay"})
    db.execute("select agent_internal.record_step(%s, 1, 2, 'intent', %s)", [run, intent])
    db.execute(
        "select agent_internal.park_run(%s, 1, 'needs_review', null, true, null, 0, 0)", [run]
    )
    user.types(
        "runs", "resolve", str(run), "--did-not-happen", "--note", "the bank was down"
    ).worked()
    said = user.types("show", str(run)).worked().out
    assert "pay failed" in said
    assert "the bank was down" in said
    assert user.types("runs", "resolve", str(run)).code == 2


def test_a_gap_is_listed_until_it_is_dealt_with(user: User, db: Connection[Any]) -> None:
    """And on request afterwards, with what was done."""
    db.execute("insert into agent.gap (slot, reason, from_lsn) values ('walagent', 'lost', '0/1')")
    (gap,) = user.types("wal", "gaps", "--json").worked().json
    user.types("wal", "gaps", "--resolve", str(gap["id"]), "--note", "loaded by hand").worked()
    assert user.types("wal", "gaps", "--json").json == []
    (gap,) = user.types("wal", "gaps", "--all", "--json").json
    assert gap["resolution"] == "loaded by hand"


def test_a_broken_promise_is_an_exit_code(user: User, run: int, db: Connection[Any]) -> None:
    """So that a monitor needs to read nothing."""
    db.execute("delete from agent.step where seq = 0")
    broken = user.types("wal", "check")
    assert broken.code == 1
    assert "a step is missing" in broken.out


def test_models_show_the_name_of_their_key_and_no_more(user: User) -> None:
    """Which variable holds it, what it costs, who uses it."""
    user.types("agents", "attach", "support_tickets", SPEC).worked()
    models = {
        model["name"]: model for model in user.types("agents", "models", "--json").worked().json
    }
    assert models["gpt-4o"]["agents"] == 1
    assert models["gpt-4o"]["output_price"] > models["gpt-4o"]["input_price"] > 0


def test_a_database_that_was_never_prepared_says_so(server: str, tmp_path: Path) -> None:
    """With the command that prepares it."""
    ended = User(tmp_path, server).types("runs")
    assert ended.code == 3
    assert "walagent init" in ended.err


def test_a_key_of_another_type_is_named(user: User) -> None:
    """With the column that it belongs to."""
    user.types("agents", "attach", "support_tickets", SPEC).worked()
    wrong = user.types("why", "support_tickets", "abc")
    assert wrong.code == 2
    assert '"abc" is not a value of the primary key (id) of support_tickets' in wrong.err


def test_agents_without_attachments_are_listed_on_request(user: User, db: Connection[Any]) -> None:
    """They act on nothing."""
    user.types("agents", "attach", "support_tickets", SPEC).worked()
    db.execute("insert into agent.agent (name, model) values ('spare', 'gpt-4o')")
    found = user.types("agents")
    assert ("spare" in found.out, "--all" in found.err) == (False, True)
    listed = user.types("agents", "list", "--all", "--json").worked().json
    assert [row["agent"] for row in listed] == ["desk", "spare"]


def test_a_role_without_create_is_shown_the_grant(server: str, tmp_path: Path) -> None:
    """Not to run the command again that has just failed."""
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("drop role if exists cli_poor; create role cli_poor login")
        try:
            refused = User(tmp_path, make_conninfo(dsn, user="cli_poor")).types(
                "database", "migrate"
            )
        finally:
            conn.execute("drop role cli_poor")
    assert refused.code == 3
    assert "grant create on database " in refused.err
    assert " to cli_poor" in refused.err


TOOLS = '''
from walagent.tools import tool

@tool()
async def shout(ctx, text: str) -> str:
    """Say it louder."""
    return text.upper()
'''


def test_tools_can_stand_beside_the_file(user: User, tmp_path: Path) -> None:
    """From any working directory, without PYTHONPATH."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "shouting.py").write_text(TOOLS)
    file = folder / "agents.yaml"
    file.write_text(
        "tools: {modules: [shouting]}\n"
        "agents: {desk: {model: gpt-4o, tools: [shout], attach: [{table: support_tickets}]}}\n"
    )
    user.types("apply", "--config", str(file)).worked()
    file.write_text("tools: {modules: [whispering]}\nagents: {}\n")
    missing = user.types("apply", "--config", str(file))
    assert (missing.code, "beside agents.yaml" in missing.err) == (2, True)


def test_filters_select_the_runs_to_change(user: User, db: Connection[Any], run: int) -> None:
    """With a count and --yes; IDs and filters exclude each other, and neither changes nothing."""
    assert user.types("runs", "cancel").code == 2
    assert user.types("runs", "cancel", str(run), "--attachment", "desk").code == 2
    refusal = user.types("runs", "cancel", "--attachment", "desk", "--since", "1h")
    assert (refusal.code, "--yes" in refusal.err) == (2, True)
    state = "select state::text from agent.run"
    assert db.execute(state).fetchall() == [("pending",)]
    assert user.types("runs", "cancel", "--attachment", "other", "--yes").code == 2
    assert db.execute(state).fetchall() == [("pending",)]
    user.types("runs", "cancel", "--attachment", "desk", "--since", "1h", "--yes").worked()
    assert db.execute(state).fetchall() == [("cancelled",)]
    user.types("runs", "retry", "--state", "failed", "--yes").worked()
    assert db.execute(state).fetchall() == [("cancelled",)]
    user.types("runs", "retry", "--state", "cancelled", "--same-version", "--yes").worked()
    assert db.execute(state).fetchall() == [("pending",)]


def test_a_call_costs_under_the_model_that_answered_it(
    user: User, db: Connection[Any], run: int
) -> None:
    """Also after a retry with another model; before that was recorded, under the run's model."""
    db.execute("delete from agent.step where run_id = %s", [run])
    add = (
        "insert into agent.step (run_id, seq, kind, content, input_tokens, cost)"
        " values (%s, %s, 'reply', %s, 10, %s)"
    )
    for seq, content, cost in (
        (0, {"model": "claude-haiku-4-5-20251001", "registered": "claude-haiku-4-5"}, 0.5),
        (1, {"model": "gpt-4o-2024-08-06", "registered": "gpt-4o"}, 0.25),
        (2, {"model": "gpt-4o-2024-08-06"}, 0.125),
    ):
        db.execute(add, [run, seq, Jsonb(content), cost])
    costs = user.types("runs", "cost", "--by", "model", "--json").worked().json
    assert {row["model"]: row["cost"] for row in costs} == {
        "claude-haiku-4-5": 0.5, "gpt-4o": 0.375
    }  # fmt: skip


def test_costs_add_up(user: User, db: Connection[Any], run: int) -> None:
    """By agent, model and day; a call without a known cost is counted as such."""
    db.execute("delete from agent.step where run_id = %s", [run])
    add = (
        "insert into agent.step (run_id, seq, kind, content, input_tokens, cached_tokens,"
        " cache_write_tokens, output_tokens, cost, recorded_at) values"
        " (%s, %s, 'reply', '{}', 100, 20, 3, 10, %s, %s)"
    )
    for seq, cost, day in (
        (0, 0.5, "2026-01-02"),
        (1, 0.25, "2026-01-03"),
        (2, None, "2026-01-03"),
    ):
        db.execute(add, [run, seq, cost, f"{day} 12:00Z"])
    (total,) = user.types("runs", "cost", "--json").worked().json
    assert total == {
        "agent": "desk", "model": "gpt-4o", "runs": 1, "calls": 3, "input": 300, "cached": 60,
        "cache_write": 9, "output": 30, "cost": 0.75, "per_run": 0.75, "unknown": 1,
    }  # fmt: skip
    days = user.types("runs", "cost", "--by", "day", "--json").worked().json
    assert [(day["day"], day["calls"]) for day in days] == [("2026-01-03", 2), ("2026-01-02", 1)]
    (since,) = (
        user.types("runs", "cost", "--by", "agent", "--since", "2026-01-03T00:00Z", "--json")
        .worked()
        .json
    )
    assert (since["calls"], since["cost"]) == (2, 0.25)
    assert user.types("runs", "cost", "--since", "1h", "--json").worked().json == []
    assert "desk" in user.types("runs", "cost").worked().out
    (listed,) = user.types("runs", "list", "--json").worked().json
    assert (listed["input"], listed["cached"], listed["output"]) == (300, 60, 30)


@pytest.mark.slow
def test_what_was_changed_is_a_document(user: User, db: Connection[Any], run: int) -> None:
    """With --json: on stdout, and nothing else is printed."""

    def changed(*typed: str) -> Any:  # noqa: ANN401 - a document
        ended = user.types(*typed, "--json").worked()
        assert not ended.err
        return json.loads(ended.out)

    assert changed("agents", "pause", "desk") == {"paused": "desk"}
    assert changed("agents", "resume", "desk") == {"resumed": "desk"}
    assert changed("runs", "cancel", str(run)) == {"cancelled": [run]}
    assert changed("runs", "cancel", "--attachment", "desk") == {"cancelled": []}
    assert changed("runs", "retry", "--state", "cancelled", "--yes") == {"retried": [run]}
    assert changed("agents", "tools", "disable", "web_search") == {"disabled": "web_search"}
    added = changed("knowledge", "memories", "add", "desk", "Ann handles refunds")["id"]
    assert changed("knowledge", "memories", "forget", added) == {"deleted": [added]}
    assert changed("agents", "detach", "support_tickets") == {"detached": ["desk"], "left": []}
    refused = user.types("agents", "pause", "none", "--json")
    assert (refused.code, refused.out, 'attachment "none"' in refused.err) == (2, "", True)
    assert value(db, "select count(*) from agent.attachment") == 0
