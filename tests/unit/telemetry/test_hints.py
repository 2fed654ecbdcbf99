"""Hints in the source are printed as they are written."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import walagent
from walagent.telemetry.mask import mask

SOURCE = Path(walagent.__file__).parent


def hints() -> Iterator[str]:
    """The values of `hint=`, with a key's name for each placeholder."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                yield from filter(None, map(_text, ast.walk(node.value)))


def _text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            text = ""
            for part in parts:
                text += str(part.value) if isinstance(part, ast.Constant) else _named(text)
            return text
        case _:
            return None


def _named(before: str) -> str:
    """The name of a key, where the placeholder can be one."""
    return "OPENAI_API_KEY" if not before.endswith("--attachment ") else "desk"


@pytest.mark.parametrize("hint", sorted(set(hints())))
def test_a_hint_survives_the_masking_of_secrets(hint: str) -> None:
    """A masked command cannot be used."""
    assert mask(hint) == hint
