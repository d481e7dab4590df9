"""The HTTP API: Starlette over the engine's use cases."""

from mainspring.api.app import Api, create_api

__all__ = ["Api", "create_api"]
