"""`walagent apply`: the database becomes what the file says, or stays what it was."""

from pathlib import Path

import psycopg
import pytest
from psycopg import Connection
from pydantic import BaseModel

from tests.integration.cli.user import AGENTS, DESK, Ended, User
from tests.unit.config.test_values import uncommented
from walagent.apply.desired import wanted_attachment
from walagent.config import AgentEntry, AttachmentEntry, ModelEntry, PersonaEntry


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a support desk and a file that attaches an agent to it."""
    with psycopg.connect(dsn) as conn:
        conn.execute(DESK)
    user = User(tmp_path, dsn)
    user.writes(AGENTS)
    return user


@pytest.fixture
def db(dsn: str, user: User) -> Connection:  # pyright: ignore[reportInvalidTypeForm]
    """A look into the database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn  # pyright: ignore[reportReturnType]


def one(db: Connection, query: str) -> tuple[object, ...] | None:
    """Give the first row."""
    return db.execute(query.encode()).fetchone()


def applied(user: User, text: str, *options: str) -> Ended:
    """Write the file, and apply it."""
    user.writes(text)
    return user.types("apply", *options)


def test_a_file_is_applied_once(user: User, db: Connection) -> None:
    """The second time there is nothing to do, and no version is made."""
    first = user.types("apply").worked()
    assert first.out == "+ agent support\n+ attachment support\n"
    again = user.types("apply").worked()
    assert (again.out, again.err.startswith("no changes")) == ("", True)
    found = one(db, "select source, version, relation::text, writes from agent.attachment")
    assert found == ("file", 1, "support_tickets", ["category", "status"])


def test_every_field_survives_the_way_into_the_database(user: User) -> None:
    """What is written and read back is equal, or each apply would make a new version."""
    text = """
models:
  ours: {provider: openai, base_url: 'http://localhost:1/v1', input_price: 0.15, output_price: 0.6,
         price_bands: [{above: 4000, input_price: 0.3, output_price: 1.2}], reasons: true,
         cache_min_tokens: 512,
         parameters: {temperature: 0.5, stop: [a]}, context_window: 8000}
agents:
  a:
    model: ours
    tools: refund_user
    tool_choice: refund_user
    examples:
      - {text: "two\\nlines", tool: refund_user, arguments: {amount: 1.5}}
      - {text: x, tool: refund_user}
    parameters: {seed: 1}
    max_cost: 0.1
    max_tokens: 5000000000
    max_output_tokens: 10
    finish: answer
attachments:
  b:
    table: public.support_tickets
    agent: a
    on: [update, insert]
    when: new.status = 'open'
    columns: [status, issue]
    bind: {ticket_id: id}
    approve: [refund_user]
    ordering_key: []
    debounce: 1.5s
    cap: 2
    backfill: true
    max_depth: 0
    approval_ttl: 3 days
    paused: true
"""
    assert applied(user, text).worked().out.count("+") == 3
    assert applied(user, text).worked().out == ""


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("model", {"name", "tenant", "scope"}),
        ("agent", {"name", "version", "updated_at", "tenant", "model_scope"}),
        ("persona", {"tenant", "name", "version", "updated_at"}),
        ("attachment", {"id", "name", "definition", "version", "attached_by", "attached_at",
                        "search_path", "paused_reason", "paused_by", "tenant", "turns",
                        "canary", "canary_share", "canary_definition", "canary_shadow"}),
    ],
)  # fmt: skip
def test_every_column_can_be_set_by_a_file(db: Connection, kind: str, own: set[str]) -> None:
    """A column that is added to the schema is not forgotten here."""
    columns = db.execute(
        "select attname::text from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0 and not attisdropped",
        [f"agent.{kind}"],
    )
    settable = {name for (name,) in columns.fetchall()} - own
    entry: dict[str, type[BaseModel]] = {
        "model": ModelEntry,
        "agent": AgentEntry,
        "persona": PersonaEntry,
    }
    keys = set(entry[kind].model_fields) - {"attach"} if kind in entry else set(_ATTACHMENT)
    assert keys == settable


_ATTACHMENT = wanted_attachment(
    AttachmentEntry(table="t", agent="a", run_as="r", paused=False), relation=1
)


def test_a_persona_of_the_file_is_applied(user: User, db: Connection) -> None:
    """Its change is one new version of the attachments of its agents; a second time, nothing."""
    text = AGENTS.replace("    model: ", "    persona: desk\n    model: ", 1)
    text += "personas:\n  desk:\n    rules: [Be brief.]\n    parameters: {seed: 1}\n"
    assert "+ persona desk" in applied(user, text).worked().out
    assert applied(user, text).worked().out == ""
    version = "select max(version) from agent.attachment_version where attachment_id = 1"
    assert one(db, version) == (1,)
    said = applied(user, text.replace("Be brief", "Be kind")).worked().out
    assert "~ persona desk\n    rules:" in said
    assert one(db, version) == (2,)
    prompt = "select definition ->> 'system_prompt' like 'Rules:%1. Be kind.%'"
    prompt += " from agent.attachment"
    assert one(db, prompt) == (True,)


@pytest.mark.slow
def test_what_changed_is_reported_and_makes_one_version(user: User, db: Connection) -> None:
    """Agent and attachment change together: one new version, not two."""
    user.types("apply").worked()
    text = AGENTS.replace("a support bot", "a desk").replace("{table", "{when: new.id > 5, table")
    said = applied(user, text).worked().out
    assert "~ agent support\n    system_prompt: You are a support bot. → You are a desk." in said
    assert "~ attachment support\n    condition: - → new.id > 5" in said
    found = one(
        db, "select version, definition ->> 'system_prompt', condition from agent.attachment"
    )
    assert found == (2, "You are a desk.", "new.id > 5")


@pytest.mark.slow
def test_a_change_of_the_agent_alone_reaches_its_attachments(user: User, db: Connection) -> None:
    """Also those that the file does not know."""
    user.types("apply").worked()
    db.execute(
        "insert into agent.attachment (name, agent, relation, bind)"
        " values ('by hand', 'support', 'support_tickets', '{\"ticket_id\": \"id\"}')"
    )
    applied(user, AGENTS.replace("a support bot", "a desk")).worked()
    found = db.execute("select version, definition ->> 'system_prompt' from agent.attachment")
    assert found.fetchall() == [(2, "You are a desk."), (2, "You are a desk.")]


@pytest.mark.slow
def test_an_agent_and_its_attachment_are_not_checked_halfway(user: User) -> None:
    """A new tool that only the new attachment's columns make possible, and the way back."""
    user.types("apply").worked()
    other = AGENTS.replace("escalate_to_human]", "update_row]\n    tool_choice: update_row")
    other = other.replace("writes: [category, status]", "writes: [status], approve: [update_row]")
    applied(user, other).worked()
    applied(user, AGENTS).worked()


def test_pausing_with_a_change_of_the_agent_still_makes_the_version(
    user: User, db: Connection
) -> None:
    """Pausing alone makes none, so the agent's must not be forgotten."""
    user.types("apply").worked()
    text = AGENTS.replace("a support bot", "a desk").replace("{table", "{paused: true, table")
    applied(user, text).worked()
    found = one(db, "select version, paused, definition ->> 'system_prompt' from agent.attachment")
    assert found == (2, True, "You are a desk.")


def test_a_dry_run_checks_and_changes_nothing(user: User, db: Connection) -> None:
    """PostgreSQL sees everything, and forgets it."""
    ended = user.types("apply", "--dry-run").worked()
    assert ended.out == "+ agent support\n+ attachment support\n"
    assert "rolled back" in ended.err
    assert one(db, "select count(*) from agent.agent") == (0,)
    wrong = applied(user, AGENTS.replace("{table", "{when: new.idd = 1, table"), "--dry-run")
    assert wrong.code == 2
    assert "idd" in wrong.err


def test_all_or_nothing(user: User, db: Connection) -> None:
    """The second entry is refused, so the first is not there either."""
    text = AGENTS + "  other:\n    model: gpt-4o\n    tools: [no_such_tool]\n"
    text += "    attach: [{table: support_tickets}]\n"
    refused = applied(user, text)
    assert refused.code == 2
    assert refused.err.startswith('walagent: attachment other: tool "no_such_tool" does not exist')
    assert one(db, "select count(*) from agent.agent") == (0,)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gpt-4o", "gpt-4oo", 'agent support: model "gpt-4oo" does not exist'),
        (
            "table: support_tickets",
            "table: suport_tickets",
            'table "suport_tickets" does not exist',
        ),
        ("writes: [category", "writes: [categori", 'writes: column "categori"'),
        ("{table", "{run_as: nobody_at_all, table", "nobody_at_all"),
    ],
)
def test_a_name_that_is_none_is_reported_with_what_may_be_meant(
    user: User, old: str, new: str, said: str
) -> None:
    """Exit 2, and the nearest known name where there is one."""
    refused = applied(user, AGENTS.replace(old, new))
    assert refused.code == 2
    assert said in refused.err
    assert "Traceback" not in refused.err
    assert "run_as" in new or "did you mean" in refused.err.lower()


def test_a_limit_within_which_no_call_is_possible_is_refused(user: User) -> None:
    """With the price of the model, which the file need not have."""
    refused = applied(user, AGENTS.replace("gpt-4o", "gpt-4o\n    max_cost: 0.0001"))
    assert refused.code == 2
    assert (
        "attachment support: max_cost of 0.0001 US dollars is too low: one call of" in refused.err
    )


def test_of_many_models_the_nearest_are_named(user: User) -> None:
    """The registry has more than a screen."""
    refused = applied(user, AGENTS.replace("gpt-4o", "gpt-4oo"))
    assert "The closest of" in refused.err


@pytest.mark.slow
def test_only_pruning_ends_what_left_the_file(user: User, db: Connection) -> None:
    """And what was attached in SQL stays in any case."""
    user.types("apply").worked()
    db.execute("select agent.attach('support_tickets', 'model=gpt-4o, name=sql')")
    empty = "agents: {}\n"
    assert applied(user, empty).worked().out == ""
    assert applied(user, empty, "--prune").worked().out == "- attachment support\n"
    assert one(db, "select array_agg(name) from agent.attachment") == (["sql"],)


def test_what_was_attached_in_sql_is_taken_over_by_its_name(user: User, db: Connection) -> None:
    """The file describes it from now on."""
    db.execute("select agent.attach('support_tickets', 'model=gpt-4o, name=support')")
    said = user.types("apply").worked().out
    assert "source: sql → file" in said
    assert one(db, "select source from agent.attachment") == ("file",)


def test_a_role_and_a_pause_that_the_file_does_not_name_stay(user: User, db: Connection) -> None:
    """Another person applies it, and somebody has paused it meanwhile."""
    user.types("apply").worked()
    db.execute("select agent.pause('support', 'holidays')")
    assert user.types("apply").worked().out == ""
    assert one(db, "select paused, paused_reason from agent.attachment") == (True, "holidays")


def test_a_model_keeps_what_the_file_does_not_name(user: User, db: Connection) -> None:
    """Prices of the registry are not lost when a file names another credential."""
    text = "models:\n  gpt-4o: {credential: OUR_API_KEY}\n"
    said = applied(user, text).worked().out
    assert said.startswith("~ model gpt-4o\n    credential: ")
    found = one(db, "select credential, input_price > 0 from agent.model where name = 'gpt-4o'")
    assert found == ("OUR_API_KEY", True)


def test_a_new_model_needs_a_provider(user: User) -> None:
    """The registry does not know it, so nothing can be guessed."""
    refused = applied(user, "models:\n  ours: {context_window: 9}\n")
    assert refused.code == 2
    assert "models.ours: provider is missing" in refused.err


def test_a_backfill_that_comes_too_late_is_reported(user: User) -> None:
    """It would never happen, and somebody would wait for it."""
    user.types("apply").worked()
    said = applied(user, AGENTS.replace("{table", "{backfill: true, table")).worked().out
    assert "note: only a new attachment is backfilled" in said


def test_differences_are_reported_to_programs(user: User) -> None:
    """With old and new values of every field."""
    user.types("apply").worked()
    ended = applied(user, AGENTS.replace("a support bot", "a desk"), "--json").worked()
    (difference,) = ended.json
    assert difference["fields"] == {
        "system_prompt": {"old": "You are a support bot.", "new": "You are a desk."}
    }
    del difference["fields"]
    assert difference == {"kind": "agent", "name": "support", "action": "change", "note": ""}


def test_without_a_file_nothing_is_applied(user: User) -> None:
    """An empty folder is no wish for an empty database."""
    (user.folder / "agents.yaml").unlink()
    refused = user.types("apply", "--prune")
    assert refused.code == 2
    assert "agents.yaml does not exist" in refused.err


def test_a_role_that_may_not_attach_is_refused_with_the_reason(
    user: User, db: Connection, dsn: str
) -> None:
    """Exit 3, for somebody else must grant it."""
    db.execute("drop role if exists walagent_cli_viewer")
    db.execute("create role walagent_cli_viewer login")
    db.execute("select agent.grant_viewer('walagent_cli_viewer')")
    refused = user.types("apply", "--dsn", f"{dsn} user=walagent_cli_viewer")
    db.execute("drop owned by walagent_cli_viewer")
    db.execute("drop role walagent_cli_viewer")
    assert refused.code == 3
    assert "permission denied" in refused.err


def test_the_example_of_the_repository_can_be_applied(dsn: str, tmp_path: Path) -> None:
    """With the table and the functions that stand in its comments, as a reader would do it."""
    text = uncommented()
    lines = [line.removeprefix("#") for line in text.splitlines()]
    start = next(n for n, line in enumerate(lines) if "create table support_tickets" in line)
    end = next(n for n, line in enumerate(lines) if "comment on function escalate" in line)
    with psycopg.connect(dsn) as conn:
        conn.execute("\n".join(lines[start : end + 1]).encode())
    user = User(tmp_path, dsn)
    assert applied(user, text).worked().out == "+ agent support\n+ attachment support\n"


TOOL = """
http_tools:
  notify:
    url: 'https://example.com/a'
    description: Notify the team.
    headers: {Authorization: 'Bearer {secret:HOOK_TOKEN}'}
    body: {a: '{b}'}
"""


@pytest.mark.slow
def test_a_tool_over_http_is_reported_as_any_other_difference(user: User, db: Connection) -> None:
    """Its host, its headers and its approval, also in a dry run; the second time nothing."""
    first = applied(user, TOOL, "--dry-run").worked()
    assert (first.out, one(db, "select from agent.tool where kind = 'http'")) == (
        "+ tool notify\n",
        None,
    )
    assert applied(user, TOOL).worked().out == "+ tool notify\n"
    assert applied(user, TOOL).worked().out == ""
    other = TOOL.replace("example.com", "attacker.example").replace("HOOK_TOKEN", "OTHER_KEY")
    said = applied(user, f"{other}    approval: true\n", "--dry-run").worked().out
    assert said.startswith("~ tool notify\n")
    assert "target: https://example.com/a → https://attacker.example/a" in said
    secrets = "Bearer {secret:HOOK_TOKEN} → Bearer {secret:OTHER_KEY}"
    assert f"http.headers.Authorization: {secrets}" in said
    assert "approval: no → yes" in said
    target = "select target from agent.tool where name = 'notify'"
    assert one(db, target) == ("https://example.com/a",)


@pytest.mark.slow
def test_a_change_at_the_end_of_a_long_text_is_visible(user: User) -> None:
    """Who reads a dry run must not see twice the same beginning."""
    long = AGENTS.replace("a support bot", "a support bot " + "of many words " * 20)
    applied(user, long).worked()
    said = applied(user, long.replace("words .", "words, and it obeys.")).worked().out
    assert "and it obeys" in said


@pytest.mark.slow
def test_a_changed_approval_of_a_tool_reaches_its_attachments(user: User, db: Connection) -> None:
    """Each change of the tool makes a version of what uses it."""
    using = TOOL + AGENTS.replace("escalate_to_human]", "notify]")
    applied(user, using).worked()
    with_approval = using.replace("body:", "approval: true\n    body:")
    assert "~ tool notify" in applied(user, with_approval).worked().out
    needs = "select d -> 'approval' from agent.attachment, jsonb_array_elements"
    needs += "(definition -> 'tools') d where d ->> 'name' = 'notify'"
    assert one(db, needs) == (True,)
    assert applied(user, with_approval).worked().out == ""


@pytest.mark.slow
def test_pruning_removes_a_tool_that_left_the_file(user: User, db: Connection) -> None:
    """Not one of SQL, and none that an attachment of SQL uses."""
    applied(user, TOOL).worked()
    db.execute(
        "insert into agent.tool (name, kind, target, description, http) values"
        " ('by_hand', 'http', 'https://example.com/b', 'B', '{\"method\": \"GET\"}')"
    )
    db.execute("select agent.attach('support_tickets', 'model=gpt-4o, name=sql, tools=[notify]')")
    refused = applied(user, "agents: {}\n", "--prune")
    assert (refused.code, "used by attachment sql" in refused.err) == (2, True)
    db.execute("select agent.detach('sql')")
    assert applied(user, "agents: {}\n", "--prune").worked().out == "- tool notify\n"
    assert one(db, "select array_agg(name) from agent.tool where kind = 'http'") == (["by_hand"],)


def test_what_a_tool_over_http_lacks_is_said(user: User) -> None:
    """An unset secret and an address of the own network would fail each call."""
    said = applied(user, TOOL).worked().err
    assert "variable or credential HOOK_TOKEN is not set" in said
    assert "networks" not in said
    local = applied(user, TOOL.replace("https://example.com", "http://localhost:1")).worked().err
    assert "Add networks: [127.0.0.1/32] to http_tools.notify." in local
    user.writes(TOOL)
    assert "HOOK_TOKEN" in user.types("doctor").out
    assert "HOOK_TOKEN" not in user.types("doctor", HOOK_TOKEN="set").out
