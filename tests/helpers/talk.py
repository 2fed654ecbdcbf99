"""A thread of people and an agent beside the support desk, for browsers."""

from dataclasses import dataclass

from psycopg import AsyncConnection

from tests.helpers.database import run_all, until
from tests.helpers.desk import Desk
from tests.helpers.people import person

LONG = "Good morning, everybody. " + "There is a lot to tell. " * 60  # half a minute of words
SCRIPT = f"""
latency: 1
pace: 0.1
usage: {{input_tokens: 1612, output_tokens: 134}}
rules:
  - match: refund
    replies:
      - - Anna asks for it.
        - {{call: refund_customer, arguments: {{ticket_id: 2, amount: 12.50}}}}
      - The payment is on its way back.
  - match: remember
    replies:
      - {{call: note, arguments: {{about: anna, what: tea}}}}
      - I have noted it.
  - match: everything
    replies: ["{LONG}"]
replies:
  - Good morning, everybody. What would you like to know about the tickets today?
"""
AGENT = """
create function note(thread uuid, about name, what text) returns text language sql as $$
    select agent.add_fact(thread, about, 'drinks', what, 'habit', 0.9)::text $$;
comment on function note is 'Store a fact.';
insert into agent.agent (name, model, system_prompt, tools)
values ('jerry', 'talker', 'You are Jerry of the support desk.', '{refund_customer,note}');
select agent.attach_to_threads('jerry', approve => '{refund_customer}',
                               bind => '{"thread": "thread_id"}');
"""
MODEL = """
insert into agent.model (name, provider, model_id, base_url, input_price, output_price)
values ('talker', 'scripted', 'talker', %s, 0.8, 4)
"""


@dataclass(frozen=True, slots=True)
class People:
    """Tokens: Anna decides, Omar has no role, Vera only reads."""

    anna: str
    omar: str
    vera: str


async def invite_people(conn: AsyncConnection, started: Desk) -> People:
    """Let jerry take part in threads, and create people."""
    script = started.folder / "talk.yaml"
    script.write_text(SCRIPT)
    anna = await person(conn, "anna", "approver", "viewer")
    omar = await person(conn, "omar")
    vera = await person(conn, "vera", "viewer")
    await conn.execute(MODEL, (str(script),))
    await run_all(conn, AGENT)
    turns = "select bool_and(active_from is not null) from agent.attachment_version"
    await until(conn, turns)
    return People(anna, omar, vera)
