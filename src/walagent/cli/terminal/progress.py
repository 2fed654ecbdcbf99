"""Show the progress of a question on stderr, if it is a terminal or with --verbose."""

import sys
import time
from collections import Counter
from types import TracebackType
from typing import Any, Self

from walagent.ask.outcome import (
    ModelAsked,
    PlanMade,
    QuestionEvent,
    QuestionResult,
    SessionWaiting,
    StepDone,
    StepStarted,
)
from walagent.cli.terminal.output import clean, say
from walagent.cli.terminal.table import Dollars

_DOING = {
    "planner": "planning",
    "critic": "reviewing",
    "answer": "writing the answer",
    "summary": "summarizing earlier questions",
}


class ProgressDisplay:
    """A status line on a terminal, and a log of the events if *verbose*.

    Args:
        verbose: print the plan and each step, also if stderr is not a terminal.
    """

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._status: Any = None
        self._running: Counter[str] = Counter()
        self._begun: dict[tuple[int, str], float] = {}
        self._calls: Counter[str] = Counter()
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        """Start with a question."""
        self._running.clear()
        self._calls.clear()
        self._started = time.monotonic()
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("…")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the status line."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, event: QuestionEvent) -> None:
        """Show an event."""
        self._count(event)
        if self._verbose:
            self._say(event)
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(self._doing(event)))

    def show_cost(self, outcome: QuestionResult) -> None:
        """Print calls, tokens, cost and time of the answer, if verbose."""
        if self._verbose:
            cost = "unknown" if outcome.cost is None else f"{Dollars(outcome.cost)} USD"
            took = time.monotonic() - self._started
            say(
                f"\n{_many(self._calls.total(), 'model call')}, {outcome.tokens:,} tokens,"
                f" cost {cost}, {took:.1f} s"
            )

    def _count(self, event: QuestionEvent) -> None:
        match event:
            case ModelAsked(who):
                self._calls[who] += 1
            case StepStarted(step, candidate):
                self._running[step.id] += 1
                self._begun[candidate, step.id] = time.monotonic()
            case StepDone(result):
                self._running[result.id] -= 1
            case PlanMade() | SessionWaiting():
                pass

    def _doing(self, event: QuestionEvent) -> str:
        if isinstance(event, ModelAsked):
            return f"{_DOING.get(event.who, event.who)} …"
        if isinstance(event, SessionWaiting):
            return "waiting for the previous question …"
        running = [name for name, count in self._running.items() if count > 0]
        return f"running {clean(', '.join(running))} …" if running else "…"

    def _say(self, event: QuestionEvent) -> None:
        """Print an event on lines of its own, while the status line is cleared."""
        if self._status is not None:
            self._status.stop()
        for line in self._lines(event):
            say(line)
        if self._status is not None:
            self._status.start()

    def _lines(self, event: QuestionEvent) -> list[str]:
        match event:
            case ModelAsked(who):
                return [f"… {who}"]
            case SessionWaiting(seconds):
                return [f"… waiting up to {seconds:.0f} s for the session's previous question"]
            case PlanMade(plan, candidate):
                steps = [f"  [{step.id}] {step.type} {step.description}" for step in plan.steps]
                return [f"{_of(candidate)}plan: {plan.reasoning}", *steps]
            case StepStarted(step, candidate):
                asked = step.text("query") or step.text("sql") or step.text("operation")
                return [f"{_of(candidate)}[{step.id}] {asked}"]
            case StepDone(result, candidate):
                begun = self._begun.get((candidate, result.id), time.monotonic())
                took = f"{time.monotonic() - begun:.3f} s"
                came = result.error or _many(len(result.rows), "row")
                return [f"{_of(candidate)}[{result.id}] {came}, {took}"]


def _of(candidate: int) -> str:
    return f"{candidate}: " if candidate else ""


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
