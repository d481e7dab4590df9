"""Files in a folder or in a bucket, by names with slashes. A folder needs no further package."""

from mainspring.objects.places import ObjectPlace, open_place, open_streams, read_place
from mainspring.objects.room import FULL, DiskFull, check_room
from mainspring.objects.store import ObjectMissing, Objects, ObjectsUnavailable
from mainspring.objects.streams import ObjectFacts, ObjectStreams, SignedPut

__all__ = [
    "FULL",
    "DiskFull",
    "ObjectFacts",
    "ObjectMissing",
    "ObjectPlace",
    "ObjectStreams",
    "Objects",
    "ObjectsUnavailable",
    "SignedPut",
    "check_room",
    "open_place",
    "open_streams",
    "read_place",
]
