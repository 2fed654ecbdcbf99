"""The names that dashboards rest on."""

from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from walagent.telemetry import metrics

# Changing a name, kind or label is a breaking change and belongs into the changelog.
INTERFACE = {
    "walagent_slot_retained_bytes": ("gauge", set[str]()),
    "walagent_slot_alarm": ("gauge", set[str]()),
    "walagent_problems": ("gauge", {"kind", "urgency"}),
    "walagent_problems_age_seconds": ("gauge", set()),
    "walagent_replication_lag_bytes": ("gauge", set[str]()),
    "walagent_changes_total": ("counter", {"result"}),
    "walagent_runs": ("gauge", {"agent", "state"}),
    "walagent_queue_oldest_seconds": ("gauge", set[str]()),
    "walagent_corrections_asked_total": ("counter", set[str]()),
    "walagent_runs_pruned_total": ("counter", set[str]()),
    "walagent_run_duration_seconds": ("histogram", set[str]()),
    "walagent_model_requests_total": ("counter", {"model", "outcome"}),
    "walagent_model_calls_in_flight": ("gauge", {"model"}),
    "walagent_model_calls_allowed": ("gauge", {"model"}),
    "walagent_model_breaker_open": ("gauge", {"model"}),
    "walagent_model_tokens_total": ("counter", {"agent", "model", "kind"}),
    "walagent_cost_usd_total": ("counter", {"agent", "model"}),
    "walagent_budget_used_ratio": ("gauge", {"budget", "kind"}),
    "walagent_budget_refusals_total": ("counter", {"budget"}),
    "walagent_tool_calls_total": ("counter", {"agent", "tool", "outcome"}),
    "walagent_log_lines_lost_total": ("counter", set[str]()),
    "walagent_approvals_pending": ("gauge", set[str]()),
    "walagent_build_info": ("gauge", {"version", "python"}),
}


def test_names_kinds_and_labels_are_the_published_ones() -> None:
    """What is scraped is the interface, no more and no less."""
    metrics.model_requests.labels("gpt", "ok").inc()
    metrics.model_calls_in_flight.labels("gpt").set_function(lambda: 3)
    metrics.model_calls_allowed.labels("gpt").set_function(lambda: 64)
    metrics.model_breaker_open.labels("gpt").set_function(lambda: False)
    metrics.model_tokens.labels("desk", "gpt", "input").inc(12)
    metrics.cost_usd.labels("desk", "gpt").inc(0.25)
    metrics.set_problems([("slot", 2)])
    metrics.set_budgets([("all", 0.5, 0.25)])
    metrics.budget_refusals.labels("all").inc()

    text = generate_latest(metrics.registry).decode()
    scraped: dict[str, tuple[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        name = family.name + "_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        scraped[name] = (family.type, labels)
    assert scraped == INTERFACE


def test_a_series_with_known_labels_is_there_from_the_start() -> None:
    """A dashboard shows zero, not nothing, before the first event; a rate sees the first one."""
    text = generate_latest(metrics.registry).decode()
    for result in metrics.CHANGE_RESULTS:
        assert f'walagent_changes_total{{result="{result}"}}' in text
    for state in metrics.RUN_STATES:
        assert f'walagent_runs{{agent="",state="{state}"}}' in text


def test_the_process_wide_registry_stays_empty_of_ours() -> None:
    """A program that uses walagent as a library keeps its own metrics to itself."""
    assert "walagent_" not in generate_latest(REGISTRY).decode()
