"""An OpenID Connect provider: the code flow with PKCE, over the client that connects only where it may."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from mainspring.core.allow_list import AllowEntry
from mainspring.core.identity_providers import LoginAttempt, ProviderRules
from mainspring.core.values import value
from mainspring.egress import Blocked, Destination, EgressPolicy, parse_url
from mainspring.egress.client import GuardedClient, NoAnswer, read_start
from mainspring.errors import InvalidInput, MissingExtra
from mainspring.login.id_tokens import UnknownKey, read_id_token
from mainspring.ports.clock import Clock
from mainspring.ports.identity_provider import ProviderFailed
from mainspring.ports.secrets import SecretMissing, Secrets

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_DISCOVERY = "/.well-known/openid-configuration"
_LIMIT = timedelta(seconds=10)
_MOST_BYTES = 512 * 1024
_KNOWN_SECONDS = 3600.0
"""How long its addresses and keys are known before they are asked for again."""
_FAILURE_PAUSE = 5.0
"""Seconds in which it is not asked again after it has failed: all logins wait for the same answer."""
_KEY_PAUSE = 10.0
"""Seconds between two questions for keys that are not known: whoever invents key names must not keep it busy."""


@value()
class _Places:
    """What a provider says about itself."""

    authorization: str
    token: str
    jwks: str
    takes_basic: bool
    says_issuer: bool


class OidcProvider:
    """`IdentityProvider` by OpenID Connect. Nothing is imported or asked before the first login.

    Args:
        secrets: where the client's secret is.
        tls: how certificates are checked; by default against the system's authorities.
    """

    def __init__(
        self, rules: ProviderRules, *, secrets: Secrets, clock: Clock, tls: ssl.SSLContext | None = None
    ) -> None:
        self._rules = rules
        self._secrets = secrets
        self._clock = clock
        home = parse_url(rules.issuer, "auth.oidc.issuer")
        # The operator has named it, so it may be an internal one. What it names in turn may not, but for itself.
        allowed = AllowEntry(None, home.host, home.port)
        self._client = GuardedClient(EgressPolicy(allow=(allowed,)), connect_timeout=_LIMIT, tls=tls)
        self._is_started = False
        self._lock = asyncio.Lock()
        self._places: tuple[float, _Places] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._failed: tuple[float, str] | None = None

    @property
    def rules(self) -> ProviderRules:
        """Who the provider is."""
        return self._rules

    async def stop(self) -> None:
        """Close all connections."""
        if self._is_started:
            await self._client.stop()

    async def begin(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """See `IdentityProvider`."""
        _check_extra()
        places = await self._find_places()
        asked = {
            "response_type": "code",
            "client_id": self._rules.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._rules.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(places.authorization).query else "?"
        return f"{places.authorization}{joint}{urlencode(asked)}"

    async def finish(
        self, attempt: LoginAttempt, redirect_uri: str, *, code: str, issuer: str | None
    ) -> Mapping[str, Any]:
        """See `IdentityProvider`."""
        _check_extra()
        places = await self._find_places()
        if (issuer is None and places.says_issuer) or (issuer is not None and issuer != self._rules.issuer):
            raise ProviderFailed("the answer is of another provider (iss)")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
            "client_id": self._rules.client_id,
        }
        answer = await self._exchange(places, form)
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise ProviderFailed("its answer has no ID token; are the scopes without openid?")
        try:
            return self._read(text, await self._find_keys(places), attempt)
        except UnknownKey:
            return self._read(text, await self._find_keys(places, anew=True), attempt)

    def _read(self, text: str, keys: KeySet, attempt: LoginAttempt) -> Mapping[str, Any]:
        rules, now = self._rules, self._clock.now()
        return read_id_token(
            text, keys, issuer=rules.issuer, client_id=rules.client_id, nonce=attempt.nonce, now=now
        )

    async def _exchange(self, places: _Places, form: dict[str, str]) -> dict[str, Any]:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._rules.client_secret is not None:
            try:
                secret = self._secrets.reveal(self._rules.client_secret, None)
            except SecretMissing as error:
                raise ProviderFailed(str(error)) from None
            if places.takes_basic:
                pair = f"{quote(self._rules.client_id, safe='')}:{quote(secret, safe='')}"
                headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            else:
                form["client_secret"] = secret
        return await self._ask("POST", places.token, body=urlencode(form).encode(), headers=headers)

    async def _find_places(self) -> _Places:
        async with self._lock:
            known, now = self._places, self._clock.monotonic()
            if known is not None and now - known[0] <= _KNOWN_SECONDS:
                return known[1]
            if self._failed is not None and now - self._failed[0] < _FAILURE_PAUSE:
                raise ProviderFailed(self._failed[1])
            try:
                said = await self._ask("GET", self._rules.issuer.rstrip("/") + _DISCOVERY)
                places = _read_places(said, self._rules.issuer)
            except ProviderFailed as error:
                self._failed = (self._clock.monotonic(), str(error))
                raise
            self._places = (now, places)
            return places

    async def _find_keys(self, places: _Places, *, anew: bool = False) -> KeySet:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        async with self._lock:
            known, now = self._keys, self._clock.monotonic()
            if known is not None and now - known[0] <= (_KEY_PAUSE if anew else _KNOWN_SECONDS):
                return known[1]
            said = await self._ask("GET", places.jwks)
            try:
                keys = KeySet.import_key_set({"keys": _signing_keys(said)})
            except (JoseError, ValueError, TypeError, KeyError):
                raise ProviderFailed("its keys cannot be read") from None
            self._keys = (now, keys)
            return keys

    async def _ask(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        if not self._is_started:
            await self._client.start()
            self._is_started = True
        try:
            endpoint = _check_place(url)
            async with self._client.request(
                method, url, endpoint, body=body, headers=headers or {}, limit=_LIMIT
            ) as response:
                text, is_cut = await read_start(response, _MOST_BYTES)
                status = response.status
        except (Blocked, NoAnswer, InvalidInput) as error:
            raise ProviderFailed(f"it cannot be asked: {error}") from None
        except TimeoutError:
            raise ProviderFailed("it does not answer") from None
        if status != 200 or is_cut:
            raise ProviderFailed(f"it answers with status {status}{_error_in(text)}")
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise ProviderFailed("its answer cannot be read")
        return said


def _check_extra() -> None:
    try:
        import joserfc  # noqa: F401 - told before somebody is sent away
    except ImportError:
        raise MissingExtra("signing in at an identity provider", "login") from None


def _check_place(url: str) -> Destination:
    endpoint = parse_url(url, "auth.oidc.issuer")
    if endpoint.scheme != "https" and not _is_own(endpoint.host):
        raise Blocked("only https is allowed, but for this machine")
    return endpoint


def _is_own(host: str) -> bool:
    return host in {"localhost", "127.0.0.1", "::1"}


def _read_places(said: Mapping[str, Any], issuer: str) -> _Places:
    if said.get("issuer") != issuer:
        raise ProviderFailed("it calls itself by another name than auth.oidc.issuer")
    places = [said.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
    if not all(isinstance(place, str) for place in places):
        raise ProviderFailed("it does not say where to sign in")
    authorization, token, jwks = (str(place) for place in places)
    try:
        _check_place(authorization)  # the browser goes there: to a page, and nothing else
    except (Blocked, InvalidInput) as error:
        raise ProviderFailed(f"it does not say where to sign in: {error}") from None
    ways = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return _Places(
        authorization=authorization,
        token=token,
        jwks=jwks,
        takes_basic=not isinstance(ways, list) or "client_secret_basic" in ways,
        says_issuer=said.get("authorization_response_iss_parameter_supported") is True,
    )


def _signing_keys(said: Mapping[str, Any]) -> list[Any]:
    """Return the public keys for signatures; a shared one would let whoever has it sign."""
    keys = said.get("keys")
    if not isinstance(keys, list):
        raise ProviderFailed("its keys cannot be read")
    found = [key for key in keys if isinstance(key, dict) and key.get("kty") in {"RSA", "EC", "OKP"}]
    return [key for key in found if key.get("use", "sig") == "sig"]


def _error_in(text: bytes) -> str:
    """Return the code of an error as RFC 6749 has it, and nothing else of what the provider says."""
    try:
        said = json.loads(text)
        code = said["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    is_code = isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum() and len(code) < 60
    return f" ({code})" if is_code else ""
