"""Count model calls by outcome, tokens and cost."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from decimal import Decimal

from walagent.domain.run import RunSpec
from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Usage
from walagent.telemetry import metrics

_OUTCOMES: Mapping[type[WalagentError], str] = {
    ModelLimitedError: "limited",
    ModelUnavailableError: "unavailable",
    ModelRejectedError: "rejected",
    ModelUnauthorizedError: "unauthorized",
}


def agent_of(run: RunSpec) -> str:
    """Return the agent of a run for metrics; "" for other kinds of runs."""
    return run.agent.name if run.claim.kind in {"agent", "turn"} else ""


@contextmanager
def counting(model: str) -> Generator[None]:
    """Count a call by its outcome."""
    try:
        yield
    except WalagentError as error:
        held = isinstance(error, ModelLimitedError) and not error.sent
        outcome = "held" if held else _OUTCOMES.get(type(error), "rejected")
        metrics.model_requests.labels(model, outcome).inc()
        raise
    metrics.model_requests.labels(model, "ok").inc()


def count_usage(agent: str, model: str, usage: Usage, cost: Decimal | None) -> None:
    """Count tokens and cost of a call."""
    for kind, tokens in (
        ("input", usage.input_tokens),
        ("cached", usage.cached_tokens),
        ("cache_write", usage.cache_write_tokens),
        ("output", usage.output_tokens),
    ):
        if tokens:
            metrics.model_tokens.labels(agent, model, kind).inc(tokens)
    if cost:
        metrics.cost_usd.labels(agent, model).inc(float(cost))
