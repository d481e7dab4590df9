"""Trials: one cluster under load lives through one fault after the other, and is judged in the end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.cluster.faults import FaultKind
from tests.chaos.cluster.scene import Cluster, Size, open_cluster
from tests.chaos.trials import Outcome, conclude, under_load

SIZE = Size()
SLOW = 5.0
"""Seconds after a fault that are worth a word."""
_TRIES = 3
_AFTERMATH = 1.0
"""Seconds for what was under way to be answered, after all is as before."""


@dataclass(slots=True)
class Tally:
    """What came of the trials.

    Attributes:
        trials: how many of each fault were carried out.
        void: how many of these proved nothing, as no stale write had to be refused.
    """

    trials: Counter[str] = field(default_factory=Counter)
    void: Counter[str] = field(default_factory=Counter)
    settle_times: dict[str, list[float]] = field(default_factory=dict)


async def run_trials(
    kinds: Sequence[FaultKind], folder: Path, *, seed: int, rate: float = 20.0, calm: float = 2.0
) -> tuple[Outcome, Tally]:
    """Carry out a trial of each of the kinds, in order, and judge all of it; what was void is tried again.

    Args:
        rate: submissions a second.
        calm: seconds without a fault before the first one.
    """
    random, tally = Random(f"cluster:{seed}"), Tally()
    async with open_cluster(folder, SIZE) as (cluster, receiver):
        await cluster.start()
        async with under_load(cluster, receiver, rate=rate, seed=seed) as stage:
            await asyncio.sleep(calm)
            for kind in kinds:
                for _ in range(_TRIES):
                    if await _is_proof(cluster, kind, random, tally):
                        break
        return await conclude(cluster, stage, folder, slots=SIZE.all_slots), tally


async def _is_proof(cluster: Cluster, kind: FaultKind, random: Random, tally: Tally) -> bool:
    """Carry out one trial; say whether it proves anything."""
    began = time.time()
    await kind.inflict(cluster, random)
    await cluster.settle()
    await asyncio.sleep(_AFTERMATH)
    tally.trials[kind.code] += 1
    if cluster.settle_times[-1] > SLOW:
        print(
            f"{kind.code}: took {cluster.settle_times[-1]:.1f} s, at last: {cluster.last_trouble}", flush=True
        )
    tally.settle_times.setdefault(kind.code, []).append(cluster.settle_times[-1])
    is_void = kind.owes_refusal and not cluster.refusals_since(began)
    tally.void[kind.code] += is_void
    return not is_void
