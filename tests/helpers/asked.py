"""A model that plans two statements about tickets, and an analyst role, for the page Ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection

from tests.helpers.database import run_all
from tests.helpers.desk import Desk

SCRIPT = """
rules:
  - match: Which week
    replies:
      - call: plan
        arguments: {reasoning: Two are meant., outcome: clarify, reply: "Which of the two weeks?"}
  - match: amount_of_tickets
    replies:
      - {call: answer, arguments: {text: Most tickets are how_to., caveats: []}}
replies:
  - call: plan
    arguments:
      reasoning: Count them by category.
      assumptions: [Tickets without a category are counted.]
      steps:
        - id: all
          type: SQL
          description: all tickets
          tool_input: {query: "select count(*) as tickets from ticket"}
        - id: categories
          type: SQL
          description: tickets by category
          tool_input:
            query: select category, count(*) as amount_of_tickets from ticket group by 1 order by 1
        - id: parts
          type: VERIFY
          description: the parts are the whole
          depends_on: [categories, all]
"""
MODEL = """
insert into agent.model (name, provider, model_id, base_url)
values ('asker', 'scripted', 'asker', %s)
"""


@asynccontextmanager
async def analyst(conn: AsyncConnection) -> AsyncIterator[str]:
    """A role that statements of questions run as."""
    name = f"analyst_{conn.info.dbname}"
    await run_all(conn, f"create role {name}; revoke create on schema public from public")
    yield name
    await run_all(conn, f"drop owned by {name}; drop role {name}")


async def let_ask(conn: AsyncConnection, started: Desk, role: str) -> None:
    """Register the model, and let the analyst read tickets."""
    script = started.folder / "asked.yaml"
    script.write_text(SCRIPT)
    await conn.execute(MODEL, (str(script),))
    await run_all(conn, f"grant usage on schema public to {role}; grant select on ticket to {role}")
