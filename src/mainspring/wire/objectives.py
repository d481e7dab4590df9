"""Objectives and how they do, as the HTTP API takes and shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.objectives import OBJECTIVE_OPTIONS, ObjectiveKind, ObjectiveStatus, RunTotals
from mainspring.wire.policies import body_of
from mainspring.wire.views import Instant

SloBody: Any = body_of(
    "SloBody", "How large a share of runs is to be good.", OBJECTIVE_OPTIONS, module=__name__
)


class SloWindowView(Struct, kw_only=True):
    """What counted within a time until now."""

    total: Annotated[int, Meta(description="Runs that counted.")]
    bad: Annotated[int, Meta(description="Those that started too late, or failed.")]
    burn_rate: Annotated[
        float,
        Meta(description="How fast the budget is used: at 1, it lasts as long as the objective's days."),
    ]


class SloView(Struct, kw_only=True):
    """An objective, and how it does."""

    name: str
    kind: Annotated[str, Meta(extra_json_schema={"enum": [kind.value for kind in ObjectiveKind]})]
    queue: Annotated[str | None, Meta(description="Null is all queues of the tenant.")]
    objective: Annotated[float, Meta(description="The share of runs that is to be good.")]
    bound_seconds: Annotated[float | None, Meta(description="How long after it was due a run may start.")]
    days: int
    share: Annotated[
        float | None, Meta(description="The share of good runs within its days; null if there were none.")
    ]
    budget_left: Annotated[
        float,
        Meta(description="How much of the budget is left: 1 is all. Below 0, the objective is missed."),
    ]
    exhausted_at: Annotated[
        Instant | None,
        Meta(description="When the budget is used up at the present rate; null if that is never."),
    ]
    within_days: SloWindowView
    within_six_hours: SloWindowView
    within_hour: SloWindowView


class SloList(Struct):
    """Objectives, by name."""

    items: list[SloView]


def view_slo(status: ObjectiveStatus, now: datetime) -> SloView:
    """Show an objective and how it does."""
    plain: dict[str, Any] = {}
    OBJECTIVE_OPTIONS.store_into(plain, status.objective)

    def window(events: RunTotals) -> SloWindowView:
        return SloWindowView(total=events.total, bad=events.bad, burn_rate=round(status.rate(events), 3))

    share, lasts = status.share, status.lasts
    return SloView(
        name=status.objective.name,
        share=None if share is None else round(share, 9),
        budget_left=round(status.budget_left, 4),
        exhausted_at=None if lasts is None else now + lasts,
        within_days=window(status.whole),
        within_six_hours=window(status.six_hours),
        within_hour=window(status.hour),
        **plain,
    )
