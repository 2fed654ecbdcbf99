"""What people see of batches: what a run waits for, how old a batch is, and what it came to."""

import asyncio
from pathlib import Path

from psycopg import AsyncConnection

from tests.helpers.commands import run_command
from tests.helpers.database import run_all, value
from tests.integration.runs.test_batches import desk
from walagent.store.people.listings import list_batches
from walagent.store.status import show_problems

REASON = "select error ->> 'reason' from agent.run"


async def test_a_run_says_for_which_batch_it_waits(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """First for any, then for one of a number."""
    async with desk(conn, dsn, runs=1, settings=", finish=after_call") as desk_:
        await desk_.wait(1)
        assert await value(conn, REASON) == 'waits for a batch of model "fake"'
        desk_.provider.batches.hold = True
        await desk_.turn()
        assert await value(conn, REASON) == 'waits for batch 1 of model "fake"'
        (batch,) = await list_batches(conn, 10)
        assert (batch["state"], batch["items"], batch["provider_id"]) == ("submitted", 1, "batch_0")
        words = {"why support_tickets 0": "waits for batch 1", "runs batches": "submitted"}
        for command, expected in words.items():
            ended = await asyncio.to_thread(
                run_command,
                [*command.split(), "--dsn", dsn],
                folder=tmp_path,
                environment={},
                patience=60,
            )
            assert expected in ended.worked().out


async def test_a_batch_that_takes_more_than_a_day_is_a_problem(
    conn: AsyncConnection, dsn: str
) -> None:
    """With what failed last, and what to look at; not one that has ended."""
    late = "update agent.batch set formed_at = formed_at - interval '25 hours', error = 'refused'"
    async with desk(conn, dsn, runs=1, settings=", finish=after_call") as desk_:
        await desk_.wait(1)
        desk_.provider.batches.hold = True
        await desk_.turn()
        assert [each for each in await show_problems(conn) if each["kind"] == "batch"] == []
        await run_all(conn, late)
        (problem,) = [each for each in await show_problems(conn) if each["kind"] == "batch"]
        assert problem["text"] == "Batch 1 of model fake has waited for 25 hours"
        assert "batch_0: refused" in problem["detail"]
        desk_.provider.batches.hold = False
        assert await desk_.ended() == ["succeeded"]
        assert [each for each in await show_problems(conn) if each["kind"] == "batch"] == []
