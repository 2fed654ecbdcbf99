"""Parse a stored rule (`pg_node_tree` text) into nodes.

A node type is in capitals after `{`, a field starts with a colon, and the special characters of
user-defined names are escaped, so no name can look like a node.

Source: src/backend/nodes/outfuncs.c, outToken(); the same from 15 to 18.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"\{(?P<kind>[A-Z0-9_]*)|(?P<close>\})|(?P<word>(?:\\.|[^\s(){}\\])+)", re.DOTALL
)


@dataclass(slots=True)
class Node:
    """One node.  A field has the words directly below it, as in `:opnos (o 96 97)`."""

    kind: str
    fields: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def numbers(self, *names: str) -> Iterator[int]:
        """Yield the numbers in these fields: OIDs, if the field has OIDs; 0 means none."""
        for name in names:
            for word in self.fields.get(name, ()):
                if word.isdecimal() and word != "0":
                    yield int(word)

    def has(self, name: str, value: str) -> bool:
        """Return whether a field is exactly this word."""
        return self.fields.get(name) == [value]


def read_nodes(text: str) -> Iterator[Node]:
    """Yield every node, inner ones first."""
    open_: list[tuple[Node, list[str]]] = []
    for token in _TOKEN.finditer(text):
        if (kind := token["kind"]) is not None:
            open_.append((Node(kind), []))
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
