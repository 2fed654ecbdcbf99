"""What arguments can do to a request, and what they cannot."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.errors import ToolFailedError
from walagent.message import Json
from walagent.tools.http_templates import (
    arguments_of,
    fill_body,
    fill_header,
    fill_url,
    secrets_of,
)

HOST = "https://api.example"


def secret(name: str) -> str:
    """A secret that shows where it went."""
    return f"<{name}>"


def url(template: str, **values: Json) -> str:
    """Fill a URL."""
    return fill_url(HOST + template, values, secret)


def test_a_value_stays_in_its_place_of_a_url() -> None:
    """No value adds a part of the path, a parameter, a fragment or a host."""
    assert url("/u/{a}?q={b}", a="x/y?z#w", b="1&c=2 é") == (
        f"{HOST}/u/x%2Fy%3Fz%23w?q=1%26c%3D2%20%C3%A9"
    )
    assert url("/{a}", a="@evil.example/") == f"{HOST}/%40evil.example%2F"
    assert url("?q={a}", a=":8080") == f"{HOST}/?q=%3A8080"


@pytest.mark.parametrize(
    "value",
    [
        *("..", ".", "%2e%2e", "%2E.", "../../admin", "a/../b", "..\\..\\admin", "%2e%2e%2fadmin"),
        *("%252e%252e%252fadmin", "..;/admin", "a/.;x", "a%5c..%5cb"),
    ],
)
def test_no_value_leads_up_the_path(value: str) -> None:
    """Servers, proxies and clients resolve such parts, also encoded ones, and after decoding."""
    for template in ("/u/{a}/x", "/u/{a}", "/{a}"):
        with pytest.raises(ToolFailedError):
            url(template, a=value)
    assert url("/u/x?to={a}", a=value).startswith(f"{HOST}/u/x?to=")


def test_dots_that_lead_nowhere_are_kept() -> None:
    """Names of files, versions, and what only looks like a path."""
    for value in ("a.b", "...", "1.0..2.0", ".hidden", "a;b", "50%", "a\\b"):
        assert url("/u/{a}", a=value).startswith(f"{HOST}/u/")
    with pytest.raises(ToolFailedError):
        url("/u/.{a}/x", a=".")


def test_a_secret_of_a_url_keeps_its_slashes() -> None:
    """The operator wrote it: addresses of webhooks are secrets."""
    assert (
        fill_url(f"{HOST}/s/{{secret:HOOK}}", {}, lambda _: "T0/B1/x y") == f"{HOST}/s/T0/B1/x%20y"
    )


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "a\x00", "é", "\x7f"])
def test_a_value_adds_no_header(value: str) -> None:
    """A line break would."""
    with pytest.raises(ToolFailedError):
        fill_header("Bearer {a}", {"a": value}, secret)
    assert fill_header("Bearer {secret:T}; {a}", {"a": "x"}, secret) == "Bearer <T>; x"


def test_a_body_keeps_its_structure() -> None:
    """A string that is only a placeholder becomes the value, with its type."""
    template = {"text": "by {who}: {text}", "n": "{n}", "list": ["{tags}", 1, None], "{n}": True}
    values = {"who": "me", "text": '", "admin": true, "', "n": 2.5, "tags": ["a", {"b": None}]}
    assert fill_body(template, values, secret) == {
        "text": 'by me: ", "admin": true, "',
        "n": 2.5,
        "list": [["a", {"b": None}], 1, None],
        "{n}": True,
    }


def test_values_in_text_are_written_as_json() -> None:
    """Except strings, which are text already."""
    values = {"a": True, "b": None, "c": {"x": 1}, "d": "t"}
    assert fill_body("{a}|{b}|{c}|{d}", values, secret) == 'true||{"x":1}|t'


@given(st.text())
def test_no_value_is_a_template(value: str) -> None:
    """What a row says is never filled again: it names no secret."""
    filled = fill_body({"t": "x {a}"}, {"a": value + "{secret:KEY}{a}"}, secret)
    assert filled == {"t": f"x {value}{{secret:KEY}}{{a}}"}
    assert orjson.loads(orjson.dumps(filled, default=str)) if value.isascii() else True


def test_braces_are_doubled() -> None:
    """What is no placeholder stays as it is."""
    assert fill_body("{{a}} { } {1} {a-b} {a}", {"a": "v"}, secret) == "{a} { } {1} {a-b} v"


def test_arguments_and_secrets_are_found_everywhere() -> None:
    """In keys nothing is replaced, so nothing is found there."""
    templates = (
        "/x/{a}",
        {"H": "{b} {secret:S1}"},
        {"{k}": [{"x": "{c}{run_id}"}, "{secret:S-2}"]},
    )
    assert arguments_of(*templates) == ["a", "b", "c"]
    assert secrets_of(*templates) == {"S1", "S-2"}
