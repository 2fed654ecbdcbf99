"""Parse a stored rule (`pg_node_tree` text) into nodes.

A node type is in capitals after `{`, a field starts with a colon, and the special characters of
user-defined names are escaped, so no name can look like a node.

Source: src/backend/nodes/outfuncs.c, outToken(); the same from 15 to 18.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from walagent.errors import StatementRefusedError

DEEPEST: Final = 2000  # nodes; a subquery takes about three

_TOKEN = re.compile(
    r"\{(?P<kind>[A-Z0-9_]*)|(?P<close>\})|(?P<word>(?:\\.|[^\s(){}\\])+)", re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(slots=True)
class Node:
    """One node.  A field has the words directly below it, as in `:opnos (o 96 97)`.

    Args:
        nodes: the nodes directly below it, by field, those of lists too.
        parent: the node that it is below.
    """

    kind: str
    fields: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    nodes: "dict[str, list[Node]]" = field(default_factory=dict[str, "list[Node]"])
    parent: "Node | None" = field(default=None, repr=False)

    def numbers(self, *names: str) -> Iterator[int]:
        """Yield the numbers in these fields: OIDs, if the field has OIDs; 0 means none."""
        for name in names:
            for word in self.fields.get(name, ()):
                if word.isdecimal() and word != "0":
                    yield int(word)

    def has(self, name: str, value: str) -> bool:
        """Return whether a field is exactly this word."""
        return self.fields.get(name) == [value]

    def node(self, name: str) -> "Node | None":
        """Return the first node in a field."""
        return next(iter(self.nodes.get(name, ())), None)

    def query(self, levels: int) -> "Node | None":
        """Return the query around this node, or the one that many levels above it."""
        found = self.parent
        while found is not None and (found.kind != "QUERY" or levels):
            levels -= found.kind == "QUERY"
            found = found.parent
        return found


def read_nodes(text: str) -> Iterator[Node]:
    """Yield every node, inner ones first.

    Raises:
        StatementRefusedError: they are nested too deeply.
    """
    open_: list[tuple[Node, list[str]]] = []
    for token in _TOKEN.finditer(text):
        if (kind := token["kind"]) is not None:
            if len(open_) > DEEPEST:
                raise StatementRefusedError("the statement is nested too deeply")
            node = Node(kind)
            if open_:
                node.parent, last = open_[-1]
                node.parent.nodes.setdefault(last[0] if last else "", []).append(node)
            open_.append((node, []))
        elif token["close"]:
            yield open_.pop()[0]
        elif open_:
            node, last = open_[-1]
            word = token["word"]
            if word.startswith(":"):
                last[:] = [word[1:]]
                node.fields.setdefault(word[1:], [])
            elif last:
                node.fields[last[0]].append(word)


def name_of(word: str) -> str:
    """Remove the quotes and escapes that a stored rule has around a name."""
    return _ESCAPED.sub(r"\1", word.removeprefix('"').removesuffix('"'))


def names_of(words: Iterable[str]) -> list[str]:
    """Return the names of a list of columns."""
    return [name_of(word) for word in words]
