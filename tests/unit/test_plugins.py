"""What packages add is checked when a process starts, and a refusal names the package."""

import os
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from mainspring.clock import host_time
from mainspring.config.processes import check, settings_of
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.config.settings import Settings, StoreLocation
from mainspring.config.sources import Choices, read_sources
from mainspring.config.table import SETTINGS
from mainspring.core.kinds import Whole
from mainspring.core.options import Option, Options
from mainspring.core.targets import BUILT_IN, TARGETS, TargetType
from mainspring.core.triggers import TriggerType
from mainspring.core.triggers.cron import CronType
from mainspring.core.triggers.interval import IntervalType
from mainspring.core.types import Types
from mainspring.errors import InvalidInput, PluginError
from mainspring.executors.context import ExecutorContext
from mainspring.plugins import Plugins
from mainspring.ports.store import StoreCapabilities
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.testing.factories import START

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
    targets: Types[TargetType] = Types("target", *(TARGETS.by_name[name] for name in BUILT_IN))
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
    return ExecutorContext(
        settings=Settings(),
        functions=FunctionRegistry(),
        slots=1,
        secrets=ConfiguredSecrets(()),
        host_time=lambda: START,
    )


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
    urls: list[str] = []

    def make(url: str) -> MemoryStore:
        urls.append(url)
        return MemoryStore(time=host_time)

    plugins = load(Entry("stores", "toy", make))
    location = StoreLocation.parse("toy://a:b@here", others=plugins.schemes)
    assert (location.scheme, location.target) == ("toy", "toy://a:b@here")
    assert "b@" not in location.label
    assert isinstance(plugins.make_store("toy", "toy://x"), MemoryStore)
    assert urls == ["toy://x"]
    with pytest.raises(InvalidInput, match="postgresql://…, sqlite:///FOLDER, toy://… or memory://"):
        StoreLocation.parse("fax://", others=plugins.schemes)


class SharedStore(MemoryStore):
    """Says that several processes may have it."""

    @property
    def capabilities(self) -> StoreCapabilities:
        return replace(super().capabilities, concurrent_writers=True)


def chosen(name: str, level: str = "flag") -> Choices:
    """Return the choices of a server that leaves one half out, on the store of a package."""
    if level == "flag":
        return read_sources({"store": "toy://a:b@here", name: True}, environment={}, config=os.devnull)
    variables = {"MAINSPRING_STORE": "toy://here", SETTINGS[name].variable: "off"}
    return read_sources(environment=variables, config=os.devnull)


@pytest.mark.parametrize(("name", "flag"), [("api.enabled", "no_api"), ("scheduler.enabled", "no_scheduler")])
def test_a_store_for_one_process_refuses_a_server_that_leaves_half_out(name: str, flag: str) -> None:
    plugins = load(Entry("stores", "toy", lambda _: MemoryStore(time=host_time)))
    message = (
        "a store of toy:// can have one process only, which must do everything; "
        "leave it out, or give --store postgresql://…"
    )
    (problem,) = check("server", chosen(name), stores=plugins)
    assert (problem.field, problem.message) == (flag, message)
    (problem,) = check("server", chosen(name, "environment"), stores=plugins)
    assert (problem.field, problem.message) == (name, f"{message} (in {SETTINGS[name].variable})")
    assert check("up", chosen(name), stores=plugins) == []


@pytest.mark.parametrize("name", ["api.enabled", "scheduler.enabled"])
def test_a_store_for_several_processes_takes_a_server_that_leaves_half_out(name: str) -> None:
    plugins = load(Entry("stores", "toy", lambda _: SharedStore(time=host_time)))
    settings = settings_of("server", chosen(name), stores=plugins)
    assert settings.store == StoreLocation("toy", "toy://a:b@here", is_shared=True)
    assert (settings.has_api, settings.has_scheduler) == (name != "api.enabled", name != "scheduler.enabled")


def test_a_store_is_made_for_its_capabilities_only_where_they_decide() -> None:
    plugins = load(Entry("stores", "toy", ImportError("no driver")))
    whole = read_sources({"store": "toy://here"}, environment={}, config=os.devnull)
    assert settings_of("server", whole, stores=plugins).store.scheme == "toy"
    with pytest.raises(PluginError, match="cannot be loaded: ImportError: no driver"):
        check("server", chosen("api.enabled"), stores=plugins)


def test_what_is_no_store_is_refused_by_name() -> None:
    plugins = load(Entry("stores", "toy", lambda _: 7))
    with pytest.raises(
        PluginError, match=r"acme 2\.1: .*must return a mainspring\.ports\.store\.Store, not a int"
    ):
        plugins.make_store("toy", "toy://here")
