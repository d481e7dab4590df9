"""A verb of the store's port stands in the file of its concern, and that file has the same name in every store."""

import ast
import inspect
from pathlib import Path

import pytest

from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimStore
from mainspring.ports.store.failures import FailureStore
from mainspring.ports.store.jobs import JobStore
from mainspring.ports.store.nodes import NodeStore
from mainspring.ports.store.runs import RunStore
from mainspring.ports.store.schedule import ScheduleStore
from mainspring.ports.store.sessions import SessionStore
from mainspring.ports.store.upkeep import UpkeepStore

STORES = Path(__file__).parents[2] / "src" / "mainspring" / "stores"
DIALECTS = ("memory", "sqlite", "postgres")


def verbs_of(protocol: type) -> set[str]:
    return {name for name, item in vars(protocol).items() if inspect.isfunction(item) and name[0] != "_"}


VERBS = {
    "jobs": verbs_of(JobStore),
    "failures": verbs_of(FailureStore),
    "schedule": verbs_of(ScheduleStore),
    "runs": verbs_of(RunStore),
    "claims": verbs_of(ClaimStore),
    "sessions": verbs_of(SessionStore),
    "nodes": verbs_of(NodeStore),
    "upkeep": verbs_of(UpkeepStore),
    "store": verbs_of(Store) - {name for base in Store.__mro__[1:] for name in vars(base)},
}


def async_methods(path: Path) -> set[str]:
    """Return the public coroutine methods of a module's classes."""
    tree = ast.parse(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        item.name
        for node in classes
        for item in node.body
        if isinstance(item, ast.AsyncFunctionDef) and not item.name.startswith("_")
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_verb_stands_in_the_file_of_its_concern(dialect: str) -> None:
    assert all(VERBS.values())
    found = {concern: async_methods(STORES / dialect / f"{concern}.py") for concern in VERBS}
    assert found == VERBS
