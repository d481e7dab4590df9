"""What is set for a tenant: its share of the workers, and how much it may bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.intake import MOST_QUEUED
from mainspring.core.kinds import Whole
from mainspring.core.lane_caps import max_running_option
from mainspring.core.options import Option, Options
from mainspring.core.rates import Rate, RateText
from mainspring.core.reserves import MOST_RESERVED
from mainspring.core.values import value

MOST_WEIGHT = 1000
MOST_JOBS = 1_000_000


@value(kw_only=True)
class Tenant:
    """A tenant's settings. A tenant for which nothing was set has the defaults.

    Attributes:
        weight: its share of the workers, in proportion to the weights of those that wait beside it.
        reserved: how many slots it gets before all others, while it has work and fewer than these.
        max_running: how many of its runs may be under way at a time; None is no cap. It is stored with the
            restrictions, so what `read_policies` returns has none.
        max_queued: how many of its runs may wait before submissions are refused; None is no cap.
        max_jobs: how many jobs it may have; None is no cap.
        submit_rate: how often it may submit runs; None is as often as it likes.
    """

    name: str
    weight: int = 1
    reserved: int = 0
    max_running: int | None = None
    max_queued: int | None = None
    max_jobs: int | None = None
    submit_rate: Rate | None = None


TENANT_OPTIONS = Options(
    Option(
        name="weight",
        kind=Whole(1, MOST_WEIGHT),
        default=1,
        summary="Its share of the workers, in proportion to the weights of those that wait beside it.",
    ),
    max_running_option("How many of its runs may be under way at a time, in the whole cluster."),
    Option(
        name="reserved",
        kind=Whole(0, MOST_RESERVED),
        default=0,
        summary="How many slots it gets before all others, while it has work and fewer than these. None is kept free.",
    ),
    Option(
        name="max_queued",
        kind=Whole(1, MOST_QUEUED),
        default=None,
        is_nullable=True,
        summary="How many of its runs may wait before submissions are refused for the time being.",
    ),
    Option(
        name="max_jobs",
        kind=Whole(1, MOST_JOBS),
        default=None,
        is_nullable=True,
        summary="How many jobs it may have.",
    ),
    Option(
        name="submit_rate",
        kind=RateText(),
        default=None,
        is_nullable=True,
        summary="How often it may submit runs. What one second allows may come at once.",
        example="500/s",
    ),
)


def change_tenant(tenant: Tenant, body: Mapping[str, Any]) -> Tenant:
    """Return a tenant's settings with those of a body instead of the old ones. Defaults replace what is left out.

    Raises:
        InvalidInput: a value is wrong, or there is no such setting.
    """
    return Tenant(name=tenant.name, **TENANT_OPTIONS.read_all(body, lambda field: field))
