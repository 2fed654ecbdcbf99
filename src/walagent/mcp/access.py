"""Who may use the MCP server, and who may decide through it: two tokens, never the same.

A model that uses the server writes the name of a tool and its arguments, and nothing else.  So
whoever decides shows a token in a place that no model writes: the header of the HTTP request, or
the `_meta` of the call on stdio, which the client program fills in.  An argument would pass through
the model, which could then approve its own calls.
"""

from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.mcpserver import Context

from walagent.config.environment import Environment
from walagent.errors import ConfigError, PreconditionError
from walagent.mask import hide

TOKEN: Final = "WALAGENT_MCP_TOKEN"  # noqa: S105 - a name
PERSON_TOKEN: Final = "WALAGENT_MCP_PERSON_TOKEN"  # noqa: S105 - a name
META: Final = "walagent/person-token"  # in the `_meta` of a call on stdio
USE: Final = "use"
DECIDE: Final = "decide"

_SHORTEST: Final = 16  # characters; a shorter one can be tried out
_MAKE_ONE: Final = "`openssl rand -hex 32` makes one; put it into the environment or .env"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What callers show.

    Args:
        program: lets programs use the server over HTTP; None on stdio, where only our parent can.
        person: lets a person decide about tool calls; None: nobody can decide here.
    """

    program: str | None = field(default=None, repr=False)
    person: str | None = field(default=None, repr=False)


def read_tokens(environment: Environment, *, http: bool) -> Tokens:
    """Read the tokens; from now on they are masked wherever they turn up.

    Raises:
        PreconditionError: HTTP needs a token, and there is none.
        ConfigError: a token can be guessed, or one is used for both.
    """
    program = environment.find(TOKEN) if http else None
    person = environment.find(PERSON_TOKEN)
    if http and program is None:
        raise PreconditionError(
            f"{TOKEN} is not set; any program of this machine could ask", hint=_MAKE_ONE
        )
    for name, token in ((TOKEN, program), (PERSON_TOKEN, person)):
        if token is not None:
            hide(token)
            _check(name, token)
    if program is not None and person is not None and same(program, person):
        raise ConfigError(
            f"{TOKEN} and {PERSON_TOKEN} are the same: a program could approve its own calls"
        )
    return Tokens(program, person)


def _check(name: str, token: str) -> None:
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{name} must have at least {_SHORTEST} characters of ASCII",
            hint=_MAKE_ONE,
        )


def same(given: str, known: str) -> bool:
    """Compare in a time that says nothing about where they differ."""
    return compare_digest(given.encode("utf-8", "replace"), known.encode())


class Bearer(TokenVerifier):
    """Knows callers over HTTP by their token."""

    def __init__(self, tokens: Tokens) -> None:
        """Take what callers may show."""
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Say who shows *token*; None: nobody we know.

        What is returned goes from hand to hand in the SDK, so the token itself is not in it.
        """
        is_program = self._tokens.program is not None and same(token, self._tokens.program)
        is_person = self._tokens.person is not None and same(token, self._tokens.person)
        if is_person:
            return AccessToken(token="", client_id="person", scopes=[USE, DECIDE])
        if is_program:
            return AccessToken(token="", client_id="program", scopes=[USE])
        return None


def may_decide_by_bearer() -> bool:
    """Whether the HTTP request that is being answered came with the person's token."""
    access = get_access_token()
    return access is not None and DECIDE in access.scopes


def may_decide_by_meta(tokens: Tokens, context: "Context[object]") -> bool:
    """Whether the client program put the person's token beside the call."""
    given = dict(context.request_context.meta or {}).get(META)
    return tokens.person is not None and isinstance(given, str) and same(given, tokens.person)
