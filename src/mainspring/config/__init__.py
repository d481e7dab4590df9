"""Settings: one frozen object that checks itself, and the sources of its values."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainspring.config.settings import Settings as Settings
    from mainspring.config.settings import StoreLocation as StoreLocation

__all__ = ["Settings", "StoreLocation"]


def __getattr__(name: str) -> Any:
    # Loaded late: a client command needs only the table of settings, and must start fast.
    if name in __all__:
        return getattr(importlib.import_module("mainspring.config.settings"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
