"""The page of a run: forks of it, and forking it at a step."""

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.database import rows, run_all, value
from tests.helpers.people import person
from tests.integration.console.test_page_row_changes import asked
from tests.integration.console.test_page_tables import people

STEPS = [
    ("reply", {"parts": [{"text": "So."}, {"call": "c", "name": "x", "arguments": {}}],
               "stop": "tool"}),
    ("result", {"call_id": "c", "name": "x", "content": "done", "is_error": False}),
    ("reply", {"parts": [{"text": "Done."}], "stop": "end"}),
]  # fmt: skip
PLAIN = {"prompt": "", "reply": "", "arguments": "", "newest_version": False}


@pytest.mark.parametrize(
    ("held", "changed", "status"),
    [
        (("viewer",), {}, 403),
        (("viewer", "approver"), {}, 200),
        (("viewer", "approver"), {"prompt": "Be careful."}, 403),
        (("viewer", "approver", "developer"), {"prompt": "Be careful."}, 403),  # and has no login
    ],
)
async def test_an_approver_goes_on_from_a_step(
    conn: AsyncConnection, dsn: str, held: tuple[str, ...], changed: dict[str, str], status: int
) -> None:
    """A viewer is refused, and so is who could not attach the agent and changes its prompt."""
    async with people(conn, dsn) as (served, _, _):
        run = str(await value(conn, "select min(id) from agent.run"))
        for seq, (kind, content) in enumerate(STEPS):
            await conn.execute(
                "insert into agent.step (run_id, seq, kind, content) values (%s, %s, %s, %s)",
                [run, seq, kind, Jsonb(content)],
            )
        await run_all(conn, "update agent.run set state = 'cancelled', finished_at = now()")
        someone = await person(conn, "someone", *held)
        given = {"run": run, "step": 2, **PLAIN, **changed}
        answer = await served.mutate(someone, "console.fork", **given)
        assert answer.status_code == status, answer.text
        made = await rows(conn, "select id::text from agent.run where fork_of = %s", run)
        found = await asked(served, someone, "forks", run=run)
        assert [(row["id"],) for row in found] == made
        if status == 200:
            (row,) = await asked(served, someone, "forks", run=answer.json()["result"])
            assert (row["fork_of"], row["fork_step"], row["by"]) == (run, 2, "someone")
            assert row["changed"] == []
        else:
            assert made == []
