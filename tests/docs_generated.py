"""Generated tables of the documentation: keys of agents.yaml, commands, and their options.

A page marks each table by two comments; what stands between them comes from the JSON Schema or from
click.  `make docs` writes it, and a test compares:

    <!-- generated: keys Replication -->
    <!-- generated: commands agents tools -->
    <!-- generated: options runs retry -->
    <!-- end -->
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import click
from pydantic import TypeAdapter

from tests import docs_attach, docs_schema
from tests.docs_pages import ROOT, slug
from walagent.cli import main
from walagent.cli.commands import COMMANDS, Entry, Group, walk
from walagent.config.base import in_bytes
from walagent.config.schema import json_schema

PAGES = (ROOT / "docs" / "configuration.md", ROOT / "docs" / "cli.md")
SHARED = ("--config", "--dsn", "--replication-dsn", "-d", "--token", "--json", "--help", "-h")
_schema = cache(json_schema)

_BLOCK = re.compile(r"(<!-- generated: (\w+) ([\w -]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_DEFAULT = re.compile(r"\s*Default: (.+)\.$")
_LIMITS = re.compile(r"(.*?)((?: \[[^]]*\])*)")  # help, then click's limits
_BETWEEN = re.compile(r"\] +\[")
_RANGE = re.compile(r"(\d+)<=x<=(\d+)")
_NUMBER = re.compile(r"(INTEGER|FLOAT)( RANGE)?")
_CHOICES = re.compile(r"\[([^]]*\|[^]]*)\]")
_WIDEST = 60  # characters of choices that a cell shows
_UNITS = ((86_400, "days"), (60, "minutes"), (1, "s"))

Table = tuple[Sequence[str], Iterator[Sequence[str]]]


def regenerated(text: str) -> str:
    """A page with its marked tables as they should be."""
    return _BLOCK.sub(lambda m: m[1] + _table(*KINDS[m[2]](m[3])) + m[4], text)


def described(text: str) -> list[tuple[str, str]]:
    """The marked tables of a page: kind and name."""
    return [(m[2], m[3]) for m in _BLOCK.finditer(text)]


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


# The keys of agents.yaml.


def _keys(name: str) -> Table:
    part = _schema()["$defs"][name]
    required = part.get("required", ())
    rows = (_key(key, found, required=key in required) for key, found in part["properties"].items())
    return ("key", "default", "meaning"), rows


def _key(key: str, found: Mapping[str, Any], *, required: bool) -> Sequence[str]:
    meaning = " ".join(found.get("description", "").split())
    words = _DEFAULT.search(meaning)
    default = words[1] if words else "required" if required else _default(found)
    return f"`{key}`", default, _cell(_DEFAULT.sub("", meaning))


def _default(found: Mapping[str, Any]) -> str:
    match found.get("default"):
        case bool(value):
            return f"`{str(value).lower()}`"
        case int() | float() | str() as value if value != "":
            return f"`{_in_units(value, found)}`"
        case [one]:
            return f"`{one}`"
        case _:
            return "none"


def _in_units(value: float | str, found: Mapping[str, Any]) -> str:
    patterns = "".join(each.get("pattern", "") for each in found.get("anyOf", ()))
    if "GB" in patterns:
        return in_bytes(int(value))
    if "ms" in patterns:
        return _time(TypeAdapter(timedelta).validate_python(value).total_seconds())
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _time(seconds: float) -> str:
    size, unit = next((s, u) for s, u in _UNITS if seconds >= 2 * s or s == 1)
    return f"{seconds / size:g} {unit}"


# Commands and their options.


def command_of(name: str) -> click.Command:
    """The command that is typed as *name*."""
    found: click.Command = main
    for word in name.split():
        assert isinstance(found, click.Group), name
        command = found.get_command(_context(), word)
        assert command is not None, name
        found = command
    return found


def _context() -> click.Context:
    return click.Context(main, **main.context_settings)


def _commands(name: str) -> Table:
    """The commands of a group with what they are called with; `walagent`: all groups."""
    entries = [each for many in COMMANDS.values() for each in many]
    group = next((each for path, each in walk() if " ".join(path) == name), None)
    path = ""
    if isinstance(group, Group):
        entries, path = list(group.entries), f"{name} "
    rows = ((_called(path, each), each.help) for each in entries)
    return ("command", "meaning"), rows


def _called(path: str, entry: Entry) -> str:
    full = f"{path}{entry.name}"
    if not path or isinstance(entry, Group):
        return f"[`{entry.name}`](#{slug(f'walagent {full}')})"
    words = [_brief(each) for each in command_of(full).params]
    return _cell(f"`{' '.join(filter(None, [entry.name, *words]))}`")


def _brief(parameter: click.Parameter) -> str:
    """A parameter as in a line of usage; "" for those that most commands have."""
    if isinstance(parameter, click.Argument):
        name = f"{parameter.human_readable_name}{'...' if parameter.nargs < 0 else ''}"
        return name if parameter.required or name[0] == "[" else f"[{name}]"
    assert isinstance(parameter, click.Option)
    record = parameter.get_help_record(_context())
    if record is None or parameter.opts[0] in SHARED:
        return ""
    *_, last = _names(parameter, record[0])
    return last if parameter.required else f"[{last}]{'...' if parameter.multiple else ''}"


def _options(name: str) -> Table:
    rows = (_option(each) for each in command_of(name).params if isinstance(each, click.Option))
    return ("option", "meaning"), (row for row in rows if row is not None)


def _option(option: click.Option) -> Sequence[str] | None:
    record = option.get_help_record(_context())
    if record is None or option.opts[0] in SHARED:
        return None
    names = ", ".join(f"`{each}`" for each in _names(option, record[0]))
    meaning, limits = _LIMITS.fullmatch(" ".join(record[1].split())).groups()  # type: ignore[union-attr]
    if limits:
        meaning += f" ({_BETWEEN.sub('; ', limits.strip(' []'))})"
    return _cell(names), _cell(_RANGE.sub(r"\1 to \2", meaning))


def _names(option: click.Option, shown: str) -> list[str]:
    if option.secondary_opts:
        return [*option.opts, *option.secondary_opts]
    *others, last = shown.split(", ")
    return [*others, _NUMBER.sub("N", _CHOICES.sub(_choices, last))]


def _choices(found: re.Match[str]) -> str:
    return found[1] if len(found[1]) < _WIDEST else "NAME"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


KINDS: Mapping[str, Callable[[str], Table]] = {
    "keys": _keys,
    "commands": _commands,
    "options": _options,
}


def write(pages: Sequence[Path] = PAGES) -> None:
    """Write the marked tables of the pages."""
    for page in pages:
        page.write_text(regenerated(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write()
    docs_attach.write()
    docs_schema.write()
