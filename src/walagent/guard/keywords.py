"""Refuse what stands for something else than the table or column that its author meant.  Pure.

Without quotes, `user` is the name of the current role, also where the schema has a table or column
"user" or "User".  `u.count` counts the rows of *u* if it has no column `count`, only a "Count".

Source: src/include/nodes/primnodes.h, SQLValueFunctionOp; the same from 15 to 18.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from walagent.guard.literals import tokens
from walagent.guard.querytree import Node, name_of, names_of, read_nodes
from walagent.postgres.quoting import quote_name

_KEYWORDS: Final[Mapping[str, str]] = {
    "0": "current_date",
    "1": "current_time",
    "2": "current_time",
    "3": "current_timestamp",
    "4": "current_timestamp",
    "5": "localtime",
    "6": "localtime",
    "7": "localtimestamp",
    "8": "localtimestamp",
    "9": "current_role",
    "10": "current_user",
    "11": "user",
    "12": "session_user",
    "13": "current_catalog",
    "14": "current_schema",
}
_SYSTEM_USER: Final = 6311  # the function that this keyword calls since PostgreSQL 16
_OF_TIME: Final = ("current_date", "current_time", "localtime")  # how their names start
_RELATION: Final = "0"  # RTEKind of parsenodes.h, as the next one
_FUNCTION: Final = "3"


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords in a statement that could stand for something else.

    Args:
        tables: that are read as tables.
        columns: that are read as values, each with the column that it could stand for.
        rows: functions that are called with a row as their only argument, by OID, each with the
            columns of the row.
    """

    tables: set[str] = field(default_factory=set[str])
    columns: dict[str, str] = field(default_factory=dict[str, str])
    rows: dict[int, set[str]] = field(default_factory=dict[int, "set[str]"])


def read_keywords(rule: str) -> Keywords:
    """Read the keywords from the rule of a statement."""
    found = Keywords()
    if "{SQLVALUEFUNCTION " not in rule and f" {_SYSTEM_USER} " not in rule and not _rows(rule):
        return found
    nodes = list(read_nodes(rule))
    shown = dict(_columns(nodes))
    for node in nodes:
        if keyword := _keyword(node):
            if _is_table(node):
                found.tables.add(keyword)
            elif keyword in shown:
                found.columns[keyword] = shown[keyword]
        elif node.kind in {"AGGREF", "FUNCEXPR"}:
            _read_row(node, found)
    return found


def against_keywords(
    found: Keywords, text: str, tables: Mapping[str, str], functions: Mapping[int, str]
) -> str:
    """Return why a statement means something else than it seems to; "" if it does not.

    Args:
        tables: quoted names of the catalog's tables, by what they are in small letters.
        functions: the names of those in *found*.
    """
    for keyword in sorted(found.tables):
        if table := tables.get(keyword):
            return f"{keyword} is a keyword, not a table; the table is {table}"
        if not keyword.startswith(_OF_TIME):
            return f"{keyword} is a keyword, not a table"
    for keyword, column in sorted(found.columns.items()):
        role = "; for the current role, write current_user" if keyword == "user" else ""
        return f"{keyword} is a keyword, not a column; the column is {column}{role}"
    for function, columns in found.rows.items():
        name = functions.get(function, "")
        if name and _follows_dot(text, name):
            column = next((each for each in sorted(columns) if each.casefold() == name), "")
            instead = f"; the column is {quote_name(column)}" if column else ""
            return f'"{name}" is not a column here, but a function of the whole row{instead}'
    return ""


def _rows(rule: str) -> bool:
    return ":varattno 0 " in rule


def _keyword(node: Node) -> str:
    if node.kind == "SQLVALUEFUNCTION":
        return _KEYWORDS.get(next(iter(node.fields.get("op", ())), ""), "")
    if node.kind == "FUNCEXPR" and node.has("funcid", str(_SYSTEM_USER)):
        return "system_user"
    return ""


def _is_table(node: Node) -> bool:
    return node.parent is not None and node.parent.kind == "RANGETBLFUNCTION"


def _columns(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """Give the columns of a statement's tables and those that it names itself: quoted, by keyword.

    A column that has its name from the keyword is not one of them.
    """
    known = {*_KEYWORDS.values(), "system_user"}
    for node in nodes:
        if node.kind == "RANGETBLENTRY" and node.has("rtekind", _RELATION):
            alias, names = _alias(node), _names(node)
        elif node.kind == "TARGETENTRY" and not node.has("resjunk", "true") and _renames(node):
            alias, names = "", [name_of(word) for word in node.fields.get("resname", ())[:1]]
        else:
            continue
        for name in names:
            if name.casefold() in known:
                # Also where it is written in small letters: it needs the quotes for the keyword.
                quoted = '"' + name.replace('"', '""') + '"'
                before = f"{quote_name(alias)}." if alias else ""
                yield name.casefold(), before + quoted


def _renames(target: Node) -> bool:
    """Return whether a column of a result has a name of its own."""
    expr = target.node("expr")
    while expr is not None and expr.kind in {"RELABELTYPE", "COERCEVIAIO"}:
        expr = expr.node("arg")
    if expr is None or _keyword(expr):
        return False
    if expr.kind != "VAR":
        return True
    entry = _entry(expr)
    number = next(expr.numbers("varattno"), 0)
    names = _names(entry) if entry is not None else []
    name = [name_of(word) for word in target.fields.get("resname", ())[:1]]
    return names[number - 1 : number] != name


def _entry(var: Node) -> Node | None:
    """Return the entry of FROM that a column is of."""
    query = var.query(next(var.numbers("varlevelsup"), 0))
    entries = query.nodes.get("rtable", []) if query is not None else []
    number = next(var.numbers("varno"), 0)
    return entries[number - 1] if 0 < number <= len(entries) else None


def _names(entry: Node) -> list[str]:
    eref = entry.node("eref")
    return names_of(eref.fields.get("colnames", ())) if eref is not None else []


def _alias(entry: Node) -> str:
    eref = entry.node("eref")
    words = eref.fields.get("aliasname", ()) if eref is not None else ()
    return name_of(words[0]) if words else ""


def _read_row(node: Node, found: Keywords) -> None:
    args = node.nodes.get("args", [])
    args = [each.node("expr") if each.kind == "TARGETENTRY" else each for each in args]
    if len(args) != 1 or args[0] is None or not _is_row(args[0]):
        return
    entry = _entry(args[0])
    for function in node.numbers("aggfnoid", "funcid"):
        found.rows.setdefault(function, set()).update(_names(entry) if entry is not None else ())


def _is_row(node: Node) -> bool:
    return node.kind == "VAR" and node.has("varattno", "0")


def _follows_dot(text: str, name: str) -> bool:
    """Return whether a name is written like a column: after a dot, not before a parenthesis."""
    words = [token for _, token in tokens(text)]
    is_name: Callable[[str], bool] = lambda word: word.strip('"').casefold() == name  # noqa: E731
    return any(
        dot == "." and is_name(word) and after != "("
        for dot, word, after in zip(words, words[1:], [*words[2:], ""], strict=False)
    )
