"""A job whose trigger or target type is not known here is kept as it is, and nothing is guessed."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.core.clocks import NextFire
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind
from mainspring.core.planning import overdue_range, plan_fires, settle_overdue
from mainspring.core.targets.http import HttpType
from mainspring.core.triggers import UnknownTrigger, tell_trigger
from mainspring.errors import Conflict, InvalidInput, UnknownType

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
DUE = NOW - timedelta(hours=1)
JOB = JobId(UUID(int=7))
PLAIN: dict[str, Any] = {
    **plain_from_spec(read_definition({"name": "x", "function": "f"}, now=NOW)),
    "trigger": {"type": "lunar", "phase": "full"},
    "target": {"type": "fax", "number": "123"},
}
SPEC = spec_from_plain(PLAIN)


def test_the_kept_form_survives_unchanged() -> None:
    assert isinstance(SPEC.trigger, UnknownTrigger)
    assert plain_from_spec(SPEC) == PLAIN
    assert spec_from_plain(plain_from_spec(SPEC)) == SPEC
    assert hash(SPEC) == hash(spec_from_plain(PLAIN))
    assert tell_trigger(PLAIN["trigger"]) == "lunar"


def test_it_is_not_planned_and_the_error_names_the_type() -> None:
    with pytest.raises(UnknownType, match=r"trigger.type: 'lunar' is not known here; install the package"):
        plan_fires(SPEC, JOB, NextFire(DUE, DUE), now=NOW)
    with pytest.raises(Conflict):
        plan_fires(SPEC, JOB, NextFire(NOW, NOW), now=NOW)
    assert plan_fires(SPEC, JOB, NextFire(NOW, NOW + timedelta(seconds=1)), now=NOW) is None


def test_due_fires_become_one_gap_where_it_is_edited_or_deleted() -> None:
    (gap,) = settle_overdue(SPEC, JOB, DUE, now=NOW, reason="edited")
    assert (gap.kind, gap.from_at, gap.to_at, gap.reason) == (FireRangeKind.GAP, DUE, NOW, "unknown_trigger")
    deleted = overdue_range(SPEC.trigger, DUE, now=NOW, kind=FireRangeKind.GAP, reason="deleted")
    assert deleted is not None
    assert (deleted.from_at, deleted.to_at) == (DUE, NOW)
    assert settle_overdue(SPEC, JOB, NOW + timedelta(days=1), now=NOW, reason="edited") == ()


def test_other_fields_can_be_edited_and_the_trigger_replaced() -> None:
    assert edit_definition(SPEC, {"priority": "LOW"}, now=NOW).trigger == SPEC.trigger
    edited = edit_definition(SPEC, {"every": "90s", "function": "f"}, now=NOW)
    assert edited.target.type == "function"
    with pytest.raises(InvalidInput, match=r"tz: goes with cron"):
        edit_definition(SPEC, {"tz": "UTC"}, now=NOW)


def test_headers_are_held_to_one_set_of_rules_when_defined_and_when_called() -> None:
    headers = HttpType.options.get("headers").kind
    for name in ("Host", "te", "Proxy-Authorization", "Mainspring-Token", "Idempotency-Key"):
        with pytest.raises(InvalidInput, match="is set by the scheduler"):
            headers.read({name: "a"}, "headers", None)
