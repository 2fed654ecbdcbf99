"""What SQL does not say of evaluations: how sure a difference is, and the labels a case can get."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from walagent.message import Json
from walagent.trial.outcomes import is_succeeded, label_of, outcome_from_json
from walagent.trial.significance import sign_test

Row = Mapping[str, Any]


def with_p(row: Row) -> dict[str, Json]:
    """Add the p-value of what is better in one version and worse in it."""
    return {**row, "p": sign_test(int(row["better"]), int(row["worse"]))}


def with_labels(row: Row) -> dict[str, Json]:
    """Add the labels for which the recorded run and the candidate are right; None: it has none.

    A run that did not succeed is right by no label.
    """
    sides = ("recorded", "candidate")
    labels: dict[str, Json] = {side: _label(row[side]) for side in sides}
    return {**row, "labels": labels}


def _label(document: Mapping[str, Any] | None) -> dict[str, Json] | None:
    if document is None or "calls" not in document:
        return None
    outcome = outcome_from_json(document)
    return label_of(outcome) if is_succeeded(outcome) else None


# By the name of the query whose rows it completes.
COMPLETED: Final[Mapping[str, Callable[[Row], dict[str, Json]]]] = {
    "console.evaluation": with_p,
    "console.evaluations_compared": with_p,
    "console.evaluation_case": with_labels,
}
