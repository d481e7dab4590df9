"""Files in a folder or in a bucket of S3, by names with slashes. A folder needs no further package."""

from mainspring.objects.places import ObjectPlace, open_place, read_place
from mainspring.objects.room import FULL, DiskFull, check_room
from mainspring.objects.store import ObjectMissing, Objects, ObjectsUnavailable

__all__ = [
    "FULL",
    "DiskFull",
    "ObjectMissing",
    "ObjectPlace",
    "Objects",
    "ObjectsUnavailable",
    "check_room",
    "open_place",
    "read_place",
]
