"""What carries out attempts: registered functions, commands, HTTP calls."""

from mainspring.executors.function import FunctionExecutor

__all__ = ["FunctionExecutor"]
