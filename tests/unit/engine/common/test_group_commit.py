import asyncio
from collections.abc import Sequence

import pytest

from mainspring.engine.common.group_commit import GroupCommit
from mainspring.errors import StoreUnavailable
from mainspring.ports.calls import outlives_callers


class Verb:
    """A verb that waits until it is let go, and doubles."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.under_way = 0
        self.gate = asyncio.Event()
        self.errors: list[Exception | None] = []  # of the calls to come
        self.drops = 0

    async def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.calls.append(list(items))
        self.under_way += 1
        assert self.under_way == 1, "one call at a time"
        try:
            await self.gate.wait()
            error = self.errors.pop(0) if self.errors else None
            if error is not None:
                raise error
            return [2 * item for item in items][self.drops :]
        finally:
            self.under_way -= 1


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nothing_makes_no_call() -> None:
    verb = Verb()
    assert await GroupCommit(verb)([]) == []
    assert verb.calls == []


async def test_calls_that_arrive_meanwhile_go_together_and_get_their_own_results() -> None:
    verb = Verb()
    group_commit = GroupCommit(verb)
    first = asyncio.create_task(group_commit([1]))
    await settle()
    others = [asyncio.create_task(group_commit(items)) for items in ([2, 3], [4], [5, 6, 7])]
    await settle()
    verb.gate.set()
    assert await first == [2]
    assert await asyncio.gather(*others) == [[4, 6], [8], [10, 12, 14]]
    assert verb.calls == [[1], [2, 3, 4, 5, 6, 7]]


async def test_group_commit_can_be_used_again_and_again() -> None:
    verb = Verb()
    verb.gate.set()
    group_commit = GroupCommit(verb)
    for number in range(5):
        assert await group_commit([number]) == [2 * number]
    assert len(verb.calls) == 5


async def test_unavailable_store_is_told_to_everybody_in_that_call_and_nobody_else() -> None:
    verb = Verb()
    group_commit = GroupCommit(verb)
    first = asyncio.create_task(group_commit([0]))
    await settle()
    second = [asyncio.create_task(group_commit([number])) for number in (1, 2, 3)]
    await settle()
    verb.errors = [None, StoreUnavailable("gone")]
    verb.gate.set()
    assert await first == [0]
    results = await asyncio.gather(*second, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 3
    assert verb.calls == [[0], [1, 2, 3]], "an outage is not asked about once for each caller"
    assert await group_commit([9]) == [18]


async def test_bad_item_fails_only_its_own_caller() -> None:
    calls: list[list[int]] = []

    async def verb(items: Sequence[int]) -> Sequence[int]:
        calls.append(list(items))
        await asyncio.sleep(0)
        if 2 in items:
            raise ValueError("two")
        return [2 * item for item in items]

    group_commit = GroupCommit(verb)
    results = await asyncio.gather(
        *(group_commit(items) for items in ([0], [1], [2, 20], [3])), return_exceptions=True
    )
    assert isinstance(results[2], ValueError)
    assert [results[0], results[1], results[3]] == [[0], [2], [6]]


async def test_wrong_number_of_results_is_an_error_not_a_mix_up() -> None:
    verb = Verb()
    verb.drops = 1
    verb.gate.set()
    group_commit = GroupCommit(verb)
    results = await asyncio.gather(group_commit([1]), group_commit([2]), return_exceptions=True)
    assert [type(result) for result in results] == [RuntimeError] * 2


@pytest.mark.parametrize("who", [0, 1, 2])
async def test_cancelled_caller_takes_nobody_along(who: int) -> None:
    """An HTTP client that hangs up must not end the requests of others in the same group commit."""
    verb = Verb()
    group_commit = GroupCommit(verb)
    together = [asyncio.create_task(group_commit([number])) for number in range(3)]
    await settle()
    waiting = [asyncio.create_task(group_commit([number])) for number in range(10, 13)]
    await settle()
    together[who].cancel()
    waiting[who].cancel()
    await settle()
    assert together[who].cancelled()
    assert waiting[who].cancelled()
    verb.gate.set()
    rest = [task for number, task in enumerate(together) if number != who]
    rest += [task for number, task in enumerate(waiting) if number != who]
    expected = [[2 * n] for n in range(3) if n != who] + [[2 * n] for n in range(10, 13) if n != 10 + who]
    assert await asyncio.gather(*rest) == expected
    assert sorted(item for call in verb.calls for item in call) == [0, 1, 2, 10, 11, 12]


async def test_cancelled_first_of_a_later_call_takes_nobody_along() -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    calls: list[Sequence[int]] = []

    async def verb(items: Sequence[int]) -> Sequence[int]:
        calls.append(items)
        await gates[len(calls) - 1].wait()
        return items

    group_commit = GroupCommit(verb)
    first = asyncio.create_task(group_commit([0]))
    await settle()
    others = [asyncio.create_task(group_commit([number])) for number in (1, 2, 3)]
    await settle()
    gates[0].set()
    assert await first == [0]
    await settle()
    others[0].cancel()
    await settle()
    gates[1].set()
    assert await asyncio.gather(*others[1:]) == [[2], [3]]
    assert calls == [[0], [1, 2, 3]]


async def test_everybody_cancelled_leaves_a_working_group_commit() -> None:
    verb = Verb()
    group_commit = GroupCommit(verb)
    tasks = [asyncio.create_task(group_commit([number])) for number in range(3)]
    await settle()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    verb.gate.set()
    assert await group_commit([7]) == [14]


async def test_error_after_its_callers_have_gone_is_no_unseen_exception() -> None:
    verb = Verb()
    group_commit = GroupCommit(verb)
    task = asyncio.create_task(group_commit([1]))
    await settle()
    task.cancel()
    verb.errors = [ConnectionError("gone")]
    verb.gate.set()
    await settle()
    assert await group_commit([2]) == [4]


def test_shutdown_of_the_loop_ends_those_who_wait() -> None:
    async def main() -> asyncio.Task[Sequence[int]]:
        task = asyncio.create_task(GroupCommit(Verb())([1]))
        await settle()
        return task

    assert asyncio.run(main()).cancelled()


async def test_hundred_callers_many_rounds_each_get_their_own() -> None:
    verb = Verb()
    verb.gate.set()
    group_commit = GroupCommit(verb)

    async def caller(number: int) -> None:
        for turn in range(20):
            items = [1000 * number + turn] * (1 + (number + turn) % 3)
            assert await group_commit(items) == [2 * item for item in items]

    await asyncio.gather(*(caller(number) for number in range(100)))
    assert len(verb.calls) < 100 * 20


async def test_callers_beyond_the_limit_wait_for_another_call_and_none_is_divided() -> None:
    verb = Verb()
    group_commit = GroupCommit(verb, most=3)
    first = asyncio.create_task(group_commit([1]))
    await settle()
    others = [asyncio.create_task(group_commit(items)) for items in ([2, 3], [4], [5], [6, 7, 8, 9], [10])]
    await settle()
    verb.gate.set()
    assert await first == [2]
    assert await asyncio.gather(*others) == [[4, 6], [8], [10], [12, 14, 16, 18], [20]]
    assert verb.calls == [[1], [2, 3, 4], [5], [6, 7, 8, 9], [10]]


async def test_call_tells_the_store_that_nobody_cancels_it() -> None:
    seen = []

    async def note(items: Sequence[int]) -> Sequence[int]:
        seen.append(outlives_callers.get())
        return items

    await GroupCommit(note)([1])
    assert seen == [True]
    assert not outlives_callers.get()
