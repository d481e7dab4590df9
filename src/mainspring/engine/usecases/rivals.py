"""Finds out what else waits for the workers that a run waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.model import Lane, Run
from mainspring.core.queues import Queue
from mainspring.core.rivals import RivalFacts, find_rivals
from mainspring.engine.usecases.abilities import can_execute
from mainspring.ports.store import Store
from mainspring.ports.store.restrictions import Restrictions
from mainspring.ports.store.sessions import SessionFacts

MOST_LANES = 256
"""Lanes that an answer looks at, at most. Where there are more, it may not tell of what waits in the others."""


async def read_rivals(
    store: Store, run: Run, offers: Sequence[SessionFacts], restrictions: Restrictions, now: datetime
) -> RivalFacts:
    """Return what else is ready for the live workers that can execute a run, and could start now.

    What waits in lines, for a limit or a batch, is left out.
    """
    able = [offer for offer in offers if can_execute(offer, run.lane)]
    queues = (
        sorted({queue for offer in able for queue in offer.queues}) if all(o.queues for o in able) else []
    )
    lanes = await store.read_lanes(queues, limit=MOST_LANES) if able else []
    others = [
        lane
        for lane in lanes
        if lane.earliest_ready_at is not None
        and lane.key != run.lane
        and not restrictions.pauses.is_held(lane.key, now)
        and any(can_execute(offer, lane.key) for offer in able)
    ]
    policies = await store.read_policies()
    assert policies is not None, "nothing is known, so all is read"
    rules = policies.queues.get(run.lane.queue) or Queue(name=run.lane.queue)
    return find_rivals(run.lane, run.ready_at, await _with_room(store, others, restrictions), rules, now)


async def _with_room(store: Store, lanes: Sequence[Lane], restrictions: Restrictions) -> list[Lane]:
    """Leave out the lanes under a cap that is full."""
    caps = {
        cap.key: cap.max_running
        for lane in lanes
        for cap in restrictions.caps.about(lane.key)
        if cap.max_running is not None
    }
    uses = await store.read_cap_uses(list(caps)) if caps else []
    full = {key for (key, most), use in zip(caps.items(), uses, strict=True) if use.held >= most}
    return [lane for lane in lanes if not any(cap.key in full for cap in restrictions.caps.about(lane.key))]
