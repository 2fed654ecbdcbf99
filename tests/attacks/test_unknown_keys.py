"""Each JSON that a person writes: an unknown key is refused by name, or is theirs to choose."""

# ruff: noqa: ISC004 - a statement in several lines is one element of its case
from typing import Final

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, column, refused, run_all, value

AGENT: Final = "insert into agent.agent (name, model, {}) values ('a', 'fake', '{}')".format
MODEL: Final = "insert into agent.model (name, provider, model_id, {}) values ('m', 'openai', 'x', '{}')".format  # noqa: E501 - one statement
TOOL: Final = (
    "insert into agent.tool (name, kind, target, effect, llm, {})"
    " values ('t', 'llm', 'fake', 'idempotent', '{{}}', '{}')".format
)
GRANT: Final = "insert into agent.role_tool (role, tool, {}) values ('agent', '{}', '{}')".format
ATTACH: Final = (
    "select agent.attach('support_tickets', 'model=fake, tools=[refund_user], {}')".format
)
NAMED: Final = "select agent.attach('support_tickets', model => 'fake', {} => '{}')".format
ENRICH: Final = (
    "select agent.enrich('support_tickets', '{{issue}}', '{{status}}', 'fake', {} => '{}')".format
)
COMPLETE: Final = (
    "select agent.complete('of_all', 'select 1 as x', 'P', model => 'fake', {} => '{}')".format
)

# Place, statement, the unknown word, the word that was meant.
CASES: Final = [
    ("agent.examples", AGENT("examples", '[{"txt": "x", "tool": "t"}]'), "txt", "text"),
    ("agent.attach(examples)", NAMED("examples", '[{"text": "x", "tol": "t"}]'), "tol", "tool"),
    ("agent.enrich(examples)", ENRICH("examples", '[{"text": "x", "tol": "t"}]'), "tol", "tool"),
    (
        "agent.enrich(parameters)",
        ENRICH("parameters", '{"temprature": 1}'),
        "temprature",
        "temperature",
    ),
    (
        "agent.complete(examples)",
        COMPLETE("examples", '[{"text": "x", "tol": "t"}]'),
        "tol",
        "tool",
    ),
    (
        "agent.complete(parameters)",
        COMPLETE("parameters", '{"temprature": 1}'),
        "temprature",
        "temperature",
    ),
    ("agent.complete(writes)", COMPLETE("writes", '{"y": "txt"}'), "txt", "text"),
    (
        "agent.embed(parameters)",
        "alter table support_tickets add embedding real[], replica identity full;"
        " select agent.embed('support_tickets', '{issue}', 'embedding', 'embedded/e5',"
        " parameters => '{\"dimension\": 384}')",
        "dimension",
        "dimensions",
    ),
    ("agent.parameters", AGENT("parameters", '{"temprature": 0}'), "temprature", "temperature"),
    (
        "agent.attach(parameters)",
        NAMED("parameters", '{"max_token": 1}'),
        "max_token",
        "max_tokens",
    ),
    ("model.parameters", MODEL("parameters", '{"Temperature": 1}'), "Temperature", "temperature"),
    (
        "persona.parameters",
        "insert into agent.persona (name, parameters) values ('p', '{\"frequency_penality\": 1}')",
        "frequency_penality",
        "frequency_penalty",
    ),
    (
        "model.price_bands",
        MODEL(
            "price_bands", '[{"above": 1, "input_price": 1, "output_price": 1, "cached_price": 1}]'
        ),
        "cached_price",
        "cached_input_price",
    ),
    (
        "tenant.settings",
        "update agent.tenant set settings = '{\"four_eye\": true}'",
        "four_eye",
        "four_eyes",
    ),
    ("tool.input_schema", TOOL("input_schema", '{"propertes": {}}'), "propertes", "properties"),
    ("tool.input_schema", TOOL("input_schema", '{"requird": []}'), "requird", "required"),
    ("tool.input_schema", TOOL("input_schema", '{"type": "objekt"}'), "objekt", "object"),
    (
        "tool.input_schema",
        TOOL("input_schema", '{"properties": {"a": {"type": ["null", "strng"]}}}'),
        "strng",
        "string",
    ),
    (
        "tool.input_schema",
        TOOL("input_schema", '{"properties": {"a": {"items": {"anyOf": [{"enun": []}]}}}}'),
        "enun",
        "enum",
    ),
    (
        "tool.input_schema",
        TOOL(
            "input_schema",
            '{"properties": {"amount": {}}, "required": ["amout"], "additionalProperties": false}',
        ),
        "amout",
        "amount",
    ),
    ("tool.output_schema", TOOL("output_schema", '{"typ": "object"}'), "typ", "type"),
    (
        "tool.http",
        "insert into agent.tool (name, kind, target, http)"
        " values ('h', 'http', 'https://x.example/y', '{\"metod\": \"GET\"}')",
        "metod",
        "method",
    ),
    (
        "tool.llm",
        "insert into agent.tool (name, kind, target, effect, llm)"
        " values ('l', 'llm', 'fake', 'idempotent', '{\"sytem\": \"x\"}')",
        "sytem",
        "system",
    ),
    (
        "tool.bind",
        "insert into agent.tool (name, kind, target, bind)"
        " values ('r', 'sql', 'refund_user', '{\"ticket\": \"id\"}');"
        " select agent.attach('support_tickets', 'model=fake, tools=[r]')",
        "ticket",
        "ticket_id",
    ),
    ("role_tool.allowed", GRANT("allowed", "refund_user", '{"amout": [1]}'), "amout", "amount"),
    ("role_tool.denied", GRANT("denied", "refund_user", '{"amout": true}'), "amout", "amount"),
    ("role_tool.denied", GRANT("denied", "web_search", '{"qery": true}'), "qery", "query"),
    ("role_tool.tool", GRANT("denied", "refnd_user", "{}"), "refnd_user", "refund_user"),
    ("role_tool.tool", GRANT("denied", "web_serch", '{"query": true}'), "web_serch", "web_search"),
    (
        "role_tool.tool",
        "insert into agent.role_tool (role, tool) values ('agent', 'refund_user');"
        " update agent.role_tool set tool = 'refund_usr'",
        "refund_usr",
        "refund_user",
    ),
    ("attachment.bind", ATTACH("bind=[ticket=id]"), "ticket", "ticket_id"),
    ("agent.attach(bind)", NAMED("bind", '{"ticket": "id"}'), "ticket", "Known"),
    ("agent.attach", ATTACH("let_out=[refund_user]"), "let_out", "lets_out"),
    ("agent.attach", ATTACH("lets_out=[refund]"), "refund", "refund_user"),
    ("agent.attach", ATTACH("approve=[refund]"), "refund", "refund_user"),
    (
        "agent.attach_to_threads(bind)",
        AGENT("tools", "{refund_user}")
        + "; select agent.attach_to_threads('a', bind => '{\"ticket\": \"id\"}')",
        "ticket",
        "ticket_id",
    ),
    (
        "agent.attach_to_threads",
        AGENT("tools", "{refund_user}")
        + "; select agent.attach_to_threads('a', lets_out => '{refund}')",
        "refund",
        "refund_user",
    ),
    (
        "agent.attach_worker",
        AGENT("tools", "{refund_user}")
        + "; select agent.attach_worker('a', lets_out => '{refund}')",
        "refund",
        "refund_user",
    ),
    (
        "attachment.turns",
        AGENT("tools", "{}") + "; insert into agent.attachment (name, agent, relation, turns)"
        " values ('a', 'a', 'agent.event', '{\"formt\": \"json\"}')",
        "formt",
        "format",
    ),
    (
        "agent.create_workflow(nodes)",
        'select agent.create_workflow(\'w\', \'[{"name": "x", "kind": "router", "promt": 1}]\','
        " '[]')",
        "promt",
        "prompt",
    ),
    (
        "agent.create_workflow(edges)",
        'select agent.create_workflow(\'w\', \'[{"name": "x", "kind": "router"}]\','
        ' \'[{"from": "x", "too": "x"}]\')',
        "too",
        "to",
    ),
    (
        "agent.finish_turn(usage)",
        "select agent_internal.usage_of('{\"prompt\": 5}')",
        "prompt",
        "prompt_tokens",
    ),
    (
        "agent.label_case(expected)",
        'select agent.label_case(1, \'{"value": {"category": "bug"}}\')',
        "value",
        "values",
    ),
    (
        "agent.fork(reply)",
        'select agent_internal.written_parts(\'{"text": "x", "call": []}\', 0, \'{}\')',
        "call",
        "calls",
    ),
    (
        "attachment.canary",
        "select agent.attach('support_tickets', 'model=fake'); update agent.attachment"
        ' set canary_share = 0.5, canary = \'{"change": {"max_steps": 3}}\'',
        "change",
        "changes",
    ),
]
# Keys that a person chooses, or another program.
FREE: Final = {
    "document.metadata": "fields of the application, which a search names",
    "agent.retrieve(metadata)": "the same",
    "agent.search_documents(metadata)": "the same",
    "principal.metadata": "fields of the application",
    "thread.context": "fields of the application",
    "persona.traits": "traits have the names that the prompt shows",
    "memory.value": "what an agent remembers",
    "agent.remember(value)": "the same",
    "agent.correct(value)": "the same",
    "outbox.body": "the message; agent.send",
    "agent.send(body)": "the same",
    "observation.aspects": "aspects have the names that a rating gives them",
    "agent.rate(aspects)": "the same",
    "agent.start_workflow(input)": "the state of a workflow, whose conditions read it",
    "agent.fork_workflow(patch)": "the same",
    "agent.resume_workflow(patch)": "the same",
    "agent.record_tool_result(result)": "what a tool returned",
    "agent.process_tool_call(usage)": "as the provider reports it; see agent.finish_turn(usage)",
}
# Arguments of calls, which are those of the tool: agent_internal.check_edit, wrong_arguments.
OF_TOOLS: Final = {
    "approval.edited",
    "agent.approve(arguments)",
    "agent.process_tool_call(arguments)",
    "agent.fork(arguments)",
}
# What walagent writes.
WRITTEN: Final = {
    "agent_version.definition", "approval.arguments", "attachment.canary_definition",
    "attachment.definition", "attachment_version.definition", "audit.detail", "backfill.cursor",
    "canary.changes", "correction.key",
    "dataset.columns", "dataset_case.change", "dataset_case.expected", "dataset_case.merged",
    "evaluation.draft", "evaluation_case.candidate", "evaluation_case.expected",
    "evaluation_case.recorded", "evaluation_case.verdict", "event.data",
    "row_change.after", "row_change.before", "row_change.key", "row_change.numbers",
    "row_change.old_key",
    "persona_version.definition", "policy.compiled", "question.answer", "question.options",
    "run.change", "run.error",
    "step.content", "tool_version.definition", "workflow_node.settings",
    "workflow_version.definition", "workflow_version.source",
}  # fmt: skip
PLACES: Final = """
select format('%s.%s', c.relname, a.attname)
  from pg_attribute a join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
 where c.relnamespace = 'agent'::regnamespace and a.atttypid = 'jsonb'::regtype and a.attnum > 0
union
select format('agent.%s(%s)', p.proname, p.proargnames[t.n])
  from pg_proc p cross join unnest(p.proargtypes::oid[]) with ordinality t (type, n)
 where p.pronamespace = 'agent'::regnamespace and t.type = 'jsonb'::regtype
"""


async def test_each_json_that_a_person_writes_is_known_here(conn: AsyncConnection) -> None:
    """A new column or argument is refused an unknown key, or has the reason why it is free."""
    known = {place for place, *_ in CASES} | FREE.keys() | OF_TOOLS | WRITTEN
    places = set(map(str, await column(conn, PLACES)))
    assert places - known == set()
    assert {each for each in known - places if "." in each} <= {
        "agent.attach",
        "agent.attach_to_threads",
        "agent.attach_worker",
        "role_tool.tool",  # a name, and no JSON
    }


@pytest.mark.few(12)
@pytest.mark.parametrize(("place", "statement", "word", "meant"), CASES)
async def test_an_unknown_key_is_refused_by_name(
    conn: AsyncConnection, place: str, statement: str, word: str, meant: str
) -> None:
    """With what was probably meant, in each statement that writes it."""
    del place
    await run_all(conn, DESK)
    first, _, last = statement.rpartition("; ")
    if first:
        await run_all(conn, first)
    error = await refused(conn, last)
    said = f"{error} {error.diag.message_hint}"
    assert word in said
    assert meant in said


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "object", "x-unit": "EUR", "$defs": {"a": {"type": ["string", "null"]}},'
        ' "properties": {"type": {"$ref": "#/$defs/a"}, "propertes": true}, "required": ["type"]}',
        '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",'
        ' "definitions": {}, "dependencies": {"a": ["b"]}, "if": {}, "then": {"not": {}},'
        ' "else": false}',
        '{"type": "object", "properties": {"a": {"enum": [{"typ": 1}], "default": {"typ": 1},'
        ' "const": {"typ": 1}, "items": [{"minimum": 0}, true], "nullable": true}}}',
    ],
)
async def test_json_schema_and_own_names_in_it_are_accepted(
    conn: AsyncConnection, schema: str
) -> None:
    """Names of properties, and values in enum, default and const, are no keywords."""
    await run_all(conn, DESK)
    await run_all(conn, TOOL("input_schema", schema))


async def test_parameters_of_other_servers_are_accepted(conn: AsyncConnection) -> None:
    """What is not almost a known one is the provider's; so is camel case."""
    await run_all(conn, DESK)
    given = (
        '{"top_k": 40, "min_p": 0.1, "maxTokens": 9, "dry_multiplier": 1, "temperature": null,'
        ' "min_tokens": 1, "grammar": "x", "extra": {"temprature": 1}, "thinking_budget": 9}'
    )
    await run_all(conn, AGENT("parameters", given))


async def test_what_may_leave_can_be_said_before_the_agent_has_the_tool(
    conn: AsyncConnection,
) -> None:
    """With the tool and without the word the agent would be refused, so the word is first."""
    await run_all(conn, DESK)
    await value(conn, ATTACH("name=b, lets_out=[web_search, escalate_to_human]"))
