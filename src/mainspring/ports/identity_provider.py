"""Where people sign in instead of with a password of this server: an OpenID Connect provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mainspring.core.identity_providers import LoginAttempt, ProviderRules
from mainspring.errors import MainspringError


class ProviderFailed(MainspringError):
    """The provider cannot be asked now, or what it says is not to be trusted. The message may be shown to anyone."""


class IdentityProvider(Protocol):
    """Lets somebody sign in elsewhere, and finds out who that is."""

    @property
    def rules(self) -> ProviderRules:
        """Who the provider is, and what its groups may do."""
        ...

    async def begin(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """Return the address at the provider to which the browser is to go.

        Args:
            redirect_uri: where the provider sends the browser afterwards.

        Raises:
            ProviderFailed: the provider does not say where that is.
            MissingExtra: the extra `login` is not installed.
        """
        ...

    async def finish(
        self, attempt: LoginAttempt, redirect_uri: str, *, code: str, issuer: str | None
    ) -> Mapping[str, Any]:
        """Return what the provider says of whoever has signed in there, once it has been proved.

        Args:
            code: what the provider has given to the browser.
            issuer: who gave it, as far as the answer says so.

        Raises:
            ProviderFailed: it is not proved.
            MissingExtra: the extra `login` is not installed.
        """
        ...
