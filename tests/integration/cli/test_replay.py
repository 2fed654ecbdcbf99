"""`walagent replay`: recorded changes again, and nothing is kept but the evaluation."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.helpers.commands import run_command
from tests.integration.cli.recorded import (
    AGENTS,
    add_run,
    desk,
    record,
    reply,
    result,
    sorted_as,
)
from tests.integration.cli.terminal import at_terminal
from tests.integration.cli.user import User, empty_database, until

# All that a replay could leave behind.
KEPT = """
select (select jsonb_agg(t order by id) from tickets t), (select count(*) from audit),
       (select count(*) from agent.run), (select count(*) from agent.step),
       (select count(*) from agent.attachment), (select count(*) from agent.attachment_version),
       (select count(*) from agent.agent), (select count(*) from agent.agent_version),
       (select count(*) from agent.approval), (select count(*) from agent.outbox),
       (select count(*) from agent.spend), (select count(*) from agent_internal.queue),
       (select count(*) from agent_internal.trial), (select count(*) from agent.budget),
       (select count(*) from agent_internal.merged_change)
"""


@pytest.fixture
def user(server: str, tmp_path: Path) -> Iterator[User]:
    """Somebody with an agent on tickets; the daemon does not run."""
    with empty_database(server) as dsn:
        yield desk(tmp_path, dsn)


def found(user: User, query: str) -> list[tuple[Any, ...]]:
    """What the database has."""
    with psycopg.connect(user.dsn or "") as conn:
        return conn.execute(query.encode()).fetchall()


def replayed(user: User, *options: str) -> dict[str, Any]:
    """The document of a replay."""
    return user.types("replay", "desk", "--json", *options).worked().json


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_where_nothing_changed_all_runs_agree_and_nothing_is_kept(user: User, count: int) -> None:
    """Rows, steps, approvals, messages: all is as before, but the evaluation."""
    record(user, count)
    before = found(user, KEPT)
    done = run_command(
        ["replay", "desk", "--json", "--last", str(count), "--jobs", "2"],
        folder=user.folder, environment=user.environment, patience=300,
    ).worked()  # fmt: skip
    assert found(user, KEPT) == before
    assert len(done.json["cases"]) == count
    counts = ("agreeing", "differing", "failing", "state")
    assert [done.json[name] for name in counts] == [count, 0, 0, "finished"]
    assert done.json["tokens"] == done.json["recorded_tokens"] > 0
    assert done.json["cost"] == pytest.approx(done.json["recorded_cost"])
    for case in done.json["cases"]:
        assert case["candidate"]["calls"] == case["recorded"]["calls"]
    assert found(user, "select * from agent.broken_invariant") == []


def test_what_differs_is_shown_side_by_side(user: User) -> None:
    """Which calls, with which arguments, and what they would write; the exit code is for CI."""
    for issue, category in (("refund", "billing"), ("broken", "bug"), ("refund 2", "billing")):
        sorted_as(user, issue, category)
    done = user.types("replay", "desk", "--model", "other", "--fail-under", "0.7")
    assert done.code == 1, done.err
    assert "2 agree, 1 differ" in done.out
    assert "recorded:  update_row(category=bug)" in done.out
    assert "candidate: update_row(category=hardware)" in done.out
    assert "would write: ~ public.tickets: category=hardware" in done.out
    assert "0.6667 are equal" in done.err
    user.types("replay", "desk", "--model", "other", "--fail-under", "0.66").worked()


def test_a_model_that_is_named_is_asked_without_a_cascade(user: User) -> None:
    """A model before it would answer in its place; it can be that of the cascade itself."""
    sorted_as(user, "broken", "bug")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("update agent.agent set cascade = '{other}'")
    done = replayed(user, "--model", "other")
    assert (done["model"], done["differing"]) == ("other", 1)


def test_a_cascade_is_replayed_without_a_control(user: User) -> None:
    """Its first model decides what it is sure of; what nothing came of is in no outcome."""
    for issue, category in (("refund", "billing"), ("broken", "bug"), ("refund 2", "billing")):
        sorted_as(user, issue, category)
    cascade = "update agent.agent set cascade = '{other}', cascade_control = 1"
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(cascade)
    done = replayed(user)
    assert (done["agreeing"], done["differing"]) == (2, 1)
    for case in done["cases"]:
        assert [call["tool"] for call in case["candidate"]["calls"]] == ["update_row"]


def test_rows_that_changed_since_are_written_in_a_replay(user: User) -> None:
    """An agent with `only_unchanged` would leave them: but the change is of then."""
    sorted_as(user, "refund", "billing")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("update agent.attachment set only_unchanged = true")
        conn.execute("update tickets set issue = 'changed'")
    (case,) = replayed(user)["cases"]
    assert case["agrees"]
    (change,) = case["candidate"]["changes"]
    assert (change["operation"], change["columns"]) == ("update", ["category"])


def test_a_terminal_shows_how_far_it_is(user: User) -> None:
    """A line that goes away again, beside what is printed."""
    sorted_as(user, "refund", "billing")
    sorted_as(user, "broken", "bug")
    with at_terminal(user, "replay", "desk", "--model", "other") as terminal:
        terminal.shows("replaying 2 cases")
        terminal.shows("differs")
        terminal.shows("2 of 2 cases; 1 agree, 1 differ")
        assert terminal.ends() == 0


def test_a_candidate_is_a_prompt_or_a_file(user: User) -> None:
    """Each differs from the version in use only in what it says."""
    sorted_as(user, "refund", "billing")
    (user.folder / "prompt.txt").write_text("Sort them well.\n")
    rule = {"match": "refund", "prompt": "well", "replies": ["No."]}
    own = json.loads((user.folder / "script.json").read_text())
    user.writes(json.dumps({**own, "rules": [rule, *own["rules"]]}), "script.json")
    (case,) = replayed(user, "--prompt", "prompt.txt")["cases"]
    assert (case["agrees"], case["candidate"]["result"]) == (False, "No.")
    (case,) = replayed(user)["cases"]
    assert case["agrees"]
    file = AGENTS.replace("FOLDER", str(user.folder)).replace("Sort tickets.", "As well.")
    user.writes(file, "next.yaml")
    assert not replayed(user, "--agents-file", "next.yaml")["cases"][0]["agrees"]
    user.writes(file.replace("well", "ever"), "next.yaml")
    again = replayed(user, "--agents-file", "next.yaml", "--prompt", "prompt.txt")
    assert not again["cases"][0]["agrees"]
    assert again["draft"]["system_prompt"] == "Sort them well."
    assert found(user, "select system_prompt from agent.agent") == [("Sort tickets.",)]


def test_runs_are_selected_by_state_and_by_their_recorded_row(user: User) -> None:
    """The condition sees the row as it was, and only where the row still is."""
    steps = [reply("update_row", category="x"), result("update_row", "no", is_error=True)]
    failed = add_run(user, "refund", steps, state="failed", error="no")
    first = sorted_as(user, "broken", "bug")
    gone = sorted_as(user, "gone", "bug")
    add_run(user, "never shown", [], state="failed", error="no model")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("update tickets set issue = 'changed'")
        conn.execute(
            "delete from tickets where id = (select key::bigint from agent.run where id = %s)",
            [gone],
        )
    assert [case["run_id"] for case in replayed(user)["cases"]] == [failed, first]
    assert [case["run_id"] for case in replayed(user, "--failed")["cases"]] == [failed]
    assert [case["run_id"] for case in replayed(user, "--last", "1")["cases"]] == [first]
    (case,) = replayed(user, "--where", "t.issue = 'broken'")["cases"]
    assert case["run_id"] == first
    assert "1 left out" in user.types("replay", "desk").worked().err


def test_calls_outside_the_database_are_answered_from_the_recorded_run(user: User) -> None:
    """If they are equal; another is shown, and none is made."""
    (user.folder / "outside.py").write_text(
        "from pathlib import Path\n"
        "from walagent.tools import Effect, ToolContext, tool\n\n"
        "@tool(effect=Effect.UNSAFE)\n"
        "async def notify(ctx: ToolContext, ticket_id: int, text: str) -> str:\n"
        '    """Notify somebody."""\n'
        "    Path('called').touch()\n"
        "    return 'sent'\n"
    )
    agents = AGENTS.replace("[close_ticket]", "[notify]").replace("FOLDER", str(user.folder))
    user.writes(agents + "tools: {modules: [outside]}\n")
    path = {"PYTHONPATH": f"{user.environment['PYTHONPATH']}:{user.folder}"}
    user.types("apply", **path).worked()
    steps = [
        reply("notify", text="look"),
        ("intent", {"call_id": "notify"}),
        result("notify", "42"),
    ]
    add_run(user, "refund", steps)
    asked = {"call": "notify", "arguments": {"text": "look"}}
    for text, agrees in (("look", True), ("look again", False)):
        asked["arguments"] = {"text": text}
        user.writes(json.dumps({"replies": [asked, "Done."]}), "script.json")
        done = user.types("replay", "desk", "--json", **path).worked()
        (case,) = done.json["cases"]
        assert case["agrees"] is agrees
        missed = case["candidate"]["not_called"]
        assert [each["arguments"]["text"] for each in missed] == ([] if agrees else [text])
    assert not (user.folder / "called").exists()


def test_files_and_the_web_are_those_of_the_recorded_run(user: User) -> None:
    """Built-in tools write no file, and read none."""
    agents = AGENTS.replace("[close_ticket]", "[read_file, write_file]").replace(
        "bind: {ticket_id: id}", "lets_out: [write_file]"
    )
    user.writes(
        agents.replace("FOLDER", str(user.folder)) + "files: {root: files, writable: true}\n"
    )
    (user.folder / "files").mkdir()
    (user.folder / "files" / "a.txt").write_text("now")
    user.types("apply").worked()
    written = reply("write_file", path="b.txt", text="then")
    steps = [
        reply("read_file", path="a.txt"), result("read_file", "then"),
        written, ("intent", {"call_id": "write_file"}), result("write_file", "written"),
    ]  # fmt: skip
    add_run(user, "refund", steps)
    calls = [{"call": "read_file", "arguments": {"path": "a.txt"}}]
    calls += [{"call": "write_file", "arguments": written[1]["parts"][0]["arguments"]}]
    user.writes(json.dumps({"replies": [[call] for call in calls] + ["Done."]}), "script.json")
    (case,) = replayed(user)["cases"]
    assert [call["state"] for call in case["candidate"]["calls"]] == ["done", "done"]
    assert (case["agrees"], case["candidate"]["not_called"]) == (True, [])
    assert not (user.folder / "files" / "b.txt").exists()


def test_a_call_that_waits_for_approval_is_executed_and_asks_nobody(user: User) -> None:
    """The person who approved it did so for the recorded run."""
    user.writes(
        AGENTS.replace("FOLDER", str(user.folder)).replace(
            "bind: {ticket_id: id}", "bind: {ticket_id: id}, approve: [close_ticket]"
        )
    )
    user.types("apply").worked()
    steps = [
        reply("update_row", category="other"), result("update_row", "updated"),
        reply("close_ticket"), result("close_ticket", "closed"),
    ]  # fmt: skip
    add_run(user, "hello", steps)
    (case,) = replayed(user)["cases"]
    assert (case["agrees"], case["candidate"]["state"]) == (True, "succeeded")
    assert found(user, "select count(*) from agent.approval") == [(0,)]


def test_budgets_count_a_replay_and_end_it(user: User) -> None:
    """Each call counts with what it cost; one that is not allowed breaks the evaluation off."""
    for _ in range(3):
        sorted_as(user, "refund", "billing")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(
            "insert into agent.budget (name, attachment, period, max_cost)"
            " values ('desk', 'desk', 'day', 1), ('all', null, 'day', 1)"
        )
    cost = replayed(user)["cost"]
    spent = (
        "select distinct spent_cost::float8, spent_tokens, reserved_cost"
        "  from agent_internal.budget_use"
    )
    assert found(user, spent) == [(pytest.approx(cost), 6000, 0)]
    assert found(user, "select * from agent.broken_invariant") == []
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("update agent.budget set max_cost = 0.0115 where name = 'desk'")
    refused = user.types("replay", "desk")
    assert refused.code == 1
    assert 'budget "desk"' in refused.err
    (left,) = user.types("evaluations", "list", "--limit", "1", "--json").worked().json
    assert (left["state"], left["cases"]) == ("broken_off", 0)
    assert 'budget "desk"' in left["error"]


def test_a_killed_replay_leaves_nothing_but_what_was_done(user: User) -> None:
    """The evaluation is broken off once nobody holds it; its cases stay, no reservation does."""
    for _ in range(5):
        sorted_as(user, "refund", "billing")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("insert into agent.budget (name, max_tokens) values ('all', 1000000)")
    before = found(user, KEPT)
    slow = json.loads((user.folder / "script.json").read_text())
    user.writes(json.dumps({**slow, "latency": 0.5}), "script.json")
    with (
        user.starts("replay", "desk") as replay,
        psycopg.connect(user.dsn or "", autocommit=True) as conn,
    ):
        until(
            conn,
            "select exists (select from agent.evaluation_case)"
            "   and exists (select from agent_internal.evaluation_charge)",
        )
        replay.process.kill()
        replay.process.wait(30)
        until(
            conn,
            "select count(*) = 0 from pg_stat_activity where application_name = 'walagent try'",
        )
        state = "select state from agent.evaluation_overview"
        assert conn.execute(state).fetchone() == ("running",)
        conn.execute("update agent.evaluation set held_until = now() - interval '1 second'")
        assert conn.execute(state).fetchone() == ("broken_off",)
        reserved = "select count(*) from agent_internal.budget_use where reserved_tokens > 0"
        assert conn.execute(reserved).fetchone() == (1,)
        assert conn.execute("select * from agent.broken_invariant").fetchall() == []
        conn.execute("select agent_internal.tick()")
        assert conn.execute(reserved).fetchone() == (0,)
        assert conn.execute("select * from agent.broken_invariant").fetchall() == []
    assert found(user, KEPT) == before
    assert "its process has ended" in user.types("evaluations", "show", "1").worked().out


def test_an_interrupted_replay_says_so(user: User) -> None:
    """Its cases stay, and so does what it has charged."""
    for _ in range(5):
        sorted_as(user, "refund", "billing")
    slow = json.loads((user.folder / "script.json").read_text())
    user.writes(json.dumps({**slow, "latency": 0.5}), "script.json")
    with (
        user.starts("replay", "desk", "--jobs", "2") as replay,
        psycopg.connect(user.dsn or "", autocommit=True) as conn,
    ):
        until(conn, "select count(*) >= 1 from agent.evaluation_case")
        assert replay.ends(signal.SIGINT) != 0
        assert "Traceback" not in replay.log.read_text()
        row = conn.execute("select state, error from agent.evaluation_overview").fetchone()
        assert row == ("broken_off", "interrupted")


def test_a_model_without_a_key_ends_a_replay(user: User) -> None:
    """It would fail for each case."""
    for _ in range(3):
        sorted_as(user, "refund", "billing")
    refused = {"fault": {"status": 401, "message": "no such key"}}
    user.writes(json.dumps({"replies": [refused]}), "script.json")
    assert user.types("replay", "desk").code == 3
    assert found(user, "select state, cases from agent.evaluation_overview") == [("broken_off", 0)]


def test_a_case_is_of_the_tenant_of_its_run(user: User) -> None:
    """Whose budgets count it, and whose viewers see it."""
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("select agent.create_tenant('acme')")
        conn.execute("alter table tickets add org text not null default 'acme'")
        conn.execute(
            "select agent.attach('tickets', 'name=shared, agent=desk, writes=[category],"
            " bind=[ticket_id=id], tenant=org')"
        )
        conn.execute(
            "insert into agent.budget (name, max_tokens, tenant)"
            " values ('all', 100000, 'default'), ('all', 100000, 'acme')"
        )
        run = sorted_as(user, "refund", "billing")
        conn.execute("set session_replication_role = replica")
        conn.execute(
            "with a as (select * from agent.attachment where name = 'shared'), s as ("
            "  update agent.step set tenant = 'acme' where run_id = %s)"
            " update agent.run r set tenant = 'acme', queue_id = a.id, attachment_id = a.id,"
            "        attachment_version = a.version from a where r.id = %s",
            [run, run],
        )
    (case,) = user.types("replay", "shared", "--json").worked().json["cases"]
    assert case["agrees"]
    assert found(user, "select tenant from agent.evaluation_case") == [("acme",)]
    spent = "select tenant, spent_tokens from agent_internal.budget_use order by 1"
    assert found(user, spent) == [("acme", 2000), ("default", 0)]


@pytest.mark.slow
def test_rows_are_found_by_keys_and_values_of_each_type(user: User) -> None:
    """As the WAL decoder wrote them: UUIDs, times, digits, JSON, arrays, and a role of its own."""
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(
            "create type mood as enum ('good', 'bad');"
            "create table parts (id uuid, at timestamptz, n numeric, data jsonb, plain json,"
            "  tags text[], mood mood, bytes bytea, category text, primary key (id, at, n, mood))"
        )
        conn.execute(
            "select agent.attach('parts', 'name=parts, model=script, writes=[category], on=insert')"
        )
        with user.starts("run") as daemon:
            daemon.says('"attachment.activated"', times=2)
            conn.execute(
                "insert into parts select gen_random_uuid(), now(), 1.50 + n,"
                "  jsonb_build_object('a', n, 'issue', 'refund'), '{\"b\": [1]}', '{x,y}', 'bad',"
                "  '\\xff00' from generate_series(1, 3) n"
            )
            until(conn, "select count(*) = 3 from agent.run where state = 'succeeded'")
            assert daemon.ends(signal.SIGTERM) == 0
    where = (
        "t.data ->> 'a' = '2' and t.n = 3.5 and t.plain -> 'b' ->> 0 = '1' and t.tags[2] = 'y'"
        " and t.bytes = '\\xff00' and t.mood = 'bad' and t.at <= now() and t.category is null"
    )
    done = user.types("replay", "parts", "--json").worked().json
    assert (done["agreeing"], done["differing"]) == (3, 0)
    found = user.types("replay", "parts", "--json", "--model", "other", "--where", where)
    assert len(found.worked().json["cases"]) == 1
    user.types(
        "evaluations",
        "datasets",
        "create",
        "rows",
        "parts",
        "--from",
        "table",
        "--expect",
        "category",
    )
    done = user.types("replay", "parts", "--dataset", "rows", "--json").worked().json
    assert (done["labelled"], done["are_right"]) == (3, 3)


def test_a_judge_gives_a_verdict_or_an_error_and_no_label(user: User) -> None:
    """Of the cases that differ alone."""
    sorted_as(user, "broken", "bug")
    sorted_as(user, "refund", "billing")
    sorted_as(user, "broken too", "bug")
    says = {"call": "verdict", "arguments": {"reason": "It is no hardware.", "right": "A"}}
    nonsense = {"call": "verdict", "arguments": {"reason": "Both!", "right": "perhaps"}}
    rules = [{"match": "broken too", "replies": [nonsense]}]
    user.writes(json.dumps({"rules": rules, "replies": [says]}), "judge.json")
    done = replayed(user, "--model", "other", "--judge", "judge")
    first, second, third = (case["verdict"] for case in done["cases"])
    assert (first["right"], first["reason"]) == ("recorded", "It is no hardware.")
    assert second is None
    assert third["error"] == "the judge gave no valid verdict"
    assert "right" not in third
    assert (done["labelled"], done["judge"]) == (0, "judge")
    assert [done[f"judged{word}"] for word in ("", "_better", "_worse")] == [2, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing"], 2, 'no attachment is named "nothing"'),
        (["desk"], 2, "no case"),
        (["desk", "--model", "nothing"], 2, "nothing"),
        (["desk", "--judge", "nothing"], 2, "nothing"),
        (["desk", "--judge", "vectors"], 2, "is not a language model"),
        (["desk", "--dataset", "nothing"], 2, 'dataset "nothing" does not exist'),
        (["desk", "--dataset", "x", "--failed"], 2, "--failed"),
        (["desk", "--limit", "3"], 2, "--dataset"),
        (["desk", "--dataset", "x", "--last", "3"], 2, "--limit"),
        (["desk", "--where", "nothing = 1"], 2, "nothing"),
        (["desk", "--prompt", "nowhere.txt"], 2, "nowhere.txt"),
        (["desk", "--agents-file", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["desk", "--fail-under", "95"], 2, "--fail-under"),
    ],
)
def test_what_cannot_be_replayed_is_named(
    user: User, arguments: list[str], code: int, words: str
) -> None:
    """Before a model is called, and nothing is stored."""
    if arguments[1:2] in (["--judge"], ["--where"]):
        sorted_as(user, "refund", "billing")
    user.writes(json.dumps({"replies": []}), "vectors.json")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(
            "insert into agent.model (name, provider, model_id, dimensions)"
            " values ('vectors', 'scripted', 'vectors.json', 8)"
        )
    refused = user.types("replay", *arguments)
    assert (refused.code, refused.out) == (code, ""), refused.err
    assert words in refused.err
    assert "Traceback" not in refused.err
    assert found(user, "select count(*) from agent.evaluation") == [(0,)]


def test_a_candidate_is_asked_in_a_tier_that_its_model_has(user: User) -> None:
    """The tier is a difference from the version in use, which the evaluation says."""
    sorted_as(user, "refund", "billing")
    refused = user.types("replay", "desk", "--tier", "flex")
    assert (refused.code, 'has no tier "flex"' in refused.err) == (2, True)
    assert user.types("replay", "desk", "--tier", "batch").code == 2
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("update agent.model set flex_factor = 0.5 where name = 'script'")
    done = user.types("replay", "desk", "--tier", "flex", "--json").worked().json
    assert done["draft"] == {"tier": "flex"}
