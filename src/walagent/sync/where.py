"""Parse the where clause of a shape.

Only what is named here can be part of it; everything else is an error with its position.  The
result is a tree, which prints SQL of its own: the text of a client is never a part of a statement.

Source: PostgreSQL docs, 4.1.6 Operator Precedence.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from walagent.sync.expression import (
    FORMS,
    FUNCTIONS,
    TYPES,
    Among,
    Array,
    Between,
    Binary,
    Call,
    Cast,
    Column,
    InSelect,
    Like,
    Literal,
    Node,
    Quantified,
    Select,
    Test,
    Unary,
    children,
)
from walagent.sync.lexer import Token, WhereError, tokens

MAX_LENGTH: Final = 16_384  # characters
MAX_DEPTH: Final = 100
MAX_SELECTS: Final = 5

_OR, _AND, _NOT, _IS, _COMPARE, _IN, _OTHER, _ADD, _MULTIPLY, _POWER, _SIGN, _CAST = range(1, 13)
_COMPARISONS: Final = frozenset({"=", "<>", "<", ">", "<=", ">="})
_OPERATORS: Final[Mapping[str, int]] = {
    **dict.fromkeys(_COMPARISONS, _COMPARE),
    "!=": _COMPARE,
    **dict.fromkeys(("||", "@>", "<@", "&&", "&", "|", "#", "<<", ">>"), _OTHER),
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
    "%": _MULTIPLY,
    "^": _POWER,
}
_WORDS: Final[Mapping[str, int]] = {
    "or": _OR,
    "and": _AND,
    "is": _IS,
    "isnull": _IS,
    "notnull": _IS,
    "not": _IN,  # NOT IN, NOT LIKE, NOT BETWEEN
    "in": _IN,
    "between": _IN,
    "like": _IN,
    "ilike": _IN,
}
# Words that cannot be the name of a column without quotes.
_RESERVED: Final = frozenset({
    "all", "and", "any", "array", "between", "case", "cast", "false", "from", "ilike", "in", "is",
    "isnull", "like", "not", "notnull", "null", "or", "select", "some", "symmetric", "true", "when",
    "where",
})  # fmt: skip
_TYPE_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in TYPES},
    "integer": "int4",
    "int": "int4",
    "bigint": "int8",
    "smallint": "int2",
    "boolean": "bool",
    "decimal": "numeric",
    "real": "float4",
}


def parse_where(
    text: str, params: Mapping[int, str] | None = None, *, selects: bool = False
) -> Node:
    """Parse a boolean expression over the columns of one table.

    Args:
        params: the values of $1, $2, …
        selects: whether it may have sub-selects.

    Raises:
        WhereError: it is not within the grammar, or a parameter is missing or unused.
    """
    if len(text) > MAX_LENGTH:
        raise WhereError(f"is longer than {MAX_LENGTH} characters", MAX_LENGTH)
    parser = _Parser(list(tokens(text)), params or {}, MAX_SELECTS if selects else 0)
    return parser.whole()


class _Parser:
    """A Pratt parser: each operator has a precedence, and takes what binds closer."""

    def __init__(self, found: Sequence[Token], params: Mapping[int, str], selects: int) -> None:
        self._tokens = found
        self._params = params
        self._most_selects = selects
        self._select_count = 0
        self._source = ""
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        """Parse to the end."""
        node = self._expression(0)
        if self._token.kind != "end":
            raise self._unexpected()
        _check_height(node)
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _unexpected(self, token: Token | None = None) -> WhereError:
        token = token or self._token
        if token.kind == "end":
            return WhereError("syntax error at end of input", token.position)
        return WhereError(f'syntax error at or near "{token.text}"', token.position)

    def _next(self) -> Token:
        token = self._token
        self._at += token.kind != "end"
        return token

    def _is(self, *texts: str) -> bool:
        return self._token.kind in {"word", "op"} and self._token.text in texts

    def _accept(self, *texts: str) -> bool:
        if self._is(*texts):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected()

    def _expression(self, least: int) -> Node:
        """Parse what binds closer than *least*."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise WhereError(f"is nested deeper than {MAX_DEPTH}", self._token.position)
        node = self._prefix()
        while (precedence := self._precedence()) > least:
            node = self._infix(node, precedence)
        self._depth -= 1
        return node

    def _precedence(self) -> int:
        token = self._token
        if token.kind == "op":
            return _CAST if token.text == "::" else _OPERATORS.get(token.text, 0)
        return _WORDS.get(token.text, 0) if token.kind == "word" else 0

    def _prefix(self) -> Node:
        token = self._next()
        match token.kind:
            case "number":
                return Literal(token.text, is_number=True)
            case "string":
                return Literal(token.text)
            case "param":
                return self._param(token)
            case "quoted":
                return Column(token.text, self._source)
            case "op" if token.text == "(":
                node = self._expression(0)
                self._expect(")")
                return node
            case "op" if token.text in {"-", "+"}:
                return Unary(token.text, self._expression(_SIGN))
            case "word":
                return self._word(token)
            case _:
                raise self._unexpected(token)

    def _param(self, token: Token) -> Node:
        number = int(token.text[1:])
        if number not in self._params:
            raise WhereError(f"parameter {token.text} has no value", token.position)
        if "\0" in self._params[number]:
            raise WhereError(f"parameter {token.text} contains a NUL character", token.position)
        return Literal(self._params[number])

    def _word(self, token: Token) -> Node:
        match token.text:
            case "true" | "false":
                return Literal(token.text == "true")
            case "null":
                return Literal(None)
            case "not":
                return Unary("not", self._expression(_NOT))
            case "array":
                return self._array()
            case "cast":
                return self._cast_call()
            case word if self._is("("):
                return self._call(word, token)
            case word if word in _RESERVED:
                raise self._unexpected(token)
            case word:
                return Column(word, self._source)

    def _select(self, at: Token) -> Select:
        """Parse `COLUMN from TABLE [where …]`, whose columns are all of that table."""
        self._select_count += 1
        if self._select_count > self._most_selects:
            most = self._most_selects
            text = f"has more than {most} sub-selects" if most else "cannot have a sub-select"
            raise WhereError(text, at.position)
        inside, outside = f"s{self._select_count}", self._source
        column = self._name(at)
        names = [self._name(at)] if self._accept("from") else []
        if self._accept("."):
            names.append(self._name(at))
        self._source = inside
        where = self._expression(0) if names and self._accept("where") else None
        if not names or not self._is(")"):
            raise _not_simple(at)
        self._source = outside
        return Select(names[0] if names[1:] else "public", names[-1], column, where, inside)

    def _name(self, at: Token) -> str:
        token = self._next()
        if token.kind == "quoted" or (token.kind == "word" and token.text not in _RESERVED):
            return token.text
        raise _not_simple(at)

    def _array(self) -> Node:
        self._expect("[")
        items: tuple[Node, ...] = ()
        if not self._is("]"):
            items = self._list()
        self._expect("]")
        return Array(items)

    def _list(self) -> tuple[Node, ...]:
        items = [self._expression(0)]
        while self._accept(","):
            items.append(self._expression(0))
        return tuple(items)

    def _call(self, name: str, token: Token) -> Node:
        bounds = FUNCTIONS.get(name) or FORMS.get(name)
        if bounds is None:
            raise WhereError(f"function {name} is not supported", token.position)
        self._expect("(")
        arguments = () if self._is(")") else self._list()
        self._expect(")")
        if not bounds[0] <= len(arguments) <= bounds[1]:
            raise WhereError(f"function {name} has the wrong number of arguments", token.position)
        return Call(name, arguments)

    def _cast_call(self) -> Node:
        self._expect("(")
        node = self._expression(0)
        token = self._next()
        if (token.kind, token.text) != ("word", "as"):
            raise self._unexpected(token)
        node = self._typed(node)
        self._expect(")")
        return node

    def _typed(self, node: Node) -> Node:
        token = self._next()
        name = _TYPE_NAMES.get(token.text) if token.kind in {"word", "quoted"} else None
        if name is None:
            raise WhereError(f'type "{token.text}" is not supported', token.position)
        is_array = self._accept("[")
        if is_array:
            self._expect("]")
        return Cast(node, name, is_array)

    def _infix(self, left: Node, precedence: int) -> Node:
        token = self._next()
        match token.text:
            case "and" | "or":
                operands = [left, self._expression(precedence)]
                while self._accept(token.text):
                    operands.append(self._expression(precedence))
                return _joined(token.text, operands)
            case "::":
                return self._typed(left)
            case "is":
                return self._test(left)
            case "isnull" | "notnull":
                return Test(left, "null", negated=token.text == "notnull")
            case "not" | "in" | "between" | "like" | "ilike":
                return self._predicate(left, token)
            case _:
                return self._operation(left, token, precedence)

    def _operation(self, left: Node, token: Token, precedence: int) -> Node:
        op = "<>" if token.text == "!=" else token.text
        if op in _COMPARISONS and self._is("any", "some", "all"):
            which = "all" if self._next().text == "all" else "any"
            self._expect("(")
            array = self._expression(0)
            self._expect(")")
            return Quantified(op, left, which, array)
        right = self._expression(precedence)
        if op in _COMPARISONS and self._precedence() == _COMPARE:
            raise self._unexpected()  # comparisons do not associate
        return Binary(op, left, right)

    def _test(self, left: Node) -> Node:
        negated = self._accept("not")
        if self._accept("distinct"):
            self._expect("from")
            return Test(left, "distinct", negated, self._expression(_IS))
        for what in ("null", "true", "false", "unknown"):
            if self._accept(what):
                return Test(left, what, negated)
        raise self._unexpected()

    def _predicate(self, left: Node, token: Token) -> Node:
        negated = token.text == "not"
        if negated:
            token = self._next()
        match token.text if token.kind == "word" else "":
            case "in":
                self._expect("(")
                at = self._token
                found = self._select(at) if self._accept("select") else self._list()
                self._expect(")")
                if isinstance(found, Select):
                    return InSelect(left, found, negated)
                return Among(left, found, negated)
            case "between":
                symmetric = self._accept("symmetric")
                low = self._expression(_IN)
                self._expect("and")
                return Between(left, low, self._expression(_IN), negated, symmetric)
            case "like" | "ilike" as word:
                return Like(left, self._expression(_IN), word == "ilike", negated)
            case _:
                raise self._unexpected(token)


def _not_simple(at: Token) -> WhereError:
    return WhereError("a sub-select must be select COLUMN from TABLE [where …]", at.position)


def _joined(op: str, operands: Sequence[Node]) -> Node:
    """Join operands of AND or OR, which associate, to a tree that is not deep."""
    if len(operands) == 1:
        return operands[0]
    half = (len(operands) + 1) // 2
    return Binary(op, _joined(op, operands[:half]), _joined(op, operands[half:]))


def _check_height(node: Node) -> None:
    """Check that a tree can be printed, hashed and evaluated: a chain of operators is deep, too.

    Raises:
        WhereError: it cannot.
    """
    level, height = [node], 0
    while level:
        height += 1
        if height > MAX_DEPTH:
            raise WhereError(f"is nested deeper than {MAX_DEPTH}", 1)
        level = [child for each in level for child in _below(each)]


def _below(node: Node) -> Sequence[Node]:
    where = node.select.where if isinstance(node, InSelect) else None
    return children(node) if where is None else [*children(node), where]
