"""Executors run attempts: registered functions, commands, HTTP calls.

Each class is loaded on first use, so that a worker pays only for what it offers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainspring.executors.container import ContainerExecutor
    from mainspring.executors.function import FunctionExecutor
    from mainspring.executors.grpc import GrpcExecutor
    from mainspring.executors.http import HttpExecutor
    from mainspring.executors.kubernetes import KubernetesExecutor
    from mainspring.executors.shell import ShellExecutor

__all__ = [
    "ContainerExecutor",
    "FunctionExecutor",
    "GrpcExecutor",
    "HttpExecutor",
    "KubernetesExecutor",
    "ShellExecutor",
]

_MODULES = {
    "ContainerExecutor": "container",
    "FunctionExecutor": "function",
    "GrpcExecutor": "grpc",
    "HttpExecutor": "http",
    "KubernetesExecutor": "kubernetes",
    "ShellExecutor": "shell",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
