"""What waits for its receiver is told once, in the words of then, and only if it still matters."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from dashboard.core.common.times import DAY_MS, MINUTE_MS
from dashboard.notify.notifications.channels import Undelivered
from dashboard.notify.notifications.decisions import OVER_BEFORE, RULE_OFF, decide
from dashboard.notify.notifications.deferral import (
    UNNAMED,
    DeferredMessage,
    carry_deferred,
    defer_lost,
    defer_parts,
)
from dashboard.notify.notifications.delivery import alarm
from dashboard.notify.notifications.models import (
    GIVEN_UP,
    HELD,
    NOT_SENT,
    SENT,
    WAITED,
    Channel,
    Message,
    PushSubscription,
    RotaShift,
)
from dashboard.notify.notifications.on_call import NOBODY, OVER_UNTOLD, UNREACHED_REASONS
from dashboard.notify.notifications.outbox import MessageDraft, put, targets_of_channel
from domain.notifications.deferral import ENDING, IN_HAND, is_past, why_waiting
from domain.notifications.group import (
    ESCALATED,
    MORE,
    OPENED,
    REMINDER,
    RESOLVED,
    SUMMARY,
    Group,
    Member,
)
from domain.notifications.hours import Hours
from domain.notifications.machine import PAUSED, QUIET, REASONS
from domain.notifications.rule import Quiet, Rule, Stage
from support.web.notifier_bench import NOON, Bench, Trouble, made_bench
from support.web.rotas import put_on_call

pytestmark = pytest.mark.django_db

ATTACK = Trouble()
REFUSED = Undelivered("451 later")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A rule that tells the channel at once, and reminds it every five minutes."""
    bench = made_bench(monkeypatch)
    stages = [{"channels": [bench.channel.pk]}]
    bench.define(window_ms=0, stages=stages, repeat_ms=5 * MINUTE_MS)
    return bench


def switch(enabled: bool) -> None:
    Channel.objects.update(enabled=enabled)


def to_rota(bench: Bench) -> None:
    """Have the rule reach who is on call, alone."""
    bench.define(stages=[{"rotas": [bench.rota.pk]}])


def last_resort() -> Channel:
    """Store a channel of last resort."""
    plain = {"name": "Boss", "kind": "mail", "address": "boss@a.org", "last_resort": True}
    return Channel.objects.create(**plain, changed_at=1)


def subjects(bench: Bench) -> list[str]:
    return [each.subject for _, each in bench.sent]


def reasons(status: str) -> set[str]:
    return set(Message.objects.filter(status=status).values_list("reason", flat=True))


# ---- a channel that is switched off -------------------------------------------------------------


def test_what_goes_on_is_one_message_in_the_words_of_then(bench: Bench) -> None:
    switch(enabled=False)
    for asset in ("shop", "forum"):
        ATTACK.begin(bench, asset)
    for minute in range(0, 300, 5):
        bench.at(minute)
        if minute == 100:
            ATTACK.end(bench, "forum")
    assert bench.sent == []
    assert Message.objects.deferred().count() == 2, "the first, and the newest reminder"
    switch(enabled=True)
    bench.at(299)
    [(_, message)] = bench.sent
    assert message.subject == "1 site no longer under attack; 1 site under attack"
    assert "forum (Attacks): Under attack since 2026-03-02 12:00:00 UTC, over after" in message.text
    bench.at(300)
    assert [each.kind for _, each in bench.sent] == [OPENED, REMINDER]


def test_what_begins_and_ends_in_it_says_so(bench: Bench) -> None:
    switch(enabled=False)
    ATTACK.begin(bench)
    bench.at(0)
    ATTACK.end(bench)
    bench.at(5)
    assert not Message.objects.deferred().exists()
    assert reasons(NOT_SENT) == {OVER_UNTOLD}
    switch(enabled=True)
    bench.at(10)
    assert bench.sent == []


def test_what_is_queued_when_it_is_switched_off_waits_too(bench: Bench) -> None:
    bench.refused = REFUSED
    ATTACK.begin(bench)
    put(targets_of_channel(bench.channel)[0], MessageDraft("test", "a test", ""), bench.now)
    bench.at(0)
    switch(enabled=False)
    bench.refused = None
    bench.at(1)
    assert bench.sent == []
    assert reasons(HELD) == reasons(NOT_SENT) == {"the channel is switched off"}
    switch(enabled=True)
    bench.at(2)
    assert subjects(bench) == ["shop under attack"]
    assert Message.objects.get(reason=WAITED).status == GIVEN_UP, "it was tried"


def test_a_summary_that_is_queued_goes_out_as_it_was(bench: Bench) -> None:
    bench.define(most=1, group_by=["asset"], repeat_ms=None)
    bench.refused = REFUSED
    for asset in ("shop", "forum"):
        ATTACK.begin(bench, asset)
    bench.at(0)
    switch(enabled=False)
    bench.at(1)
    bench.refused = None
    switch(enabled=True)
    bench.at(2)
    assert subjects(bench) == ["2 messages in one: Attacks"]


def test_what_a_summary_could_not_tell_is_told_by_group(bench: Bench) -> None:
    bench.define(most=1, group_by=["asset"], repeat_ms=None)
    switch(enabled=False)
    for asset in ("shop", "forum"):
        ATTACK.begin(bench, asset)
    bench.at(0)
    switch(enabled=True)
    bench.at(1)
    assert sorted(subjects(bench)) == ["forum under attack", "shop under attack"]


def test_a_channel_that_is_retired_meanwhile_is_told_nothing(bench: Bench) -> None:
    switch(enabled=False)
    ATTACK.begin(bench)
    bench.at(0)
    bench.channel.retire(bench.now)
    bench.at(1)
    assert reasons(NOT_SENT) == {"the channel or the rota is retired, or of a kind that is unknown"}


def test_a_rule_that_is_retired_or_names_it_no_longer_tells_it_nothing(bench: Bench) -> None:
    switch(enabled=False)
    ATTACK.begin(bench)
    bench.at(0)
    to_rota(bench)
    bench.at(1)
    assert reasons(NOT_SENT) == {UNNAMED}
    bench.define(stages=[{"channels": [bench.channel.pk]}])
    bench.at(6)
    bench.rule.retire(bench.now)
    bench.at(7)
    assert reasons(NOT_SENT) == {UNNAMED, RULE_OFF}
    assert bench.sent[1:] == []


def test_where_no_end_is_sent_what_is_over_is_not_told(bench: Bench) -> None:
    bench.define(resolved=False)
    switch(enabled=False)
    ATTACK.begin(bench)
    bench.at(0)
    ATTACK.end(bench)
    bench.at(1)
    bench.at(2)
    assert reasons(NOT_SENT) == {OVER_BEFORE}


# ---- nobody on call -----------------------------------------------------------------------------


def test_nobody_on_call_is_an_alarm_at_once_and_told_later(bench: Bench) -> None:
    to_rota(bench)
    boss = last_resort()
    RotaShift.objects.all().delete()
    ATTACK.begin(bench)
    bench.at(0)
    bench.at(1)
    assert subjects(bench) == ["Nobody was reached: shop under attack"]
    put_on_call(bench.rota, "omar", end=NOON + DAY_MS)
    bench.at(2)
    last = bench.sent[-1][1]
    assert (last.recipient, last.subject) == ("omar@example.org", "shop under attack")
    assert "/notifications/reply/" in last.text
    assert boss.messages.count() == 1


def test_what_is_queued_for_the_only_one_who_is_disabled_is_an_alarm_at_once(bench: Bench) -> None:
    to_rota(bench)
    last_resort()
    bench.refused = REFUSED
    ATTACK.begin(bench)
    bench.at(0)
    User.objects.update(is_active=False)
    bench.refused = None
    bench.at(1)
    bench.at(2)
    assert subjects(bench) == ["Nobody was reached: shop under attack"]
    User.objects.update(is_active=True)
    bench.at(3)
    assert subjects(bench)[1:] == ["shop under attack"]


def test_a_notifier_that_was_killed_before_the_alarm_raises_it_days_later(bench: Bench) -> None:
    to_rota(bench)
    last_resort()
    RotaShift.objects.all().delete()
    bench.define(repeat_ms=None)
    ATTACK.begin(bench)
    decide(lambda: bench.now)
    bench.at(3 * 24 * 60)
    bench.at(3 * 24 * 60 + 1)
    assert "Nobody was reached: shop under attack" in subjects(bench)


def test_what_is_queued_for_a_user_who_is_disabled_goes_to_who_is_on_call(bench: Bench) -> None:
    to_rota(bench)
    put_on_call(bench.rota, "omar", end=NOON + DAY_MS, written_at=0)
    bench.refused = REFUSED
    ATTACK.begin(bench)
    bench.at(0)
    assert Message.objects.get().user == User.objects.get(username="nina")
    User.objects.filter(username="nina").update(is_active=False)
    bench.refused = None
    bench.at(1)
    [(_, message)] = bench.sent
    assert message.recipient == "omar@example.org"


def test_who_comes_on_call_in_quiet_hours_is_told_after_them(bench: Bench) -> None:
    to_rota(bench)
    bench.define(quiet={"zone": "UTC", "begin": "12:01", "end": "12:30"})
    RotaShift.objects.all().delete()
    ATTACK.begin(bench)
    bench.at(0)
    assert reasons(HELD) == {UNREACHED_REASONS[NOBODY]}
    put_on_call(bench.rota, "omar", end=NOON + DAY_MS)
    bench.at(2)
    assert bench.sent == []
    assert reasons(HELD) == {REASONS[QUIET]}
    bench.at(30)
    assert subjects(bench)[0] in ("shop under attack", "Reminder: shop under attack")
    assert len(bench.sent) == 1


# ---- a receiver that fails for a day ------------------------------------------------------------


def test_what_failed_for_a_day_is_tried_on_and_alarmed_each_day(bench: Bench) -> None:
    bench.define(repeat_ms=None)
    last_resort()
    bench.refused = Undelivered("no answer", unreachable=True)
    ATTACK.begin(bench)
    for minute in range(0, 50 * 60, 10):
        bench.at(minute)
    assert Message.objects.filter(kind=OPENED, status=GIVEN_UP).count() == 2
    assert Message.objects.filter(kind="unreached").count() == 3
    bench.refused = None
    bench.at(50 * 60)
    assert subjects(bench).count("shop under attack") == 1


def away_for_a_day(bench: Bench) -> None:
    """Have the channel take nothing from now on, for longer than a message is tried."""
    bench.refused = Undelivered("no answer", unreachable=True)
    for minute in range(bench.minute, bench.minute + 25 * 60, 10):
        bench.at(minute)


def back(bench: Bench) -> list[Message]:
    """Have the channel answer again, and return what it gets in an hour."""
    bench.refused, since = None, len(bench.sent)
    for minute in range(bench.minute + 10, bench.minute + 70, 10):
        bench.at(minute)
    return [each for _, each in bench.sent[since:] if each.channel == bench.channel]


def begun(told: list[Message]) -> list[str]:
    """Return the subjects of the openings among these."""
    return sorted(each.subject for each in told if each.kind == OPENED)


def test_what_goes_on_of_a_rules_summary_that_is_given_up_is_told_by_group(bench: Bench) -> None:
    bench.define(most=1, group_by=["asset"], repeat_ms=None)
    for asset in ("shop", "forum", "blog"):
        ATTACK.begin(bench, asset)
    bench.refused = REFUSED
    bench.at(0)
    ATTACK.end(bench, "blog")
    away_for_a_day(bench)
    assert Message.objects.get(kind=SUMMARY).status == GIVEN_UP
    assert begun(back(bench)) == ["forum under attack", "shop under attack"]
    ATTACK.end(bench, "shop")
    assert [each.kind for each in back(bench)] == [RESOLVED]


def test_what_goes_on_of_a_channels_summary_that_is_given_up_is_told_by_group(bench: Bench) -> None:
    bench.define(most=100, group_by=["asset"], repeat_ms=None)
    Channel.objects.update(most=2)
    ATTACK.begin(bench, "known")
    bench.at(0)
    bench.minute = 30
    Channel.objects.update(most=3)
    for asset in ("shop", "forum", "blog"):
        ATTACK.begin(bench, asset)
    ATTACK.end(bench, "known")
    bench.refused = REFUSED
    bench.at(30)
    assert Message.objects.get(kind=SUMMARY).subject == "3 messages in one"
    Channel.objects.update(most=60)
    away_for_a_day(bench)
    told = back(bench)
    assert begun(told) == ["blog under attack", "forum under attack", "shop under attack"]
    [end] = [each for each in told if each.kind == RESOLVED]
    assert end.subject.startswith("Over: known"), "its begin was told"
    assert len(told) == 4


def test_a_summary_in_another_one_that_is_given_up_is_told_by_group(bench: Bench) -> None:
    bench.define(most=1, group_by=["asset"], repeat_ms=None)
    bench.refused = REFUSED
    for asset in ("shop", "forum"):
        ATTACK.begin(bench, asset)
    [target] = targets_of_channel(bench.channel)
    put(target, MessageDraft("test", "a test", ""), bench.now - 1)
    Channel.objects.update(most=1)
    bench.at(0)
    Channel.objects.update(most=60)
    away_for_a_day(bench)
    ended = Message.objects.filter(kind=SUMMARY).values_list("status", flat=True)
    assert list(ended) == [GIVEN_UP, GIVEN_UP]
    assert begun(back(bench)) == ["forum under attack", "shop under attack"]


def test_a_summary_that_was_deferred_keeps_what_it_stands_for(bench: Bench) -> None:
    bench.define(most=100, group_by=["asset"], repeat_ms=None)
    Channel.objects.update(most=1)
    bench.refused = REFUSED
    for asset in ("shop", "forum"):
        ATTACK.begin(bench, asset)
    bench.at(0)
    Channel.objects.update(most=60)
    switch(enabled=False)
    bench.at(1)
    switch(enabled=True)
    away_for_a_day(bench)
    assert begun(back(bench)) == ["forum under attack", "shop under attack"]


def test_a_summary_that_is_given_up_raises_one_alarm(bench: Bench) -> None:
    bench.define(most=1, group_by=["asset"], repeat_ms=None)
    for asset in ("shop", "forum"):
        ATTACK.begin(bench, asset)
    bench.refused = REFUSED
    bench.at(0)
    last_resort()
    bench.at(5)
    assert Message.objects.filter(kind="unreached").count() == 1
    bench.minute = 24 * 60
    [row] = Message.objects.filter(kind=SUMMARY)
    defer_parts(row, "no answer", bench.now)
    Message.objects.filter(pk=row.pk).update(status=GIVEN_UP, ended_at=bench.now)
    assert Message.objects.deferred().count() == 2
    alarm(lambda: bench.now)
    assert Message.objects.filter(kind="unreached").count() == 1


def test_each_group_of_a_summary_to_a_user_is_once_in_the_inbox(bench: Bench) -> None:
    to_rota(bench)
    bench.define(most=1, group_by=["asset"], repeat_ms=None)
    bench.rota.kinds = ["mail", "push"]
    bench.rota.save()
    nina = User.objects.get(username="nina")
    PushSubscription.objects.create(user=nina, endpoint="https://push", created_at=1)
    for asset in ("shop", "forum"):
        ATTACK.begin(bench, asset)
    while decide(lambda: bench.now):
        pass
    for row in Message.objects.filter(kind=SUMMARY):
        Message.objects.filter(pk=row.pk).update(status=GIVEN_UP, ended_at=bench.now)
        defer_parts(row, "no answer", bench.now)
    bench.minute = 1
    carry_deferred(lambda: bench.now)
    told = Message.objects.filter(user=nina, kind=OPENED)
    assert sorted(told.values_list("means", "subject")) == [
        ("mail", "forum under attack"), ("mail", "shop under attack"),
        ("push", "forum under attack"), ("push", "shop under attack"),
    ]  # fmt: skip
    assert Message.objects.inbox_of(nina).filter(kind=OPENED).count() == 2


# ---- once ---------------------------------------------------------------------------------------


def test_two_workers_tell_it_once(bench: Bench) -> None:
    switch(enabled=False)
    ATTACK.begin(bench)
    bench.at(0)
    switch(enabled=True)
    [row] = Message.objects.deferred()
    DeferredMessage(row, bench.now).settle()
    DeferredMessage(row, bench.now).settle()
    assert Message.objects.addressed().count() == 1


def test_what_a_worker_is_sending_is_left_to_it(bench: Bench) -> None:
    bench.refused = REFUSED
    ATTACK.begin(bench)
    bench.at(0)
    switch(enabled=False)
    [row] = Message.objects.select_related("channel")
    Message.objects.update(lease="other", lease_until=bench.now + MINUTE_MS)
    defer_lost(row, bench.now)
    carry_deferred(lambda: bench.now)
    assert not Message.objects.deferred().exists()


def test_nothing_is_told_twice(bench: Bench) -> None:
    ATTACK.begin(bench)
    bench.at(0)
    for minute in (1, 2, 3):
        switch(enabled=False)
        bench.at(minute)
        switch(enabled=True)
        bench.at(minute)
    assert subjects(bench) == ["shop under attack"]
    assert set(Message.objects.values_list("status", flat=True)) == {SENT}


# ---- when it is told ----------------------------------------------------------------------------

NIGHT = Quiet(Hours("UTC", frozenset(range(7)), 22 * 60, 6 * 60))
MIDNIGHT = NOON + 12 * 60 * MINUTE_MS
GOING_ON = Member("attack", "shop", "p", NOON, "under-attack", "under-attack", notified="x")
OVER = GOING_ON._replace(over_at=NOON)
IN_HANDS = GOING_ON._replace(ack_until=NOON + DAY_MS)


def group(member: Member, exempt: bool = False) -> Group:
    return Group("k", NOON, exempt=exempt).with_members([member])


@pytest.mark.parametrize(
    ("of", "kind", "now", "paused", "waits"),
    [
        (group(GOING_ON), OPENED, NOON, False, ""),
        (group(GOING_ON), OPENED, NOON, True, REASONS[PAUSED]),
        (group(GOING_ON), OPENED, MIDNIGHT, False, REASONS[QUIET]),
        (group(GOING_ON, exempt=True), OPENED, MIDNIGHT, False, ""),
        (group(OVER), OPENED, NOON, False, ENDING),
        (group(IN_HANDS), OPENED, NOON, False, ""),
        (group(IN_HANDS), MORE, NOON, False, ""),
        (group(IN_HANDS), ESCALATED, NOON, False, IN_HAND),
        (group(IN_HANDS), REMINDER, NOON, False, IN_HAND),
        (None, RESOLVED, NOON, False, ""),
        (None, RESOLVED, MIDNIGHT, False, REASONS[QUIET]),
    ],
)
def test_what_it_waits_for(of: Group | None, kind: str, now: int, paused: bool, waits: str) -> None:
    rule = Rule((Stage(0, (1,)),), quiet=NIGHT)
    assert why_waiting(rule, of, kind, now, paused=paused) == waits


def test_of_what_is_over_the_end_alone_is_told() -> None:
    kinds = (OPENED, MORE, ESCALATED, REMINDER, RESOLVED)
    assert [kind for kind in kinds if not is_past(None, kind)] == [RESOLVED]
    assert not is_past(group(GOING_ON), OPENED)
