"""The settings that say how long things are kept."""

from __future__ import annotations

from datetime import timedelta

from mainspring.config.setting import SERVER, UP, Setting
from mainspring.core.times import Duration

_HOSTS = (UP, SERVER)
_DAY = timedelta(days=1)
_YEARS = 3650 * _DAY

KEEP_SETTINGS = (
    Setting(
        name="history.keep",
        kind=Duration(timedelta(minutes=1), _YEARS),
        default=30 * _DAY,
        field="history",
        used_by=_HOSTS,
        words="How long finished runs are kept. Failed ones stay among the dead letters.",
    ),
    Setting(
        name="dead.keep_settled",
        kind=Duration(timedelta(minutes=1), _YEARS),
        default=30 * _DAY,
        field="keep_settled",
        used_by=_HOSTS,
        words="How long dead letters are kept after they were redriven or discarded. Open ones stay.",
    ),
    Setting(
        name="audit.keep",
        kind=Duration(_DAY, _YEARS),
        default=400 * _DAY,
        field="keep_audit",
        used_by=_HOSTS,
        words="How long it is kept who changed what.",
    ),
    Setting(
        name="usage.keep_minutes",
        kind=Duration(6 * timedelta(hours=1), _YEARS),
        default=7 * _DAY,
        field="keep_usage_minutes",
        used_by=_HOSTS,
        words="How long it is kept by the minute what became of runs.",
    ),
    Setting(
        name="usage.keep_hours",
        kind=Duration(_DAY, _YEARS),
        default=400 * _DAY,
        field="keep_usage_hours",
        used_by=_HOSTS,
        words="How long it is kept by the hour what became of runs.",
    ),
    Setting(
        name="run_logs.keep",
        kind=Duration(_DAY, _YEARS),
        default=7 * _DAY,
        field="keep_run_logs",
        used_by=_HOSTS,
        words="How long it is kept what runs wrote while they ran. The end of their output stays with the run.",
    ),
    Setting(
        name="events.keep",
        kind=Duration(timedelta(minutes=1), 365 * _DAY),
        default=7 * _DAY,
        field="keep_events",
        words="How long events are kept, and their ids remembered.",
    ),
    Setting(
        name="sessions.keep",
        kind=Duration(timedelta(minutes=1), _YEARS),
        default=_DAY,
        field="keep_sessions",
        used_by=_HOSTS,
        words="How long the sessions of stopped workers are kept.",
    ),
    Setting(
        name="idempotency.keep",
        kind=Duration(timedelta(minutes=1), 365 * _DAY),
        default=_DAY,
        field="keep_keys",
        words="How long an idempotency key is remembered: until then the same key gives the same run.",
    ),
)
