"""`embedded/e5`: decides by the nearest label, writes nothing, needs no network and no key.

It reads the row's words, finds which tool and which listed values lie nearest to them, and calls
these; it is no language model and says so in every reply.  Descriptions come from the tools'
comments, and a dozen worked examples in the agent's definition make it much better.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from walagent.domain.cascade import UNSURE
from walagent.errors import ConfigError, ModelRejectedError, PreconditionError
from walagent.message import Json, ModelSpec, Reply, Request, Stop, Text, ToolCall, Usage
from walagent.models.embedded import PROVIDER
from walagent.models.embedded.choices import LabelQuestion, questions
from walagent.models.embedded.chosen_calls import (
    Choices,
    PlannedCall,
    PlanSettings,
    ToolPlan,
    plan,
    why_unsure,
)
from walagent.models.embedded.encoder import check_machine, shared_e5
from walagent.models.embedded.labels import Label, nearest
from walagent.models.embedded.subject import Subject, subject_of
from walagent.models.embeddings import reply_with, text_of
from walagent.models.provider import Embedder, Embedding

NOTE = f"{PROVIDER.default_model} ({PROVIDER.note})"
SPEC = ModelSpec(
    PROVIDER.default_model,
    PROVIDER.name,
    "e5",
    input_price=0.0,
    cached_input_price=0.0,
    cache_write_price=0.0,
    output_price=0.0,
    context_window=512,
    dimensions=384,
)
_MODEL = "multilingual-e5-small"


class EmbeddedModel:
    """The decision model; implements `Model`.

    Parameters of the model or the agent: `threshold` (0 to 1, default 0.5), `margin` (0.5 to 1,
    default 0.8) and `fallback` (the tool to call when it is not sure; default `escalate_to_human`,
    `ask_human` or `do_nothing`, whichever there is).  In a cascade, whose requests have the tool
    `unsure`, it calls that one, unless all that it would call is sure and chosen from lists.
    """

    embeds = True

    def __init__(self, spec: ModelSpec = SPEC, embedder: Embedder | None = None) -> None:
        """Check that the model can run here; it is loaded when the first text comes.

        Raises:
            ConfigError: the row names another model.
            PreconditionError: not installed, or not for this processor.
        """
        if spec.model_id != SPEC.model_id:
            raise ConfigError(f"model {spec.name}: the one model_id is {SPEC.model_id}")
        if embedder is None:
            check_machine()
        self._spec = spec
        self._embedder = embedder or shared_e5()

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self._spec

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; see `Model`."""
        if request.embeds:
            return await self._embedding(request)
        settings = _settings({**self._spec.parameters, **request.parameters}, request)
        tools = tuple(tool for tool in request.tools if tool.name != UNSURE)
        in_stage, request = len(tools) < len(request.tools), replace(request, tools=tools)
        subject = subject_of(request.messages)
        if not subject.text:
            why = "there are no words to decide on"
            if in_stage:
                return _unsure(request, why, Usage())
            return _reply(request, subject, ToolPlan((), (why,)), Usage())
        asked = questions(request)
        known = await self._embed([subject.text, *_texts(asked)])
        choices = _choose(subject.text, asked, known.vectors)
        if in_stage and (why := why_unsure(request, subject, choices, settings)):
            return _unsure(request, why, known.usage)
        decided = plan(request, subject, choices, settings)
        return _reply(request, subject, decided, known.usage)

    async def aclose(self) -> None:
        """Do nothing: the model is shared by the process."""

    async def _embedding(self, request: Request) -> Reply:
        """Embed the text of a request; the encoder cuts it."""
        text = text_of(request)
        if not text:
            return reply_with(request, self._spec, None, Usage(), _MODEL)
        known = await self._embed([text])
        return reply_with(request, self._spec, known.vectors[text], known.usage, _MODEL)

    async def _embed(self, texts: Sequence[str]) -> "_EmbeddedTexts":
        try:
            found = await self._embedder.embed(texts)
        except PreconditionError as error:
            raise ModelRejectedError(str(error), hint=error.hint) from error
        return _EmbeddedTexts(dict(zip(texts, found, strict=True)))


@dataclass(frozen=True, slots=True)
class _EmbeddedTexts:
    """Texts with their vectors."""

    texts: Mapping[str, Embedding]

    @property
    def vectors(self) -> dict[str, tuple[float, ...]]:
        return {text: found.vector for text, found in self.texts.items()}

    @property
    def usage(self) -> Usage:
        """Word pieces that the model read, and those it still knew."""
        new = sum(found.tokens for found in self.texts.values() if not found.cached)
        return Usage(new, sum(found.tokens for found in self.texts.values()) - new)


def _texts(asked: Iterable[LabelQuestion]) -> Iterable[str]:
    for question in asked:
        for option in question.options:
            yield option.description
            yield from option.examples


def _choose(
    text: str, asked: Iterable[LabelQuestion], vectors: Mapping[str, tuple[float, ...]]
) -> Choices:
    chosen = (
        (
            (question.tool, question.argument),
            nearest(
                vectors[text],
                [
                    Label(
                        option.name,
                        vectors[option.description],
                        tuple(vectors[example] for example in option.examples),
                    )
                    for option in question.options
                ],
            ),
        )
        for question in asked
    )
    return {what: choice for what, choice in chosen if choice is not None}


def _reply(request: Request, subject: Subject, decided: ToolPlan, usage: Usage) -> Reply:
    """Make the calls that are not made yet; when there are none, say what was done."""
    left = [call for call in decided.calls if call.tool not in subject.done]
    if request.choice.mode in {"required", "named"} and not decided.calls:
        raise ModelRejectedError(
            f"embedded/e5 cannot make the required call: {'; '.join(decided.why)}",
            hint="bind numbers and ids from the row, or let the agent choose",
        )
    why = "; ".join(decided.why)
    if not left:
        return Reply((Text(_summary(subject, why)),), Stop.END, usage, _MODEL, NOTE)
    now = left if request.parallel_calls else left[:1]
    parts = tuple(_part(call, at, request) for at, call in enumerate(now))
    return Reply((Text(why), *parts), Stop.TOOL, usage, _MODEL, NOTE)


def _unsure(request: Request, why: str, usage: Usage) -> Reply:
    """Leave the decision to the next model of a cascade."""
    call = _part(PlannedCall(UNSURE, {"reason": why}), 0, request)
    return Reply((call,), Stop.TOOL, usage, _MODEL, NOTE)


def _summary(subject: Subject, why: str) -> str:
    called = ", ".join(
        f"{name} (failed)" if name in subject.failed else name for name in sorted(subject.done)
    )
    return f"Called {called}: {why}." if called else f"Called nothing: {why}."


def _part(call: PlannedCall, at: int, request: Request) -> ToolCall:
    return ToolCall(f"e5_{len(request.messages)}_{at}", call.tool, call.arguments)


def _settings(parameters: Mapping[str, Json], request: Request) -> PlanSettings:
    """Read our three parameters; others are another provider's and mean nothing here."""
    threshold = _number(parameters, "threshold", 0.5, 0.0)
    margin = _number(parameters, "margin", 0.8, 0.5)
    fallback = parameters.get("fallback", "")
    if fallback and fallback not in {tool.name for tool in request.tools}:
        raise ModelRejectedError(f"embedded/e5: the agent has no tool {fallback!r} to fall back on")
    return PlanSettings(threshold, margin, str(fallback))


def _number(parameters: Mapping[str, Json], name: str, default: float, least: float) -> float:
    value = parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1:
        raise ModelRejectedError(
            f"embedded/e5: {name} is a number from {least:g} to 1, not {value}"
        )
    return float(value)
