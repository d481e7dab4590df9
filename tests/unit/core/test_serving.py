"""For whom no worker works, what is said of it, and whose code defines what."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.abilities import explain_missing
from mainspring.core.claiming import accepts_route
from mainspring.core.ids import JobId
from mainspring.core.job_findings import MOST_PROBLEMS, FindingsSoFar
from mainspring.core.job_warnings import JobWarning, warnings_of
from mainspring.core.model import Job, JobSpec, Target
from mainspring.core.owners import OwnedJob, OwnerChange, judge_owner
from mainspring.core.serving import GapCode, Offers
from mainspring.testing.factories import START, IdSequence, make_spec


@dataclass(frozen=True)
class Offer:
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    tenant: str | None = None


MAIL = Offer(queues=("mail",), functions=("send",), types=("http",), labels=("eu",))
ALL = Offer(functions=("report",), types=("shell",))
ISOLATED = Target("function", {"function": "send", "isolation": "process"})


def function(name: str, **more: object) -> JobSpec:
    return make_spec(target=Target("function", {"function": name}), **more)


@pytest.mark.parametrize(
    ("offers", "spec", "code", "sentence"),
    [
        ([], function("send"), GapCode.NO_WORKER, "No worker is alive."),
        ([MAIL], function("send"), GapCode.QUEUE_UNSERVED, "No live worker serves queue 'default'."),
        ([ALL], function("send"), GapCode.TARGET_UNSERVED, "No live worker has the function 'send'."),
        (
            [MAIL, Offer(queues=("x",), functions=("report",))],
            function("report", queue="mail"),
            GapCode.TARGET_UNSERVED,
            "No live worker of queue 'mail' has the function 'report'.",
        ),
        (
            [MAIL],
            make_spec(target=Target("shell", {"command": ["ls"]}), queue="mail"),
            GapCode.TARGET_UNSERVED,
            "No live worker runs shell commands: they are off until server and worker get --allow-shell.",
        ),
        (
            [MAIL],
            make_spec(target=Target("grpc", {}), queue="mail"),
            GapCode.TARGET_UNSERVED,
            "No live worker runs grpc jobs: they are off until server and worker get executors.grpc.enabled.",
        ),
        (
            [MAIL],
            make_spec(target=ISOLATED, queue="mail", labels=("eu",)),
            GapCode.LABELS_UNSERVED,
            f"No live worker that could run it {explain_missing({'*process'})}.",
        ),
        (
            [replace(MAIL, labels=("*process",))],
            make_spec(target=ISOLATED, queue="mail", labels=("gpu",)),
            GapCode.LABELS_UNSERVED,
            "No live worker that could run it offers the label 'gpu'.",
        ),
        (
            [MAIL],
            function("send", queue="mail", labels=("gpu",)),
            GapCode.LABELS_UNSERVED,
            "No live worker that could run it offers the label 'gpu'.",
        ),
        (
            [MAIL],
            function("send", queue="mail", labels=("eu", "gpu")),
            GapCode.LABELS_UNSERVED,
            "No live worker that could run it offers all the labels 'eu', 'gpu'.",
        ),
        (
            [replace(MAIL, tenant="bank"), replace(ALL, tenant="mine")],
            function("send", queue="mail"),
            GapCode.TENANT_UNSERVED,
            "No live worker works for tenant 'shop'.",
        ),
        (
            [replace(MAIL, tenant="bank"), replace(ALL, tenant="shop")],
            function("send"),
            GapCode.TARGET_UNSERVED,
            "No live worker has the function 'send'.",
        ),
    ],
)
def test_gap_names_what_nobody_serves(
    offers: list[Offer], spec: JobSpec, code: GapCode, sentence: str
) -> None:
    gap = Offers(offers).find_gap(spec.queue, spec.route, "shop")
    assert gap is not None
    assert (gap.code, gap.sentence) == (code, sentence)


def test_no_gap_where_a_worker_serves() -> None:
    offers = Offers([MAIL, replace(ALL, tenant="shop"), replace(ALL, tenant="bank")])
    for spec in (
        function("send", queue="mail", labels=("eu",)),
        function("report"),
        function("report", queue="x"),
    ):
        assert offers.find_gap(spec.queue, spec.route, "shop") is None


words = st.sampled_from(["a", "b", "c+d", "e%"])
sets = st.frozensets(words, max_size=2)
tenants = st.sampled_from(["shop", "bank"])


@given(
    offers=st.lists(
        st.builds(
            Offer,
            queues=sets,
            types=st.just(("http",)),
            functions=sets,
            labels=sets,
            tenant=st.none() | tenants,
        ),
        max_size=4,
    ),
    queue=words,
    name=words,
    labels=sets,
    tenant=tenants,
)
def test_there_is_a_gap_exactly_if_no_offer_can_execute(
    offers: list[Offer], queue: str, name: str, labels: frozenset[str], tenant: str
) -> None:
    spec = function(name, queue=queue, labels=tuple(sorted(labels)))
    able = any(
        (not offer.queues or queue in offer.queues)
        and offer.tenant in {None, tenant}
        and accepts_route(
            spec.route,
            types=frozenset(offer.types),
            functions=frozenset(offer.functions),
            labels=frozenset(offer.labels),
        )
        for offer in offers
    )
    known = Offers(offers)
    assert (known.find_gap(queue, spec.route, tenant) is None) == able
    own = [offer for offer in offers if offer.tenant in {None, tenant}]
    assert known.has_function(name, tenant) == any(name in offer.functions for offer in own)
    other = "shop" if tenant == "bank" else "bank"
    known.find_gap(queue, spec.route, other)
    assert (known.find_gap(queue, spec.route, tenant) is None) == able, (
        "what is kept of others is not its own"
    )


JOB = Job(
    id=IdSequence().new_job_id(),
    tenant="default",
    spec=make_spec(),
    version=1,
    revision=1,
    is_paused=False,
    next_fire_at=START,
    fired_through=None,
    created_at=START,
    updated_at=START,
)


def test_warning_of_an_undefined_job_tells_that_it_fires() -> None:
    (warning,) = warnings_of(replace(JOB, owner="shop", undefined_since=START), None)
    assert warning.code == "undefined"
    assert warning.sentence == (
        "The code of shop does not define it any more, since 2026-01-05T12:00:00.000Z; it fires next at "
        "2026-01-05T12:00:00.000Z."
    )
    assert warnings_of(JOB, None) == ()


def test_findings_are_bounded_however_many_jobs_have_problems() -> None:
    found = FindingsSoFar()
    for number in range(100):
        found.add(f"job {number}", [JobWarning("queue_unserved", f"queue {number}", "…")])
        found.add(f"other {number}", [JobWarning("no_worker", "", "…")])
        found.add(f"fine {number}", [])
    findings = found.sum_up(START)
    assert (findings.jobs, findings.warned, len(findings.problems)) == (300, 200, MOST_PROBLEMS)
    assert (findings.problems[0].code, findings.problems[0].jobs) == ("no_worker", 100)
    assert findings.problems[0].examples == ("other 0", "other 1", "other 2")


names = st.sampled_from("abcdef")
_IDS = IdSequence()
KNOWN = {name: _IDS.new_job_id() for name in "abcdef"}


@given(
    wanted=st.frozensets(names),
    jobs=st.dictionaries(names, st.tuples(st.sampled_from([None, "me", "you"]), st.booleans())),
)
def test_owner_takes_what_it_names_and_drops_only_its_own(
    wanted: frozenset[str], jobs: dict[str, tuple[str | None, bool]]
) -> None:
    known = [OwnedJob(JobId(KNOWN[name]), name, owner, fine) for name, (owner, fine) in jobs.items()]
    change = judge_owner("me", wanted, known)
    after = {name: "me" if name in wanted else owner for name, (owner, _) in jobs.items()}
    defined, undefined = set(change.defined), set(change.undefined)
    assert not defined & undefined
    assert {job.name for job in known if job.id in undefined} <= {
        name for name, (owner, _) in jobs.items() if owner == "me" and name not in wanted
    }
    assert all(after[job.name] == "me" for job in known if job.id in defined)
    assert set(change.missing) == wanted - jobs.keys()
    again = judge_owner("me", wanted, [after_change(job, after, change) for job in known])
    assert (again.defined, again.undefined, again.taken) == ((), (), ())


def after_change(job: OwnedJob, owners: dict[str, str | None], change: OwnerChange) -> OwnedJob:
    is_defined = job.id in change.defined or (job.is_defined and job.id not in change.undefined)
    return replace(job, owner=owners[job.name], is_defined=is_defined)
