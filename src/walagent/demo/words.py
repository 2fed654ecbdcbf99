"""Format the summary for people."""

from collections.abc import Iterator

from walagent.demo.summary import Counts, Score, Summary

# For psql, on one line.
QUERIES = (
    "select ticket, category, steps, effect, ms from ticket_story order by ticket;",
    "select id, state, key, steps, result, cost from agent.run_overview order by id;",
    "select kind, jsonb_pretty(content) from agent.step where run_id = 1 order by seq;",
)
_FAILED = "select id, error from agent.run where state in ('failed', 'dead')"
_BROKEN = "select * from agent.broken_invariant"


def words(summary: Summary, program: str = "walagent", options: str = "") -> Iterator[str]:
    """Yield the lines of the summary.

    Args:
        program: how a shell starts walagent; *options*: what selects the demo's database.
    """
    if summary.interrupted:
        yield "Stopped; the summary covers what was processed so far."
    yield from _counts(summary.counts)
    yield from _times(summary)
    yield from _scores(summary)
    yield ""
    yield "The database is kept:"
    yield ""
    for command in ("runs list", "show 1", "why support_tickets 1"):
        yield f"  {program} {command}{options}"
    for query in QUERIES:
        yield f'  {program} database psql{options} -c "{query}"'
    yield f"  {program} database uninstall --demo"


def _counts(counts: Counts) -> Iterator[str]:
    yield (
        f"{counts.rows} tickets written, {counts.runs} runs, {counts.effects} effects; "
        f"{counts.duplicates} duplicates, {counts.missing} tickets without a run"
    )
    if counts.unfinished:
        yield f"{counts.unfinished} runs have not ended"
    if counts.failed:
        yield f"{counts.failed} runs failed: {_FAILED}"
    if counts.broken_invariants:
        yield f"{counts.broken_invariants} invariants are violated: {_BROKEN}"


def _times(summary: Summary) -> Iterator[str]:
    p50, p95 = summary.counts.p50_ms, summary.counts.p95_ms
    if p50 is not None and p95 is not None:
        yield f"from a ticket's commit to the end of its run: p50 {p50:.0f} ms, p95 {p95:.0f} ms"
    if summary.first_seconds is not None:
        yield (
            f"first ticket processed {summary.first_seconds:.1f} s after the command, "
            f"all after {summary.seconds:.1f} s"
        )


def _scores(summary: Summary) -> Iterator[str]:
    if not summary.not_examples.tickets:
        return
    yield ""
    yield f"Decisions of {summary.model}, compared with the labels:"
    yield _line("tickets", "number", "right", "to a person", "wrong", "category right")
    yield from _score("not used for tuning", summary.apart)
    yield from _score("all but worked examples", summary.not_examples)


def _score(which: str, score: Score) -> Iterator[str]:
    wrong = score.tickets - score.tool - score.handed_over
    yield _line(which, score.tickets, score.tool, score.handed_over, wrong, score.category)
    if score.tickets:
        commonest = score.commonest_tool
        rest = score.tickets - commonest
        yield _line("  always the most common", "", commonest, "", rest, score.commonest_category)


def _line(*cells: object) -> str:
    return "  {:27} {:>6} {:>6} {:>12} {:>6} {:>15}".format(*cells)
