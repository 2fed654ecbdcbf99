"""The demo's support desk on a real server, and how well embedded/e5 works there."""

from dataclasses import dataclass

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.helpers.build import changed
from walagent.deciders.agent_prompt import opening
from walagent.deciders.arguments import what_is_wrong
from walagent.demo.tickets import CUSTOMERS, Expected, Ticket, definition, expected, schema, tickets
from walagent.domain.attachment import Attachment
from walagent.message import Message, Reply, Request, Stop, Text, ToolResult
from walagent.models.embedded.nearest_label_model import NOTE, EmbeddedModel

TOOLS = (
    "refund_customer(1)",
    "request_information(1)",
    "send_help_article(1)",
    "note_feature_request(1)",
    "close_ticket(1)",
    "escalate_to_human(1, 'why not')",
)


@pytest.fixture
async def desk(conn: AsyncConnection) -> AsyncConnection:
    """The support desk with its customers and one payment each."""
    await conn.execute(schema())
    for name in CUSTOMERS:
        await conn.execute(
            "with c as (insert into customers (name, email) values (%(n)s, %(n)s) returning id)"
            " insert into payments (customer_id, amount) select id, 29 from c",
            {"n": name},
        )
    return conn


@pytest.fixture
async def attachment(desk: AsyncConnection) -> Attachment:
    """The demo's agent as the database froze it."""
    given = definition()
    parameters = given.pop("parameters")
    await desk.execute(
        "insert into agent.model (name, provider, model_id)"
        " values ('embedded/e5', 'embedded', 'e5') on conflict do nothing"
    )
    arguments = {k: Jsonb(v) if k in {"bind", "examples"} else v for k, v in given.items()}
    names = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name))
        for name in arguments
    )
    await desk.execute(sql.SQL("select agent.attach({})").format(names), arguments)
    await desk.execute("update agent.agent set parameters = %s", [Jsonb(parameters)])
    await desk.execute("update agent.attachment set version = version")
    async with desk.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("select definition from agent.attachment")
        row = await cursor.fetchone()
    assert row is not None
    return Attachment.from_json(row["definition"])


def request(attachment: Attachment, ticket: Ticket, *more: Message) -> Request:
    """What the engine would ask about a new ticket."""
    row = {"id": ticket.id, "subject": ticket.subject, "body": ticket.body}
    change = {"op": "insert", "schema": "public", "table": "support_tickets", "new": row}
    return Request(
        attachment.agent.system_prompt,
        (Message("user", (Text(opening([change], "0123456789abcdef")),)), *more),
        tuple(tool.spec for tool in attachment.agent.tools),
        examples=attachment.agent.examples,
        parameters=attachment.agent.parameters,
    )


async def insert_ticket(conn: AsyncConnection, ticket: Ticket) -> None:
    """Write a ticket as the application would."""
    await conn.execute(
        "insert into support_tickets (id, customer_id, subject, body) values (%s, %s, %s, %s)",
        [ticket.id, ticket.customer_id, ticket.subject, ticket.body],
    )


@pytest.mark.parametrize("call", TOOLS)
async def test_each_tool_does_its_work_once_as_the_agents_role(
    desk: AsyncConnection, call: str
) -> None:
    """A tool works with the rights of support_agent, and changes the ticket's status."""
    await insert_ticket(desk, tickets()[0])
    async with desk.transaction():
        await desk.execute("set local role support_agent")
        await desk.execute(f"select {call}".encode())
    cursor = await desk.execute("select status from support_tickets")
    assert await cursor.fetchone() != ("open",)
    if not call.startswith("close"):
        with pytest.raises(psycopg.Error):
            await desk.execute(f"select {call}".encode())


@pytest.mark.parametrize(
    "statement",
    [
        "select email from customers",
        "insert into payments (customer_id, amount) values (1, 5)",
        "delete from support_tickets",
        "update support_tickets set body = ''",
    ],
)
async def test_the_agents_role_can_do_no_more_than_its_tools(
    desk: AsyncConnection, statement: str
) -> None:
    """It cannot read customers, make payments, or take tickets away."""
    await desk.execute("set role support_agent")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await desk.execute(statement.encode())


async def test_a_customer_without_payments_gets_no_refund(desk: AsyncConnection) -> None:
    """The tool says no; it does not give back what was never paid."""
    await insert_ticket(desk, tickets()[0])
    await desk.execute("delete from payments")
    with pytest.raises(psycopg.Error, match="no payment"):
        await desk.execute("select refund_customer(1)")


async def test_the_agent_is_never_shown_what_it_is_measured_on(attachment: Attachment) -> None:
    """Worked examples are tickets marked so, labelled as they are labelled, and no others."""
    by_text = {ticket.text: expected()[ticket.id] for ticket in tickets()}
    assert len({example.text for example in attachment.agent.examples}) == 12
    for example in attachment.agent.examples:
        label = by_text[example.text]
        assert label.use == "example"
        if example.tool == "update_row":
            assert example.arguments == {"category": label.category}
        else:
            assert example.tool == label.tool


def test_the_tickets_and_their_labels_fit() -> None:
    """Every ticket has a label, and a third is kept apart."""
    assert [ticket.id for ticket in tickets()] == sorted(expected())
    assert len(tickets()) >= 72
    assert len({ticket.text for ticket in tickets()}) == len(tickets())
    apart = [label for label in expected().values() if label.use == "apart"]
    assert len(apart) * 3 >= len(tickets())


@dataclass(frozen=True)
class Evaluated:
    """What of a reply is right."""

    tool: bool
    category: bool
    sure: bool  # the tool was chosen, and is not the fallback
    category_set: bool


async def evaluate(
    attachment: Attachment, use: str, threshold: float, margin: float = 0.8
) -> list[Evaluated]:
    """Let the model answer all tickets of one use."""
    model = EmbeddedModel()
    given = {**attachment.agent.parameters, "threshold": threshold, "margin": margin}
    asked = changed(attachment, parameters=given)
    chosen = [ticket for ticket in tickets() if expected()[ticket.id].use == use]
    return [
        judge_one(await model.complete(request(asked, ticket)), expected()[ticket.id])
        for ticket in chosen
    ]


def judge_one(reply: Reply, label: Expected) -> Evaluated:
    """Compare a reply with what a person would do."""
    acted = [call for call in reply.calls if call.name != "update_row"]
    columns = [call.arguments for call in reply.calls if call.name == "update_row"]
    assert len(acted) == 1
    return Evaluated(
        tool=acted[0].name == label.tool,
        category=columns == [{"category": label.category}],
        sure="not sure enough" not in str(acted[0].arguments),
        category_set=bool(columns),
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("use", "count", "tools", "categories"), [("apart", 33, 23, 23), ("open", 45, 36, 38)]
)
async def test_the_nearest_label_is_right_for_most_tickets(
    attachment: Attachment, use: str, count: int, tools: int, categories: int
) -> None:
    """Without a language model and whatever its confidence: seven of ten, twelve examples given.

    Always guessing the commonest would get 11 of 33 tools and 7 of 33 categories.
    """
    evaluated = await evaluate(attachment, use, threshold=0.0, margin=0.5)
    assert len(evaluated) == count
    assert sum(one.tool for one in evaluated) >= tools
    assert sum(one.category for one in evaluated) >= categories


@pytest.mark.slow
async def test_what_it_is_sure_of_is_right_and_the_rest_goes_to_a_person(
    attachment: Attachment,
) -> None:
    """With the usual threshold and margin, no tool is wrong; what is not sure is not acted on."""
    evaluated = await evaluate(attachment, "apart", threshold=0.5) + await evaluate(
        attachment, "open", threshold=0.5
    )
    sure = [one for one in evaluated if one.sure]
    assert len(sure) >= 23  # 24 or 25: processors round one at the margin differently
    assert all(one.tool for one in sure)
    set_to = [one for one in evaluated if one.category_set]
    assert len(set_to) >= 30
    assert sum(one.category for one in set_to) >= 0.9 * len(set_to)


async def test_a_ticket_is_answered_in_one_reply_and_ended_in_the_next(
    attachment: Attachment,
) -> None:
    """Category and action come as two calls at once; after their results it says what it did."""
    ticket = tickets()[0]
    model = EmbeddedModel()
    first = await model.complete(request(attachment, ticket))
    assert [(call.name, call.arguments) for call in first.calls] == [
        ("update_row", {"category": "billing"}),
        ("refund_customer", {}),
    ]
    for call in first.calls:
        tool = attachment.agent.tool(call.name)
        assert tool is not None
        assert call.arguments is not None
        assert what_is_wrong(tool, call.arguments) is None

    results = tuple(ToolResult(call.id, call.name, "done") for call in first.calls)
    last = await model.complete(
        request(attachment, ticket, Message("assistant", first.parts), Message("user", results))
    )
    assert (last.calls, last.stop) == ((), Stop.END)
    assert last.text.startswith("Called refund_customer, update_row")
    assert {first.note, last.note} == {NOTE}
    assert first.usage.total == last.usage.total > 0
    assert last.usage.input_tokens == 0


@pytest.mark.slow
async def test_all_its_calls_satisfy_the_tools_schemas(attachment: Attachment) -> None:
    """Whatever it decides, no call is one that the engine would refuse."""
    model = EmbeddedModel()
    for ticket in tickets():
        for call in (await model.complete(request(attachment, ticket))).calls:
            tool = attachment.agent.tool(call.name)
            assert tool is not None
            assert call.arguments is not None
            assert what_is_wrong(tool, call.arguments) is None
