"""What `import mainspring` offers is listed, sorted, documented, and nothing else."""

import inspect
import typing

import mainspring


def exported() -> list[str]:
    return list(getattr(mainspring, "__all__", ()))


def test_all_is_sorted_and_without_repetition() -> None:
    assert exported() == sorted(set(exported()))


def test_all_names_exist() -> None:
    missing = [name for name in exported() if not hasattr(mainspring, name)]
    assert missing == []


def test_all_is_complete() -> None:
    public = {
        name
        for name, value in vars(mainspring).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    assert public - set(exported()) == set()


def test_public_classes_and_functions_say_what_they_are() -> None:
    undocumented = []
    for name in exported():
        value = getattr(mainspring, name)
        if (inspect.isclass(value) or inspect.isroutine(value)) and not inspect.getdoc(value):
            undocumented.append(name)
    assert undocumented == []


def test_public_functions_are_typed() -> None:
    values: list[object] = [getattr(mainspring, name) for name in exported()]
    routines = [value for value in values if inspect.isfunction(value)]
    assert [routine.__name__ for routine in routines if "return" not in typing.get_type_hints(routine)] == []
