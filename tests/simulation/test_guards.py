"""The judge is judged: without a guard it finds a broken rule. `make proof` does it for all, and without a hurry."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.simulation.guards import GUARDS, Guard, apply_edits, install
from tests.simulation.proof import try_guard

QUICK = ("conditional advance", "idempotency key", "at most once", "state match")


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_guard_is_where_the_proof_looks_for_it(guard: Guard) -> None:
    for module in {edit.module for edit in guard.edits}:
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        text = Path(spec.origin).read_text()
        edits = [edit for edit in guard.edits if edit.module == module]
        compile(apply_edits(text, edits), spec.origin, "exec")


@pytest.mark.parametrize("name", QUICK)
def test_loss_of_a_guard_is_noticed(name: str) -> None:
    found = try_guard(name, most=20)
    assert found["rules"], f"{name} was not missed within {found['seeds']} seeds"


def test_guard_cannot_be_switched_off_too_late() -> None:
    with pytest.raises(RuntimeError, match="already imported"):
        install(GUARDS[0])


def test_page_lists_every_guard() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "guards.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    names = [guard.name + "*" * bool(guard.staging) for guard in GUARDS]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == names
    assert "not within" not in page
