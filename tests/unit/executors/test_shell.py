"""What is refused before any process is started."""

import pwd
import resource
from typing import Any

import pytest

from mainspring.core.definition import read_definition
from mainspring.core.outcomes import Failure
from mainspring.core.resource_limits import RESOURCE_LIMITS
from mainspring.errors import InvalidInput
from mainspring.executors import ShellExecutor
from mainspring.testing.factories import START
from tests.unit.executors.attempts import make_attempt


def test_it_cannot_be_made_where_it_is_not_enabled() -> None:
    with pytest.raises(InvalidInput, match="--allow-shell"):
        ShellExecutor(enabled=False)


def test_unknown_limits_are_refused() -> None:
    with pytest.raises(InvalidInput, match="rss"):
        ShellExecutor(enabled=True, limits={"rss": 1})


@pytest.mark.parametrize("name", RESOURCE_LIMITS)
def test_known_limits_are_those_of_the_system(name: str) -> None:
    ShellExecutor(enabled=True, limits={name: 1})
    assert hasattr(resource, f"RLIMIT_{name.upper()}")


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "command"),
        ({"command": "echo hi"}, "command"),
        ({"command": "echo hi", "shell": 1}, "shell"),
        ({"command": ["echo"], "shell": True}, "command"),
        ({"command": []}, "command"),
        ({"command": [""]}, "command[0]"),
        ({"command": ["a", 1]}, "command[1]"),
        ({"command": [1]}, "command[0]"),
        ({"command": ["a\0b"]}, "command[0]"),
        ({"command": ["a"] * 257}, "command"),
        ({"command": ["a"], "env": ["A=1"]}, "env"),
        ({"command": ["a"], "env": {"A": 1}}, "env.A"),
        ({"command": ["a"], "env": {"A=B": "1"}}, "env.A=B"),
        ({"command": ["a"], "env": {"A B": "1"}}, "env.A B"),
        ({"command": ["a"], "env": {"": "1"}}, "env.''"),
        ({"command": ["a"], "env": {"MAINSPRING_TOKEN": "1"}}, "env.MAINSPRING_TOKEN"),
        ({"command": ["a"], "env": {"MAINSPRING_WORKER": "1"}}, "env.MAINSPRING_WORKER"),
        ({"command": ["a"], "cwd": 1}, "cwd"),
        ({"command": ["a"], "cwd": "a\nb"}, "cwd"),
        ({"command": ["a"], "stdin": b"x"}, "stdin"),
        ({"command": ["a"], "user": 0}, "user"),
        ({"command": ["a"], "usr": "me"}, "usr"),
    ],
)
async def test_params_are_held_to_the_rules_of_a_definition(params: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_definition({"name": "x", "target": {"type": "shell", **params}}, now=START)
    outcome = await ShellExecutor(enabled=True).execute(make_attempt(params))
    assert isinstance(outcome, Failure)
    assert outcome.error == str(refused.value)
    assert outcome.error.startswith(f"target.{field}: ")
    assert not outcome.is_retryable


async def test_other_users_are_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    outcome = await ShellExecutor(enabled=True).execute(make_attempt({"command": ["id"], "user": "nobody"}))
    assert isinstance(outcome, Failure)
    assert "runs as root" in outcome.error


@pytest.mark.parametrize(("user", "is_own"), [("daemon", True), ("nobody", False), ("no-such-user", False)])
async def test_its_own_user_is_not_another(monkeypatch: pytest.MonkeyPatch, user: str, is_own: bool) -> None:
    own = pwd.getpwnam("daemon").pw_uid
    monkeypatch.setattr("os.geteuid", lambda: own)
    outcome = await ShellExecutor(enabled=True).execute(make_attempt({"command": ["id"], "user": user}))
    assert isinstance(outcome, Failure)
    assert ("could not be started" if is_own else "runs as root") in outcome.error


@pytest.mark.parametrize(
    ("command", "allow"),
    [
        (["cat"], ["/bin/echo"]),
        (["cat"], ["/bin/ca"]),
        (["cat"], ["/usr/local/"]),
        (["/nowhere/cat"], ["/nowhere/"]),
        (["/opt/../bin/cat"], ["/opt/"]),
    ],
)
async def test_allow_list_refuses(command: list[str], allow: list[str]) -> None:
    outcome = await ShellExecutor(enabled=True, allow=allow).execute(make_attempt({"command": command}))
    assert isinstance(outcome, Failure)
    assert "allow-list" in outcome.error
    assert not outcome.is_retryable
