"""What the database decides about a call when it is made, and what becomes of its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from psycopg import Error

from walagent.domain.tool_spec import Tool
from walagent.errors import ModelLimitedError, ToolFailedError
from walagent.message import Json
from walagent.store.sessions.tool_connections import ToolConnections

REFUSED = "WA022"  # SQLSTATE: a policy denies a result


class ApprovalNeeded(Exception):  # noqa: N818 - no failure: the run waits
    """A policy requires that a person approves the call; nothing was executed."""


class ArgumentsChanged(Exception):  # noqa: N818
    """Policies have changed the arguments; nothing was executed.

    Args:
        arguments: with which the call can be executed.
    """

    def __init__(self, arguments: Mapping[str, Json]) -> None:
        super().__init__()
        self.arguments = arguments


class RefusedResult(Exception):  # noqa: N818
    """A policy denies a result.

    Args:
        content: what the model receives instead.
    """

    def __init__(self, content: Mapping[str, Json]) -> None:
        super().__init__()
        self.content = content


@dataclass(frozen=True, slots=True)
class Admission:
    """A call that may be executed, or the recorded result of one that was refused."""

    refused: Mapping[str, Json] | None = None
    key: str = ""  # idempotency key
    checked: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @classmethod
    def of(cls, verdict: Mapping[str, Any]) -> Self:
        """Read the result of agent_internal.check_call().

        Raises:
            ApprovalNeeded, ArgumentsChanged: not yet.
            ModelLimitedError: a limit per minute is reached; the run waits.
        """
        match verdict["action"]:
            case "require":
                raise ApprovalNeeded(verdict["reason"])
            case "transform":
                raise ArgumentsChanged(verdict["arguments"])
            case "wait":
                raise ModelLimitedError(
                    verdict["reason"], retry_after=verdict["seconds"], sent=False
                )
            case "deny":
                return cls(verdict["content"])
            case _:
                return cls(None, verdict.get("key", ""), verdict)

    @property
    def most_bytes(self) -> int | None:
        """The maximum size of a request's body and of its answer; None: no egress rule."""
        return self.checked.get("max_bytes")

    @property
    def is_followed(self) -> bool:
        """Whether policies ask about the result."""
        return bool(self.checked.get("after"))


ADMITTED = Admission()


def check_output(tool: Tool, text: str) -> None:
    """Check a result against the tool's output schema.

    Raises:
        ToolFailedError: it does not fit; for the model.
    """
    if tool.output_schema is None:
        return
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    from walagent.deciders.arguments import misfit_of  # noqa: PLC0415 - jsonschema is slow to import

    if problem := misfit_of(tool.output_schema, value):
        raise ToolFailedError(f"{tool.name} returned what its output schema refuses: {problem}")


async def judged(
    calls: ToolConnections, admission: Admission, content: Mapping[str, Json]
) -> Mapping[str, Json]:
    """Return the result of a call as policies leave it.

    Raises (as a PostgreSQL error): REFUSED: a policy denies it.
    """
    if not admission.is_followed:
        return content
    async with calls.connection() as conn, conn.transaction() as transaction:
        request = {"checked": dict(admission.checked), "content": dict(content)}
        return await transaction.call("check_result", request)


def denied(content: Mapping[str, Json], error: Error) -> dict[str, Json]:
    """Return what the model receives instead of a result that a policy denies."""
    text = error.diag.message_primary or "this result is not allowed"
    about = {key: content[key] for key in ("call_id", "name")}
    return {**about, "is_error": True, "content": text, "sqlstate": REFUSED, "denied": text}


async def retrieval(
    calls: ToolConnections, tenant: str, phase: str, call: Mapping[str, Json]
) -> Mapping[str, Json]:
    """Return what is searched for, or was found, as the policies of a tenant leave it.

    Args:
        phase: before, with the arguments of the call, or after, also with its result.

    Raises:
        ToolFailedError: a policy denies it; for the model.
        and (as a PostgreSQL error): TRAMPOLINE_LOST: see `through_trampolines`.
    """
    asked = {"point": "retrieval", "phase": phase, "call": dict(call), "tenant": tenant}
    async with calls.connection() as conn, conn.transaction() as transaction:
        verdict = await transaction.call("decide_policy", asked)
    if verdict["action"] != "allow":
        raise ToolFailedError(str(verdict["reason"]), sqlstate=REFUSED)
    return verdict["call"]
