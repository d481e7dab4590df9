"""Alerts: rules, channels and silences are kept; what was decided is saved with its messages; messages are settled."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.core.alerting import Outgoing, Verdict
from mainspring.core.alerts import Alert, AlertRule, Channel, RuleKind, Silence, Telling
from mainspring.core.channel_settings import EmailChannel, WebhookChannel
from mainspring.core.ids import RunId
from mainspring.core.notifications import AlertFacts, AlertState, Message, MessageKind, Severity
from mainspring.ports.store import Store
from mainspring.ports.store.alerts import Notification, SettledNotification
from mainspring.testing.factories import at, own_shards

RULE = AlertRule(
    tenant="shop",
    name="many",
    kind=RuleKind.DEAD_LETTERS,
    queue="mail",
    threshold=3,
    hold=timedelta(minutes=2),
    severity=Severity.CRITICAL,
    channels=("ops", "page"),
)
CHANNEL = Channel(
    tenant="shop",
    name="ops",
    config=WebhookChannel(url="https://hooks.example.com/x", signing="hook", headers={"X": "1"}),
    group_wait=timedelta(seconds=3),
    repeat=timedelta(hours=1),
    min_severity=Severity.INFO,
)
OPEN = (AlertState.PENDING, AlertState.FIRING)
STALE = {0: -1}


def make_alert(subject: str = "queue:mail", **fields: Any) -> Alert:
    """Return an alert that is not stored yet."""
    values: dict[str, Any] = {
        "id": 0,
        "tenant": "shop",
        "rule_tenant": "shop",
        "rule": "many",
        "state": AlertState.FIRING,
        "severity": Severity.WARNING,
        "since": at(1),
        "fired_at": at(2.123456),
        "value": 4.5,
        "summary": "4 dead letters: 'ü' \"x\"",
        "run_id": RunId(2**62),
        "telling": Telling(channels=("shop/ops",), told={"shop/ops": at(3.000001)}, is_owed=True),
        **fields,
    }
    return Alert(subject=subject, **values)


def make_outgoing(group: str = "a", channel: str = "shop/ops") -> Outgoing:
    """Return a message of a group."""
    facts = AlertFacts(
        alert_id=7,
        subject="queue:mail",
        state=AlertState.FIRING,
        since=at(1),
        summary="4 dead letters",
        value=4.0,
        run_id=RunId(2**62),
    )
    message = Message(
        id="",
        kind=MessageKind.FIRING,
        tenant="shop",
        rule="many",
        severity=Severity.WARNING,
        alerts=(facts,),
        at=at(5),
        more=2,
        channel_tenant="shop",
    )
    return Outgoing(channel=channel, group=group, message=message)


async def save(store: Store, epochs: dict[int, int], *alerts: Alert, **verdict: Any) -> list[Alert]:
    """Save new alerts, and return all that are open."""
    assert await store.save_alerts(Verdict(added=alerts, **verdict), epochs=epochs, now=at(10))
    return await store.list_open_alerts()


async def take(store: Store, epochs: dict[int, int], seconds: float, limit: int = 10) -> list[Notification]:
    """Take what is due at an instant, for a minute."""
    return await store.take_notifications(
        epochs=epochs, now=at(seconds), again_at=at(seconds + 60), limit=limit
    )


class AlertSettings:
    """Rules, channels and silences."""

    __test__ = False

    async def test_a_rule_is_as_it_was_put(self, store: Store) -> None:
        assert await store.put_alert_rule(RULE) is True
        shared = replace(RULE, tenant="*", period=timedelta(seconds=90), enabled=False, is_default=True)
        assert await store.put_alert_rule(shared) is True
        assert await store.list_alert_rules() == [shared, RULE]
        assert await store.put_alert_rule(replace(RULE, threshold=9)) is False
        assert [rule.threshold for rule in await store.list_alert_rules()] == [3, 9]
        assert await store.delete_alert_rule("shop", "many") is True
        assert await store.delete_alert_rule("shop", "many") is False
        assert await store.list_alert_rules() == [shared]

    async def test_missing_rules_are_added_by_the_owner_of_the_shard(self, store: Store) -> None:
        epochs = await own_shards(store)
        await store.put_alert_rule(RULE)
        other = replace(RULE, name="other")
        assert await store.add_alert_rules([replace(RULE, threshold=9), other], epochs=STALE) is False
        assert await store.list_alert_rules() == [RULE]
        assert await store.add_alert_rules([replace(RULE, threshold=9), other], epochs=epochs) is True
        assert await store.list_alert_rules() == [RULE, other]

    async def test_a_channel_is_as_it_was_put(self, store: Store) -> None:
        assert await store.put_channel(CHANNEL) is True
        mail = Channel(tenant="*", name="ops", config=EmailChannel(to=("a@example.com",)), enabled=False)
        assert await store.put_channel(mail) is True
        assert await store.list_channels() == [mail, CHANNEL]
        assert await store.put_channel(replace(CHANNEL, repeat=timedelta(hours=2))) is False
        assert [one.repeat for one in await store.list_channels() if one.tenant == "shop"] == [
            timedelta(hours=2)
        ]
        assert await store.delete_channel("shop", "ops") is True
        assert await store.delete_channel("shop", "ops") is False
        assert await store.list_channels() == [mail]

    async def test_a_silence_lasts_until_it_ends(self, store: Store) -> None:
        silence = Silence(
            id=0,
            tenant="shop",
            rule="many",
            subject="queue:*",
            from_at=at(10.5),
            until_at=at(20.000001),
            reason="moving",
            made_by="ann",
        )
        first = await store.add_silence(silence)
        second = await store.add_silence(replace(silence, rule=None, subject=None, until_at=at(30)))
        assert second > first
        found = await store.list_silences(ending_after=at(20))
        assert found[0] == replace(silence, id=first)
        assert [one.id for one in found] == [first, second]
        assert [one.id for one in await store.list_silences(ending_after=at(20.000001))] == [second]
        assert await store.end_silence("other", second, now=at(15)) is False
        assert await store.end_silence("shop", second, now=at(15)) is True
        assert await store.end_silence("shop", second, now=at(15)) is False
        [ended] = [one for one in await store.list_silences(ending_after=at(14)) if one.id == second]
        assert (ended.from_at, ended.until_at) == (at(10.5), at(15))


class AlertsAreKept:
    """What the watchdog found."""

    __test__ = False

    async def test_an_alert_is_as_it_was_saved(self, store: Store) -> None:
        epochs = await own_shards(store)
        plain = make_alert("b", fired_at=None, value=None, run_id=None, telling=Telling(), tenant="*")
        first, second = await save(store, epochs, make_alert("a"), plain)
        assert 0 < first.id < second.id
        assert first == make_alert("a", id=first.id)
        assert second == replace(plain, id=second.id)

    async def test_a_rule_has_one_open_alert_of_a_subject(self, store: Store) -> None:
        epochs = await own_shards(store)
        [alert] = await save(store, epochs, make_alert())
        assert await save(store, epochs, make_alert(summary="again")) == [alert]
        others = [make_alert(tenant="x"), make_alert(rule="x"), make_alert(rule_tenant="*"), make_alert("x")]
        assert len(await save(store, epochs, *others)) == 5
        resolved = replace(alert, state=AlertState.RESOLVED, resolved_at=at(20))
        found = await save(store, epochs, changed=(resolved,))
        assert len(found) == 4
        assert len(await save(store, epochs, make_alert())) == 5

    async def test_changes_are_saved_but_for_who_looks_after_it(self, store: Store) -> None:
        epochs = await own_shards(store)
        [alert] = await save(store, epochs, make_alert(state=AlertState.PENDING, fired_at=None))
        shown = await store.acknowledge_alert(["shop"], alert.id, by="ann", now=at(11))
        assert shown == replace(alert, acknowledged_by="ann", acknowledged_at=at(11))
        changed = replace(
            alert,
            state=AlertState.FIRING,
            fired_at=at(12),
            value=5.0,
            summary="5",
            severity=Severity.CRITICAL,
            run_id=None,
            telling=Telling(channels=("*/a",), told={}, tells_end=False),
        )
        [found] = await save(store, epochs, changed=(changed,))
        assert found == replace(changed, acknowledged_by="ann", acknowledged_at=at(11))
        again = await store.acknowledge_alert(["shop"], alert.id, by="bob", now=at(13))
        assert again is not None
        assert again.acknowledged_by == "ann"
        assert await store.acknowledge_alert(["other"], alert.id, by="bob", now=at(13)) is None

    async def test_a_resolved_alert_stays_resolved(self, store: Store) -> None:
        epochs = await own_shards(store)
        [alert] = await save(store, epochs, make_alert())
        resolved = replace(alert, state=AlertState.RESOLVED, resolved_at=at(20))
        await save(store, epochs, changed=(resolved,))
        await save(store, epochs, changed=(alert,))
        assert await store.list_alerts(["shop"], states=[AlertState.RESOLVED]) == [resolved]

    async def test_only_pending_alerts_are_removed(self, store: Store) -> None:
        epochs = await own_shards(store)
        first, second = await save(store, epochs, make_alert("a"), make_alert("b", state=AlertState.PENDING))
        assert await save(store, epochs, removed=(first.id, second.id)) == [first]

    async def test_nothing_is_saved_without_the_shard(self, store: Store) -> None:
        epochs = await own_shards(store)
        await save(store, epochs, make_alert("a"))
        verdict = Verdict(added=(make_alert("b"),), outgoing=(make_outgoing(),))
        assert await store.save_alerts(verdict, epochs=STALE, now=at(10)) is False
        assert [alert.subject for alert in await store.list_open_alerts()] == ["a"]
        assert await take(store, epochs, 10) == []

    async def test_a_page_of_alerts_is_of_some_tenants_and_states(self, store: Store) -> None:
        epochs = await own_shards(store)
        a, b, c, d = await save(
            store,
            epochs,
            make_alert("a"),
            make_alert("b", state=AlertState.PENDING),
            make_alert("c", tenant="*"),
            make_alert("d", tenant="x"),
        )
        assert await store.list_alerts(["shop", "*"], states=OPEN) == [c, b, a]
        assert await store.list_alerts(["shop", "*"], states=OPEN, limit=1) == [c]
        assert await store.list_alerts(["shop"], states=OPEN, before=b.id) == [a]
        assert await store.list_alerts(["x"], states=[AlertState.FIRING]) == [d]
        assert await store.list_alerts(["shop"], states=[AlertState.RESOLVED]) == []
        assert await store.list_alerts(None, states=OPEN) == [d, c, b, a]
        assert await store.list_alerts(None, states=[AlertState.FIRING], before=d.id, limit=1) == [c]


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
        settings = {"epochs": epochs, "now": at(10), "again_at": at(11), "limit": 10}
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
        assert await store.save_alerts(verdict, epochs=STALE, now=at(12)) is False
        assert await store.list_undelivered(limit=10) == found
        assert await store.save_alerts(verdict, epochs=epochs, now=at(12)) is True
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
