import pytest

from mainspring.core.tenants import Tenant, change_tenant
from mainspring.errors import InvalidInput


def test_what_a_body_leaves_out_gets_its_default() -> None:
    assert change_tenant(Tenant(name="acme", weight=7), {}) == Tenant(name="acme", weight=1)
    assert change_tenant(Tenant(name="acme"), {"weight": 1000}) == Tenant(name="acme", weight=1000)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"weight": "7"}, "weight"),
        ({"wait": 7}, "wait"),
    ],
)
def test_a_wrong_value_is_refused_by_its_field(body: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        change_tenant(Tenant(name="acme"), body)
    assert refused.value.field == field
