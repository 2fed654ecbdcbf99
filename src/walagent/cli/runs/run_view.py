"""Print one run in full: its cause, its steps and its result."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from walagent.cli.terminal.output import cell, clean, print_wrapped

_HEAD = (
    "attachment", "version", "session", "question", "principal", "agent", "model", "run_as", "key",
    "reason", "commit_lsn", "committed_at",
    "cause_run", "undoes", "fork_of", "fork_step", "depth", "attempt", "worker", "blocked_by",
    "next_attempt_at", "tokens",
    "cost", "created_at", "started_at", "finished_at", "result", "error",
)  # fmt: skip
_USUAL = {("tokens", 0), ("depth", 0)}
_INDENT = "     "


def print_run(run: Mapping[str, Any]) -> None:
    """Print *run*, a result of `store.listings.show_run`."""
    for line in lines(run):
        print_wrapped(line)


def lines(run: Mapping[str, Any]) -> Iterator[str]:
    """Format a run as lines of text."""
    yield f"run {run['id']} ({run['kind']}): {run['state']}"
    for name in _HEAD:
        if run[name] not in {None, ""} and (name, run[name]) not in _USUAL:
            yield f"  {name.replace('_', ' ')}: {cell(run[name])}"
    if run["change"]:
        for change in (run["change"], *run["merged"]):
            yield from _change(change)
    yield from step_lines(run)
    if run["forks"]:
        yield f"forks: {', '.join(map(str, run['forks']))}"
    if run["changed"]:
        rows = "1 row" if run["changed"] == 1 else f"{run['changed']} rows"
        yield f"changed {rows}: walagent changes --run {run['id']}"
    for score in run["scores"]:
        said = f": {score['comment']}" if score["comment"] else ""
        yield clean(f"scored {_answer(score['value'])} by {score['principal']}{said}")
    for approval in run["approvals"]:
        if approval["state"] == "pending":
            yield f"pending approval: walagent approvals approve {approval['id']} (or reject)"


def _answer(value: float) -> str:
    word = "right" if value > 0 else "wrong" if value < 0 else "unsure"
    return word if value in {-1, 0, 1} else f"{word} ({value:g})"


def step_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """Format the steps of a run."""
    for step in run["steps"]:
        yield from _step(step)


def _change(change: Mapping[str, Any]) -> Iterator[str]:
    yield f"{change['op']} on {clean(change['schema'])}.{clean(change['table'])}"
    for side in ("old", "new"):
        row: Mapping[str, object] = change.get(side) or {}
        for name, value in row.items():
            yield f"{_INDENT}{side} {clean(name)}: {_shortened(cell(value))}"
    if hidden := change.get("hidden"):
        yield f"{_INDENT}hidden: {hidden} columns that this login cannot read"
    if cut := change.get("truncated"):
        yield f"{_INDENT}truncated: {cell(list(cut))}"


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    kept = " (kept)" if step["content"].get("kept") else ""
    cost = f", ${cell(step['cost'])}" if step["cost"] is not None else ""
    tokens = f", {step['tokens']} tokens{cost}" if step["tokens"] else ""
    took = f", {step['duration_ms']} ms" if step["duration_ms"] is not None else ""
    yield f"{step['seq']:>3}  {_title(step)}{kept}{tokens}{took}"
    for line in _body(step["kind"], step["content"]):
        for part in clean(line).splitlines():
            yield f"{_INDENT}{part}"


def _title(step: Mapping[str, Any]) -> str:
    content = step["content"]
    match step["kind"]:
        case "reply":
            if author := content.get("written_by"):
                return clean(f"{author} replied in place of the model")
            note = f" — {content['note']}" if content.get("note") else ""
            by = content.get("by", "agent")
            if reused := content.get("reused"):
                note += f" — reply of run {reused['run']}"
            if rows := content.get("rows"):
                note += f" — of a request for {rows} runs"
            whom = f" to the {by}'s prompt" if by != "agent" else ""
            return clean(f"{content.get('model') or 'model'} replied{whom}{note}")
        case "intent":
            return clean(f"calling {content['name']}")
        case "result":
            return clean(f"{content['name']} {'failed' if content['is_error'] else 'returned'}")
        case "approval":
            return clean(f"approval requested for {content['tool']}")
        case "decision":
            by = f" by {content['by']}" if content.get("by") else ""
            how = " with edited arguments" if "edited" in content else ""
            return clean(f"{content['decision']}{how}{by}")
        case "note" if "turn" in content:
            turn = content["turn"]
            return f"the thread up to event {turn['upto']}, seen up to {turn['seen']}"
        case kind:
            return str(kind)


def _body(kind: str, content: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "reply":
            yield from map(_part, content["parts"])
        case "result":
            yield from _result(content)
        case "decision" if "edited" in content:
            yield orjson.dumps(content["edited"]).decode()
        case "decision" | "error":
            yield str(content.get("reason") or "")
        case "note":
            yield from _note(content)
        case _:
            pass


def _note(content: Mapping[str, Any]) -> Iterator[str]:
    match content:
        case {"turn": turn}:
            yield _shortened(str(turn["context"]))
        case {"fallback": model}:
            yield f"asks {model} instead of {content['for']}: {content['why']}"
        case {"cascade": model}:
            yield f"asks {model} after {content['for']}: {content['why']}"
        case {"control": _}:
            yield f"no control of the cascade: {content['why']}"
        case {"tier": tier}:
            yield f"asks in tier {tier} instead of {content['for']}: {content['why']}"
        case {"alone": _, "rows": rows}:
            yield f"asks alone instead of with {rows - 1} other rows: {content['why']}"
        case {"fork": _}:
            yield from _forked(content)
        case _:
            fresh = ", with an empty transcript" if content.get("fresh") else ""
            by = f" (retried by {content.get('by')}{fresh})" if content.get("retry") else ""
            yield f"{content.get('text', '')}{by}".strip()


def _forked(content: Mapping[str, Any]) -> Iterator[str]:
    of = content["fork"]
    yield f"goes on from step {of['step']} of run {of['run']} (forked by {content.get('by')})"
    if "prompt" in content:
        yield f"prompt: {_shortened(content['prompt'])}"
    if "arguments" in content:
        yield f"arguments: {orjson.dumps(content['arguments']).decode()}"


def _result(content: Mapping[str, Any]) -> Iterator[str]:
    """Format a result; for a step of a plan, with its statement and the findings of the checks."""
    if content.get("query"):
        yield str(content["query"])
    if content.get("revert"):
        yield from _reverted(content["revert"])
    else:
        yield _shortened(str(content["content"]))
    yield from map(str, content.get("findings") or ())


def _reverted(result: Mapping[str, Any]) -> Iterator[str]:
    for step in result["steps"]:
        for row in step["rows"]:
            values: Mapping[str, object] = row["key"] or {}
            key = ", ".join(map(cell, values.values()))
            why = f": {row['reason']}" if row.get("reason") else ""
            yield f"{row['op']} of {row['table']} {key}: {row['outcome']}{why}"


def _part(part: Mapping[str, Any]) -> str:
    if "call" in part:
        given = part["arguments"]
        return f"→ {part['name']}({part.get('raw', '') if given is None else _arguments(given)})"
    return str(part["text"]) if "text" in part else "(thinking)"


def _arguments(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_shortened(cell(value))}" for name, value in given.items())


def _shortened(text: str, most: int = 2000) -> str:
    return (
        text if len(text) <= most else f"{text[:most]}… ({len(text)} characters; --json prints all)"
    )
