"""The proof that some verbs need not be played together, held against plays of such verbs (`apart.py`)."""

import asyncio
import random
from itertools import combinations
from typing import Any

import pytest

from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connecting import Role
from tests.interleavings.apart import are_apart, judge_apart, play_alone
from tests.interleavings.bench import TABLES, Bench
from tests.interleavings.cases import VERBS, Scene, Verb
from tests.interleavings.gate import Touched
from tests.interleavings.search import LONG

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]
SAMPLE = 60


def verb_of(statement: str) -> Verb:
    async def call(store: PostgresStore, scene: Scene) -> Any:
        store._connections._statements["of a test"] = (statement, ())
        return await store._connections.fetch(Role.UPKEEP, "of a test", is_repeatable=True)

    return Verb("of a test", call)


async def touched_by(bench: Bench, statement: str) -> Touched:
    touched = Touched()
    await bench.play((verb_of(statement),), "", touched=touched)
    return touched


@pytest.fixture
def guarded(bench: Bench, runner: asyncio.Runner) -> Any:
    """Tables outside of the scene: what goes into one is looked up in two others, and told to a third."""
    make = """
        CREATE TABLE parent (id int PRIMARY KEY);
        CREATE TABLE told (id bigint GENERATED ALWAYS AS IDENTITY);
        CREATE TABLE looked_up (id int);
        CREATE TABLE child (id int REFERENCES parent);
        INSERT INTO parent VALUES (1);
        CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO told DEFAULT VALUES;
            PERFORM FROM looked_up;
            RETURN NULL;
        END $$;
        CREATE TRIGGER tell AFTER INSERT ON child FOR EACH ROW EXECUTE FUNCTION tell();
    """
    runner.run(bench.execute(make))
    yield
    runner.run(bench.execute("DROP TABLE child, parent, told, looked_up; DROP FUNCTION tell"))


def test_what_triggers_and_foreign_keys_touch_counts(
    bench: Bench, runner: asyncio.Runner, guarded: None
) -> None:
    inserting = runner.run(touched_by(bench, "INSERT INTO child VALUES (1)"))
    assert inserting.changes == {"child", "parent", "told", "told_id_seq"}
    assert inserting.reads == {"looked_up"}
    reading = runner.run(touched_by(bench, "SELECT FROM parent LEFT JOIN looked_up USING (id) WHERE false"))
    assert (reading.reads, reading.changes) == ({"parent", "looked_up"}, set())
    assert inserting.disturbs(reading)
    assert not reading.disturbs(inserting)
    assert not reading.disturbs(reading)
    locking = runner.run(touched_by(bench, "SELECT FROM looked_up FOR SHARE"))
    assert locking.changes == {"looked_up"}
    [mutual] = runner.run(touched_by(bench, "SELECT pg_advisory_xact_lock(7)")).changes
    assert mutual.startswith("advisory ")
    assert runner.run(touched_by(bench, "LOCK TABLE parent IN SHARE MODE")).is_of_all


def test_verb_that_fails_is_apart_from_none(bench: Bench, runner: asyncio.Runner) -> None:
    alone = runner.run(play_alone(bench, VERBS["record_tzdata"]))
    other = runner.run(play_alone(bench, VERBS["prune_keys"]))
    assert not alone.disturbs(other)
    failed = type(alone)(alone.result, alone.tables, alone.touched, has_failed=True)
    assert failed.disturbs(other)
    assert other.disturbs(failed)


def test_bench_looks_at_every_table_that_a_verb_changes(bench: Bench, runner: asyncio.Runner) -> None:
    changed: set[str] = set()
    for verb in VERBS.values():
        changed |= runner.run(play_alone(bench, verb)).touched.changes
    relations = {what for what in changed if " " not in what}
    tables = runner.run(bench.tables_of(relations))
    assert tables <= set(TABLES)
    assert tables >= {"run", "job", "lane", "session", "shard_lease", "pause", "calendar", "cluster"}


def test_verbs_that_share_nothing_end_as_it_was_told(bench: Bench, runner: asyncio.Runner) -> None:
    chance = random.Random("apart")
    pairs = [pair for pair in combinations(VERBS.values(), 2) if runner.run(are_apart(bench, pair))]
    assert len(pairs) > SAMPLE
    for one, other in chance.sample(pairs, SAMPLE):
        expected = runner.run(judge_apart(bench, (one, other)))
        results = [runner.run(play_alone(bench, verb)).result for verb in (one, other)]
        mixed = list("AB" * LONG)
        chance.shuffle(mixed)
        for order in ("A" * LONG, "B" * LONG, "".join(mixed)):
            played, tables = runner.run(bench.play((one, other), order))
            assert played.trace.isupper(), f"{one.name} and {other.name}: one waited for the other"
            assert bench.outcome(played.results, tables) == bench.outcome(tuple(results), expected)
