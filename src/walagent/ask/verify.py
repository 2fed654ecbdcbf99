"""Checks of results that need no model: what is odd about rows, and what VERIFY steps say."""

from collections.abc import Iterator, Mapping, Sequence

from walagent.ask.plan import PlanStep
from walagent.ask.results import StepResult
from walagent.store.guard.rows import Column, Rows

_TEXT = 25
_BOOLEAN = 16


def check_rows(rows: Rows) -> Sequence[str]:
    """Say what is odd about rows; nothing for most."""
    return tuple(_oddities(rows))


def verify(step: PlanStep, inputs: Mapping[str, StepResult]) -> StepResult:
    """Carry a VERIFY step out: one row for each step that it is about."""
    columns = [Column("step", _TEXT), Column("passed", _BOOLEAN), Column("finding", _TEXT)]
    texts = [
        (name, "f" if (found := _found(result)) else "t", "; ".join(found))
        for name, result in inputs.items()
    ]
    findings = tuple(f"{name}: {said}" for name, passed, said in texts if passed == "f")
    return StepResult(step.id, step.type, Rows(columns, texts), findings=findings)


def _found(result: StepResult) -> Sequence[str]:
    return [result.error] if result.error else result.findings


def _oddities(rows: Rows) -> Iterator[str]:
    if not rows.texts:
        yield "there are no rows"
        return
    if any(said.startswith("only the first") for said in rows.cut):
        yield "not all rows were read, so totals over them are wrong"
    for n, name in enumerate(rows.names):
        if all(row[n] is None for row in rows.texts):
            yield f"{name} is NULL in every row"
    if len(rows) > 1 and len(set(rows.texts)) == 1 and len(rows.names) > 1:
        yield "all rows are the same, as after a join that repeats them"
    distinct = len(set(rows.texts))
    if 1 < distinct < len(rows) / 2:
        yield "most rows appear more than once, as after a join that repeats them"
