"""Older and newer code to run beside the code under test, each in a folder that goes into PYTHONPATH.

- `unpack_baseline`: the oldest version that today's promises hold for, packed in this folder, so that a real older
  version is there wherever the tests are, with a history or without.
- `unpack_release_before`: the last release's code, packed likewise. Its data must be brought along, even where its
  programs cannot work on today's schema.
- `extract_previous`: the newest commit before the one under test, where git has it.
- `make_successor`: the code under test with one migration more, which declares itself compatible, or does not.
"""

from __future__ import annotations

import argparse
import io
import lzma
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from mainspring.stores._sql.migrate import read_migrations

ROOT = Path(__file__).resolve().parents[2]
BASELINE_FOLDER = Path(__file__).parent / "baseline"
BEFORE_FOLDER = Path(__file__).parent / "before"
SOURCE = "src/mainspring"
DIALECTS = ("postgres", "sqlite")
SUCCESSOR = 9999
_MIGRATION = re.compile(r"/postgres/migrations/(\d{4})_")
NEWEST = read_migrations("mainspring.stores.sqlite")[-1].number
# What a release may do to tables that older programs use: only add, and nothing that they would have to fill in.
_EXPANSION = {
    "postgres": """
ALTER TABLE run ADD COLUMN later text;
ALTER TABLE job ADD COLUMN later bigint NOT NULL DEFAULT 7;
ALTER TABLE session ADD COLUMN later jsonb;
ALTER TABLE run_history ADD COLUMN later text;
CREATE TABLE later (id bigint PRIMARY KEY, run_id bigint);
CREATE INDEX job_later ON job (later);
""",
    "sqlite": """
ALTER TABLE run ADD COLUMN later TEXT;
ALTER TABLE job ADD COLUMN later INTEGER NOT NULL DEFAULT 7;
ALTER TABLE session ADD COLUMN later TEXT;
ALTER TABLE run_history ADD COLUMN later TEXT;
CREATE TABLE later (id INTEGER PRIMARY KEY, run_id INTEGER) STRICT;
CREATE INDEX job_later ON job (later);
""",
}


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the product.

    Attributes:
        name: what a report calls it.
        python_path: where its code lies; None is the code under test.
    """

    name: str
    python_path: Path | None


def baseline_pack() -> Path:
    """Return the packed baseline; its name is the commit's."""
    return _only_pack(BASELINE_FOLDER)


def release_before_pack() -> Path:
    """Return the packed release before; its name is the commit's."""
    return _only_pack(BEFORE_FOLDER)


def _only_pack(folder: Path) -> Path:
    (pack,) = folder.glob("*.tar.xz")
    return pack


def unpack_baseline(folder: Path) -> Version:
    """Unpack the baseline into a folder."""
    return _unpack(baseline_pack(), folder, kind="baseline")


def unpack_release_before(folder: Path) -> Version:
    """Unpack the release before into a folder."""
    return _unpack(release_before_pack(), folder, kind="release before")


def _unpack(pack: Path, folder: Path, *, kind: str) -> Version:
    with tarfile.open(pack, "r:xz") as archive:
        archive.extractall(folder, filter="data")
    return Version(f"{kind} {pack.name.partition('.')[0]}", folder / "src")


def pack_commit(expression: str, folder: Path) -> Path:
    """Pack a commit into a folder, in place of the pack that was there.

    Args:
        expression: names the commit as git does, like `HEAD`.

    Raises:
        RuntimeError: there is no such commit here.
    """
    commit = find_commit(expression)
    if commit is None:
        raise RuntimeError(f"there is no commit {expression} here")
    folder.mkdir(exist_ok=True)
    for pack in folder.glob("*.tar.xz"):
        pack.unlink()
    target = folder / f"{commit[:7]}.tar.xz"
    target.write_bytes(lzma.compress(archive_commit(commit), preset=9 | lzma.PRESET_EXTREME))
    return target


def find_commit(expression: str) -> str | None:
    """Return the id of a commit whose files are here; None where there is no history, or it does not reach so far."""
    # Whoever runs the tests may not be who owns the folder.
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "rev-parse",
        "--verify",
        "--quiet",
        f"{expression}^{{commit}}",
    ]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None


def archive_commit(commit: str) -> bytes:
    """Return a commit's package as a tar file."""
    command = ["git", "-c", "safe.directory=*", "archive", "--format=tar", commit, SOURCE]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout


def find_previous() -> tuple[str | None, str]:
    """Return the commit before the newest one, if it can work on today's schema, and what to say of it."""
    commit = find_commit("HEAD~1")
    if commit is None:
        return None, "no history reaches back to it; the baseline stands for it"
    with tarfile.open(fileobj=io.BytesIO(archive_commit(commit))) as archive:
        names = archive.getnames()
        rule = archive.extractfile(f"{SOURCE}/stores/_sql/migrate.py")
        if rule is None or b"compatible_from" not in rule.read():
            return None, f"commit {commit[:9]} knows no compatible schemas; the baseline stands for it"
    newest = max(int(match[1]) for name in names if (match := _MIGRATION.search(name)))
    if newest < oldest_compatible(newest):
        return None, f"commit {commit[:9]} cannot work on this schema; the baseline stands for it"
    return commit, f"commit {commit[:9]}"


def describe_older() -> str:
    """Say which older versions the tests have."""
    return f"baseline {baseline_pack().name.partition('.')[0]}; previous {find_previous()[1]}"


def oldest_compatible(newest: int) -> int:
    """Return at which migration a program would have to end to work on today's schema, if it ends at `newest`."""
    migrations = read_migrations("mainspring.stores.postgres")
    return max((each.compatible_from for each in migrations if each.number > newest), default=0)


def oldest_that_works() -> int:
    """Return at which migration the oldest program ends that can work on today's schema."""
    return next(number for number in range(1, NEWEST + 1) if oldest_compatible(number) <= number)


def newest_migration(version: Version) -> int:
    """Return at which migration an older version's program ends."""
    assert version.python_path is not None
    names = (version.python_path / "mainspring/stores/postgres/migrations").glob("*.sql")
    return max(int(path.name[:4]) for path in names)


def extract_previous(folder: Path) -> Version:
    """Extract the commit before the newest one, or, where `find_previous` has none, the baseline."""
    commit, _ = find_previous()
    if commit is None:
        return unpack_baseline(folder)
    with tarfile.open(fileobj=io.BytesIO(archive_commit(commit))) as archive:
        archive.extractall(folder, filter="data")
    return Version(f"previous {commit[:9]}", folder / "src")


def make_successor(folder: Path, *, compatible_from: int | None) -> Version:
    """Make the next version of the code under test: its schema has one migration more.

    Args:
        compatible_from: what that migration declares; None is nothing.
    """
    target = folder / "src" / "mainspring"
    shutil.copytree(ROOT / SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    declaration = "" if compatible_from is None else f"-- compatible_from: {compatible_from:04}\n"
    for dialect in DIALECTS:
        file = target / "stores" / dialect / "migrations" / f"{SUCCESSOR}_test.sql"
        file.write_text(declaration + _EXPANSION[dialect])
    kind = "breaking" if compatible_from is None else "compatible"
    return Version(f"successor ({kind})", folder / "src")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Pack older code for the tests of upgrades.")
    parser.add_argument("--before", metavar="COMMIT", help="pack the release before, not the baseline")
    before = parser.parse_args().before
    made = pack_commit("HEAD", BASELINE_FOLDER) if before is None else pack_commit(before, BEFORE_FOLDER)
    print(made.relative_to(ROOT))
