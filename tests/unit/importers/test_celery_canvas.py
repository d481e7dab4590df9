"""Chains, groups and chords of Celery apps: those that are kept become workflows, those in code are told."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import celery
import pytest
from celery import Celery, chain, chord, group, signature
from celery.schedules import crontab

import mainspring
from mainspring import App
from mainspring.cli.imported_canvas import weave
from mainspring.importers.app_text import write_app
from mainspring.importers.celery import read_celery
from mainspring.importers.celery_options import tell_code
from mainspring.importers.celery_source import tell_source
from mainspring.importers.found import Imported
from tests.unit.importers.test_celery import NOW, make_app


def add(x: int, y: int) -> int:
    return x + y


def tsum(numbers: list[int]) -> int:
    return sum(numbers)


def tell() -> None: ...


def make_tasks(**options: Any) -> Celery:
    app = make_app("Europe/Berlin")
    for function in (add, tsum, tell):
        app.task(shared=False, name=f"shop.{function.__name__}", **options)(function)
    return app


def beat(app: Celery, *parts: Any, **options: Any) -> Imported:
    app.finalize(auto=True)
    for number, part in enumerate(parts):
        app.add_periodic_task(crontab(hour=3, minute=0), part, name=f"nightly{number}", **options)
    return read_celery(app, "shop.celery:app", now=NOW, fires=20, weave=weave)


def tasks_of(app: Celery) -> tuple[Any, Any, Any]:
    return app.tasks["shop.add"], app.tasks["shop.tsum"], app.tasks["shop.tell"]


def test_a_chain_of_the_beat_is_a_workflow_with_the_trigger() -> None:
    app = make_tasks()
    one, _, silent = tasks_of(app)
    found = beat(app, chain(one.s(1, 2), one.s(3)).on_error(silent.si()), expires=600)
    assert found.problems == ()
    entry = found.entries[-1]
    assert entry.body == {
        "name": "nightly0",
        "cron": "0 3 * * *",
        "tz": "Europe/Berlin",
        "expires_after": 600.0,
        "workflow": {
            "result": "steps.add_2.result",
            "steps": [
                {"name": "add", "job": "shop.add", "payload": [1, 2], "after": []},
                {
                    "name": "add_2",
                    "job": "shop.add",
                    "with": {"x": {"cel": "steps.add.result"}, "y": 3},
                    "after": ["add"],
                },
                {"name": "tell", "job": "shop.tell", "after": ["add", "add_2"], "rule": "one_failed"},
            ],
        },
    }
    assert entry.theirs is not None
    assert entry.next_fires(NOW, 20) == list(entry.theirs)


def test_what_is_written_returns_what_celery_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_tasks()
    one, total, _ = tasks_of(app)
    parts = [
        chain(one.s(1, 2), one.s(3)),
        chord([one.s(1, 2), one.s(y=3, x=4)], total.s()),
        group(one.s(1, 2), chain(one.s(0, 0), one.s(7))),
        one.s(1, 2) | group(one.s(1), one.s(2).set(queue="slow", time_limit=60)) | total.s(),
        chain(one.s(1, 2), one.si(5, 6)),
    ]
    found = beat(app, *parts)
    assert found.problems == ()
    module = ModuleType("shop")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", module)
    for entry in found.entries:
        if entry.needs:
            object.__setattr__(entry, "needs", "from shop import app as celery_app")
    text = write_app(found.entries, source="it", owner="shop")
    assert "from mainspring import App, chain, group\n" in text
    assert "add_2" not in text
    assert '.set(queue="slow", timeout=60)' in text
    scope: dict[str, Any] = {}
    exec(compile(text, "jobs.py", "exec"), scope)
    ours: App = scope["app"]
    app.conf.task_always_eager = True
    with ours.testing():
        for number, part in enumerate(parts):
            (handle,) = ours.submit_sync(f"nightly{number}", [None])
            assert handle.result_sync() == part.apply_async().get()


def test_links_of_an_entry_of_the_beat() -> None:
    app = make_tasks()
    one, total, silent = tasks_of(app)
    app.conf.beat_schedule = {
        "linked": {
            "task": "shop.add",
            "schedule": 30,
            "args": (1, 2),
            "options": {"link": [one.s(1), total.si([1])], "link_error": silent.si(), "queue": "slow"},
        }
    }
    found = read_celery(app, "shop:app", now=NOW, fires=20, weave=weave)
    assert found.problems == ()
    steps = found.entries[-1].body["workflow"]["steps"]
    assert [(step["name"], step["after"]) for step in steps] == [
        ("add", []),
        ("add_2", ["add"]),
        ("tsum", ["add"]),
        ("tell", ["add", "add_2", "tsum"]),
    ]
    assert [note.message for note in found.notes] == [
        "its options queue are not imported: its tasks have their own"
    ]


def refused(make: Any, **options: Any) -> str:
    app = make_tasks(**options)
    found = beat(app, make(*tasks_of(app)))
    (problem,) = found.problems
    return f"{problem.field}: {problem.message}"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda one, *_: chain(one.s(1, 2), one.s(1).on_error(one.s(1))),
            "link_error: shop.add handles an error",
        ),
        (lambda one, *_: chain(one.s(1, 2).set(countdown=5), one.s(1)), "countdown: of one call in a chain"),
        (lambda one, *_: chain(one.s(1, 2), one.s(1, 2)), "chain[1].payload: does not fit 'shop.add'"),
        (lambda one, *_: chain(one.s(1, 2), signature("gone")), "task: 'gone' is no task of this app"),
        (
            lambda one, *_: chain(one.starmap([(1, 2)]), one.s(1)),
            "task: is a starmap: write a step for each item",
        ),
        (lambda one, *_: chain(one.s(1, NOW), one.s(1)), "chain[0].y: must be int, not datetime"),
        (
            lambda one, *_: chain(one.s(1, 2).set(link=one.s(1)), one.s(1)),
            "link: runs one task after another",
        ),
        (lambda one, *_: chain(one.s(1, 2), one.s(1).set(shadow="x")), "shadow: is no option of a step"),
    ],
)
def test_what_cannot_be_had_is_refused(make: Any, words: str) -> None:
    assert words in refused(make)


def test_a_queue_of_its_own_is_refused_for_a_task_with_a_rate() -> None:
    def make(one: Any, *_: Any) -> Any:
        return chain(one.s(1, 2).set(queue="slow"), one.s(1))

    assert "set: job 'shop.add' has rate" in refused(make, rate_limit="10/m")


def test_canvases_of_a_module_are_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_tasks()
    one, total, _ = tasks_of(app)
    module = ModuleType("shop_canvases")
    vars(module).update(
        both=chain(one.s(1, 2), one.s(3)),
        late=chain(one.s(1), one.s(2)),
        many=one.starmap([(1, 2)]),
        _private=chain(one.s(1, 2), one.s(3)),
    )
    monkeypatch.setitem(sys.modules, "shop_canvases", module)
    monkeypatch.setattr(type(one), "__module__", "shop_canvases", raising=False)
    monkeypatch.setattr(total, "__module__", "shop_canvases", raising=False)
    found = read_celery(app, "shop:app", now=NOW, fires=20, weave=weave)
    assert [entry.name for entry in found.entries if entry.canvas] == ["both"]
    words = {note.place: note.message for note in found.notes}
    assert words["shop_canvases.both"].startswith(
        "is the workflow 'both': where code submits it, write app.submit"
    )
    assert words["shop_canvases.late"].startswith(
        "still goes to Celery, as it cannot be a workflow: chain[0].payload"
    )
    assert "shop_canvases._private" not in words


# -- source ------------------------------------------------------------------------------------------------------------


one = Celery(set_as_current=False).task(shared=False)(add)


def submit_all(urls: list[str], body: Any) -> None:
    chain(one.s(urls[0]), one.s("x")).apply_async(countdown=10)
    chain(one.s(), one.s("x")).apply_async((1, 2), eta=urls)
    celery.chord([one.s(url) for url in urls])(body.s())
    (one.s(urls[0]) | body.s()).delay()
    chain(one.s(), body.s())("a")
    one.chunks([(1, 2)], 10).delay()
    group(one.s(url) for url in urls).link_error(body.si())
    one.delay()


def use_others(words: list[str]) -> set[Any]:
    from itertools import chain

    found = re.match("a", "a")
    assert found is not None
    return {*chain(words, words), *map(str, words), found.group(0)} | {ThreadPoolExecutor().map(str, words)}


def import_within() -> None:
    from celery import chain as in_turn

    in_turn(one.s(1, 2), one.s(3)).delay()


def test_what_only_has_the_names_of_canvases_is_none() -> None:
    assert tell_source(use_others) == ([], [])
    told = tell_source(import_within)
    assert told is not None
    assert told[0][0].endswith(
        "write chain(one.s(1, 2), one.s(3)).enqueue_sync(), with from mainspring import chain"
    )


def test_the_page_shows_what_is_told() -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "coming-from-celery.md").read_text()
    fetch = store = one

    def start(urls: list[str]) -> None:
        chord([fetch.s(u) for u in urls])(store.s())

    told = tell_source(start)
    assert told is not None
    assert f"note: task shop.start: line 14: {told[0][0].partition(': ')[2]}\n" in page


def test_canvases_in_code_are_told_with_how_they_are_written() -> None:
    told = tell_source(submit_all)
    assert told is not None
    canvases, submits = told
    assert submits == ["delay"]
    written = [text.partition("; ")[2].partition(", with")[0] for text in canvases]
    assert written == [
        "write chain(one.s(urls[0]), one.s('x')).options(delay=10).enqueue_sync()",
        "write chain(one.s(), one.s('x')).options(run_at=urls).enqueue_sync(1, 2)",
        "write chord([one.s(url) for url in urls], body.s()).enqueue_sync()",
        "write (one.s(urls[0]) | body.s()).enqueue_sync()",
        "write chain(one.s(), body.s()).enqueue_sync('a')",
        "here, App.workflow(…).map(…) runs a step for each item of a list, and f.enqueue_many([…]) submits many runs",
        "write group((one.s(url) for url in urls)).on_error(body.si())",
    ]
    first = submit_all.__code__.co_firstlineno
    assert [text.partition(":")[0] for text in canvases] == [f"line {first + line}" for line in range(1, 8)]


def test_what_is_told_runs_here() -> None:
    app = App()
    ours = app.job("one")(lambda x="", *more: [x, *more])
    names = {name: getattr(mainspring, name) for name in ("chain", "chord", "group")}
    scope: dict[str, Any] = {**names, "one": ours, "body": ours, "urls": ["a", "b"]}
    told = tell_source(submit_all)
    assert told is not None
    with app.testing():
        for text in told[0]:
            code = text.partition("write ")[2].partition(", with")[0]
            if code and "run_at" not in code:
                eval(code, scope)
        assert len(list(app.sync.runs())) > 5


def test_without_the_source_the_names_are_told() -> None:
    app = make_app()
    scope: dict[str, Any] = {"chain": chain}
    exec("def task():\n    chain(task.s()).delay()", scope)
    made = app.task(shared=False, name="t")(scope["task"])
    assert tell_code(made) == [
        "uses chain, which still goes to Celery; write it like chain(a.s(1), b.s()).enqueue_sync()",
        "calls delay, which still goes to Celery: submit with app.submit_sync(NAME, [PAYLOAD]) instead",
    ]
