"""The stored form of objectives: a JSON text that is the same in both dialects."""

from __future__ import annotations

import json
from typing import Any

from mainspring.core.objectives import OBJECTIVE_OPTIONS, Objective


def encode_objective(objective: Objective) -> str:
    """Return an objective without its tenant and name as JSON text."""
    plain: dict[str, Any] = {}
    OBJECTIVE_OPTIONS.store_into(plain, objective)
    return json.dumps(plain, separators=(",", ":"))


def decode_objective(tenant: str, name: str, text: str) -> Objective:
    """Make an objective of a row."""
    return Objective(tenant=tenant, name=name, **OBJECTIVE_OPTIONS.load(json.loads(text)))
