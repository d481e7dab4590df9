"""What a campaign does to the product, as data drawn from a seed: the same seed gives the same plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.chaos.failpoints import COUNTS, MOMENTS, WRITING_VERBS, Failpoint

SCOPES = ("server", "all", "worker")
_WEIGHTS = (60, 15, 25)
POINTS = ("", "claim", "report")
"""Where a worker is stopped: at any moment, once it was given leases, or before it reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill.

    Attributes:
        scope: the server with its embedded worker, that and all remote workers, or one remote worker.
        after: seconds of life before it; with a failpoint that lies in an orderly end, before that is asked for.
        down: seconds without a server before the life that it ends.
        worker: which remote worker.
    """

    scope: str
    after: float
    down: float = 0.0
    worker: int = 0
    failpoint: Failpoint | None = None

    def __str__(self) -> str:
        where = f"worker {self.worker}" if self.scope == "worker" else self.scope
        when = f"at {self.failpoint}" if self.failpoint else f"after {self.after} s"
        return f"kill {where} {when}" + (f", started {self.down} s late" if self.down else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Zombie:
    """One worker that is stopped for longer than its lease, and then goes on.

    Attributes:
        after: seconds that it works before.
        seconds: for how long it is stopped.
        point: see `POINTS`.
    """

    worker: int
    after: float
    seconds: float
    point: str

    def __str__(self) -> str:
        where = f"at its next {self.point}" if self.point else f"after {self.after} s"
        return f"stop worker {self.worker} {where} for {self.seconds} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A campaign's faults, in order."""

    seed: int
    kills: tuple[Kill, ...]
    zombies: tuple[Zombie, ...]

    def lines(self) -> Iterator[str]:
        """Tell the plan."""
        yield from map(str, self.kills)
        yield from map(str, self.zombies)


def make_plan(
    seed: int,
    *,
    kills: int,
    zombies: int = 0,
    workers: int = 2,
    stopped: int = 6,
    lease: float = 2.0,
    is_sweep: bool = False,
) -> Plan:
    """Draw a plan.

    Args:
        workers: remote workers of the kill trials.
        stopped: workers of the zombie trials.
        lease: seconds of silence after which a worker is declared dead.
        is_sweep: a failpoint for every kill; else for every other one.
    """
    random = Random(f"chaos:{seed}")
    failpoints = _draw_failpoints(random)
    plan = [
        _draw_kill(random, workers, next(failpoints) if is_sweep or index % 2 else None)
        for index in range(kills)
    ]
    return Plan(
        seed=seed,
        kills=tuple(plan),
        zombies=tuple(
            Zombie(
                worker=index % stopped,
                after=round(random.uniform(0.1, 1.2), 2),
                seconds=round(lease + random.uniform(0.6, 2.0), 2),
                point=random.choice(POINTS),
            )
            for index in range(zombies)
        ),
    )


def _draw_failpoints(random: Random) -> Iterator[Failpoint]:
    """Yield every verb before and after its commit, in any order, over and over."""
    while True:
        pairs = [(moment, verb) for verb in WRITING_VERBS for moment in MOMENTS]
        random.shuffle(pairs)
        for moment, verb in pairs:
            yield Failpoint(moment, verb, random.randint(1, COUNTS[verb]))


def _draw_kill(random: Random, workers: int, failpoint: Failpoint | None) -> Kill:
    after = round(random.uniform(0.1, 1.5), 2)
    if failpoint is not None:
        # What was missed while nobody was there is caught up by fire ranges, and only then are those moved on.
        down = 1.5 if failpoint.verb == "advance_fire_ranges" else 0.0
        return Kill(scope="server", after=after, down=down, failpoint=failpoint)
    (scope,) = random.choices(SCOPES, _WEIGHTS)
    down = random.choice([0.0, 0.0, 0.0, 1.5]) if scope != "worker" else 0.0
    return Kill(scope=scope, after=after, down=down, worker=random.randrange(workers))
