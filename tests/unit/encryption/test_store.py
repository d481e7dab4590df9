"""Between engine and store: what users put in never reaches the store as it is, and comes back as it was."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.artifacts import ArtifactVerdict
from mainspring.core.checkpoints import CheckpointVerdict
from mainspring.core.ciphertexts import is_encrypted_bytes, show_hidden, why_unreadable
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import RedriveId, RunId
from mainspring.core.model import Attempt, Job, JobSpec, Run, Target
from mainspring.core.notify import UnnoticedFailure
from mainspring.core.outcomes import AttemptOutcome, Transition, succeeded
from mainspring.core.states import RunState
from mainspring.core.workflows.answers import StepAnswer
from mainspring.core.workflows.mail import FlowNotice, words_of_mail
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.waits import AnswerKind
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import Keys, make_key
from mainspring.encryption.starting import encrypt_store
from mainspring.encryption.store import EncryptedStore, encrypted
from mainspring.engine.usecases.submissions import JobForm, Submission, make_submitted_run
from mainspring.errors import CannotDecrypt, InvalidInput
from mainspring.ports.flow_codec import encode_flow_state
from mainspring.ports.store import Store
from mainspring.ports.store.applying import JobsChange
from mainspring.ports.store.artifacts import ArtifactAdded
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest
from mainspring.ports.store.flows import FlowValue, FlowVerdict, KeptFlow, PostedMail
from mainspring.ports.store.jobs import JobEdit, NewJob
from mainspring.ports.store.redrives import NewRedrive
from mainspring.ports.store.runs import NewRun
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.artifacts import make_artifact
from mainspring.testing.conformance.checkpoints import step_of
from mainspring.testing.conformance.flows import end_of, make_start, make_step_run, make_turn
from mainspring.testing.factories import (
    START,
    IdSequence,
    add_job,
    add_session,
    at,
    make_new_job,
    own_shards,
    read_job,
    running_run,
    submit,
)

CANARY = "canary-5f2d"
SPEC = JobSpec(
    name="report",
    target=Target("http", {"url": f"https://e.com/{CANARY}", "method": "POST", "headers": {"A": CANARY}}),
    payload=f'"{CANARY}"'.encode(),
)
OLD, NEW = Cipher(Keys("old", {"old": bytes(32)})), Cipher(Keys("new", {"new": b"\1" * 32, "old": bytes(32)}))
EVERYTHING = DeadFilter()


@pytest.fixture
async def bare() -> MemoryStore:
    return MemoryStore(time=FakeClock(START).now)


@pytest.fixture
async def store(bare: MemoryStore) -> Store:
    return encrypted(bare, OLD)


def holds(bare: MemoryStore) -> bool:
    """Say whether what the store keeps shows the canary."""
    leaves = list(_leaves(vars(bare), set()))
    assert any("report" in leaf for leaf in leaves), "the walk finds what stays plain"
    return any(CANARY in leaf for leaf in leaves)


def _leaves(thing: Any, seen: set[int]) -> Iterator[str]:
    """Yield the texts and bytes that a thing leads to."""
    if isinstance(thing, str | bytes):
        yield thing.decode("latin-1") if isinstance(thing, bytes) else thing
    elif id(thing) not in seen:
        seen.add(id(thing))
        inner: list[Any] = []
        if isinstance(thing, Mapping):
            inner = [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            inner = list(thing)
        elif type(thing).__module__.startswith("mainspring."):
            names = {*getattr(thing, "__dict__", ()), *getattr(type(thing), "__slots__", ())}
            inner = [getattr(thing, name, None) for name in names]
        for one in inner:
            yield from _leaves(one, seen)


async def claim(store: Store, session: Any, number: int = 0, *, after: float = 0) -> tuple[ClaimedRun, ...]:
    lanes = tuple(lane.id for lane in await store.read_lanes([]))
    request = ClaimRequest(session_id=session, number=number, lanes=lanes, limit=5)
    [result] = await store.claim_runs([request], now=at(after))
    return result.runs


def end(run: ClaimedRun, session: Any, to: RunState = RunState.FAILED, **told: Any) -> Transition:
    outcome = AttemptOutcome.SUCCEEDED if to is RunState.SUCCEEDED else AttemptOutcome.FAILED
    return Transition(run.run_id, run.token, session, to, outcome, **told)


async def test_whole_life_of_a_run(store: Store, bare: MemoryStore) -> None:
    job = await add_job(store, SPEC)
    assert job.spec == SPEC
    session = await add_session(store)
    [run_id] = await submit(store, job, payload=f'{{"a":"{CANARY}"}}'.encode())
    [claimed] = await claim(store, session)
    assert claimed.payload == f'{{"a":"{CANARY}"}}'.encode()
    told = {"error": f"{CANARY} 7", "output": CANARY}
    again = end(claimed, session, RunState.RETRYING, ready_at=at(1), counts_attempt=True, **told)
    assert await store.apply([again], now=at(1)) == [ApplyResult.APPLIED]
    [second] = await claim(store, session, 1, after=2)
    done = end(second, session, RunState.SUCCEEDED, result=f'"{CANARY}"'.encode(), output=CANARY)
    assert await store.apply([done], now=at(3)) == [ApplyResult.APPLIED]
    [run] = await store.get_runs([run_id])
    assert run is not None
    assert (run.payload, run.result, run.output) == (claimed.payload, f'"{CANARY}"'.encode(), CANARY)
    assert [(one.error, one.output) for one in await store.list_attempts(run_id)] == [
        (f"{CANARY} 7", CANARY),
        (None, CANARY),
    ]
    assert await store.newest_runs([job.id], now=at(4)) == await store.list_runs(job.tenant) == [run]
    assert not holds(bare)


async def test_whole_life_of_a_flow(store: Store, bare: MemoryStore) -> None:
    job = await add_job(store, SPEC)
    epochs = await own_shards(store)
    secret = f'"{CANARY}"'.encode()
    held = await running_run(store, job, payload=secret)
    steps = [make_step_run(job, held.run_id, step, payload=secret) for step in range(2)]
    start = make_start(job, held, runs=(steps[0],), live=1, values=(FlowValue(7, secret),))
    assert await store.start_flows([start], now=at(1)) == [FlowVerdict.STARTED]
    [flow] = await store.read_flows([held.run_id])
    assert flow is not None
    assert flow.payload == secret
    assert await store.read_flow_values([StepPlace(held.run_id, 7)]) == [secret]
    turn = await make_turn(store, held.run_id, live=2, runs=(steps[1],))
    assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [FlowVerdict.TURNED]
    assert [run.payload for run in await store.list_flow_runs(held.run_id)] == [secret] * 2
    told = FlowState(FlowPhase.OPEN, bytes([StepStatus.FAILED]), 0, b"", errors=((0, CANARY),))
    state = encode_flow_state(told)
    turn = await make_turn(store, held.run_id, state=state, values=(FlowValue(1, secret),))
    assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [FlowVerdict.TURNED]
    [flow] = await store.read_flows([held.run_id])
    assert flow is not None
    assert flow.state == state
    assert await store.read_flow_values([StepPlace(held.run_id, step) for step in (0, 1)]) == [None, secret]
    session = await add_session(store)
    first, _ = sorted(await claim(store, session, 2, after=2), key=lambda run: run.run_id)
    await store.apply([succeeded(first.run_id, first.token, session, secret)], now=at(2))
    [left] = await store.read_step_ends([StepPlace(held.run_id, 0)])
    assert left is not None
    assert left.result == secret
    other = encrypted(bare, Cipher(Keys("third", {"third": b"\2" * 32})))
    [hidden] = await other.read_flow_values([StepPlace(held.run_id, 1)])
    [unread] = await other.read_step_ends([StepPlace(held.run_id, 0)])
    assert unread is not None
    assert is_encrypted_bytes(hidden)
    assert is_encrypted_bytes(unread.result), "nothing is made of it"
    answer = StepAnswer(1, AnswerKind.REJECT, b'{"comment":"%s"}' % CANARY.encode())
    posted = [PostedMail(held.run_id, answer), PostedMail(held.run_id, FlowNotice.PAUSE)]
    await store.post_mail(posted)
    assert not holds(bare)
    [read] = [one for one in await store.read_mail(range(256), lows={}, limit=9) if one.mail == answer]
    [unread_mail, _] = (await other.read_mail(range(256), lows={}, limit=9))[-2:]
    assert is_encrypted_bytes(words_of_mail(unread_mail.mail))
    assert read.flow_id == held.run_id
    ending = await end_of(store, held.run_id, RunState.FAILED, error=CANARY, result=secret)
    turn = await make_turn(store, held.run_id, state=state, end=ending)
    assert await store.turn_flows([turn], epochs=epochs, now=at(3)) == [FlowVerdict.TURNED]
    assert await store.read_flow_states([held.run_id, RunId(7)]) == [state, None]
    [run] = await store.get_runs([held.run_id])
    assert run is not None
    assert (run.payload, run.result, run.error) == (secret, secret, CANARY)
    assert not holds(bare)


async def test_a_flow_whose_payload_cannot_be_decrypted_says_why(store: Store, bare: MemoryStore) -> None:
    job = await add_job(store, SPEC)
    held = await running_run(store, job, payload=b'"secret"')
    await store.start_flows([make_start(job, held)], now=at(1))
    other = encrypted(bare, Cipher(Keys("third", {"third": b"\2" * 32})))
    [flow] = await other.read_flows([held.run_id])
    assert flow is not None
    assert flow.payload is not None
    assert b"old" in show_hidden(flow.payload)
    assert await other.read_flows([RunId(7)]) == [None]


async def test_dead_letter_is_listed_grouped_and_settled(store: Store, bare: MemoryStore) -> None:
    job = await add_job(store, SPEC)
    session = await add_session(store)
    await submit(store, job, 2)
    runs = await claim(store, session)
    ends = [end(run, session, error=f"{CANARY} {run.run_id}") for run in runs]
    await store.apply(ends, now=at(1))
    dead = await store.list_dead(job.tenant, EVERYTHING)
    assert {one.run.error for one in dead} == {one.error for one in ends}
    [group] = await store.group_dead(job.tenant, EVERYTHING, limit=9)
    assert (group.count, group.error_group) == (2, dead[0].error_group)
    alike = DeadFilter(error_group=group.error_group)
    assert await store.count_dead(job.tenant, alike) == 2
    assert len(await store.discard_dead(job.tenant, alike, reason="seen", now=at(2), limit=9)) == 2
    assert not holds(bare)


async def test_alerts_do_not_tell_errors(store: Store) -> None:
    from mainspring.core.notify import NotifyEvent, NotifyRule

    rule = NotifyRule(on=(NotifyEvent.FAILED,), to=("ops",))
    job = await add_job(store, replace(SPEC, notify=rule))
    session = await add_session(store)
    await submit(store, job)
    [run] = await claim(store, session)
    await store.apply([end(run, session, error=CANARY)], now=at(1))
    unnoticed = await store.list_unnoticed(limit=9)
    assert unnoticed == [UnnoticedFailure(run_id=run.run_id, job_id=job.id, error=None)]
    assert await store.find_failing([(job.id, 1, at(0))]) == unnoticed


async def test_definitions_are_hidden_and_come_back(store: Store, bare: MemoryStore) -> None:
    job = await add_job(store, SPEC)
    edited = replace(SPEC, payload=f'["{CANARY}"]'.encode())
    edit = JobEdit(
        job_id=job.id, revision=job.revision, fire_at=job.next_fire_at, spec=edited, next_fire=None
    )
    await store.edit_jobs([edit], now=at(1))
    job = await read_job(store, job.id)
    assert job.spec == edited
    applied = replace(edited, timeout=timedelta(seconds=9))
    change = JobsChange(
        tenant=job.tenant,
        adds=[make_new_job(replace(SPEC, name="other"))],
        edits=[replace(edit, revision=job.revision, spec=applied)],
    )
    assert await store.apply_jobs(change, now=at(2)) is not None
    assert await store.read_versions([(job.id, 1), (job.id, 2), (job.id, 3), (job.id, 4)]) == [
        *(SPEC, edited, applied),
        None,
    ]
    await store.own_jobs(job.tenant, "app", ["report", "other"], now=at(3))
    await store.own_jobs(job.tenant, "app", ["report"], now=at(4))
    both = await store.list_jobs(job.tenant)
    assert [one.spec for one in both] == [applied, replace(SPEC, name="other")]
    assert await store.find_jobs(job.tenant, ["report", "none"]) == [both[0], None]
    assert await store.list_owned(job.tenant, "app") == await store.page_jobs() == both
    assert await store.list_undefined(job.tenant) == both[1:]
    assert not holds(bare)


async def test_rows_from_before_stay_readable_and_old_keys_still_read(bare: MemoryStore) -> None:
    job = await add_job(bare, SPEC)
    [plain] = await submit(bare, job, payload=b"1")
    first = encrypted(bare, OLD)
    assert (await read_job(first, job.id)).spec == SPEC
    [old] = await submit(first, job, payload=b"2")
    second = encrypted(bare, NEW)
    [new] = await submit(second, job, payload=b"3")
    runs = await second.get_runs([plain, old, new])
    assert [run and run.payload for run in runs] == [b"1", b"2", b"3"]
    [hidden] = await first.get_runs([new])
    assert hidden is not None
    assert hidden.payload is not None
    assert is_encrypted_bytes(hidden.payload)
    assert b"the key 'new', which is not" in show_hidden(hidden.payload)
    with pytest.raises(CannotDecrypt, match="no run can be made with it"):
        await submit(first, job, payload=hidden.payload)


async def test_run_whose_key_is_missing_goes_back_and_is_not_started(bare: MemoryStore) -> None:
    first, second = encrypted(bare, OLD), encrypted(bare, NEW)
    job = await add_job(first, SPEC)
    session = await add_session(first)
    [hidden] = await submit(second, job, payload=b"1")
    [shown] = await submit(first, job, payload=b"2")
    assert [run.run_id for run in await claim(first, session)] == [shown]
    [run] = await second.get_runs([hidden])
    assert run is not None
    assert (run.state, run.ready_at, run.attempt) == (RunState.PENDING, at(30), 1)
    assert await claim(first, session, 1, after=29) == ()
    assert [run.payload for run in await claim(second, session, 2, after=31)] == [b"1"]


async def test_run_whose_payload_was_moved_here_fails_unstarted(store: Store, bare: MemoryStore) -> None:
    mine = await add_job(store, SPEC, tenant="mine")
    other = await add_job(store, SPEC, tenant="other")
    session = await add_session(store)
    [theirs] = await submit(store, other, payload=f'"{CANARY}"'.encode())
    [ours] = await submit(store, mine, payload=b"2")
    rows = bare._tables.runs
    rows[ours].payload = rows[theirs].payload
    assert [run.run_id for run in await claim(store, session)] == [theirs]
    [dead] = await store.list_dead("mine", EVERYTHING)
    assert (dead.run.id, dead.run.reason) == (ours, "undecryptable")
    assert dead.run.error is not None
    assert dead.run.error.startswith("the payload cannot be decrypted: it was changed in the store")
    [found] = await store.get_runs([ours])
    assert found is not None
    assert is_encrypted_bytes(found.payload)
    [shown] = await store.list_runs("mine")
    assert shown.payload is not None
    assert shown.payload.startswith(b'"[cannot be decrypted: it was changed')


async def test_definition_that_was_moved_here_says_so_and_cannot_be_written_again(
    store: Store, bare: MemoryStore
) -> None:
    mine, other = await add_job(store, SPEC, tenant="mine"), await add_job(store, SPEC, tenant="other")
    versions = bare._tables.versions
    versions[mine.id, 1] = bare._tables.jobs[mine.id].spec = versions[other.id, 1]
    [listed] = await store.list_jobs("mine")
    assert await store.get_jobs([mine.id, other.id]) == [listed, other]
    assert await store.find_jobs("mine", ["report"]) == [listed]
    assert await store.read_versions([(mine.id, 1), (other.id, 1)]) == [listed.spec, SPEC]
    why, is_key_missing = why_unreadable(listed.spec.target.params)
    assert why.startswith("the definition of job job_")
    assert "it was changed in the store" in why
    assert not is_key_missing
    assert listed.spec.payload is None
    assert CANARY not in repr(listed)
    edit = JobEdit(job_id=mine.id, revision=mine.revision, fire_at=None, spec=listed.spec, next_fire=None)
    with pytest.raises(CannotDecrypt, match="write it anew"):
        await store.edit_jobs([edit], now=at(1))


async def test_end_of_an_unknown_run_writes_nothing(store: Store) -> None:
    job = await add_job(store, SPEC)
    session = await add_session(store)
    await submit(store, job)
    [run] = await claim(store, session)
    gone = end(replace(run, run_id=type(run.run_id)(run.run_id + 256)), session, error=CANARY)
    assert await store.apply([gone], now=at(1)) == [ApplyResult.MISSING]


async def test_ends_are_encrypted_for_runs_that_another_process_gave_out(bare: MemoryStore) -> None:
    first, second = encrypted(bare, OLD), encrypted(bare, OLD)
    job = await add_job(first, SPEC)
    session = await add_session(first)
    [run_id] = await submit(first, job)
    [run] = await claim(first, session)
    await second.apply([end(run, session, RunState.SUCCEEDED, result=f'"{CANARY}"'.encode())], now=at(1))
    assert not holds(bare)
    [found] = await first.get_runs([run_id])
    assert found is not None
    assert found.result == f'"{CANARY}"'.encode()


@pytest.mark.parametrize(
    "verb",
    [
        lambda store: store.list_runs("t", error="x"),
        lambda store: store.list_dead("t", DeadFilter(error="x")),
        lambda store: store.group_dead("t", DeadFilter(error="x"), limit=1),
        lambda store: store.count_dead("t", DeadFilter(error="x")),
        lambda store: store.count_dead_versions("t", DeadFilter(error="x"), limit=1),
        lambda store: store.discard_dead("t", DeadFilter(error="x"), reason="r", now=START, limit=1),
        lambda store: store.add_redrive(
            NewRedrive(
                id=RedriveId(IdSequence().new_uuid()),
                tenant="t",
                wanted=DeadFilter(error="x"),
                is_newest=True,
                rate=1,
                total=1,
            ),
            now=START,
        ),
    ],
)
async def test_search_in_errors_is_refused(store: Store, verb: Any) -> None:
    with pytest.raises(InvalidInput, match="error: errors are encrypted in the store"):
        await verb(store)


SENSITIVE = (JobSpec, NewRun, ClaimedRun, KeptFlow, Run, Attempt, Transition, UnnoticedFailure, DeadFilter)
MAY_PASS = {
    "list_running_redrives",  # filters that the redrives were made with
    "get_redrive",
    "list_redrives",
    "advance_redrives",
}


def reaches(annotation: Any, seen: set[Any]) -> bool:
    if annotation in SENSITIVE:
        return True
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation) and annotation not in seen:
        seen.add(annotation)
        return any(reaches(one, seen) for one in typing.get_type_hints(annotation).values())
    return any(reaches(one, seen) for one in typing.get_args(annotation))


def test_every_verb_that_users_data_pass_through_is_covered() -> None:
    missing = set()
    for name in dir(Store):
        verb = getattr(Store, name)
        if name.startswith("_") or not callable(verb):
            continue
        hints = typing.get_type_hints(verb)
        is_covered = any(name in vars(one) for one in EncryptedStore.__mro__)
        if any(reaches(one, set()) for one in hints.values()) and not is_covered:
            missing.add(name)
    assert missing == MAY_PASS


def keys_file(folder: Path, *ids: str) -> str:
    file = folder / "-".join(ids)
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text("".join(f"{make_key(key_id)}\n" for key_id in ids))
    return str(file)


class TestIdempotencyKeys:
    """A plain digest of a request would tell who reads the store whether a payload is one that they guess."""

    @staticmethod
    async def submit(store: Store, job: Job, payload: bytes) -> tuple[SubmissionVerdict, RunId | None]:
        form = JobForm(job, timedelta(hours=24))
        submission = Submission(job_id=job.id, payload=payload, idempotency_key="k")
        run = make_submitted_run(form, submission, now=START, expiries={})
        [result] = await store.submit_runs([run], now=START)
        return result.status, result.run_id

    async def test_no_plain_digest_is_kept(self, store: Store, bare: MemoryStore) -> None:
        job = await add_job(store, SPEC)
        await self.submit(store, job, b"[1]")
        [kept] = bare._tables.keys.values()
        form = JobForm(job, timedelta(hours=24))
        submission = Submission(job_id=job.id, payload=b"[1]", idempotency_key="k")
        plain = make_submitted_run(form, submission, now=START, expiries={}).submit_key
        assert plain is not None
        assert plain.request_hash.decode("latin-1") not in list(_leaves(vars(bare), set()))
        assert len(kept.known.request_hash) == len(plain.request_hash)

    async def test_the_same_request_is_the_same_run_and_another_one_is_not(self, store: Store) -> None:
        job = await add_job(store, SPEC)
        verdict, run_id = await self.submit(store, job, b"[1]")
        assert verdict is SubmissionVerdict.SUBMITTED
        assert await self.submit(store, job, b"[1]") == (SubmissionVerdict.DUPLICATE, run_id)
        assert (await self.submit(store, job, b"[2]"))[0] is SubmissionVerdict.KEY_MISMATCH

    @pytest.mark.parametrize("before", [None, OLD], ids=["before encryption", "before the key was changed"])
    async def test_a_key_from_before_is_known_again(self, bare: MemoryStore, before: Cipher | None) -> None:
        earlier = bare if before is None else encrypted(bare, before)
        job = await add_job(earlier, SPEC)
        _, run_id = await self.submit(earlier, job, b"[1]")
        now = encrypted(bare, NEW)
        assert await self.submit(now, job, b"[1]") == (SubmissionVerdict.DUPLICATE, run_id)
        assert (await self.submit(now, job, b"[2]"))[0] is SubmissionVerdict.KEY_MISMATCH

    async def test_servers_with_keys_in_another_order_agree(self, bare: MemoryStore) -> None:
        one = encrypted(bare, Cipher(Keys("old", {"old": bytes(32), "new": b"\1" * 32})))
        job = await add_job(one, SPEC)
        _, run_id = await self.submit(encrypted(bare, NEW), job, b"[1]")
        assert await self.submit(one, job, b"[1]") == (SubmissionVerdict.DUPLICATE, run_id)


async def test_start_notes_the_key_that_writes(bare: MemoryStore, tmp_path: Path) -> None:
    file = keys_file(tmp_path, "b", "a")
    for now in (START, at(9)):
        await encrypt_store(bare, file, now=now)
        assert [(key.id, key.since) for key in await bare.list_encryption_keys()] == [("b", START)]


async def test_start_with_a_missing_or_another_key_is_refused(bare: MemoryStore, tmp_path: Path) -> None:
    await encrypt_store(bare, keys_file(tmp_path, "a"), now=START)
    with pytest.raises(InvalidInput, match=r"keys_file: .* lacks the key 'a', with which .* since 20\d\d-"):
        await encrypt_store(bare, keys_file(tmp_path, "b"), now=START)
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidInput, match=r"the key 'a' of .* is not the one"):
        await encrypt_store(bare, keys_file(tmp_path / "other", "a"), now=START)
    assert [key.id for key in await bare.list_encryption_keys()] == ["a"]


def test_new_job_type_has_the_definition() -> None:
    assert reaches(NewJob, set())


async def test_a_result_is_not_kept_elsewhere_in_plain_text(bare: MemoryStore) -> None:
    store = encrypted(bare, NEW)
    held = await running_run(store)
    added = await store.add_artifact(make_artifact(held, is_result=True), most=10)
    assert added == ArtifactAdded(ArtifactVerdict.SEALED)
    added = await store.add_artifact(make_artifact(held), most=10)
    assert added.verdict is ArtifactVerdict.ADDED


async def test_what_steps_have_come_to_is_encrypted_for_its_step_alone(bare: MemoryStore) -> None:
    store = encrypted(bare, NEW)
    held = await running_run(store)
    items = [step_of(held, value=b'{"card": 4711}'), step_of(held, "next", value=None)]
    assert await store.keep_checkpoints(items, now=at(1)) == [CheckpointVerdict.KEPT] * 2
    [kept, empty] = await bare.list_checkpoints(held.run_id)
    assert is_encrypted_bytes(kept.value)
    assert empty.value is None
    assert [step.value for step in await store.list_checkpoints(held.run_id)] == [b'{"card": 4711}', None]
    moved = replace(items[0], name="other", value=kept.value)
    await bare.keep_checkpoints([moved], now=at(2))
    with pytest.raises(CannotDecrypt):
        await store.list_checkpoints(held.run_id)
