"""Which version of the time zone data this process plans with."""

from __future__ import annotations

import zoneinfo
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def tzdata_version() -> str:
    """Return the version of the zone data in use, as `2026a`: the system's where there is one, else the package's.

    The order is zoneinfo's own. Nodes that differ in it could plan different fires (rule V 5).
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
    return year + chr(ord("a") - 1 + int(number.partition(".")[0]))  # 2026.2 of the package is 2026b


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="latin-1") as file:
            return file.readline(80).strip()
    except OSError:
        return ""
