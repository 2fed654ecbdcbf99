"""The generated tables are those that `make docs` writes."""

import json
import re

import pytest

from tests import docs_attach
from tests.docs_generated import PAGES, described, regenerated
from tests.docs_pages import ROOT
from walagent.config.schema import json_schema


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_are_up_to_date(page: object) -> None:
    """A changed key, default, option or help text is on the page: run `make docs`."""
    text = (ROOT / "docs" / str(page)).read_text("utf-8")
    assert described(text), "the page has marked tables"
    assert regenerated(text) == text


def test_the_schema_in_the_docs_is_up_to_date() -> None:
    """Editors check against the keys of this version: run `make docs`."""
    text = (ROOT / "docs" / "agents.schema.json").read_text("utf-8")
    assert json.loads(text) == json_schema()


def test_the_keys_in_sql_are_up_to_date() -> None:
    """A key of agents.yaml is one of agent.attach(), with its default: run `make docs`."""
    assert docs_attach.PAGE.read_text("utf-8") == docs_attach.script()


def test_every_key_has_a_meaning() -> None:
    """A key without a docstring would have an empty cell."""
    empty = [
        f"{part}.{key}"
        for part, found in json_schema()["$defs"].items()
        for key, value in found["properties"].items()
        if not re.search(r"\w", value.get("description", ""))
    ]
    assert empty == []
