"""One pass of `make fuzz`, and that it would notice a leak and a loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.security.fuzz import attack
from tests.security.tenants import FOREIGN, make_token, two_tenants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_no_role_sees_or_changes_another_tenants(tmp_path: Path) -> None:
    passes = iter([True, False])
    with two_tenants(tmp_path) as tenants:
        found = attack(tenants, goes_on=lambda: next(passes), examples=2)
    assert found.faults == []
    assert {status for _, status in found.answers} >= {200, 403, 404, 422}


def test_a_token_of_the_other_tenant_is_found_out(tmp_path: Path) -> None:
    passes = iter([True, False])
    with two_tenants(tmp_path) as tenants:
        token = make_token(tenants.url, tenants.admin, "editor", FOREIGN)
        found = attack(replace(tenants, tokens={"editor": token}), goes_on=lambda: next(passes), examples=4)
    kinds = {fault.splitlines()[0].split(" had ")[0] for fault in found.faults}
    assert {"another tenant's", FOREIGN} <= kinds
