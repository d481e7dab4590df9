"""Alerts: rules, channels and silences are kept; what was decided is saved with its messages; messages are settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.alerting import Outgoing, Verdict
from mainspring.core.alerts import Alert, AlertRule, Channel, RuleKind, Silence, Telling
from mainspring.core.channel_settings import EmailChannel, WebhookChannel
from mainspring.core.ids import RunId
from mainspring.core.notifications import AlertFacts, AlertState, Message, MessageKind, Severity
from mainspring.ports.store import Store
from mainspring.ports.store.alerts import AlertsSaved, Notification
from mainspring.ports.store.nodes import Epochs
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


async def save_verdict(
    store: Store, verdict: Verdict, *, epochs: Epochs, now: datetime, noticed: Sequence[RunId] = ()
) -> AlertsSaved:
    """Save a verdict that was decided by what is there now."""
    revision = await store.read_alert_revision()
    return await store.save_alerts(verdict, revision=revision, epochs=epochs, now=now, noticed=noticed)


async def save(store: Store, epochs: dict[int, int], *alerts: Alert, **verdict: Any) -> list[Alert]:
    """Save new alerts, and return all that are open."""
    assert (
        await save_verdict(store, Verdict(added=alerts, **verdict), epochs=epochs, now=at(10))
        is AlertsSaved.DONE
    )
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
        assert await save_verdict(store, verdict, epochs=STALE, now=at(10)) is AlertsSaved.FENCED
        assert [alert.subject for alert in await store.list_open_alerts()] == ["a"]
        assert await take(store, epochs, 10) == []

    async def test_a_verdict_is_saved_once_and_not_after_another_one(self, store: Store) -> None:
        epochs = await own_shards(store)
        revision = await store.read_alert_revision()
        verdict = Verdict(added=(make_alert("a"),), outgoing=(make_outgoing(),))
        saved = [
            await store.save_alerts(verdict, revision=revision, epochs=epochs, now=at(10)) for _ in range(2)
        ]
        assert saved == [AlertsSaved.DONE, AlertsSaved.OUTDATED]
        assert await store.read_alert_revision() != revision
        [alert] = await store.list_open_alerts()
        assert len(await take(store, epochs, 10)) == 1
        end = Verdict(changed=(replace(alert, state=AlertState.RESOLVED, resolved_at=at(11)),))
        assert await save_verdict(store, end, epochs=epochs, now=at(11)) is AlertsSaved.DONE
        late = Verdict(added=(make_alert("b"),), removed=(alert.id,), outgoing=(make_outgoing("b"),))
        late_save = store.save_alerts(late, revision=revision, epochs=epochs, now=at(12))
        assert await late_save is AlertsSaved.OUTDATED
        assert await store.list_open_alerts() == []
        assert await take(store, epochs, 12) == []

    async def test_a_verdict_that_is_not_saved_makes_no_other_outdated(self, store: Store) -> None:
        epochs = await own_shards(store)
        revision = await store.read_alert_revision()
        verdict = Verdict(added=(make_alert(),))
        fenced = await store.save_alerts(verdict, revision=revision, epochs=STALE, now=at(10))
        assert fenced is AlertsSaved.FENCED
        saved = await store.save_alerts(verdict, revision=revision, epochs=epochs, now=at(10))
        assert saved is AlertsSaved.DONE

    async def test_no_failover_was_noticed(self, store: Store) -> None:
        assert await store.list_failovers(since=at(0)) == []

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
