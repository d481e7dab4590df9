"""The forms that encrypted values have in the store, and how they are told from plain ones.

Payloads and results are JSON text, which never begins with the byte that a ciphertext begins with. Errors and outputs
are text, and so is their ciphertext. Of a definition, the payload and what the target is called with are encrypted
together, and stand among the target's parameters under a name that no option has.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.core.values import value

FIRST_BYTE = b"\x01"
"""JSON text never begins with it."""
FORM = b"mse1:"
"""What follows that byte, and the key's id follows it."""
TEXT_PREFIX = "mainspring-encrypted:1:"
ENCRYPTED = "mainspring:encrypted"
"""The parameter of a target that holds what is encrypted of its definition. No option can have that name."""
MISSING_KEY = "mainspring:missing_key"
"""A parameter that is never stored. Of a definition that cannot be read here, it names the key that is missing."""
PLAIN_PARAMS = frozenset({"function", "isolation", "method", "shell"})
"""Parameters of a target that stay plain: a claim goes by the name of a function, the others tell nothing."""
NO_KEYS = "this process has no keys_file: give it the file that the other servers have, and start it again"
UNREADABLE = "cannot be decrypted"
MOST_KEYS = 100
"""Keys that one file may have."""

_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)
_LONGEST_HEAD = 120


@value()
class EncryptionKey:
    """A key with which something was encrypted, as the store knows it.

    Attributes:
        check: tells the right key from another one of the same id, and nothing about the key itself.
        since: when it was first used to write.
    """

    id: str
    check: bytes
    since: datetime


@value()
class KeyUses:
    """How much of a store cannot be read without a key.

    Attributes:
        jobs: those whose newest definition is encrypted with it.
        runs: those that have not ended, and whose payload is.
        dead_runs: dead letters of which anything is.
    """

    jobs: int
    runs: int
    dead_runs: int


@value()
class KeyHeads:
    """What values begin with in the store that are encrypted with one key.

    Attributes:
        data: payloads and results.
        text: errors and outputs.
        definitions: what stands in a definition's JSON text, one of these.
    """

    data: bytes
    text: str
    definitions: tuple[str, ...]


def heads_of(key_id: str) -> KeyHeads:
    """Return what values begin with that are encrypted with a key."""
    head = FORM + key_id.encode() + b":"
    rest = -len(head) % 3  # base64 has one letter more than the head decides, and some are possible
    if rest:
        tails = [bytes([first, 0][:rest]) for first in range(256)]
        texts = {base64.b64encode(head + tail)[: len(head) * 4 // 3 + 1].decode() for tail in tails}
    else:
        texts = {base64.b64encode(head).decode()}
    definitions = tuple(sorted(f'"{ENCRYPTED}":"{text}' for text in texts))
    return KeyHeads(FIRST_BYTE + head, f"{TEXT_PREFIX}{key_id}:", definitions)


def is_key_id(text: str) -> bool:
    """Say whether a text may name a key: up to 32 letters, digits, `-` and `_`, a letter or a digit first."""
    return _KEY_ID.fullmatch(text) is not None


def is_encrypted_bytes(data: bytes | None) -> bool:
    """Say whether a payload or result is a ciphertext."""
    return data is not None and data[:1] == FIRST_BYTE


def is_encrypted_text(text: str | None) -> bool:
    """Say whether an error or output is a ciphertext."""
    return text is not None and text.startswith(TEXT_PREFIX)


def note_hidden(why: str) -> bytes:
    """Return what stands for a payload or result that cannot be decrypted: it counts as encrypted, and says why."""
    return FIRST_BYTE + json.dumps(f"[{UNREADABLE}: {why}]").encode()


def show_hidden(data: bytes) -> bytes:
    """Return the JSON text by which people are told why they cannot see a payload or result."""
    return data[1:] if data[1:2] == b'"' else note_hidden(NO_KEYS)[1:]


def has_encrypted(params: Mapping[str, Any]) -> bool:
    """Say whether a target's parameters hold what is encrypted of its definition."""
    return ENCRYPTED in params


def note_unreadable(params: Mapping[str, Any], why: str, key_id: str | None) -> dict[str, Any]:
    """Return parameters that have, in the place of what is encrypted, why it cannot be read here.

    Args:
        key_id: the key that is missing here; None if that is not why.
    """
    noted = {name: item for name, item in params.items() if name != MISSING_KEY} | {ENCRYPTED: f"[{why}]"}
    return noted if key_id is None else noted | {MISSING_KEY: key_id}


def why_unreadable(params: Mapping[str, Any]) -> tuple[str, bool]:
    """Return why a definition with these parameters cannot be read here, and whether other servers may read it."""
    note = params[ENCRYPTED]
    if isinstance(note, str) and note.startswith("["):  # a ciphertext is base64
        return note[1:-1], MISSING_KEY in params
    return f"it is encrypted; {NO_KEYS}", True


def encrypted_group(error: str) -> str | None:
    """Return the group of an encrypted error, which stands in its head; None if the error is plain.

    It is the same for errors that failed alike and were encrypted with one key, and tells nothing about them.
    """
    if not error.startswith(TEXT_PREFIX):
        return None
    key_id, _, rest = error[len(TEXT_PREFIX) :][:_LONGEST_HEAD].partition(":")
    mark, colon, _ = rest.partition(":")
    return f"encrypted with {key_id}: {mark}" if colon and mark else "encrypted"
