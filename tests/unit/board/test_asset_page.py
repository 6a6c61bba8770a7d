"""The page of one asset: why, who is silent, what happened, and the records behind it."""

from __future__ import annotations

import html
import json
import re
import uuid
from dataclasses import replace
from typing import Any, get_args

import pytest
from django.core.cache import cache
from django.test import Client

from bus.base import ConsumerRecord
from dashboard.board.assets import asset_page, log_records
from dashboard.board.assets.asset_page import PAGE, timeline, unreported_agents
from dashboard.board.assets.log_records import NotShown, fetch, show
from dashboard.board.live.live_view import live_view
from dashboard.core.common.access import Limit
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import exact_span, iso, now_ms
from dashboard.core.job.models import BucketStatus
from dashboard.core.job.status import log_time
from dashboard.core.rules.models import RuleRecord
from dashboard.core.states.models import AssetState, Transition
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.watch.commands.models import Command as Row
from domain.records import Record, Report
from domain.version import Version
from streaming.fold.rules import dump_rule
from support.web.web_fixtures import make_user
from support.web.world import World
from wire.forward import forward_headers
from wire.partitioner import partition_of
from wire.source import encode_report, encode_scenario, encode_tick

pytestmark = pytest.mark.django_db

HX = {"HX-Request": "true"}
ASSET = "shop.example"
PATH = f"/s/attack/a/{ASSET}/"


def text(response: Any) -> str:
    inline = re.sub(r"</?bdi[^>]*>", "", response.content.decode())
    body = re.sub(r"<(script|form).*?</\1>", " ", inline, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


# ---- why ----------------------------------------------------------------------------------


def test_what_a_hold_brought_says_how_long_who_voted_for_it(client: Client, world: World):
    agents = ("waf-1", "waf-2", "waf-3", "waf-4")
    world.report(ASSET, "under-attack", *agents)
    world.report(ASSET, "clear", *agents)
    hold = scenarios()["attack"].hold("clear")
    assert hold
    world.later(hold)
    world.write()
    cause = f"Clear for {exact_span(hold)}: waf-1, waf-2, waf-3, 1 more"
    assert f"Last record: {cause}" in text(client.get(PATH))
    [line] = [
        line for line in client.get("/").content.decode().split("<tr") if f'"{ASSET}"' in line
    ]
    assert cause in re.sub("[\u2068\u2069]", "", line)
    assert cause in text(client.get("/events/"))
    assert "voted for long enough" not in text(client.get(PATH))


def idle(client: Client) -> set[str]:
    """The commands that the panel does not offer."""
    [names] = re.findall(r'id="facts"[^>]*data-idle="([^"]*)"', client.get(PATH).content.decode())
    return set(names.split())


def test_what_would_change_nothing_is_not_offered(client: Client, world: World):
    assert idle(client) == {"release", "acknowledge"}
    world.report(ASSET, "clear")
    world.write()
    assert idle(client) == {"release", "acknowledge"}
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.command("vote", ASSET, state="clear", user="olga")
    world.write()
    assert idle(client) == {"release"}, "a colleague's vote is no reason to release"
    world.command("vote", ASSET, state="clear", user="operator")
    world.write()
    assert idle(client) == set()
    world.command("release", ASSET, user="operator")
    world.command("set", ASSET, state="clear", user="olga")
    world.write()
    assert idle(client) == {"acknowledge"}, "a pin may be released by anybody"


def test_of_a_life_cycle_the_next_report_decides(client: Client, world: World):
    world.report("order-1", "picking", "desk", scenario="orders")
    world.write()
    page = text(client.get("/s/orders/a/order-1/"))
    assert "Picking: desk said so last, the only live vote; the next report decides." in page


def test_the_state_and_why_in_words(client: Client, world: World):
    world.report(ASSET, "under-attack", "waf-1", "waf-2", "waf-3")
    world.report(ASSET, "clear", "waf-4", "waf-5")
    world.write()
    response = client.get(PATH)
    page = text(response)
    assert "Under attack: 3 of 5 live votes; one more Suspicious vote starts its hold" in page
    assert "Under attack 3 of 5 votes (3 needed) – decides" in page
    assert re.search(r"waf-4 Clear differs \d s", page)
    assert re.search(
        r"Clear with 2 more votes, or when waf-1, waf-2 or waf-3 says so; it must", page
    )
    assert "repeated every" in page
    assert response.content.decode().count('class="differs"') == 2


def test_moments_carry_their_milliseconds(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    since = AssetState.objects.get().since
    body = client.get(PATH).content.decode()
    assert re.search(rf'<time data-at="{since}" datetime="[\dT:-]+Z">[\d:]+ UTC</time>', body)


def test_unheard_agents_are_those_that_the_history_names(client: Client, world: World):
    world.report(ASSET, "clear", "waf-1", "waf-2")
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.command("purge", ASSET)
    world.report(ASSET, "clear", "waf-3", "waf-4")
    world.write()
    assert {one.agent for one in unreported_agents("attack", ASSET, {"waf-3", "waf-4"})} == {
        "waf-1",
        "waf-2",
    }
    assert "Without a vote waf-2 changed the state" in text(client.get(PATH))
    assert unreported_agents("attack", "other", set()) == []


MINUTE = 60_000
LONG_AGO = 12 * MINUTE
"""Longer than a vote lives, and not as long as a silent one is kept."""


def old_report(world: World, agent: str, state: str) -> None:
    """A report as a spool sends it: older than a vote lives."""
    world.job.put("attack", Report(ASSET, agent, state, now_ms() - LONG_AGO))


def test_silent_votes_stand_apart_and_say_what_they_keep_up(client: Client, world: World):
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.write()
    for agent in ("waf-3", "waf-4"):
        old_report(world, agent, "under-attack")
    world.report(ASSET, "clear", "waf-1", "waf-2")
    world.write()
    page = text(client.get(PATH))
    assert (
        "Under attack: the live votes give Clear, but waf-3 and waf-4 fell silent saying "
        "Under attack; one more Suspicious vote starts its hold"
    ) in page
    assert re.search(
        r"waf-3 and waf-4 fell silent at [\d: -]+ UTC saying Under attack Their last word "
        r"counts against an all-clear until [\d: -]+ UTC , or until they report or leave\.",
        page,
    )
    assert re.search(r"Silent votes .* waf-3 Under attack [\d: -]+ UTC 4 m \d\d s 1", page)
    assert re.search(r"In 4 m \d\d s the last word of waf-3 is forgotten: live votes for", page)
    assert "Unconfirmed : nobody says it is this bad" in page


def test_agents_in_doubt_are_named_with_why_and_until(client: Client, world: World):
    now = now_ms()
    for agent in ("waf-1", "waf-2"):
        world.job.put("attack", Report(ASSET, agent, "clear", now))
    world.job.put("attack", Report(ASSET, "waf-3", "clear", now + 6 * MINUTE + 500))
    world.job.put("attack", Report(ASSET, "waf-1", "under-attack", now - MINUTE))
    world.job.put("attack", Report(ASSET, "probe-9", "critical"))
    world.write()
    page = text(client.get(PATH))
    clock = r"\d\d:\d\d:\d\d UTC"
    said = rf"contradicts itself: said Under attack at {clock}"
    assert "Clear disputed: critical in doubt for" in page
    assert "Disputed : probe-9, in doubt, reported critical" in page
    assert re.search(rf"In doubt : what is said in doubt .* waf-1: {said} ; until {clock}", page)
    assert "probe-9: says critical, which this board does not know; until" in page
    assert "waf-3: clock 6 min ahead" in page
    assert re.search(rf"waf-1 Clear \d+ s [\dms ]+ 1 in doubt: {said}", page)
    assert re.search(r"waf-3 Clear \d+ s [\dms ]+ 1 in doubt: clock 6 min ahead", page)
    assert re.search(
        r"Agents in doubt without a vote Agent Said Ends in probe-9 critical [\dms ]+ says c",
        page,
    )
    assert "Votes in doubt raise it as others do" in page
    assert "Unconfirmed : 1 of 2 voters It takes 2 live votes without doubt" in page
    assert "Last record: report of probe-9 not taken" in page
    assert "make something else" not in page


def test_what_else_is_to_know_of_a_vote_stands_below_it(client: Client, world: World):
    for state in ("clear", "suspicious", "clear", "under-attack"):
        world.report(ASSET, state, "waf-1")
    world.job.put("attack", Report(ASSET, "waf-1", "clear", detail=json.dumps({"x": "y" * 3_000})))
    world.report(ASSET, "clear", "waf-2", "waf-3")
    world.write()
    page = text(client.get(PATH))
    assert "1 flapping: Under attack counts too; detail left out: too large" in page
    assert "in doubt" not in page


def test_a_pin_over_a_worse_vote_is_disputed(client: Client, world: World):
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.command("set", ASSET, state="clear")
    world.write()
    page = text(client.get(PATH))
    assert "Clear disputed: Under attack for" in page
    assert "Disputed : waf-1 and waf-2 say Under attack" in page


def test_one_that_was_only_pinned_is_unknown_then(client: Client, world: World):
    old_report(world, "waf-1", "clear")
    world.write()
    page = text(client.get(PATH))
    assert "unknown: no report yet; its first report makes its state." in page
    assert "because of a report too old to count" in page


def test_what_waits_counts_down_in_the_logs_time(client: Client, world: World):
    world.report(ASSET, "under-attack")
    world.report(ASSET, "clear")
    world.write()
    BucketStatus.objects.update(at=now_ms(), received_at=now_ms(), log_time=now_ms() - 60_000)
    live_view.cache_clear()
    page = text(client.get(PATH))
    assert "and Clear waits with 2 of 2 live votes" in page
    assert re.search(r"Becomes Clear in [\dm ]+ s if live votes go on saying so", page)
    assert re.search(r"in the log's time, which runs (59 s|1 m 00 s) behind", page)
    BucketStatus.objects.update(at=now_ms() - 3_600_000)
    live_view.cache_clear()
    page = text(client.get(PATH))
    assert "No heartbeats come from the job, so that time stays at" in page
    assert "if live votes go on saying so" not in page


def test_without_a_heartbeat_there_is_no_log_time(world: World):
    assert log_time("attack", 0, now_ms()) is None


# ---- what happened ------------------------------------------------------------------------


def test_changes_and_commands_are_one_history(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    data = {"id": "6f1d7a9e-0000-4000-8000-000000000001", "state": "suspicious", "reason": "saw it"}
    client.post(f"/s/attack/command/set/{ASSET}/", data)
    world.write()
    world.report(ASSET, "clear", "waf-3")
    world.write()
    history = timeline("attack", ASSET, None, now_ms())
    kinds = [(entry.kind, entry.state, bool(entry.command)) for entry in history.entries]
    assert kinds == [
        ("change", "suspicious", True),
        ("confirmed", "clear", False),
        ("change", "clear", False),
    ]
    shown = text(client.get(PATH))
    assert re.search(r"Newest record [\d:]+ UTC reported by waf-3", shown)
    assert re.search(r"Suspicious [\d:]+ UTC set by operator Applied “saw it”", shown)
    for entry in history.entries:
        assert entry.record_url == f"/s/attack/record/{entry.partition}/{entry.offset}/"


def test_a_command_that_changed_nothing_is_in_it_with_its_outcome(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    data = {"id": "6f1d7a9e-0000-4000-8000-000000000001"}
    client.post(f"/s/attack/command/release/{ASSET}/", data)
    waiting = timeline("attack", ASSET, None, now_ms())
    assert [(e.kind, e.progress and e.progress.phase) for e in waiting.entries] == [
        ("command", "sent"),
        ("confirmed", None),
        ("change", None),
    ]
    world.write()
    assert re.search(r"Release [\d:]+ UTC by operator No change", text(client.get(PATH)))


def test_reminders_stand_between_changes_and_commands(client: Client, world: World):
    world.report(ASSET, "under-attack")
    world.later(61_000)
    world.command("set", ASSET, state="clear")
    world.write()
    data = {"id": "6f1d7a9e-0000-4000-8000-000000000001"}
    client.post(f"/s/attack/command/release/{ASSET}/", data)
    world.later(61_000)
    world.write()
    Transition.objects.filter(kind__in=("confirmed", "unconfirmed")).delete()
    entries = timeline("attack", ASSET, None, now_ms()).entries
    kinds = [(entry.kind, entry.state, bool(entry.command)) for entry in entries]
    assert kinds == [
        ("reminder", "under-attack", False),
        ("change", "under-attack", True),
        ("change", "clear", False),
        ("reminder", "under-attack", False),
        ("change", "under-attack", False),
    ]
    assert [entry.of_time for entry in entries] == [True, False, False, True, False]
    versions = [Version.parse(entry.version) for entry in entries]
    assert versions == sorted(versions, reverse=True)
    assert entries[3].at == entries[4].at + 60_000
    assert entries[3].offset == (entries[4].offset or 0) + 1  # after the second report
    shown = text(client.get(PATH))
    assert len(re.findall(r"Still Under attack [\d:]+ UTC reminder \d", shown)) == 2
    assert "Newest record" not in shown


def test_reminders_push_no_agent_out_of_the_history(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asset_page, "NAMED_IN", 2)
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    for _ in range(4):
        world.later(61_000)
    world.write()
    assert Transition.objects.filter(kind="reminder").count() == 4
    assert [one.agent for one in unreported_agents("attack", ASSET, set())] == ["waf-1"]


def test_what_has_no_place_in_the_log_comes_first_for_a_while(world: World):
    fields = {
        "scenario": "attack", "asset": ASSET, "kind": "set", "state": "clear", "username": "ada",
        "source": "form", "status": "unsent", "outcome": "Kafka does not answer",
    }  # fmt: skip
    Row.objects.create(id="6f1d7a9e-0000-4000-8000-000000000001", created_at=now_ms(), **fields)
    Row.objects.create(id="6f1d7a9e-0000-4000-8000-000000000002", created_at=1, **fields)
    (entry,) = timeline("attack", ASSET, None, now_ms()).entries
    assert (entry.place, entry.record_url) == ("", "")


def test_older_pages_hold_each_thing_once(client: Client, world: World):
    for n in range(40):
        world.command("set", ASSET, state=("clear", "suspicious")[n % 2])
    world.write()
    places, before = [], ""
    for _ in range(9):
        page = timeline("attack", ASSET, None, now_ms(), before)
        places += [entry.place for entry in page.entries]
        if not (before := page.older):
            break
    assert len(places) == len(set(places)) == Transition.objects.count() == 40
    assert places == sorted(places, reverse=True)
    first = client.get(PATH)
    (older,) = re.findall(r'\?before=([\d.]+)#history-title">Older', first.content.decode())
    second = client.get(f"{PATH}?before={older}")
    assert second.content.decode().count('class="entry ') == 40 - PAGE
    assert "Newest record" not in text(second)
    assert f'data-before="{older}"' in second.content.decode()


@pytest.mark.parametrize("before", ["x", "1.2", "0" * 19, "'; drop table", "\x00"])
def test_a_place_that_is_none_is_the_newest_page(world: World, before: str):
    world.report(ASSET, "clear")
    world.write()
    assert timeline("attack", ASSET, None, now_ms(), before).first


# ---- a record -----------------------------------------------------------------------------


def place(world: World) -> tuple[int, int]:
    """Partition and offset of the newest record of the asset."""
    record = AssetState.objects.get()
    return record.partition, int(record.version.split(".")[1])


def test_a_record_is_fetched_and_shown_decoded_and_raw(client: Client, world: World):
    world.report(ASSET, "clear", "<waf-1>")
    world.write()
    partition, offset = place(world)
    path = f"/s/attack/record/{partition}/{offset}/"
    page, part = client.get(path), client.get(path, headers=HX)
    assert "<html" in page.content.decode()
    assert "<html" not in part.content.decode()
    for response in (page, part):
        content = text(response)
        assert f"attack.reports partition {partition}, offset {offset}" in content
        assert f"Report, of {ASSET} . Appended" in content
        assert '"type":"report"' in content
        assert "agent <waf-1>" in content
        assert "<waf-1>" not in response.content.decode()


@pytest.mark.parametrize("kind", ["unreadable", "a command that is none", "told by the job"])
@pytest.mark.parametrize(("role", "status"), [("manager", 403), ("operator", 403), ("admin", 200)])
def test_a_refused_record_is_shown_to_admins_alone(world: World, kind: str, role: str, status: int):
    value = b'{"type":"report","agent":"secret-7","state":"nothing"}'
    if kind == "unreadable":
        value = b"\xff secret-7"
    if kind == "a command that is none":
        value = b'{"type":"command","id":"%s","action":"secret-7"}' % str(uuid.uuid4()).encode()
    producer = world.bus.producer()
    partition = partition_of(ASSET.encode(), 4)
    sent = producer.send_and_wait("attack.reports", ASSET.encode(), value, partition=partition)
    if kind == "told by the job":
        at = {"topic": "attack.reports", "partition": partition, "offset": sent.offset}
        DeadLetter.objects.create(**at, **LETTER)
    client = Client()
    client.force_login(make_user(role))
    path = f"/s/attack/record/{partition}/{sent.offset}/"
    page, part = client.get(path), client.get(path, headers=HX)
    assert page.status_code == status
    for response in (page, part):
        assert ("secret-7" in text(response) or "73 65 63" in text(response)) == (status == 200)
        assert ("only admins" in text(response)) == (status == 403)


LETTER = {
    "reason": "unknown-state", "appended_at": 1, "size": 1, "dead_partition": 0, "dead_offset": 0,
    "noted_at": 1, "last_dead_offset": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("where", "status", "reason", "words"),
    [
        ((99, 0), 404, "no-partition", "has no partition 99"),
        ((0, 10_000), 404, "not-yet", "has not reached offset 10000 yet"),
    ],
)
def test_places_that_hold_nothing(
    client: Client, world: World, where: tuple[int, int], status: int, reason: str, words: str
):
    path = f"/s/attack/record/{where[0]}/{where[1]}/"
    response = client.get(path)
    assert response.status_code == status
    assert f"({reason})" in text(response)
    assert words in text(response)
    assert client.get(path, headers=HX).status_code == 200


def test_what_the_log_no_longer_holds(client: Client, world: World):
    world.report(ASSET, "clear", "waf-1", "waf-2", "waf-3")
    world.write()
    partition, offset = place(world)
    world.bus.truncate("attack.reports", partition, offset)
    response = client.get(f"/s/attack/record/{partition}/{offset - 1}/")
    assert response.status_code == 410
    assert f"no longer holds offset {offset - 1}: it now begins at {offset}" in text(response)


def test_a_broker_that_is_away_is_said(client: Client, world: World):
    world.bus.stop()
    response = client.get("/s/attack/record/0/0/")
    world.bus.start()
    assert response.status_code == 503
    assert "Kafka does not answer" in text(response)


@pytest.mark.parametrize(
    "path",
    ["/s/nothing/record/0/0/", f"/s/attack/record/0/{2**63}/", "/s/attack/record/-1/0/"],
)
def test_addresses_that_name_no_record(client: Client, world: World, path: str):
    assert client.get(path).status_code == 404


def test_a_user_fetches_so_many_at_most(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
):
    cache.clear()
    monkeypatch.setattr(log_records, "FETCHES", Limit("fetches", 2, window=86_400))
    statuses = [client.get("/s/attack/record/0/0/").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_a_process_fetches_so_many_at_once(world: World):
    held = [log_records._room.acquire(blocking=False) for _ in range(log_records.AT_ONCE)]
    try:
        with pytest.raises(NotShown) as refused:
            fetch(world.bus, "attack.reports", 0, 0)
        assert refused.value.reason == "busy"
    finally:
        for _ in held:
            log_records._room.release()
    assert fetch(world.bus, "attack.reports", 0, 0).offset == 0


def message(value: bytes | None, key: bytes | None = None) -> ConsumerRecord:
    return ConsumerRecord("attack.reports", 0, 7, 1_000, key, value, (("h", b"\xff\x00"),))


def test_what_the_job_reads_in_a_record(world: World):
    assert show(message(encode_tick()), 4).kind == "Tick: time passes"
    rule = show(message(encode_scenario(world.job.scenarios["attack"])), 4)
    assert rule.facts == (("scenario", "attack"), ("signature", "none"))
    wrong = show(message(encode_report(Report("a", "w", "clear")), b"a"), 10_000)
    assert "the job forwards it" in wrong.kind
    assert dict(wrong.facts)["agent"] == "w"
    assert (wrong.asset, wrong.refused) == ("a", False)
    headers = forward_headers(3, 4711, 900, ())
    place = partition_of(b"a", 4)
    forwarded = replace(message(encode_report(Report("a", "w", "clear")), b"a"), partition=place)
    facts = dict(show(replace(forwarded, headers=tuple(headers)), 4).facts)
    assert facts["forwarded from"] == "partition 3, offset 4711"
    assert facts["reported_at"] == iso(900)
    binary = show(message(b"\xff" * 10_000), 4)
    assert (binary.text, binary.cut, binary.size) == (False, True, 10_000)
    assert binary.raw.startswith("ff ff")
    assert binary.headers == (("h", "ff 00"),)
    long = show(message(b"x" * 70_000), 4)
    assert (len(long.raw), long.cut) == (log_records.MAX_SHOWN, True)
    assert dict(show(message(None), 4).facts)["reason"] == "not-json"


def report_of(**fields: Any) -> ConsumerRecord:
    """A report on `a` by `w`, whatever its other fields are."""
    value = json.dumps({"type": "report", "agent": "w", "state": "clear", **fields})
    return message(value.encode(), b"a")


PLACES = 1
"""Partitions of a topic, so that every key belongs on the one that there is."""


@pytest.mark.parametrize(
    ("fields", "fact", "words", "words_before"),
    [
        ({"reported_at": 361_000}, "its clock", "6 m 00 s ahead, so its vote is in doubt",
         "6 m 00 s ahead, which the rule in force refused"),
        ({"reported_at": 271_000}, "its clock",
         "4 m 30 s ahead, so its vote stays in doubt if it was so for its clock",
         "4 m 30 s ahead"),
        ({"reported_at": 31_000}, "its clock", "30 s ahead", "30 s ahead"),
        ({"reported_at": 1_999}, "its clock", None, None),
        ({"detail": []}, "detail", "left out: it is not an object", "refused: it is not an object"),
        ({"detail": {"x": "y" * 3_000}}, "detail", "left out: it has over 2,048 bytes",
         "refused: it has over 2,048 bytes"),
        ({"detail": {"x": 1}}, "detail", '{"x": 1}', '{"x": 1}'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_report_is_told_by_the_rule_in_force(
    world: World, fields: dict[str, Any], fact: str, words: str | None, words_before: str | None
):
    attack = world.job.scenarios["attack"]
    record = show(report_of(**fields), PLACES, attack)
    assert (record.kind, record.refused) == ("Report", False)
    assert dict(record.facts).get(fact) == words
    former = show(report_of(**fields), PLACES, replace(attack, fold=4))
    assert dict(former.facts).get(fact) == words_before


@pytest.mark.parametrize(
    ("fields", "wrong", "said"),
    [
        ({"state": None}, "state: expected a text, got None", None),
        ({"state": ""}, "state: expected a text of 1-64 characters", None),
        ({"reported_at": -1}, "Unix milliseconds as an integer, got -1", "clear"),
    ],
)
def test_a_report_that_could_not_be_taken_says_why_and_that_its_agent_is_doubted(
    world: World, fields: dict[str, Any], wrong: str, said: str | None
):
    attack = world.job.scenarios["attack"]
    record = show(report_of(**fields), PLACES, attack)
    assert record.refused
    assert record.kind.startswith("Report that could not be taken")
    assert log_records.DOUBTED in record.kind
    facts = dict(record.facts)
    assert (facts["asset"], facts["agent"], facts.get("said")) == ("a", "w", said)
    assert wrong in facts["what is wrong"]
    assert facts.keys() <= {"asset", "agent", "said", "reason", "what is wrong"}
    for rule in (None, replace(attack, fold=4), world.job.scenarios["orders"]):
        assert log_records.DOUBTED not in show(report_of(**fields), PLACES, rule).kind


def test_a_report_of_an_unknown_state_is_told_as_one(world: World):
    attack = world.job.scenarios["attack"]
    kind = show(report_of(state="critical"), PLACES, attack).kind
    assert "did not know" in kind
    assert log_records.DOUBTED in kind
    assert show(report_of(state="critical"), PLACES).kind == "Report"


def test_a_leave_whose_clock_is_ahead_counts_as_of_when_it_came(world: World):
    attack = world.job.scenarios["attack"]
    value = b'{"type":"leave","agent":"w","reported_at":361000}'
    facts = dict(show(message(value, b"a"), PLACES, attack).facts)
    assert facts["its clock"] == "6 m 00 s ahead, so it counts from when it arrived"


def test_a_page_of_a_record_goes_by_the_rule_at_its_place(client: Client, world: World):
    """Its log had a rule of an earlier fold, then one of this."""
    attack = world.job.scenarios["attack"]
    partition = partition_of(b"a", attack.partitions)
    value = f'{{"type":"report","agent":"w","state":"clear","reported_at":{now_ms() + 999_000}}}'
    for _ in range(3):
        world.gateway.producer().send_and_wait("attack.reports", b"a", value.encode())
    for offset, fold in ((0, 4), (2, 5)):
        text = dump_rule(replace(attack, fold=fold))
        RuleRecord.objects.create(
            scenario="attack", partition=partition, offset=offset, at=1, rule=text
        )
    pages = [
        client.get(f"/s/attack/record/{partition}/{offset}/").content.decode() for offset in (1, 2)
    ]
    assert "which the rule in force refused" in pages[0]
    assert "so its vote is in doubt" in pages[1]


def test_every_kind_of_record_has_words():
    inside = {"Unsigned", "Misrouted"}  # the words are those of the record in it
    assert {kind.__name__ for kind in get_args(Record)} - inside == log_records._KINDS.keys()
