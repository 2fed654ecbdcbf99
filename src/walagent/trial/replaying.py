"""Replay recorded changes through a candidate version, and store what came of it.

    cases → trials, each a transaction that is rolled back → agent.evaluation_case

A trial is begun again after some cases, so that no transaction keeps old row versions for long.
The evaluation alone is committed, on a connection of its own; it is held while its process lives.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Final, LiteralString

from walagent.domain.agent_spec import Target
from walagent.errors import ConfigError
from walagent.message import Json, ModelSpec
from walagent.models.registry import can_plan
from walagent.store import evaluations
from walagent.store.errors import translating
from walagent.store.evaluations import Attached, NewEvaluation
from walagent.store.relations.changed_rows import Cells, ChangedRow
from walagent.trial.attaching import Wanted
from walagent.trial.cases import Case, Choice, Chosen, choose, effects_of
from walagent.trial.charging import Account, Meter
from walagent.trial.external import NotCalled, RecordedCalls
from walagent.trial.held import held, open_keeper
from walagent.trial.judging import Judge, Judged
from walagent.trial.outcomes import Outcome, agree, is_right, outcome_of
from walagent.trial.trial import Outside, Trial, TrialOptions, open_trial

_CASES: Final = 25  # of one transaction …
_SECONDS: Final = 60.0  # … which begins no case after so many
_READING: Final[LiteralString] = (
    "500ms"  # of a table that a case would write to; a trial reads it whole
)
_MOST: Final = 20  # changed rows of a case that are stored


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay.

    Args:
        judge: the model that says of differing cases which run is right; None: none is asked.
        jobs: how many cases are executed at once, each in a transaction of its own.
    """

    choice: Choice = field(default_factory=Choice)
    judge: str | None = None
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Replayed:
    """A case that was replayed.

    Args:
        changes: rows that it would change, as `written` has them.
        not_compared: tables that it would write to and that were not compared, and why.
        not_called: calls outside the database that no recorded call is equal to.
        agrees: whether the candidate came to the same; None: nothing is recorded.
        verdict: of the judge, if it was asked.
    """

    number: int
    case: Case
    candidate: Outcome
    agrees: bool | None
    changes: Sequence[Json] = ()
    not_compared: Mapping[str, str] = field(default_factory=dict[str, str])
    not_called: Sequence[NotCalled] = ()
    verdict: Judged | None = None

    @property
    def was_right(self) -> bool | None:
        """Whether the recorded run was right; None: unknown."""
        case = self.case
        if case.expected is None or case.recorded is None:
            return None
        return is_right(case.expected, case.recorded)

    @property
    def is_right(self) -> bool | None:
        """Whether the candidate is right; None: unknown."""
        expected = self.case.expected
        return None if expected is None else is_right(expected, self.candidate)

    def to_json(self) -> dict[str, Json]:
        """Write the case as agent.evaluation_case has it."""
        case, recorded = self.case, self.case.recorded
        not_called: list[Json] = [asdict(call) for call in self.not_called]
        return {
            "number": self.number,
            "run_id": case.run_id,
            "case_id": case.case_id,
            "key": case.key,
            "recorded": recorded and recorded.to_json(),
            "candidate": {
                **self.candidate.to_json(),
                "changes": list(self.changes),
                "not_compared": dict(self.not_compared),
                "not_called": not_called,
            },
            "agrees": self.agrees,
            "expected": case.expected,
            "was_right": self.was_right,
            "is_right": self.is_right,
            "verdict": self.verdict and self.verdict.to_json(),
            "tenant": case.tenant,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Begun:
    """A replay that is about to start.

    Args:
        first_cost: what the first call of the first case can cost at most; None: unknown.
    """

    evaluation: int
    chosen: Chosen
    model: str
    table: str
    run_as: str
    first_cost: Decimal | None


@dataclass(frozen=True, slots=True)
class Replay:
    """An attachment whose recorded changes are replayed.

    Args:
        name: of the attachment.
        wanted: the candidate.
        differs: how it differs from the version in use, as the evaluation stores it.
    """

    dsn: str
    name: str
    wanted: Wanted
    differs: Mapping[str, Json]
    options: ReplayOptions

    async def execute(
        self, begun: Callable[[Begun], None], replayed: Callable[[Replayed], None]
    ) -> int:
        """Replay the cases; return the ID of the evaluation.

        Args:
            begun: called once, before a model is asked.
            replayed: called with each case.

        Raises:
            ConfigError: the attachment, dataset, condition or model is not valid, or no case
                is left.
            WalagentError: the evaluation is broken off.
        """
        async with open_keeper(self.dsn) as keeper:
            of = await evaluations.attached(keeper, self.name)
            new, chosen, start = await self._prepare(of)
            evaluation = await evaluations.begin(keeper, new)
            account = Account(keeper, evaluation)
            cases = iter(enumerate(chosen.cases, 1))
            begun(replace(start, evaluation=evaluation))
            async with held(account), asyncio.TaskGroup() as group:
                for _ in range(min(self.options.jobs, len(chosen.cases))):
                    group.create_task(self._work(account, cases, replayed))
            return evaluation

    async def _prepare(self, of: Attached) -> tuple[NewEvaluation, Chosen, Begun]:
        """Attach the candidate once, and choose the cases."""
        async with open_trial(self.dsn, self.wanted, TrialOptions(last=0)) as trial:
            with translating():
                chosen = await choose(trial, self.name, self.options.choice)
            if not chosen.cases:
                gone = f"; the rows of {chosen.gone} are gone" if chosen.gone else ""
                raise ConfigError(
                    f'no case of attachment "{self.name}" to replay{gone}',
                    hint="Choose others with --last, --where, --failed or --dataset.",
                )
            if self.options.judge is not None:
                _check_judge(trial.resources.model_of(self.options.judge, of.tenant).spec)
            first = await trial.cost_of_first(run_of(chosen.cases[0]))
            found = trial.attachment
        new = NewEvaluation(
            self.name, of.agent, trial.model.name, of.tenant, self.differs, len(chosen.cases),
            self.options.judge, chosen.dataset,
        )  # fmt: skip
        table, run_as = ".".join(found.target.relation), found.authority.run_as
        return new, chosen, Begun(0, chosen, trial.model.name, table, run_as, first)

    async def _work(
        self,
        account: Account,
        cases: Iterator[tuple[int, Case]],
        replayed: Callable[[Replayed], None],
    ) -> None:
        """Replay cases until none is left, some in each transaction."""
        left = next(cases, None)
        while left is not None:
            recorded, deadline = RecordedCalls(), time.monotonic() + _SECONDS
            meter = Meter(account)
            beyond = Outside(recorded, recorded.harmless, recorded.services, meter.counted)
            options = TrialOptions(last=0, assume_approved=True, patience=_READING)
            async with open_trial(self.dsn, self.wanted, options, beyond) as trial:
                for _ in range(_CASES):
                    meter.tenant = left[1].tenant
                    done = await self._case(trial, recorded, *left)
                    with translating():
                        async with account.lock:
                            await evaluations.record(
                                account.conn, account.evaluation, done.to_json()
                            )
                    replayed(done)
                    left = next(cases, None)
                    if left is None or time.monotonic() > deadline:
                        break

    async def _case(
        self, trial: Trial, recorded: RecordedCalls, number: int, case: Case
    ) -> Replayed:
        recorded.play(case.calls)
        tried = await trial.execute(case.key or "", run_of(case), case.merged)
        run = tried.run
        assert run is not None  # noqa: S101 - its condition is not evaluated
        candidate = outcome_of(run, effects_of(trial.attachment.agent.tools))
        agrees = None if case.recorded is None else agree(case.recorded, candidate)
        target = trial.attachment.target
        changes = [written(row, target, case) for row in tried.changes.rows[:_MOST]]
        done = Replayed(
            number, case, candidate, agrees, changes, tried.changes.unknown, tuple(recorded.missed)
        )
        if self.options.judge is None or agrees is not False:
            return done
        judge = Judge(trial.resources.model_of(self.options.judge, case.tenant))
        verdict = await judge.ask(number, case, candidate, trial.attachment.agent)
        return replace(done, verdict=verdict)


def written(row: ChangedRow, target: Target, case: Case) -> dict[str, Json]:
    """Return a changed row as it is stored, for those who see runs.

    A trial compares with the rights of the owner.  Of the row of the case, its key and what differs
    in columns that the agent sees or writes is kept; of other rows, only which columns differ.
    """
    cells = row.after or row.before or {}
    both = row.before is not None and row.after is not None
    differing = [
        name for name in cells if not both or _cell(row.before, name) != _cell(row.after, name)
    ]
    found: dict[str, Json] = {
        "table": f"{row.schema}.{row.table}",
        "operation": "update" if both else "insert" if row.before is None else "delete",
        "columns": differing,
    }
    own = (row.schema, row.table) == target.relation and all(
        cells.get(name) == str(case.row.get(name)) for name in target.key_columns
    )
    if not own:
        return found
    shown = {*differing, *target.key_columns}
    if target.columns is not None:
        shown &= {*target.columns, *target.key_columns, *target.writes}
    return {**found, "before": _kept(row.before, shown), "after": _kept(row.after, shown)}


def _cell(cells: Cells | None, name: str) -> str | None:
    return None if cells is None else cells.get(name)


def _kept(cells: Cells | None, shown: set[str]) -> Json:
    return None if cells is None else {n: text for n, text in cells.items() if n in shown}


def _check_judge(spec: ModelSpec) -> None:
    if not can_plan(spec):
        raise ConfigError(
            f'--judge: model "{spec.name}" is not a language model: it cannot judge',
            hint="Use another model: walagent agents models lists them.",
        )


def run_of(case: Case) -> dict[str, Json]:
    """Return the run of a case; it has no ordering key, as nothing is executed beside it."""
    return {"change": case.change, "key": case.key, "tenant": case.tenant}
