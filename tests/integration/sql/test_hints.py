"""What agent.attach says about common mistakes, without the stack of its functions."""

import os
import shutil
import subprocess

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, refused, run_all

SHOP = """
create schema shop;
create table shop.orders (id bigint primary key, category text);
"""
# Of each: target, spec, SQLSTATE, and what message or hint contain.
MISTAKES = [
    ("orders", "model=fake", "WA013", 'Did you mean "shop.orders"?'),
    ("shop.orders", 'model=fake, when="category is null"', "42702", "Write new.category"),
    ("support_tickets", "model=fake, tools=[refund_usr]", "WA011", 'Did you mean "refund_user"?'),
    (
        "support_tickets",
        "model=fake, max_steps=0",
        "WA010",
        "max_steps: must be an integer greater than 0",
    ),
    ("support_tickets", "model=fake, cap=0", "WA010", "cap: must be an integer greater than 0"),
    (
        "support_tickets",
        "model=fake, max_cost=-1",
        "WA010",
        "max_cost: must be a number greater than 0",
    ),
    ("support_tickets", "model=fake, max_seconds=0", "WA010", "max_seconds: must be"),
    ("support_tickets", "model=fake, max_attempts=0", "WA010", "max_attempts: must be"),
    (
        "support_tickets",
        "model=fake, max_depth=101",
        "WA010",
        "max_depth: must be an integer from 0 to 100",
    ),
    ("support_tickets", "model=fake, debounce=0s", "WA010", "debounce: must be a time such as"),
]
OTHERS = [
    ("support_tickets", "model=fake, colour=red"),
    ("support_tickets", "model=fake, tools=[no_such_tool]"),
    ("support_tickets", "model=no_such_model"),
    ("support_tickets", "tools=[refund_user]"),
    ("support_tickets", "model=fake, writes=[nothing]"),
    ("support_tickets", "model=fake, columns=[nothing]"),
    ("support_tickets", "model=fake, on=[upsert]"),
    ("support_tickets", "model=fake, run_as=nobody_at_all"),
    ("support_tickets", 'model=fake, when="exists (select 1)"'),
    ("support_tickets", 'model=fake, when="new.nothing > 1"'),
    ("support_tickets", 'model=fake, when="random() > 0.5"'),
    ("support_tickets", "model=fake, debounce=often"),
    ("support_tickets", "model=fake, ordering_key=[nothing]"),
    ("pg_class", "model=fake"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "spec", "state", "words"), MISTAKES)
async def test_a_mistake_is_answered_with_what_to_write(
    conn: AsyncConnection, target: str, spec: str, state: str, words: str
) -> None:
    """And no value of the row of a catalog is shown."""
    await run_all(conn, DESK + SHOP)
    error = await refused(conn, f"select agent.attach('{target}', '{spec}')")
    assert error.sqlstate == state
    assert words in f"{error.diag.message_primary} {error.diag.message_hint}"
    assert "Failing row" not in (error.diag.message_detail or "")


async def test_of_many_models_a_hint_names_the_closest(conn: AsyncConnection) -> None:
    """And how many there are."""
    await run_all(conn, DESK)
    await conn.execute(
        "insert into agent.model (name, provider, model_id)"
        " select 'many-' || n, 'openai', 'x' from generate_series(1, 40) n"
    )
    error = await refused(conn, "select agent.attach('support_tickets', 'model=many_7')")
    hint = error.diag.message_hint or ""
    assert hint.startswith('Did you mean "many-7"? The closest of ')
    assert hint.count(",") == 4


@pytest.mark.few(8)
@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")
@pytest.mark.parametrize(
    ("target", "spec"), [*((target, spec) for target, spec, *_ in MISTAKES), *OTHERS]
)
async def test_psql_prints_one_error_and_at_most_one_hint(
    conn: AsyncConnection, dsn: str, target: str, spec: str
) -> None:
    """PostgreSQL adds one line of context: the function that found it."""
    await run_all(conn, DESK + SHOP)
    await conn.commit()
    statement = f"select agent.attach('{target}', '{spec}')"
    ended = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        ["psql", "-X", "-d", dsn, "-c", statement],
        capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    first, *rest = ended.stderr.splitlines()
    assert first.startswith("ERROR:  ")
    kinds = [line.split(":")[0] for line in rest]
    assert kinds.count("HINT") <= 1
    assert set(kinds) <= {"DETAIL", "HINT", "CONTEXT"}
    assert sum(line.startswith("CONTEXT:") for line in rest) == 1
    assert rest[-1].startswith("CONTEXT:  PL/pgSQL function agent_internal.")
