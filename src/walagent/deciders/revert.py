"""Decides for runs that take another run back: undo it in one transaction, and end."""

from collections.abc import Mapping, Sequence
from typing import Final

from walagent.domain.run import RunSpec, Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.message import Json, ToolCall
from walagent.moves import Act, AsksNoModel, Call, Move, fail, succeed

_REVERT: Final = Tool("revert", "revert", "revert", "", {"type": "object"}, Effect.TRANSACTIONAL)
_NAMED: Final = 3  # rows that the reason of a refusal names


class RevertDecider(AsksNoModel):
    """Implements `Decider`."""

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Undo, then end with what was done or why nothing was; again after a retry.

        A dry run succeeds whatever it finds: it has answered.
        """
        del run  # all runs are alike
        for step in reversed(steps):
            if step.kind is StepKind.NOTE and step.content.get("retry"):
                break
            if step.kind is StepKind.RESULT:
                result = step.content["revert"]
                is_refused = step.content["is_error"] and not result.get("dry_run")
                return fail(summary(result)) if is_refused else succeed(summary(result))
        return Act((Call(ToolCall("revert", "revert", {}), _REVERT),))


def summary(result: Mapping[str, Json]) -> str:
    """Say in words what a revert did.

    Args:
        result: `revert` of the step's content.
    """
    steps = result["steps"]
    undone = sum(len(step["rows"]) for step in steps if step["done"])
    left = [step for step in steps if not step["done"]]
    would = "would be" if result.get("dry_run") else "was" if undone == 1 or not undone else "were"
    changes = "1 change" if undone == 1 else f"{undone} changes"
    if not steps:
        return f"run {result['run']} has no changes that were recorded"
    if not left:
        return f"{changes} of run {result['run']} {would} taken back"
    refusals = [text for step in left for text in _refusals(step)]
    named = "; ".join(refusals[:_NAMED])
    more = f"; and {len(refusals) - _NAMED} more" if len(refusals) > _NAMED else ""
    if result.get("only_unchanged") and undone:
        steps = "1 step was" if len(left) == 1 else f"{len(left)} steps were"
        return f"{changes} {would} taken back, {steps} left: {named}{more}"
    return f"nothing of run {result['run']} {would} taken back: {named}{more}"


def _refusals(step: Mapping[str, Json]) -> list[str]:
    return [
        f"{row['table']} {_key(row['key'])}: {row['reason']}"
        for row in step["rows"]
        if row["outcome"] == "refused"
    ]


def _key(key: Mapping[str, str | None] | None) -> str:
    return ", ".join(map(str, key.values())) if key else "(key not known)"
