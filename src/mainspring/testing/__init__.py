"""Tests of apps, and fakes, factories and suites for tests of third-party stores and executors.

`mainspring.testing.conformance` needs pytest, so import it separately.
"""

from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import START, IdSequence, at
from mainspring.testing.manual import ManualRuntime, ManualWorker
from mainspring.testing.outside import OutsideCall
from mainspring.testing.records import SeenRun
from mainspring.testing.rehearsal import JobFailed
from mainspring.testing.tester import AppTester, AsyncAppTester

__all__ = [
    "START",
    "AppTester",
    "AsyncAppTester",
    "FakeClock",
    "IdSequence",
    "JobFailed",
    "ManualRuntime",
    "ManualWaiter",
    "ManualWorker",
    "OutsideCall",
    "SeenRun",
    "at",
]
