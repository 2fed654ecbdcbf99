"""Where a model is reached, and with which key."""

from pathlib import Path

import pytest

from walagent.errors import ConfigError, ModelUnauthorizedError
from walagent.message import ModelSpec
from walagent.models import build_model, make_model
from walagent.models.anthropic import API as ANTHROPIC
from walagent.models.credentials import NO_KEY, Secrets, find_endpoint
from walagent.models.openai import API as OPENAI
from walagent.models.registry import BUILT_IN


def spec(base_url: str | None = None, credential: str | None = None) -> ModelSpec:
    """Write a registry row."""
    return ModelSpec("m", "openai", "gpt-x", base_url, credential)


def test_a_named_key_comes_from_the_environment() -> None:
    """The name in the row is the variable's name."""
    found = find_endpoint(spec(credential="K"), OPENAI, Secrets({"K": "v\n"}))
    assert (found.key, found.official) == ("v", True)


def test_a_systemd_credential_goes_before_the_environment(tmp_path: Path) -> None:
    """Who hands over a file means it."""
    (tmp_path / "K").write_text("from-file\n")
    found = find_endpoint(spec(credential="K"), OPENAI, Secrets({"K": "v"}, tmp_path))
    assert found.key == "from-file"


def test_an_unreadable_credential_is_named(tmp_path: Path) -> None:
    """Bytes that are no text are not shown."""
    (tmp_path / "K").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="file K cannot be read"):
        find_endpoint(spec(credential="K"), OPENAI, Secrets({}, tmp_path))


def test_a_missing_key_is_named() -> None:
    """By the row's name, or by the SDK's own variable."""
    with pytest.raises(ModelUnauthorizedError, match="none called K"):
        find_endpoint(spec(credential="K"), OPENAI, Secrets({"OPENAI_API_KEY": "v"}))
    with pytest.raises(ModelUnauthorizedError, match="none called ANTHROPIC_API_KEY"):
        find_endpoint(spec(), ANTHROPIC, Secrets({}))


@pytest.mark.parametrize("name", ["sk-ant-secret", "../etc/passwd", "x" * 70, "a b"])
def test_a_key_in_place_of_its_name_is_refused_and_not_shown(name: str) -> None:
    """Keys never enter a table; and no name leads out of the directory."""
    with pytest.raises(ConfigError) as caught:
        find_endpoint(spec(credential=name), OPENAI, Secrets({}))
    assert name not in str(caught.value)


def test_the_sdks_own_variables_work_when_nothing_is_configured() -> None:
    """Key and base URL of the environment belong together."""
    environ = {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_BASE_URL": "http://gateway:1/"}
    found = find_endpoint(spec(), ANTHROPIC, Secrets(environ))
    assert (found.base_url, found.key, found.official) == ("http://gateway:1", "t", False)


def test_the_environments_key_is_not_sent_to_a_base_url_of_a_row() -> None:
    """Whoever may write a row must not be able to have the key sent to them."""
    secrets = Secrets({"OPENAI_API_KEY": "v"})
    assert find_endpoint(spec("http://elsewhere/v1"), OPENAI, secrets).key == NO_KEY
    assert find_endpoint(spec("https://openai.com.evil/v1"), OPENAI, secrets).key == NO_KEY
    assert find_endpoint(spec("https://api.openai.com/v1"), OPENAI, secrets).key == "v"


@pytest.mark.parametrize("url", ["ftp://u:pw@h/", "h:80", "http:///x", "http://[", "file:///x"])
def test_a_base_url_that_is_none_is_refused_and_not_shown(url: str) -> None:
    """It may hold a password."""
    with pytest.raises(ConfigError) as caught:
        find_endpoint(spec(url), OPENAI, Secrets({}))
    assert url not in str(caught.value)


def test_a_base_url_of_the_environment_is_named() -> None:
    """It is not the row that must be changed."""
    environ = {"OPENAI_API_KEY": "v", "OPENAI_BASE_URL": "127.0.0.1:8000/v1"}
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL is not a base URL") as caught:
        find_endpoint(spec(), OPENAI, Secrets(environ))
    assert "http://" in caught.value.hint


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("sk-schlüssel", "not ASCII"),
        ("sk-a\nsk-b", "line break"),
        ("sk-a b", "space"),
        ("sk-a\x07b", "control character"),
        ("sk-\u200bb", "not ASCII|control"),
    ],
)
def test_a_key_that_no_header_can_hold_is_configuration(key: str, what: str) -> None:
    """It pauses like a key that is missing, and is not shown."""
    for row, name in ((spec(credential="K"), "K"), (spec(), "OPENAI_API_KEY")):
        with pytest.raises(ModelUnauthorizedError, match=what) as caught:
            find_endpoint(row, OPENAI, Secrets({name: key}))
        assert name in caught.value.hint
        assert "sk-" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("proxies", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:1"}, None),
        ({"HTTP_PROXY": "p:1"}, "http://p:1"),
        ({"http_proxy": "http://u:pw@p:1"}, "http://u:pw@p:1"),
        ({"ALL_PROXY": "https://p:1"}, "https://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "server"}, None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
    ],
    ids=str,
)
def test_the_proxy_of_an_address_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, proxies: dict[str, str], expected: str | None
) -> None:
    """As other programs choose it."""
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    found = find_endpoint(spec("http://server:8000/v1"), OPENAI, Secrets({})).proxy
    assert (found and found.url) == expected
    assert found is None or found.place == "p:1"


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:9", "socks://h:9", "ftp://h:9", "http://"])
def test_a_proxy_that_cannot_be_used_is_configuration(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """It was an ImportError of another package, five times, and the run was dead."""
    monkeypatch.setenv("ALL_PROXY", url)
    with pytest.raises(ModelUnauthorizedError, match="ALL_PROXY") as caught:
        find_endpoint(spec("http://server:8000/v1"), OPENAI, Secrets({}))
    assert "NO_PROXY" in caught.value.hint
    monkeypatch.setenv("NO_PROXY", "server")
    assert find_endpoint(spec("http://server:8000/v1"), OPENAI, Secrets({})).proxy is None


def test_a_variable_that_is_not_meant_for_models_goes_to_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever writes a row could send anything of the environment anywhere; the error says why."""
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter22")
    with pytest.raises(ModelUnauthorizedError, match="models are not given variables") as caught:
        make_model(spec(credential="DATABASE_PASSWORD"))
    assert "_API_KEY" in caught.value.hint
    assert "hunter22" not in str(caught.value)
    with pytest.raises(ModelUnauthorizedError, match="there is none called SOME_API_KEY"):
        make_model(spec(credential="SOME_API_KEY"))
    (tmp_path / "DATABASE_PASSWORD").write_text("an-administrator-put-it-there")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert make_model(spec(credential="DATABASE_PASSWORD"))


def test_no_repr_shows_a_key() -> None:
    """Objects end up in tracebacks and logs."""
    secrets = Secrets({"K": "s3cret"})
    assert "s3cret" not in repr(secrets)
    assert "s3cret" not in repr(find_endpoint(spec(credential="K"), OPENAI, secrets))


def test_an_unknown_provider_is_reported_with_the_known_ones() -> None:
    """As every name that is wrong."""
    with pytest.raises(ConfigError) as caught:
        build_model(ModelSpec("m", "gemini", "x"), environ={})
    assert all(name in str(caught.value) for name in BUILT_IN)


def test_the_action_schema_is_for_openai_only() -> None:
    """A row that asks for it elsewhere is refused before any call."""
    row = ModelSpec("m", "anthropic", "x", tool_mode="schema", base_url="http://h")
    with pytest.raises(ConfigError, match="tool_mode"):
        build_model(row, environ={})
