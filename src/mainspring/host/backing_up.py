"""Backs a store up into a file with a manifest beside it, and restores it from there with proof."""

from __future__ import annotations

from datetime import timedelta
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.core.backups import (
    FORMAT,
    BackupManifest,
    FileFacts,
    KeyCheck,
    Proof,
    Restored,
    compare_keys,
    find_differences,
)
from mainspring.errors import InvalidInput
from mainspring.host.backup_files import manifest_of, reserve
from mainspring.host.examining import read_key_checks
from mainspring.host.hosting import make_folder

if TYPE_CHECKING:
    from mainspring.config.settings import StoreLocation


async def back_up(location: StoreLocation, file: Path) -> BackupManifest:
    """Write a backup of a store that may be in use. The file has its name only when it is whole.

    Raises:
        InvalidInput: the file or the store cannot be used.
        Conflict: there is such a file, or another backup writes it.
        StoreUnavailable: the store cannot be copied.
    """
    import mainspring
    from mainspring.runtime import make_backups

    backups = make_backups(location)
    with reserve(file) as reserved:
        saved = await backups.save(reserved.part)
        manifest = BackupManifest(
            form=FORMAT,
            product=mainspring.__version__,
            kind=backups.kind,
            tool=saved.tool,
            taken_at=saved.taken_at,
            file=_read_file_facts(reserved.part),
            store=saved.facts,
        )
        reserved.finish(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    return manifest


async def restore(
    location: StoreLocation,
    file: Path,
    *,
    store_option: str,
    kept: timedelta,
    keep_audit: timedelta,
    keys_file: str | None = None,
) -> tuple[BackupManifest, Restored, Proof, KeyCheck]:
    """Fill an empty store from a backup, and prove that it is what it was.

    Args:
        store_option: the option that names the store, for errors.
        kept: how long ended runs are kept.
        keep_audit: how long entries of the audit are kept.
        keys_file: the file of the keys that servers of this host have; None if there is none.

    Raises:
        InvalidInput: the file, its manifest or the store cannot be used, or the file was changed.
        Conflict: the store is not empty.
        StoreUnavailable, SchemaMismatch: the store cannot be filled or read.
    """
    from mainspring.clock import host_time
    from mainspring.engine.usecases.proving import prove
    from mainspring.plugins import load_plugins
    from mainspring.runtime import make_backups, make_store

    backups = make_backups(location)
    manifest = read_manifest(file, kind=backups.kind)
    make_folder(location, store_option)
    restored = await backups.restore(file, manifest, now=host_time())
    load_plugins()  # before any stored job is read
    store = make_store(location)
    await store.open()
    try:
        proof = await prove(
            store,
            as_of=manifest.taken_at,
            kept=kept,
            keep_audit=keep_audit,
            differences=find_differences(manifest.store, restored.found),
        )
        used = {key.id: key.check for key in await store.list_encryption_keys()}
    finally:
        await store.close()
    return manifest, restored, proof, compare_keys(used, read_key_checks(keys_file) or {})


def read_manifest(file: Path, *, kind: str) -> BackupManifest:
    """Return the manifest beside a backup, if the two belong together and the store can take it.

    Raises:
        InvalidInput: they do not, or it cannot.
    """
    path = manifest_of(file)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=BackupManifest)
        facts = _read_file_facts(file)
    except FileNotFoundError as error:
        raise InvalidInput(
            "file", f"there is no {error.filename}; a backup is a file and its manifest"
        ) from None
    except OSError as error:
        raise InvalidInput("file", f"{error.filename} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise InvalidInput("file", f"{path} is no manifest: {error}") from None
    if manifest.form != FORMAT:
        raise InvalidInput("file", f"{path} is of form {manifest.form}, not {FORMAT}; take a fitting version")
    if manifest.kind != kind:
        raise InvalidInput("store", f"the backup is of a store on {manifest.kind}; this one is on {kind}")
    if facts != manifest.file:
        raise InvalidInput(
            "file",
            f"{file} is not what the manifest says: it has {facts.bytes:,} bytes and the digest"
            f" {facts.sha256[:12]}…, not {manifest.file.bytes:,} and {manifest.file.sha256[:12]}…",
        )
    return manifest


def _read_file_facts(file: Path) -> FileFacts:
    with file.open("rb") as read:
        digest = file_digest(read, "sha256").hexdigest()
        return FileFacts(bytes=read.tell(), sha256=digest)
