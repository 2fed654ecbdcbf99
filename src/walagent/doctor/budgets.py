"""Can the budgets be kept, and is there anything left of them?"""

from collections.abc import Iterator, Sequence

from walagent.doctor.finding import Finding, ok, warning
from walagent.store.budgets import Standing, Unpriced

_NEARLY = 0.9  # the part of a budget that is worth a word


def check_budgets(
    budgets: Sequence[Standing], unpriced: Sequence[Unpriced], gone: Sequence[tuple[str, str]]
) -> Iterator[Finding]:
    """Evaluator the budgets.

    Args:
        unpriced: what a budget in US dollars refuses, because nobody knows its price.
        gone: budgets of what is not there any more, and what that is.
    """
    for budget, attachment, model in unpriced:
        yield warning(
            f"model {model} has no price, so budget {budget} refuses the calls of {attachment}",
            f"models: {{{model}: {{input_price: …, output_price: …}}}}; or a limit of max_tokens",
        )
    for budget, what in gone:
        yield warning(
            f"budget {budget} counts nothing: there is no {what}",
            "delete from agent.budget where name = …; or name another",
        )
    for each in budgets:
        if each.spent >= _NEARLY:
            until = f"until {each.resets_at}" if each.resets_at else "for good"
            waiting = f"; {each.waiting} runs wait" if each.waiting else ""
            yield warning(
                f"budget {each.name} is {each.spent:.0%} spent, {until}{waiting}",
                "walagent budgets",
            )
    if budgets and not unpriced and not gone and all(each.spent < _NEARLY for each in budgets):
        yield ok(f"{len(budgets)} budgets have something left")
