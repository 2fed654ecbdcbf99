"""One call of one run, as its execution sees it, and the texts of its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from psycopg import AsyncConnection, Error

from walagent.domain.run import RunSpec, StepKind
from walagent.domain.tool_spec import Tool
from walagent.domain.transcript import result_to_json
from walagent.errors import ToolFailedError
from walagent.message import Json, ToolCall
from walagent.moves import Call, RunLog
from walagent.postgres.encodings import misfit
from walagent.runs.tools.admission import ADMITTED, Admission
from walagent.tools.statements import bound

_MOST_TEXT: Final = 65_536  # characters of a result that are kept


@dataclass(frozen=True, slots=True)
class Work:
    """One call of one run, and the number of its step."""

    run: RunSpec
    of: Call
    seq: int
    admission: Admission = ADMITTED
    is_changed: bool = False
    log: RunLog | None = None

    def changed(self, arguments: Mapping[str, Json]) -> "Work":
        """Return the same with other arguments."""
        call = replace(self.of.call, arguments=arguments)
        return replace(self, of=replace(self.of, call=call), is_changed=True)

    @property
    def call(self) -> ToolCall:
        """The call, as the model made it, or as policies changed it."""
        return self.of.call

    @property
    def tool(self) -> Tool:
        """The tool that is called."""
        return self.of.tool

    @property
    def again(self) -> bool:
        """Whether an attempt before recorded the intent."""
        return self.of.again

    @property
    def arguments(self) -> dict[str, Json]:
        """The arguments, with those that are bound to the change."""
        return bound(self.tool, self.call, self.run.claim.last)

    @property
    def since(self) -> str | None:
        """The digest of the row after the last call of the same tool that updated it, if any."""
        results = (
            step.content
            for step in reversed(self.log.steps if self.log is not None else ())
            if step.kind is StepKind.RESULT and step.content["name"] == self.tool.name
        )
        return next((each["row"] for each in results if each.get("row")), None)


def failed(call: ToolCall, text: str) -> dict[str, Json]:
    """Return the result of a call that failed."""
    return result_to_json(call, text[:_MOST_TEXT], is_error=True)


def said(error: Error) -> str:
    """Return PostgreSQL's primary message, without its detail, which can quote a row."""
    words = error.diag.message_primary or str(error).strip() or type(error).__name__
    return f"{words} (SQLSTATE {error.sqlstate})" if error.sqlstate else words


def text_of(result: object) -> str:
    """Return what a tool returned as the text that is recorded: JSON, unless it is a text."""
    text = result if isinstance(result, str) else orjson.dumps(result, default=str).decode()
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_MOST_TEXT]


def check_fits(conn: AsyncConnection[Any], parameter: Json) -> None:
    """Check that the database's encoding can represent what a tool writes.

    Raises:
        ToolFailedError: it cannot; nothing was written.
    """
    encoding = conn.info.parameter_status("server_encoding") or "UTF8"
    if (letter := misfit(parameter, encoding)) is not None:
        raise ToolFailedError(
            f"encoding {encoding} of the database cannot represent {letter!r}",
            sqlstate="22P05",
        )
