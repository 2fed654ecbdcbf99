"""A judge: a model that says of two runs on one change which is right.

It does not see which of them is the candidate; which comes first alternates.  What it says is no
label: a person gives those.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from walagent.domain.agent_spec import AgentSpec
from walagent.domain.untrusted import RULE, framed
from walagent.errors import ModelRejectedError, ModelUnavailableError
from walagent.message import Json, Message, Reply, Request, Text, ToolChoice, ToolSpec
from walagent.models.cost import cost_of
from walagent.models.model import Model
from walagent.models.usage import usage_of
from walagent.runs.model_calls import as_float
from walagent.trial.cases import Case
from walagent.trial.outcomes import Outcome

_CHOICES: Final = ("A", "B", "both", "neither")
_LONGEST: Final = 2000  # characters of a reason
_TOOL: Final = ToolSpec(
    "verdict",
    "Say which outcome is right.",
    {
        "type": "object",
        "properties": {
            "reason": {"type": "string", "description": "Why, in one or two sentences."},
            "right": {"type": "string", "enum": list(_CHOICES)},
        },
        "required": ["reason", "right"],
        "additionalProperties": False,
    },
    reads=True,
)
_RULES: Final = f"""\
Two runs of an agent acted on the same change of a row. Decide which outcome, A or B, is what the \
agent's instructions ask for: call verdict with A, B, both or neither, and the reason. Calls that \
have the same effect are equally right, however they are worded. {RULE}"""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge said of a case.

    Args:
        right: recorded, candidate, both or neither; None: it gave no valid verdict.
        error: why it gave none.
    """

    right: str | None
    reason: str = ""
    error: str = ""
    tokens: int = 0
    cost: float | None = None

    def to_json(self) -> dict[str, Json]:
        """Write it as it is stored."""
        said = {"error": self.error} if self.right is None else {"right": self.right}
        reason = {"reason": self.reason} if self.reason else {}
        return {**said, **reason, "tokens": self.tokens, "cost": self.cost}


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges."""

    model: Model

    async def ask(self, number: int, case: Case, candidate: Outcome, agent: AgentSpec) -> Judged:
        """Ask which of two outcomes is right.

        Args:
            number: of the case; the recorded run is A if it is odd.

        Raises:
            WalagentError: the model cannot be asked at all, as without a key, or a budget does not
                allow it.
        """
        assert case.recorded is not None  # noqa: S101 - they differ
        order = ("recorded", "candidate") if number % 2 else ("candidate", "recorded")
        outcomes = {"recorded": case.recorded, "candidate": candidate}
        request = _request(case, agent, [outcomes[name] for name in order], self.model)
        try:
            reply = await self.model.complete(request)
        except (ModelRejectedError, ModelUnavailableError) as error:
            used = usage_of(error)
            cost = cost_of(used, self.model.spec) if used.total else None
            return Judged(None, error=str(error), tokens=used.total, cost=as_float(cost))
        cost = cost_of(reply.usage, self.model.spec, reply.tier)
        said = _read(reply)
        named: dict[str, str] = {"A": order[0], "B": order[1]}
        return Judged(
            None if said.right is None else named.get(said.right, said.right),
            said.reason,
            said.error,
            reply.usage.total,
            as_float(cost),
        )


def _request(case: Case, agent: AgentSpec, outcomes: list[Outcome], model: Model) -> Request:
    mark = secrets.token_hex(8)
    changes = (case.change, *case.merged)
    parts = [
        framed("instructions", agent.system_prompt or "(none)", mark),
        framed("change", _json(changes[0] if len(changes) == 1 else changes), mark),
        *(
            framed("outcome", _json(_shown(each)), mark, source=name)
            for name, each in zip(_CHOICES, outcomes, strict=False)
        ),
    ]
    return Request(
        system=_RULES,
        messages=(Message("user", (Text("\n\n".join(parts)),)),),
        tools=(_TOOL,),
        choice=ToolChoice("named", _TOOL.name),
        max_tokens=min(1024, model.spec.max_output_tokens),
        timeout=model.spec.timeout,
        continues=False,
    )


def _shown(outcome: Outcome) -> dict[str, Json]:
    calls: list[Json] = [
        {"tool": call.tool, "arguments": call.arguments, "state": call.state}
        for call in outcome.calls
    ]
    return {"state": outcome.state, "calls": calls, "result": outcome.result}


def _json(value: object) -> str:
    return orjson.dumps(value, default=str).decode()


def _read(reply: Reply) -> Judged:
    """Read a verdict; what is none is an error."""
    for call in reply.calls:
        given: Mapping[str, Any] = call.arguments or {}
        right, reason = given.get("right"), given.get("reason")
        if call.name == _TOOL.name and right in _CHOICES and isinstance(reason, str):
            return Judged(str(right), reason[:_LONGEST])
    return Judged(None, error="the judge gave no valid verdict")
