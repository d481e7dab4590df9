"""An ID token counts only if the provider signed it, for this server and this login, and not for long."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from mainspring.core.identity_providers import LoginAttempt
from mainspring.login.id_tokens import UnknownKey, read_id_token
from mainspring.ports.identity_provider import ProviderFailed

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ISSUER, CLIENT, NONCE = "https://login.example.com", "mainspring", "n-0S6_WzA2Mj"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
OTHER = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
KEYS = KeySet.import_key_set({"keys": [RSA.as_dict(private=False), EC.as_dict(private=False)]})
GOOD: dict[str, Any] = {
    "iss": ISSUER,
    "aud": CLIENT,
    "sub": "ann",
    "nonce": NONCE,
    "iat": int(NOW.timestamp()) - 5,
    "exp": int(NOW.timestamp()) + 300,
}


def sign(claims: dict[str, Any], key: Any = RSA, alg: str = "RS256", kid: str | None = "rsa") -> str:
    header = {"alg": alg} if kid is None else {"alg": alg, "kid": kid}
    return jwt.encode(header, claims, key, algorithms=[alg])


def read(text: str) -> Any:
    return read_id_token(text, KEYS, issuer=ISSUER, client_id=CLIENT, nonce=NONCE, now=NOW)


def part(data: Any) -> str:
    return urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("key", "alg", "kid"), [(RSA, "RS256", "rsa"), (RSA, "PS256", "rsa"), (EC, "ES256", "ec")]
)
def test_a_token_of_the_provider_counts(key: Any, alg: str, kid: str) -> None:
    assert read(sign(GOOD, key, alg, kid))["sub"] == "ann"


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "other"},
        {"nonce": None},
        {"nonce": 7},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": []},
        {"aud": None},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"iss": "https://evil.example"},
        {"iss": f"{ISSUER}/"},
        {"iss": None},
        {"exp": int(NOW.timestamp()) - 61},
        {"exp": None},
        {"exp": "2099-01-01"},
        {"exp": True},
        {"iat": int(NOW.timestamp()) + 61},
        {"iat": None},
        {"sub": ""},
        {"sub": None},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": "a\0b"},
    ],
    ids=str,
)
def test_a_claim_that_is_wrong_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ProviderFailed):
        read(sign(GOOD | change))
    claims = {name: value for name, value in (GOOD | change).items() if value is not None}
    with pytest.raises(ProviderFailed):
        read(sign(claims))


def test_several_audiences_are_allowed_with_this_server_as_the_party() -> None:
    assert read(sign(GOOD | {"aud": [CLIENT, "other"], "azp": CLIENT}))


def test_none_is_no_signature() -> None:
    for alg in ("none", "None", "NONE"):
        with pytest.raises(ProviderFailed):
            read(f"{part({'alg': alg, 'kid': 'rsa'})}.{part(GOOD)}.")


def test_the_public_key_is_no_shared_secret() -> None:
    """CVE-2015-9256 and its like: HS256 with the public key as the secret."""
    pem = RSA.as_pem(private=False)
    for secret in (pem, pem.strip(), json.dumps(RSA.as_dict(private=False)).encode()):
        start = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(GOOD)}"
        signature = urlsafe_b64encode(hmac.digest(secret, start.encode(), "sha256")).rstrip(b"=").decode()
        with pytest.raises(ProviderFailed):
            read(f"{start}.{signature}")


def test_a_changed_body_is_refused() -> None:
    header, body, signature = sign(GOOD).split(".")
    claims = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    with pytest.raises(ProviderFailed):
        read(f"{header}.{part(claims | {'sub': 'root'})}.{signature}")


def test_another_key_of_the_same_name_is_refused() -> None:
    with pytest.raises(ProviderFailed):
        read(sign(GOOD, OTHER))


def test_a_key_in_the_token_itself_is_not_believed() -> None:
    header = {"alg": "RS256", "kid": "rsa", "jwk": OTHER.as_dict(private=False)}
    with pytest.raises(ProviderFailed):
        read(jwt.encode(header, GOOD, OTHER, algorithms=["RS256"]))


def test_a_new_key_is_told_apart() -> None:
    with pytest.raises(UnknownKey):
        read(sign(GOOD, OTHER, kid="new"))


@pytest.mark.parametrize(
    "text", ["", "x", "a.b", "a.b.c", "..", "a.b.c.d.e", f"{part([])}.{part({})}.x", "é.é.é"]
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ProviderFailed):
        read(text)


def test_what_goes_to_the_provider_tells_nothing_of_the_browsers_secret() -> None:
    attempt, same, other = LoginAttempt("secret"), LoginAttempt("secret"), LoginAttempt("other")
    sent = {attempt.state, attempt.nonce, attempt.verifier, attempt.challenge}
    assert len(sent) == 4
    assert attempt.state == same.state != other.state
    assert not any("secret" in text for text in sent)
    assert len(attempt.verifier) == 43  # RFC 7636 asks for 43 at least


def test_the_challenge_is_that_of_rfc_7636() -> None:
    attempt = LoginAttempt("secret")
    attempt.verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert attempt.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
