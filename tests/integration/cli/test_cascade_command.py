"""The command that says what the models of a cascade decided."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, rows, run_all
from tests.integration.cli.terminal import at_terminal
from tests.integration.cli.user import User
from walagent.message import ModelSpec, Request
from walagent.models.script import ScriptedCall, call
from walagent.models.scripted.scripted_model import ScriptedModel

TINY = "insert into agent.model (name, provider, model_id) values ('tiny', 'scripted', 'tiny');"
SPEC = "name=desk, writes=[category], corrections=true, cascade=[tiny], cascade_control=1"


def tiny(request: Request) -> ScriptedCall:
    """Be sure where the row says so."""
    sure = "easy" in str(request.messages[0])
    return call("update_row", category="bug") if sure else call("unsure", reason="hard")


def last(request: Request) -> ScriptedCall:
    """Disagree about one row."""
    return call("update_row", category="billing" if "money" in str(request.messages[0]) else "bug")


async def decided(conn: AsyncConnection, dsn: str) -> None:
    """Three easy rows, one of which a person corrects, and a hard one."""
    await run_all(conn, DESK + TINY)
    scripts = {
        "tiny": ScriptedModel([tiny] * 9, spec=ModelSpec("tiny", "scripted", "tiny")),
        "fake": ScriptedModel(
            [last] * 9, spec=ModelSpec("fake", "scripted", "fake", input_price=1, output_price=5)
        ),
    }
    async with daemon(conn, dsn, scripts) as d:
        await attach(conn, SPEC)
        await run_all(
            conn,
            """insert into support_tickets (id, issue)
               values (1, 'easy'), (2, 'easy money'), (3, 'easy'), (4, 'hard')""",
        )
        await d.until("select count(*) = 4 from agent.run where state = 'succeeded'")
        await d.until("select count(*) = 4 from agent_internal.last_write")
        await run_all(conn, "update support_tickets set category = 'billing' where id = 2")
        await d.caught_up()


async def test_what_each_model_decided_is_counted_and_compared(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """By stage: runs, share, cost, agreement of the control, corrections; as table and as JSON."""
    await decided(conn, dsn)
    user = User(tmp_path, dsn)
    first, second = user.types("agents", "cascade", "--json").worked().json
    assert first == {
        "agent": "desk", "stage": 1, "model": "tiny", "asked": 4, "decided": 3, "share": 0.75,
        "cost": None, "controlled": 3, "agreed": 2, "agreement": pytest.approx(0.6667),
        "control_cost": pytest.approx(0.00045), "corrected": 1,
    }  # fmt: skip
    assert (second["stage"], second["model"], second["asked"], second["decided"]) == (
        2, "fake", 1, 1,
    )  # fmt: skip
    assert (second["cost"], second["controlled"], second["corrected"]) == (0.00015, 0, 0)
    assert user.types("agents", "cascade", "desk", "--since", "1h", "--json").worked().json
    none = user.types("agents", "cascade", "desk", "--since", "2099-01-01").worked()
    assert none.err.strip() == "no run of a cascade has succeeded"
    assert user.types("agents", "cascade", "desc").code == 2
    for columns in (80, 120, 200):
        with at_terminal(user, "agents", "cascade", columns=columns) as terminal:
            terminal.ends()
        assert "75.0 %" in terminal.shown
        assert "2 of 3 agree with the last model" in terminal.shown
    (run, *_) = [r["id"] for r in user.types("runs", "--json").worked().json if r["key"] == "4"]
    assert "asks fake after tiny: unsure: hard" in user.types("show", str(run)).worked().out


FILE = """
models:
  tiny: {provider: scripted}
  last: {provider: scripted}
agents:
  desk:
    model: last
    cascade: CASCADE
    attach: [{table: support_tickets, writes: [category], run_as: postgres}]
"""


async def test_a_cascade_is_the_same_in_sql_in_a_file_and_in_a_command(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """One definition; applying the file again changes nothing; a wrong one is refused whole."""
    await run_all(conn, DESK)
    user = User(tmp_path, dsn)
    user.writes(FILE.replace("CASCADE", "[embedded/e5>0.6, tiny]"))
    user.types("apply").worked()
    assert "no changes" in user.types("apply").worked().err
    spec = "model=last, name=two, writes=[category], cascade=[embedded/e5>0.6, tiny]"
    user.types("agents", "attach", "support_tickets", spec).worked()
    await run_all(
        conn,
        "select agent.attach('support_tickets', 'last', name => 'three', writes => '{category}',"
        " cascade => '{embedded/e5>0.6,tiny}')",
    )
    frozen = "select distinct definition -> 'stages', definition -> 'control' from agent.attachment"
    ((stages, control),) = await rows(conn, frozen)
    assert (stages[0]["parameters"]["threshold"], stages[1]["model"], control) == (
        0.6,
        "tiny",
        0.02,
    )

    user.writes(FILE.replace("CASCADE", "[tiny]\n    cascade_control: 2"))
    wrong = user.types("apply")
    assert wrong.code == 2
    assert "cascade_control" in wrong.err
    assert "from 0 to 1" in wrong.err
    user.writes(FILE.replace("CASCADE", "tinny"))
    wrong = user.types("apply")
    assert wrong.code != 0
    assert 'cascade: model "tinny" does not exist' in wrong.err
    assert await rows(conn, frozen) == [(stages, control)]
    user.writes(FILE.replace("CASCADE", "[tiny, tiny]"))
    assert 'cascade: model "tiny" is named twice' in user.types("apply").err
