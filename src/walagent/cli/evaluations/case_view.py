"""Print the cases and counts of an evaluation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from walagent.cli.terminal.output import cell, clean
from walagent.cli.terminal.table import Dollars

_LONGEST: Final = 300  # characters of a line
_MOST: Final = 5  # changed rows of one case; JSON has more
Case = Mapping[str, Any]


def is_notable(case: Case) -> bool:
    """Whether a case differs or is wrong, or cannot be compared."""
    if "question" in case["candidate"]:
        return case["is_right"] is not True
    return case["agrees"] is not True or case["is_right"] is False


def case_lines(case: Case) -> Iterator[str]:
    """Format a case of agent.evaluation_case: what was recorded, and what the candidate did."""
    yield f"── {case_name(case)}: {_outcome(case)}"
    if "question" in case["candidate"]:
        yield from _answer(case["candidate"], case["expected"]["sql"])
        return
    recorded, candidate = case["recorded"], case["candidate"]
    if recorded is not None:
        yield f"  recorded:  {did(recorded)}"
    yield f"  candidate: {did(candidate)}"
    for each in candidate.get("not_called", ()):
        yield f"  not called, because no recorded call is equal: {_call(each)}"
    if case["expected"] is not None:
        yield f"  expected:  {_short(cell(case['expected']))}"
    if (verdict := case["verdict"]) is not None:
        said = verdict.get("right") or verdict.get("error")
        reason = f": {cell(verdict['reason'])}" if verdict.get("reason") else ""
        yield f"  judge:     {cell(said)}{reason}"
    yield from _changes(candidate.get("changes", ()))
    for table, reason in candidate.get("not_compared", {}).items():
        yield f"  would write: {clean(table)}, which was not compared: {clean(reason)}"


def _answer(candidate: Mapping[str, Any], saved: str) -> Iterator[str]:
    if candidate["error"]:
        yield f"  {_short(cell(candidate['error']))}"
    for statement in candidate["sql"]:
        yield f"  candidate: {_short(cell(statement))}"
    yield f"  saved:     {_short(cell(saved))}"


def case_name(case: Case) -> str:
    """Say whose case it is."""
    if (question := case["candidate"].get("question")) is not None:
        return f'question {case["case_id"]}, "{_short(cell(question))}"'
    of = f"run {case['run_id']}" if case["run_id"] is not None else f"case {case['case_id']}"
    return f"{of}, row {clean(case['key'])}" if case["key"] is not None else of


def _outcome(case: Case) -> str:
    if "question" in case["candidate"]:
        return {True: "right", False: "wrong", None: "not compared"}[case["is_right"]]
    words = {True: "agrees", False: "differs", None: "has no recorded run"}[case["agrees"]]
    if case["is_right"] is None:
        return words
    right = "right" if case["is_right"] else "wrong"
    if case["was_right"] is None:
        return f"{words}, {right}"
    return f"{words}, {right} (recorded: {'right' if case['was_right'] else 'wrong'})"


def did(outcome: Mapping[str, Any]) -> str:
    """Say in a line what a run came to: its calls, or its text; its statements, of a question."""
    if "question" in outcome:
        return _short(
            "; ".join(cell(statement) for statement in outcome["sql"]) or outcome["error"]
        )
    calls = "; ".join(
        _call(call) + ("" if call["state"] == "done" else f" ({call['state']})")
        for call in outcome["calls"]
    )
    state = "" if outcome["state"] == "succeeded" else f"{outcome['state']}: "
    said = outcome["error"] or (None if calls else outcome["result"])
    return _short(f"{state}{'; '.join(part for part in (calls, cell(said)) if part)}")


def _call(call: Mapping[str, Any]) -> str:
    given = ", ".join(f"{clean(name)}={cell(value)}" for name, value in call["arguments"].items())
    return f"{clean(call['tool'])}({given})"


def _changes(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in changes[:_MOST]:
        after: Mapping[str, Any] | None = row.get("after")
        sign = {"insert": "+", "delete": "-", "update": "~"}[row["operation"]]
        names = row["columns"]
        cells = ", ".join(
            clean(name) + ("" if after is None else f"={_value(after.get(name))}") for name in names
        )
        yield _short(f"  would write: {sign} {clean(row['table'])}: {cells}")
    if len(changes) > _MOST:
        yield f"  … and {len(changes) - _MOST} more rows; --json has all that are stored"


def _value(value: object) -> str:
    return "NULL" if value is None else cell(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def count_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """Format the counts of an evaluation; keys as `evaluation_document` has them."""
    cases, agreeing = counts["cases"], counts["agreeing"]
    compared = agreeing + counts["differing"]
    shadow = counts.get("shadow")
    parts = [f"{cases} of {counts['planned']} cases"]
    if shadow is not None:
        parts = [f"{cases} cases of shadow version {shadow}"]
    if compared:
        parts.append(f"{agreeing} agree, {counts['differing']} differ")
    if counts["failing"]:
        parts.append(f"{counts['failing']} did not succeed")
    yield f"evaluation {counts['id']}: {'; '.join(parts)}"
    if labelled := counts["labelled"]:
        yield f"  right: {counts['are_right']} of {labelled}{_before(counts)}"
    if judged := counts["judged"]:
        better, worse = counts["judged_better"], counts["judged_worse"]
        yield (
            f"  judge: {better} better, {worse} worse,"
            f" {judged - better - worse} undecided of {judged} that differ"
        )
    yield (
        f"  candidate: {clean(counts['model'])}, {counts['tokens']} tokens"
        f"{_cost(counts['cost'])}{_seconds(counts['median_seconds'])}"
    )
    if compared:
        yield (
            f"  recorded: {counts['recorded_tokens']} tokens{_cost(counts['recorded_cost'])}"
            f"{_seconds(counts['recorded_median_seconds'])}"
        )
    if counts["state"] == "broken_off":
        yield f"  broken off: {cell(counts['error'] or 'its process has ended')}"


def comparison_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Format a comparison of two evaluations; see `trial.comparing.compared`."""
    first, second = document["first"], document["second"]
    yield (
        f"evaluations {first['id']} and {second['id']}: {document['cases']} cases in common;"
        f" {document['agreeing']} agree, {len(document['differing'])} differ"
    )
    right = document["right"]
    if right["cases"]:
        yield (
            f"  right: {right['first_right']} and {right['second_right']} of {right['cases']};"
            f" {second['id']} is better in {right['better']}, worse in {right['worse']}"
            f" (p = {right['p']:.3g})"
        )
    for each in (first, second):
        yield (
            f"  {each['id']}: {clean(each['model'])}, {each['tokens']} tokens"
            f"{_cost(each['cost'])}{_seconds(each['median_seconds'])}"
        )


def _before(counts: Mapping[str, Any]) -> str:
    test = counts["against_recorded"]
    if not test["cases"]:
        return ""
    return (
        f"; recorded: {counts['were_right']} of {test['cases']}"
        f" ({test['better']} better, {test['worse']} worse, p = {test['p']:.3g})"
    )


def _cost(cost: float | None) -> str:
    return "" if cost is None else f", ${Dollars(cost)}"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f", median {seconds:.2f} s"
