"""Decides which migrations a database still needs, and whether this program may work on it.

Each dialect has its own runner.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

import structlog

from mainspring.core.values import value
from mainspring.errors import SchemaMismatch

_FILE = re.compile(r"^(\d{4})_([a-z_]+)\.sql$")
_DECLARATION = re.compile(r"^-- *compatible_from *:(.*)$", re.MULTILINE)
_NUMBER = re.compile(r"\d{4}")
ENCRYPTED_SINCE = 44
"""The migration that brought encryption. Once a store is encrypted, no program that lacks it may start on it."""
_log = structlog.get_logger(__name__)


@value()
class Migration:
    """One step forward, applied in a transaction with its row in the table `migration`.

    Attributes:
        compatible_from: the last migration that the oldest program has which still works once this one is applied.
            Its own number if no older program does.
    """

    number: int
    name: str
    text: str
    checksum: str
    compatible_from: int


@value()
class Applied:
    """What a database records about a migration that it has.

    Attributes:
        compatible_from: as in `Migration`; None if the program that applied it did not record it.
    """

    checksum: str
    compatible_from: int | None = None


def read_migrations(package: str) -> tuple[Migration, ...]:
    """Return the migrations in a package's folder `migrations`, in order.

    Raises:
        ValueError: one of them has an impossible declaration.
    """
    found = []
    for file in (files(package) / "migrations").iterdir():
        match = _FILE.match(file.name)
        if match:
            found.append(make_migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.number))


def make_migration(number: int, name: str, text: str) -> Migration:
    """Make a migration from its text. The text may declare which older programs still work: `-- compatible_from:
    0002`.

    Raises:
        ValueError: the declaration is not one earlier number of four digits.
    """
    declared = [said.strip() for said in _DECLARATION.findall(text)]
    compatible_from = number
    if declared:
        is_number = len(declared) == 1 and _NUMBER.fullmatch(declared[0])
        compatible_from = int(declared[0]) if is_number else 0
        if not 1 <= compatible_from < number:
            message = f"migration {number:04}_{name}: compatible_from must be one earlier number like 0001"
            raise ValueError(f"{message}, not {', '.join(declared)}")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return Migration(number, name, text, checksum, compatible_from)


def pending(applied: Mapping[int, Applied], available: Sequence[Migration]) -> list[Migration]:
    """Return the migrations that are still to be applied.

    The program may work on a newer database if it is compatible with every migration that it does not know. So old
    and new programs can share a store during an upgrade.

    Args:
        applied: by number, from the table `migration`.
        available: the migrations of this program.

    Raises:
        SchemaMismatch: the database is newer and not compatible with this program, a migration was altered after it
            was applied, or the database lacks one that comes before those it has.
    """
    known = {migration.number: migration for migration in available}
    last = max(known, default=0)
    newer = sorted(set(applied) - set(known))
    for number in newer:
        _check_agrees(number, applied[number].compatible_from, last=last)
    for number in sorted(set(applied) & set(known)):
        if known[number].checksum != applied[number].checksum:
            raise SchemaMismatch(
                f"migration {number:04}_{known[number].name} was altered after it was applied here"
            )
    missing = [migration for migration in available if migration.number not in applied]
    if missing and applied and missing[0].number < max(applied):
        raise SchemaMismatch(
            f"the store's schema has migration {max(applied):04} but not {missing[0].number:04}; restore the"
            " table `migration`, or start with an empty database"
        )
    if newer:
        _log.info("schema_is_newer", store=newer[-1], program=last)
    return missing


def find_breaking(applied: Mapping[int, Applied], missing: Sequence[Migration]) -> Migration | None:
    """Return the first missing migration that no program running on the present schema is compatible with, if any.

    Args:
        applied: by number; empty if the database is new, so that nothing can be running on it.
        missing: what `pending` returned.
    """
    last = max(applied, default=None)
    if last is None:
        return None
    return next((migration for migration in missing if migration.compatible_from > last), None)


def _check_agrees(number: int, compatible_from: int | None, *, last: int) -> None:
    if compatible_from is not None and compatible_from <= last:
        return
    says = "programs that know it" if compatible_from is None else f"migration {compatible_from:04}"
    raise SchemaMismatch(
        f"the store has migration {number:04}, which works with {says} or later; this program ends at {last:04};"
        " upgrade the program"
    )
