"""What is replayed: changes of recorded runs, or of a dataset."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from psycopg import AsyncConnection, sql

from walagent.domain.agent_spec import AgentSpec, Target
from walagent.domain.run import RunState, Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import reply_from_json, transcript
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store import evaluations
from walagent.store.codecs.exact import read_json
from walagent.store.role_reader import RoleStatement
from walagent.tools.statements import bound
from walagent.trial.external import Answer, leaves
from walagent.trial.outcomes import Outcome, label_of, outcome_of
from walagent.trial.trial import Trial

Connection = AsyncConnection[Any]

ENDED: Final = (RunState.SUCCEEDED, RunState.FAILED, RunState.DEAD)
FAILED: Final = (RunState.FAILED, RunState.DEAD)
_PORTION: Final = 200  # runs that are read at once, with their steps
_MOST: Final = 10_000  # runs that are searched


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cases to replay.

    Args:
        last: the maximum number of runs, the last ones.
        where: an SQL condition on recorded rows t, evaluated as the role of the agent.
        failed: only runs that failed.
        corrected: only runs of which somebody has changed what they wrote.
        scored: only runs that people have scored.
        dataset: the dataset with the changes, instead of recorded runs.
        limit: the maximum number of cases of a dataset; None: all.
    """

    last: int = 50
    where: str = ""
    failed: bool = False
    dataset: str | None = None
    limit: int | None = None
    corrected: bool = False
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded change, with what its run came to.

    Args:
        merged: later changes of the same run.
        calls: of tools outside the database: target, arguments, answer.
        recorded: None: no run is recorded.
        expected: its label: of a dataset; what it did, if people say that it was right; what others
            made of what it wrote; None: it has none.
    """

    change: Mapping[str, Any]
    key: str | None
    tenant: str
    run_id: int | None = None
    case_id: int | None = None
    merged: Sequence[Mapping[str, Any]] = ()
    calls: Sequence[tuple[str, Mapping[str, Json], Answer]] = ()
    recorded: Outcome | None = None
    expected: Mapping[str, Any] | None = None

    @property
    def row(self) -> Mapping[str, Any]:
        """The row as the last change left it, or as it was before a delete."""
        last = (self.merged or (self.change,))[-1]
        return last.get("new") or last.get("old") or {}

    @property
    def name(self) -> str:
        """What a person calls it."""
        of = f"run {self.run_id}" if self.run_id is not None else f"case {self.case_id}"
        return f"{of}, row {self.key}" if self.key is not None else of


@dataclass(frozen=True, slots=True)
class Chosen:
    """The cases to replay, oldest first.

    Args:
        gone: how many were left out because their rows no longer exist, or the role of the agent
            does not see them.
        dataset: the dataset that they are of.
    """

    cases: Sequence[Case]
    gone: int = 0
    dataset: str | None = None


async def choose(trial: Trial, name: str, choice: Choice) -> Chosen:
    """Read the cases of an attachment.

    Raises:
        ConfigError: the attachment or dataset does not exist, its table is another or has other
            columns, or the condition is not valid.
    """
    attachment = await evaluations.attached(trial.outside, name)
    if choice.dataset is not None:
        return await _of_dataset(trial, attachment.id, choice)
    return await _of_runs(trial, attachment.id, choice)


async def _of_runs(trial: Trial, attachment: int, choice: Choice) -> Chosen:
    found, gone, before, searched = list[Case](), 0, None, 0
    states = FAILED if choice.failed else ENDED
    versions = _Versions(trial, attachment)
    while len(found) < choice.last and searched < _MOST:
        size = _PORTION if choice.where else min(_PORTION, choice.last - len(found) + 10)
        rows = await evaluations.recorded_runs(
            trial.outside, attachment, states, size, before=before,
            corrected=choice.corrected, scored=choice.scored,
        )  # fmt: skip
        if not rows:
            break
        before, searched = rows[-1]["id"], searched + len(rows)
        cases = [await versions.case(row) for row in rows]
        for case in cases:
            _check_table(case, trial.attachment.target)
        standing, wanted = await _seen(trial, cases, choice.where)
        gone += len(cases) - len(standing)
        found += [case for n, case in enumerate(cases) if n in wanted]
    return Chosen(found[: choice.last][::-1], gone)


async def _of_dataset(trial: Trial, attachment: int, choice: Choice) -> Chosen:
    dataset = await evaluations.find_dataset(trial.outside, choice.dataset or "")
    target = trial.attachment.target
    relation = f"{target.schema}.{target.table}"
    if dataset["relation"] != relation:
        raise ConfigError(
            f'dataset "{dataset["name"]}" has changes of {dataset["relation"]}, and the attachment'
            f" is of {relation}"
        )
    check_columns(dataset, await evaluations.columns(trial.outside, target.relation_oid))
    rows = (await evaluations.cases_of(trial.outside, dataset["id"]))[: choice.limit]
    runs = [row["run_id"] for row in rows if row["run_id"] is not None]
    recorded = await evaluations.recorded_runs(
        trial.outside, attachment, ENDED, len(runs), runs=runs
    )
    versions = _Versions(trial, attachment)
    by_run = {row["id"]: await versions.case(row) for row in recorded}
    cases = [_labelled(row, by_run.get(row["run_id"])) for row in rows]
    standing, wanted = await _seen(trial, cases, choice.where)
    return Chosen(
        [case for n, case in enumerate(cases) if n in wanted],
        len(cases) - len(standing),
        dataset["name"],
    )


def _labelled(row: Mapping[str, Any], recorded: Case | None) -> Case:
    """Give a case of a dataset, with what is still known of its run."""
    case = Case(
        row["change"], row["key"], row["tenant"], row["run_id"], row["case_id"], row["merged"],
        expected=row["expected"],
    )  # fmt: skip
    if recorded is None:
        return case
    return replace(case, calls=recorded.calls, recorded=recorded.recorded)


def check_columns(dataset: Mapping[str, Any], present: Sequence[Sequence[str]]) -> None:
    """Check that a table has the columns with which a dataset was made.

    Raises:
        ConfigError: one is gone, new, or of another type.
    """
    before = {name: type_ for name, type_ in dataset["columns"]}  # noqa: C416 - lists
    now = {name: type_ for name, type_ in present}  # noqa: C416 - lists
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        if name not in now:
            what = f'no longer has the column "{name}"'
        elif name not in before:
            what = f'has the new column "{name}"'
        else:
            what = f'has the column "{name}" as {now[name]} instead of {before[name]}'
        raise ConfigError(
            f'dataset "{dataset["name"]}" does not fit its table: {dataset["relation"]} {what}',
            hint="Drop it and create it again: walagent evaluations datasets --help.",
        )


def _check_table(case: Case, target: Target) -> None:
    relation = (case.change.get("schema"), case.change.get("table"))
    if relation != target.relation:
        raise ConfigError(
            f"{case.name} is of the table {'.'.join(map(str, relation))}, and the candidate is"
            f" attached to {'.'.join(target.relation)}"
        )


@dataclass(slots=True)
class _Versions:
    """The versions that runs were pinned to: they say what their tools were."""

    trial: Trial
    attachment: int
    _agents: dict[int, AgentSpec] = field(default_factory=dict[int, AgentSpec])

    async def case(self, row: Mapping[str, Any]) -> Case:
        return case_of(row, await self._agent(row["version"]))

    async def _agent(self, number: int) -> AgentSpec:
        if number not in self._agents:
            found = await evaluations.version(self.trial.outside, self.attachment, number)
            self._agents[number] = (found or self.trial.attachment).agent
        return self._agents[number]


def case_of(row: Mapping[str, Any], agent: AgentSpec) -> Case:
    """Return the case of a run.

    Args:
        row: of `store.evaluations.recorded_runs`.
        agent: as the run had it.
    """
    merged: Sequence[Mapping[str, Any]] = row["merged"]
    calls = _outside_calls(row["steps"], agent, merged[-1] if merged else row["change"])
    outcome = outcome_of(row, effects_of(agent.tools))
    return Case(
        row["change"], row["key"], row["tenant"], row["id"], None, merged,
        tuple(calls), outcome, _said(row, outcome),
    )  # fmt: skip


def _said(row: Mapping[str, Any], outcome: Outcome) -> Mapping[str, Any] | None:
    """Return the label of a run.

    What people say of it counts for more than a correction: a value that was right can change.  Of
    a run that was wrong, a correction alone says what is right.
    """
    if (row["score"] or 0) > 0:
        return label_of(outcome)
    return {"values": row["corrected"]} if row["corrected"] else None


def effects_of(tools: Sequence[Tool]) -> dict[str, Effect]:
    """Return the effects of tools by the name that the model uses."""
    return {tool.name: tool.effect for tool in tools}


def _outside_calls(
    steps: Sequence[Mapping[str, Any]], agent: AgentSpec, change: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Json], Answer]]:
    """Yield the calls outside the database of a run, with what they returned."""
    shown = transcript([Step(s["seq"], StepKind(s["kind"]), s["content"]) for s in steps])
    results = {s.content["call_id"]: s.content for s in shown if s.kind is StepKind.RESULT}
    for step in shown:
        if step.kind is not StepKind.REPLY:
            continue
        for call in reply_from_json(step.content).calls:
            tool, result = agent.tool(call.name), results.get(call.id)
            if tool is not None and result is not None and leaves(tool):
                answer = Answer(result["content"], result["is_error"])
                yield tool.target, bound(tool, call, change), answer


def _as_record(row: Mapping[str, Any], target: Target) -> dict[str, Json]:
    """Return a row as jsonb_populate_record() reads it: a change has json as text, not jsonb."""
    texts = {name for name, kind in target.json_columns.items() if kind == "json"}
    return {name: _parsed(value) if name in texts else value for name, value in row.items()}


def _parsed(text: Json) -> Json:
    try:
        return read_json(text)
    except (TypeError, ValueError):
        return None  # it was truncated


async def _seen(
    trial: Trial, cases: Sequence[Case], where: str
) -> tuple[frozenset[int], frozenset[int]]:
    """Return which cases have a row that the role of the agent sees, and which of them are wanted.

    Rows that a change deleted are not looked for.

    Raises:
        ConfigError: the recorded rows no longer fit the table.
    """
    target, attachment = trial.attachment.target, trial.attachment
    given = [
        {
            "n": n,
            "gone": (case.merged or (case.change,))[-1]["op"] == "delete",
            "row": _as_record(case.row, target),
        }
        for n, case in enumerate(cases)
    ]
    if not given:
        return frozenset(), frozenset()
    same = [
        sql.SQL("p.{0} operator(pg_catalog.=) t.{0}").format(sql.Identifier(name))
        for name in target.key_columns
    ]
    statement = sql.SQL(
        "select pg_catalog.json_build_array("
        "coalesce(pg_catalog.json_agg(x.n), '[]'),"
        " coalesce(pg_catalog.json_agg(x.n) filter (where ({where})), '[]'))::text"
        " from pg_catalog.jsonb_to_recordset($1) as x (n integer, gone boolean, row jsonb)"
        " cross join lateral pg_catalog.jsonb_populate_record(null::{table}, x.row) t"
        " where x.gone or exists (select from {table} p where {same})"
    ).format(
        where=sql.SQL(where or "true"),  # pyright: ignore[reportArgumentType]
        table=sql.Identifier(*target.relation),
        same=sql.SQL(" and ").join(same),
    )
    text = await trial.reader.read(
        RoleStatement(
            attachment.authority.run_as,
            statement.as_bytes(trial.conn),
            given,
            timeout="0",
            actor=attachment.actor,
        )
    )
    standing, wanted = json.loads(text or "[[],[]]")
    return frozenset(standing), frozenset(wanted)
