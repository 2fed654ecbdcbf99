"""Authorize MCP callers: one token to use the server, another to decide about tool calls.

A model that uses the server controls the names and arguments of calls, and nothing else.  The
token for decisions is therefore sent where no model writes: in the header of the HTTP request, or
on stdio in the `_meta` of the call, which the client program sets.  With a token among the
arguments, a model could approve its own calls.
"""

from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.mcpserver import Context

from walagent.config.environment import Environment
from walagent.errors import ConfigError, PreconditionError
from walagent.telemetry.mask import hide

TOKEN: Final = "WALAGENT_MCP_TOKEN"  # noqa: S105 - a name
PERSON_TOKEN: Final = "WALAGENT_MCP_PERSON_TOKEN"  # noqa: S105 - a name
META: Final = "walagent/person-token"  # in the `_meta` of a call on stdio
USE: Final = "use"
DECIDE: Final = "decide"

_SHORTEST: Final = 16  # characters; shorter tokens can be guessed
_CREATE: Final = "Run openssl rand -hex 32 to create one, and set it in the environment or .env."


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens that callers send.

    Args:
        program: to use the server over HTTP; None on stdio, where the parent is the only caller.
        person: to decide about tool calls; None disables decisions.
    """

    program: str | None = field(default=None, repr=False)
    person: str | None = field(default=None, repr=False)


def read_tokens(environment: Environment, *, http: bool) -> Tokens:
    """Read the tokens, and mask them in all output.

    Raises:
        PreconditionError: the token that HTTP requires is not set.
        ConfigError: a token is too short, or both are equal.
    """
    program = environment.find(TOKEN) if http else None
    person = environment.find(PERSON_TOKEN)
    if http and program is None:
        raise PreconditionError(
            f"{TOKEN} is not set: every local program could ask questions", hint=_CREATE
        )
    for name, token in ((TOKEN, program), (PERSON_TOKEN, person)):
        if token is not None:
            hide(token)
            _check(name, token)
    if program is not None and person is not None and same(program, person):
        raise ConfigError(
            f"{TOKEN} and {PERSON_TOKEN} are equal: a program could approve its own calls"
        )
    return Tokens(program, person)


def _check(name: str, token: str) -> None:
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{name} must have at least {_SHORTEST} printable ASCII characters",
            hint=_CREATE,
        )


def same(given: str, known: str) -> bool:
    """Compare in constant time."""
    return compare_digest(given.encode("utf-8", "replace"), known.encode())


class Bearer(TokenVerifier):
    """Identifies HTTP callers by their bearer token."""

    def __init__(self, tokens: Tokens) -> None:
        """Store the valid tokens."""
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the scopes of *token*; None if it is invalid.

        The SDK passes the result on, so it does not contain the token itself.
        """
        is_program = self._tokens.program is not None and same(token, self._tokens.program)
        is_person = self._tokens.person is not None and same(token, self._tokens.person)
        if is_person:
            return AccessToken(token="", client_id="person", scopes=[USE, DECIDE])
        if is_program:
            return AccessToken(token="", client_id="program", scopes=[USE])
        return None


def may_decide_by_bearer() -> bool:
    """Whether the current HTTP request has the token for decisions."""
    access = get_access_token()
    return access is not None and DECIDE in access.scopes


def may_decide_by_meta(tokens: Tokens, context: "Context[object]") -> bool:
    """Whether the call's `_meta` has the token for decisions."""
    given = dict(context.request_context.meta or {}).get(META)
    return tokens.person is not None and isinstance(given, str) and same(given, tokens.person)
