"""Check that the models of agents can be called."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from walagent.doctor.finding import Finding, ok, problem, warning
from walagent.errors import ModelRejectedError, ModelUnavailableError, WalagentError
from walagent.message import (
    Message,
    ModelSpec,
    Request,
    Text,
    ToolChoice,
    ToolSpec,
)
from walagent.models import make_model
from walagent.models.model import Model

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
    """Build each model, which finds its key; nothing is connected."""
    for name in names:
        if (spec := registry.get(name)) is None or not spec.enabled:
            yield (
                name,
                ModelRejectedError(
                    f"model {name} is disabled",
                    hint="update agent.model set enabled = true where name = …",
                ),
            )
            continue
        try:
            yield name, make_model(spec)
        except WalagentError as error:
            yield name, error


def check_models(models: Mapping[str, Model | WalagentError]) -> Iterator[Finding]:
    """Check that each model has its key."""
    for name, model in models.items():
        if isinstance(model, WalagentError):
            yield problem(str(model), model.hint)
        else:
            yield ok(f"model {name} is configured")


async def probe_models(models: Mapping[str, Model | WalagentError]) -> AsyncIterator[Finding]:
    """Request one tool call from each model, at a cost of a few hundred tokens."""
    for name, model in models.items():
        if not isinstance(model, WalagentError):
            yield await _probe(name, model)


async def _probe(name: str, model: Model) -> Finding:
    mode = model.spec.tool_mode
    other = "schema" if mode == "native" else "native"
    fix = f"models: {{{name}: {{tool_mode: {other}}}}}"
    try:
        reply = await model.complete(_PROBE)
    except ModelUnavailableError as error:
        where = model.spec.base_url or f"the provider {model.spec.provider}"
        hint = f"Check that {where} can be reached from here, or set base_url of the model."
        return problem(f"no valid response from model {name}: {error}", error.hint or hint)
    except WalagentError as error:
        return problem(f"no valid response from model {name}: {error}", error.hint or fix)
    if [call.arguments for call in reply.calls if call.name == "answer"] == [{"number": 7}]:
        return ok(f"model {name} calls tools (tool_mode: {mode})")
    return warning(f"model {name} did not call the requested tool (tool_mode: {mode})", fix)
