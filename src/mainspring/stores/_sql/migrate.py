"""Which migrations a database still needs (the runners are the dialects')."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from mainspring.errors import SchemaMismatch

_FILE = re.compile(r"^(\d{4})_([a-z_]+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step forward, applied in a transaction with its row in the table `migration`."""

    number: int
    name: str
    text: str
    checksum: str


def read_migrations(package: str) -> tuple[Migration, ...]:
    """Return the migrations in a package's folder `migrations`, in order."""
    found = []
    for file in (files(package) / "migrations").iterdir():
        match = _FILE.match(file.name)
        if match:
            text = file.read_text(encoding="utf-8")
            checksum = hashlib.sha256(text.encode()).hexdigest()
            found.append(Migration(int(match.group(1)), match.group(2), text, checksum))
    return tuple(sorted(found, key=lambda migration: migration.number))


def pending(applied: Mapping[int, str], available: Sequence[Migration]) -> list[Migration]:
    """Return what is still to be applied.

    Args:
        applied: checksums by number, from the table `migration`.
        available: what this program has.

    Raises:
        SchemaMismatch: the database is newer than this program, a migration was altered after it was applied, or the
            database lacks one that came before those it has.
    """
    known = {migration.number: migration for migration in available}
    newer = sorted(set(applied) - set(known))
    if newer:
        last = max(known, default=0)
        message = (
            f"the store has migration {newer[-1]:04}, this program ends at {last:04}; upgrade the program"
        )
        raise SchemaMismatch(message)
    for number, checksum in applied.items():
        if known[number].checksum != checksum:
            raise SchemaMismatch(
                f"migration {number:04}_{known[number].name} was altered after it was applied here"
            )
    missing = [migration for migration in available if migration.number not in applied]
    if missing and applied and missing[0].number < max(applied):
        raise SchemaMismatch(
            f"the store's schema has migration {max(applied):04} but not {missing[0].number:04}; restore the"
            " table `migration`, or start with an empty database"
        )
    return missing
