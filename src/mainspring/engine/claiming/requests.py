"""The store's request for a claim call, from the lanes that were chosen for it."""

from __future__ import annotations

from dataclasses import replace

from mainspring.engine.claiming.lane_cache import LaneChoice
from mainspring.ports.gateway import ClaimCall, FunctionLimit
from mainspring.ports.store.claims import ClaimRequest


def divide(
    choice: LaneChoice, others: LaneChoice, bound: FunctionLimit, limit: int
) -> tuple[LaneChoice, int]:
    """Return the lanes and the limit for one claim, so that it stays within its limit on functions.

    It takes either from the lanes of these functions or from the others, depending on which kind is preferred first.
    The worker has slots left then, and claims again.
    """
    unbounded = set(others.lanes)
    if not choice.lanes or choice.lanes[0] in unbounded:
        return replace(others, quarantined=choice.quarantined), limit
    lanes = tuple(lane_id for lane_id in choice.lanes if lane_id not in unbounded)
    return replace(choice, lanes=lanes, lows={key: choice.lows[key] for key in lanes}), bound.limit


def make_request(call: ClaimCall, choice: LaneChoice, limit: int) -> ClaimRequest:
    """Return the request for at most this many runs, or for a quarantined one if one waits for an idle session."""
    if call.limit == 0:
        return ClaimRequest(session_id=call.session_id, number=call.number, lanes=(), limit=0)
    if call.is_idle and choice.quarantined:
        return ClaimRequest(
            session_id=call.session_id,
            number=call.number,
            lanes=choice.quarantined,
            limit=1,
            is_quarantined=True,
        )
    return ClaimRequest(
        session_id=call.session_id,
        number=call.number,
        lanes=choice.lanes,
        limit=limit,
        lows=choice.lows,
    )
