"""The HTTP API: Litestar over the engine's use cases."""

from mainspring.api.app import create_api

__all__ = ["create_api"]
