"""Signed tokens that are forged, confused, old, or name somebody else: nobody acts by them."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2 as httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from psycopg import AsyncConnection
from pydantic import ValidationError

from tests.helpers.database import refused, role, rows, run_all, session, value
from tests.helpers.people import person
from walagent.app.console import make_api
from walagent.config.sections import Http
from walagent.config.sections import Identity as IdentitySettings
from walagent.domain.tenant import Actor
from walagent.errors import ConfigError
from walagent.http.server import listen, serve_on
from walagent.http.signed_tokens import MOST_BYTES, SignedTokenError, SignedTokens, find_identity
from walagent.store.errors import translating
from walagent.store.sessions.acting import Identity, identity_of_token
from walagent.store.sessions.connections import connect
from walagent.sync.app import ShapeApp, SyncSettings
from walagent.sync.checks import ShapeRefusedError
from walagent.sync.principals import TokenCheck

WRITE = {"x-walagent-request": "1", "content-type": "application/json"}
ISSUER, AUDIENCE = "https://id.example", "walagent"


@dataclass(frozen=True, slots=True)
class Provider:
    """An identity provider: its key, and what checks its tokens."""

    key: rsa.RSAPrivateKey
    path: Path
    check: SignedTokens

    def token(self, *, headers: Mapping[str, Any] | None = None, **claims: object) -> str:
        """A token of ann of acme, with other claims; those that are None are left out."""
        return jwt.encode(
            claimed(claims), self.key, "RS256", headers={"kid": "one", **(headers or {})}
        )

    @property
    def public(self) -> bytes:
        """The public key, which everybody has, as PEM."""
        return self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def claimed(changes: Mapping[str, object]) -> dict[str, Any]:
    """Claims of a valid token, with changes."""
    claims = {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "tenant": "acme", "exp": time.time() + 600,
        **changes,
    }  # fmt: skip
    return {name: each for name, each in claims.items() if each is not None}


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    """A key of the provider."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def provider(key: rsa.RSAPrivateKey, tmp_path: Path) -> Provider:
    """A provider with one key in a file."""
    path = tmp_path / "jwks.json"
    write_keys(path, {"one": key})
    return Provider(key, path, SignedTokens(settings(path)))


def settings(path: Path, **changes: Any) -> IdentitySettings:  # noqa: ANN401 - fields
    """The section `identity`."""
    return IdentitySettings(issuer=ISSUER, audience=AUDIENCE, jwks=path, **changes)


def write_keys(path: Path, keys: Mapping[str, rsa.RSAPrivateKey]) -> None:
    """Write the file with the public keys."""
    written = [
        {**RSAAlgorithm.to_jwk(each.public_key(), as_dict=True), "kid": name, "alg": "RS256"}
        for name, each in keys.items()
    ]
    path.write_text(json.dumps({"keys": written}))
    os.utime(path, ns=(time.time_ns(), time.time_ns()))


def encoded(part: object) -> str:
    """A part of a token, made by hand: a library refuses to make some of these."""
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def by_hand(header: Mapping[str, object], claims: Mapping[str, object], signature: bytes) -> str:
    """A token of any header and signature."""
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature)}"


def test_a_valid_token_is_the_principal_that_it_names(provider: Provider) -> None:
    """Until it expires, and for the scopes that the file gives."""
    found = provider.check(provider.token(exp=4_000_000_000))
    assert "act_as_principal" in found.statement
    tenant, principal, scopes, until = found.parameters
    assert (tenant, principal, scopes) == ("acme", "ann", ["read"])
    assert getattr(until, "year", 0) == 2096
    assert provider.check("wla_x.y.z") == identity_of_token("wla_x.y.z")
    assert "ann" not in repr(found)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1}, {"exp": None}, {"exp": "soon"}, {"exp": 10**400}, {"exp": -1}, {"exp": []},
        {"nbf": 4_000_000_000}, {"iat": "x"}, {"iat": 4_000_000_000},
        {"aud": None}, {"aud": "other"}, {"aud": []}, {"aud": ["x"]}, {"aud": {"walagent": 1}},
        {"iss": None}, {"iss": "https://id.example.evil"}, {"iss": [ISSUER]},
        {"iss": "https://id.example/"},
        {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": ["ann"]}, {"sub": "a\0nn"},
        {"sub": {"a": 1}},
        {"tenant": None}, {"tenant": ["acme"]}, {"tenant": ""}, {"tenant": True},
    ],
    ids=str,
)  # fmt: skip
def test_claims_that_do_not_fit_are_refused(
    provider: Provider, claims: Mapping[str, object]
) -> None:
    """Signed by the provider, and yet not for here, not now, or for nobody."""
    header = {"alg": "RS256", "typ": "JWT", "kid": "one"}
    message = f"{encoded(header)}.{encoded(claimed(claims))}"
    signature = jwt.get_algorithm_by_name("RS256").sign(message.encode(), provider.key)
    with pytest.raises(SignedTokenError):
        provider.check(f"{message}.{encoded(signature)}")


def test_a_token_without_a_signature_of_the_provider_is_refused(provider: Provider) -> None:
    """Algorithm none in any case, none at all, and the public key as a secret."""
    valid = provider.token()
    head, body, signature = valid.split(".")
    tokens = [
        by_hand({"alg": name, "typ": "JWT", **kid}, claimed({}), b"")
        for name in ("none", "None", "NONE", "nOnE", "", None, 7, [], {})
        for kid in ({"kid": "one"}, {})
    ]
    # A server that takes the algorithm from the token checks it with the public key as a secret.
    for secret in (provider.public, provider.public.strip(), provider.path.read_bytes(), b""):
        for name, digest in (("HS256", hashlib.sha256), ("HS512", hashlib.sha512)):
            header = {"alg": name, "kid": "one"}
            message = f"{encoded(header)}.{encoded(claimed({}))}".encode()
            tokens.append(by_hand(header, claimed({}), hmac.new(secret, message, digest).digest()))
    tokens += [
        f"{head}.{body}.", f"{head}.{encoded(claimed({'tenant': 'umbra'}))}.{signature}",
        f"{head}.{body}.{signature[:-4]}AAAA", "..", "a.b.c", f".{body}.{signature}",
        f"{encoded({'alg': 'RS512', 'kid': 'one'})}.{body}.{signature}",
        f"{encoded({'alg': 'PS256', 'kid': 'one'})}.{body}.{signature}",
        f"{encoded(b'[' * 5000)}.{body}.{signature}", f"{head}.{encoded(b'[' * 5000)}.{signature}",
        f"{encoded([])}.{body}.{signature}", f"{encoded(b'')}.{body}.{signature}",
    ]  # fmt: skip
    for token in tokens:
        with pytest.raises(SignedTokenError) as caught:
            provider.check(token)
        assert signature not in str(caught.value)
    provider.check(valid)


def test_the_key_of_a_token_is_one_of_the_file(provider: Provider, tmp_path: Path) -> None:
    """Its name is no path, no address and no key of its own; another key's signature is none."""
    own = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = RSAAlgorithm.to_jwk(own.public_key(), as_dict=True)
    (tmp_path / "evil.json").write_text(json.dumps({"keys": [{**public, "kid": "evil"}]}))
    headers: list[dict[str, Any]] = [
        {"kid": "one"}, {"kid": "evil"}, {"kid": "../evil.json"},
        {"kid": str(tmp_path / "evil.json")},
        {"kid": "/dev/null"}, {"kid": "one' or '1'='1"}, {"kid": ""}, {"kid": "one\0"},
        {"kid": "evil", "jku": (tmp_path / "evil.json").as_uri()}, {"kid": "one", "jwk": public},
        {"kid": "one", "x5u": "http://127.0.0.1:1/"}, {"kid": "file:///dev/zero"},
    ]  # fmt: skip
    for header in headers:
        with pytest.raises(SignedTokenError):
            provider.check(jwt.encode(claimed({}), own, "RS256", headers=header))
    for kid in (7, ["one"], {"one": 1}, None):
        message = f"{encoded({'alg': 'RS256', 'kid': kid})}.{encoded(claimed({}))}"
        signature = jwt.get_algorithm_by_name("RS256").sign(message.encode(), own)
        with pytest.raises(SignedTokenError):
            provider.check(f"{message}.{encoded(signature)}")


def test_a_key_is_used_with_its_own_algorithm(key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    """Of several that are accepted; and a key for encryption verifies nothing."""
    curve = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "jwks.json"
    both = [
        {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "r", "alg": "PS256"},
        {**ECAlgorithm.to_jwk(curve.public_key(), as_dict=True), "kid": "e"},
        {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "enc", "use": "enc"},
    ]
    path.write_text(json.dumps({"keys": both}))
    check = SignedTokens(settings(path, algorithms=("RS256", "PS256", "ES256")))
    check(jwt.encode(claimed({}), key, "PS256", headers={"kid": "r"}))
    check(jwt.encode(claimed({}), curve, "ES256", headers={"kid": "e"}))
    for kid in ("r", "enc", "e"):
        with pytest.raises(SignedTokenError):
            check(jwt.encode(claimed({}), key, "RS256", headers={"kid": kid}))
    with pytest.raises(SignedTokenError):  # which of several keys?
        check(jwt.encode(claimed({}), key, "PS256"))


def test_a_huge_token_is_refused_before_it_is_read(provider: Provider) -> None:
    """However it is signed."""
    with pytest.raises(SignedTokenError, match="longer"):
        provider.check(provider.token(more="x" * MOST_BYTES))
    started = time.monotonic()
    with pytest.raises(SignedTokenError, match="longer"):
        provider.check(".".join(["A" * 10_000_000] * 3))
    assert time.monotonic() - started < 1


def test_a_key_that_is_removed_is_not_accepted_any_more(
    provider: Provider, key: rsa.RSAPrivateKey
) -> None:
    """The file is read again when it changes; one that is invalid changes nothing."""
    token = provider.token()
    provider.check(token)
    provider.path.write_text("{")
    provider.check(token)
    write_keys(provider.path, {"two": key})
    with pytest.raises(SignedTokenError):
        provider.check(token)
    provider.check(provider.token(headers={"kid": "two"}))


@pytest.mark.parametrize(
    "keys",
    [
        "", "[]", "{}", '{"keys": []}', '{"keys": [7]}', '{"keys": [{"kty": "none"}]}',
        '{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}',
    ],
)  # fmt: skip
def test_a_file_without_public_keys_is_refused(tmp_path: Path, keys: str) -> None:
    """Symmetric keys, too: somebody could know them as public ones."""
    path = tmp_path / "jwks.json"
    path.write_text(keys)
    with pytest.raises(ConfigError, match=r"identity\.jwks"):
        SignedTokens(settings(path))
    with pytest.raises(ConfigError, match=r"identity\.jwks"):
        SignedTokens(settings(tmp_path / "none"))


@pytest.mark.parametrize(
    "given",
    [
        {"algorithms": ["none"], "jwks": "x"}, {"algorithms": ["HS256"], "jwks": "x"},
        {"algorithms": ["RS256", "HS256"], "jwks": "x"},
        {"algorithms": ["RS256"], "secret": "JWT_SECRET"},
        {"jwks": "x", "secret": "JWT_SECRET", "algorithms": ["HS256"]},
        {}, {"algorithms": [], "jwks": "x"},
    ],
)  # fmt: skip
def test_the_file_cannot_confuse_algorithms(given: dict[str, Any]) -> None:
    """Secrets and public keys are not accepted beside each other."""
    with pytest.raises(ValidationError):
        IdentitySettings.model_validate({"issuer": ISSUER, "audience": AUDIENCE, **given})


def test_a_secret_is_long_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not set, or can be guessed, does not start."""
    section = IdentitySettings(
        issuer=ISSUER, audience=AUDIENCE, secret="JWT_SECRET", algorithms=("HS256",)
    )
    for weak in ("", "hunter2"):
        monkeypatch.setenv("JWT_SECRET", weak)
        with pytest.raises(ConfigError, match="JWT_SECRET") as caught:
            find_identity(section)
        assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("JWT_SECRET", "s" * 32)
    check = find_identity(section)
    assert check(jwt.encode(claimed({}), "s" * 32, "HS256")).parameters[1] == "ann"
    with pytest.raises(SignedTokenError):
        check(jwt.encode(claimed({}), "t" * 32, "HS256"))


# In the database.

WHO = "select agent.current_tenant(), agent.current_principal()"


async def _acts(conn: AsyncConnection, identity: Identity) -> list[tuple[Any, ...]]:
    async with conn.transaction():
        await conn.execute(identity.statement, identity.parameters)
        return await rows(conn, WHO)


async def test_only_principals_that_exist_act_by_a_signed_token(
    conn: AsyncConnection, provider: Provider
) -> None:
    """It creates nobody, and a name of another tenant, or one that is cut, is nobody's."""
    await person(conn, "ann", "viewer", tenant="acme")
    await person(conn, "eve", tenant="umbra")
    await person(conn, "a" * 63, tenant="acme")
    assert await _acts(conn, provider.check(provider.token())) == [("acme", "ann")]
    for claims in (
        {"sub": "eve"}, {"tenant": "umbra"}, {"tenant": "none"}, {"sub": "ANN"}, {"sub": "ann "},
        {"sub": "a" * 64}, {"tenant": "acme', 'ann"}, {"sub": "%"}, {"tenant": "ACME"},
    ):  # fmt: skip
        identity = provider.check(provider.token(headers=None, **claims))
        statement, parameters = identity.statement, identity.parameters
        await refused(conn, statement, *parameters, state="WA018")
    assert await value(conn, "select count(*) from agent.principal") == 3


async def test_a_token_of_somebody_who_was_disabled_is_refused(
    conn: AsyncConnection, provider: Provider
) -> None:
    """At the next transaction, although it has not expired; so is that of a disabled tenant."""
    await person(conn, "ann", "viewer", tenant="acme")
    identity = provider.check(provider.token())
    for disable, enable in (
        ("disable_principal('ann', 'acme')", "enable_principal('ann', 'acme')"),
        ("disable_tenant('acme')", "enable_tenant('acme')"),
    ):
        assert await _acts(conn, identity) == [("acme", "ann")]
        await run_all(conn, f"select agent.{disable}")
        await refused(conn, identity.statement, *identity.parameters, state="WA018")
        await run_all(conn, f"select agent.{enable}")
    await run_all(conn, "delete from agent.principal")
    await refused(conn, identity.statement, *identity.parameters, state="WA018")


async def test_its_scopes_and_roles_limit_what_it_does(
    conn: AsyncConnection, provider: Provider
) -> None:
    """A claim `roles` or `scopes` of the token gives nothing."""
    await person(conn, "ann", "admin", tenant="acme")
    token = provider.token(scopes=["admin"], roles=["admin"], scope="admin", admin=True)
    identity = provider.check(token)
    async with conn.transaction():
        await conn.execute(identity.statement, identity.parameters)
        assert await value(conn, "select agent.has_role('viewer')") is True
        assert await value(conn, "select agent.has_role('admin')") is False


async def test_only_the_runner_acts_without_a_token(
    conn: AsyncConnection, dsn: str, provider: Provider
) -> None:
    """No other capability can call it, nor can who acts as somebody become somebody else."""
    await person(conn, "ann", tenant="acme")
    identity = provider.check(provider.token())
    async with role(conn) as login, role(conn) as runner:
        for name in ("viewer", "approver", "developer", "asker", "member"):
            await run_all(conn, f"select agent.grant_{name}('{login}')")
        await run_all(conn, f"select agent.grant_runner('{runner}')")
        async with session(dsn, user=login) as other:
            await refused(other, identity.statement, *identity.parameters, state="42501")
        async with session(dsn, user=runner) as daemon:
            assert await _acts(daemon, identity) == [("acme", "ann")]
            async with daemon.transaction(force_rollback=True):
                await daemon.execute(identity.statement, identity.parameters)
                await refused(daemon, identity.statement, *identity.parameters, state="42501")
        # A principal's login is not the daemon, whatever it is granted.
        await run_all(
            conn,
            f"select agent.create_principal('eve', login => '{login}', tenant => 'acme');"
            f"select agent.grant_runner('{login}')",
        )
        async with session(dsn, user=login) as other:
            await refused(other, identity.statement, *identity.parameters, state="42501")
        await run_all(conn, "delete from agent.principal where name = 'eve'")


# Over HTTP.


class _Engine:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        with translating():
            async with await connect(self._dsn) as conn:
                yield conn


async def test_over_http_a_signed_token_is_a_bearer_token(
    conn: AsyncConnection, dsn: str, provider: Provider
) -> None:
    """Of queries, shapes and sessions; a session ends with it, and another one is refused."""
    await person(conn, "ann", "admin", tenant="acme")
    engine = _Engine(dsn)
    check = TokenCheck(engine.connection, provider.check)
    shapes = ShapeApp(
        cast("Any", engine),  # its shapes are not asked for
        SyncSettings(),
        check,
    )
    sockets = await listen("127.0.0.1", 0)
    api = make_api(engine, shapes, Http(), provider.check)
    task = asyncio.create_task(serve_on(api, sockets))
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/v1/session"
    good, evil = provider.token(exp=time.time() + 3600), provider.token(tenant="umbra")
    forged = provider.token()[:-6] + "AAAAAA"
    assert await check.of_token(good) == Actor("acme", "ann", ("read",))
    async with httpx.AsyncClient() as client:
        found = await client.get(url, headers={"authorization": f"Bearer {good}"})
        assert (found.json()["tenant"], found.json()["principal"]) == ("acme", "ann")
        assert "admin" not in found.json()["roles"]
        for token in (evil, forged, provider.token(exp=1), provider.token(aud="x")):
            answer = await client.get(url, headers={"authorization": f"Bearer {token}"})
            assert answer.status_code == 401
            assert token.split(".")[2] not in answer.text
            with pytest.raises(ShapeRefusedError):
                await check.of_token(token)
            entered = await client.post(url, json={"token": token}, headers=WRITE)
            assert entered.status_code == 401
        entered = await client.post(url, json={"token": good}, headers=WRITE)
        assert entered.status_code == 200
        query = (
            "select scopes, expires_at < now() + interval '61 minutes' from agent.token"
            " where label = 'console session'"
        )
        assert await rows(conn, query) == [(["read"], True)]
        assert (await client.get(url)).json()["principal"] == "ann"
        await run_all(conn, "select agent.disable_principal('ann', 'acme')")
        for headers in ({}, {"authorization": f"Bearer {good}"}):
            assert (await client.get(url, headers=headers)).status_code == 401
    task.cancel()
    await asyncio.wait({task})
