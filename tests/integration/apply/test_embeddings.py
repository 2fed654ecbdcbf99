"""`walagent apply` of a file whose agents embed."""

from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import DESK, User

FILE = """
models:
  small: {provider: openai, model_id: text-embedding-3-small, dimensions: 1536}
agents:
  issues:
    model: small
    tool_choice: update_row
    attach:
      - table: support_tickets
        on: [insert, update]
        columns: [issue]
        writes: [embedding]
        embeds: true
        only_unchanged: true
        backfill: true
"""


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a table that has room for an embedding."""
    with psycopg.connect(dsn) as conn:
        conn.execute(DESK)
        conn.execute("alter table support_tickets add embedding real[], replica identity full")
    return User(tmp_path, dsn)


def test_a_file_attaches_what_agent_embed_attaches(user: User, dsn: str) -> None:
    """Once, and with a backfill."""
    user.writes(FILE)
    user.types("apply").worked()
    assert user.types("apply").worked().err.startswith("no changes")
    assert "issues" in user.types("agents", "backfills").worked().out
    with psycopg.connect(dsn, autocommit=True) as conn:
        found = conn.execute(
            "select definition -> 'dimensions', embeds, only_unchanged, version"
            " from agent.attachment"
        ).fetchone()
        assert found == (1536, True, True, 1)
        conn.execute("select agent.embed('support_tickets', '{issue}', 'embedding', 'small')")
        keys = "ops, columns, writes, embeds, only_unchanged, backfill"
        both = conn.execute(f"select {keys} from agent.attachment".encode()).fetchall()
        assert both[0] == both[1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", dimensions: 1536", "", 'model "small" makes no embeddings'),
        ("dimensions: 1536", "dimensions: 0", "dimensions"),
        ("columns: [issue]", "columns: [isue]", 'columns: column "isue"'),
        ("writes: [embedding]", "writes: [category]", "which holds no embedding"),
        ("only_unchanged: true", "only_unchanged: false", "embeds requires only_unchanged"),
        ("[insert, update]", "[delete]", "a row is embedded when it is inserted or updated"),
    ],
)
def test_what_cannot_be_embedded_is_named(user: User, old: str, new: str, said: str) -> None:
    """With exit code 2."""
    user.writes(FILE.replace(old, new))
    refused = user.types("apply")
    assert refused.code == 2
    assert said in refused.err
    assert "Traceback" not in refused.err
