"""Arithmetic that somebody else wrote: numbers, operators and a few functions, and no more."""

import ast
import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from walagent.base.extras import install_hint
from walagent.errors import ConfigError, InvalidCallError

Number = int | float

LONGEST: Final = 1000  # characters of an expression
_BITS: Final = 4096  # of the largest whole number

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs, "round": round, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil,
    "sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log, "log10": math.log10,
    "log2": math.log2, "log1p": math.log1p, "expm1": math.expm1,
    "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
    # Under the names of Python and of numexpr.
    "asin": math.asin, "acos": math.acos, "atan": math.atan, "atan2": math.atan2,
    "asinh": math.asinh, "acosh": math.acosh, "atanh": math.atanh,
    "arcsin": math.asin, "arccos": math.acos, "arctan": math.atan, "arctan2": math.atan2,
    "arcsinh": math.asinh, "arccosh": math.acosh, "arctanh": math.atanh,
}  # fmt: skip
_NAMES: Final = {"pi": math.pi, "e": math.e}


def calculate(expression: str, names: Mapping[str, Number] | None = None) -> Number:
    """Work an expression out; a comparison is 1 or 0.

    `where(condition, then, otherwise)` works out only the branch that counts.

    Args:
        names: numbers that it may use, beside pi and e.

    Raises:
        InvalidCallError: it is no arithmetic, or its numbers grow beyond all use.
        ConfigError: the library is not installed.
    """
    if len(expression) > LONGEST:
        raise InvalidCallError(f"the expression is longer than {LONGEST} characters")
    library: Any = _library()
    operators = {**library.DEFAULT_OPERATORS, **_OPERATORS}
    known = {**_NAMES, **(names or {})}
    evaluator = library.SimpleEval(operators=operators, functions=_FUNCTIONS, names=known)
    try:
        tree = _Branches().visit(evaluator.parse(expression))
        value: Any = evaluator.eval(expression, tree)
    except (RecursionError, MemoryError) as error:
        raise InvalidCallError(f"cannot calculate {expression!r}: it is nested deeply") from error
    except (
        library.InvalidExpression,
        SyntaxError,
        ArithmeticError,
        ValueError,
        TypeError,
    ) as error:
        raise InvalidCallError(f"cannot calculate {expression!r}: {error}") from error
    if not isinstance(value, int | float):
        raise InvalidCallError(f"{expression!r} is not a number")
    if not math.isfinite(value):
        raise InvalidCallError(f"{expression!r} is not finite")
    return int(value) if isinstance(value, bool) else value


class _Branches(ast.NodeTransformer):
    """Reads `where(a, b, c)` as `b if a else c`: a function's arguments are all worked out."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite a call of `where`."""
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name("where"), [condition, then, otherwise], []):
                return ast.IfExp(condition, then, otherwise)
            case _:
                return node


def _library() -> ModuleType:
    try:
        import simpleeval  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an extra
    except ImportError as error:
        raise ConfigError(
            "arithmetic needs simpleeval, which is not installed",
            hint=install_hint("walagent[ask]"),
        ) from error
    return simpleeval


def _power(base: Number, exponent: Number) -> Number:
    """Reject calculations that would not end."""
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent > 0 and base.bit_length() * exponent > _BITS:
            raise ArithmeticError("the number is too large")
        return base**exponent
    return math.pow(base, exponent)


def _times(left: object, right: object) -> Number:
    match left, right:
        case int(), int() if left.bit_length() + right.bit_length() > _BITS:
            raise ArithmeticError("the number is too large")
        case ((int() | float()), (int() | float())):
            return left * right
        case _:
            raise ArithmeticError("only numbers can be multiplied")


def _inverse(value: Number) -> Number:
    """Negate truth, as numexpr does; of a whole number, its bits."""
    return not value if isinstance(value, bool) else ~int(value)


def _refused(_left: Number, _right: Number) -> Number:
    raise ArithmeticError("bits cannot be shifted here")


_OPERATORS: Final = {ast.Pow: _power, ast.Mult: _times, ast.LShift: _refused, ast.Invert: _inverse}
