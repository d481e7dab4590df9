"""What becomes of alerts, and what is told of them: over any history of facts, silences and restarts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.alert_facts import judge_rule
from mainspring.core.alert_seen import Seen
from mainspring.core.alerting import Fact, Judgement, Outgoing, Undelivered, Verdict, judge_alerts
from mainspring.core.alerts import (
    Alert,
    AlertRule,
    Channel,
    RuleKind,
    Silence,
    Silencing,
    check_count,
    matches,
)
from mainspring.core.census import DeadLine
from mainspring.core.channel_settings import AlertmanagerChannel, ChannelConfig, WebhookChannel
from mainspring.core.notifications import MOST_ALERTS, AlertState, MessageKind, Severity, leave_out
from mainspring.errors import Conflict
from mainspring.testing.factories import at

HOOK = WebhookChannel(url="https://hooks.example.com/x")
OPS = Channel(tenant="shop", name="ops", config=HOOK, repeat=timedelta(minutes=5))
TICK = 10.0


def silence(start: float, end: float, subject: str | None = None) -> Silence:
    return Silence(
        id=1,
        tenant="shop",
        rule=None,
        subject=subject,
        from_at=at(start),
        until_at=at(end),
        reason="test",
        made_by="ann",
    )


@dataclass
class World:
    """A store for one rule: it keeps what is decided, as stores do."""

    channels: Sequence[Channel] = (OPS,)
    silences: Sequence[Silence] = ()
    hold: timedelta = timedelta(0)
    severity: Severity = Severity.WARNING
    alerts: dict[int, Alert] = field(default_factory=dict)
    sent: list[tuple[datetime, Outgoing]] = field(default_factory=list)

    def look(self, seconds: float, facts: Sequence[Fact] | None) -> Verdict:
        """Judge once."""
        now = at(seconds)
        judgement = Judgement(
            tenant="shop",
            rule="r",
            severity=self.severity,
            hold=self.hold,
            channels=tuple(channel.key for channel in self.channels),
            facts=facts,
        )
        open_ones = [alert for alert in self.alerts.values() if alert.state is not AlertState.RESOLVED]
        known = {channel.key: channel for channel in self.channels}
        verdict = judge_alerts([judgement], open_ones, known, self.silences, now=now)
        for alert_id in verdict.removed:
            del self.alerts[alert_id]
        for alert in verdict.changed:
            self.alerts[alert.id] = alert
        for alert in verdict.added:
            new = replace(alert, id=len(self.alerts) + len(verdict.removed) + 1000 * int(seconds))
            self.alerts[new.id] = new
        self.sent += [(now, outgoing) for outgoing in verdict.outgoing]
        return verdict

    def kinds(self) -> list[MessageKind]:
        return [outgoing.message.kind for _, outgoing in self.sent]

    def told(self, *kinds: MessageKind) -> Counter[int]:
        return Counter(
            facts.alert_id
            for _, outgoing in self.sent
            for facts in outgoing.message.alerts
            if outgoing.message.kind in kinds
        )


def fact(subject: str = "queue:mail", **fields: object) -> Fact:
    return Fact(tenant="shop", subject=subject, summary=f"{subject} is bad", **fields)  # type: ignore[arg-type]


def test_what_is_found_fires_is_told_and_ends() -> None:
    world = World()
    first = world.look(0, [fact(value=3.0)])
    assert first.next_at is None  # it has no id before it is stored
    assert world.sent == []
    world.look(10, [fact(value=4.0)])
    [(_, outgoing)] = world.sent
    [told] = outgoing.message.alerts
    assert (outgoing.message.kind, told.value, told.state) == (MessageKind.FIRING, 4.0, AlertState.FIRING)
    assert outgoing.message.channel_tenant == "shop"
    world.look(20, [])
    assert world.kinds() == [MessageKind.FIRING, MessageKind.RESOLVED]
    assert world.sent[1][1].message.alerts[0].resolved_at == at(20)
    world.look(30, [])
    assert len(world.sent) == 2


def test_what_does_not_hold_is_never_known() -> None:
    world = World(hold=timedelta(seconds=30))
    world.look(0, [fact()])
    world.look(20, [fact()])
    assert [alert.state for alert in world.alerts.values()] == [AlertState.PENDING]
    world.look(29, [])
    assert (world.alerts, world.sent) == ({}, [])


def test_what_holds_fires_then() -> None:
    world = World(hold=timedelta(seconds=30))
    for seconds in (0, 20, 30):
        world.look(seconds, [fact()])
    [alert] = world.alerts.values()
    assert (alert.state, alert.since, alert.fired_at) == (AlertState.FIRING, at(0), at(30))
    world.look(39, [fact()])
    assert world.sent == []
    world.look(40, [fact()])
    assert world.kinds() == [MessageKind.FIRING]


def test_what_cannot_be_found_out_changes_nothing() -> None:
    world = World()
    world.look(0, [fact()])
    world.look(10, [fact()])
    verdict = world.look(20, None)
    assert not verdict.is_change
    world.look(5 * 60 + 10, None)
    assert world.kinds() == [MessageKind.FIRING, MessageKind.REPEAT]


def test_the_first_waits_for_others_and_one_message_tells_them() -> None:
    world = World(channels=(replace(OPS, group_wait=timedelta(seconds=30)),))
    world.look(0, [fact("a")])
    verdict = world.look(10, [fact("a"), fact("b")])
    assert verdict.next_at == at(30)
    world.look(29, [fact("a"), fact("b")])
    assert world.sent == []
    world.look(30, [fact("a"), fact("b"), fact("c")])
    [(_, outgoing)] = world.sent
    assert [one.subject for one in outgoing.message.alerts] == ["a", "b"]


def test_a_message_names_twenty_and_counts_the_others() -> None:
    world = World()
    many = [fact(f"queue:{number:02}") for number in range(25)]
    world.look(0, many)
    world.look(10, many)
    [(_, outgoing)] = world.sent
    assert (len(outgoing.message.alerts), outgoing.message.more) == (MOST_ALERTS, 5)
    world.look(20, [])
    assert (len(world.sent[1][1].message.alerts), world.sent[1][1].message.more) == (MOST_ALERTS, 5)


def test_an_alertmanager_hears_of_all_each_minute() -> None:
    config: ChannelConfig = AlertmanagerChannel(url="http://alertmanager:9093")
    world = World(channels=(replace(OPS, config=config),))
    many = [fact(f"queue:{number:02}") for number in range(25)]
    for seconds in (0, 10, 60, 69, 70):
        world.look(seconds, many)
    sizes = [(when, len(outgoing.message.alerts), outgoing.message.more) for when, outgoing in world.sent]
    assert sizes == [(at(10), 20, 0), (at(10), 5, 0), (at(70), 20, 0), (at(70), 5, 0)]
    assert world.told(MessageKind.FIRING).total() == world.told(MessageKind.REPEAT).total() == 25


def test_what_goes_on_is_repeated_in_time() -> None:
    world = World()
    for seconds in (0, 10, 309, 310, 320, 610):
        world.look(seconds, [fact()])
    assert [when for when, _ in world.sent] == [at(10), at(310), at(610)]
    assert world.kinds() == [MessageKind.FIRING, MessageKind.REPEAT, MessageKind.REPEAT]


def test_a_silence_that_ends_tells_at_once_what_still_fires() -> None:
    world = World(silences=[silence(0, 100)])
    for seconds in (0, 10, 90):
        world.look(seconds, [fact()])
    assert world.sent == []
    world.look(100, [fact()])
    assert [(when, outgoing.message.kind) for when, outgoing in world.sent] == [(at(100), MessageKind.FIRING)]


def test_what_begins_and_ends_under_a_silence_is_never_told() -> None:
    world = World(silences=[silence(0, 100)])
    world.look(0, [fact()])
    world.look(10, [])
    world.look(100, [])
    assert world.sent == []


def test_the_end_of_what_was_told_is_told_under_a_silence_too() -> None:
    world = World(silences=[silence(15, 100)])
    world.look(0, [fact()])
    world.look(10, [fact()])
    world.look(20, [])
    assert world.kinds() == [MessageKind.FIRING, MessageKind.RESOLVED]


def test_a_tenants_silence_mutes_no_channel_of_the_cluster() -> None:
    shared = replace(OPS, tenant="*")
    world = World(channels=(OPS, shared), silences=[silence(0, 100)])
    for seconds in (0, 10):
        world.look(seconds, [fact()])
    assert [outgoing.channel for _, outgoing in world.sent] == [shared.key]
    world = World(channels=(OPS, shared), silences=[replace(silence(0, 100), tenant="*")])
    for seconds in (0, 10):
        world.look(seconds, [fact()])
    assert world.sent == []


def test_a_silence_mutes_no_other_subject() -> None:
    world = World(silences=[silence(0, 100, subject="queue:m*")])
    both = [fact(), fact("queue:bulk")]
    world.look(0, both)
    world.look(10, both)
    assert [one.subject for one in world.sent[0][1].message.alerts] == ["queue:bulk"]


def test_a_channel_is_not_told_of_what_is_less_bad() -> None:
    world = World(channels=(replace(OPS, min_severity=Severity.CRITICAL),))
    world.look(0, [fact()])
    world.look(10, [fact()])
    assert world.sent == []
    world.severity = Severity.CRITICAL
    world.look(20, [fact()])
    assert world.kinds() == [MessageKind.FIRING]


def test_a_disabled_channel_is_told_nothing() -> None:
    world = World(channels=(replace(OPS, enabled=False),))
    for seconds in (0, 10):
        world.look(seconds, [fact()])
    world.look(20, [])
    assert world.sent == []


def test_a_channel_that_is_named_later_is_told_what_fires() -> None:
    world = World(channels=())
    world.look(0, [fact()])
    world.look(10, [fact()])
    world.channels = (OPS,)
    world.look(20, [fact()])
    assert world.kinds() == [MessageKind.FIRING]


def test_what_is_owed_is_told_before_it_ends() -> None:
    world = World()
    world.look(0, [fact(is_owed=True)])
    world.look(1, [])
    assert [alert.state for alert in world.alerts.values()] == [AlertState.FIRING]
    world.look(10, [])
    assert world.kinds() == [MessageKind.FIRING]
    world.look(20, [])
    assert world.kinds() == [MessageKind.FIRING, MessageKind.RESOLVED]


def test_what_is_owed_to_nobody_ends() -> None:
    world = World(channels=())
    world.look(0, [fact(is_owed=True)])
    world.look(10, [])
    assert [alert.state for alert in world.alerts.values()] == [AlertState.RESOLVED]


def test_an_end_is_not_told_where_it_is_not_wanted() -> None:
    world = World()
    world.look(0, [fact(tells_end=False)])
    world.look(10, [fact(tells_end=False)])
    world.look(20, [])
    assert world.kinds() == [MessageKind.FIRING]


def test_the_alerts_of_a_rule_that_is_gone_end() -> None:
    world = World()
    world.look(0, [fact()])
    world.look(10, [fact()])
    [alert] = world.alerts.values()
    verdict = judge_alerts([], [alert], {OPS.key: OPS}, (), now=at(20))
    assert [one.state for one in verdict.changed] == [AlertState.RESOLVED]
    assert [one.message.kind for one in verdict.outgoing] == [MessageKind.RESOLVED]


def test_tenants_are_told_apart() -> None:
    world = World()
    both = [fact(), replace(fact(), tenant="bank")]
    world.look(0, both)
    world.look(10, both)
    assert sorted(outgoing.message.tenant for _, outgoing in world.sent) == ["bank", "shop"]


@pytest.mark.parametrize(
    ("pattern", "text", "is_matched"),
    [
        ("queue:mail", "queue:mail", True),
        ("queue:mail", "queue:mails", False),
        ("queue:*", "queue:", True),
        ("*mail", "queue:mail", True),
        ("queue:*l", "queue:l", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*", "", True),
        ("job:a[1]", "job:a[1]", True),
        ("job:a[1]", "job:a1", False),
        ("job:?", "job:a", False),
    ],
)
def test_a_star_stands_for_any_text_and_all_else_for_itself(
    pattern: str, text: str, is_matched: bool
) -> None:
    assert matches(pattern, text) is is_matched


@given(st.lists(st.text("ab", max_size=4), min_size=1, max_size=4), st.text("ab", max_size=12))
def test_a_pattern_is_as_the_regular_expression_that_says_the_same(parts: list[str], text: str) -> None:
    expected = re.fullmatch(".*".join(parts), text) is not None
    assert matches("*".join(parts), text) is expected


_words = st.sampled_from(["a", "ab", "b"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["*", "shop", "bank"]),
            st.none() | st.sampled_from(["r", "s"]),
            st.none() | _words | st.sampled_from(["a*", "*", "*b"]),
        ),
        max_size=5,
    ),
    _words,
)
def test_silences_mute_what_one_of_them_names(
    made: list[tuple[str, str | None, str | None]], subject: str
) -> None:
    silences = [replace(silence(0, 10, pattern), tenant=tenant, rule=rule) for tenant, rule, pattern in made]
    world = World()
    world.look(0, [fact(subject)])
    [alert] = world.alerts.values()
    expected = any(
        tenant in {"*", "shop"} and rule in {None, "r"} and matches(pattern or "*", subject)
        for tenant, rule, pattern in made
    )
    assert Silencing(silences, at(0)).mutes(alert) is expected
    assert not Silencing(silences, at(10)).mutes(alert)
    assert not Silencing(silences, at(-1)).mutes(alert)


def test_a_tenant_has_only_so_many() -> None:
    check_count(99, 100, "shop", field="rule", noun="alert rules")
    with pytest.raises(Conflict) as caught:
        check_count(100, 100, "shop", field="rule", noun="alert rules")
    assert str(caught.value) == ("rule: tenant 'shop' has 100 of at most 100 alert rules; delete some first")
    with pytest.raises(Conflict, match="the cluster has 1,000 of at most 1,000 silences; end some first"):
        check_count(1000, 1000, "*", field="silence", noun="silences")


RULE = AlertRule(tenant="*", name="dead_letters", kind=RuleKind.DEAD_LETTERS, threshold=0)


def test_each_tenant_has_so_many_alerts_of_a_rule_and_none_crowds_out_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mainspring.core.alert_facts.MOST_SUBJECTS", 2)
    lines = [DeadLine("bank", f"q{number}", 1) for number in range(4)]
    own = DeadLine("shop", "mail", 1)
    alerts: dict[tuple[str, str], Alert] = {}

    def look(seconds: float, dead: list[DeadLine], cut: frozenset[RuleKind] = frozenset()) -> list[str]:
        judgement = judge_rule(RULE, Seen(dead=dead, cut=cut), {}, (), now=at(seconds))
        verdict = judge_alerts([judgement], list(alerts.values()), {}, (), now=at(seconds))
        for alert in verdict.added:
            alerts[alert.tenant, alert.subject] = replace(alert, id=len(alerts) + 1)
        ended = [alert for alert in verdict.changed if alert.state is AlertState.RESOLVED]
        for alert in ended:
            del alerts[alert.tenant, alert.subject]
        return [alert.subject for alert in ended]

    assert look(0, [*lines[2:], own]) == []
    assert {tenant for tenant, _ in alerts} == {"bank", "shop"}
    # Two more queues come before those that fire: these are left out of the judgement, and do not end by it.
    assert look(10, [*lines, own]) == []
    assert len(alerts) == 5
    assert sorted(look(20, [own])) == [f"queue:q{number}" for number in range(4)]
    # What was not read, because there was too much, ends nothing.
    assert look(30, [], frozenset({RuleKind.DEAD_LETTERS})) == []
    assert look(40, []) == ["queue:mail"]


Step = tuple[frozenset[str], str]
_steps = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from(["a", "b", "c"])), st.sampled_from(["deliver", "lose", "wait", "mend"])
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(steps=_steps, lasting=st.frozensets(st.sampled_from(["a", "b", "c"])))
def test_whatever_is_given_up_only_what_was_told_ends_and_what_lasts_is_told(
    steps: list[Step], lasting: frozenset[str]
) -> None:
    """O1 to O3 of the design by what was delivered, not by what was written."""
    alerts: dict[int, Alert] = {}
    waiting: list[Undelivered] = []
    ids = count(1)
    delivered: dict[int, list[MessageKind]] = {}
    channel = OPS
    history = [*steps, *[(lasting, "mend")] * 12, *[(frozenset[str](), "deliver")] * 4]
    for number, (subjects, outcome) in enumerate(history):
        now = at(number * 30)
        if number == len(steps) + 12:
            telling = [kinds for one, kinds in delivered.items() if alerts[one].state is AlertState.FIRING]
            assert len(telling) == len(lasting)  # O1
        judgement = Judgement(
            tenant="shop",
            rule="r",
            severity=Severity.WARNING,
            channels=(OPS.key,),
            facts=[fact(one) for one in sorted(subjects)],
        )
        open_ones = [alert for alert in alerts.values() if alert.state is not AlertState.RESOLVED]
        stalled = waiting if waiting and waiting[0].is_given_up else []
        verdict = judge_alerts([judgement], open_ones, {OPS.key: channel}, (), now=now, undelivered=stalled)
        rewritten = dict(verdict.rewritten)
        gone = {*verdict.given_up, *verdict.dropped}
        waiting = [
            replace(one, message=rewritten.get(one.id, one.message)) for one in waiting if one.id not in gone
        ]
        alerts |= {alert.id: alert for alert in verdict.changed}
        alerts |= {alert.id: alert for alert in (replace(alert, id=next(ids)) for alert in verdict.added)}
        for one in verdict.outgoing:
            if one.message.kind is MessageKind.REPEAT:
                waiting = [each for each in waiting if each.message.kind is not MessageKind.REPEAT]
            waiting.append(
                Undelivered(
                    id=next(ids), channel=one.channel, group=one.group, message=one.message, is_given_up=False
                )
            )
        if outcome == "mend":
            channel = replace(channel, last_error=None)
        while waiting and outcome in {"deliver", "mend"} and not waiting[0].is_given_up:
            message = waiting.pop(0).message
            channel = replace(channel, last_error=None)
            for each in message.alerts:
                delivered.setdefault(each.alert_id, []).append(message.kind)
        if waiting and outcome == "lose" and not waiting[0].is_given_up:
            channel = replace(channel, last_error="404")
            if waiting[0].message.kind is MessageKind.FIRING:
                waiting[0] = replace(waiting[0], is_given_up=True)
            else:
                waiting.pop(0)
    for kinds in delivered.values():
        assert kinds[0] is MessageKind.FIRING  # O2: neither an end nor a repeat of what was never told
        assert kinds.count(MessageKind.FIRING) == 1
        assert kinds.count(MessageKind.RESOLVED) <= 1
    assert sum(one.message.kind is MessageKind.REPEAT for one in waiting) <= 1


def test_a_message_leaves_out_what_was_never_told() -> None:
    world = World()
    many = [fact(f"queue:{number:02}") for number in range(25)]
    world.look(0, many)
    world.look(10, many)
    message = world.sent[0][1].message
    ids = message.alert_ids
    assert len(ids) == 25
    told = leave_out(message, ids[:3])
    assert told is not None
    assert (len(told.alerts), told.more, told.alert_ids) == (17, 5, ids[3:])
    told = leave_out(message, ids[22:])
    assert told is not None
    assert (len(told.alerts), told.more) == (20, 2)
    assert leave_out(message, ids) is None
    assert leave_out(message, ()) == message


SUBJECTS = ("a", "b", "c")
looks = st.lists(st.one_of(st.none(), st.sets(st.sampled_from(SUBJECTS))), min_size=1, max_size=60)
spans = st.tuples(st.integers(0, 600), st.integers(1, 600), st.sampled_from([None, *SUBJECTS]))


@settings(max_examples=150, deadline=None)
@given(
    looks=looks,
    silences=st.lists(spans, max_size=3),
    hold=st.sampled_from([0, 15, 40]),
    group_wait=st.sampled_from([0, 10, 25]),
    is_owed=st.booleans(),
)
def test_whatever_happens_what_is_told_is_so_and_ends_once(
    looks: list[set[str] | None],
    silences: list[tuple[int, int, str | None]],
    hold: int,
    group_wait: int,
    is_owed: bool,
) -> None:
    """O2 and O3 of the design, and O1 for what is owed."""
    world = World(
        channels=(replace(OPS, group_wait=timedelta(seconds=group_wait)),),
        silences=[silence(start, start + length, subject) for start, length, subject in silences],
        hold=timedelta(seconds=hold),
    )
    quiet: list[set[str] | None] = [set()] * 8
    history = [*looks, *quiet]
    for number, subjects in enumerate(history):
        facts = None if subjects is None else [fact(one, is_owed=is_owed) for one in sorted(subjects)]
        world.look(number * TICK, facts)
    ever = {one for subjects in looks if subjects is not None for one in subjects}
    told, ended = world.told(MessageKind.FIRING), world.told(MessageKind.RESOLVED)
    assert {world.alerts[alert_id].subject for alert_id in told} <= ever
    assert set(told.values()) <= {1}
    assert told.keys() == ended.keys()
    assert set(ended.values()) <= {1}
    assert all(alert.state is AlertState.RESOLVED for alert in world.alerts.values())
    order = {MessageKind.FIRING: 0, MessageKind.REPEAT: 1, MessageKind.RESOLVED: 2}
    for alert_id in told:
        kinds = [
            order[outgoing.message.kind]
            for _, outgoing in world.sent
            if alert_id in {one.alert_id for one in outgoing.message.alerts}
        ]
        assert kinds == sorted(kinds)
    for when, outgoing in world.sent:
        if outgoing.message.kind is not MessageKind.RESOLVED:
            muted = [
                one
                for one in outgoing.message.alerts
                if Silencing(world.silences, when).mutes(world.alerts[one.alert_id])
            ]
            assert muted == []
    if is_owed:
        for alert in world.alerts.values():
            is_muted = Silencing(world.silences, alert.resolved_at or at(0)).mutes(alert)
            assert alert.id in told or is_muted
