"""Chains, groups and chords return what those of Celery return, carried out by Celery itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import celery
import pytest

import mainspring
from mainspring import App


def add(x: int, y: int) -> int:
    return x + y


def mul(x: int, y: int) -> int:
    return x * y


def tsum(numbers: list[int]) -> int:
    return sum(numbers)


def listed(first: object, *more: object) -> list[object]:
    return [first, *more]


def named(first: object, *, by: str, **more: object) -> dict[str, object]:
    return {"first": first, "by": by, **more}


def one() -> int:
    return 1


FUNCTIONS: tuple[Callable[..., object], ...] = (add, mul, tsum, listed, named, one)


class Tool:
    """What the canvases below are written with: Celery, or Mainspring."""

    def __init__(self, module: Any, functions: dict[str, Any]) -> None:
        self.chain, self.chord, self.group = module.chain, module.chord, module.group
        for name, function in functions.items():
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


CANVASES: dict[str, Callable[[Any], Any]] = {
    "a chain": lambda c: c.chain(c.add.s(2, 2), c.mul.s(4), c.add.s(y=1)),
    "a chain of one": lambda c: c.chain(c.add.s(2, 2)),
    "a list of calls": lambda c: c.chain([c.add.s(2, 2), c.mul.s(4)]),
    "an immutable call": lambda c: c.chain(c.add.s(2, 2), c.one.si(), c.add.s(4)),
    "an immutable call with arguments": lambda c: c.chain(c.add.s(2, 2), c.add.si(5, 5)),
    "with the operator": lambda c: c.add.s(2, 2) | c.mul.s(4) | c.listed.s(1, "x", None),
    "by name": lambda c: c.chain(c.add.s(2, 2), c.named.s(by="x", extra=[1, {"cel": "input"}])),
    "a group": lambda c: c.group(c.add.s(1, 1), c.add.s(2, 2), c.one.s()),
    "a group of a generator": lambda c: c.group(c.add.s(i, i) for i in range(5)),
    "a chord": lambda c: c.chord([c.add.s(i, i) for i in range(5)], c.tsum.s()),
    "a chord whose body has arguments": lambda c: c.chord([c.one.s(), c.one.s()], c.listed.s("end")),
    "a chord with an immutable body": lambda c: c.chord([c.one.s(), c.one.s()], c.add.si(3, 4)),
    "a chord with a chain for its body": lambda c: c.chord(
        [c.one.s(), c.one.s()], c.chain(c.tsum.s(), c.mul.s(10))
    ),
    "a group in a chain": lambda c: c.chain(c.add.s(1, 1), c.group(c.add.s(1), c.mul.s(3)), c.tsum.s()),
    "a group at the end of a chain": lambda c: c.chain(c.add.s(1, 1), c.group(c.add.s(1), c.one.si())),
    "a group after a group": lambda c: c.chain(
        c.group(c.add.s(1, 1), c.add.s(2, 2)), c.group(c.tsum.s(), c.listed.s(7))
    ),
    "a group within a group": lambda c: c.group(c.add.s(1, 1), c.group(c.add.s(2, 2), c.one.s())),
    "chains within a group": lambda c: c.group(c.chain(c.add.s(1, 1), c.add.s(5)), c.add.s(2, 2)),
    "a chain with a group, within a group": lambda c: c.group(
        c.chain(c.add.s(1, 1), c.group(c.add.s(5), c.add.s(6))), c.add.s(2, 2)
    ),
    "a chord of chains": lambda c: c.chord(
        [c.chain(c.add.s(i, 1), c.mul.s(2)) for i in range(3)], c.listed.s()
    ),
    "a chord in a chain": lambda c: c.chain(
        c.add.s(1, 1), c.chord([c.add.s(1), c.add.s(2)], c.listed.s()), c.listed.s(9)
    ),
    "a chain in a chain": lambda c: c.chain(c.add.s(1, 1), c.chain(c.add.s(1), c.add.s(2)), c.listed.s(9)),
}


PARTIAL: dict[str, tuple[Callable[[Any], Any], tuple[object, ...]]] = {
    "a chain": (lambda c: c.chain(c.listed.s("a"), c.listed.s()), (10, 20)),
    "a group": (
        lambda c: c.chain(c.group(c.listed.s("a"), c.listed.s("b"), c.one.si()), c.listed.s()),
        (10,),
    ),
}
ONLY_ONE: dict[str, Callable[[Any], Any]] = {
    "a chord of one": lambda c: c.chord([c.one.s()], c.listed.s()),
    "a group of one in a chain": lambda c: c.chain(c.group(c.one.s()), c.listed.s()),
}


@pytest.fixture(scope="module")
def theirs() -> dict[str, object]:
    """Return what Celery makes of all of them. A worker of it makes the same, in half a minute."""
    app = celery.Celery("oracle", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.task_always_eager = True
    tool = Tool(
        celery, {call.__name__: app.task(name=call.__name__, shared=False)(call) for call in FUNCTIONS}
    )
    sent = {name: make(tool).apply_async() for name, make in {**CANVASES, **ONLY_ONE}.items()}
    sent |= {f"late {name}": make(tool).apply_async(args) for name, (make, args) in PARTIAL.items()}
    return {name: result.get() for name, result in sent.items()}


def ours(make: Callable[[Any], Any], *args: object) -> object:
    """Return what a canvas makes here."""
    app = App()
    tool = Tool(mainspring, {call.__name__: app.job()(call) for call in FUNCTIONS})
    with app.testing():
        result: object = make(tool).enqueue_sync(*args).result_sync()
        return result


@pytest.mark.parametrize("name", CANVASES)
def test_it_returns_what_celery_returns(name: str, theirs: dict[str, object]) -> None:
    assert ours(CANVASES[name]) == theirs[name]


@pytest.mark.parametrize("name", PARTIAL)
def test_first_arguments_may_come_late(name: str, theirs: dict[str, object]) -> None:
    make, args = PARTIAL[name]
    assert ours(make, *args) == theirs[f"late {name}"]


def test_a_group_of_one_leaves_a_list_which_celery_does_for_chords_only(theirs: dict[str, object]) -> None:
    assert [theirs[name] for name in ONLY_ONE] == [[[1]], [1]]
    assert [ours(make) for make in ONLY_ONE.values()] == [[[1]], [[1]]]
