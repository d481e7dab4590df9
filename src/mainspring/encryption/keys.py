"""The file of keys: one line a key, the first one writes, all of them read."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from hmac import digest as hmac_digest

from mainspring.core.ciphertexts import MOST_KEYS, is_key_id
from mainspring.core.values import value
from mainspring.errors import InvalidInput

SETTING = "keys_file"
SIZE = 32
"""Bytes of a key."""
_LARGEST = 64 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@value()
class Keys:
    """The keys of a process.

    Attributes:
        current: the id of the one that encrypts.
        by_id: all of them. They are not shown.
    """

    current: str
    by_id: Mapping[str, bytes] = field(repr=False)


def make_key(key_id: str) -> str:
    """Make a new key; return its line of the file.

    Raises:
        InvalidInput: the id is no id of a key.
    """
    if not is_key_id(key_id):
        message = "must be 1 to 32 letters, digits, - and _, a letter or a digit first, such as 2026-11"
        raise InvalidInput("id", message)
    return f"{key_id} = {base64.b64encode(os.urandom(SIZE)).decode()}"


def read_keys(path: str) -> Keys:
    """Read a file of keys.

    Raises:
        InvalidInput: it cannot be read, others than its user may read it, or a line of it is wrong. No key is shown.
    """
    return parse_keys(_read_private(path), path)


def parse_keys(text: str, path: str) -> Keys:
    """Read what is in a file of keys.

    Raises:
        InvalidInput: there is no key in it, or a line is wrong.
    """
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, sign, rest = (part.strip() for part in line.partition("="))
        where = f"{path}, line {number}"
        if not sign or not is_key_id(name):
            message = f"{where} is not ID = KEY, such as 2026-11 = …; `mainspring keys new` makes one"
            raise InvalidInput(SETTING, message)
        if name in found:
            raise InvalidInput(SETTING, f"{where} has a second key with the id {name!r}")
        found[name] = _decode(rest.strip("\"'"), where)
    if not found:
        raise InvalidInput(SETTING, f"{path} has no key; `mainspring keys new` makes one")
    if len(found) > MOST_KEYS:
        raise InvalidInput(SETTING, f"{path} has {len(found)} keys; at most {MOST_KEYS}")
    if len(set(found.values())) < len(found):
        raise InvalidInput(SETTING, f"{path} has one key under two ids")
    return Keys(next(iter(found)), found)


def check_of(key: bytes) -> bytes:
    """Return what tells a key from another one of its id, and nothing about the key itself."""
    return derive_key(key, b"check")[:16]


def derive_key(key: bytes, purpose: bytes, salt: bytes = b"") -> bytes:
    """Derive a key of 32 bytes: one block of HKDF-SHA256 (RFC 5869)."""
    extracted = hmac_digest(salt or bytes(sha256().digest_size), key, "sha256")
    return hmac_digest(extracted, b"mainspring " + purpose + b"\x01", "sha256")


def _decode(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != SIZE:  # what is given is not shown: it may be most of a key
        message = (
            f"{where} has no key of {SIZE} bytes in base64 (44 characters); `mainspring keys new` makes one"
        )
        raise InvalidInput(SETTING, message)
    return key


def _read_private(path: str) -> str:
    try:
        # Without waiting for the other end if it is a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise InvalidInput(SETTING, f"{path} cannot be read: {reason}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise InvalidInput(SETTING, f"{path} is not a regular file")
        if mode & _OTHERS:
            raise InvalidInput(SETTING, f"others than its user may use {path}; run chmod 600 {path}")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST:
        raise InvalidInput(SETTING, f"{path} has more than {_LARGEST} bytes; it is no file of keys")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(SETTING, f"{path} is not UTF-8 text") from None
