"""Python functions as tools: declared with `@tool`, found in entry points or a module.

    @tool(effect=Effect.TRANSACTIONAL)
    async def set_priority(ctx: ToolContext, ticket_id: int, priority: str) -> str:
        \"\"\"Set the priority of a support ticket.\"\"\"

Name, docstring and annotations are the contract: they are what the model is shown.
"""

import importlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeVar, cast, get_type_hints

from psycopg.abc import Query
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from walagent.domain.tool_spec import Effect
from walagent.errors import ConfigError, ToolFailedError
from walagent.message import Json

GROUP = "walagent.tools"  # the entry-point group of packages that bring tools


class ToolRows(Protocol):
    """The rows of a statement, as of a cursor of psycopg."""

    @property
    def rowcount(self) -> int: ...  # noqa: D102
    async def fetchone(self) -> tuple[Any, ...] | None: ...  # noqa: D102
    async def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]: ...  # noqa: D102
    async def fetchall(self) -> list[tuple[Any, ...]]: ...  # noqa: D102
    def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]: ...  # noqa: D105


class ToolConnection(Protocol):
    """The connection of a tool: what it has of psycopg's."""

    async def execute(  # noqa: D102
        self, query: Query, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> ToolRows: ...
    def transaction(self) -> AbstractAsyncContextManager[object]: ...  # noqa: D102
    async def commit(self) -> None: ...  # noqa: D102
    async def rollback(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use.

    `conn` is the transaction of the tool's own step, as the attachment's `run_as`; None for tools
    that leave the database, which must pass `idempotency_key` on instead.
    """

    conn: ToolConnection | None
    idempotency_key: str
    run_id: int
    change: Mapping[str, Any]


Function = Callable[..., Awaitable[object]]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A function that was declared with `@tool`."""

    function: Function
    name: str
    description: str
    input_schema: Mapping[str, Json]
    effect: Effect
    arguments: type[BaseModel]
    target: str

    async def prepare(self) -> None:
        """Make ready what a call needs: a function is there."""

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:
        """Check the arguments against the annotations and call the function.

        Raises:
            ToolFailedError: an argument is not what the annotation says.
        """
        try:
            checked = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            problems = "; ".join(
                f"{e['loc'][0]}: {e['msg']}" for e in error.errors()[:3] if e["loc"]
            )
            raise ToolFailedError(f"{self.name} refuses these arguments: {problems}") from error
        given = {name: getattr(checked, name) for name in type(checked).model_fields}
        return await self.function(context, **given)


def tool(*, effect: Effect = Effect.TRANSACTIONAL) -> Callable[[F], F]:
    """Declare a coroutine function as a tool.

    Raises:
        ConfigError: it is not a coroutine function, or lacks a docstring.
    """

    def declare(function: F) -> F:
        function.__walagent_tool__ = _read(function, effect)  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
        return function

    return declare


def find_tools(modules: Iterable[str] = ()) -> dict[str, PythonTool]:
    """Load the tools of installed packages and of *modules*, by target.

    Raises:
        ConfigError: a module or entry point cannot be imported.
    """
    found: dict[str, PythonTool] = {}
    for point in entry_points(group=GROUP):
        _add(found, _load(point.value, point.load))
    for name in modules:
        module = _load(name, lambda name=name: importlib.import_module(name))
        members = cast("dict[str, object]", vars(module))
        for value in members.values():
            _add(found, value)
    return found


def _load(name: str, load: Callable[[], Json]) -> Json:
    try:
        return load()
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"tools: {name} cannot be imported: module {error.name} does not exist",
            hint="A module is a file beside agents.yaml, or it is installed.",
        ) from error
    except Exception as error:
        raise ConfigError(f"tools: {name} cannot be imported: {error!r}") from error


def _add(found: dict[str, PythonTool], value: object) -> None:
    if declared := getattr(value, "__walagent_tool__", None):
        found[declared.target] = declared


def _read(function: Function, effect: Effect) -> PythonTool:
    name, doc = function.__name__, inspect.getdoc(function)
    if not inspect.iscoroutinefunction(function) or not doc:
        raise ConfigError(f"tool {name}: must be an async function with a docstring")
    hints = get_type_hints(function)
    parameters = list(inspect.signature(function).parameters.values())[1:]  # the first is ctx
    fields: dict[str, Any] = {
        p.name: (hints.get(p.name, str), ... if p.default is p.empty else p.default)
        for p in parameters
    }
    model = create_model(name, __config__=ConfigDict(extra="forbid", strict=False), **fields)
    schema = {**model.model_json_schema(), "additionalProperties": False}
    schema.pop("title", None)
    return PythonTool(
        function, name, doc.split("\n\n")[0], schema, effect, model, f"{function.__module__}:{name}"
    )
