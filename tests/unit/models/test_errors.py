"""What a provider's failure becomes, and what its text may say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
)
from walagent.message import Json, Message, ModelSpec, Request, Text, ToolResult
from walagent.models.errors import MESSAGE_LIMIT, Failure, error_for

SPEC = ModelSpec("m", "openai", "gpt-x", credential="MY_KEY")
REQUEST = Request("be kind", (Message("user", (Text("the password is hunter2"),)),))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, ModelUnavailableError),
        (301, ModelRejectedError),
        (400, ModelRejectedError),
        (401, ModelUnauthorizedError),
        (402, ModelUnauthorizedError),
        (403, ModelUnauthorizedError),
        (404, ModelUnauthorizedError),
        (408, ModelUnavailableError),
        (409, ModelUnavailableError),
        (413, ModelRejectedError),
        (418, ModelRejectedError),
        (422, ModelRejectedError),
        (429, ModelLimitedError),
        (500, ModelUnavailableError),
        (501, ModelRejectedError),
        (502, ModelUnavailableError),
        (503, ModelLimitedError),
        (504, ModelUnavailableError),
        (520, ModelUnavailableError),
        (529, ModelLimitedError),
    ],
)
def test_every_status_has_one_who_acts_next(status: int | None, expected: type[Exception]) -> None:
    """The table of statuses and its defaults, in full."""
    assert type(error_for(Failure(status), SPEC, REQUEST)) is expected


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_error"])
def test_spent_money_is_for_a_person_whatever_the_status(code: str) -> None:
    """A 429 for an empty account must not be waited out."""
    error = error_for(Failure(429, code), SPEC, REQUEST)
    assert isinstance(error, ModelUnauthorizedError)
    assert "MY_KEY" in error.hint


def test_anthropics_empty_account_is_reported_by_its_words() -> None:
    """It comes as a malformed request.  The same words quoted from a row mean nothing."""
    words = "Your credit balance is too low to access the Anthropic API. Please go to Plans"
    error = error_for(Failure(400, "invalid_request_error", words), SPEC, REQUEST)
    assert isinstance(error, ModelUnauthorizedError)
    quoted = error_for(Failure(400, "invalid_request_error", f"Invalid: {words}"), SPEC, REQUEST)
    assert isinstance(quoted, ModelRejectedError)


def test_a_model_that_is_not_there_is_named_and_where_to_look() -> None:
    """No run of it can succeed, so a person is asked once instead of each run failing."""
    error = error_for(Failure(404, "not_found_error", "model: gpt-x"), SPEC, REQUEST)
    assert isinstance(error, ModelUnauthorizedError)
    assert str(error) == "openai gpt-x answered 404 not_found_error: model: gpt-x"
    assert error.hint == "check model_id and base_url of m in agent.model"


@pytest.mark.parametrize(
    ("code", "counts"),
    [("ConnectError", False), ("ConnectTimeout", False), ("PoolTimeout", False)]
    + [
        (name, True) for name in ("ReadTimeout", "ReadError", "RemoteProtocolError", "TimeoutError")
    ],
)
def test_a_request_that_never_left_us_is_no_attempt(code: str, *, counts: bool) -> None:
    """No run can be the reason why there is no connection."""
    error = error_for(Failure(None, code), SPEC, REQUEST)
    assert isinstance(error, ModelUnavailableError)
    assert error.counts is counts


def test_a_failure_may_say_too_when_to_come_back() -> None:
    """It counts as an attempt all the same."""
    error = error_for(Failure(502, "", "", {"retry-after": "30"}), SPEC, REQUEST)
    assert isinstance(error, ModelUnavailableError)
    assert (error.retry_after, error.counts) == (30, True)


def test_an_error_keeps_the_words_that_an_operator_needs() -> None:
    """A name of a parameter is no secret."""
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    error = error_for(Failure(400, "unsupported_parameter", message), SPEC, REQUEST)
    assert str(error) == f"openai gpt-x answered 400 unsupported_parameter: {message}"


@pytest.mark.parametrize("echo", ["'hunter2'", '"password"', "`is`", "hunter2"])
def test_a_telling_word_of_the_prompt_is_left_out(echo: str) -> None:
    """Even a short one, quoted or not: it may be a password."""
    error = error_for(Failure(400, "", f"invalid value {echo}. At 4.2"), SPEC, REQUEST)
    assert str(error) == "openai gpt-x answered 400: invalid value […]. At 4.2"


def test_a_refused_key_is_not_quoted_back() -> None:
    """Providers repeat half of a wrong key; their words are dropped."""
    error = error_for(Failure(401, "", "Incorrect API key provided: sk-abc***z"), SPEC, REQUEST)
    assert "sk-" not in str(error)


def test_the_key_is_cut_out_of_any_other_message() -> None:
    """A server may echo the headers it got."""
    error = error_for(Failure(400, "", "header Bearer s3cret refused"), SPEC, REQUEST, "s3cret")
    assert "s3cret" not in str(error)


KEY = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWx"


@pytest.mark.parametrize("status", [None, 400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("echo", [KEY, f"bad key {KEY}", KEY[4:16], "AbCdEfGhIj", "hunter2 is it"])
def test_a_key_in_the_code_or_the_words_goes_nowhere(status: int | None, echo: str) -> None:
    """They become paused_reason, the error of the run and a line of the log."""
    for failure in (Failure(status, echo), Failure(status, "", echo)):
        error = error_for(failure, SPEC, REQUEST, KEY)
        text = f"{error} {error.hint}"
        assert not any(KEY[at : at + 6] in text for at in range(len(KEY) - 5))


@pytest.mark.parametrize("code", ["insufficient_quota", "ConnectTimeout", "rate limit", "E-12"])
def test_a_short_name_is_kept(code: str) -> None:
    """An operator looks it up in the provider's documentation."""
    assert code in str(error_for(Failure(500, code), SPEC, REQUEST, KEY))


@given(
    prompt=st.text(min_size=24, max_size=400),
    before=st.text(max_size=50),
    after=st.text(max_size=700),
)
def test_no_stretch_of_the_prompt_gets_into_an_error(prompt: str, before: str, after: str) -> None:
    """Whatever the provider writes around it, wherever it cuts it."""
    request = Request("", (Message("user", (ToolResult("1", "read", prompt),)),))
    text = str(error_for(Failure(400, "", f"{before}{prompt}{after}"), SPEC, request))
    said = " ".join(prompt.split())
    own = text.removeprefix("openai gpt-x answered 400: ")
    stretches = {said[at : at + 16] for at in range(len(said) - 15)}
    assert not any(stretch in own for stretch in stretches)
    assert len(text) <= MESSAGE_LIMIT


BODIES: list[tuple[Json, str]] = [
    ({"error": {"message": "words"}}, "words"),
    ({"error": "words"}, "words"),
    ([{"error": {"message": "words"}}], "words"),
    ({"message": {"detail": [{"loc": ["body", "n"], "msg": "words"}]}}, "body.n: words"),
    ({"detail": [{"msg": "words", "input": {"messages": "4711"}}]}, "words"),
    ({"detail": "words"}, "words"),
    ({"errors": [{"message": "words"}, {"message": "more"}]}, "words; more"),
    ({"errors": ["words"]}, "words"),
    ({"fault": {"faultstring": "words"}}, "words"),
    ({"error": {"message": '{"error": {"message": "words"}}'}}, "words"),
    (
        {"error": {"message": "general", "metadata": {"raw": '{"detail": "words"}'}}},
        "general; words",
    ),
    ({"error": {"message": "<html><body><p>words</p></body></html>"}}, "words"),
    ("<html><head><style>a {}</style></head><body>words &amp; more</body></html>", "words & more"),
    ("<?xml version='1.0'?><Error><Message>words</Message></Error>", "words"),
    ("words\non two lines", "words on two lines"),
    ('{"error": "words"}', "words"),
    ({"code": 7, "error_message": "words"}, "words"),
    (None, ""),
    (7, ""),
    ([], ""),
]


@pytest.mark.parametrize(("body", "words"), BODIES, ids=str)
def test_words_are_found_in_a_body_of_any_shape(body: Json, words: str) -> None:
    """An operator has nothing else to go by."""
    assert Failure.of(400, body).message == words


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "insufficient_quota"}},
        {"error": {"type": "billing_error"}},
        {"error": {"status": "UNAUTHENTICATED"}},
        [{"error": {"details": [{"reason": "API_KEY_INVALID"}]}}],
        {"type": "error", "error": {"details": {"error_code": "credit_balance_exhausted"}}},
        {"error": {"message": "Incorrect API key provided"}},
        {"error": "Your account has been suspended."},
        {"error": {"message": "x", "metadata": {"raw": '{"error": {"code": "invalid_api_key"}}'}}},
    ],
    ids=str,
)
@pytest.mark.parametrize("status", [400, 403, 422, 429, 500])
def test_an_error_of_the_account_pauses_whatever_its_status(status: int, body: Json) -> None:
    """By code, reason and type; by words only where they begin the message."""
    error = error_for(Failure.of(status, body), SPEC, REQUEST)
    assert isinstance(error, ModelUnauthorizedError)


@pytest.mark.parametrize(
    "body",
    [
        {"detail": [{"msg": "bad", "input": {"code": "insufficient_quota"}}]},
        {"error": {"message": "bad", "failed_generation": '{"code": "insufficient_quota"}'}},
        {"error": {"message": "bad value: Incorrect API key provided"}},
        {"error": {"message": "bad", "param": "insufficient_quota"}},
    ],
    ids=str,
)
def test_what_a_row_says_pauses_nothing(body: Json) -> None:
    """A body that repeats the request is not the provider's word."""
    assert isinstance(error_for(Failure.of(400, body), SPEC, REQUEST), ModelRejectedError)


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ([{"error": {"details": [{"retryDelay": "14s"}]}}], 14),
        ([{"error": {"details": [{"retryDelay": "0.5s"}]}}], 0.5),
        ([{"error": {"details": [{"retryDelay": "90000s"}]}}], 3_600),
        ({"error": {"message": "Please try again in 1m2.5s."}}, 62.5),
        ({"error": {"message": "Please try again in 250ms."}}, 0.25),
        ({"error": {"message": "Try again in 5 seconds."}}, 5),
        ({"error": {"message": "slow down"}}, None),
    ],
    ids=str,
)
def test_a_body_says_when_to_come_back(body: Json, seconds: float | None) -> None:
    """Google has it nowhere else; a header counts before it."""
    error = error_for(Failure.of(429, body), SPEC, REQUEST)
    assert isinstance(error, ModelLimitedError)
    assert error.retry_after == seconds
    headed = error_for(Failure.of(429, body, {"retry-after": "3"}), SPEC, REQUEST)
    assert isinstance(headed, ModelLimitedError)
    assert headed.retry_after == 3
