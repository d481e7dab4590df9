"""The worker protocol."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire import protocol
from mainspring.wire.operation import Body, Operation
from mainspring.wire.operations.common import API

_WORKER = f"{API}/worker"
BEAT_LIMIT = 4 * 1024 * 1024
"""The most bytes of a heartbeat, which names every held lease: enough for about 80,000."""

WORKER_REGISTER = Operation(
    id="worker_register",
    method="POST",
    path=f"{_WORKER}/register",
    right=Right.WORK,
    summary="Open a worker session",
    description="Open a session. Then beat at least once per period.",
    # The handler decodes it: it checks the protocol's number first, then the fields that go with that number.
    body=Body(protocol.RegisterBody, dict[str, Any]),
    answer=protocol.SessionGranted,
    statuses=(201,),
)
WORKER_CLAIM = Operation(
    id="worker_claim",
    method="POST",
    path=f"{_WORKER}/claim",
    right=Right.WORK,
    summary="Take leases",
    description="Take leases; wait up to `wait_seconds` for the first one. A repeated number gets the same answer."
    " When the connection is closed, the claim stops waiting.",
    body=Body(protocol.ClaimBody, protocol.ClaimBody),
    answer=protocol.ClaimAnswerView,
)
WORKER_BEAT = Operation(
    id="worker_beat",
    method="POST",
    path=f"{_WORKER}/beat",
    right=Right.WORK,
    summary="Send a heartbeat",
    description="Confirm that the session is alive and what it holds. Learn what it has lost and what to cancel.",
    body=Body(protocol.BeatBody, protocol.BeatBody, limit=BEAT_LIMIT),
    answer=protocol.BeatView,
)
WORKER_REPORT = Operation(
    id="worker_report",
    method="POST",
    path=f"{_WORKER}/report",
    right=Right.WORK,
    summary="Report how attempts ended",
    description="Report how attempts ended. A repeat of an applied report is `applied` again; a late one is `stale`.",
    body=Body(protocol.ReportBody, protocol.ReportBody),
    answer=protocol.ReportView,
)
WORKER_LOG = Operation(
    id="worker_log",
    method="POST",
    path=f"{_WORKER}/logs",
    right=Right.WORK,
    summary="Tell what attempts write",
    description="Send what attempts under way have written, and how far they are. A repeat changes nothing.",
    body=Body(protocol.LogBody, protocol.LogBody),
    answer=protocol.LogView,
)
WORKER_KEEP_STEPS = Operation(
    id="worker_keep_steps",
    method="POST",
    path=f"{_WORKER}/checkpoints",
    right=Right.WORK,
    summary="Keep steps",
    description="Keep what steps of durable functions have come to. A repeat changes nothing.",
    body=Body(protocol.StepsBody, protocol.StepsBody),
    answer=protocol.StepsView,
)
WORKER_LIST_STEPS = Operation(
    id="worker_list_steps",
    method="POST",
    path=f"{_WORKER}/checkpoints/list",
    right=Right.WORK,
    summary="Read the steps of a run",
    description="Return a page of the steps that are kept of a run that the session holds, by name and number."
    " 409: the lease is lost.",
    body=Body(protocol.StepsWantedBody, protocol.StepsWantedBody),
    answer=protocol.KeptStepsView,
    is_conflicting=True,
)
WORKER_LEAVE = Operation(
    id="worker_leave",
    method="POST",
    path=f"{_WORKER}/leave",
    right=Right.WORK,
    summary="End a session",
    description="End the session. Whatever it still holds counts as lost at once.",
    body=Body(protocol.SessionBody, protocol.SessionBody),
    answer=type(None),
    statuses=(204,),
)
