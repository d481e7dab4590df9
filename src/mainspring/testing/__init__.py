"""Fakes, factories and suites for our own tests, and for tests of third-party stores and executors.

`mainspring.testing.conformance` needs pytest, so import it separately.
"""

from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import START, IdSequence, at
from mainspring.testing.manual import ManualRuntime, ManualWorker

__all__ = ["START", "FakeClock", "IdSequence", "ManualRuntime", "ManualWaiter", "ManualWorker", "at"]
