"""`walagent ask` and `chat` at a real terminal: keys, colours, and what strangers put into rows."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, value
from tests.integration.cli.terminal import CTRL_C, CTRL_D, CTRL_R, UP, Terminal, at_terminal
from tests.integration.cli.test_ask import ANSWER, PLAN, QUESTION, shell
from tests.integration.cli.user import PATIENCE, User
from walagent.message import Request
from walagent.models.script import Answer, ScriptedCall
from walagent.testing import Fault, call

PROMPT = "walagent> "
SAYS = "Twenty in each country."


def plan(query: str) -> ScriptedCall:
    """A plan of one statement."""
    step = {"id": "a", "type": "SQL", "description": "", "tool_input": {"query": query}}
    return call("plan", reasoning="Look.", steps=[step])


class Silence:
    """An answer that does not come; says when it was asked for."""

    def __init__(self) -> None:
        """Nobody has asked."""
        self.asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, _request: Request) -> Answer:
        """Be asked."""
        self.asked.set()
        return Fault(stall=60.0)

    def wait(self) -> None:
        """Wait, in another thread, until somebody has asked."""
        waiting = asyncio.wait_for(self.asked.wait(), PATIENCE)
        asyncio.run_coroutine_threadsafe(waiting, self._loop).result(PATIENCE)


def first_visit(on: Terminal, silence: Silence) -> int:
    """Ask, cancel, search earlier questions, and leave."""
    on.shows(PROMPT)
    on.enters(QUESTION)
    on.shows(SAYS)
    on.shows(PROMPT)
    on.enters("And who is the best of them?")
    on.shows("planning")  # it stays: an answer that comes at once can be faster than the screen
    silence.wait()
    on.types(CTRL_C)
    on.shows("cancelled")
    on.shows(PROMPT)
    on.types("half a line")
    on.shows("half a line")
    on.interrupts()
    on.shows(PROMPT)
    on.types(f"{CTRL_R}many cust")
    on.shows(QUESTION)
    on.types("\r")
    on.shows(SAYS)
    on.shows(PROMPT)
    on.enters("history EACH COUNTRY")
    on.shows(f"tuesday  {QUESTION}")
    on.shows(PROMPT)
    on.types(CTRL_D)
    return on.ends()


def second_visit(on: Terminal) -> int:
    """What was said before is still there."""
    on.shows(PROMPT)
    on.enters("sql")
    on.shows("select country, count(*)")
    on.shows(PROMPT)
    on.types(f"{UP}{UP}")
    on.shows(QUESTION)
    on.types("\r")
    on.shows(SAYS)
    on.shows(PROMPT)
    on.enters("quit")
    return on.ends()


@pytest.mark.slow
async def test_a_chat_at_a_terminal(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Ctrl-C cancels the turn, Ctrl-R finds earlier questions, Ctrl-D leaves; all is remembered."""
    silence = Silence()
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER, silence, *[PLAN, ANSWER] * 2]) as on:

        def visits(user: User) -> tuple[int, int]:
            with at_terminal(user, "chat", "--session", "tuesday") as terminal:
                first = first_visit(terminal, silence)
            with at_terminal(user, "chat", "--session", "tuesday") as terminal:
                return first, second_visit(terminal)

        assert await asyncio.to_thread(visits, on.user) == (0, 0)
        states = await column(conn, "select state::text from agent.run order by id")
        assert states == ["succeeded", "cancelled", "succeeded", "succeeded"]
        assert QUESTION in str(on.provider.received[-1].body["messages"])
    left = await asyncio.to_thread(lambda: [path.name for path in tmp_path.iterdir()])
    assert left == ["agents.yaml"], "questions are kept in the database alone"


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\x9b2J"


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "csv", "markdown", "json"])
async def test_nothing_that_strangers_wrote_commands_the_terminal(
    conn: AsyncConnection, dsn: str, tmp_path: Path, output: str
) -> None:
    """Neither values and names of columns, nor what a model says; in every form of output."""
    await conn.execute("create table hostile (t text, n integer)")
    await conn.execute("insert into hostile values (%s, 1), (%s, 2)", [HOSTILE, HOSTILE])
    query = f'select t as "{HOSTILE}", n from hostile'
    replies = [plan(query), call("answer", text=f"So {HOSTILE}.", caveats=[HOSTILE])]
    async with shell(conn, dsn, tmp_path, replies) as on:

        def looks(user: User) -> tuple[int, str]:
            with at_terminal(user, "ask", "What?", "-v", "--output", output, "--plot") as terminal:
                return terminal.ends(), terminal.shown

        code, shown = await asyncio.to_thread(looks, on.user)
    assert code == 0, shown
    assert ("\\u001b]0;owned\\u0007" if output == "json" else "\\u{1b}]0;owned\\u{7}") in shown
    bad = ("\x1b]0", "\x07", "\x1b[2J", "\u202e", "\x9b")
    assert [each for each in bad if each in shown] == []


async def test_a_table_fits_the_terminal(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Wide values are cut, and numbers never; they stand to the right."""
    wide = plan(
        "select * from (values (repeat('x', 500), 12.50, null), ('y', 1, 'z')) t (a, amount, c)"
    )
    async with shell(conn, dsn, tmp_path, [wide, ANSWER]) as on:
        lines = await asyncio.to_thread(_lines, on.user, 40)
    (row,) = (line for line in lines if "xxx…" in line)
    assert len(row) == 40
    assert row.endswith("x…   12.50  NULL")
    assert f"{'y'.ljust(26)}       1  z" in lines


@pytest.mark.slow
async def test_many_columns_stand_below_one_another(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Where they would have to be cut to nothing."""
    many = plan("select " + ", ".join(f"{n} as column_{n}" for n in range(30)))
    async with shell(conn, dsn, tmp_path, [many, ANSWER]) as on:
        lines = await asyncio.to_thread(_lines, on.user, 80)
    assert "row 1" in lines
    assert "  column_29  29" in lines


def _lines(user: User, columns: int) -> list[str]:
    """The lines of an answer at a terminal of so many columns, without colours."""
    with at_terminal(user, "ask", "What?", columns=columns) as terminal:
        assert terminal.ends() == 0, terminal.shown
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.shown)
    return [line.rstrip() for line in shown.splitlines()]


@pytest.mark.slow
async def test_a_question_is_counted_as_asked_once(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Ctrl-C ends `ask` at once, and the question with it."""
    silence = Silence()
    async with shell(conn, dsn, tmp_path, [silence]) as on:

        def cancels(user: User) -> int:
            with at_terminal(user, "ask", QUESTION) as terminal:
                silence.wait()
                terminal.types(CTRL_C)
                return terminal.ends()

        assert await asyncio.to_thread(cancels, on.user) != 0
        assert await value(conn, "select state::text from agent.run") == "cancelled"


# The chat's commands.


def visit(on: Terminal, folder: Path) -> int:
    """Ask, look at all rows, export, edit, and type statements."""
    on.shows(PROMPT)
    on.enters("HELP")
    on.shows("\\plot [FILE.png]")
    on.shows(PROMPT)
    on.enters("What is there?")
    on.shows("row 1")
    on.shows("more rows; \\all shows all")
    on.shows(PROMPT)
    on.enters("\\all")
    on.shows("column_29")
    on.shows("end of all")
    on.shows(PROMPT)
    on.enters("/csv rows.csv")
    on.shows("wrote rows.csv")
    on.shows(PROMPT)
    on.enters("\\csv rows.csv")
    on.shows('file "rows.csv" exists')
    on.shows(PROMPT)
    on.enters("\\json rows.json")
    on.shows("wrote rows.json")
    on.shows(PROMPT)
    on.enters("Select country, count(*) as n from customer group by 1 order by 1")
    on.shows("FR")
    on.shows(PROMPT)
    on.enters("\\plot")
    on.shows("█")
    on.shows(PROMPT)
    on.enters("\\edit")
    on.shows("42")
    on.shows(PROMPT)
    on.enters("RUN")
    on.shows("42")
    on.shows(PROMPT)
    on.enters("delete from customer")
    on.shows("only SELECT")
    on.shows(PROMPT)
    on.enters("Select the best of these customers")  # PostgreSQL cannot parse it: a question
    on.shows(SAYS)
    on.shows(PROMPT)
    on.enters("\\delete")
    on.shows("is empty")
    on.shows(PROMPT)
    on.enters("Quit")
    return on.ends()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
async def test_rows_are_paged_exported_plotted_and_read_again_in_a_chat(
    conn: AsyncConnection, dsn: str, tmp_path: Path, columns: int
) -> None:
    """Statements that are typed ask no model; wide rows fill one screen and no more."""
    wide = plan(
        "select "
        + ", ".join(f"n + {n} as column_{n}" for n in range(30))
        + " from generate_series(1, 100) n"
    )
    editor, pager = tmp_path / "editor", tmp_path / "pager"
    editor.write_text("#!/bin/sh\necho 'select 6 * 7' > $1\n")
    pager.write_text("#!/bin/sh\ncat\necho end of all\n")
    for script in (editor, pager):
        script.chmod(0o755)
    async with shell(conn, dsn, tmp_path, [wide, ANSWER, PLAN, ANSWER]) as on:
        tools = {"EDITOR": str(editor), "PAGER": str(pager)}
        user = replace(on.user, variables={**on.user.variables, **tools})

        def visits() -> tuple[int, str]:
            with at_terminal(user, "chat", "--session", "s", columns=columns) as terminal:
                return visit(terminal, tmp_path), terminal.shown

        code, shown = await asyncio.to_thread(visits)
        assert code == 0
        assert len(on.provider.received) == 4
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    answer = plain[plain.index("row 1") : plain.index("more rows")]
    assert len(answer.splitlines()) <= 50
    widest = max(len(line) for line in answer.splitlines())
    assert widest <= columns
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert (len(lines), lines[1].split(",")[29]) == (101, "30")
    assert json.loads((tmp_path / "rows.json").read_text())[99]["column_0"] == "100"
    assert await value(conn, "select count(*) from agent.session") == 0
    assert await value(conn, "select count(*) from customer") == 60


@pytest.mark.slow
async def test_a_chat_prints_csv_and_nothing_else(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """As `ask` does: words go to stderr."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        typed = f"{QUESTION}\nselect 1 as one\nQuit\n"
        ended = await asyncio.to_thread(on.user.types, "chat", "--output", "csv", stdin=typed)
        assert ended.worked().out == "country,n\nCH,20\nDE,20\nFR,20\none\n1\n"
        assert len(on.provider.received) == 2
