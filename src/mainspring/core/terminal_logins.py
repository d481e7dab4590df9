"""Signing in on a command line by a browser: what the two prove to each other.

The command keeps a secret, the verifier, and gives only its hash to the browser, the challenge. Once somebody has
signed in there, the browser gets a code. That is of use only together with the verifier, once, and not for long. So who
sees the addresses of the browser has no session, nor has who talks somebody into signing in for him.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from datetime import timedelta
from typing import NamedTuple

from mainspring.core.access import prefix_of
from mainspring.core.fields import kind, read_int
from mainspring.errors import InvalidInput

CODE_LASTS = timedelta(minutes=5)
"""How long a code may be exchanged for a session."""
LOWEST_PORT, HIGHEST_PORT = 1024, 65_535
_HASH = re.compile(r"[A-Za-z0-9_-]{43}")
_STATE = re.compile(r"[A-Za-z0-9_-]{16,64}")
_LONGEST_VERIFIER = 128
_BEGIN = "ms_"
"""What a token begins with, and a code does not: none is to be taken for the other."""


class TerminalLogin(NamedTuple):
    """What a command line begins a login with. None of it is secret.

    Attributes:
        challenge: the hash of its secret.
        port: where it waits on its own machine for the browser to come back; None if somebody will paste the code.
        state: what the browser has to bring there, so that the command knows its own login again.
    """

    challenge: str
    port: int | None = None
    state: str = ""


def read_terminal_login(challenge: object, port: object, state: object) -> TerminalLogin:
    """Read what a command line begins a login with. Neither of the last two comes without the other.

    Raises:
        InvalidInput: a value is wrong.
    """
    if not isinstance(challenge, str) or not _HASH.fullmatch(challenge):
        raise InvalidInput(
            "challenge", "must be the SHA-256 of the verifier in URL-safe base64: 43 characters"
        )
    if port is None and state is None:
        return TerminalLogin(challenge)
    if not isinstance(state, str) or not _STATE.fullmatch(state):
        raise InvalidInput("state", "must be 16 to 64 letters and digits; it goes with a port")
    return TerminalLogin(challenge, read_int(port, "port", low=LOWEST_PORT, high=HIGHEST_PORT), state)


def challenge_of(verifier: str) -> str:
    """Return the challenge that goes with a verifier (PKCE, S256)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def read_verifier(text: object) -> str:
    """Read the secret of a command line.

    Raises:
        InvalidInput: it is no text, or too long.
    """
    if not isinstance(text, str):
        raise InvalidInput("verifier", f"must be text, not {kind(text)}")
    if not text or len(text) > _LONGEST_VERIFIER or not text.isascii():
        raise InvalidInput("verifier", f"must be 1 to {_LONGEST_VERIFIER} ASCII characters")
    return text


def write_code(token: str) -> str:
    """Return the code of a login from the text of a token, which it is not to be taken for."""
    return token.removeprefix(_BEGIN)


def prefix_of_code(code: str) -> str | None:
    """Return the prefix by which the store knows a code; None if it does not have a code's form."""
    return prefix_of(_BEGIN + code)


def hash_code(code: str, challenge: str) -> bytes:
    """Return what the store keeps of a code. Only who has the verifier of the challenge comes to the same."""
    return hashlib.sha256(f"{code} {challenge}".encode()).digest()
