"""The glossary explains the nouns that users meet: tables, the values of the domain, and what the API operates on."""

import re
from pathlib import Path

import pytest

from mainspring.core import model
from mainspring.wire.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
TERM = re.compile(r"^\| \*\*([^*]+)\*\* \|", re.MULTILINE)
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]{2,}")
GRAMMAR = {"and", "by", "compatibility", "key", "kind", "rule", "sequence", "spec"}
"""Parts of names that say what sort of thing it is, not which."""
VERBS = {
    *("beat", "cancel", "claim", "count", "create", "delete", "edit", "get", "leave", "list", "now", "pause"),
    *("preview", "register", "report", "resume", "run", "submit", "upsert", "health", "openapi", "next"),
    "replace",
    "skip",
    "acknowledge",
    "add",
    "begin",
    "confirm",
    "keep",
    "put",
    "reject",
    "apply",
    "approve",
    "complete",
    "diff",
    "discard",
    "end",
    "extend",
    "fail",
    "login",
    "logout",
    "make",
    "me",
    "post",
    "revoke",
    "rotate",
    "send",
    "set",
    "start",
    "test",
    "verify",
}
"""What operations do, and two of their objects that explain themselves."""


def words(text: str) -> set[str]:
    """Return the words of a name or a text, in lower case and in the singular."""
    return {re.sub("(?<=ss)es$|(?<!s)s$", "", word.lower()) for word in WORD.findall(text)}


EXPLAINED = words(" ".join(TERM.findall((ROOT / "docs" / "glossary.md").read_text())))


def tables() -> list[str]:
    schema = (ROOT / "src/mainspring/stores/sqlite/schema.sql").read_text()
    return re.findall(r"^CREATE TABLE (\w+)", schema, re.MULTILINE)


CLASSES = [
    name for name, item in vars(model).items() if isinstance(item, type) and item.__module__ == model.__name__
]


@pytest.mark.parametrize("name", [*tables(), *CLASSES])
def test_noun_is_in_the_glossary(name: str) -> None:
    assert words(name) - EXPLAINED - GRAMMAR == set()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_object_of_an_operation_is_in_the_glossary(operation: object) -> None:
    assert words(operation.id) - EXPLAINED - {word.removesuffix("s") for word in VERBS} == set()  # type: ignore[attr-defined]
