"""What answers from outside is read up to a limit: the places are found in the source."""

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "walagent"
OPENS = re.compile(
    r"\b(httpx2\.(?:AsyncClient|Client|delete|get|post|put|request|stream)|HttpClient|urlopen"
    r"|HTTPS?Connection|ClientSession|AsyncWebClient|SocketModeClient|PyJWKClient|SMTP|DDGS"
    r"|streamable_http_client|stdio_client|asyncio\.open_connection)\("
)
# What opens a connection to others, and the name that limits what is read.
LIMITED = {
    "ask/search.py: httpx2.AsyncClient": "_MOST_BODY",
    "models/anthropic/messages_model.py: HttpClient": "http_options",
    "models/openai/chat_model.py: HttpClient": "http_options",
    "scaffold/models.py: httpx2.stream": "_MOST_BODY",
    "tools/http_exchange.py: httpx2.AsyncClient": "limits.most",
    "tools/mcp_connection.py: httpx2.AsyncClient": "refusing_more",
    "tools/mcp_connection.py: streamable_http_client": "max_sse_event_size",
}
# Why there is no limit.
UNLIMITED = {
    "ask/search.py: DDGS": "the library has none; it asks search engines, if an operator chose it",
    "cli/threads/talk_replies.py: httpx2.AsyncClient": "the daemon of the one who types",
    "outbox/email.py: SMTP": "the library limits lines; the server is that of the operator",
    "outbox/slack.py: AsyncWebClient": "the library has none; the server is Slack",
    "outbox/slack.py: SocketModeClient": "the library limits messages; the server is Slack",
    "shapes.py: httpx2.AsyncClient": "for programs: the server is walagent",
    "tools/mcp_connection.py: stdio_client": "a program on this machine that the operator names",
}


def _found() -> dict[str, str]:
    """Return the text of each place's module."""
    return {
        f"{path.relative_to(SOURCE)}: {call}": text
        for path in sorted(SOURCE.rglob("*.py"))
        if "testing" not in path.parts
        for text in [path.read_text()]
        for call in OPENS.findall(text)
    }


def test_each_place_that_reads_from_outside_is_known() -> None:
    """A new one has a limit, or says why not."""
    assert sorted(_found()) == sorted(LIMITED | UNLIMITED)


@pytest.mark.parametrize(("place", "name"), LIMITED.items())
def test_a_limit_is_where_it_is_said_to_be(place: str, name: str) -> None:
    """By its name."""
    assert name in _found()[place]


def test_the_clients_of_models_are_bounded() -> None:
    """All of them have their transport from one function."""
    options = (SOURCE / "models" / "clients.py").read_text()
    assert '"transport": BoundedTransport(' in options
