"""Signed tokens of an identity provider: from a JWT to the principal that a transaction acts as.

The signature, issuer, audience and times are checked here, by PyJWT, with keys that the file names;
no key is fetched, and none comes from the token.  Tenant and principal are only looked up by the
database, which refuses those that do not exist or are disabled: a token creates nobody.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from walagent.base.extras import install_hint
from walagent.config.environment import Environment
from walagent.config.sections import Identity as IdentitySettings
from walagent.domain.tenant import Actor
from walagent.errors import ConfigError
from walagent.store.sessions.acting import Identity, identity_of_token

if TYPE_CHECKING:
    from jwt import PyJWK

MOST_BYTES: Final = 8192  # servers and proxies limit headers to about as much
_PREFIX: Final = "wla_"  # of the tokens of agent.create_token()
_MOST_KEYS: Final = 100
_WEAK: Final = 32  # bytes of a secret for HS256, as RFC 7518, section 3.2, requires

FindIdentity = Callable[[str], Identity]


class SignedTokenError(Exception):
    """The signed token is not valid; the message does not contain it."""


class SignedTokens:
    """Checks tokens, and returns the identity of each.

    Args:
        secret: of the algorithms HS256, HS384 and HS512; None: the keys are in `settings.jwks`.

    Raises:
        ConfigError: the keys cannot be read.
    """

    def __init__(self, settings: IdentitySettings, secret: str | None = None) -> None:
        self._settings = settings
        self._secret = secret
        self._keys: Mapping[str, PyJWK] = {}
        self._read_at: int | None = None
        if secret is None:
            self._read_keys(settings.jwks or Path())

    def __call__(self, token: str) -> Identity:
        """Return whom a token acts as: a signed one, or one of agent.create_token().

        Raises:
            SignedTokenError: it is a signed one, and not valid.
        """
        if token.startswith(_PREFIX) or token.count(".") != 2:  # noqa: PLR2004 - header, claims, signature
            return identity_of_token(token)
        claims = self._verify(token)
        settings = self._settings
        tenant = _text(claims, settings.tenant_claim)
        principal = _text(claims, settings.principal_claim)
        return Identity(
            "select agent_internal.act_as_principal(%s, %s, %s, %s)",
            (tenant, principal, list(settings.scopes), _end(claims)),
            Actor(tenant, principal),
        )

    def _verify(self, token: str) -> Mapping[str, Any]:
        from jwt import InvalidTokenError, decode  # noqa: PLC0415 - an extra

        if len(token) > MOST_BYTES:
            raise SignedTokenError(f"the token is longer than {MOST_BYTES} bytes")
        settings = self._settings
        try:
            return decode(
                token,
                self._key_of(token),
                algorithms=list(settings.algorithms),
                issuer=settings.issuer,
                audience=settings.audience,
                leeway=settings.leeway,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (InvalidTokenError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise SignedTokenError(f"the token is not valid: {type(error).__name__}") from None

    def _key_of(self, token: str) -> "PyJWK | str":
        from jwt import get_unverified_header  # noqa: PLC0415 - an extra

        if self._secret is not None:
            return self._secret
        header = get_unverified_header(token)
        self._read_again()
        name = header.get("kid")
        if name is None and len(self._keys) == 1:
            (key,) = self._keys.values()
        else:
            key = self._keys.get(name) if isinstance(name, str) else None
        if key is None:
            raise SignedTokenError("the key of the token is not known")
        if key.algorithm_name != header.get("alg"):
            raise SignedTokenError("the token is signed by another algorithm than its key is for")
        return key

    def _read_again(self) -> None:
        """Read the keys again if the file has changed; keep the previous ones if it is invalid."""
        path = self._settings.jwks or Path()
        try:
            if path.stat().st_mtime_ns != self._read_at:
                self._read_keys(path)
        except (OSError, ConfigError):
            return

    def _read_keys(self, path: Path) -> None:
        from jwt import PyJWK, PyJWTError  # noqa: PLC0415 - an extra

        try:
            changed = path.stat().st_mtime_ns
            found = json.loads(path.read_bytes())["keys"]
            keys = [PyJWK(each) for each in found if each.get("use", "sig") == "sig"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, PyJWTError) as error:
            raise ConfigError(
                f'identity.jwks: cannot read keys from "{path}": {type(error).__name__}',
                hint='It is a JSON Web Key Set: {"keys": [...]}.',
            ) from None
        names = [str(key.key_id or "") for key in keys]
        if not keys or len(keys) > _MOST_KEYS or len(set(names)) != len(names):
            raise ConfigError(
                f'identity.jwks: "{path}" has {len(keys)} keys, expected 1 to {_MOST_KEYS}'
                " with different names (kid)"
            )
        if any(key.key_type == "oct" for key in keys):
            raise ConfigError(
                f'identity.jwks: "{path}" has a symmetric key',
                hint="Use identity.secret for HS256, HS384 and HS512.",
            )
        self._keys, self._read_at = dict(zip(names, keys, strict=True)), changed


def _text(claims: Mapping[str, Any], name: str) -> str:
    found = claims.get(name)
    if not isinstance(found, str) or not found or "\0" in found:
        raise SignedTokenError(f'claim "{name}" of the token is not a text')
    return found


def _end(claims: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromtimestamp(int(claims["exp"]), UTC)
    except (ValueError, OverflowError, OSError):
        raise SignedTokenError("the token does not expire at a time") from None


def find_identity(settings: IdentitySettings | None) -> FindIdentity:
    """Return what finds the identity of a token that a request shows.

    Raises:
        ConfigError: PyJWT is not installed, or the keys cannot be read.
    """
    if settings is None:
        return identity_of_token
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        raise ConfigError("identity requires PyJWT", hint=install_hint("walagent[jwt]"))
    secret = None if settings.secret is None else Environment.of_process().find(settings.secret)
    if settings.secret is not None and len((secret or "").encode()) < _WEAK:
        raise ConfigError(
            f"identity.secret: {settings.secret} is not set, or shorter than {_WEAK} bytes",
            hint="Set the variable, or the systemd credential of that name.",
        )
    return SignedTokens(settings, secret)
