"""Functions in Python that decide whether a turn starts, or render what its model is shown."""

import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar, cast

from walagent.domain.thread import ThreadView
from walagent.errors import ConfigError

ThreadFunction = Callable[[ThreadView], Awaitable[object]]
F = TypeVar("F", bound=ThreadFunction)

PREFIX: Final = "python:"
_MARK: Final = "__walagent_thread_function__"


def thread_function(function: F) -> F:
    """Declare a coroutine function over a thread, for `wake_function` or `context`.

    It is called when a turn starts, with the thread as the agent sees it.  As a `wake_function` it
    returns whether the turn starts, as a `context` what the model is shown.  It is named
    `python:module.function`; its module is one of `tools.modules`.

    Raises:
        ConfigError: it is not a coroutine function.
    """
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"thread function {function.__name__}: must be an async function")
    setattr(function, _MARK, True)
    return function


def find_thread_functions(modules: Iterable[str]) -> dict[str, ThreadFunction]:
    """Return the functions that *modules* declare, by module and name."""
    found: dict[str, ThreadFunction] = {}
    for name in modules:
        members = cast("dict[str, object]", vars(importlib.import_module(name)))
        for value in members.values():
            if getattr(value, _MARK, False):
                function = cast("ThreadFunction", value)
                found[f"{function.__module__}.{function.__name__}"] = function
    return found
