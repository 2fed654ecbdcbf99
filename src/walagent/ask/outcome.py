"""Events of a question, and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from walagent.ask.plan import Plan, PlanStep
from walagent.ask.results import StepResult, rests_on, scope_of, shown_of
from walagent.message import Json
from walagent.rows.rows import Rows

Status = Literal["answered", "clarify", "refused", "error"]


@dataclass(frozen=True, slots=True)
class PlanMade:
    """A plan was made; *candidate* is its number if several were requested."""

    plan: Plan
    candidate: int = 0


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of the plan was started."""

    step: PlanStep
    candidate: int = 0


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step of the plan has ended."""

    result: StepResult
    candidate: int = 0


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """The model is called: for the plan, a review or the answer."""

    who: str


@dataclass(frozen=True, slots=True)
class SessionWaiting:
    """Another process holds the previous question of the session, for up to *seconds*."""

    seconds: float


QuestionEvent = PlanMade | StepStarted | StepDone | ModelAsked | SessionWaiting


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The result of a question: the answer, and the rows and statements that support it."""

    status: Status
    text: str
    session: str
    run_id: int
    plan: Plan | None = None
    results: Mapping[str, StepResult] = field(default_factory=dict[str, StepResult])
    caveats: Sequence[str] = ()
    tokens: int = 0
    cost: float | None = None
    agreement: str = ""  # of several plans
    question: str = ""
    objections: Sequence[str] = ()  # of the critic, after the last revision; also among the caveats

    @property
    def sql(self) -> Sequence[str]:
        """The executed statements, in the order of the plan."""
        return [each.query for each in self.in_order if each.type == "SQL" and each.query]

    @property
    def in_order(self) -> Sequence[StepResult]:
        """The results in the order of the plan."""
        steps = self.plan.steps if self.plan else ()
        return [self.results[step.id] for step in steps if step.id in self.results]

    @property
    def shown(self) -> Sequence[StepResult]:
        """The results that support the answer: all that no other step was made of."""
        return shown_of(self.plan.steps if self.plan else (), self.results)

    @property
    def scope(self) -> Sequence[str]:
        """Why rows might be hidden from the analyst role; also among the caveats."""
        return scope_of(self.results)

    @property
    def assumptions(self) -> Sequence[str]:
        """The assumptions of the plan."""
        return self.plan.assumptions if self.plan else ()

    @property
    def sources(self) -> Sequence[str]:
        """The URLs of search results."""
        found: list[str] = []
        for each in self.results.values():
            if each.type == "SEARCH" and "url" in each.rows.names:
                place = list(each.rows.names).index("url")
                found += [row[place] or "" for row in each.rows.texts]
        return list(dict.fromkeys(filter(None, found)))

    @property
    def last_rows(self) -> StepResult | None:
        """The last of them with rows, else an empty one."""
        return rests_on(self.plan.steps if self.plan else (), self.results)

    @property
    def rows(self) -> Rows:
        """The rows of that result."""
        return self.last_rows.rows if self.last_rows else Rows(())

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """Return the rows as a pandas DataFrame; `PreconditionError` if pandas is missing."""
        return self.rows.to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401 - a polars.DataFrame
        """Return the rows as a polars DataFrame; `PreconditionError` if polars is missing."""
        return self.rows.to_polars()

    def answer_to_json(self) -> dict[str, Json]:
        """Return the part that remains after its run is removed."""
        kept = {"status", "answer", "sql", "assumptions", "caveats", "scope"}
        answer = {key: value for key, value in self.to_json().items() if key in kept}
        answer["results"] = [
            {"id": f"{self.run_id}.{name}", "rows": len(each.rows), "columns": each.rows.names}
            for name, each in self.results.items()
        ]
        return answer

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "status": self.status,
            "question": self.question,
            "answer": self.text,
            "sql": list(self.sql),
            "assumptions": list(self.assumptions),
            "caveats": list(self.caveats),
            "objections": list(self.objections),
            "scope": list(self.scope),
            "agreement": self.agreement,
            "sources": list(self.sources),
            "reasoning": self.plan.reasoning if self.plan else "",
            "steps": [
                {"description": step.description, **self.results[step.id].to_json()}
                for step in (self.plan.steps if self.plan else ())
                if step.id in self.results
            ],
            "session": self.session,
            "run": self.run_id,
            "tokens": self.tokens,
            "cost": self.cost,
        }
