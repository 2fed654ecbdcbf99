"""Which model answers a question if nobody names one."""

import pytest

from walagent.ask.model_choice import check_applied, choose_model
from walagent.errors import ConfigError, PreconditionError
from walagent.message import ModelSpec
from walagent.models.credentials import FOR_MODELS, Secrets

URL = "https://generativelanguage.googleapis.com/v1beta/openai"
REGISTRY = {
    spec.name: spec
    for spec in (
        ModelSpec("claude-sonnet-5", "anthropic", "claude-sonnet-5"),
        ModelSpec("claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        ModelSpec("gpt-4o", "openai", "gpt-4o"),
        ModelSpec("gpt-5", "openai", "gpt-5"),
        ModelSpec("gemini-2.5-flash", "openai", "g", base_url=URL, credential="GEMINI_API_KEY"),
        ModelSpec("gemini-2.0-flash", "openai", "g", base_url=URL, credential="GEMINI_API_KEY"),
        ModelSpec("llama", "openai", "llama", base_url="http://localhost:11434/v1"),
        ModelSpec("mine", "openai", "mine", base_url="http://10.0.0.1/v1", credential="MY_API_KEY"),
        ModelSpec("bad", "openai", "bad", base_url="nowhere", credential="sk-123"),
        ModelSpec("embedded/e5", "embedded", "e5"),
    )
}


def chosen(name: str | None = None, **keys: str) -> str:
    """The name of the model that is chosen with these variables."""
    return choose_model(REGISTRY, name, Secrets(keys, only=FOR_MODELS)).name


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("GEMINI_API_KEY", "gemini-2.5-flash"),
        ("ANTHROPIC_API_KEY", "claude-sonnet-5"),
        ("OPENAI_API_KEY", "gpt-5"),
        ("MY_API_KEY", "mine"),
    ],
)
def test_the_model_whose_key_alone_is_set_is_chosen(key: str, name: str) -> None:
    """Of several with that key, always the same one."""
    assert chosen(**{key: "k"}) == name


def test_keys_of_several_providers_leave_the_choice_to_a_person() -> None:
    """So does none; servers without keys are never guessed."""
    with pytest.raises(PreconditionError, match="4 of them have a key") as caught:
        chosen(OPENAI_API_KEY="a", GEMINI_API_KEY="b")
    assert "--model NAME" in caught.value.hint
    with pytest.raises(PreconditionError, match="9 are registered, and none of them has") as caught:
        chosen(OTHER="a")
    assert "GEMINI_API_KEY" in caught.value.hint


def test_a_mistyped_model_is_answered_with_the_nearest() -> None:
    """Not with all of them, of which there are more than fifty."""
    with pytest.raises(ConfigError, match='model "gpt4o" does not exist') as caught:
        chosen("gpt4o")
    assert "gpt-4o" in caught.value.hint
    assert "claude" not in caught.value.hint
    assert "walagent agents models" in caught.value.hint


def test_a_model_that_the_operator_redirected_is_not_bypassed() -> None:
    """PG Agent's name for Gemini is that of its row, however it is called; there is no other."""
    assert chosen("gemini") == "gemini-2.5-flash"
    row = ModelSpec("flash", "openai", "gemini-2.5-flash", base_url="http://gateway/v1")
    assert choose_model({"flash": row}, "gemini") is row
    with pytest.raises(ConfigError, match="does not exist"):
        choose_model({"gpt-5": REGISTRY["gpt-5"]}, "gemini")


@pytest.mark.parametrize(
    ("keys", "name", "refused"),
    [
        ({"base_url": "http://gateway/v1"}, None, True),
        ({"base_url": "http://gateway/v1"}, "mine", True),
        ({"base_url": "http://gateway/v1"}, "gpt-5", False),
        ({"base_url": "http://10.0.0.1/v1", "credential": "MY_API_KEY"}, None, False),
        ({"credential": "OTHER_API_KEY"}, None, True),
        ({}, None, False),
    ],
)
def test_models_of_the_file_must_be_applied(
    keys: dict[str, object],
    name: str | None,
    refused: bool,  # noqa: FBT001
) -> None:
    """A key would go where the file does not send it."""
    if not refused:
        check_applied({"mine": keys}, REGISTRY, name)
        return
    with pytest.raises(PreconditionError, match='"mine" of agents') as caught:
        check_applied({"mine": keys}, REGISTRY, name)
    assert "walagent apply" in caught.value.hint


def test_a_model_that_is_only_in_the_file_must_be_applied() -> None:
    """Even where its name is not given: it can be meant."""
    with pytest.raises(PreconditionError, match="no such row"):
        check_applied({"gateway": {"provider": "openai"}}, REGISTRY, None)
