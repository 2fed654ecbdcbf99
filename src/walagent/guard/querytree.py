"""Reading a stored rule: `pg_node_tree` as text, node by node.

Node types are words in capitals after `{`, fields begin with a colon, and every name that a user
chose has its special characters escaped, so nothing in a name can look like a node.

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
    """One node.  A field holds the words that stand right under it, as in `:opnos (o 96 97)`."""

    kind: str
    fields: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def numbers(self, *names: str) -> Iterator[int]:
        """The numbers in some fields: OIDs, where the field holds OIDs; 0 stands for none."""
        for name in names:
            for word in self.fields.get(name, ()):
                if word.isdecimal() and word != "0":
                    yield int(word)

    def has(self, name: str, value: str) -> bool:
        """Whether a field is exactly one word."""
        return self.fields.get(name) == [value]


def read_nodes(text: str) -> Iterator[Node]:
    """Give every node, inner ones first."""
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
