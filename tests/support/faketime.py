"""Shifts the wall clock of single processes by libfaketime. The machine's own clock is never touched."""

import os
from pathlib import Path

import pytest

_LIBRARIES = "*/faketime/libfaketime.so.1"
MISSING = "no libfaketime: install Debian's package faketime, or run under scripts/services run as root"


def shifted(seconds: float) -> dict[str, str]:
    """Return what to add to a process's environment so that its wall clock is off by so many seconds.

    Monotonic clocks and the times of files stay true, as they do on a host whose clock is wrong. Skips where the
    library is missing; on CI that is a failure.
    """
    library = next(Path("/usr/lib").glob(_LIBRARIES), None)
    if library is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+f}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
