"""Fenced blocks that need no database: configurations, scripts, Python, and commands."""

import ast
import inspect
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from tests.docs_pages import ROOT, Block, blocks, pages
from walagent.cli import main
from walagent.config.environment import Environment
from walagent.config.loading import parse_text
from walagent.testing import read_script

LANGUAGES = {"", "console", "ini", "json", "mermaid", "python", "sql", "text", "ts", "tsx", "yaml"}
KINDS = {"sql": {"run", "by"}, "text": {"result"}}  # words that say what a test does with a block
MAKE_TARGETS = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))

ALL = [block for page in pages() for block in blocks(page)]


def _blocks(language: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", [b for b in ALL if b.language == language], ids=str)


@pytest.mark.parametrize("block", ALL, ids=str)
def test_every_block_says_what_it_is(block: Block) -> None:
    """A statement that nobody runs is said to be one, so none is left out by accident."""
    assert block.language in LANGUAGES
    is_said = block.option("file") or KINDS.get(block.language, set()) & set(block.words)
    assert block.language not in KINDS or is_said


@_blocks("yaml")
def test_every_configuration_and_script_is_valid(block: Block, tmp_path: Path) -> None:
    """What is copied from a page works."""
    if "script" in block.words:
        path = tmp_path / "script.yaml"
        path.write_text(block.text)
        assert read_script(path).replies
    else:
        config = parse_text(block.text, "agents.yaml", Environment({}))
        assert config.model_fields_set


@_blocks("json")
def test_every_json_block_is_json(block: Block) -> None:
    """What is copied into another program's configuration can be read by it."""
    assert json.loads(block.text)


@_blocks("python")
async def test_every_python_block_runs(block: Block) -> None:
    """Imports, names and calls are those of this version; its own asserts hold.

    Of one that needs somebody's own database, the imports.
    """
    tree = ast.parse(block.text)
    if "by" in block.words:
        tree.body = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    code = compile(tree, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    module = ModuleType("page")  # tools are found by the module that they are defined in
    sys.modules["page"] = module
    try:
        result: Any = eval(code, vars(module))  # noqa: S307 - our own pages
        if inspect.iscoroutine(result):
            await result
    finally:
        del sys.modules["page"]


@_blocks("console")
def test_every_command_exists_with_its_options(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a page tells people to type is understood, beside the files of the page."""
    for other in blocks(block.page):
        if name := other.option("file"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(other.text)
            monkeypatch.chdir(tmp_path)
    for words in _commands(block):
        match words:
            case ["make", target, *_]:
                assert target in MAKE_TARGETS, target
            case [program, *arguments] if Path(program).name == "walagent":
                _parse(arguments)
            case _:
                pass


def _commands(block: Block) -> Iterator[list[str]]:
    text = block.text.replace("\\\n", " ")
    for line in (line for line in text.splitlines() if line.startswith("$ ")):
        for command in re.split(r"&&|\||;", line.removeprefix("$ ")):
            yield [word for word in shlex.split(command) if word != "&"]


def _parse(arguments: list[str]) -> None:
    """Let click read the words, up to where it would run the command."""
    found: click.Command = main
    context = click.Context(main, **main.context_settings)
    while isinstance(found, click.Group) and arguments:
        name, *arguments = arguments
        command = found.get_command(context, name)
        assert command is not None, name
        found = command
    with found.make_context(found.name, arguments, parent=context):
        pass


def test_the_commands_of_the_pages_are_found() -> None:
    """The test above has something to look at."""
    used = {" ".join(words[:2]) for b in ALL if b.language == "console" for words in _commands(b)}
    assert {"make test", "walagent init", "walagent run", ".venv/bin/walagent demo"} <= used
