"""The decider of questions: summarize the session first, then the moves of `ask.moves`."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from walagent.ask import history, prompts
from walagent.ask.catalog import Catalog
from walagent.ask.context import SchemaContext
from walagent.ask.moves import QuestionProgress, next_move, read_standing
from walagent.ask.options import Options
from walagent.domain.run import RunSpec, Step
from walagent.domain.transcript import reply_from_json
from walagent.domain.untrusted import marker
from walagent.message import Message, ModelSpec, Request
from walagent.moves import Ask, Move, Prompt
from walagent.store.questions import SessionHistory, Turn


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """Limits of what the model is shown.

    Args:
        rows: of a result; the limit that the planner is shown.
        history: characters of earlier turns that are shown in full; older ones as a summary.
        search: whether plans may search the web.
    """

    rows: int = 1000
    history: int = 12_000
    search: bool = False


@dataclass(slots=True)
class QuestionDecider:
    """Implements `Decider`, for one question.

    Args:
        past: the session before the question; a summary that its run records continues it.
    """

    options: Options
    past: SessionHistory
    catalog: Catalog
    bounds: PromptLimits
    _secret: bytes = field(default_factory=secrets.token_bytes, repr=False)
    _schema: SchemaContext | None = None

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Summarize turns that no longer fit; then decide about the question itself."""
        del run
        if old := self._too_old(steps):
            return Ask((Prompt("summary", {"upto": old[-1].id}),))
        return next_move(steps, self.options)

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Build a request of the planner, the critic, the answer or the summary."""
        del model
        mark = marker(self._secret, run.run_id)
        question = str((run.claim.question or {})["text"])
        standing = self.standing(steps)
        match prompt.by:
            case "summary":
                turns = map(history.as_text, self._too_old(steps))
                return prompts.summary_request(self._past(steps).summary, turns, marker=mark)
            case "planner":
                rejected = () if "candidate" in prompt.about else tuple(standing.rejected)
                return prompts.planner_request(
                    question,
                    await self._context(question),
                    self._history(steps),
                    rejected,
                    rows=self.bounds.rows,
                    marker=mark,
                    search=self.bounds.search,
                )
            case "critic":
                schema, stage = await self._context(question), str(prompt.about["stage"])
                return prompts.critic_request(question, schema, standing, stage, marker=mark)
            case _:
                return prompts.answer_request(question, self._history(steps), standing, marker=mark)

    def standing(self, steps: Sequence[Step]) -> QuestionProgress:
        """Read the progress of the question."""
        options = self.options
        return read_standing(steps, replans=options.retries, candidates=options.candidates)

    def said_before(self, steps: Sequence[Step]) -> str:
        """Return the session before the question as text."""
        past = self._past(steps)
        return "\n".join([past.summary or "", *map(history.as_text, past.turns)])

    async def _context(self, question: str) -> SchemaContext:
        if self._schema is None:
            self._schema = await self.catalog.describe(question, alone=self.options.alone)
        return self._schema

    def _history(self, steps: Sequence[Step]) -> Sequence[Message]:
        return history.messages(self._past(steps), self.bounds.history)

    def _too_old(self, steps: Sequence[Step]) -> Sequence[Turn]:
        """Return the turns to summarize; none after an empty summary."""
        replies = [step for step in steps if step.content.get("by") == "summary"]
        if replies and not _words(replies[-1]):
            return ()
        return history.too_old(self._past(steps), self.bounds.history)

    def _past(self, steps: Sequence[Step]) -> SessionHistory:
        """Return the session before the question, with the summaries that the run has recorded."""
        past = self.past
        for step in steps:
            if step.content.get("by") != "summary" or not (words := _words(step)):
                continue
            rest = [turn for turn in past.turns if turn.id > step.content["upto"]]
            if len(rest) < len(past.turns):
                past = SessionHistory(words, rest)
        return past


def _words(step: Step) -> str:
    return prompts.summary_of(reply_from_json(step.content))
