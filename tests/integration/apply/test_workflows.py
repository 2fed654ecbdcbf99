"""`walagent apply` with workflows: created in order, compared, renewed with their agents."""

from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import User

FILE = """
models:
  fake: {provider: scripted, model_id: fake}
agents:
  clerk: {model: fake, system_prompt: Be brief.}
workflows:
  outer:
    nodes:
      - {name: sub, kind: subgraph, workflow: inner, arguments: {text: '{{text}}', none: null}}
      - {name: ask, kind: human, prompt: 'Send {{sub}}?', expires: 1 hour}
    edges:
      - {from: sub, to: ask, condition: "state ? 'sub'"}
      - {from: sub, to: __end__}
    timeout: 2h
    exits: ask
    description: Two steps.
  inner:
    nodes:
      - {name: clerk, kind: model, agent: clerk, prompt: '{{text}}'}
"""
VERSIONS = "select name, version from agent.workflow order by name"


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a database."""
    return User(tmp_path, dsn)


def applied(user: User, text: str) -> str:
    """What applying a file has printed."""
    user.writes(text)
    return user.types("apply").worked().out


def versions(dsn: str) -> list[tuple[str, int]]:
    """The newest version of each workflow."""
    with psycopg.connect(dsn) as db:
        return db.execute(VERSIONS).fetchall()


def test_workflows_of_a_file_are_applied_once(user: User, dsn: str) -> None:
    """Those inside of others first; a second time, there is nothing to do."""
    out = applied(user, FILE)
    assert out.index("+ workflow inner") < out.index("+ workflow outer")
    assert applied(user, FILE) == ""
    assert versions(dsn) == [("inner", 1), ("outer", 1)]
    shown = user.types("workflows", "show", "outer", "--json").worked().json
    assert shown["edges"][0]["condition"] == "state ? 'sub'"
    assert (shown["exits"], shown["timeout"]) == (["ask"], "2:00:00")


@pytest.mark.slow
def test_a_change_is_a_version_and_so_is_one_of_its_agent(user: User, dsn: str) -> None:
    """Only what changed is printed; what contains the agent is renewed, also from outside."""
    applied(user, FILE)
    out = applied(user, FILE.replace("timeout: 2h", "timeout: 3h"))
    assert out == "~ workflow outer\n    timeout: 7200 → 10800\n"
    assert versions(dsn) == [("inner", 1), ("outer", 2)]
    changed = FILE.replace("timeout: 2h", "timeout: 3h").replace("Be brief", "Be kind")
    assert "workflow" not in applied(user, changed)
    assert versions(dsn) == [("inner", 2), ("outer", 3)]
    prompt = (
        "select definition #>> '{nodes,sub,workflow,nodes,clerk,agent,system_prompt}'"
        " from agent.workflow_version where workflow = 'outer' order by version desc limit 1"
    )
    with psycopg.connect(dsn) as db:
        assert db.execute(prompt).fetchone() == ("Be kind.",)
    assert applied(user, changed) == ""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: human", "kind: humen", "workflows.outer.nodes[1].kind"),
        ("prompt: 'Send", "promt: 'Send", "promt"),
        ("to: ask,", "to: task,", "dangling_edge"),
        ("workflow: inner", "workflow: iner", "unknown_workflow"),
        ("agent: clerk,", "agent: cler,", "unknown_agent"),
        ("kind: model, agent: clerk", "kind: subgraph, workflow: outer", "contains itself"),
        ("state ? 'sub'", "state ->", "invalid_condition"),
    ],
)
def test_a_workflow_that_is_wrong_changes_nothing(
    user: User, dsn: str, old: str, new: str, said: str
) -> None:
    """The error names the entry."""
    assert old in FILE
    user.writes(FILE.replace(old, new))
    refused = user.types("apply")
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert versions(dsn) == []
