"""What packages add is checked when a process starts, and a refusal names the package."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from mainspring.config.settings import Settings, StoreLocation
from mainspring.core.kinds import Whole
from mainspring.core.options import Option, Options
from mainspring.core.targets import TargetType
from mainspring.core.targets.function import FunctionType
from mainspring.core.targets.http import HttpType
from mainspring.core.targets.shell import ShellType
from mainspring.core.triggers import TriggerType
from mainspring.core.triggers.cron import CronType
from mainspring.core.triggers.interval import IntervalType
from mainspring.core.types import Types
from mainspring.errors import InvalidInput, PluginError
from mainspring.plugins import ExecutorContext, Plugins
from mainspring.registry import FunctionRegistry

OPTIONS = Options(Option(name="n", kind=Whole(1, 9), summary="A number."))


@dataclass(frozen=True)
class Value:
    n: int

    def next_after(self, instant: datetime) -> datetime | None:
        return instant + timedelta(seconds=self.n)

    def previous_before(self, instant: datetime) -> datetime | None:
        return instant - timedelta(seconds=self.n)


def trigger(name: str = "new", *, value: Any = Value, options: Any = OPTIONS, **short: str) -> TriggerType:
    made = type(
        "NewType", (TriggerType,), {"name": name, "summary": "", "value": value, "options": options}
    )()
    type(made).short = short
    return cast("TriggerType", made)


class FaxType(TargetType):
    name = "fax"
    summary = "Sends a fax."
    options = OPTIONS
    switch: ClassVar[str | None] = None


class FaxExecutor:
    type = "fax"

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def execute(self, context: object) -> None: ...


class Entry:
    """An entry point of package `acme 2.1`, with its object at hand."""

    def __init__(self, group: str, name: str, found: Any) -> None:
        self.group = f"mainspring.{group}"
        self.name = name
        self.value = f"acme:{name}"
        self.dist = SimpleNamespace(name="acme", version="2.1")
        self._found = found

    def load(self) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def load(*entries: Entry) -> Plugins:
    def find(group: str) -> list[EntryPoint]:
        return [cast("EntryPoint", entry) for entry in entries if entry.group == group]

    triggers: Types[TriggerType] = Types("trigger", CronType(), IntervalType())
    targets: Types[TargetType] = Types("target", HttpType(), FunctionType(), ShellType())
    return Plugins(find, triggers=triggers, targets=targets)


def refusal(*entries: Entry) -> str:
    with pytest.raises(PluginError) as caught:
        load(*entries)
    assert str(caught.value).startswith("package acme 2.1: ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Entry("triggers", "cron", trigger("cron")), "the trigger type 'cron' exists already"),
        (Entry("triggers", "new", trigger("other")), "`name` is 'other'; give both the same name"),
        (Entry("triggers", "new", type(trigger())), "not the class NewType; call the class"),
        (
            Entry("triggers", "new", 7),
            "must be an instance of mainspring.core.triggers.TriggerType, not a int",
        ),
        (Entry("triggers", "new", FaxType()), "must be an instance of mainspring.core.triggers.TriggerType"),
        (Entry("triggers", "new", ImportError("no lunar")), "cannot be loaded: ImportError: no lunar"),
        (Entry("triggers", "new", trigger(value=int)), "value: must be a class with the methods next_after"),
        (Entry("triggers", "new", trigger(options=[])), "options: must be Options"),
        (Entry("triggers", "new", trigger(queue="n")), "the field 'queue' of a job is taken"),
        (Entry("triggers", "new", trigger(every="n")), "the field 'every' of a job is taken"),
        (Entry("triggers", "new", trigger(callback_url="n")), "the field 'callback_url' of a job is taken"),
        (
            Entry("triggers", "new", trigger(fresh="m")),
            "'fresh' stands for 'm', which is not among the options",
        ),
        (Entry("targets", "fax", trigger()), "must be an instance of mainspring.core.targets.TargetType"),
        (Entry("executors", "fax", FaxExecutor), "there is no target type 'fax'; add one to the group"),
        (Entry("executors", "http", FaxExecutor), "the name 'http' is taken by mainspring"),
        (Entry("stores", "sqlite", print), "sqlite:// is Mainspring's own; choose another scheme"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(entry: Entry, words: str) -> None:
    assert words in refusal(entry)


def test_two_packages_cannot_have_one_name() -> None:
    twice = [Entry("stores", "toy", print), Entry("stores", "toy", print)]
    assert "the name 'toy' is taken by package acme 2.1; uninstall one of the two" in refusal(*twice)


def context() -> ExecutorContext:
    return ExecutorContext(settings=Settings(), functions=FunctionRegistry(), slots=1)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (7, "must be callable, not a int"),
        (
            lambda _: 7,
            "must return a mainspring.ports.executor.Executor (type, start, execute, stop), not a int",
        ),
        (
            lambda _: SimpleNamespace(**{**vars(FaxExecutor), "type": "tape"}),
            "type is 'tape'; it must be 'fax'",
        ),
    ],
)
def test_an_executor_that_is_none_is_refused_when_a_worker_starts(made: Any, words: str) -> None:
    plugins = load(Entry("targets", "fax", FaxType()), Entry("executors", "fax", made))
    with pytest.raises(PluginError) as caught:
        plugins.make_executors(context())
    assert words in str(caught.value)


def test_executors_are_made_for_what_is_switched_on() -> None:
    class Switched(FaxType):
        switch: ClassVar[str | None] = "allow_shell"

    on = load(Entry("targets", "fax", FaxType()), Entry("executors", "fax", lambda _: FaxExecutor()))
    off = load(Entry("targets", "fax", Switched()), Entry("executors", "fax", lambda _: FaxExecutor()))
    assert "fax" in on.make_executors(context())
    assert "fax" not in off.make_executors(context())


def test_a_stores_scheme_is_read_where_a_package_has_it() -> None:
    plugins = load(Entry("stores", "toy", lambda url: f"the store of {url}"))
    location = StoreLocation.parse("toy://a:b@here", others=plugins.schemes)
    assert (location.scheme, location.target) == ("toy", "toy://a:b@here")
    assert "b@" not in location.label
    assert cast("object", plugins.make_store("toy", "toy://x")) == "the store of toy://x"
    with pytest.raises(InvalidInput, match="postgresql://…, sqlite:///FOLDER, toy://… or memory://"):
        StoreLocation.parse("fax://", others=plugins.schemes)
