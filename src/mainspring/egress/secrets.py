"""The secrets that one call, message or command takes, and how they stay out of what is told of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mainspring.core.secrets import PieceMask, fill, mask
from mainspring.core.webhooks import read_keys
from mainspring.errors import InvalidInput
from mainspring.ports.secrets import SecretMissing, Secrets

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Revealer:
    """Reads secrets and remembers them, so that no output and no error shows one.

    Args:
        tenant: whose secrets; None is the process itself.

    Attributes:
        tenant: the same.
    """

    def __init__(self, secrets: Secrets, tenant: str | None) -> None:
        self._secrets = secrets
        self.tenant = tenant
        self._known: set[str] = set()

    def reveal(self, name: str) -> str:
        """Return a secret.

        Raises:
            SecretMissing: there is none now; the operator may add it.
        """
        secret = self._secrets.reveal(name, self.tenant)
        self.remember(secret)
        return secret

    def remember(self, *texts: str) -> None:
        """Hide these texts, too, and the words in them."""
        for text in texts:
            self._known.update((text, *text.split()))

    def fill(self, text: str) -> str:
        """Return a text with the secrets in their places.

        Raises:
            SecretMissing: as with `reveal`.
        """
        return fill(text, self.reveal)

    def fill_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return header fields with the secrets in their places.

        Raises:
            SecretMissing: as with `reveal`; or one holds what cannot stand in a header.
        """
        filled = {name: self.fill(text) for name, text in headers.items()}
        for name, text in filled.items():
            if text != headers[name] and _CONTROL.search(text):
                raise SecretMissing(f"the header {name} would hold a line break, which is in its secret")
        return filled

    def signing_keys(self, name: str) -> tuple[bytes, ...]:
        """Return the keys in a secret.

        Raises:
            SecretMissing: as with `reveal`; or it holds no keys.
        """
        try:
            return read_keys(self.reveal(name), f"the secret {name!r}")
        except InvalidInput as error:
            raise SecretMissing(f"{error.field} {error.message}") from None

    def hide(self, text: str, *, is_cut_before: bool = False, is_cut_after: bool = False) -> str:
        """Return a text in which none of the secrets stands that were read.

        Args:
            is_cut_before: the text begins where a longer one was cut; a part of a secret may stand there.
            is_cut_after: it ends there.
        """
        if not self._known:
            return text
        return mask(text, self._known, is_cut_before=is_cut_before, is_cut_after=is_cut_after)

    def hide_piece(self, piece: str, pieces: PieceMask) -> str:
        """Return what can be shown by now of a text that comes in pieces."""
        return pieces.add(piece, self._known)

    def hide_rest(self, pieces: PieceMask) -> str:
        """Return what is left of such a text where it ends, or where what follows was dropped."""
        return pieces.cut(self._known)


class NoSecrets:
    """The secrets of a process that has none."""

    def check(self, name: str, tenant: str | None) -> None:
        """Refuse every name."""
        raise SecretMissing(f"there is no secret {name!r} here")

    def reveal(self, name: str, tenant: str | None) -> str:
        """Refuse every name."""
        raise SecretMissing(f"there is no secret {name!r} here")
