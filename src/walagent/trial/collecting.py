"""Collect a dataset: the changes of recorded runs, or rows of the table as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from psycopg import AsyncConnection

from walagent.config import Config
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store import evaluations
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.trial.attaching import Wanted
from walagent.trial.cases import Case, Choice, choose
from walagent.trial.outcomes import label_of
from walagent.trial.trial import Trial, TrialOptions, open_trial

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class NewDataset:
    """A dataset to create.

    Args:
        expect: with source table: columns whose values are labels, and which a run is not shown.
        expect_recorded: with source runs: what the runs did is the label.
    """

    name: str
    attachment: str
    source: Literal["runs", "table"]
    choice: Choice
    expect: Sequence[str] = ()
    expect_recorded: bool = False


async def collect(dsn: str, config: Config, new: NewDataset) -> int:
    """Create a dataset; return the number of its cases.

    Raises:
        ConfigError: the attachment, condition or a column does not exist, the name is taken, or
            there is no case.
    """
    rows = new.choice.last if new.source == "table" else 0
    options = TrialOptions(last=rows, where=new.choice.where if rows else "")
    with translating():
        async with await connect(dsn, application="walagent datasets") as conn:
            of = await evaluations.attached(conn, new.attachment)
        async with open_trial(dsn, Wanted(new.attachment, config), options) as trial:
            cases = await _rows(trial, new) if rows else await _runs(trial, new)
            if not cases:
                raise ConfigError("no case to collect", hint="Choose others with --where.")
            target = trial.attachment.target
            dataset = {
                "name": new.name,
                "attachment": new.attachment,
                "relation": ".".join(target.relation),
                "columns": await evaluations.columns(trial.outside, target.relation_oid),
                "source": new.source,
                "tenant": of.tenant,
            }
            async with trial.outside.transaction():
                await evaluations.create_dataset(trial.outside, dataset, cases)
    return len(cases)


async def _runs(trial: Trial, new: NewDataset) -> list[Mapping[str, Json]]:
    chosen = await choose(trial, new.attachment, new.choice)
    return [
        {
            "key": case.key,
            "change": case.change,
            "merged": list(case.merged),
            "run_id": case.run_id,
            "expected": _label(case, expect_recorded=new.expect_recorded),
            "tenant": case.tenant,
        }
        for case in chosen.cases
    ]


def _label(case: Case, *, expect_recorded: bool) -> Mapping[str, Json] | None:
    """Return what others made of a run, and the rest of what it did if that is right."""
    if not expect_recorded or case.recorded is None:
        return case.expected
    label = label_of(case.recorded)
    if case.expected is None:
        return label
    values = {**label.get("values", {}), **case.expected.get("values", {})}
    return label | {"values": values} if values else label


async def _rows(trial: Trial, new: NewDataset) -> list[Mapping[str, Json]]:
    """Make cases of rows for which the condition of the attachment is true."""
    columns = await evaluations.columns(trial.outside, trial.attachment.target.relation_oid)
    known = [name for name, _ in columns]
    for name in new.expect:
        if name not in known:
            raise ConfigError(
                f'column "{name}" does not exist', hint=f"Columns: {', '.join(known)}."
            )
    found = list[Mapping[str, Json]]()
    for row in reversed(trial.rows):
        run = await trial.run_of(row)
        if run is None or run.get("error"):
            continue
        change = dict(run["change"])
        shown: Mapping[str, Any] = change["new"]
        change["new"] = {k: None if k in new.expect else v for k, v in shown.items()}
        values = {
            name: shown.get(name, str(row.values[name]))
            for name in new.expect
            if row.values.get(name) is not None
        }
        label = {"values": values} if values else None
        tenant = run.get("tenant") or trial.attachment.tenant
        found.append({"key": row.key, "change": change, "expected": label, "tenant": tenant})
    return found
