"""Arithmetic that somebody else wrote: numbers, operators and a few functions, and no more."""

import ast
import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from walagent.errors import ConfigError, InvalidCallError

Number = int | float

LONGEST: Final = 1000  # characters of an expression
_BITS: Final = 4096  # of the largest whole number

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs, "round": round, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil,
    "sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log, "log10": math.log10,
    "log2": math.log2, "sin": math.sin, "cos": math.cos, "tan": math.tan,
}  # fmt: skip
_NAMES: Final = {"pi": math.pi, "e": math.e}


def calculate(expression: str, names: Mapping[str, Number] | None = None) -> Number:
    """Work an expression out.

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
        value: Any = evaluator.eval(expression)
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
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidCallError(f"{expression!r} is not a number")
    if not math.isfinite(value):
        raise InvalidCallError(f"{expression!r} is not finite")
    return value


def _library() -> ModuleType:
    try:
        import simpleeval  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an extra
    except ImportError as error:
        raise ConfigError(
            "arithmetic needs simpleeval, which is not installed",
            hint="pip install 'walagent[ask]'",
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


def _refused(_left: Number, _right: Number) -> Number:
    raise ArithmeticError("bits cannot be shifted here")


_OPERATORS: Final = {ast.Pow: _power, ast.Mult: _times, ast.LShift: _refused}
