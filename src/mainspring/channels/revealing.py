"""The secrets that one message takes, and how they stay out of what is told of it."""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.core.secrets import fill, mask
from mainspring.core.webhooks import read_keys
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable
from mainspring.ports.secrets import SecretMissing, Secrets


class Revealer:
    """Reads the secrets of one message, and remembers them, so that no error shows one.

    Args:
        tenant: whose secrets; None is the server itself.
    """

    def __init__(self, secrets: Secrets, tenant: str | None) -> None:
        self._secrets = secrets
        self._tenant = tenant
        self._known: set[str] = set()

    def reveal(self, name: str) -> str:
        """Return a secret.

        Raises:
            ChannelUnavailable: there is none now; the operator may add it while the message is tried again.
        """
        try:
            secret = self._secrets.reveal(name, self._tenant)
        except SecretMissing as error:
            raise ChannelUnavailable(str(error)) from None
        self._known.update((secret, *secret.split()))
        return secret

    def fill(self, text: str) -> str:
        """Return a text with the secrets in their places."""
        return fill(text, self.reveal)

    def fill_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return header fields with the secrets in their places.

        Raises:
            ChannelUnavailable: a secret is missing, or cannot stand in a header.
        """
        filled = {name: self.fill(text) for name, text in headers.items()}
        for name, text in filled.items():
            if not text.isprintable():
                raise ChannelUnavailable(f"the header {name} would hold a line break, which is in its secret")
        return filled

    def signing_keys(self, name: str) -> tuple[bytes, ...]:
        """Return the keys in a secret.

        Raises:
            ChannelUnavailable: there is none, or it holds no keys.
        """
        try:
            return read_keys(self.reveal(name), f"the secret {name!r}")
        except InvalidInput as error:
            raise ChannelUnavailable(f"{error.field} {error.message}") from None

    def hide(self, text: str) -> str:
        """Return a text in which none of the secrets stands that were read."""
        return mask(text, self._known)
