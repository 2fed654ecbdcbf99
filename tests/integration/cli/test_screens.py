"""What the commands print about one small, fixed state, word for word."""

import asyncio
import json
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict

from tests.helpers.commands import Ended
from tests.helpers.golden import GOLDEN, check_golden, normalized
from tests.integration.cli.terminal import at_terminal
from tests.integration.cli.test_ask import ANSWER, PLAN, QUESTION, shell
from tests.integration.cli.user import DESK, User, empty_database, until

SCRIPT = {
    "usage": {"input_tokens": 900, "output_tokens": 100},
    "rules": [
        {"match": "refund", "replies": [
            ["Let me see.", {"call": "refund_user", "arguments": {"amount": 5}}], "Refunded."]},
        {"match": "nonsense", "replies": [{"fault": {"status": 400, "message": "no"}}]},
    ],
    "replies": [{"call": "update_row", "arguments": {"status": "seen"}}, "Done."],
}  # fmt: skip
AGENTS = """
models:
  script: {provider: scripted, base_url: script.json, input_price: 1, output_price: 10}
agents:
  support:
    model: script
    system_prompt: You are a support bot.
    tools: [refund_user, escalate_to_human]
    attach:
      - table: support_tickets
        when: new.customer <> 'internal'
        writes: [category, status]
        bind: {ticket_id: id}
        approve: [refund_user]
        ordering_key: []
        backfill: true
budgets:
  everything: {period: month, max_cost: 200}
  support: {agent: support, period: day, max_tokens: 2000000, on_exceeded: fail}
http: {enabled: false}
log: {format: json}
workers: {slots: 1}
"""
TICKETS = (
    ("ada", "The app is slow."),
    ("grace", "I want a refund."),
    ("linus", "nonsense"),
    ("internal", "A test."),
)
READER = "create role golden_reader login; grant select on support_tickets to golden_reader"

# For each golden file: the commands of a screen, in order.
SCREENS: dict[str, list[list[str]]] = {
    "agents": [["agents"]],
    "apply": [["apply"], ["apply", "--dry-run", "--config", "other.yaml"]],
    "approvals": [["approvals"], ["approvals", "approve", "99"]],
    "backfills": [["agents", "backfills"]],
    "budgets": [["agents", "budgets"]],
    "check": [["wal", "check"]],
    "doctor": [["doctor"]],
    "dsn": [["database", "dsn"]],
    "gaps": [
        ["wal", "gaps"],
        ["wal", "gaps", "--resolve", "1"],
        ["wal", "gaps", "--resolve", "99", "--note", "x"],
    ],
    "guard": [
        ["database", "guard", "--role", "golden_reader", "select customer from support_tickets"],
        ["database", "guard", "--role", "golden_reader", "delete from support_tickets"],
        ["database", "guard", "select 1"],
    ],
    "init": [["init"]],
    "mcp-tools": [["agents", "tools", "mcp"]],
    "migrate": [["database", "migrate", "--plan"], ["database", "migrate"]],
    "models": [["agents", "models"]],
    "run": [["run", "--check"], ["run", "--check", "--config", "wrong.yaml"]],
    "runs": [["runs"], ["runs", "list", "--state", "failed"], ["runs", "list", "--state", "dead"]],
    "show": [["show", "{ada}"], ["show", "{grace}"], ["show", "{linus}"], ["show", "999"]],
    "why": [
        ["why", "support_tickets", "{grace_id}"],
        ["why", "support_tickets", "{internal_id}"],
        ["why", "support_tickets", "999"],
        ["why", "suport_tickets", "1"],
    ],
}

# For each golden file: the commands of a screen that change something, in order.  {run} is a run.
SPEC = "model=gpt-4o, tools=[refund_user], name=desk"
DECISIONS: dict[str, list[list[str]]] = {
    "attach": [
        ["agents", "attach", "support_tickets", SPEC],
        ["agents", "attach", "support_tickets", SPEC],
        ["agents", "attach", "support_tickets", "modell=gpt-4o"],
        ["agents", "attach", "suport_tickets", SPEC],
    ],
    "pause": [["agents", "pause", "desk", "--reason", "holidays"], ["agents", "pause", "nothing"]],
    "resume": [["agents", "resume", "desk"], ["agents", "resume", "nothing"]],
    "cancel": [
        ["runs", "cancel", "{run}", "--reason", "no need"],
        ["runs", "cancel", "{run}"],
        ["runs", "cancel", "999"],
    ],
    "retry": [["runs", "retry", "{run}"], ["runs", "retry", "{run}"], ["runs", "retry", "999"]],
    "approve": [["approvals", "approve", "{approval}"], ["approvals", "approve", "{approval}"]],
    "reject": [["approvals", "reject", "{approval}"], ["approvals", "reject", "999"]],
    "resolve": [
        ["runs", "resolve", "{run}", "--happened"],
        ["runs", "resolve", "999", "--happened"],
    ],
    "drop-slot": [["wal", "drop-slot", "--yes"], ["wal", "drop-slot", "--yes"]],
    "resync": [
        ["wal", "resync", "--default", "some"],
        ["wal", "resync", "--attachment", "nothing=skip"],
        ["wal", "resync", "--default", "skip", "--yes"],
        ["wal", "resync"],
    ],
    "detach": [["agents", "detach", "support_tickets"], ["agents", "detach", "nothing"]],
}
QUESTIONS = ("ask", "chat", "index")
RUN = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key)
select 'manual', id, id, version,
       '{"op": "insert", "schema": "public", "table": "support_tickets", "new": {"id": 1}}', %s
  from agent.attachment
returning id::text
"""
CLAIM = """
select agent_internal.claim_runs('w', 10, '1 minute')
"""
ASK = """
select agent_internal.ask_approval(
    {run}, 1, 0, 'c', 'refund_user', '{{}}', 'x', '1 day', 0, 0)
"""
LOSE_RESULT = """
select agent_internal.record_step({run}, 1, 0, 'intent', '{{"call_id": "c", "name": "pay"}}');
select agent_internal.park_run({run}, 1, 'needs_review', null, true, null, 0, 0)
"""
STATES = {"cancel": "", "approve": ASK, "reject": ASK, "resolve": LOSE_RESULT}  # of a new run


@pytest.fixture(scope="module")
def database(server: str) -> Iterator[str]:
    """A database of this module's own."""
    with empty_database(server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def user(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A support desk whose agent has processed three tickets, and whose daemon has stopped."""
    folder = tmp_path_factory.mktemp("golden")
    user = User(folder, database)
    user.writes(json.dumps(SCRIPT), "script.json")
    user.writes(AGENTS)
    user.writes(AGENTS.replace("a support bot", "a desk"), "other.yaml")
    user.writes("workers: {slts: 1}\nhttp: {port: high}\n", "wrong.yaml")
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(f"{DESK}; {READER}".encode())
        conn.execute("insert into support_tickets (customer, issue) values ('old', 'Hello?')")
        user.types("init").worked()
        with user.starts("run") as daemon:
            until(conn, "select bool_and(state = 'done') from agent.backfill")
            for n, ticket in enumerate(TICKETS[:3], 2):
                conn.execute(
                    "insert into support_tickets (customer, issue) values (%s, %s)", ticket
                )
                ended = "state in ('succeeded', 'failed', 'waiting_approval')"
                until(conn, f"select count(*) = {n} from agent.run where {ended}")
            conn.execute(
                "insert into support_tickets (customer, issue) values (%s, %s)", TICKETS[3]
            )
            until(conn, "select bool_and(state = 'done') from agent.backfill")
            until(conn, "select count(*) = 2 from agent.row_change")
            assert daemon.ends(signal.SIGTERM) == 0
        conn.execute("delete from agent.model where name not in ('script', 'gpt-4o', 'o3')")
        conn.execute(
            "insert into agent.gap (slot, reason, from_lsn) values ('walagent', 'lost', '0/1')"
        )
        yield user
        conn.execute("drop owned by golden_reader; drop role golden_reader")


@pytest.fixture(scope="module")
def words(user: User, database: str) -> dict[str, str]:
    """The ids of the tickets and of their runs, by customer."""
    with psycopg.connect(database) as conn:
        runs = dict(_pairs(conn, "select change->'new'->>'customer', id::text from agent.run"))
        ids = dict(_pairs(conn, "select customer || '_id', id::text from support_tickets"))
    return {**runs, **ids}


def _pairs(conn: Connection[Any], query: str) -> list[tuple[str, str]]:
    return conn.execute(query.encode()).fetchall()


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_expected(
    name: str, user: User, words: dict[str, str], *, update_golden: bool
) -> None:
    """A changed word shows in the diff of `tests/golden`."""
    typed = [[word.format_map(words) for word in line] for line in SCREENS[name]]
    text = "\n".join(_screen(user, line) for line in typed)
    check_golden(f"screens/{name}.txt", text, update=update_golden)


@pytest.mark.slow
def test_the_screens_of_decisions_are_as_expected(
    server: str, tmp_path: Path, *, update_golden: bool
) -> None:
    """In this order: each command changes what the next one finds."""
    words, screens = {"run": "", "approval": ""}, dict[str, str]()
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(DESK)
        user = User(tmp_path, dsn)
        user.writes("replication: {slot: decisions}")
        user.types("init").worked()
        for name, typed in DECISIONS.items():
            if name in STATES:
                ((words["run"],),) = conn.execute(RUN, [name]).fetchall()
            if STATES.get(name):
                conn.execute(CLAIM)
                conn.execute(STATES[name].format_map(words).encode())
                found = conn.execute("select max(id)::text from agent.approval").fetchone()
                words["approval"] = found[0] if found and found[0] else ""
            lines = [[word.format_map(words) for word in line] for line in typed]
            screens[name] = "\n".join(_screen(user, line) for line in lines)
    for name, text in screens.items():
        check_golden(f"screens/{name}.txt", text, update=update_golden)


@pytest.mark.slow
async def test_the_screens_of_questions_are_as_expected(
    conn: AsyncConnection, dsn: str, tmp_path: Path, *, update_golden: bool
) -> None:
    """An answer with its evidence, the prompt and its help."""
    chat = "help\nsql\nhistory\nexit\n"
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER] * 3) as on:

        def typed() -> dict[str, str]:
            return {
                "ask": "\n".join(
                    _screen(on.user, ["ask", "--session", "s", QUESTION, *options])
                    for options in ([], ["--verbose"], ["--output", "xml"])
                ),
                "chat": _screen(on.user, ["chat", "--session", "s"], stdin=chat),
                "index": _screen(on.user, ["knowledge", "index"]),
            }

        screens = await asyncio.to_thread(typed)
    for name, text in screens.items():
        check_golden(f"screens/{name}.txt", text, update=update_golden)


@pytest.mark.few(3)
@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", ["agents", "budgets", "runs"])
def test_a_table_fits_the_terminal(name: str, columns: int, user: User) -> None:
    """No line is broken by the terminal, and no column is narrower than its title."""
    with at_terminal(user, name, columns=columns) as terminal:
        assert terminal.ends() == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown).splitlines()
    assert max(len(line) for line in lines if not line.startswith("note:")) <= columns


def test_no_golden_screen_is_left_of_a_command_that_is_gone() -> None:
    """Each file belongs to a screen."""
    assert {path.stem for path in (GOLDEN / "screens").iterdir()} == {
        *SCREENS,
        *DECISIONS,
        *QUESTIONS,
    }


def _screen(user: User, line: list[str], stdin: str = "") -> str:
    ended = user.types(*line, stdin=stdin)
    assert user.dsn is not None
    place = conninfo_to_dict(user.dsn)
    names = {str(place["dbname"]): "DATABASE", str(place["user"]): "postgres"}
    return f"$ walagent {shlex.join(line)}\n{normalized(_transcript(ended), names)}"


def _transcript(ended: Ended) -> str:
    """Return stdout, then stderr with a mark, then the exit code if it is not 0."""
    errors = "".join(f"! {line}\n" for line in ended.err.splitlines())
    code = f"[exit {ended.code}]\n" if ended.code else ""
    return f"{ended.out}{errors}{code}"
