"""The example that is shipped, taken up as it asks its reader to, and run."""

from dataclasses import replace
from pathlib import Path

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import rows, run_all, value
from walagent.apply.apply import apply
from walagent.config.environment import Environment
from walagent.config.loading import parse_text
from walagent.message import Usage
from walagent.models import build_model
from walagent.store.attachments import load_models
from walagent.testing import FakeProvider, call

EXAMPLE = Path(__file__).parent.parent.parent.parent / "config" / "agents.yaml"
REPLIES = [
    call("update_row", category="billing"),
    call("escalate_to_human", reason="It is about money."),
    "A person will look at it.",
]


async def test_the_example_works_when_it_is_uncommented(conn: AsyncConnection, dsn: str) -> None:
    """With the prices of its model, and within its max_cost of ten cents."""
    head, _, tail = EXAMPLE.read_text().partition("# agents:\n")
    agents = "\n".join(line.removeprefix("# ") for line in ("# agents:\n" + tail).splitlines())
    await run_all(conn, ddl(head))
    await apply(conn, parse_text(head + agents, "agents.yaml", Environment({})))
    usage = Usage(1_500, output_tokens=60)
    async with FakeProvider(REPLIES, usage=usage) as provider:
        spec = (await load_models(conn))["gpt-4o"]
        here = provider.spec("openai", "gpt-4o")
        spec = replace(spec, base_url=here.base_url, credential=here.credential)
        model = build_model(spec, environ=provider.environ)
        async with daemon(conn, dsn, {"gpt-4o": model}) as d:  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]
            await run_all(
                conn, "insert into support_tickets (customer, issue) values ('a', 'charged twice')"
            )
            await d.ended()
        await model.aclose()
        limits = [each.request.max_tokens for each in provider.received if each.request]
    assert await rows(conn, "select state::text, error from agent.run") == [("succeeded", None)]
    assert limits == [4_096] * 3
    assert await value(conn, "select category || ' ' || status from support_tickets") == (
        "billing escalated"
    )
    assert 0 < await value(conn, "select cost::float8 from agent.run") < 0.1


def ddl(head: str) -> str:
    """Take the statements out of the comments."""
    _, _, text = head.rpartition("#   create table support_tickets")
    lines = ("#   create table support_tickets" + text).splitlines()
    return "\n".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
