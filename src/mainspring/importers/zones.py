"""Names the zones of other tools."""

from __future__ import annotations

from datetime import timedelta, tzinfo

from mainspring.errors import InvalidInput

_HOUR = timedelta(hours=1)


def name_zone(zone: tzinfo) -> str:
    """Return the IANA name of a zone of zoneinfo or pytz, or of a fixed offset in whole hours.

    Raises:
        InvalidInput: it has none.
    """
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(None)
    if offset == timedelta(0):
        return "UTC"
    if offset is not None and offset % _HOUR == timedelta(0) and -12 <= offset // _HOUR <= 14:
        return f"Etc/GMT{-(offset // _HOUR):+d}"  # POSIX has the sign the other way round
    raise InvalidInput("timezone", f"{zone} has no name; give one like Europe/Berlin")
