"""What was measured: a line for each question, totals, and all of it as JSON."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from evals.measure import Result
from walagent.message import Json

_HEAD = f"{'':5} {'question':32} {'level':>5} {'calls':>5} {'tokens':>7} {'US$':>8} {'s':>6}"


def head() -> str:
    """Write the head of the table."""
    return _HEAD


def line(result: Result) -> str:
    """Write one line of the table, and under it what was wrong."""
    question = result.question
    cells = (
        f"{'right' if result.right else 'WRONG':5} {question.id:32} {question.level:5}"
        f" {result.calls:5} {result.tokens:7,} {_money(result.cost):>8} {result.seconds:6.1f}"
    )
    return cells if result.right else f"{cells}\n      {result.why[:200]}"


def totals(results: Sequence[Result]) -> dict[str, Json]:
    """Sum up what was measured."""
    seconds = sorted(each.seconds for each in results)
    levels = sorted({each.question.level for each in results})
    kinds = sorted({each.question.expect for each in results})
    return {
        **_accuracy(results),
        "by_level": {
            str(n): _accuracy(each for each in results if each.question.level == n) for n in levels
        },
        "by_kind": {
            kind: _accuracy(each for each in results if each.question.expect == kind)
            for kind in kinds
        },
        "calls": sum(each.calls for each in results),
        "tokens": sum(each.tokens for each in results),
        "cost": _cost(results),
        "seconds_p50": round(_at(seconds, 0.5), 3),
        "seconds_p95": round(_at(seconds, 0.95), 3),
    }


def summary(found: dict[str, Json]) -> str:
    """Write the totals for people."""
    lines = [f"level {level}: {_share(each)}" for level, each in sorted(found["by_level"].items())]
    lines += [f"{kind}: {_share(each)}" for kind, each in found["by_kind"].items()]
    lines.append(f"all: {_share(found)}")
    lines.append(
        f"{found['calls']} model calls, {found['tokens']:,} tokens, cost {_money(found['cost'])}"
        f" US$, p50 {found['seconds_p50']:.1f} s, p95 {found['seconds_p95']:.1f} s"
    )
    return "\n".join(lines)


def save(path: Path, setting: dict[str, Json], results: Sequence[Result]) -> None:
    """Write the report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        **setting,
        "totals": totals(results),
        "questions": [each.to_json() for each in results],
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _accuracy(results: Iterable[Result]) -> dict[str, Json]:
    graded = [each.right for each in results]
    return {"asked": len(graded), "right": sum(graded), "accuracy": sum(graded) / len(graded)}


def _cost(results: Sequence[Result]) -> float | None:
    known = [each.cost for each in results if each.cost is not None]
    return round(sum(known), 6) if len(known) == len(results) else None


def _share(each: dict[str, Json]) -> str:
    return f"{each['right']} of {each['asked']} right ({100 * each['accuracy']:.0f} %)"


def _money(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f}"


def _at(ordered: Sequence[float], share: float) -> float:
    """Give the value below which *share* of the values are; the nearest there is."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
