"""Reading a stored rule with its nesting: which query stands in which, and what it is made of.

`tree` reads the same text flat, for evaluating; here the places count.  In `queries`, the levels
of a statement come with the queries around them, which is where their CTEs are.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Value: TypeAlias = "Item | list[Value] | str"

_TOKEN: Final = re.compile(
    r"\{(?P<kind>[A-Z0-9_]*)|(?P<mark>[()}])|(?P<word>(?:\\.|[^\s(){}\\])+)", re.DOTALL
)


@dataclass(slots=True)
class Item:
    """One node: its kind, and its fields as they stand there."""

    kind: str
    fields: dict[str, "list[Value]"] = field(default_factory=dict[str, "list[Value]"])

    def word(self, name: str) -> str:
        """A field that is one word; "" where it is not there, or empty."""
        match self.fields.get(name):
            case [str(word), *_] if word != "<>":
                return word
            case _:
                return ""

    def words(self, name: str) -> Sequence[str]:
        """The words in a field that is a list of them."""
        match self.fields.get(name):
            case [list() as words]:
                return [word for word in words if isinstance(word, str)]
            case _:
                return ()

    def number(self, name: str) -> int:
        """A field that is one number; 0 where it is none."""
        word = self.word(name)
        return int(word) if word.isdecimal() else 0

    def items(self, name: str) -> "Sequence[Item]":
        """The nodes that stand right in a field, alone or in a list."""
        return list(_items(self.fields.get(name, [])))

    def item(self, name: str) -> "Item | None":
        """The first of them."""
        return next(iter(self.items(name)), None)


@dataclass(slots=True)
class _Open:
    """A node or list that is being read, and where what comes next belongs."""

    item: Item | None
    values: "list[Value]"


def read_rule(text: str) -> Sequence[Item]:
    """Read a rule; what is unbalanced gives nothing."""
    top: list[Value] = []
    open_ = [_Open(None, top)]
    for token in _TOKEN.finditer(text):
        here = open_[-1]
        if (kind := token["kind"]) is not None:
            made = Item(kind)
            here.values.append(made)
            open_.append(_Open(made, []))
        elif token["mark"] == "(":
            inner: list[Value] = []
            here.values.append(inner)
            open_.append(_Open(None, inner))
        elif token["mark"]:
            open_.pop()
        elif here.item is not None and token["word"].startswith(":"):
            here.values = here.item.fields.setdefault(token["word"][1:], [])
        else:
            here.values.append(token["word"])
        if not open_:
            return ()
    return list(_items(top))


def _items(values: Sequence[Value]) -> Iterator[Item]:
    for value in values:
        match value:
            case Item():
                yield value
            case list():
                yield from _items(value)
            case _:
                pass


def inside(item: Item) -> Iterator[Item]:
    """Give the nodes right below one."""
    for values in item.fields.values():
        yield from _items(values)


def queries(item: Item, around: tuple[Item, ...] = ()) -> Iterator[tuple[Item, tuple[Item, ...]]]:
    """Give every query in a node, each with those around it, the outermost first."""
    if item.kind == "QUERY":
        yield item, around
        around = (*around, item)
    for each in inside(item):
        yield from queries(each, around)
