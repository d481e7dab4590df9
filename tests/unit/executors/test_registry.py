import functools

import pytest

from mainspring.errors import InvalidInput
from mainspring.registry import FunctionRegistry


def plain(a: int, b: int = 2) -> int:
    return a + b


async def waiting() -> None: ...


class Callable:
    async def __call__(self) -> None: ...


def test_get_finds_by_registered_name_only() -> None:
    registry = FunctionRegistry()
    registry.add("mail.send", plain)
    assert registry.get("os.system") is None
    assert registry.get("plain") is None
    found = registry.get("mail.send")
    assert found is not None
    assert found.call is plain
    assert registry.names() == ("mail.send",)


def test_add_twice_is_allowed_for_the_same_function_only() -> None:
    registry = FunctionRegistry()
    assert registry.add("f", plain) is registry.add("f", plain)
    with pytest.raises(InvalidInput, match="already taken"):
        registry.add("f", waiting)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201])
def test_add_refuses_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidInput):
        FunctionRegistry().add(name, plain)


def test_add_knows_async_callables_in_disguise() -> None:
    registry = FunctionRegistry()
    assert registry.add("a", waiting).is_async
    assert registry.add("b", functools.partial(waiting)).is_async
    assert registry.add("c", Callable()).is_async
    assert not registry.add("d", plain).is_async
    assert not registry.add("e", print).is_async
