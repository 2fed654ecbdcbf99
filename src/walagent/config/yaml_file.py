"""Parse YAML into plain values, with the line of each.

Only ``true`` and ``false`` are booleans, as in YAML 1.2: the key ``on`` is a string.  A duplicate
key is an error; otherwise the first value would be lost silently.
"""

import re
from dataclasses import dataclass
from typing import cast

import yaml

from walagent.errors import ConfigError
from walagent.message import Json

Path = tuple[str | int, ...]

_DEEPEST = 50  # levels; agents.yaml has eight
_MOST = 100_000  # values; each use of an alias counts, or a short file could fill the memory


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file, and the line of each value."""

    name: str
    value: Json
    lines: dict[Path, int]

    def place(self, path: Path) -> str:
        """Return the location of *path*; of a missing key, the location of its parent."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines[path]}" if path in self.lines else self.name


def read_yaml(text: str, name: str) -> Document:
    """Read one YAML document.

    Raises:
        ConfigError: invalid YAML, a duplicate key, or a value of an unsupported type.
    """
    try:
        node = yaml.compose(text, Loader=_YamlLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{name}{line}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: invalid YAML: {type(error).__name__}") from error
    if node is None:
        return Document(name, {}, {})
    lines: dict[Path, int] = {}
    value = _Reader(name, lines).read(node, ())
    return Document(name, value, lines)


class _YamlLoader(yaml.SafeLoader):
    """Parses YAML 1.1, except that yes, no, on, off and dates remain strings."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's interface
        first: [
            (tag, pattern)
            for tag, pattern in found
            if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
        ]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_YamlLoader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
    "tag:yaml.org,2002:bool", re.compile("true|True|TRUE|false|False|FALSE"), list("tTfF")
)


class _Reader:
    """Builds plain values from nodes, and records the line of each."""

    def __init__(self, name: str, lines: dict[Path, int]) -> None:
        self._name = name
        self._lines = lines
        self._loader = _YamlLoader("")
        self._read = 0

    def read(self, node: yaml.Node, path: Path) -> Json:
        self._lines.setdefault(path, node.start_mark.line + 1)
        self._count(node)
        if len(path) > _DEEPEST:
            raise self._error(node, "nesting is too deep, or an alias contains itself")
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [self.read(item, (*path, n)) for n, item in enumerate(node.value)]
            case _:
                return self._scalar(node)

    def _count(self, node: yaml.Node) -> None:
        self._read += 1
        if self._read > _MOST:
            raise self._error(node, f"more than {_MOST:,} values, counting each use of an alias")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Json]:
        self._count(node)
        out: dict[str, Json] = {}
        given: set[str] = set()
        for key_node, value_node in node.value:
            key = key_node.value
            if key_node.tag == "tag:yaml.org,2002:merge":
                out = self._merged(value_node, path) | out
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, "a key must be a string")
            if key in given:
                raise self._error(key_node, f'duplicate key "{key}"')
            given.add(key)
            self._lines[*path, key] = key_node.start_mark.line + 1
            out[key] = self.read(value_node, (*path, key))
        return out

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Json]:
        """Read the mappings of ``<<``; explicit keys take precedence."""
        many = node.value if isinstance(node, yaml.SequenceNode) else [node]
        out: dict[str, Json] = {}
        for one in many:
            if not isinstance(one, yaml.MappingNode):
                raise self._error(node, "<< requires a mapping")
            out = self._mapping(one, path) | out
        return out

    def _scalar(self, node: yaml.Node) -> Json:
        try:
            value = cast("object", self._loader.construct_object(node))  # pyright: ignore[reportUnknownMemberType]
        except (yaml.YAMLError, ValueError) as error:
            raise self._error(
                node, f"invalid value of type {node.tag.rpartition(':')[2]}"
            ) from error
        if not isinstance(value, str | int | float | None):
            raise self._error(node, f"unsupported type {type(value).__name__}")
        return value

    def _error(self, node: yaml.Node, problem: str) -> ConfigError:
        return ConfigError(f"{self._name}:{node.start_mark.line + 1}: {problem}")
