"""Can the models that agents use be asked?"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from walagent.agent.model import Model
from walagent.agent.models import make_model
from walagent.doctor.finding import Finding, ok, problem, warning
from walagent.errors import ModelRejectedError, WalagentError
from walagent.message import (
    Message,
    ModelSpec,
    Request,
    Text,
    ToolChoice,
    ToolSpec,
)

_PROBE = Request(
    "You are being tested.",
    (Message("user", (Text("Call the tool answer with the number 7."),)),),
    tools=(
        ToolSpec(
            "answer",
            "Give the answer.",
            {
                "type": "object",
                "properties": {"number": {"type": "integer"}},
                "required": ["number"],
                "additionalProperties": False,
            },
        ),
    ),
    choice=ToolChoice("named", "answer"),
    max_tokens=256,
    timeout=60.0,
)


def build_models(
    names: Sequence[str], registry: Mapping[str, ModelSpec]
) -> Iterator[tuple[str, Model | WalagentError]]:
    """Make each model, which finds its key; nothing is connected to."""
    for name in names:
        if (spec := registry.get(name)) is None:
            yield (
                name,
                ModelRejectedError(
                    f"model {name} is switched off",
                    hint="update agent.model set enabled = true where name = …",
                ),
            )
            continue
        try:
            yield name, make_model(spec)
        except WalagentError as error:
            yield name, error


def check_models(models: Mapping[str, Model | WalagentError]) -> Iterator[Finding]:
    """Evaluator whether each model has its key."""
    for name, model in models.items():
        if isinstance(model, WalagentError):
            yield problem(str(model), model.hint)
        else:
            yield ok(f"model {name} has what it needs")


async def probe_models(models: Mapping[str, Model | WalagentError]) -> AsyncIterator[Finding]:
    """Ask each model for one tool call, which costs a few hundred tokens."""
    for name, model in models.items():
        if not isinstance(model, WalagentError):
            yield await _probe(name, model)


async def _probe(name: str, model: Model) -> Finding:
    mode = model.spec.tool_mode
    other = "schema" if mode == "native" else "native"
    fix = f"models: {{{name}: {{tool_mode: {other}}}}}"
    try:
        reply = await model.complete(_PROBE)
    except WalagentError as error:
        return problem(f"model {name} did not answer: {error}", error.hint or fix)
    if [call.arguments for call in reply.calls if call.name == "answer"] == [{"number": 7}]:
        return ok(f"model {name} calls tools (tool_mode: {mode})")
    return warning(f"model {name} was told to call a tool and did not (tool_mode: {mode})", fix)
