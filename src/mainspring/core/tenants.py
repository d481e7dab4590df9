"""What is set for a tenant: how its share of the workers compares with that of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mainspring.core.kinds import Whole
from mainspring.core.options import Option, Options

MOST_WEIGHT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant's settings. A tenant for which nothing was set has the defaults.

    Attributes:
        weight: its share of the workers, in proportion to the weights of those that wait beside it.
    """

    name: str
    weight: int = 1


TENANT_OPTIONS = Options(
    Option(
        name="weight",
        kind=Whole(1, MOST_WEIGHT),
        default=1,
        summary="Its share of the workers, in proportion to the weights of those that wait beside it.",
    )
)


def change_tenant(tenant: Tenant, body: Mapping[str, Any]) -> Tenant:
    """Return a tenant's settings with those of a body instead of the old ones. Defaults replace what is left out.

    Raises:
        InvalidInput: a value is wrong, or there is no such setting.
    """
    return Tenant(name=tenant.name, **TENANT_OPTIONS.read_all(body, lambda field: field))
