"""Whatever pauses, what still goes on is told afterwards, and its end: the table of the docs."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import ClassVar

import pytest
from django.contrib.auth.models import User

from dashboard.core.common.times import DAY_MS, MINUTE_MS
from dashboard.notify.notifications.channels import NO_SERVER, Obstacle, Undelivered
from dashboard.notify.notifications.models import (
    SENT,
    Channel,
    Group,
    Message,
    RotaShift,
)
from dashboard.watch.agents import findings
from dashboard.watch.agents.models import VoteFault
from dashboard.watch.annotations.models import PERSON, Label, Mark
from dashboard.watch.incidents.models import ALL, Incident, Window
from domain.records import Mute
from ops.supervise import ROOT
from support.web.heartbeats import heartbeat, store
from support.web.notifier_bench import Bench, Trouble, made_bench
from support.web.rotas import put_on_call

pytestmark = pytest.mark.django_db

PAUSED_AT = 5
"""When each pause begins, in minutes since noon."""
STAGE_AT = 10
"""When the second stage is due."""
AFTERWARDS = 100
"""How long a pause is followed by nothing, in minutes."""
AT_ONCE, AFTER, NOT_TOLD = "at once", "after it", "not told"
NETWORK = "192.0.2.0/25"
GRACE = 2


class AgentTrouble(Trouble):
    """An agent whose reports are refused."""

    def begin(self, bench: Bench, asset: str = "waf-1") -> None:
        """Let it begin, half a minute ago."""
        VoteFault.objects.create(
            scenario="attack", agent=asset, kind="not-json", assets=3, since=bench.now - 30_000,
            last=bench.now,
        )  # fmt: skip

    def end(self, bench: Bench, asset: str = "waf-1") -> None:
        """Let it end."""
        VoteFault.objects.filter(agent=asset).delete()


# ---- the pauses ---------------------------------------------------------------------------------


class Pause:
    """A pause. length: in minutes; step: minutes between two looks in it; to_rota: whether the rule
    reaches who is on call, and not a channel."""

    length: ClassVar[int] = 60
    step: ClassVar[int] = 5
    to_rota: ClassVar[bool] = False
    trouble: ClassVar[Trouble] = Trouble()

    def prepare(self, bench: Bench) -> None:
        """Do what is to be done at noon."""

    def begin(self, bench: Bench) -> None:
        """Begin."""

    def end(self, bench: Bench) -> None:
        """End."""


class RuleOff(Pause):
    """Its rule is switched off."""

    def begin(self, bench: Bench) -> None:
        bench.rule.switch(enabled=False, now=bench.now)

    def end(self, bench: Bench) -> None:
        bench.rule.switch(enabled=True, now=bench.now)


class ChannelOff(Pause):
    """Its channel is switched off."""

    def begin(self, bench: Bench) -> None:
        Channel.objects.update(enabled=False)

    def end(self, bench: Bench) -> None:
        Channel.objects.update(enabled=True)


class NoAnswer(Pause):
    """Its receiver does not answer: the channel rests."""

    why: ClassVar[Exception] = Undelivered("no answer within 5 s", unreachable=True)

    def begin(self, bench: Bench) -> None:
        bench.refused = self.why

    def end(self, bench: Bench) -> None:
        bench.refused = None


class NoAnswerForDays(NoAnswer):
    """For longer than a message is tried."""

    length = 50 * 60
    step = 60


class NoMailServer(NoAnswer):
    """Nothing of its kind can be sent."""

    why = Obstacle(NO_SERVER)


class ChannelLimit(Pause):
    """The channel has sent as many messages as it may."""

    def begin(self, bench: Bench) -> None:
        Channel.objects.update(most=1)
        Message.objects.create(
            kind="test", status=SENT, channel=bench.channel, subject="", created_at=bench.now,
            ended_at=bench.now,
        )  # fmt: skip

    def end(self, bench: Bench) -> None:
        Channel.objects.update(most=60)


class RuleLimit(Pause):
    """The rule has sent as many messages as it may."""

    def begin(self, bench: Bench) -> None:
        bench.define(most=1)
        bench.rule.record_recent([bench.now])

    def end(self, bench: Bench) -> None:
        bench.define(most=20)


class QuietHours(Pause):
    """Quiet hours."""

    def prepare(self, bench: Bench) -> None:
        bench.define(quiet={"zone": "UTC", "begin": "12:05", "end": "13:05"})


class OutsideHours(Pause):
    """The hours of the rule are over until they begin again."""

    def prepare(self, bench: Bench) -> None:
        bench.define(hours={"zone": "UTC", "begin": "13:05", "end": "12:05"})


class Maintenance(Pause):
    """A maintenance window that holds notifications back."""

    def prepare(self, bench: Bench) -> None:
        begin = bench.now + PAUSED_AT * MINUTE_MS
        end = begin + self.length * MINUTE_MS
        Window.objects.create(
            name="work", scenario="attack", covers=ALL, begin=begin, end=end, planned_end=end,
            created_at=1, username="olga",
        )  # fmt: skip


class Behind(Pause):
    """What its asset lies behind is in trouble."""

    def begin(self, bench: Bench) -> None:
        Label.objects.create(
            scenario="attack", asset="shop", key="network", value=NETWORK, source=PERSON, name="o",
            at=1,
        )  # fmt: skip
        Incident.objects.create(
            scenario="connectivity", asset=NETWORK, place="n", began_at=bench.now, state="down",
            worst="down",
        )  # fmt: skip

    def end(self, bench: Bench) -> None:
        rows = Incident.objects.filter(asset=NETWORK)
        rows.update(ended_at=bench.now - GRACE * MINUTE_MS)


class Acknowledged(Pause):
    """Somebody has it in hand, or has snoozed it."""

    def begin(self, bench: Bench) -> None:
        until = bench.now + self.length * MINUTE_MS
        Mark.objects.create(
            scenario="attack", asset="shop", revision=1, changed_at=bench.now, ack_by="olga",
            ack_until=until, ack_severity=0,
        )  # fmt: skip
        Group.objects.open().update(next_at=bench.now)


class AgentMuted(Pause):
    """Somebody has muted the agent."""

    trouble = AgentTrouble()

    def begin(self, bench: Bench) -> None:
        mute = Mute("waf-1", None, "olga", "wild", "m")
        store(heartbeat(bench.now), mutes=json.dumps([asdict(mute)]))

    def end(self, bench: Bench) -> None:
        store(heartbeat(bench.now), mutes="")


class NobodyOnCall(Pause):
    """Nobody is on call in the only rota; then somebody else is."""

    to_rota = True

    def begin(self, bench: Bench) -> None:
        RotaShift.objects.all().delete()

    def end(self, bench: Bench) -> None:
        put_on_call(bench.rota, "omar", end=bench.now + 30 * DAY_MS)


class UserDisabled(Pause):
    """The only one on call is disabled; then no longer."""

    to_rota = True

    def begin(self, bench: Bench) -> None:
        User.objects.update(is_active=False)

    def end(self, bench: Bench) -> None:
        User.objects.update(is_active=True)


class NotifierDown(Pause):
    """The notifier does not run."""

    def begin(self, bench: Bench) -> None:
        bench.is_down = True

    def end(self, bench: Bench) -> None:
        bench.is_down = False


class NotifierDownForDays(NotifierDown):
    """For longer than anything is kept waiting."""

    length = 10 * 24 * 60
    step = 24 * 60


class Unread(Pause):
    """The job does not run, or nobody writes its states into the database."""

    def begin(self, bench: Bench) -> None:
        bench.unread = []

    def end(self, bench: Bench) -> None:
        bench.read_on()


PAUSES: dict[str, type[Pause]] = {
    "A rule is switched off": RuleOff,
    "A channel is switched off": ChannelOff,
    "A receiver does not answer": NoAnswer,
    "A receiver does not answer for days": NoAnswerForDays,
    "No mail server is configured": NoMailServer,
    "Nobody is on call": NobodyOnCall,
    "The only one on call is disabled": UserDisabled,
    "Limit of a channel": ChannelLimit,
    "Limit of a rule": RuleLimit,
    "Quiet hours": QuietHours,
    "Outside a rule's hours": OutsideHours,
    "Maintenance": Maintenance,
    "What it lies behind is in trouble": Behind,
    "Acknowledged or snoozed": Acknowledged,
    "An agent is muted": AgentMuted,
    "The notifier is down": NotifierDown,
    "The notifier is down for days": NotifierDownForDays,
    "The job or the materialiser is down": Unread,
}
"""The rows of the table in `docs/notifications.md`."""


# ---- the columns --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """When trouble begins and ends, as parts of the pause, and what somebody is to be told of it.

    A part below 0 is at noon, one above 1 is ten minutes after the pause.
    """

    begin: float
    end: float | None
    kinds: tuple[str, ...] = ()

    def minute(self, part: float, pause: type[Pause]) -> int:
        """Return a part of a pause in minutes since noon."""
        if part < 0:
            return 0
        return PAUSED_AT + (pause.length + 10 if part > 1 else round(part * pause.length))


COURSES = {
    "Next stage or reminder": Course(-1, None),
    "Ends after it": Course(-1, 2, ("resolved",)),
    "Ends in it": Course(-1, 0.5, ("resolved",)),
    "Begins in it, goes on": Course(0.25, None),
    "Begins and ends in it": Course(0.25, 0.5),
}
"""The columns."""


def rows_of_docs() -> dict[str, list[str]]:
    """Return the table of pauses in the docs: the cells by the name of the row."""
    text = (ROOT / "docs" / "notifications.md").read_text()
    table = text.partition("\n| Pause |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {name: cells for name, *cells in rows}


def columns_of_docs() -> list[str]:
    """Return the titles of its columns."""
    text = (ROOT / "docs" / "notifications.md").read_text()
    [line] = re.findall(r"^\| Pause \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


# ---- the table ----------------------------------------------------------------------------------


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench at noon. What counts the faults of agents on the board does not count the test's."""
    monkeypatch.setattr(findings, "count_doubts", lambda: None)
    return made_bench(monkeypatch)


def live(bench: Bench, pause: Pause, course: Course) -> None:
    """Let a pause and trouble go their course."""
    receiver = {"rotas": [bench.rota.pk]} if pause.to_rota else {"channels": [bench.channel.pk]}
    stages = [receiver, receiver | {"after_ms": STAGE_AT * MINUTE_MS}]
    bench.define(window_ms=0, stages=stages, agents=["agent-refused"])
    pause.prepare(bench)
    kind = type(pause)
    over = PAUSED_AT + kind.length
    begin = course.minute(course.begin, kind)
    end = None if course.end is None else course.minute(course.end, kind)
    minutes = {*range(0, over, kind.step), *range(over, over + AFTERWARDS, 5)}
    for minute in sorted({*minutes, PAUSED_AT, begin, *([] if end is None else [end])}):
        bench.minute = minute
        if minute == begin:
            pause.trouble.begin(bench)
        if minute == PAUSED_AT:
            pause.begin(bench)
        if minute == end:
            pause.trouble.end(bench)
        if minute == over:
            pause.end(bench)
        findings.watch(bench.now)
        bench.turn()


def when(told: list[int], pause: Pause, due: int) -> str:
    """Return when the first of these was told, in the words of the table. due: when it was due."""
    if not told:
        return NOT_TOLD
    return AT_ONCE if told[0] < PAUSED_AT + pause.length or told[0] == due else AFTER


def test_the_table_has_a_row_for_each_pause() -> None:
    assert list(rows_of_docs()) == list(PAUSES)
    assert columns_of_docs() == list(COURSES)


CELLS = [
    pytest.param(PAUSES[row], COURSES[column], cell, id=f"{row}-{column}")
    for row, cells in rows_of_docs().items()
    for column, cell in zip(COURSES, cells, strict=True)
]


@pytest.mark.parametrize(("kind", "course", "cell"), CELLS)
def test_what_a_pause_delays_is_told(
    bench: Bench, kind: type[Pause], course: Course, cell: str
) -> None:
    pause = kind()
    live(bench, pause, course)
    begun = course.minute(course.begin, kind)
    ended = 0 if course.end is None else course.minute(course.end, kind)
    told = [minute for minute in bench.told(*course.kinds) if minute >= PAUSED_AT]
    due = ended if course.kinds else begun
    assert when(told, pause, due) == cell
    for each in ("opened", "resolved"):
        assert len(bench.told(each)) <= (2 if kind is AgentMuted else 1)


@pytest.mark.parametrize("kind", [QuietHours, RuleLimit, NotifierDown, NotifierDownForDays])
def test_what_is_over_by_the_end_of_a_pause_is_one_message(bench: Bench, kind: type[Pause]) -> None:
    live(bench, kind(), COURSES["Begins and ends in it"])
    [(_, message)] = bench.sent
    assert message.subject.startswith("Over: shop")
