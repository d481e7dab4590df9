"""`App`: jobs as decorated functions, and the door to the server that carries them out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from mainspring.clock import host_time
from mainspring.errors import InvalidInput, NotFound
from mainspring.registry import FunctionRegistry
from mainspring.sdk.definitions import job_body
from mainspring.sdk.function import NO_PAYLOAD, Function, SubmitOptions
from mainspring.sdk.portal import Portal
from mainspring.sdk.runs import RunHandle

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
DEFAULT_SERVER = "http://127.0.0.1:8620"
_BATCH = 1000
