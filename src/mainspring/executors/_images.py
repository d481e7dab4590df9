"""What a job may ask of a worker that runs containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from mainspring.errors import InvalidInput

N = TypeVar("N", int, float)


def check_image(image: str, allowed: Sequence[str], setting: str) -> None:
    """Refuse an image that the settings do not name.

    Raises:
        InvalidInput: it is not among them.
    """
    for entry in allowed:
        if image == entry or (entry.endswith("*") and image.startswith(entry[:-1])):
            return
    message = f"{image[:200]!r} is not on this worker's list of images, {setting}"
    raise InvalidInput("target.image", message)


def check_limit(asked: N | None, most: N, name: str, setting: str) -> N:
    """Return how much of something a container gets.

    Raises:
        InvalidInput: the job asks for more than the worker gives.
    """
    if asked is not None and asked > most:
        raise InvalidInput(
            f"target.{name}", f"asks for {asked:g}; this worker gives at most {most:g}, see {setting}"
        )
    return most if asked is None else asked
