"""Finds out which version of the time zone data this process plans with."""

from __future__ import annotations

import zoneinfo
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def tzdata_version() -> str:
    """Return the version of the zone data in use, like `2026a`.

    The system's data comes first, then the package's, as in zoneinfo. Nodes with different versions could plan
    different fires (rule V 5).
    """
    for folder in zoneinfo.TZPATH:
        found = _first_line(Path(folder, "tzdata.zi"))
        if found.startswith("# version "):
            return found.removeprefix("# version ")
        if _first_line(Path(folder, "UTC")):
            return _first_line(Path(folder, "+VERSION")) or "system"
    try:
        year, _, number = version("tzdata").partition(".")
    except PackageNotFoundError:
        return "none"
    return year + chr(ord("a") - 1 + int(number.partition(".")[0]))  # the package's 2026.2 is 2026b


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="latin-1") as file:
            return file.readline(80).strip()
    except OSError:
        return ""
