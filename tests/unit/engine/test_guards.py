"""No guard of the engine is off because somebody did not think of it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import pytest

from mainspring.engine.scheduling.shards import Shards
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Janitor
from mainspring.engine.usecases.client import Client
from mainspring.engine.usecases.definitions import Accepted
from mainspring.engine.usecases.jobs import Jobs


@pytest.mark.parametrize(
    ("part", "guard"),
    [
        (Accepted, "check_url"),
        (Jobs, "accepted"),
        (Client, "accepted"),
        (Shards, "settings"),
        (Shards, "host_time"),
        (Janitor, "retention"),
        (Tools, "host_time"),
        (EngineSettings, "shards"),
        (EngineSettings, "retention"),
        (EngineSettings, "accepted"),
    ],
)
def test_a_guard_has_no_default(part: Callable[..., Any], guard: str) -> None:
    assert signature(part).parameters[guard].default is Parameter.empty
