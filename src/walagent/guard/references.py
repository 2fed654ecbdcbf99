"""Read what a stored rule refers to, and refuse nodes that no list contains.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from walagent.errors import StatementRefusedError
from walagent.guard import allowlist
from walagent.guard.querytree import Node, read_nodes
from walagent.guard.size import Sizes, UnreadLiteralError, octets

_LONGEST: Final = 10_000_000


@dataclass(slots=True)
class References:
    """References in a stored rule that are not checked yet."""

    functions: set[int] = field(default_factory=set[int])
    operators: set[int] = field(default_factory=set[int])
    types: set[int] = field(default_factory=set[int])
    relations: set[int] = field(default_factory=set[int])
    counting: bool = False  # whether numbers of rows are read
    named: list[str] = field(default_factory=list[str])  # types named by texts
    parsing: int = 0  # calls that are given such a text
    values: set[int] = field(default_factory=set[int])  # types of values, also of columns
    json: bool = False  # whether a value is converted to JSON
    comparing: bool = False  # whether values are compared by the default of their type


def read_references(rule: str, where: str, literals: Sequence[str] = ()) -> References:
    """Read a rule, check its nodes, and return what they refer to.

    Args:
        where: the object that has the rule, for messages.
        literals: what its NULLs can stand for.

    Raises:
        UnreadLiteralError: it could be refused for one of these.
        StatementRefusedError: it is refused.
    """
    if len(rule) > _LONGEST:
        raise StatementRefusedError(f"{where}the statement is too large: {len(rule):,} bytes")
    found, sizes = References(), Sizes(where, literals)
    for node in read_nodes(rule):
        _check_node(node, where)
        sizes.add(node)
        found.counting |= _selects(node, allowlist.COUNTS)
        if not allowlist.PARSING.isdisjoint(node.numbers("funcid")):
            found.parsing += 1
            found.named += _named_types(node, where, unread=bool(literals))
        found.json |= node.kind in allowlist.JSON_NODES
        found.comparing |= node.kind == "MINMAXEXPR"
        found.values.update(node.numbers("vartype", *allowlist.TYPE_FIELDS))
        found.functions.update(node.numbers(*allowlist.FUNCTION_FIELDS))
        found.operators.update(node.numbers(*allowlist.OPERATOR_FIELDS))
        if node.kind != "VAR":
            found.types.update(node.numbers(*allowlist.TYPE_FIELDS))
        if node.kind in {"RANGETBLENTRY", "RTEPERMISSIONINFO"}:
            found.relations.update(node.numbers("relid"))
    return found


def _named_types(node: Node, where: str, *, unread: bool) -> Sequence[str]:
    """Return the name of the type that a call parses a text as; none for NULL."""
    args = node.nodes.get("args", [])
    if len(args) != 2 or args[1].kind != "CONST" or not args[1].has("constlen", "-1"):  # noqa: PLR2004
        raise StatementRefusedError(f"{where}the name of a type must be a constant")
    if args[1].has("constisnull", "true"):
        if unread:
            raise UnreadLiteralError(f"{where}the name of a type is not known")
        return ()
    return [octets(args[1])[4:].decode(errors="replace")]


def _check_node(node: Node, where: str) -> None:
    """Reject what no list of functions and relations contains."""
    if node.kind == "ROWMARKCLAUSE":
        raise StatementRefusedError(f"{where}FOR UPDATE and FOR SHARE are not allowed")
    if node.kind not in allowlist.NODES:
        raise StatementRefusedError(f"{where}{node.kind} is not on the allowlist")
    if _selects(node, allowlist.BODIES):
        raise StatementRefusedError(f"{where}the source of functions must not be read")
    if node.kind == "QUERY" and not node.has("commandType", "1"):
        raise StatementRefusedError(f"{where}data-modifying statements are not allowed")


def _selects(node: Node, columns: Mapping[int, frozenset[int]]) -> bool:
    """Return whether a node selects one of these columns, which are by relation."""
    # A bitmap of column numbers, shifted by those of system columns (sysattr.h).
    selected = {number - 7 for number in node.numbers("selectedCols")}
    return any(
        not columns.get(relation, frozenset()).isdisjoint(selected)
        for relation in node.numbers("relid")
    )
