"""What a store may know of the task that calls it."""

from __future__ import annotations

from contextvars import ContextVar

outlives_callers: ContextVar[bool] = ContextVar("outlives_callers", default=False)
"""Whether the calling task carries out calls for others, so that nobody cancels it.

A store need not protect such a call from its caller's cancellation, which would take a task of its own.
"""
