"""A program that was written for PG Agent's library; only its import line is another one."""

import asyncio
import os

from walagent import CoordinationPattern, Supervisor


async def main() -> None:
    """Ask one question, and show what was planned and what each step gave."""
    supervisor = Supervisor(
        api_key=os.environ["EXAMPLE_KEY"],
        db_url=os.environ["EXAMPLE_DATABASE"],
        redis_url="redis://localhost:6379",
    )
    await supervisor.index_database_schema()
    state = await supervisor.orchestrate(
        session_id="session-123",
        pattern=CoordinationPattern.SEQUENTIAL,
        question="How many customers are there in each country?",
    )
    print(state.plan.reasoning)  # noqa: T201 - what the example is for
    for step in state.plan.steps:
        print(f"[{step.id}] {step.description}: {state.results.get(step.id)}")  # noqa: T201


asyncio.run(main())
