"""Calls that are put together with `chain`, `group` and `chord`."""

from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_type_hints

import pytest

from mainspring import App, Batch, Call, InvalidInput, Signature, chain, chord, group
from mainspring.core.definition.steps import STEP_OPTIONS
from mainspring.errors import InvalidFields
from mainspring.sdk.canvas_runs import define
from mainspring.sdk.signatures import Canvas, SignatureOptions
from mainspring.sdk.workflow import StepOptions

app = App(name="shop")


@app.job()
def fetch(url: str) -> str:
    return f"<{url}>"


@app.job(retry={"max_retries": 2, "delay": 1}, queue="slow")
def parse(page: str, depth: int = 1) -> list[str]:
    return [page] * depth


@app.job("shop.Store-All")
def store(rows: list[str], *, table: str) -> int:
    return len(rows)


@app.job()
def listed(*rows: object) -> list[object]:
    return list(rows)


@app.job(rate="10/s")
def limited(page: str) -> None: ...


@app.job(concurrency={"limit": 1, "key": "$.customer"})
def charge(amount: int, customer: str = "nobody") -> str:
    return f"{customer}: {amount}"


@app.job(retries=0)
def fail(*_: object) -> None:
    raise ValueError("no paper")


@app.job()
def note(error: str, where: str = "") -> str:
    return error + where


@app.job(batch=Batch(size=2, wait=0))
def batched(calls: list[Call[int]]) -> None: ...


# -- what they become --------------------------------------------------------------------------------------------------


def test_a_shape_is_a_workflow_and_arguments_are_the_payload_of_its_run() -> None:
    made = define(chain(fetch.s("a"), parse.s(depth=2), store.s(table="t")))
    assert made.body["workflow"] == {
        "result": "steps.store_all.result",
        "steps": [
            {"name": "fetch", "job": "fetch", "with": {"cel": "input.fetch"}, "after": []},
            {
                "name": "parse",
                "job": "parse",
                "with": {"page": {"cel": "steps.fetch.result"}, "depth": {"cel": "input.parse.depth"}},
                "after": ["fetch"],
            },
            {
                "name": "store_all",
                "job": "shop.Store-All",
                "with": {"rows": {"cel": "steps.parse.result"}, "table": {"cel": "input.store_all.table"}},
                "after": ["parse"],
            },
        ],
    }
    assert made.payload == {"fetch": ["a"], "parse": {"depth": 2}, "store_all": {"table": "t"}}
    again = define(chain(fetch.s("b"), parse.s(depth=7), store.s(table="u")))
    assert again.body == made.body
    assert define(chain(fetch.s("b"), parse.s(), store.s(table="u"))).name != made.name
    assert made.name.startswith("chain:fetch,parse,shop.Store-All:")


def test_calls_of_one_job_get_numbers() -> None:
    made = define(group(fetch.s(str(number)) for number in range(3)))
    assert [step["name"] for step in made.body["workflow"]["steps"]] == ["fetch", "fetch_2", "fetch_3"]
    assert (
        made.body["workflow"]["result"] == "[steps.fetch.result, steps.fetch_2.result, steps.fetch_3.result]"
    )


def test_the_job_is_made_once_and_made_again_if_it_was_deleted() -> None:
    whole = chain(fetch.s("a"), parse.s())
    with app.testing():
        assert whole.enqueue_sync().result_sync() == ["<a>"]
        assert whole.enqueue_sync().result_sync() == ["<a>"]
        jobs = [job for job in app.sync.jobs() if job.name.startswith("chain:")]
        assert len(jobs) == 1
        assert [run.job_version for run in app.sync.runs(job_id=jobs[0].job_id)] == [1, 1]
        app.sync.delete_job(jobs[0].job_id)
        assert whole.enqueue_sync().result_sync() == ["<a>"]


async def test_it_is_submitted_from_an_event_loop_and_with_options() -> None:
    whole = chain(fetch.s(), parse.s())
    async with app.testing() as t:
        run = await whole.options(delay="1h", idempotency_key="k").enqueue("a")
        assert (await whole.options(delay="1h", idempotency_key="k").enqueue("a")).id == run.id
        assert (await run.get()).status == "PENDING"
        await t.jump("1h")
        assert await run.result() == ["<a>"]
        assert await whole.enqueue("b") != run


def test_runs_of_steps_are_runs_of_their_jobs() -> None:
    with app.testing() as t:
        chain(fetch.s("a"), parse.s()).enqueue_sync()
        assert [run.job for run in t.runs][1:] == ["fetch", "parse"]
        assert app.sync.get_run(t.runs[2].id).queue == "slow"


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_a_default_that_a_key_names_goes_along() -> None:
    with app.testing():
        assert chain(charge.si(4), listed.s()).enqueue_sync().result_sync() == ["nobody: 4"]
        assert chain(charge.si(4), parse.s(2), listed.s()).enqueue_sync().result_sync() == [["nobody: 4"] * 2]


def test_a_batched_job_gets_one_value() -> None:
    step = define(chain(fetch.s("a"), batched.s())).body["workflow"]["steps"][1]
    assert step["with"] == {"cel": "steps.fetch.result"}
    with pytest.raises(InvalidInput, match=r"^chain\[1\].payload: of a run of 'batched' is one value"):
        define(chain(fetch.s("a"), batched.s(1)))


def test_values_go_by_their_annotations() -> None:
    other = App()

    @dataclass
    class Point:
        x: int

    @other.job()
    def move(point: Point, by: timedelta = timedelta(0)) -> Point:
        return Point(point.x + int(by.total_seconds()))

    with other.testing():
        run = chain(move.s(Point(1)), move.s(by=timedelta(seconds=5))).enqueue_sync()
        assert run.result_sync() == {"x": 6}


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        (
            chain(fetch.s("a"), parse.s(1, 2)),
            r"chain\[1\].payload: does not fit 'parse': too many positional",
        ),
        (chain(fetch.s()), r"chain\[0\].payload: does not fit 'fetch': missing a required argument: 'url'"),
        (chain(fetch.s("a"), group(parse.s(), store.s())), r"chain\[1\].group\[1\].payload: does not fit"),
        (chain(fetch.s("a"), parse.s(depth="x")), r"chain\[1\].depth: must be"),
        (chain(fetch.s("a"), listed.s(x=1)), r"chain\[1\].payload: does not fit 'listed'"),
        (group(fetch.s(str(place)) for place in range(200)), r"group: gets a list of what 200 calls return"),
        (
            chord([fetch.s("a")] * 200, listed.s()),
            r"chain\[1\]: gets a list of what 200 calls return; .*enqueue_many",
        ),
        (
            chain(fetch.s("a"), limited.s().set(queue="x")),
            r"chain\[1\].set: job 'limited' has rate, which only",
        ),
        (chain(fetch.s("a"), charge.s().set(queue="x")), r"chain\[1\].set: job 'charge' has concurrency"),
    ],
)
def test_parts_that_do_not_go_together(whole: Canvas, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}"):
        define(whole)


def test_a_large_group_may_be_followed_by_what_needs_no_list() -> None:
    with app.testing() as t:
        large = group(fetch.s(str(place)) for place in range(200))
        assert chain(large, charge.si(4), listed.s()).enqueue_sync().result_sync() == ["nobody: 4"]
        assert len(t.runs) == 203


def test_jobs_of_two_tenants_do_not_go_together() -> None:
    other = App(tenant="other").job("theirs")(lambda: None)
    with pytest.raises(
        InvalidInput, match=r"^theirs: is a job of tenant 'other', and 'fetch' one of 'default'"
    ):
        define(chain(fetch.s("a"), other.si()))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "chain: is empty"),
        (([],), "chain: is empty"),
        ((1,), "chain: takes signatures, like f.s"),
        (("ab",), "chain: takes signatures"),
        ((fetch.s("a"), parse), r"chain\[1\]: must be a signature, like f.s\(…\), not"),
    ],
)
def test_what_is_no_signature(parts: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}"):
        chain(*parts)


# -- options -----------------------------------------------------------------------------------------------------------


def test_a_call_with_options_of_its_own_calls_the_function() -> None:
    made = define(
        chain(fetch.s("a"), parse.s().set(retries=9, priority="HIGH").set(timeout=timedelta(minutes=1)))
    )
    assert made.body["workflow"]["steps"][1] == {
        "name": "parse",
        "function": "parse",
        "retry": {"max_retries": 9, "delay": 1},
        "queue": "slow",
        "priority": "HIGH",
        "timeout": 60.0,
        "with": {"page": {"cel": "steps.fetch.result"}},
        "after": ["fetch"],
    }


def test_options_of_a_signature_are_those_of_steps() -> None:
    own = get_type_hints(SignatureOptions).keys()
    assert own < get_type_hints(StepOptions).keys()
    assert own >= {"priority", "queue", "labels", "retry", "delivery", "timeout", "soft_timeout"}
    assert own - {"retries", "retry_on", "no_retry_on"} <= set(STEP_OPTIONS.by_form)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("countdown", r"the whole can wait: chain\(…\).options\(delay=…\)"),
        ("immutable", r"f.si\(…\) takes nothing"),
        ("link_error", "on_error"),
        ("time_limit", "is no option of a signature; it has priority, queue"),
    ],
)
def test_options_of_celery_are_refused_with_what_to_use(name: str, message: str) -> None:
    options: Any = {name: 1}
    with pytest.raises(InvalidInput, match=f"^{name}: .*{message}"):
        fetch.s("a").set(**options)


@pytest.mark.parametrize(
    ("what", "name", "message"),
    [
        (fetch, "apply_async", r"f.enqueue\(…\)"),
        (fetch, "chunks", r"App.workflow\(…\).map\(…\)"),
        (fetch, "signature", r"f.s\(…\)"),
        (fetch, "enqeue", "^job 'fetch' has no 'enqeue'$"),
        (fetch.s("a"), "delay", r"fetch.enqueue\(…\)"),
        (fetch.s("a"), "link", r"chain\(a, b\)"),
        (fetch.s("a"), "starmap", r"enqueue_many"),
        (chain(fetch.s("a")), "apply_async", r"enqueue_sync\(…\) submits it"),
        (chain(fetch.s("a")), "link_error", r"on_error\(…\)"),
        (chain(fetch.s("a")), "x", "^a chain or group has no 'x'$"),
    ],
)
def test_names_of_celery_are_refused_with_what_to_use(what: object, name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(what, name)


def test_a_chain_is_not_called() -> None:
    whole: Any = chain(fetch.s("a"))
    with pytest.raises(TypeError, match=r"^chain\(fetch.s\('a'\)\) is not called; .*enqueue"):
        whole()


# -- errors ------------------------------------------------------------------------------------------------------------


def test_a_failure_ends_a_chain_and_its_handler_gets_the_error() -> None:
    with app.testing(raise_errors=False) as t:
        run = chain(fetch.s("a"), fail.s(), listed.s()).on_error(note.s(where="!")).enqueue_sync()
        assert run.get_sync().status == "FAILED"
        assert [one.job for one in t.runs][1:] == ["fetch", "fail", "note"]
        assert t.runs[3].result == "ValueError: no paper!"


def test_a_handler_of_one_call_and_one_that_takes_nothing() -> None:
    with app.testing(raise_errors=False) as t:
        group(fetch.s("a").on_error(note.s()), fail.s().on_error(listed.si("it"))).enqueue_sync()
        assert sorted(one.job for one in t.runs[1:]) == ["fail", "fetch", "listed"]
        assert t.runs[-1].result == ["it"]


def test_the_body_of_a_chord_does_not_run_if_a_part_fails() -> None:
    with app.testing(raise_errors=False) as t:
        run = chord([fetch.s("a"), fail.s()], listed.s()).enqueue_sync()
        assert run.get_sync().status == "FAILED"
        assert "listed" not in {one.job for one in t.runs}


def test_without_a_failure_the_handler_is_skipped() -> None:
    with app.testing() as t:
        assert chain(fetch.s("a"), parse.s()).on_error(note.s()).enqueue_sync().result_sync() == ["<a>"]
        assert "note" not in {one.job for one in t.runs}


def test_a_handler_is_a_signature() -> None:
    with pytest.raises(InvalidInput, match=r"^handler: must be a signature"):
        chain(fetch.s("a")).on_error(note)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^on_error: cannot get the error of one of 120 calls; use .si"):
        define(chain(fetch.s("a"), *[parse.si("a")] * 119).on_error(note.s()))


# -- within a workflow that has a name ---------------------------------------------------------------------------------


def test_they_are_added_to_a_workflow() -> None:
    shop = App()
    get, keep = shop.job("get")(fetch), shop.job("keep")(store)
    nightly = shop.workflow("nightly", cron="0 3 * * *")
    first = nightly.step("first", "begin")
    added = nightly.add(chain(get.s(nightly.input.url), keep.s(table="t")), after=first)
    nightly.returns(added.result)
    nightly.step("last", "end", after=added.steps)
    assert nightly.definition["workflow"] == {
        "result": "steps.keep.result",
        "steps": [
            {"name": "first", "function": "begin", "after": []},
            {"name": "get", "job": "get", "with": {"url": {"cel": "input.url"}}, "after": ["first"]},
            {
                "name": "keep",
                "job": "keep",
                "with": {"rows": {"cel": "steps.get.result"}, "table": "t"},
                "after": ["get"],
            },
            {"name": "last", "function": "end", "after": ["keep"]},
        ],
    }


def test_arguments_without_names_are_written_as_an_expression() -> None:
    shop = App()
    get, every = shop.job("get")(fetch), shop.job("every")(listed)
    named = shop.workflow("named")
    named.add(chain(get.s("a"), every.s(1, None, 'x"ü', {"a": [True]})))
    with shop.testing():
        expected = ["<a>", 1, None, 'x"ü', {"a": [True]}]
        assert chain(get.s("a"), every.s(*expected[1:])).enqueue_sync().result_sync() == expected
        named.returns("steps.every.result")
    with shop.testing():
        assert named.enqueue_sync().result_sync() == expected


def test_what_looks_like_an_expression_is_refused_where_it_would_be_one() -> None:
    shop = App()
    get, keep = shop.job("get")(fetch), shop.job("keep")(listed_by_name)
    with pytest.raises(InvalidInput, match=r"^chain\[1\].how: must be no object with 'cel' alone"):
        shop.workflow("w").add(chain(get.s("a"), keep.s(how={"cel": "1 + 1"})))


def listed_by_name(page: str, how: object) -> list[object]:
    return [page, how]


def test_what_a_workflow_is_given_needs_a_workflow() -> None:
    nightly = App().workflow("nightly")
    with pytest.raises(InvalidInput, match=r"^fetch: gets what a workflow is given; add it to that"):
        define(chain(fetch.s(nightly.input)))


def test_a_wrong_option_says_where_it_was_written() -> None:
    shop = App()
    get = shop.job("get")(fetch)
    with pytest.raises(InvalidFields) as caught:
        shop.workflow("w").add(get.s("a").set(queue="no queue!\n"))
    assert "test_canvas.py" in caught.value.__notes__[0]


def test_a_wrong_option_of_a_call_is_told_where_it_is_submitted() -> None:
    with app.testing(), pytest.raises(InvalidInput, match=r"^workflow\.steps\[1\]\.timeout: "):
        chain(fetch.s("a"), parse.s().set(timeout="soon")).enqueue_sync()


def test_a_reference_within_an_argument_is_refused() -> None:
    shop = App()
    keep = shop.job("keep")(listed_by_name)
    nightly = shop.workflow("nightly")
    with pytest.raises(
        InvalidInput, match=r"^keep\.args\.a: input must be the payload, or one of its fields"
    ):
        nightly.add(keep.s("x", {"a": nightly.input}))


def test_jobs_and_signatures_can_be_copied() -> None:
    assert copy(fetch).name == "fetch"
    assert repr(copy(chain(fetch.s("a")))) == "chain(fetch.s('a'))"


def test_they_show_what_they_are() -> None:
    whole = fetch.s("a", depth=1) | group(parse.si(), chain(listed.s()))
    assert isinstance(fetch.s(), Signature)
    assert repr(whole) == "chain(fetch.s('a', depth=1), group(parse.si(), chain(listed.s())))"
