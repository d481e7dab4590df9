"""Mainspring, a distributed job scheduler.

`__all__` lists the public names. Each one is loaded on first use.
"""

from __future__ import annotations

import typing as _typing

if _typing.TYPE_CHECKING:
    from mainspring.core.cron import Cron, CronError
    from mainspring.core.model import Priority
    from mainspring.core.states import RunState
    from mainspring.errors import (
        Conflict,
        InvalidInput,
        MainspringError,
        NotFound,
        PayloadTooLarge,
        PluginError,
        ResultLeftOut,
        RunCancelled,
        RunFailed,
        RunSkipped,
        SchemaMismatch,
        StaleLease,
        StoreLocked,
        StoreUnavailable,
        TooMany,
        UnknownType,
        Unreachable,
    )
    from mainspring.sdk.app import App
    from mainspring.sdk.batch import Batch
    from mainspring.sdk.definitions import Limit
    from mainspring.sdk.durable import DurableContext, StepFailed
    from mainspring.sdk.notify import Notify
    from mainspring.sdk.once import Debounce, Throttle, Unique
    from mainspring.sdk.signatures import Canvas, Signature, chain, chord, group
    from mainspring.signals import Call, Done, Failed, FailRun, Outcome, RetryRun, SnoozeRun, current_attempt

    __version__: str

__all__ = [
    "App",
    "Batch",
    "Call",
    "Canvas",
    "Conflict",
    "Cron",
    "CronError",
    "Debounce",
    "Done",
    "DurableContext",
    "FailRun",
    "Failed",
    "InvalidInput",
    "Limit",
    "MainspringError",
    "NotFound",
    "Notify",
    "Outcome",
    "PayloadTooLarge",
    "PluginError",
    "Priority",
    "ResultLeftOut",
    "RetryRun",
    "RunCancelled",
    "RunFailed",
    "RunSkipped",
    "RunState",
    "SchemaMismatch",
    "Signature",
    "SnoozeRun",
    "StaleLease",
    "StepFailed",
    "StoreLocked",
    "StoreUnavailable",
    "Throttle",
    "TooMany",
    "Unique",
    "UnknownType",
    "Unreachable",
    "__version__",
    "chain",
    "chord",
    "current_attempt",
    "group",
]

_HOMES = {
    "App": "mainspring.sdk.app",
    "Batch": "mainspring.sdk.batch",
    "Call": "mainspring.signals",
    "Cron": "mainspring.core.cron",
    "CronError": "mainspring.core.cron",
    "Debounce": "mainspring.sdk.once",
    "Notify": "mainspring.sdk.notify",
    "Done": "mainspring.signals",
    "DurableContext": "mainspring.sdk.durable",
    "StepFailed": "mainspring.sdk.durable",
    "FailRun": "mainspring.signals",
    "Failed": "mainspring.signals",
    "Limit": "mainspring.sdk.definitions",
    "Outcome": "mainspring.signals",
    "Priority": "mainspring.core.model",
    "RetryRun": "mainspring.signals",
    "RunState": "mainspring.core.states",
    "SnoozeRun": "mainspring.signals",
    "Throttle": "mainspring.sdk.once",
    "Unique": "mainspring.sdk.once",
    **dict.fromkeys(("Canvas", "Signature", "chain", "chord", "group"), "mainspring.sdk.signatures"),
    "current_attempt": "mainspring.signals",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'mainspring' has no attribute {name!r}")
    value: object
    if name == "__version__":
        from importlib.metadata import version

        value = version("mainspring")
    else:
        from importlib import import_module

        value = getattr(import_module(_HOMES.get(name, "mainspring.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
