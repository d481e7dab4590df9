"""The worker: claims leases, carries them out, sends heartbeats and reports how attempts ended.

It knows ports and core only; the engine is behind the port `WorkerGateway`.
"""

from __future__ import annotations

from mainspring.worker.settings import WorkerCounters, WorkerSettings, WorkerWaiters
from mainspring.worker.worker import Worker

__all__ = ["Worker", "WorkerCounters", "WorkerSettings", "WorkerWaiters"]
