"""What `walagent doctor` says of budgets."""

from walagent.doctor.budgets import check_budgets
from walagent.doctor.finding import Severity
from walagent.store.budgets import BudgetUsage


def test_a_budget_that_runs_wait_for_is_not_fine() -> None:
    """However much is left: the next call needs more."""
    (found,) = check_budgets([BudgetUsage("small", 0.49, 0, 3, None)], [], [])
    assert (found.level, found.text) == (
        Severity.WARNING,
        "budget small is 49% spent, permanently; 3 runs wait",
    )
    (found,) = check_budgets([BudgetUsage("small", 0.49, 0, 0, None)], [], [])
    assert found.level is Severity.OK
