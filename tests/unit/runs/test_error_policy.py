"""What becomes of a run whose work raised."""

from dataclasses import replace

import pytest

from tests.helpers.build import claim
from walagent.base.faults import InjectedError
from walagent.domain.run import RunState
from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    LeaseLostError,
    LimitReachedError,
    ModelLimitedError,
    ModelMissingError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    RoleRefusedError,
    RunCancelledError,
    StepTakenError,
    WalagentError,
)
from walagent.runs.error_policy import outcome_of

FIRST, LAST = claim(attempt=1, max_attempts=3), claim(attempt=3, max_attempts=3)


@pytest.mark.parametrize(
    "error",
    [ModelUnavailableError("down"), DatabaseLostError("gone"), InjectedError("x"), KeyError("k")],
)
def test_what_may_pass_is_tried_again_later(error: Exception) -> None:
    """The attempt counts; after the last one the run is dead, and says how often it was tried."""
    outcome = outcome_of(error, FIRST)
    assert outcome.state is RunState.WAITING_RETRY
    assert not outcome.refund
    assert outcome.delay >= 1
    dead = outcome_of(error, LAST)
    assert dead.state is RunState.DEAD
    assert "(attempt 3 of 3)" in dead.reason


def test_a_delivery_is_tried_again_for_hours() -> None:
    """A receiver that is away for a night loses no message: 16 attempts last some eight hours."""
    first = claim(attempt=1, max_attempts=16, kind="delivery")
    waits = [
        outcome_of(ModelUnavailableError("down"), replace(first, attempt=n)).delay
        for n in range(1, 16)
    ]
    assert waits[0] < 5
    assert 8 * 3600 < sum(waits) < 9 * 3600


def test_a_failure_that_cannot_be_the_runs_fault_costs_no_attempt() -> None:
    """Nothing was sent, or it was sent to find out for others; another one may say when."""
    free = ModelUnavailableError("no connection", retry_after=77, counts=False)
    outcome = outcome_of(free, LAST)
    assert (outcome.state, outcome.refund) == (RunState.WAITING_RETRY, True)
    assert outcome.delay >= 77
    assert outcome_of(ModelUnavailableError("down", retry_after=77), FIRST).delay >= 77


def test_a_connection_that_was_lost_before_the_run_was_known_costs_no_attempt() -> None:
    """Nothing of it was executed; up to ten times, and no other error is excused."""
    outcome = outcome_of(DatabaseLostError("gone"), LAST, begun=False)
    assert (outcome.state, outcome.refund) == (RunState.WAITING_RETRY, True)
    late = replace(LAST, lease=11)
    assert outcome_of(DatabaseLostError("gone"), late, begun=False).state is RunState.DEAD
    assert outcome_of(KeyError("k"), LAST, begun=False).state is RunState.DEAD
    resting = outcome_of(DatabaseLostError("idle", sqlstate="57P05"), LAST)
    assert (resting.state, resting.refund) == (RunState.WAITING_RETRY, True)


@pytest.mark.parametrize("sqlstate", ["53100", "25006"])
def test_a_server_that_takes_no_writes_costs_no_attempt(sqlstate: str) -> None:
    """Its disk is full, or new sessions may only read while older ones of ours still write."""
    outcome = outcome_of(DatabaseLostError("no", sqlstate=sqlstate), LAST)
    assert (outcome.state, outcome.refund) == (RunState.WAITING_RETRY, True)


@pytest.mark.parametrize(
    "error",
    [
        DatabaseLostError("terminating connection", sqlstate="57P01"),
        ConfigError("canceling statement due to user request", sqlstate="57014"),
    ],
)
def test_what_another_session_ended_costs_no_attempt(error: WalagentError) -> None:
    """But not without a bound: a run can end its own session."""
    assert outcome_of(error, LAST).refund
    assert not outcome_of(error, replace(LAST, lease=11)).refund
    timeout = ConfigError("canceling statement due to statement timeout", sqlstate="57014")
    assert outcome_of(timeout, FIRST).state is RunState.FAILED


def test_what_failed_because_we_stood_still_costs_no_attempt() -> None:
    """A suspended process loses its connections; one that blocks itself each time is found out."""
    error = DatabaseLostError("gone", sqlstate="25P03")
    for held in (FIRST, LAST):
        outcome = outcome_of(error, held, stood_still=True)
        assert (outcome.state, outcome.refund) == (RunState.WAITING_RETRY, True)
    often = replace(LAST, lease=11)
    assert outcome_of(error, often, stood_still=True).state is RunState.DEAD
    never = ModelRejectedError("no such model")
    assert outcome_of(never, FIRST, stood_still=True).state is RunState.FAILED


def test_a_model_that_was_just_added_costs_no_attempt() -> None:
    """The worker reads the registry every few seconds; a model that never comes is an end."""
    error = ModelMissingError('model "m" is not in agent.model')
    for held in (FIRST, LAST):
        outcome = outcome_of(error, held)
        assert (outcome.state, outcome.refund) == (RunState.WAITING_RETRY, True)
        assert outcome.delay >= 1
    assert outcome_of(error, replace(LAST, lease=11)).state is RunState.DEAD


def test_a_bug_of_ours_is_named_by_its_class() -> None:
    """A bare 'k' would tell nobody anything."""
    assert outcome_of(KeyError("k"), FIRST).reason == "KeyError: 'k'"


@pytest.mark.parametrize("held", [FIRST, LAST])
def test_a_provider_that_asks_for_patience_costs_no_attempt(held: object) -> None:
    """However often; and it gets as much as it asks for."""
    outcome = outcome_of(ModelLimitedError("busy", retry_after=77), held)  # pyright: ignore[reportArgumentType]
    assert (outcome.state, outcome.refund) == (RunState.WAITING_RETRY, True)
    assert outcome.delay >= 77


def test_a_credential_that_nobody_accepts_pauses_the_attachment() -> None:
    """None of its runs can succeed; none of them is used up."""
    outcome = outcome_of(ModelUnauthorizedError("no key"), LAST)
    assert (outcome.state, outcome.refund, outcome.pause) == (RunState.PENDING, True, True)


@pytest.mark.parametrize("error", [ModelUnauthorizedError("no key"), RoleRefusedError("no role")])
def test_what_nobody_can_pause_waits_longer_each_time(error: WalagentError) -> None:
    """A run without an attachment, such as a workflow's: claimed at once again, it would spin."""
    held = replace(LAST, attachment_id=0)
    for lease in (1, 6):
        outcome = outcome_of(error, replace(held, lease=lease))
        assert (outcome.state, outcome.refund) == (RunState.WAITING_RETRY, True)
        assert outcome.delay >= lease
        assert not outcome.pause
    # A person who asks a question repairs it and goes on.
    assert outcome_of(error, held, attended=True).state is RunState.PENDING


@pytest.mark.parametrize(
    "error", [ModelRejectedError("bad"), LimitReachedError("cost"), ConfigError("x")]
)
def test_what_will_never_work_fails_the_run(error: Exception) -> None:
    """With the reason."""
    outcome = outcome_of(error, FIRST)
    assert outcome.state is RunState.FAILED
    assert outcome.error == {"reason": str(error)}


def test_a_run_that_takes_too_long_fails() -> None:
    """The limit is named."""
    assert "max_seconds" in outcome_of(TimeoutError(), FIRST).reason
    assert outcome_of(TimeoutError(), FIRST).state is RunState.FAILED


@pytest.mark.parametrize("error", [LeaseLostError("x"), StepTakenError("x")])
def test_a_run_that_somebody_else_has_is_left_alone(error: Exception) -> None:
    """Nothing is written for it."""
    assert outcome_of(error, FIRST).state is None


def test_a_cancelled_run_is_cancelled() -> None:
    """Not left for its lease to run out."""
    assert outcome_of(RunCancelledError("x"), FIRST).state is RunState.CANCELLED


def test_a_long_reason_is_cut() -> None:
    """A provider that sends a page of HTML does not fill the table."""
    assert len(outcome_of(ModelRejectedError("x" * 10_000), FIRST).reason) == 2000
