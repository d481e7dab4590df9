"""The composition root: turns settings into a running server or worker.

It is the only package that knows every back end.
"""

from mainspring.runtime.engines import ClockSampler, make_archive, make_exporter, make_senders, open_engine
from mainspring.runtime.stores import last_migration, make_backups, make_examiner, make_hints, make_store
from mainspring.runtime.vaults import ProcessSecrets, find_unread
from mainspring.runtime.workers import make_worker, run_embedded_worker

__all__ = (
    "ClockSampler",
    "ProcessSecrets",
    "find_unread",
    "last_migration",
    "make_archive",
    "make_backups",
    "make_examiner",
    "make_exporter",
    "make_hints",
    "make_senders",
    "make_store",
    "make_worker",
    "open_engine",
    "run_embedded_worker",
)
