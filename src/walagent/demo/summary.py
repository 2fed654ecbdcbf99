"""Compute the demo's summary: counts by SQL, decisions compared with the labels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

from walagent.demo.stories import Story
from walagent.demo.tickets import Expected, expected, ticket_at
from walagent.message import Json

Connection = AsyncConnection[Any]

# An INSERT of a ticket is one change with one run and one effect.  If a model requests two actions,
# both are recorded; only effects without a record are duplicates.
_COUNTS = """
select count(*) as rows,
       coalesce(sum(runs), 0)::integer as runs,
       coalesce(sum(effects), 0)::integer as effects,
       coalesce(sum(greatest(runs - 1, 0)
                    + greatest(effects - greatest(cardinality(acted), 1), 0)), 0)::integer
           as duplicates,
       count(*) filter (where runs = 0) as missing,
       count(*) filter (where runs > 0 and finished_at is null) as unfinished,
       count(*) filter (where state in ('failed', 'dead')) as failed,
       (select count(*) from agent.broken_invariant) as broken_invariants,
       round(percentile_cont(0.5) within group (order by took)::numeric, 1)::float as p50_ms,
       round(percentile_cont(0.95) within group (order by took)::numeric, 1)::float as p95_ms
  from (select *, extract(epoch from finished_at - committed_at) * 1000 as took
          from ticket_story) as story
"""
_HAND_OVER = "escalate_to_human"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts by the database; psql can run the same queries."""

    rows: int
    runs: int
    effects: int
    duplicates: int
    missing: int  # tickets without a run
    unfinished: int
    failed: int
    broken_invariants: int
    p50_ms: float | None  # from a ticket's commit to the end of its run
    p95_ms: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """How many decisions on some tickets agree with their labels."""

    tickets: int
    tool: int
    category: int
    handed_over: int  # escalated to a person, although the label names another tool
    commonest_tool: int  # the score of always choosing the most common tool
    commonest_category: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that the summary states."""

    model: str
    counts: Counts
    apart: Score  # tickets that were not used for any tuning
    not_examples: Score  # all except the agent's worked examples
    first_seconds: float | None  # from the start of the command to the first processed ticket
    seconds: float
    interrupted: bool

    @property
    def holds(self) -> bool:
        """Return whether every ticket was processed once; if interrupted, those so far."""
        counts = self.counts
        if counts.duplicates or counts.broken_invariants:
            return False
        return self.interrupted or not (counts.missing or counts.unfinished or counts.failed)

    def as_json(self) -> dict[str, Json]:
        """Convert to one object; `correct` of `evaluated` counts tool choices without the worked
        examples.
        """
        return {
            "model": self.model,
            **asdict(self.counts),
            "correct": self.not_examples.tool,
            "evaluated": self.not_examples.tickets,
            "apart": asdict(self.apart),
            "not_examples": asdict(self.not_examples),
            "first_seconds": self.first_seconds,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
        }


async def count(conn: Connection) -> Counts:
    """Count rows, runs, effects and errors."""
    async with conn.cursor(row_factory=class_row(Counts)) as cursor:
        await cursor.execute(_COUNTS)
        counts = await cursor.fetchone()
    assert counts is not None  # noqa: S101 - an aggregate always returns a row
    return counts


def score(stories: Sequence[Story], uses: Iterable[str]) -> Score:
    """Compare decisions with the labels, for tickets of these uses."""
    wanted = frozenset(uses)
    labelled = ((story, label_of(story.ticket)) for story in stories)
    pairs = [(story, label) for story, label in labelled if label.use in wanted]

    def many(right: Callable[[Story, Expected], bool]) -> int:
        return sum(right(story, label) for story, label in pairs)

    return Score(
        len(pairs),
        tool=many(lambda story, label: list(story.acted) == [label.tool]),
        category=many(lambda story, label: story.category == label.category),
        handed_over=many(
            lambda story, label: _HAND_OVER in story.acted and label.tool != _HAND_OVER
        ),
        commonest_tool=_commonest([label.tool for _, label in pairs]),
        commonest_category=_commonest([label.category for _, label in pairs]),
    )


def label_of(number: int) -> Expected:
    """Return the label of the ticket with this *number*."""
    return expected()[ticket_at(number).id]


def _commonest(names: Sequence[str]) -> int:
    return max(map(names.count, names), default=0)
