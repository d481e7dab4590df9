"""AES-256-GCM with the keys of a file. It needs the extra `crypto`.

No key encrypts by itself. Each process draws a salt, and derives a key of its own from the file's key and the salt,
which stands in the head of all that it encrypts. So the bound on how much one key may encrypt under nonces drawn at
random holds for a process, not for the cluster.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hmac import digest as hmac_digest
from typing import TYPE_CHECKING

from mainspring.core.ciphertexts import FIRST_BYTE, FORM, TEXT_PREFIX
from mainspring.encryption.keys import Keys, check_of, derive_key
from mainspring.errors import CannotDecrypt, MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12
_SALT = 16
_TAG = 16
_MOST_MESSAGES = 2**31
"""What one salt encrypts. With nonces drawn at random, 2**32 are the bound of NIST SP 800-38D."""
_KNOWN_SALTS = 4096
_GROUP_DIGITS = 24


class Cipher:
    """Encrypts with the current key, and decrypts with all.

    `context` is what a ciphertext belongs to. With another one it does not decrypt.

    Raises:
        MissingExtra: `cryptography` is not installed.
    """

    def __init__(self, keys: Keys) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise MissingExtra("keys_file", "crypto") from None
        self._keys = keys
        self._tampered: type[Exception] = InvalidTag

        @lru_cache(maxsize=_KNOWN_SALTS)
        def derive(key_id: str, salt: bytes) -> AESGCM:
            return AESGCM(derive_key(keys.by_id[key_id], b"encrypt", salt))

        self._derive = derive
        self._group_key = derive_key(keys.by_id[keys.current], b"group")
        others = [key for key_id, key in keys.by_id.items() if key_id != keys.current]
        self._request_keys = [derive_key(key, b"request") for key in (keys.by_id[keys.current], *others)]
        self._head, self._aead, self._left = self._draw()

    @property
    def current(self) -> str:
        """The id of the key that encrypts."""
        return self._keys.current

    def check_of(self, key_id: str) -> bytes | None:
        """Return what tells a key from another one of its id; None if this process has no such key."""
        key = self._keys.by_id.get(key_id)
        return None if key is None else check_of(key)

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Return a ciphertext; its head names the key."""
        if not self._left:
            self._head, self._aead, self._left = self._draw()
        self._left -= 1
        nonce = os.urandom(_NONCE)
        return b"".join((self._head, nonce, self._aead.encrypt(nonce, plain, self._head + context)))

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """Return what was encrypted.

        Raises:
            CannotDecrypt: the key is missing here, or this is not what was encrypted for this context.
        """
        begin = len(FIRST_BYTE + FORM)
        end = data.find(b":", begin, begin + 40)
        start = end + 1 + _SALT
        if not data.startswith(FIRST_BYTE + FORM) or end < 0 or len(data) < start + _NONCE + _TAG:
            raise CannotDecrypt("it is in a form that this release does not know, or is cut off")
        key_id = data[begin:end].decode("ascii", "replace")
        if key_id not in self._keys.by_id:
            message = (
                f"it is encrypted with the key {key_id!r}, which is not in the keys_file of this process"
            )
            raise CannotDecrypt(message, key_id=key_id)
        head, nonce = data[:start], data[start : start + _NONCE]
        aead = self._derive(key_id, data[end + 1 : start])
        try:
            return aead.decrypt(nonce, data[start + _NONCE :], head + context)
        except self._tampered:
            message = (
                f"it was changed in the store, or belongs to something else (key {key_id!r}); it is not used"
            )
            raise CannotDecrypt(message) from None

    def mark_group(self, group: str, context: bytes) -> str:
        """Return a mark that errors of one group have in common, and from which the group cannot be found out."""
        return hmac_digest(self._group_key, context + group.encode(), "sha256").hex()[:_GROUP_DIGITS]

    def mark_request(self, digest: bytes, context: bytes) -> tuple[bytes, ...]:
        """Return keyed digests of a request, from which it cannot be guessed: by the current key, then by the others.

        So a request that was marked before a change of the key is known again.
        """
        return tuple(hmac_digest(key, context + digest, "sha256") for key in self._request_keys)

    def text_head(self, mark: str) -> str:
        """Return the head of a text's ciphertext."""
        return f"{TEXT_PREFIX}{self._keys.current}:{mark}:"

    def _draw(self) -> tuple[bytes, AESGCM, int]:
        """Draw a salt; return the head that names it, what encrypts under it, and for how many messages."""
        salt = os.urandom(_SALT)
        head = b"".join((FIRST_BYTE, FORM, self._keys.current.encode(), b":", salt))
        return head, self._derive(self._keys.current, salt), _MOST_MESSAGES
