"""The spec language of agent.attach: what it reads and refuses, and that all ways end alike."""

import json
import re
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import AsyncConnection

from tests.helpers.database import DESK, message_of, refused, role, rows, run_all, value
from walagent.message import Json

SEED = """
SELECT agent.attach('support_tickets','model=gpt-4o, system_prompt="You are a support bot. Categorize and resolve the issue.", tools=[refund_user, escalate_to_human]')
"""  # noqa: E501 - the statement as it stands in the first description of this


async def test_the_first_statement_ever_shown_works_as_it_stands(conn: AsyncConnection) -> None:
    """Model, prompt and tools arrive where they belong."""
    await run_all(conn, DESK)
    attached = await value(conn, SEED)
    (found,) = await rows(
        conn,
        "select t.id, t.name, t.relation::text, t.ops, g.model, g.system_prompt, g.tools"
        "  from agent.attachment t join agent.agent g on g.name = t.agent",
    )
    assert found == (
        attached,
        "support_tickets",
        "support_tickets",
        ["insert"],
        "gpt-4o",
        "You are a support bot. Categorize and resolve the issue.",
        ["refund_user", "escalate_to_human"],
    )


async def parsed(conn: AsyncConnection, spec: str) -> Json:
    """What a spec says."""
    return await value(conn, "select agent_internal.parse_spec(%s)", spec)


READ: list[tuple[str, Json]] = [
    ("", {}),
    ("   \n ", {}),
    ("model=gpt-4o", {"model": "gpt-4o"}),
    (" model = gpt-4o , name = desk ", {"model": "gpt-4o", "name": "desk"}),
    ("model=gpt-4o\n, name=desk\n", {"model": "gpt-4o", "name": "desk"}),
    ("model=gpt-4o\t,\r\nname=desk", {"model": "gpt-4o", "name": "desk"}),
    ("model=llama3.3:70b", {"model": "llama3.3:70b"}),
    ("when=new.a = 1", {"when": "new.a = 1"}),
    ("model=x name=y", {"model": "x name=y"}),
    ('when="new.a in (1, 2)"', {"when": "new.a in (1, 2)"}),
    ('name="a \\"quoted\\" word"', {"name": 'a "quoted" word'}),
    ('name="a ""quoted"" word"', {"name": 'a "quoted" word'}),
    ('name=""', {"name": ""}),
    ('name="", model=x', {"name": "", "model": "x"}),
    ('name=""""', {"name": '"'}),
    (r'name="a\\b\nc\td\qe"', {"name": "a\\b\nc\tdqe"}),
    ('name="[x], y=z"', {"name": "[x], y=z"}),
    ('name="two\nlines"', {"name": "two\nlines"}),
    ("tools=[]", {"tools": []}),
    ("tools=[a]", {"tools": ["a"]}),
    ("tools=[ a , b ]", {"tools": ["a", "b"]}),
    ("tools=[\n  a,\n  b\n]", {"tools": ["a", "b"]}),
    ('tools=["a, b", c d, "]"]', {"tools": ["a, b", "c d", "]"]}),
    ("bind=[ticket_id=id]", {"bind": ["ticket_id=id"]}),
    ("tools=[a], name=b", {"tools": ["a"], "name": "b"}),
    ("name=größe €", {"name": "größe €"}),
    ("model=x,", {"model": "x"}),
]


async def test_a_spec_is_read_as_it_looks(conn: AsyncConnection, subtests: pytest.Subtests) -> None:
    """Quotes and brackets come before commas; blanks and line breaks around words are nothing."""
    for spec, meaning in READ:
        with subtests.test(spec):
            assert await parsed(conn, spec) == meaning


async def test_a_long_prompt_is_read_in_no_time(conn: AsyncConnection) -> None:
    """A prompt of 100,000 letters, some of two bytes, costs no more than its length."""
    prompt = "Über alles sei höflich. " * 4000
    await conn.execute("set statement_timeout = '5s'")
    assert await parsed(conn, f'system_prompt="{prompt}"') == {"system_prompt": prompt}


BROKEN = [
    ("model", 'expected = after "model" at character 6'),
    ("=x", "expected a key at character 1"),
    ("größe=1", "expected = after"),
    ("model=x, , name=y", "expected a key at character 10"),
    ("model=", '"model" has no value at character 7'),
    ("model=,name=x", '"model" has no value'),
    ('system_prompt="never ends', 'value of "system_prompt" at character 15 is not closed'),
    ('system_prompt="never ends\\', 'value of "system_prompt"'),
    ('name="a" b', 'expected a comma after the value of "name" at character 10'),
    ('name=a"b', 'value of "name" contains a quote or bracket'),
    ("name=a]", 'value of "name" contains a quote or bracket'),
    ("tools=[a, b", "tools"),
    ("tools=[", '"tools" has no value'),
    ("tools=[a,,b]", '"tools" has no value'),
    ('tools=["a" b]', 'list of "tools" is not closed with ]'),
    ("tools=[a] b", 'expected a comma after the value of "tools"'),
    ("tools=[[a]]", 'value of "tools" contains a quote or bracket'),
    ("model=x, model=y", '"model" is given twice'),
    ("1model=x", "expected a key at character 1"),
]


async def test_a_broken_spec_says_where_it_is_broken(
    conn: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """The key and the place are named."""
    for spec, tells in BROKEN:
        with subtests.test(spec):
            error = await refused(conn, "select agent_internal.parse_spec(%s)", spec, state="WA010")
            assert tells in message_of(error)


WRONG = [
    ("modle=fake", "WA010", 'unknown key "modle" Did you mean "model"?'),
    ("zzzzzzzz=fake", "WA010", 'unknown key "zzzzzzzz" None of the'),
    ("name=x", "WA010", "an agent requires a model"),
    ("model=fake, agent=fake", "WA010", "agent: cannot be combined with model"),
    ("agent=fake", "WA013", 'agent "fake" does not exist'),
    ("model=fak", "WA014", 'model "fak" does not exist or is not enabled Did you mean "fake"?'),
    ("model=fake, max_tokens=99999999999999999999", "WA010", "max_tokens: must be an integer"),
    ("model=fake, max_cost=NaN", "WA010", "max_cost: must be a number greater than 0"),
    ("model=fake, on=[insert, upsert]", "WA010", 'Did you mean "insert"?'),
    (
        "model=fake, bind=[ticket_id]",
        "WA010",
        'bind: must be a mapping Expected argument=column, found "ticket',
    ),
    ("model=fake, tools=[refund_usr]", "WA011", 'tool "refund_usr" does not exist'),
    ("model=fake, tools=[do_nothin]", "WA011", 'Did you mean "do_nothing"?'),
    ("model=fake, writes=[statsu]", "WA013", 'Did you mean "status"?'),
    ("model=fake, columns=[statsu]", "WA013", 'columns: column "statsu"'),
    ("model=fake, ordering_key=[statsu]", "WA013", 'ordering_key: column "statsu"'),
    ("model=fake, run_as=nobody_at_all", "42704", "nobody_at_all"),
    ("model=fake, when=new.statsu = 'x'", "42703", "statsu"),
    ("model=fake, tool_choice=refund_usr", "WA011", 'tool_choice "refund_usr"'),
    ("model=fake, approve=[refund_user]", "WA011", 'approve: "refund_user"'),
]


async def test_a_wrong_spec_names_the_thing_and_changes_nothing(
    conn: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """Whoever attaches reads what was wrong, and finds everything as it was."""
    await run_all(conn, DESK)
    before = await everything(conn)
    for spec, state, tells in WRONG:
        with subtests.test(spec):
            error = await refused(
                conn, "select agent.attach('support_tickets', %s)", spec, state=state
            )
            assert tells in message_of(error)
            assert await everything(conn) == before


async def everything(conn: AsyncConnection) -> list[tuple[Json, ...]]:
    """All that attaching could change."""
    return await rows(
        conn,
        "select (select count(*) from agent.agent), (select count(*) from agent.attachment),"
        " (select count(*) from agent.attachment_version), (select count(*) from"
        " agent_internal.queue),"
        " (select count(*) from agent.backfill), (select count(*) from pg_publication_rel),"
        " (select count(*) from pg_class where relname like 'walagent%%')",
    )


async def test_a_table_that_is_not_there_is_named(conn: AsyncConnection) -> None:
    """With the one that was probably meant."""
    await run_all(conn, DESK)
    for table in ("support_ticket", "supporttickets"):
        error = await refused(conn, "select agent.attach(%s, 'model=fake')", table, state="WA013")
        assert f'table "{table}" does not exist Did you mean "support_tickets"?' in message_of(
            error
        )


async def test_a_spec_that_is_null_is_refused(conn: AsyncConnection) -> None:
    """Not taken for an empty one."""
    await run_all(conn, DESK)
    await refused(conn, "select agent.attach('support_tickets', null::text)", state="WA010")


FULL = """model=fake, name=desk, system_prompt="Be kind.", tools=[refund_user], on=[insert, update],
    when="new.status = 'open'", columns=[issue, status], writes=[status], bind=[ticket_id=id],
    approve=[refund_user], ordering_key=[status], debounce=5s, cap=3, tool_choice=refund_user,
    max_depth=2, max_steps=7, max_tokens=1000, max_cost=0.5, max_seconds=60, max_attempts=2"""
NAMED = """
select agent.attach('support_tickets', 'fake', name => 'desk', system_prompt => 'Be kind.',
    tools => '{refund_user}', ops => '{insert,update}', condition => 'new.status = ''open''',
    columns => '{issue,status}', writes => '{status}', bind => '{"ticket_id": "id"}',
    approve => '{refund_user}', ordering_key => '{status}', debounce => '5s', cap => 3,
    tool_choice => 'refund_user', max_depth => 2, max_steps => 7, max_tokens => 1000,
    max_cost => 0.5, max_seconds => 60, max_attempts => 2)
"""
PLAIN = """
insert into agent.agent (name, model, system_prompt, tools, tool_choice, max_steps, max_tokens,
                         max_cost, max_seconds, max_attempts)
values ('desk', 'fake', 'Be kind.', '{refund_user}', 'refund_user', 7, 1000, 0.5, 60, 2);
insert into agent.attachment (name, agent, relation, ops, condition, columns, writes, bind, approve,
                              ordering_key, debounce, cap, max_depth)
values ('desk', 'desk', 'support_tickets', '{insert,update}', 'new.status = ''open''',
        '{issue,status}', '{status}', '{"ticket_id": "id"}', '{refund_user}', '{status}', '5s', 3,
        2)
"""


async def attached(conn: AsyncConnection) -> Json:
    """What an attach leaves behind, but for ids and times."""
    return await rows(
        conn,
        "select to_jsonb(t) - '{id,attached_at,definition}'::text[] as row,"
        "       t.definition - 'id' as definition, v.definition - 'id' as version,"
        "       to_jsonb(g) - 'updated_at' as agent, l.cap,"
        "       array(select p.pubname from pg_publication_tables p"
        "              where p.tablename = 'support_tickets') as published"
        "  from agent.attachment t join agent.agent g on g.name = t.agent"
        "       join agent.attachment_version v on v.attachment_id = t.id"
        "       join agent_internal.queue l on l.attachment_id = t.id",
    )


async def test_spec_named_arguments_and_plain_inserts_end_in_the_same_rows(
    conn: AsyncConnection,
) -> None:
    """Three ways, one result."""
    await run_all(conn, DESK)
    found = []
    for way in (f"select agent.attach('support_tickets', $spec${FULL}$spec$)", NAMED, PLAIN):
        await run_all(conn, "begin")
        await run_all(conn, way)
        await run_all(
            conn, "set constraints all immediate"
        )  # the ordering_key comes with the commit
        found.append(await attached(conn))
        await run_all(conn, "rollback")
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 1


async def test_every_key_arrives_where_it_belongs(conn: AsyncConnection) -> None:
    """None of the keys is read and then forgotten."""
    await run_all(conn, DESK)
    async with role(conn) as name:
        await run_all(conn, f"grant select on support_tickets to {name}")
        await run_all(conn, f"grant execute on all functions in schema public to {name}")
        spec = f"{FULL}, run_as={name}, backfill=true"
        await value(conn, "select agent.attach('support_tickets', %s)", spec)
        definition = await value(conn, "select definition from agent.attachment")
        assert await value(conn, "select count(*) from agent.backfill") == 1
        await value(conn, "select agent.detach('desk')")
    expected = {
        "name": "desk",
        "system_prompt": "Be kind.",
        "ops": ["insert", "update"],
        "columns": ["issue", "status"],
        "writes": ["status"],
        "bind": {"ticket_id": "id"},
        "approve": ["refund_user"],
        "run_as": name,
        "ordering_key": ["status"],
        "debounce_seconds": 5.0,
        "cap": 3,
        "backfill": True,
        "tool_choice": "refund_user",
        "max_depth": 2,
        "max_steps": 7,
        "max_tokens": 1000,
        "max_cost": 0.5,
        "max_seconds": 60,
        "max_attempts": 2,
        "model": "fake",
    }
    assert {key: definition[key] for key in expected} == expected
    assert definition["condition_columns"] == ["status"]


# A small model of the language, written from its description alone.

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BLANK = re.compile(r"\s*")


class Broken(Exception):  # noqa: N818 - the model's word for WA010
    """The model refuses the text."""


def model_of(text: str) -> dict[str, Json]:
    """Read a spec as the description says."""
    found: dict[str, Json] = {}
    at = _skip(text, 0)
    while at < len(text):
        if not (key := _KEY.match(text, at)) or key[0] in found:
            raise Broken
        at = _skip(text, key.end())
        if text[at : at + 1] != "=":
            raise Broken
        found[key[0]], at = _value(text, _skip(text, at + 1))
        at = _skip(text, at)
        if at < len(text) and text[at] != ",":
            raise Broken
        at = _skip(text, at + 1)
    return found


def _value(text: str, at: int) -> tuple[Json, int]:
    if text[at : at + 1] != "[":
        return _word(text, at, ",")
    items: list[str] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        item, at = _word(text, at, ",]")
        items.append(item)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise Broken
    return items, at + 1


def _word(text: str, at: int, stops: str) -> tuple[str, int]:
    if quoted := re.compile(r'"((?:[^"\\]|\\.|"")*)"(?!")', re.DOTALL).match(text, at):
        pieces = re.compile(r'\\(.)|""', re.DOTALL)
        return pieces.sub(lambda m: _escape(m[1]) if m[1] else '"', quoted[1]), quoted.end()
    end = min((n for n in range(at, len(text)) if text[n] in stops), default=len(text))
    word = text[at:end].rstrip()
    if not word or re.search(r'["\[\]]', word):
        raise Broken
    return word, end


def _escape(char: str) -> str:
    return {"n": "\n", "t": "\t"}.get(char, char)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


PIECES = st.sampled_from(
    ["a", "bc", "_1", "é", "=", ",", "[", "]", '"', '""', "\\", "\\n", '\\"', " ", "\n", "\t", "k="]
)


@pytest.fixture
def sync(dsn: str) -> Iterator[psycopg.Connection]:
    """A connection for all examples of a test."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.slow
def test_any_text_is_read_as_a_small_model_of_the_language_reads_it(
    sync: psycopg.Connection,
) -> None:
    """Or refused where the model refuses it; there is no third way."""

    @settings(max_examples=400)
    @given(st.lists(PIECES, max_size=14).map("".join))
    @example('k="a\\')
    @example('k=["a""b", c ], d=e=f')
    @example('k=a\n,b=["\n"]')
    def holds(text: str) -> None:
        try:
            expected: Json = model_of(text)
        except Broken:
            expected = "WA010"
        try:
            (found,) = sync.execute("select agent_internal.parse_spec(%s)", [text]).fetchone() or (
                None,
            )
        except psycopg.Error as error:
            found = error.sqlstate
        assert found == expected

    holds()


WORDS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)


@pytest.mark.slow
def test_whatever_is_quoted_comes_back(sync: psycopg.Connection) -> None:
    """A program that quotes everything can say anything."""

    def quoted(word: str) -> str:
        return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def listed(words: list[str]) -> str:
        return f"[{','.join(map(quoted, words))}]"

    @given(
        st.dictionaries(st.from_regex(_KEY, fullmatch=True), WORDS | st.lists(WORDS, max_size=3))
    )
    def holds(meaning: dict[str, Json]) -> None:
        text = ", ".join(
            f"{key}={quoted(said) if isinstance(said, str) else listed(said)}"
            for key, said in meaning.items()
        )
        row = sync.execute("select agent_internal.parse_spec(%s)::text", [text]).fetchone()
        assert row is not None
        assert json.loads(row[0]) == meaning

    holds()


@pytest.mark.parametrize(
    "statement",
    [
        "select agent.attach('support_tickets', 'model=fake, tools=[no_such_tool]')",
        "select agent.attach('support_tickets', 'model=fake, when=\"new.nothing > 1\"')",
        "select agent.attach('support_tickets', 'model=fake, colour=red')",
        "select agent.attach('support_tickets'::regclass, 'no_such_model')",
    ],
)
async def test_an_error_of_attach_is_shown_without_a_stack(
    conn: AsyncConnection, statement: str
) -> None:
    """Psql prints the message, the hint, and one line of context: the function that found it."""
    await run_all(conn, DESK)
    error = await refused(conn, statement)
    assert (error.diag.context or "").count("\n") == 0
    assert "attach(" in (error.diag.context or "")
