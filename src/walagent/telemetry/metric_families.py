"""The metrics of this process, in a registry of their own; used through `telemetry.metrics`.

Names and labels are an interface: dashboards and alerts break when they change.  No label has a
value of a row; each is one of the words below or the name of a registered model or budget, so
that the number of series is bounded.
"""

import platform
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Metric

from walagent import __version__


class _Registry(CollectorRegistry):
    """Leaves out the `_created` series that the library adds to each counter."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric


registry = _Registry()

slot_retained_bytes = Gauge(
    "walagent_slot_retained_bytes",
    "WAL retained for the slot, in bytes",
    registry=registry,
)
slot_alarm = Gauge(
    "walagent_slot_alarm",
    "1 while the slot retains more WAL than replication.alarm_bytes",
    registry=registry,
)
problems = Gauge(
    "walagent_problems",
    "Problems by kind and urgency (1 stands still, 2 will be lost, 3 costs, 4 can wait)",
    ["kind", "urgency"],
    registry=registry,
)
problems_age_seconds = Gauge(
    "walagent_problems_age_seconds",
    "Seconds since problems were last looked for",
    registry=registry,
)
replication_lag_bytes = Gauge(
    "walagent_replication_lag_bytes",
    "WAL between the server's last position and the checkpoint, in bytes",
    registry=registry,
)
changes = Counter(
    "walagent_changes_total",
    "Changes of attached tables by result (failed: condition raised; deferred: attachment broken;"
    " skipped: beyond max_depth)",
    ["result"],
    registry=registry,
)
runs = Gauge("walagent_runs", "Runs by agent and state", ["agent", "state"], registry=registry)
queue_oldest_seconds = Gauge(
    "walagent_queue_oldest_seconds",
    "Age of the oldest run that could be executed now and is not, in seconds",
    registry=registry,
)
corrections_asked = Counter(
    "walagent_corrections_asked_total",
    "Changes of rows that agents may have written, which were looked up",
    registry=registry,
)
runs_pruned = Counter(
    "walagent_runs_pruned_total", "Ended runs that retention removed", registry=registry
)
run_duration_seconds = Histogram(
    "walagent_run_duration_seconds",
    "Seconds from claim to release (end or next wait)",
    # A run without a model takes milliseconds, one with many calls minutes.
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800),
    registry=registry,
)
model_requests = Counter(
    "walagent_model_requests_total", "Model calls", ["model", "outcome"], registry=registry
)
model_calls_in_flight = Gauge(
    "walagent_model_calls_in_flight",
    "Model calls in flight",
    ["model"],
    registry=registry,
)
model_calls_allowed = Gauge(
    "walagent_model_calls_allowed",
    "Concurrent calls allowed; 0 if limited or breaker open, 1 for a probe",
    ["model"],
    registry=registry,
)
model_breaker_open = Gauge(
    "walagent_model_breaker_open",
    "1 while the circuit breaker of a model is open",
    ["model"],
    registry=registry,
)
model_tokens = Counter(
    "walagent_model_tokens_total",
    "Tokens of model calls",
    ["agent", "model", "kind"],
    registry=registry,
)
cost_usd = Counter(
    "walagent_cost_usd_total",
    "Cost of model calls whose model has a price, in USD",
    ["agent", "model"],
    registry=registry,
)
budget_used = Gauge(
    "walagent_budget_used_ratio",
    "Fraction of a budget's tighter limit that is spent, or reserved by calls in flight",
    ["budget", "kind"],
    registry=registry,
)
budget_refusals = Counter(
    "walagent_budget_refusals_total",
    "Model calls that a budget did not allow",
    ["budget"],
    registry=registry,
)
tool_calls = Counter(
    "walagent_tool_calls_total", "Tool calls", ["agent", "tool", "outcome"], registry=registry
)
log_lines_lost = Counter(
    "walagent_log_lines_lost_total",
    "Log lines that could not be written",
    registry=registry,
)
approvals_pending = Gauge(
    "walagent_approvals_pending", "Approvals awaiting a decision", registry=registry
)
_build = Info("walagent_build", "The running version", registry=registry)
_build.info({"version": __version__, "python": platform.python_version()})

CHANGE_RESULTS = ("matched", "unmatched", "failed", "deferred", "repeated", "skipped")
RUN_STATES = (
    "pending",
    "running",
    "waiting_approval",
    "waiting_retry",
    "needs_review",
    "succeeded",
    "failed",
    "dead",
    "cancelled",
    "skipped",
)
MODEL_OUTCOMES = ("ok", "limited", "held", "unavailable", "rejected", "unauthorized")
TOKEN_KINDS = ("input", "cached", "cache_write", "output")
TOOL_OUTCOMES = ("ok", "failed", "invalid", "refused", "unknown")


def set_budgets(used: Iterable[tuple[str, float, float]]) -> None:
    """Show what part of each budget is spent and what part is reserved, and no others."""
    budget_used.clear()
    for name, spent, reserved in used:
        budget_used.labels(name, "spent").set(spent)
        budget_used.labels(name, "reserved").set(reserved)


def set_problems(found: Iterable[tuple[str, int]]) -> None:
    """Show the number of problems by kind and urgency, and no others."""
    problems.clear()
    for kind, urgency in found:
        problems.labels(kind, urgency).inc()


def set_runs(counts: Mapping[tuple[str, str], int]) -> None:
    """Show the number of runs by agent and state; zero for each state of an agent without any."""
    runs.clear()
    for agent in {"", *(agent for agent, _ in counts)}:
        for state in RUN_STATES:
            runs.labels(agent, state).set(counts.get((agent, state), 0))


def _begin_at_zero() -> None:
    """Make every known series exist, so that a rate can be taken of the first event too."""
    for result in CHANGE_RESULTS:
        changes.labels(result)
    set_runs({})
    for outcome in TOOL_OUTCOMES:
        tool_calls.labels("", "", outcome)


_begin_at_zero()
