"""What a provider says of somebody is believed only if the provider has signed it, for this server and this login."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeGuard

from mainspring.core.identity_providers import LONGEST_SUBJECT
from mainspring.ports.identity_provider import ProviderFailed

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Those by which only the provider can sign. With `none` anybody could, and with HS256 whoever has the public key."""
_LEEWAY = 60
"""Seconds by which the clocks of both may differ."""


class UnknownKey(ProviderFailed):
    """It is signed with a key that is not known; the provider may have a new one."""


def read_id_token(
    text: str, keys: KeySet, *, issuer: str, client_id: str, nonce: str, now: datetime
) -> Mapping[str, Any]:
    """Return what an ID token says.

    Args:
        keys: the provider's public keys.

    Raises:
        UnknownKey: none of the keys is the one.
        ProviderFailed: it is not signed by it, is for another server or another login, or is over.
    """
    from joserfc import errors, jwt

    try:
        claims = jwt.decode(text, keys, algorithms=list(ALGORITHMS)).claims
    except errors.InvalidKeyIdError:
        raise UnknownKey("its token is signed with a key that it does not publish") from None
    except (errors.JoseError, ValueError, TypeError, KeyError) as error:
        raise ProviderFailed(f"its token is not to be trusted ({type(error).__name__})") from None
    _check_party(claims, issuer, client_id)
    _check_times(claims, now.timestamp())
    given, subject = claims.get("nonce"), claims.get("sub")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise ProviderFailed("its token is of another login (nonce)")
    if (
        not isinstance(subject, str)
        or not subject
        or len(subject) > LONGEST_SUBJECT
        or not subject.isprintable()
    ):
        raise ProviderFailed("its token does not say who has signed in (sub)")
    return claims


def _check_party(claims: Mapping[str, Any], issuer: str, client_id: str) -> None:
    if claims.get("iss") != issuer:
        raise ProviderFailed("its token is of another provider (iss)")
    audience = claims.get("aud")
    parties = [audience] if isinstance(audience, str) else audience
    if not isinstance(parties, list) or client_id not in parties:
        raise ProviderFailed("its token is for another server (aud)")
    if (len(parties) > 1 or "azp" in claims) and claims.get("azp") != client_id:
        raise ProviderFailed("its token is for several servers, and not this one (azp)")


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    until, made = claims.get("exp"), claims.get("iat")
    if not _is_time(until) or until + _LEEWAY <= now:
        raise ProviderFailed("its token is over (exp)")
    if not _is_time(made) or made - _LEEWAY > now:
        raise ProviderFailed("its token is of the future (iat); compare the clocks of both hosts")


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
