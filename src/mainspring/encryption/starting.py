"""Sees to it, before anything is read or written, that the keys of this process are those of the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from hmac import compare_digest

import structlog

from mainspring.core.ciphertexts import EncryptionKey
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import SETTING, read_keys
from mainspring.encryption.store import encrypted
from mainspring.errors import InvalidInput
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
_USUAL_PERIOD = timedelta(seconds=1)


async def encrypt_store(store: Store, path: str, *, now: datetime) -> Store:
    """Return what stands for an open store, and encrypts what it is given with the keys of a file.

    Raises:
        InvalidInput: the file cannot be used, a key of the store is not in it or is another one there, or servers
            without keys run on the store.
        MissingExtra: the extra `crypto` is not installed.
    """
    cipher = Cipher(read_keys(path))
    known = await store.list_encryption_keys()
    for key in known:
        _check(key, cipher, path)
    if not known:
        await _refuse_others(store, now)
    current = cipher.check_of(cipher.current)
    assert current is not None, "a file has the key that it writes with"
    await store.add_encryption_key(EncryptionKey(cipher.current, current, now))
    known = await store.list_encryption_keys()  # another process may have begun just now, with other keys
    for key in known:
        _check(key, cipher, path)
    _log.info("encryption_on", key=cipher.current, keys=[key.id for key in known])
    return encrypted(store, cipher)


def _check(key: EncryptionKey, cipher: Cipher, path: str) -> None:
    check = cipher.check_of(key.id)
    if check is None:
        message = (
            f"{path} lacks the key {key.id!r}, with which this store has been encrypted since"
            f" {key.since:%Y-%m-%d}; put it back, below the key that is to write"
        )
        raise InvalidInput(SETTING, message)
    if not compare_digest(check, key.check):
        message = f"the key {key.id!r} of {path} is not the one that this store was encrypted with"
        raise InvalidInput(SETTING, message)


async def _refuse_others(store: Store, now: datetime) -> None:
    """Refuse to begin beside servers that have no keys: they could not run what this process encrypts."""
    if not store.capabilities.concurrent_writers:
        return
    nodes = (await store.read_cluster()).nodes
    alive = [
        node.facts.host for node in nodes if now - node.last_beat_at < 5 * (node.period or _USUAL_PERIOD)
    ]
    if alive:
        message = (
            f"servers run on this store that do not encrypt yet ({', '.join(sorted(set(alive)))});"
            " stop all of them, and then start each with the same file"
        )
        raise InvalidInput(SETTING, message)
