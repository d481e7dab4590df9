"""Messages that tell of alerts: which are taken, in which order, and what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mainspring.core.alerting import Verdict
from mainspring.core.notifications import AlertState, MessageKind
from mainspring.ports.store import Store
from mainspring.ports.store.alerts import AlertsSaved, SettledNotification
from mainspring.testing.conformance.alerts import (
    CHANNEL,
    STALE,
    make_alert,
    make_outgoing,
    save,
    save_verdict,
    take,
)
from mainspring.testing.factories import at, own_shards


class Notifications:
    """Messages that tell of alerts."""

    __test__ = False

    async def test_a_message_is_taken_as_it_was_written(self, store: Store) -> None:
        epochs = await own_shards(store)
        outgoing = make_outgoing()
        await save(store, epochs, outgoing=(outgoing,))
        assert await take(store, epochs, 9.9) == []
        [taken] = await take(store, epochs, 10)
        assert taken.message == replace(outgoing.message, id=f"ntf_{taken.id}")
        assert (taken.channel, taken.attempts, taken.made_at) == ("shop/ops", 1, at(10))

    async def test_what_is_not_settled_is_due_again_under_the_same_id(self, store: Store) -> None:
        epochs = await own_shards(store)
        await save(store, epochs, outgoing=(make_outgoing(),))
        [first] = await take(store, epochs, 10)
        assert await take(store, epochs, 69) == []
        [second] = await take(store, epochs, 70)
        assert second == replace(first, attempts=2)

    async def test_messages_of_a_group_are_taken_in_order(self, store: Store) -> None:
        epochs = await own_shards(store)
        await save(store, epochs, outgoing=(make_outgoing("a"), make_outgoing("a"), make_outgoing("b")))
        await save(store, epochs, outgoing=(make_outgoing("a", channel="shop/page"),))
        first, other, elsewhere = await take(store, epochs, 10)
        assert first.id < other.id < elsewhere.id
        settled = [SettledNotification(notification=first)]
        assert await store.settle_notifications(settled, epochs=epochs, now=at(11)) is True
        [second] = await take(store, epochs, 11)
        assert first.id < second.id < other.id

    async def test_what_still_fires_waits_once(self, store: Store) -> None:
        epochs = await own_shards(store)
        repeat = make_outgoing()
        repeat = replace(repeat, message=replace(repeat.message, kind=MessageKind.REPEAT))
        other = replace(repeat, group="b")
        await save(store, epochs, outgoing=(make_outgoing(), repeat, repeat, other))
        [first, elsewhere] = await take(store, epochs, 10)
        await save(store, epochs, outgoing=(repeat, other))  # that of b is under way
        await save(store, epochs, outgoing=(repeat, repeat))
        settled = [SettledNotification(notification=one) for one in (first, elsewhere)]
        assert await store.settle_notifications(settled, epochs=epochs, now=at(11))
        told = []
        while taken := await take(store, epochs, 11):
            told += [one.message.kind for one in taken]
            await store.settle_notifications(
                [SettledNotification(notification=one) for one in taken], epochs=epochs, now=at(11)
            )
        assert told == [MessageKind.REPEAT] * 3

    async def test_what_still_fires_takes_the_place_of_what_could_not_be_told(self, store: Store) -> None:
        epochs = await own_shards(store)
        repeat = make_outgoing()
        repeat = replace(repeat, message=replace(repeat.message, kind=MessageKind.REPEAT))
        newer = replace(repeat, message=replace(repeat.message, at=at(65)))
        await save(store, epochs, outgoing=(repeat,))
        [taken] = await take(store, epochs, 10)
        failed = SettledNotification(notification=taken, again_at=at(99), error="away")
        assert await store.settle_notifications([failed], epochs=epochs, now=at(11))
        await save(store, epochs, outgoing=(newer,))
        [again] = await take(store, epochs, 70)
        assert again.message.at == at(65)
        # It is under way now: the next one waits for it.
        await save(store, epochs, outgoing=(repeat,))
        assert await take(store, epochs, 71) == []
        done = SettledNotification(notification=again)
        assert await store.settle_notifications([done], epochs=epochs, now=at(72))
        [last] = await take(store, epochs, 73)
        done = SettledNotification(notification=last)
        assert await store.settle_notifications([done], epochs=epochs, now=at(74))
        assert await store.prune_alerts(before=at(1000), limit=10, epochs=epochs) == 0  # they are gone

    async def test_a_limit_takes_those_that_have_waited_longest(self, store: Store) -> None:
        epochs = await own_shards(store)
        await save(store, epochs, outgoing=(make_outgoing("a"), make_outgoing("b")))
        [first] = await take(store, epochs, 10, limit=1)
        [second] = await take(store, epochs, 10, limit=1)
        assert first.id < second.id

    async def test_none_is_taken_of_channels_and_tenants_that_are_busy(self, store: Store) -> None:
        epochs = await own_shards(store)
        channels = ("shop/ops", "shop/page", "bank/ops")
        await save(store, epochs, outgoing=[make_outgoing(channel=channel) for channel in channels])
        settings: dict[str, Any] = {"epochs": epochs, "now": at(10), "again_at": at(11), "limit": 10}
        [taken] = await store.take_notifications(**settings, busy=["shop/ops"], busy_tenants=["bank"])
        assert taken.channel == "shop/page"
        taken_then = await store.take_notifications(**settings, busy=["bank/ops", "shop/x"])
        assert [one.channel for one in taken_then] == ["shop/ops"]

    async def test_what_was_not_delivered_is_tried_again_or_given_up(self, store: Store) -> None:
        epochs = await own_shards(store)
        await store.put_channel(CHANNEL)
        await save(store, epochs, outgoing=(make_outgoing(),))
        [taken] = await take(store, epochs, 10)
        failed = SettledNotification(notification=taken, again_at=at(15), error="refused")
        assert await store.settle_notifications([failed], epochs=epochs, now=at(11)) is True
        [channel] = await store.list_channels()
        assert channel == replace(CHANNEL, last_error="refused", failed_at=at(11))
        assert await take(store, epochs, 14) == []
        [again] = await take(store, epochs, 15)
        late = SettledNotification(notification=taken, error=None)
        assert await store.settle_notifications([late], epochs=epochs, now=at(16)) is True
        assert (await store.list_channels())[0].last_error == "refused"
        assert await store.list_undelivered(limit=10) == []
        given_up = SettledNotification(notification=again, error="gone")
        assert await store.settle_notifications([given_up], epochs=epochs, now=at(17)) is True
        assert (await store.list_channels())[0].last_error == "gone"
        assert await take(store, epochs, 1000) == []

    async def test_what_waits_behind_what_was_given_up_is_held_until_its_alerts_know(
        self, store: Store
    ) -> None:
        epochs = await own_shards(store)
        first = make_outgoing()
        end = replace(first, message=replace(first.message, kind=MessageKind.RESOLVED))
        await save(store, epochs, outgoing=(first, end, end, make_outgoing("b")))
        taken, elsewhere = await take(store, epochs, 10)
        settled = [
            SettledNotification(notification=taken, error="gone"),
            SettledNotification(notification=elsewhere),
        ]
        assert await store.settle_notifications(settled, epochs=epochs, now=at(11))
        assert await take(store, epochs, 100_000) == []
        found = await store.list_undelivered(limit=10)
        assert [one.is_given_up for one in found] == [True, False, False]
        assert [(one.channel, one.group) for one in found] == [("shop/ops", "a")] * 3
        assert [one.message for one in found] == [first.message, end.message, end.message]
        ids = [one.id for one in found]
        other = replace(end.message, more=0)
        verdict = Verdict(given_up=(ids[0],), dropped=(ids[1],), rewritten=((ids[2], other),))
        assert await save_verdict(store, verdict, epochs=STALE, now=at(12)) is AlertsSaved.FENCED
        assert await store.list_undelivered(limit=10) == found
        assert await save_verdict(store, verdict, epochs=epochs, now=at(12)) is AlertsSaved.DONE
        assert await store.list_undelivered(limit=10) == []
        [last] = await take(store, epochs, 13)
        assert last.message == replace(other, id=f"ntf_{ids[2]}")

    async def test_a_delivery_clears_the_error(self, store: Store) -> None:
        epochs = await own_shards(store)
        await store.put_channel(CHANNEL)
        await save(store, epochs, outgoing=(make_outgoing("a"), make_outgoing("b")))
        first, second = await take(store, epochs, 10)
        failed = SettledNotification(notification=first, again_at=at(99), error="refused")
        await store.settle_notifications([failed], epochs=epochs, now=at(11))
        done = SettledNotification(notification=second)
        await store.settle_notifications([done], epochs=epochs, now=at(12))
        assert await store.list_channels() == [CHANNEL]

    async def test_nothing_is_taken_or_settled_without_the_shard(self, store: Store) -> None:
        epochs = await own_shards(store)
        await save(store, epochs, outgoing=(make_outgoing(),))
        assert await take(store, STALE, 10) == []
        [taken] = await take(store, epochs, 10)
        done = SettledNotification(notification=taken)
        assert await store.settle_notifications([done], epochs=STALE, now=at(11)) is False
        assert len(await take(store, epochs, 70)) == 1

    async def test_a_deleted_channel_delivers_nothing_more(self, store: Store) -> None:
        epochs = await own_shards(store)
        await store.put_channel(CHANNEL)
        await save(store, epochs, outgoing=(make_outgoing(), make_outgoing(channel="shop/page")))
        await store.delete_channel("shop", "ops")
        assert [one.channel for one in await take(store, epochs, 10)] == ["shop/page"]

    async def test_what_is_over_is_removed_in_time(self, store: Store) -> None:
        epochs = await own_shards(store)
        old, new, lasting = await save(
            store, epochs, make_alert("a"), make_alert("b"), make_alert("c"), outgoing=(make_outgoing(),)
        )
        ends = (
            replace(old, state=AlertState.RESOLVED, resolved_at=at(20)),
            replace(new, state=AlertState.RESOLVED, resolved_at=at(40)),
        )
        await save(store, epochs, changed=ends)
        assert await store.prune_alerts(before=at(30), limit=10, epochs=STALE) == 0
        assert await store.prune_alerts(before=at(30), limit=10, epochs=epochs) == 1
        found = await store.list_alerts(["shop"], states=list(AlertState))
        assert [alert.id for alert in found] == [lasting.id, new.id]
        [taken] = await take(store, epochs, 10)
        done = SettledNotification(notification=taken)
        await store.settle_notifications([done], epochs=epochs, now=at(11))
        assert await store.prune_alerts(before=at(30), limit=10, epochs=epochs) == 1
