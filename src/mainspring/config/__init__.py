"""Settings: one frozen object that checks itself."""

from mainspring.config.settings import Settings, StoreLocation

__all__ = ["Settings", "StoreLocation"]
