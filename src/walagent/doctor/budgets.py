"""Check budgets: whether they can be enforced, and what is left."""

from collections.abc import Iterator, Sequence

from walagent.doctor.finding import Finding, ok, warning
from walagent.store.budgets import BudgetUsage, Unpriced

_NEARLY = 0.9  # the used part from which on a budget is reported


def check_budgets(
    budgets: Sequence[BudgetUsage], unpriced: Sequence[Unpriced], gone: Sequence[tuple[str, str]]
) -> Iterator[Finding]:
    """Check the budgets.

    Args:
        unpriced: models without a price, whose calls a budget in US dollars rejects.
        gone: budgets of objects that do not exist, with the kind and name of the object.
    """
    for budget, attachment, model in unpriced:
        yield warning(
            f"model {model} has no price, so budget {budget} rejects the calls of {attachment}",
            f"models: {{{model}: {{input_price: …, output_price: …}}}}; or use max_tokens",
        )
    for budget, what in gone:
        yield warning(
            f"budget {budget} counts nothing: {what} does not exist",
            "delete from agent.budget where name = …; or set another name",
        )
    for each in budgets:
        if each.spent >= _NEARLY or each.waiting:
            until = f"until {each.resets_at}" if each.resets_at else "permanently"
            waiting = f"; {each.waiting} runs wait" if each.waiting else ""
            yield warning(
                f"budget {each.name} is {each.spent:.0%} spent, {until}{waiting}",
                "walagent agents budgets",
            )
    is_fine = not any(each.spent >= _NEARLY or each.waiting for each in budgets)
    if budgets and not unpriced and not gone and is_fine:
        yield ok(f"{len(budgets)} budgets are not exhausted")
