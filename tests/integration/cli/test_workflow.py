"""Workflows on the command line: from a file to a run that a person resumes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

from tests.helpers.daemon import daemon
from tests.integration.cli.user import User

FILE = """\
name: greet
description: Ask a person for a name.
nodes:
  - {name: ask, kind: human, type: input, prompt: 'What is your name?'}
  - {name: count, kind: function, function: count_letters}
edges:
  - {from: ask, to: count}
"""


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a database."""
    return User(tmp_path, dsn)


@pytest.fixture
def db(dsn: str) -> Iterator[Connection[Any]]:
    """A hand in the database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "create function count_letters(state jsonb) returns jsonb language sql as $$"
            " select jsonb_build_object('letters', length(state #>> '{ask,answer}')) $$"
        )
        yield conn


@pytest.mark.slow
@pytest.mark.usefixtures("db")
async def test_a_workflow_from_a_file_to_its_end(
    user: User, tmp_path: Path, conn: AsyncConnection, dsn: str
) -> None:
    """Created, checked, drawn, started, resumed, forked, and dropped at last."""
    file = tmp_path / "greet.yaml"
    file.write_text(FILE)

    async def types(*words: str) -> Any:  # noqa: ANN401 - what a command printed
        return (await asyncio.to_thread(user.types, "workflows", *words)).worked()

    await types("create", str(file))
    await types("create", str(file))
    (listed,) = (await types("list", "--json")).json
    assert (listed["name"], listed["version"], listed["nodes"]) == ("greet", 2, 2)
    shown = (await types("show", "greet", "--json")).json
    assert [each["name"] for each in shown["nodes"]] == ["ask", "count"]
    assert "human" in (await types("show", "greet")).out
    assert (await types("validate", "greet", "--json")).json == []
    assert (await types("dot", "greet")).out.startswith("digraph")
    async with daemon(conn, dsn, [], parts=("worker",)) as d:
        run = (await types("start", "greet", "--input", '{"from": "test"}')).out.strip()
        await d.until("select state = 'waiting_approval' from agent.run where id = %s", run)
        (waits,) = (await types("interrupts", "--json")).json
        assert (waits["run_id"], waits["prompt"]) == (int(run), "What is your name?")
        await types("resume", run, "--answer", "Ada")
        await d.until("select state = 'succeeded' from agent.run where id = %s", run)
        states = (await types("state", run, "--json")).json
        assert states[-1]["state"]["letters"] == 3
        assert (states[-1]["came_from"], states[-1]["node"]) == ("count", None)
        after = next(each["number"] for each in states if each["node"] == "count")
        patch = '{"ask": {"answer": "Grace"}}'
        other = (await types("fork", run, str(after), "--patch", patch)).out.strip()
        await d.until("select state = 'succeeded' from agent.run where id = %s", other)
        assert (await types("state", other, "--json")).json[-1]["state"]["letters"] == 5
    runs = (await types("runs", "greet", "--json")).json
    assert [(each["id"], each["state"]) for each in runs] == [
        (int(other), "succeeded"),
        (int(run), "succeeded"),
    ]
    await types("drop", "greet")
    assert (await types("list", "--json")).json == []


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: []", 'the key "name" is missing'),
        ("name: w\nnode: []\nnodes: []", 'unknown key "node"'),
        ("[1]", "expected the keys name and nodes"),
        ("name: w\nnodes:\n  - {name: a, kind: nothing}", "a"),
        ("name: w\nnodes:\n  - {name: a, kind: router}\nedges:\n  - {from: a, to: b}", "b"),
    ],
)
def test_a_file_that_is_wrong(user: User, tmp_path: Path, text: str, said: str) -> None:
    """Nothing is created; the error names what is wrong."""
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    refused = user.types("workflows", "create", str(file))
    assert refused.code == 2
    assert said in refused.err
    assert user.types("workflows", "list", "--json").worked().json == []


def test_a_workflow_that_does_not_exist(user: User) -> None:
    """Whatever is asked of it."""
    for words in (["show"], ["validate"], ["dot"], ["start"], ["drop"]):
        refused = user.types("workflows", *words, "nothing")
        assert (refused.code, "does not exist" in refused.err) == (2, True), refused.err
    assert user.types("workflows", "start", "nothing", "--input", "[1]").code == 2
