"""What counts as a secret in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.telemetry.mask import hide, mask

PASSWORD = "hunter2-x"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{PASSWORD}@db:5432/app",
        f"postgresql://me:p@ss@{PASSWORD}@db/app",
        f"host=db password={PASSWORD} user=me",
        f"host=db password = '{PASSWORD} \\' more' user=me",
        f"postgresql://db/app?user=me&password={PASSWORD}&sslmode=require",
        f"PGPASSWORD={PASSWORD} psql",
        f'{{"api_key": "{PASSWORD}"}}',
        f"Authorization: Bearer {PASSWORD}",
        f"x-api-key: {PASSWORD}",
        f"the key sk-ant-{PASSWORD}-0123456789 is wrong",
    ],
)
def test_a_secret_is_masked_in_the_forms_it_comes_in(text: str) -> None:
    """Connection strings, headers, JSON and bare keys lose their secret."""
    assert PASSWORD not in mask(text)
    assert "***" in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "run 7 of triage finished with 3 steps",
        "postgresql://db/app",
        "postgresql://me@db/app",
        "https://example.com/path?page=2",
        "12 input tokens, 3 output tokens",
        "the password of role me is wrong",
        "a@example.com",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Masking does not eat what an operator must read."""
    assert mask(text) == text


@given(
    secret=st.text("žščřďň$%-", min_size=6),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
)
def test_a_hidden_secret_never_shows(secret: str, before: str, after: str) -> None:
    """Whatever stands around it, a credential that was read is masked.

    Of letters that nothing else in the tests uses: what is hidden stays hidden in this process.
    """
    hide(secret)
    assert secret not in mask(f"{before}{secret}{after}")


@pytest.mark.parametrize("word", ["://a:", "token=", "token='", "Bearer ", 'password "', "sk-"])
def test_the_time_grows_with_the_text(word: str) -> None:
    """Programs write such lines, and the event loop waits: with its square, this takes hours."""
    assert len(mask(word * 400_000)) > 0


def test_a_password_is_masked_up_to_the_last_at() -> None:
    """The words before and after stay."""
    text = "at postgres://ann:p@ss:w@rd@host/db and http://host:80/a of a@b"
    assert mask(text) == "at postgres://ann:***@host/db and http://host:80/a of a@b"
