import pytest

from mainspring.core.ids import RunId, make_run_id
from mainspring.core.slot_times import LEAST, NOT_SAMPLED, SAMPLED, SlotTimes


def test_means_follow_what_is_measured() -> None:
    times = SlotTimes()
    for _ in range(300):
        times.learn("a", 2.0)
        times.learn("b", 0.5)
    assert times.mean("a") == pytest.approx(2.0)
    assert times.mean("b") == pytest.approx(0.5)
    for _ in range(300):
        times.learn("a", 1.0)
    assert times.mean("a") == pytest.approx(1.0, abs=0.01)


def test_a_tenant_of_which_nothing_is_known_counts_as_usual() -> None:
    times = SlotTimes()
    before = times.mean("new")
    for _ in range(300):
        times.learn("a", 2.0)
    assert before < times.mean("new") == pytest.approx(2.0, abs=0.01)


def test_the_first_measure_counts_in_full() -> None:
    times = SlotTimes()
    times.learn("a", 7.0)
    assert times.mean("a") == 7.0


def test_nothing_is_free() -> None:
    times = SlotTimes()
    for _ in range(300):
        times.learn("a", 0.0)
    assert times.mean("a") == LEAST


def test_tenants_are_remembered_up_to_a_number() -> None:
    times = SlotTimes()
    for number in range(30_000):
        times.learn(f"visitor-{number}", 1.0)
    assert len(times._means) <= 10_000


def test_one_of_sixteen_is_sampled_in_every_shard() -> None:
    for shard in (0, 7, 255):
        runs: list[RunId] = [make_run_id(sequence, shard) for sequence in range(1, 1601)]
        assert sum(not run_id & NOT_SAMPLED for run_id in runs) == len(runs) // SAMPLED
