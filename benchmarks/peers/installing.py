"""How the contestants' programs come into `.cache`, each by its language's own client, pinned with their sums."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.chaos.peers.surroundings import CACHE, make_environment

HERE = Path(__file__).parent
SCRIPTS = ("notes.mjs", "graphile.mjs", "pgboss.mjs")
STAMP = "stamp"
Command = Callable[[], Sequence[str]]
"""Brings a contestant's programs into `.cache`, once, and returns what its script is called with."""


def python(name: str) -> Command:
    """Return what gives the command of a script in Python: NAME_jobs.py, with what NAME.txt pins."""
    return lambda: (str(make_environment(HERE / f"{name}.txt")), "-m", f"benchmarks.peers.{name}_jobs")


def node(script: str) -> Command:
    """Return what gives the command of a script on Node, with what package-lock.json pins."""

    def command() -> Sequence[str]:
        folder = CACHE / "node"
        if not is_fresh(folder, [HERE / "package-lock.json"]):
            print("installing what package-lock.json names", file=sys.stderr, flush=True)
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                (folder / name).write_bytes((HERE / name).read_bytes())
            subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
            set_fresh(folder, [HERE / "package-lock.json"])
        for name in SCRIPTS:  # they find their packages beside them
            (folder / name).write_bytes((HERE / name).read_bytes())
        return (str(folder / "node_modules" / ".bin" / "node"), str(folder / script))

    return command


def go(name: str) -> Command:
    """Return what gives the program of a folder in Go, with what its go.mod and go.sum pin."""

    def command() -> Sequence[str]:
        folder, source = CACHE / name, HERE / name
        program = folder / name
        files = sorted(source.iterdir())
        if not is_fresh(folder, files):
            print(f"building {name} with what its go.mod names", file=sys.stderr, flush=True)
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["go", "build", "-mod=readonly", "-o", str(program), "."], cwd=source, check=True)
            set_fresh(folder, files)
        return (str(program),)

    return command


def java(name: str) -> Command:
    """Return what gives the command of a class in Java, with what pom.xml names and jars.sha256 pins."""

    def command() -> Sequence[str]:
        folder, source = CACHE / "java", HERE / "java"
        jars, classes = folder / "jars", folder / "classes"
        files = sorted(source.iterdir())
        path = f"{jars}/*"
        if not is_fresh(folder, files):
            print("installing what pom.xml names", file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            maven = ["mvn", "-q", "-B", "-f", str(source / "pom.xml")]
            copy = [*maven, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
            subprocess.run(copy, stdout=sys.stderr, check=True)
            check_sums(jars, source / "jars.sha256")
            sources = [str(file) for file in files if file.suffix == ".java"]
            subprocess.run(["javac", "-cp", path, "-d", str(classes), *sources], check=True)
            set_fresh(folder, files)
        path = os.pathsep.join((str(classes), path))
        return ("java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, name)

    return command


def is_fresh(folder: Path, files: Iterable[Path]) -> bool:
    """Say whether what a folder holds was made of these files as they are."""
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text() == _sum_of(files)


def set_fresh(folder: Path, files: Iterable[Path]) -> None:
    """Note that what a folder holds was made of these files as they are."""
    (folder / STAMP).write_text(_sum_of(files))


def check_sums(folder: Path, sums: Path) -> None:
    """See that a folder holds the files that `sums` names, as it names them, and no others.

    Raises:
        RuntimeError: a file is missing, differs or is not named.
    """
    wanted = {name: total for total, name in map(str.split, sums.read_text().splitlines())}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if wrong:
        raise RuntimeError(f"not as {sums.name} says: {', '.join(wrong)}")


def _sum_of(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()
