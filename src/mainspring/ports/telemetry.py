"""What a process measures about itself: counters, gauges and distributions, read on demand.

Events call nothing. Each source keeps plain numbers of its own, raises them once per batch rather than per run, and
yields them on request. So a process whose numbers nobody reads pays only for the additions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from mainspring.core.usage import BOUNDS
from mainspring.core.values import value

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds for durations in seconds."""
MOST_SERIES = 200
"""Sets of labels of a metric that have values of their own, so that many tenants do not swamp whoever collects them."""
MOST_MEASURED_JOBS = 500
"""Jobs of a process that have figures of their own, among those whose definitions ask for them."""
OTHER = "_other"
LAGS = BOUNDS
"""Upper bounds for what may take up to hours, in seconds."""
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Upper bounds for numbers of items."""


class MetricKind(StrEnum):
    """What kind of number a metric is."""

    COUNTER = "counter"
    """Only rises, from 0 at the start of the process."""
    GAUGE = "gauge"
    """The value at this moment."""
    DISTRIBUTION = "distribution"
    """How many values were at or below each bound, and their sum, since the start of the process."""


@value()
class Metric:
    """What a number means.

    Attributes:
        words: its description, for the reference page and for exporters.
        labels: names of its labels; each has few values, never a run, worker or error text, and a job only where its
            definition asks for it.
    """

    name: str
    kind: MetricKind
    words: str
    labels: tuple[str, ...] = ()


_COUNTER, _GAUGE, _DISTRIBUTION = MetricKind

METRICS = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("reports_stale_total", _COUNTER, "Reports refused because the run had moved on."),
            Metric(
                "run_log_bytes_total",
                _COUNTER,
                "Bytes of what runs under way have written, before they are deflated.",
            ),
            Metric(
                "run_logs_stale_total",
                _COUNTER,
                "Output refused because the worker did not hold the lease any more.",
            ),
            Metric("attempts_preempted_total", _COUNTER, "Attempts that were stopped for more urgent work."),
            Metric("leases_released_total", _COUNTER, "Leases taken back because no worker knew them."),
            Metric("sessions_lost_total", _COUNTER, "Worker sessions declared dead by this process."),
            Metric(
                "attempts_taken_back_total",
                _COUNTER,
                "Attempts ended by this process: their session was lost, or their deadline had passed.",
                ("reason",),
            ),
            Metric(
                "runs_submitted_total",
                _COUNTER,
                "Runs that this process has stored: fired, submitted or repeated, by kind.",
                ("tenant", "queue", "kind"),
            ),
            Metric(
                "runs_skipped_total",
                _COUNTER,
                "Runs recorded as skipped, by why. Fires in a row that share a record count as one.",
                ("reason",),
            ),
            Metric(
                "events_received_total",
                _COUNTER,
                "Events that were sent to this process, by what became of them.",
                ("status",),
            ),
            Metric(
                "run_start_lag_seconds",
                _DISTRIBUTION,
                "How long after it was due a run was given to a worker for the first time.",
                ("tenant", "queue", "priority"),
            ),
            Metric(
                "attempt_duration_seconds",
                _DISTRIBUTION,
                "How long an attempt took, from when it was given to a worker until its report was stored.",
                ("tenant", "queue", "type"),
            ),
            Metric(
                "attempts_total",
                _COUNTER,
                "Attempts whose reports this process has stored, by how they ended.",
                ("tenant", "queue", "type", "outcome"),
            ),
            Metric(
                "runs_ended_total",
                _COUNTER,
                "Runs that ended with an attempt whose report this process has stored, or that it took back.",
                ("tenant", "queue", "type", "state"),
            ),
            Metric(
                "job_runs_total",
                _COUNTER,
                "Runs of jobs with `metrics` that have ended, as `runs_ended_total` counts them.",
                ("tenant", "job_name", "state"),
            ),
            Metric(
                "job_last_success_timestamp_seconds",
                _GAUGE,
                "When a run of a job with `metrics` last succeeded, in seconds since 1970; none until this process "
                "has seen one.",
                ("tenant", "job_name"),
            ),
            Metric("claims_waiting", _GAUGE, "Requests for work that wait for a run."),
            Metric(
                "runs_submitted_claimed_total",
                _COUNTER,
                "Runs that were submitted straight to a waiting worker.",
            ),
            Metric(
                "submissions_held_back_total",
                _COUNTER,
                "Submissions that made no run, by what their job's rule made of them.",
                ("status",),
            ),
            Metric(
                "submissions_refused_total",
                _COUNTER,
                "Submissions that were refused for the time being, by what was full or used up.",
                ("reason",),
            ),
            Metric(
                "fires_total",
                _COUNTER,
                "Fires that this process planned: stored, lost to another change, or refused for its shards.",
                ("outcome",),
            ),
            Metric("fire_lag_seconds", _DISTRIBUTION, "How long after it was due a fire was stored."),
            Metric("flows_started_total", _COUNTER, "Runs of workflows whose steps this process began."),
            Metric(
                "flow_turns_total",
                _COUNTER,
                "Turns of workflows that this process took: stored, lost to another turn, or refused for its shards.",
                ("outcome",),
            ),
            Metric(
                "flows_unreadable",
                _GAUGE,
                "Runs of workflows in shards of this process that it may not decide about, and leaves as they are.",
            ),
            Metric(
                "flows_untold_total",
                _COUNTER,
                "Runs of workflows that the check of each minute told of steps that had ended.",
            ),
            Metric("shards_owned", _GAUGE, "Shards that this process schedules."),
            Metric("shards_taken_total", _COUNTER, "Shards taken."),
            Metric("shards_released_total", _COUNTER, "Shards given up to a living server."),
            Metric("shards_fenced_total", _COUNTER, "Shards that a refused write showed to be lost."),
            Metric("servers_alive", _GAUGE, "Servers alive that schedule, this one among them."),
            Metric("clock_skew_seconds", _GAUGE, "How far the host's clock is ahead of the store's."),
            Metric(
                "store_call_seconds",
                _DISTRIBUTION,
                "Time that calls of the store took, with their wait for a connection, by how they ended.",
                ("verb", "outcome"),
            ),
            Metric("store_failovers_total", _COUNTER, "Failovers of the database that were noticed."),
            Metric(
                "group_commit_items",
                _DISTRIBUTION,
                "Items that went to the store together in one call; of `sqlite`, calls in one commit.",
                ("verb",),
            ),
            Metric("hints_sent_total", _COUNTER, "Hints sent to other processes.", ("hint",)),
            Metric("hints_heard_total", _COUNTER, "Hints heard from other processes.", ("hint",)),
            Metric("service_tick_seconds", _DISTRIBUTION, "Time that a service's ticks took.", ("service",)),
            Metric("archive_rows_total", _COUNTER, "Rows of the history that were written into the archive."),
            Metric("archive_bytes_total", _COUNTER, "Bytes of the files that were written into the archive."),
            Metric(
                "archive_failures_total",
                _COUNTER,
                "Steps of writing the archive that failed: it was away, a disk was full, or it held something else.",
                ("reason",),
            ),
            Metric(
                "archive_waiting_seconds",
                _GAUGE,
                "How long the oldest day of the history waits to be written into the archive; 0 if none does.",
            ),
            Metric("service_failures_total", _COUNTER, "Ticks of a service that failed.", ("service",)),
            Metric(
                "queue_runs",
                _GAUGE,
                "Live runs of the cluster, as its last census counted them; of one server only.",
                ("tenant", "queue", "state"),
            ),
            Metric(
                "queue_oldest_seconds",
                _GAUGE,
                "How long the run has been ready that has waited longest, at the last census; of one server only.",
                ("tenant", "queue"),
            ),
            Metric(
                "dead_runs",
                _GAUGE,
                "Dead letters that are open, as the last census counted them; of one server only.",
                ("tenant", "queue"),
            ),
            Metric(
                "clocks_overdue",
                _GAUGE,
                "Jobs whose fire was over a minute late, and not stored, at the last census; of one server only.",
            ),
            Metric(
                "alerts_firing",
                _GAUGE,
                "Alerts that fire, by the rule that found them; of one server only.",
                ("rule",),
            ),
            Metric(
                "monitor_up",
                _GAUGE,
                "1 while the job that a monitor watches does what it should, 0 when it is late or has failed; of one "
                "server only.",
                ("tenant", "monitor"),
            ),
            Metric(
                "notifications_total",
                _COUNTER,
                "Messages of alerts that this server delivered, is to try again, or gave up.",
                ("outcome",),
            ),
            Metric(
                "watchdog_pings_total",
                _COUNTER,
                "Pings of the monitor elsewhere that watches the watchdog: they arrived, or failed.",
                ("outcome",),
            ),
            Metric(
                "ledger_missing",
                _GAUGE,
                "Fires without a record, by the last daily check; of one server only.",
            ),
            Metric(
                "ledger_surplus", _GAUGE, "Records that no fire explains, by that check; of one server only."
            ),
            Metric(
                "census_age_seconds", _GAUGE, "How long ago the last census was taken; of one server only."
            ),
            Metric(
                "spans_total",
                _COUNTER,
                "Spans of traced runs: sent to the collector, dropped while too many waited, or not taken by it.",
                ("outcome",),
            ),
            Metric(
                "traces_broken_total",
                _COUNTER,
                "Traces that were not passed on, because OpenTelemetry failed: the caller's span was to be read, or an "
                "attempt's attached.",
                ("step",),
            ),
            Metric(
                "http_request_seconds",
                _DISTRIBUTION,
                "Time that requests took until their answer was sent; of a claim, with its wait.",
                ("operation", "status"),
            ),
            Metric(
                "requests_denied_total",
                _COUNTER,
                "Requests that were denied for their address, token or rate, or because their caller lacks the right.",
                ("reason",),
            ),
            Metric("build_info", _GAUGE, "Always 1; the release is in its label.", ("version",)),
            Metric(
                "worker_reports_total",
                _COUNTER,
                "Attempts that a worker reported: applied, stale, or handed back.",
                ("outcome",),
            ),
            Metric(
                "worker_attempts_dropped_total", _COUNTER, "Attempts given up because the lease was lost."
            ),
            Metric(
                "worker_held",
                _GAUGE,
                "Leases that the worker holds: under way, waiting for a slot, or ended and unreported.",
            ),
            Metric("worker_prefetched", _GAUGE, "Leases that wait in the worker for a slot."),
            Metric(
                "worker_active", _GAUGE, "Attempts under way in the worker; those of one batch share a slot."
            ),
            Metric("worker_unreported", _GAUGE, "Attempts that have ended and are not reported yet."),
            Metric("worker_slots", _GAUGE, "Slots of the worker."),
            Metric("worker_slots_used", _GAUGE, "Slots in which attempts are under way."),
            Metric(
                "loop_lag_seconds",
                _DISTRIBUTION,
                "How late the event loop of the process woke up, looked at each second.",
            ),
            Metric(
                "loops_stalled_total", _COUNTER, "Event loops that a job blocked, and that were replaced."
            ),
            Metric(
                "vault_failures_total",
                _COUNTER,
                "Secrets in Vault that could not be read, each time, by the reason.",
                ("reason",),
            ),
            Metric("functions_abandoned_total", _COUNTER, "Functions left running after their time was up."),
        )
    }
)
"""All metrics by name. Exporters put `mainspring_` before the name."""


@value()
class Spread:
    """What a distribution has seen.

    Attributes:
        bounds: upper bounds, ascending.
        counts: how many values were at or below each bound and above the one before; a last one for those above all
            bounds.
        total: the sum of all values.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    @property
    def cumulated(self) -> tuple[int, ...]:
        """How many values were at or below each bound; the last number is of all values."""
        return tuple(accumulate(self.counts))

    def __add__(self, other: Spread) -> Spread:
        """Add two spreads that have the same bounds."""
        counts = (mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Spread(self.bounds, tuple(counts), self.total + other.total)


class Distribution:
    """Counts values by bounds. Only one thread may write. Add once per batch, not per run."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Count a value, once or several times."""
        self._counts[bisect_left(self._bounds, value)] += count
        self._total += value * count

    def add_all(self, values: list[float]) -> None:
        """Count many values, and sort them for that."""
        if len(values) == 1:
            self.add(values[0])
            return
        values.sort()
        below = 0
        for place, bound in enumerate(self._bounds):
            if below == len(values):
                break
            upto = bisect_right(values, bound, below)
            self._counts[place] += upto - below
            below = upto
        self._counts[-1] += len(values) - below
        self._total += sum(values)

    def read(self) -> Spread:
        """Return what was counted so far."""
        return Spread(self._bounds, tuple(self._counts), self._total)


@value()
class Measure:
    """A metric's value at the moment.

    Attributes:
        name: one of `METRICS`.
        labels: the values of the metric's labels, in their order.
    """

    name: str
    value: float | Spread
    labels: tuple[str, ...] = ()


def keep_largest(
    values: Mapping[tuple[str, ...], float], join: Callable[[Iterable[float]], float]
) -> dict[tuple[str, ...], float]:
    """Return the largest `MOST_SERIES` values by their labels, and what the others come to under the labels `_other`.

    Args:
        join: makes one value of those of all others: `sum` or `max`.
    """
    if len(values) <= MOST_SERIES:
        return dict(values)
    ranked = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ranked[:MOST_SERIES])
    others = (OTHER,) * len(ranked[0][0])
    return {**kept, others: join(value for _, value in ranked[MOST_SERIES:])}


@runtime_checkable
class Source(Protocol):
    """Anything that counts."""

    def measures(self) -> Iterable[Measure]:
        """Yield what was counted. Do not wait, and change nothing."""
        ...


class Telemetry:
    """Everything that a process counts, in one place.

    If sources yield the same metric with the same labels (two workers in one process), their values are added up.
    """

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def watch(self, source: Source) -> None:
        """Include a source from now on."""
        self._sources.append(source)

    def forget(self, source: Source) -> None:
        """Leave a source out from now on. What it counted is gone with it."""
        self._sources.remove(source)

    def snapshot(self) -> tuple[Measure, ...]:
        """Return all current values, ordered by name and labels."""
        found: dict[tuple[str, tuple[str, ...]], float | Spread] = {}
        for source in self._sources:
            for measure in source.measures():
                key = measure.name, measure.labels
                found[key] = _add(found[key], measure.value) if key in found else measure.value
        return tuple(Measure(name, found[name, labels], labels) for name, labels in sorted(found))

    def figures(self) -> dict[str, float]:
        """Return everything that names no tenant as plain numbers, by `name` or `name.label`.

        A distribution becomes its count and its sum.
        """
        return dict(
            figure
            for measure in self.snapshot()
            if "tenant" not in METRICS[measure.name].labels
            for figure in _flatten(measure)
        )


def _add(one: float | Spread, other: float | Spread) -> float | Spread:
    if isinstance(one, Spread) and isinstance(other, Spread):
        return one + other
    if isinstance(one, Spread) or isinstance(other, Spread):
        raise TypeError("a metric is a number or a distribution, not both")
    return one + other


def _flatten(measure: Measure) -> Iterator[tuple[str, float]]:
    label = "".join(f".{value}" for value in measure.labels)
    if isinstance(measure.value, Spread):
        yield f"{measure.name}_count{label}", measure.value.count
        yield f"{measure.name}_sum{label}", round(measure.value.total, 6)
    else:
        yield f"{measure.name}{label}", measure.value
