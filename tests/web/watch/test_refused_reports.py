"""An adopter's first program, a little wrong: what it is told, and where operators see it."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any, NamedTuple

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import HOUR_MS, MINUTE_MS, now_ms
from dashboard.core.states.models import AssetState
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.watch.agents import reports
from dashboard.watch.agents.findings import reported_findings, watch
from dashboard.watch.agents.models import AgentFinding, LateHour, LateMinute
from dashboard.watch.agents.reports import OTHERS, UNNAMED, Refusal, ingest_refusals, lately
from support.web.pages import text_of
from support.web.world import World
from wire.forward import MAX_FORWARDED, Headers, forward_headers
from wire.partitioner import partition_of
from wire.source import MAX_RECORD

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("stopped_clock")]

AGENT = "waf-3"


def value(**fields: Any) -> bytes:
    """A report that says *under attack*, but for these fields."""
    report = {"type": "report", "agent": AGENT, "state": "under-attack", **fields}
    return json.dumps({name: each for name, each in report.items() if each is not ...}).encode()


class Mistake(NamedTuple):
    """What a program sends; what its agent's page says, and what to do. agent: under that name."""

    sent: bytes
    text: str
    todo: str
    agent: str = AGENT
    key: bytes | None = b"shop"


NOT_JSON = "Its reports are refused: they are not JSON"
ONE_OBJECT = "Send one JSON object a record, without a byte order mark."
NO_TYPE = "Its reports are refused: they have no known type"
TYPE = 'Send one JSON object a record, with "type": "report".'
MISTAKES = {
    "no type": Mistake(value(type=...), NO_TYPE, TYPE),
    "another type": Mistake(value(type="Report"), NO_TYPE, TYPE),
    "a list": Mistake(b"[%s]" % value(), NO_TYPE, TYPE),
    "JSON in JSON": Mistake(json.dumps(value().decode()).encode(), NO_TYPE, TYPE),
    "a byte order mark": Mistake(b"\xef\xbb\xbf" + value(), NOT_JSON, ONE_OBJECT),
    "not JSON": Mistake(b"agent=waf-3 state=under-attack", NOT_JSON, ONE_OBJECT, UNNAMED),
    "Latin-1": Mistake(
        b'{"agent":"waf-3","site":"caf\xe9"}',
        "Its reports are refused: they are not text in UTF-8",
        "Send JSON in UTF-8.",
    ),
    "no key": Mistake(
        value(),
        "Its reports are refused: they do not say what they are about",
        "Give each record the asset's name as its key, or as asset in its value.",
        key=None,
    ),
    "no agent": Mistake(
        value(agent=...), "Its reports are refused: they name no agent", 'Send "agent"', UNNAMED
    ),
    "an operator's name": Mistake(
        value(agent="user:olga"),
        "Its reports are refused: they name no agent",
        'Send "agent", which must not begin with user:.',
        UNNAMED,
    ),
    "too large": Mistake(
        b'{"agent":"waf-3","x":"%s"}' % (b"y" * MAX_RECORD),
        f"Its reports are refused: they are over {MAX_RECORD:,} bytes",
        "Send less with each.",
    ),
    "a title for a state": Mistake(
        value(state="Under attack"),
        "Its reports are refused: they say a state that this board does not know",
        "Add the state, or downgrade the agent.",
    ),
    "a float for a time": Mistake(
        value(reported_at=1.5),
        "Its reports are refused: they have no valid time",
        "Send reported_at",
    ),
    "a text for a time": Mistake(
        value(reported_at="2026-11-23T12:00:00Z"),
        "Its reports are refused: they have no valid time",
        "Send reported_at in Unix milliseconds.",
    ),
    "microseconds": Mistake(
        value(reported_at=1_790_000_000_000_000),
        "Its reports are refused: they have no valid time",
        "Send reported_at in Unix milliseconds.",
    ),
    "seconds": Mistake(
        value(reported_at=1_790_000_000),
        "Its reports count for nothing: their times are in seconds",
        "Send reported_at in Unix milliseconds.",
    ),
}


def send(world: World, mistake: Mistake) -> None:
    """Send it, on assets that nobody has reported on, in two minutes."""
    topic, producer = topics().reports("attack"), world.gateway.producer()
    for _ in range(2):
        producer.send_and_wait(topic, mistake.key, mistake.sent)
        world.later(MINUTE_MS)
        world.write()


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_on_the_agents_page_with_its_remedy(
    world: World, client: Client, name: str
) -> None:
    mistake = MISTAKES[name]
    send(world, mistake)
    assert not AssetState.objects.exists()
    page = text_of(client.get(f"/agents/attack/{mistake.agent}/").content.decode())
    assert mistake.text in page
    assert mistake.todo in page
    assert mistake.text in text_of(client.get("/agents/?scenario=attack").content.decode())


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_in_the_banner_and_sent_by_rules(world: World, name: str) -> None:
    mistake, now = MISTAKES[name], now_ms()
    send(world, mistake)
    (finding,) = [each.finding for each in reported_findings(scenarios()["attack"], now)]
    kind = "behind" if name == "seconds" else "refused"
    assert (finding.agent, finding.kind) == (mistake.agent, kind)
    assert mistake.agent in finding.what
    watch(now)
    assert AgentFinding.objects.get().kind == kind


TOLD = {
    "no key": "no key refused (bad-asset): key: expected",
    "seconds": "key='shop' taken: waf-3 says under-attack. Its reported_at is",
    "a title for a state": "refused (unknown-state): state: expected under-attack, suspicious",
    "a list": "refused (unknown-type): expected an object with a type, got",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_check_agent_tells_what_the_job_makes_of_each_record(world: World, name: str) -> None:
    mistake, printed = MISTAKES[name], StringIO()
    send(world, mistake)
    agent = [] if mistake.agent == UNNAMED else [mistake.agent]
    call_command("check-agent", "attack", *agent, "--once", stdout=printed)
    lines = printed.getvalue().splitlines()
    assert len(lines) == 2
    expected = TOLD.get(name, "refused (")
    assert all(expected in line for line in lines), lines


def test_check_agent_shows_what_is_forwarded_and_from_where(world: World) -> None:
    world.gateway.producer().send_and_wait(
        topics().reports("attack"), None, value(asset="shop", agent=AGENT)
    )
    world.write()
    printed = StringIO()
    call_command("check-agent", "attack", AGENT, "--once", stdout=printed)
    first, second = sorted(printed.getvalue().splitlines(), key=lambda line: "taken" in line)
    assert "no key forwarded: 'shop' belongs on partition" in first
    assert "key='shop' taken: waf-3 says under-attack (forwarded from partition" in second


def checked() -> str:
    printed = StringIO()
    call_command("check-agent", "attack", AGENT, "--once", stdout=printed)
    return printed.getvalue()


@pytest.mark.parametrize(
    ("headers", "fill", "came"),
    [
        (forward_headers(3, 17, 1_790_000_000_000, ()), 0, " (forwarded from partition 3)"),
        ((), MAX_FORWARDED, ""),
        ((("trace", b"y" * MAX_FORWARDED),), 0, ""),
    ],
    ids=["forwarded before", "a large value", "large headers"],
)
def test_check_agent_tells_what_lies_wrongly_and_is_not_forwarded(
    world: World, headers: Headers, fill: int, came: str
) -> None:
    partitions = scenarios()["attack"].partitions
    right = partition_of(b"shop", partitions)
    wrong = (right + 1) % partitions
    topic, sent = topics().reports("attack"), value(detail={"x": "y" * fill})
    world.gateway.producer().send_and_wait(topic, b"shop", sent, headers=headers, partition=wrong)
    world.write()
    letter = DeadLetter.objects.get()
    assert letter.reason == "wrong-partition"
    [line] = checked().splitlines()
    expected = f"key: expected partition {right}, got partition {wrong}"
    assert line.endswith(f"key='shop' refused (wrong-partition): {expected}{came}")


def test_check_agent_names_what_it_does_not_know(world: World) -> None:
    with pytest.raises(CommandError, match=r"scenario: expected one of attack, .*, got 'atack'"):
        call_command("check-agent", "atack", "waf-3", "--once")
    complaint = StringIO()
    call_command("check-agent", "attack", "nobody", "--once", stderr=complaint)
    assert "no record of this agent" in complaint.getvalue()


def test_each_refusal_counts_once_and_under_its_agent(world: World) -> None:
    topic, producer = topics().reports("attack"), world.gateway.producer()
    for sent in (value(type=...), value(state="nowhere"), b"rubbish", value(agent="waf-4", type=7)):
        producer.send_and_wait(topic, b"shop", sent)
    producer.send_and_wait(topic, b"shop", b'{"type":"purge","agent":"waf-3"}')
    world.write()
    world.materialise()
    counted = dict(LateHour.objects.values_list("agent", "refused"))
    assert counted == {AGENT: 2, "waf-4": 1, UNNAMED: 1}


def rows_of_minutes() -> list[tuple[int, str, int]]:
    rows = LateMinute.objects.order_by("minute", "agent")
    return [
        (minute % 60, agent, refused)
        for minute, agent, refused in rows.values_list("minute", "agent", "refused")
    ]


def refusals(begin: int, minute: int, *agents: str) -> list[Refusal]:
    return [Refusal("attack", agent, "not-json", begin + minute * MINUTE_MS) for agent in agents]


def test_a_new_name_in_each_record_makes_no_row_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_AGENTS", 2)
    begin = now_ms() // HOUR_MS * HOUR_MS
    ingest_refusals(refusals(begin, 0, "a", "b", "c", "a", "d", ""))
    ingest_refusals(refusals(begin, 0, "b", "e"))
    assert rows_of_minutes() == [(0, UNNAMED, 1), (0, OTHERS, 3), (0, "a", 2), (0, "b", 2)]
    # In the next minute others have room, and those with a row of this hour keep theirs.
    ingest_refusals([*refusals(begin, 1, "f", "g", "h", "a"), *refusals(begin, 0, "h")])
    assert rows_of_minutes()[4:] == [(1, OTHERS, 1), (1, "a", 1), (1, "f", 1), (1, "g", 1)]
    assert rows_of_minutes()[:2] == [(0, UNNAMED, 1), (0, OTHERS, 4)]
    hours = dict(LateHour.objects.values_list("agent", "refused"))
    assert hours == {UNNAMED: 1, OTHERS: 5, "a": 3, "b": 2, "f": 1, "g": 1}


def test_what_counts_under_no_name_of_its_own_is_on_the_page_of_the_agents(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MAX_AGENTS", 1)
    ingest_refusals(refusals(now_ms(), 0, "a", "b", ""))
    assert OTHERS in text_of(client.get("/agents/?scenario=attack").content.decode())
    for agent, link in ((OTHERS, ""), (UNNAMED, ""), ("a", "&amp;word=a")):
        page = client.get(f"/agents/attack/{agent}/").content.decode()
        assert "Its reports are refused: they are not JSON" in text_of(page)
        assert f'?scenario=attack{link}">Dead letters</a>' in page


def test_a_flood_of_names_leaves_an_hour_few_rows() -> None:
    begin = now_ms() // HOUR_MS * HOUR_MS
    for batch in range(3):
        names = [f"request-{batch}-{number}" for number in range(400)]
        ingest_refusals(refusals(begin, 0, *names))
    assert LateHour.objects.count() == LateMinute.objects.count() == reports.MAX_AGENTS + 1
    assert LateHour.objects.get(agent=OTHERS).refused == 1_200 - reports.MAX_AGENTS


def shown_reason(*told: tuple[int, str]) -> str:
    """Why reports are refused, after a batch of refusals: s after the hour's begin, reason."""
    begin = now_ms() // HOUR_MS * HOUR_MS
    ingest_refusals(Refusal("attack", AGENT, why, begin + at * 1_000) for at, why in told)
    return lately(scenarios()["attack"], None, begin + MINUTE_MS)[AGENT].sums.reason


def test_the_newest_reason_is_shown() -> None:
    assert (
        shown_reason((0, "wrong-partition"), (1, "unknown-type"), (2, "bad-agent")) == "bad-agent"
    )
    assert shown_reason((5, "too-large"), (4, "unknown-type")) == "too-large", "by time"
    assert shown_reason((6, "bad-time")) == "bad-time", "in a later batch of the same minute"
    assert shown_reason((70, "bad-asset")) == "bad-asset", "in a later minute"


def test_of_reasons_of_one_time_the_most_frequent_is_shown() -> None:
    assert shown_reason((0, "not-json"), (0, "bad-agent"), (0, "not-json")) == "not-json"
    assert shown_reason((9, "bad-agent"), (9, "not-json"), (9, "bad-agent")) == "bad-agent"


def test_late_reports_hide_no_reason() -> None:
    assert shown_reason((0, "unknown-type")) == "unknown-type"
    late = {"stale": 1, "late": 0, "silent": 0, "rare": 0, "age": 1}
    minute = LateMinute.objects.get().minute + 1
    LateMinute.objects.create(
        scenario="attack", agent=AGENT, minute=minute, last=minute * MINUTE_MS, **late
    )
    assert shown_reason() == "unknown-type"


def test_what_reads_well_is_no_fault(world: World) -> None:
    world.report("shop", "clear", AGENT)
    world.write()
    assert not LateHour.objects.exists()
    assert not reported_findings(scenarios()["attack"], now_ms())
