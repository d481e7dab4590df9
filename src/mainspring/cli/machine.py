"""What the machine says of itself."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

_ZONES = "zoneinfo/"


def machine_zone(folder: Path = Path("/etc")) -> str | None:
    """Return the name of the zone in which the machine's cron reads its times; None if it has no name.

    Args:
        folder: where the machine keeps its settings.
    """
    link = folder / "localtime"
    try:
        if link.is_symlink():
            _, found, name = str(link.readlink()).partition(_ZONES)
            if found and _is_zone(name):
                return name
        name = (folder / "timezone").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None if link.exists() else "UTC"  # without a file of its own, a machine is in UTC
    return name if _is_zone(name) else None


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        return False
    return True
