"""Dollars per 1,000 rows of classify and write, by what a provider bills.

The provider counts the tokens of what it receives, at 4 bytes a token, and of what it answers,
and bills them by a tariff, the tiers flex and batch at half of it. 1,000 rows have 89 distinct
texts, as the tickets of `walagent demo` repeated; without `reuse` each row is asked, `rows` with
up to nineteen others in a request.

What a cascade saves depends on what the rows say: beside two calls on the same rows, the texts are
those of the 78 tickets of `walagent demo` that are no examples of its agent, and the column is
their category. `embedded/e5` is asked first, with a control sample of 2 %.
"""

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from bench import workload
from bench.harness import OURS, Figure, Row
from bench.ours.prepare import Answers, attach, queue_runs
from bench.scripts import run_script
from bench.server import Place
from walagent.demo.tickets import definition, expected, schema, tickets
from walagent.message import Message, Reply, Request, Stop, Text, ToolCall, Usage
from walagent.testing import FakeProvider
from walagent.testing.provider import CREDENTIAL, KEY

_ROWS = 1_000
_TEXTS = 89
_BYTES = 4  # of a token
_INPUT, _OUTPUT = Decimal("0.25"), Decimal(2)  # US dollars per million tokens: gpt-5-mini
_VARIANTS = {
    "one_call": "tier = 'standard', reuse = null",
    "flex": "tier = 'flex', reuse = null",
    "batch": "tier = 'batch', reuse = null",
    "reuse": "tier = 'standard', reuse = '1 day'",
    "rows": "tier = 'standard', reuse = null, rows_per_request = 20",
    "rows_flex": "tier = 'flex', reuse = null, rows_per_request = 20",
}
_TWO = "two calls (finish=answer)"
_CASCADE = "tier = 'standard', reuse = null, rows_per_request = null, cascade = '{embedded/e5>0.5}'"
# A row has one of the texts; its number is in its body alone.
_NUMBERED = f"new.body := format('Text %s: %s', new.id % {_TEXTS}, new.body)"
_OF_DEMO = """\
select t.subject, t.body into new.subject, new.body
  from demo_ticket t where t.n = 1 + new.id % (select count(*) from demo_ticket)"""
_MEANS = re.compile(r"comment on column support_tickets\.category is\s*(?:'[^']*'\s*)+;")
_KEPT = """
select avg(kept::int)::float8, avg((k.category = t.category)::int) filter (where kept)::float8
  from agent.run r
       join ticket k on k.id = (r.change -> 'new' ->> 'id')::bigint
       join demo_ticket t on t.n = 1 + k.id % (select count(*) from demo_ticket)
       cross join lateral (
           select not exists (select from agent.step s
                               where s.run_id = r.id and s.content ->> 'stage' = '2') as kept) d
 where k.category is not null and exists (
       select from agent.step s where s.run_id = r.id and s.content ? 'stage')
"""


@dataclass(slots=True)
class _Bill:
    requests: int = 0
    dollars: Decimal = Decimal(0)

    def answer(self, request: Request) -> Reply:
        """Call update_row, or say that it is done; bill it."""
        done = any(message.role == "assistant" for message in request.messages)
        (tool,) = request.tools
        asked = _read(request)[1][0]["parts"][0]["text"].count("\nRow ") + 1
        schema = tool.input_schema["properties"]
        if tool.name == "update_rows":
            schema = schema["rows"]["items"]["properties"]
        column = list(schema)[-1]
        written = {column: workload.PRIORITY if column == "priority" else "billing"}
        entries = [{"row": n, **written} for n in range(1, asked + 1)]
        arguments = {"rows": entries} if tool.name == "update_rows" else written
        part = Text(workload.ANSWER) if done else ToolCall("call_0", tool.name, arguments)
        usage = Usage(_tokens(_read(request)), output_tokens=_tokens(asdict(part)))
        tier = request.tier or "default"
        cost = (usage.input_tokens * _INPUT + usage.output_tokens * _OUTPUT) / 1_000_000
        self.requests += 1
        self.dollars += cost / 2 if tier in {"flex", "batch"} else cost
        return Reply((part,), Stop.END if done else Stop.TOOL, usage, tier=tier)


def _read(request: Request) -> list[Any]:
    """Return what a model reads of a request."""
    messages: list[Message] = list(request.messages)
    return [request.system, [asdict(each) for each in messages], [asdict(t) for t in request.tools]]


def _tokens(value: object) -> int:
    return len(json.dumps(value, default=dict).encode()) // _BYTES


def ours(place: Place) -> Mapping[str, Any]:
    """As the agent is set: tiers, reuse, several rows in a request, the embedded model first."""
    found = dict[str, Any]()
    with _provider() as (provider, bill):
        _attach(place, provider, "finish = 'after_call', tool_choice = 'update_row'")
        for number, (name, settings) in enumerate(_VARIANTS.items(), 1):
            _set(place, settings)
            found[name] = _billed(place, bill, number)
            found[f"{name}_requests"] = bill.requests
        _categorize(place)
        _set(place, _CASCADE)
        found["cascade"] = _billed(place, bill, len(_VARIANTS) + 1)
        found["cascade_kept"], found["cascade_right"] = _kept(place)
        billed = sum(found[name] for name in (*_VARIANTS, "cascade"))
        found["recorded"] = _recorded(place) / billed
    return found


def two_calls(place: Place) -> Mapping[str, Any]:
    """The same agent, which answers in words after its call: as 0.1.0 of November 2026 did."""
    with _provider() as (provider, bill):
        _attach(place, provider, "finish = 'answer'")
        found: dict[str, Any] = dict.fromkeys(_VARIANTS, _billed(place, bill, 1))
        found["requests"] = bill.requests
        _categorize(place)
        return found | {"cascade": _billed(place, bill, 2)}


def _attach(place: Place, provider: FakeProvider, agent: str) -> None:
    base_url = provider.spec("openai").base_url
    assert base_url is not None
    attach(place.url, Answers("openai", base_url, CREDENTIAL))
    with psycopg.connect(place.url) as conn:
        conn.execute(
            "update agent.attachment set writes = '{priority}', columns = '{subject,body}'"
        )
        conn.execute(
            "update agent.model set (input_price, output_price, flex_factor, batch_factor)"
            " = (%s, %s, 0.5, 0.5) where name = 'bench'",
            [_INPUT, _OUTPUT],
        )
    _set(place, agent)
    _write_texts(place, _NUMBERED)


def _write_texts(place: Place, statement: str) -> None:
    """Give new rows their texts."""
    with psycopg.connect(place.url) as conn:
        conn.execute(
            "create or replace function text_of() returns trigger language plpgsql as"
            f" $$ begin {statement}; return new; end $$".encode()
        )
        conn.execute(
            b"create or replace trigger text_of before insert on ticket"
            b" for each row execute function text_of()"
        )


def _categorize(place: Place) -> None:
    """Give new rows the texts of the demo, and let the agent write their category instead."""
    labels, given = expected(), definition()
    examples = [each for each in given["examples"] if each["tool"] == "update_row"]
    with psycopg.connect(place.url) as conn:
        conn.execute(
            "create table demo_ticket (n integer primary key generated always as identity,"
            " subject text, body text, category text)"
        )
        for ticket in tickets():
            if labels[ticket.id].use != "example":
                conn.execute(
                    "insert into demo_ticket (subject, body, category) values (%s, %s, %s)",
                    [ticket.subject, ticket.body, labels[ticket.id].category],
                )
        values = sorted({label.category for label in labels.values()})
        conn.execute(
            sql.SQL("alter table ticket add category text check (category in ({}))").format(
                sql.SQL(", ").join(map(sql.Literal, values))
            )
        )
        (means,) = _MEANS.findall(schema().decode())
        conn.execute(means.replace("support_tickets", "ticket").encode())
        conn.execute("update agent.agent set examples = %s", [Jsonb(examples)])
        conn.execute("update agent.attachment set writes = '{category}'")
    _write_texts(place, _OF_DEMO)


def _kept(place: Place) -> tuple[float, float]:
    """Return the share of rows that the embedded model decided, and that of these it got right."""
    with psycopg.connect(place.url) as conn:
        row = conn.execute(_KEPT).fetchone()
    assert row is not None
    return row


def _set(place: Place, settings: str) -> None:
    with psycopg.connect(place.url) as conn:
        conn.execute(f"update agent.agent set {settings}".encode())


def _billed(place: Place, bill: _Bill, number: int) -> float:
    """Return the bill of another 1,000 rows.

    Args:
        number: of the thousand.
    """
    bill.requests, bill.dollars = 0, Decimal(0)
    queue_runs(place.url, _ROWS, number * _ROWS)
    run_script(
        "ours/drain",
        *("--url", place.url, "--postmaster", place.postmaster),
        *("--slots", 20, "--count", number * _ROWS, "--batches"),
        environ={CREDENTIAL: KEY},
    )
    return float(bill.dollars)


def _recorded(place: Place) -> float:
    with psycopg.connect(place.url) as conn:
        row = conn.execute("select sum(cost)::float8 from agent.step").fetchone()
    assert row is not None
    return row[0]


@contextmanager
def _provider() -> Iterator[tuple[FakeProvider, _Bill]]:
    """Run a provider on an event loop of its own, with its bill."""
    bill = _Bill()
    provider = FakeProvider([bill.answer, bill.answer], latency=0.05, keep=False)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(provider.start(), loop).result()
        yield provider, bill
        asyncio.run_coroutine_threadsafe(provider.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


ROW = Row(
    what="dollars per 1,000 rows, classify and write one column",
    beside=_TWO,
    sides={OURS: ours, _TWO: two_calls},
    figures=(
        Figure("one_call", over=_TWO, more_is_better=False),
        Figure("flex", over=_TWO, goal=0.26, more_is_better=False),
        Figure("batch", over=_TWO, goal=0.26, more_is_better=False),
        Figure("reuse", over=_TWO, goal=0.05, more_is_better=False),
        Figure("rows", over=_TWO, more_is_better=False),
        Figure("rows_flex", over=_TWO, goal=0.1, more_is_better=False),
        Figure("cascade", over=_TWO, goal=0.3, more_is_better=False),
        Figure("one_call", over=None, more_is_better=False, unit="dollars"),
        Figure("flex", over=None, more_is_better=False, unit="dollars"),
        Figure("batch", over=None, more_is_better=False, unit="dollars"),
        Figure("reuse", over=None, more_is_better=False, unit="dollars"),
        Figure("rows", over=None, more_is_better=False, unit="dollars"),
        Figure("rows_flex", over=None, more_is_better=False, unit="dollars"),
        Figure("cascade", over=None, more_is_better=False, unit="dollars"),
        Figure("cascade_kept", over=None, unit="of the rows"),
        Figure("cascade_right", over=None, unit="of these"),
        Figure("recorded", over=None, beside="billed"),
    ),
    rounds=1,
)
