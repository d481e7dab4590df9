"""The worker: claims leases, executes them, sends heartbeats, and reports how attempts ended.

It knows only ports and core. It reaches the engine through the port `WorkerGateway`.
"""

from __future__ import annotations

from mainspring.worker.settings import WorkerCounters, WorkerSettings, WorkerWaiters
from mainspring.worker.worker import Worker

__all__ = ["Worker", "WorkerCounters", "WorkerSettings", "WorkerWaiters"]
