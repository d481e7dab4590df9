"""The access token that a client presents: one that it was given, or the one that the environment names."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from mainspring.config.setting import PREFIX
from mainspring.errors import InvalidInput

TOKEN_VARIABLE = f"{PREFIX}TOKEN"
TOKEN_FILE_VARIABLE = f"{PREFIX}TOKEN_FILE"
CERT_VARIABLE = f"{PREFIX}CLIENT_CERT"
KEY_VARIABLE = f"{PREFIX}CLIENT_KEY"
_HEADER = "Authorization"
_LARGEST = 4096


class Credentials:
    """A token, or none.

    Args:
        token: the token's text; None takes it from the environment: from MAINSPRING_TOKEN, or from the file that
            MAINSPRING_TOKEN_FILE names.
    """

    def __init__(self, token: str | None = None) -> None:
        self._token = None if token is None else check_token(token, "token")
        self._is_given = token is not None
        self._is_read = self._is_given
        self._lent: str | None = None
        self._contexts: dict[bool, ssl.SSLContext | bool] = {}

    @property
    def headers(self) -> dict[str, str]:
        """What to add to each request.

        Raises:
            InvalidInput: the file cannot be read, or holds no token.
        """
        if self._lent is not None:
            return {_HEADER: f"Bearer {self._lent}"}
        if not self._is_read:
            self._token, self._is_read = read_token(), True
        return {} if self._token is None else {_HEADER: f"Bearer {self._token}"}

    @property
    def is_lent(self) -> bool:
        """Whether the token is that of this process's own server, which needs no proof of who it is."""
        return self._lent is not None

    def lend(self, token: str | None) -> None:
        """Present another token until this is called with None."""
        self._lent = token

    def tls(self, *, is_own: bool) -> ssl.SSLContext | bool:
        """Return how a server's certificate is verified, and what this client shows of itself.

        Args:
            is_own: it is this process's own server. That is called by an address that its certificate need not name.

        Raises:
            InvalidInput: the client's certificate cannot be used.
        """
        if is_own not in self._contexts:
            self._contexts[is_own] = _make_context(is_verifying=not is_own)
        return self._contexts[is_own]

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Read the token again, after a server has refused it; say whether it is another one now.

        Args:
            refused: the headers of the refused request. Another request may have had the token read again meanwhile.

        Raises:
            InvalidInput: the file cannot be read, or holds no token.
        """
        if self._is_given or self._lent is not None:
            return False
        self._token, self._is_read = read_token(), True
        return self.headers.get(_HEADER) != refused.get(_HEADER)


def _make_context(*, is_verifying: bool) -> ssl.SSLContext | bool:
    cert = os.environ.get(CERT_VARIABLE)
    if not cert:
        return is_verifying
    context = ssl.create_default_context()
    if not is_verifying:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.load_cert_chain(cert, os.environ.get(KEY_VARIABLE) or None)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InvalidInput(CERT_VARIABLE, f"{cert} and its key cannot be used ({why})") from None
    return context


def names_token() -> bool:
    """Return whether the environment names a token."""
    return any(os.environ.get(name) for name in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE))


def read_token() -> str | None:
    """Return the token that the environment names; None if it names none.

    Raises:
        InvalidInput: the file cannot be read, or holds no token.
    """
    text, file = os.environ.get(TOKEN_VARIABLE), os.environ.get(TOKEN_FILE_VARIABLE)
    if text:
        return check_token(text, TOKEN_VARIABLE)
    return read_token_file(file, TOKEN_FILE_VARIABLE) if file else None


def read_token_file(name: str, field: str) -> str:
    """Return the token in a file.

    Args:
        field: what names the file, for errors.

    Raises:
        InvalidInput: the file cannot be read, or holds no token.
    """
    try:
        with Path(name).open("rb") as file:
            data = file.read(_LARGEST)
    except OSError as error:
        raise InvalidInput(field, f"{name} cannot be read ({error.strerror})") from None
    except ValueError:
        raise InvalidInput(field, "the name of a file cannot contain NUL") from None
    return check_token(data.decode(errors="replace").strip(), field)


def check_token(text: str, field: str) -> str:
    """Return a token if it can be sent in a header. What it is worth the server says.

    Raises:
        InvalidInput: it is empty, or has characters that no token has.
    """
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidInput(field, "holds no access token; one looks like ms_k3v9q2xa_… and has 64 characters")
    return text
