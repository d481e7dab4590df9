"""How busy workers will be within a day, how long a backlog takes, and how long the disk lasts.

What is submitted in an hour to come is taken from the past: it is the mean of the same hours of the weeks on record.
What fires is known beforehand, from the schedules of jobs. A run takes as long as the runs of its queue took.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil, floor

from mainspring.core.alert_words import count, show_roughly
from mainspring.core.alerting import Fact
from mainspring.core.alerts import AlertRule
from mainspring.core.doctor.findings import weigh
from mainspring.core.planned_fires import PlannedFires
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.storage import Storage
from mainspring.core.usage import Times, Usage, UsageLine, UsageStep
from mainspring.core.values import value

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WEEKS = 4
"""So many weeks are looked back at."""
AHEAD = 24
"""So many hours are looked ahead."""
GOAL = 0.8
"""How busy workers should be at most, so that runs start soon: what is advised keeps to it."""
SPARE = 0.1
"""The share of a disk that what is advised leaves free."""
FEWEST_ROWS = 1000
"""Of fewer runs, it is not measured how much room one takes."""
USUAL_BYTES = 600
"""What a run takes in the history with its index, as long as that cannot be measured."""


@value()
class SlotPool:
    """Workers that serve the same queues: how many slots they have. No queues are all."""

    slots: int
    queues: frozenset[str] = frozenset()

    def serves(self, queue: str) -> bool:
        """Say whether they serve a queue."""
        return not self.queues or queue in self.queues


@value()
class Demand:
    """What a queue's runs ask for.

    Attributes:
        by_hour: how many arrive, in each of the hours that are looked ahead at.
        seconds: for how long a run takes a slot, all its attempts together.
    """

    by_hour: tuple[float, ...]
    seconds: float

    def load(self, hour: int) -> float:
        """Return how many slots are taken on the average, in an hour from now."""
        return self.by_hour[hour] * self.seconds / HOUR.total_seconds()


@value(kw_only=True)
class QueueForecast:
    """How busy the workers of a queue will be.

    Attributes:
        slots: what the queue has of its workers' slots, beside other queues that they serve; if it gets nothing in this
            hour, what it has in its busiest one.
        arrivals: how many runs arrive in this hour.
        seconds: for how long a run takes a slot.
        utilisation: the share of its slots that is taken in this hour; None if there are none.
        peak: the same for the busiest of the hours to come; above 1, the backlog grows.
        peak_at: when that hour begins.
        waiting: runs that are ready.
        drain: how long it takes until none waits; None if that is never, as things are.
        slots_needed: so many slots keep the busiest hour at `GOAL`.
    """

    queue: str
    slots: float
    arrivals: float
    seconds: float
    utilisation: float | None
    peak: float | None
    peak_at: datetime
    waiting: int
    drain: timedelta | None
    slots_needed: int


@value(kw_only=True)
class DiskForecast:
    """How much room the history takes, and how long the disk lasts.

    Attributes:
        runs_per_day: that end.
        bytes_per_run: what one takes.
        is_measured: whether that was measured; else there are too few runs to do so.
        keep_days: how long they are kept.
        size: what the store takes now.
        growth: bytes a day, until as many days are kept as should be.
        free, disk: of the disk; None if it cannot be known.
        full_in: when the disk is full; None if everything fits, or if the disk is not known.
        advised_days: for how many days the history fits; None if it fits as it is.
    """

    runs_per_day: float
    bytes_per_run: float
    is_measured: bool
    keep_days: float
    size: int
    growth: float
    free: int | None
    disk: int | None
    full_in: timedelta | None
    advised_days: int | None


def expect(
    lines: Iterable[UsageLine], now: datetime, planned: PlannedFires | None = None
) -> dict[str, Demand]:
    """Return what each queue asks for in the hours to come.

    Args:
        lines: the hours on record, of one tenant or of all.
        planned: the fires of their jobs; None: the past tells these, too.
    """
    this_hour = UsageStep.HOUR.start_of(now)
    past = [line for line in lines if line.at < this_hour]
    if not past:
        return {}
    first = min(line.at for line in past)
    submitted: defaultdict[str, Counter[datetime]] = defaultdict(Counter)
    fired: defaultdict[str, Counter[datetime]] = defaultdict(Counter)
    spent: defaultdict[str, float] = defaultdict(float)
    ended: defaultdict[str, int] = defaultdict(int)
    for line in past:
        usage = line.usage
        submitted[line.queue][line.at] += usage.submitted
        fired[line.queue][line.at] += usage.fired
        spent[line.queue] += usage.durations.total
        ended[line.queue] += _ended(usage)
    # What is not on record yet is expected to take as long as everything else does.
    usual = sum(spent.values()) / sum(ended.values()) if any(ended.values()) else 0.0
    found = {}
    for queue in sorted({*submitted, *(() if planned is None else planned.queues)}):
        past_of = _Past(submitted[queue], fired[queue], first, this_hour)
        seconds = spent[queue] / ended[queue] if ended[queue] else 0.0 if submitted[queue] else usual
        found[queue] = Demand(tuple(past_of.arrivals(hour, queue, planned) for hour in range(AHEAD)), seconds)
    return found


@value()
class _Past:
    """What has arrived in a queue, by hour, from the first hour on record to this one."""

    submitted: Counter[datetime]
    fired: Counter[datetime]
    first: datetime
    until: datetime

    def arrivals(self, number: int, queue: str, planned: PlannedFires | None) -> float:
        """Return how many runs are to be expected in an hour from now."""
        hour = self.until + number * HOUR
        if planned is None:
            return _mean_of(self.submitted + self.fired, hour, self.first, self.until)
        fires = planned.fires(queue, number)
        if not planned.knows_all(queue):
            fires = max(fires, _mean_of(self.fired, hour, self.first, self.until))
        return _mean_of(self.submitted, hour, self.first, self.until) + fires


def sum_to_queues(lines: Iterable[UsageLine]) -> list[UsageLine]:
    """Return what hours come to by queue, for all their tenants together, and without what only bounds tell.

    It is all that a forecast needs, and far less than the hours themselves, of which there may be a great many.
    """
    submitted: defaultdict[tuple[datetime, str], int] = defaultdict(int)
    fired: defaultdict[tuple[datetime, str], int] = defaultdict(int)
    ended: defaultdict[tuple[datetime, str], int] = defaultdict(int)
    spent: defaultdict[tuple[datetime, str], float] = defaultdict(float)
    for line in lines:
        key = line.at, line.queue
        submitted[key] += line.usage.submitted
        fired[key] += line.usage.fired
        ended[key] += _ended(line.usage)
        spent[key] += line.usage.durations.total
    return [
        UsageLine(
            at=at,
            tenant=ALL_TENANTS,
            queue=queue,
            usage=Usage(
                submitted=submitted[at, queue],
                fired=fired[at, queue],
                succeeded=ended[at, queue],
                durations=Times(total=spent[at, queue]),
            ),
        )
        for at, queue in submitted
    ]


def _ended(usage: Usage) -> int:
    return usage.succeeded + usage.failed + usage.cancelled


def _mean_of(arrived: Mapping[datetime, int], hour: datetime, first: datetime, until: datetime) -> float:
    """Return the mean of the same hours of the weeks before; of the days before, or of all, if there are none."""
    for step in (timedelta(weeks=1), DAY, HOUR):
        back = max(ceil((hour - until) / step + 1e-9), 1)
        places = []
        place = hour - back * step
        while place >= first:
            places.append(arrived.get(place, 0))
            place -= step
        if places:
            return sum(places) / len(places)
    return 0.0


def share_slots(loads: Mapping[str, float], pools: Sequence[SlotPool]) -> dict[str, float]:
    """Return what each queue has of the slots: workers share theirs among their queues by what these ask for."""
    shared = dict.fromkeys(loads, 0.0)
    for pool in pools:
        served = {queue: load for queue, load in loads.items() if pool.serves(queue)}
        total = sum(served.values())
        for queue, load in served.items():
            shared[queue] += pool.slots * (load / total if total else 1 / len(served))
    return shared


def forecast_queues(
    demands: Mapping[str, Demand], pools: Sequence[SlotPool], waiting: Mapping[str, int], now: datetime
) -> list[QueueForecast]:
    """Return how busy the workers of each queue will be, by the queue's name."""
    this_hour = UsageStep.HOUR.start_of(now)
    hours = []
    for hour in range(AHEAD):
        loads = {queue: demand.load(hour) for queue, demand in demands.items()}
        slots = share_slots(loads, pools)
        hours.append((loads, slots))
    found = []
    for queue, demand in sorted(demands.items()):
        shares = [_share(loads[queue], slots[queue]) for loads, slots in hours]
        peaks = [(share or 0.0, hours[hour][0][queue], -hour) for hour, share in enumerate(shares)]
        peak = -max(peaks)[2]
        load = hours[0][0][queue]
        # A queue that gets nothing now has none of the shared slots, but its workers serve it all the same.
        own = hours[0][1][queue] or hours[peak][1][queue]
        found.append(
            QueueForecast(
                queue=queue,
                slots=own,
                arrivals=demand.by_hour[0],
                seconds=demand.seconds,
                utilisation=_share(load, own),
                peak=shares[peak],
                peak_at=this_hour + peak * HOUR,
                waiting=waiting.get(queue, 0),
                drain=_drain(waiting.get(queue, 0), demand.seconds, own - load),
                slots_needed=ceil(round(hours[peak][0][queue] / GOAL, 6)),
            )
        )
    return found


def _share(load: float, slots: float) -> float | None:
    return load / slots if slots else None


def _drain(waiting: int, seconds: float, spare: float) -> timedelta | None:
    """Return how long spare slots take for what waits."""
    if not waiting:
        return timedelta(0)
    if spare <= 0:
        return None
    return min(timedelta(seconds=waiting * seconds / spare), 3650 * DAY)


def count_ends(lines: Iterable[UsageLine], now: datetime) -> float:
    """Return how many runs end a day: within the last seven days, or since there are figures."""
    since = UsageStep.HOUR.start_of(now) - 7 * DAY
    ended = [(line.at, _ended(line.usage)) for line in lines if line.at >= since]
    if not ended:
        return 0.0
    return sum(runs for _, runs in ended) / max((now - min(at for at, _ in ended)) / DAY, 1 / 24)


def forecast_disk(storage: Storage, *, runs_per_day: float, rows: int, keep: timedelta) -> DiskForecast:
    """Return how long the disk lasts.

    Args:
        rows: how many runs the history has.
    """
    is_measured = rows >= FEWEST_ROWS and storage.history > 0
    bytes_per_run = storage.history / rows if is_measured else float(USUAL_BYTES)
    growth, days = runs_per_day * bytes_per_run, keep / DAY
    to_come = max(growth * days - storage.history, 0.0)
    free = None if storage.disk is None else storage.disk.free
    full_in, advised = None, None
    if storage.disk is not None and free is not None and to_come > free:
        full_in = min(free / growth, 36500.0) * DAY
        room = storage.history + max(free - SPARE * storage.disk.size, 0.0)
        advised = max(min(floor(room / growth), floor(days)), 1)
    return DiskForecast(
        runs_per_day=runs_per_day,
        bytes_per_run=bytes_per_run,
        is_measured=is_measured,
        keep_days=days,
        size=storage.size,
        growth=growth if to_come else 0.0,
        free=free,
        disk=None if storage.disk is None else storage.disk.size,
        full_in=full_in,
        advised_days=advised,
    )


def find_shortages(
    rule: AlertRule, queues: Sequence[QueueForecast], disk: DiskForecast | None
) -> Iterator[Fact]:
    """Yield queues whose slots will be taken to more than the threshold in percent, and a disk that is full in time."""
    for one in queues:
        percent = 100 * (one.peak or 0.0)
        if percent < (rule.threshold or 0) or rule.queue not in {None, one.queue} or not one.peak:
            continue
        busy = f"{percent:,.0f} % of the slots of queue {one.queue} will be taken from {one.peak_at:%a %H:%M} UTC on"
        yield Fact(
            tenant=ALL_TENANTS,
            subject=f"queue:{one.queue}",
            value=round(percent, 1),
            summary=f"{busy}; {count(one.slots_needed, 'slot')} would keep it at {100 * GOAL:.0f} %",
        )
    full_in = None if disk is None or rule.queue is not None else disk.full_in
    if disk is not None and full_in is not None and full_in <= (rule.period or DAY):
        grows = f"it grows by {weigh(round(disk.growth))} a day"
        fits = f"{count(disk.advised_days or 1, 'day')} of history would fit"
        yield Fact(
            tenant=ALL_TENANTS,
            subject="disk",
            value=round(full_in / DAY, 2),
            summary=f"the disk of the store will be full in {show_roughly(full_in)}: {grows}; {fits}",
        )
