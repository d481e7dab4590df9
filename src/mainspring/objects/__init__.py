"""Files in a folder or in a bucket of S3, by names with slashes. A folder needs no further package."""

from mainspring.objects.places import ObjectPlace, open_place, read_place
from mainspring.objects.store import ObjectMissing, Objects, ObjectsUnavailable

__all__ = ["ObjectMissing", "ObjectPlace", "Objects", "ObjectsUnavailable", "open_place", "read_place"]
