"""The pages of dead letters: looked at, mended, sent again once, discarded, exported."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import cache
from django.test import AsyncClient, Client

from bus.base import ConsumerRecord, Unavailable
from dashboard.core.common import kafka
from dashboard.core.common.exports import safe_cell
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.rules.models import RuleRecord
from dashboard.operate.dead_letters import queries, redrive, views
from dashboard.operate.dead_letters.ingestion import ingest_letters
from dashboard.operate.dead_letters.models import (
    DISCARDED,
    OPEN,
    REDRIVEN,
    SENDING,
    DeadLetter,
)
from dashboard.operate.dead_letters.validation import RecordVerdict, judge
from domain.records import MAX_VOTERS
from streaming.fold.rules import dump_rule
from support.web.web_fixtures import error_of, make_user
from support.web.world import World
from wire.forward import forward_headers
from wire.partitioner import partition_of

pytestmark = pytest.mark.django_db
LIST = "/dead-letters/"
GOOD = b'{"type":"report","agent":"waf-1","state":"clear"}'
UNKNOWN = b'{"type":"report","agent":"waf-1","state":"on-fire"}'


def put(world: World, key: bytes | None, value: bytes, headers: Any = ()) -> None:
    """Append bytes to a source topic, as any producer may."""
    topic = world.gateway.topics.reports("attack")
    world.gateway.producer().send_and_wait(topic, key, value, headers=headers)


def letter(world: World, key: bytes | None = b"shop", value: bytes = UNKNOWN) -> DeadLetter:
    """A record that was refused."""
    put(world, key, value)
    world.write()
    return DeadLetter.objects.latest("id")


def log_of(world: World) -> list[ConsumerRecord]:
    """Every record of the source topic that has a header."""
    topic = world.gateway.topics.reports("attack")
    edges = world.bus.offsets([topic])
    reader = world.bus.reader({place: begin for place, (begin, _) in edges.items()})
    return [message for message in reader.poll(0, 100_000) if message.headers]


def url(one: DeadLetter, what: str = "") -> str:
    return f"{LIST}{one.pk}/{what}"


# ---- the list -----------------------------------------------------------------------------------


def test_without_letters_the_page_says_so(world, admin):
    page = admin.get(LIST).content.decode()
    assert "The job has refused nothing" in page
    assert "Redrive selected" not in page


def test_a_refused_record_is_listed_and_counted(world, admin):
    one = letter(world)
    cache.clear()
    page = admin.get(LIST).content.decode()
    assert f'href="{url(one)}"' in page
    assert "unknown-state" in page
    assert 'Dead letters <span class="place-count">1' in page


def test_only_an_admin_is_shown_the_way_there(world):
    for role, there in (("operator", False), ("admin", True)):
        client = Client()
        client.force_login(make_user(role))
        assert (f'data-address="{LIST}"' in client.get("/").content.decode()) == there


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 3), ("reason=not-json", 1), ("reason=bad-agent", 0), ("q=SHOP", 2), ("q=waf-1", 2),
        ("scenario=attack", 3), ("scenario=orders", 0), ("status=discarded", 0), ("status=any", 3),
        ("start=2000-01-01T00:00", 3), ("end=2000-01-01T00:00", 0), ("sort=asset", 3), ("q=", 3),
        ("q=status:discarded,any", 3), ("q=-status:any", 0), ("q=agent:*", 2), ("q=-agent:*", 1),
    ],
)  # fmt: skip
def test_filters(world, admin, query: str, count: int):
    for key, value in ((b"shop", UNKNOWN), (b"shop", b"{"), (b"mail", UNKNOWN)):
        put(world, key, value)
    world.write()
    response = admin.get(f"{LIST}?{query}")
    assert response.status_code == 200
    assert response.content.decode().count('name="id"') == count
    assert f'id="match-count">{count}<' in response.content.decode()


@pytest.mark.parametrize(
    "query", ["reason=x", "status=x", "start=now", "sort=x", "after=0", "q=%00"]
)
def test_a_filter_that_is_none_is_named(world, admin, query: str):
    letter(world)
    response = admin.get(f"{LIST}?{query}")
    assert response.status_code == 422
    name = query.partition("=")[0]
    assert error_of(response, name if name in ("sort", "after") else "q")


def test_a_filter_that_finds_nothing_does_not_say_that_nothing_was_refused(world, admin):
    letter(world)
    page = admin.get(f"{LIST}?start=2100-01-01T00:00").content.decode()
    assert "None passes this filter" in page
    assert "has refused nothing" not in page


@pytest.mark.parametrize("sort", [way + name for name in queries.ORDERS for way in ("", "-")])
def test_pages_follow_each_other_whatever_they_are_sorted_by(world, sort):
    for n in range(7):
        put(world, f"asset-{n % 3}".encode(), UNKNOWN if n % 2 else b"{" * (n + 1))
    world.write()
    wanted, seen = queries.LetterFilter(sort=sort), []
    while True:
        page = queries.page(wanted, 3)
        seen += [(getattr(one, queries.ORDERS[sort.lstrip("-")]), one.pk) for one in page.rows]
        if page.following is None:
            break
        wanted = queries.LetterFilter(sort=sort, after=page.following)
    assert len(seen) == 7
    assert seen == sorted(seen, reverse=sort.startswith("-"))


def test_hours_are_counted(world, admin):
    letter(world)
    old = letter(world, value=b"{")
    DeadLetter.objects.filter(pk=old.pk).update(appended_at=now_ms() - 3 * 86_400_000)
    counts = queries.figures(queries.LetterFilter(), now_ms())
    assert [bar.n for bar in counts.bars if bar.n] == [1]
    assert (counts.bars[-1].n or counts.bars[-2].n, counts.before, counts.open) == (1, 1, 2)
    assert counts.reasons == [("not-json", 1), ("unknown-state", 1)]


def test_the_figures_alone_are_renewed(world, admin):
    letter(world)
    part = admin.get(LIST, headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div id="letter-figures"')
    assert '<table class="data' not in part


# ---- one letter ---------------------------------------------------------------------------------


def test_the_fault_is_named_and_marked_where_it_is(world, admin):
    page = admin.get(url(letter(world))).content.decode()
    assert '<mark class="fault">&quot;on-fire&quot;</mark>' in page
    assert "state: expected under-attack, " in page
    assert "add it to the scenario" in page
    assert "/s/attack/record/" in page


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"shop", b'{"type":\xff}', "expected UTF-8, got ff (value, byte 8)"),
        (
            b"shop",
            b'{\n "type": @ope}',
            "got @ (value, line 2, column 10, byte 11)",
        ),
        (b"shop", b'{"type":"vote"', "expected more JSON, got the end"),
        (b"shop", b'{"type":"gossip"}', "cancel, got &#x27;gossip&#x27;"),
        (b"shop", b'{"type":"set","id":"7"}', "expected a UUID, got &#x27;7&#x27;"),
        (b"", GOOD, "expected a key, which names the asset, got nothing"),
        (b"a\x07b", GOOD, "expected no control character, got U+0007 (key, byte 1)"),
        (b"shop", b'{"type":"report"}', "agent is missing"),
        (b"shop", GOOD[:-1] + b',"reported_at":999999999999999}', "over a thousand years ahead"),
        (b"shop", GOOD[:-1] + b',"reported_at":"now"}', "as an integer, got &#x27;now&#x27;"),
        (b"shop", GOOD.replace(b'"clear"', b"[]"), "state: expected a text, got [] (value, byte"),
    ],
)
def test_what_is_wrong_is_told(world, admin, key: bytes, value: bytes, message: str):
    assert message in admin.get(url(letter(world, key, value))).content.decode()


DOUBTED = "its agent waf-1 is in doubt on shop for 1 m 30 s"


@pytest.mark.parametrize(
    ("value", "doubted"),
    [
        (UNKNOWN, True),
        (GOOD.replace(b'"clear"', b"5"), True),
        (GOOD[:-1] + b',"reported_at":-1}', True),
        (GOOD.replace(b"waf-1", b"user:x"), False),
        (b"{", False),
    ],
)
def test_a_letter_says_what_it_means_for_its_agent(world, admin, value: bytes, doubted: bool):
    page = admin.get(url(letter(world, value=value))).content.decode()
    assert (DOUBTED in page) is doubted


def test_a_letter_of_the_fold_before_doubts_nobody(world, admin):
    one = letter(world)
    rule = dump_rule(replace(scenarios()["attack"], fold=4))
    RuleRecord.objects.create(
        scenario="attack", partition=one.partition, offset=one.offset, at=1, rule=rule
    )
    assert DOUBTED not in admin.get(url(one)).content.decode()


def refused_before(world: World, value: bytes, reason: str) -> DeadLetter:
    """A letter of an earlier version of the fold, about a record that this one takes."""
    one = letter(world)
    one.reason, one.value = reason, value
    one.save()
    return one


TAKEN = "the job would take it as it is"
LARGE = b'{"x":"%s"}' % (b"x" * 3_000)


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (b'"reported_at":%d' % (now_ms() + 3_600_000), "bad-time",
         "It would be taken in doubt: its agent&#x27;s clock is"),
        (b'"detail":' + LARGE, "too-large",
         "It would be taken without its detail: expected at most 2,048 bytes, got 3,008."),
        (b'"detail":[]', "bad-field",
         "It would be taken without its detail: expected an object, got []."),
    ],
    ids=["ahead", "large", "no object"],
)  # fmt: skip
def test_what_the_fold_before_refused_is_redriven_and_the_page_says_how_it_is_taken(
    world, admin, value: bytes, reason: str, message: str
):
    sent = GOOD[:-1] + b"," + value + b"}"
    one = refused_before(world, sent, reason)
    page = admin.get(url(one)).content.decode()
    assert TAKEN in page
    assert message in page
    response = admin.post(url(one, "redrive/"), {"key": "shop", "value": sent.decode()})
    assert response.status_code == 302
    one.refresh_from_db()
    assert (one.status, one.edited) == (REDRIVEN, False)
    world.write()
    assert DeadLetter.objects.count() == 1
    assert "Clear" in admin.get("/s/attack/a/shop/").content.decode()


def verdict_on(value: bytes, now: int | None = None) -> RecordVerdict:
    """What would become of a record of the asset shop."""
    return judge("attack.reports", b"shop", value, now or now_ms())


REFUSED = (UNKNOWN, GOOD.replace(b'"clear"', b"5"), GOOD[:-1] + b',"reported_at":-1}')


def test_a_refused_report_says_that_its_agent_would_be_doubted_where_the_asset_is_there(world):
    assert {(verdict_on(value).taken, verdict_on(value).note) for value in REFUSED} == {(False, "")}
    world.report("shop", "clear", "waf-1", "waf-2")
    world.write()
    note = "Its agent waf-1 would then be in doubt on shop for 1 m 30 s."
    assert {(verdict_on(value).taken, verdict_on(value).note) for value in REFUSED} == {
        (False, note)
    }


def test_a_refused_edit_says_what_it_would_mean(world, admin):
    world.report("shop", "clear", "waf-1", "waf-2")
    form = {"key": "shop", "value": UNKNOWN.decode()}
    response = admin.post(url(letter(world), "redrive/"), form)
    assert response.status_code == 422
    page = response.content.decode()
    assert "Not sent: unknown-state" in page
    assert "Its agent waf-1 would then be in doubt on shop for 1 m 30 s." in page


def test_a_report_that_is_late_and_says_worse_says_what_it_would_mean(world):
    world.report("shop", "clear", "waf-1", "waf-2")
    world.write()
    worse = GOOD.replace(b"clear", b"under-attack")[:-1]
    doubted = "as it says worse, its agent waf-1 would then be in doubt on shop for 1 m 30 s."
    late = verdict_on(worse + b',"reported_at":%d}' % (now_ms() - 60_000))
    assert late.taken
    assert late.note == f"Its agent has reported on this asset since; but {doubted}"
    stale = verdict_on(worse + b',"reported_at":%d}' % (now_ms() - 86_400_000))
    assert f"it would change nothing; but {doubted}" in stale.note
    milder = verdict_on(GOOD[:-1] + b',"reported_at":%d}' % (now_ms() - 86_400_000))
    assert milder.note.endswith("it would change nothing.")


@pytest.mark.parametrize(("ahead", "doubted"), [(299_000, False), (301_000, True)])
def test_a_clock_that_is_ahead_puts_a_report_in_doubt_from_five_minutes_on(
    world, ahead: int, doubted: bool
):
    now = now_ms()
    verdict = verdict_on(GOOD[:-1] + b',"reported_at":%d}' % (now + ahead), now)
    assert verdict.taken
    assert ("in doubt: its agent's clock is 5 m 01 s ahead" in verdict.note) is doubted


def test_in_a_life_cycle_nothing_is_in_doubt(world):
    now = now_ms()
    value = b'{"type":"report","agent":"w","state":"picking","reported_at":%d}' % (now + 400_000)
    verdict = judge("orders.reports", b"order-1", value, now)
    assert verdict.taken
    assert verdict.note == "Its reported_at is 6 m 40 s ahead: it counts as of when it comes."


def test_a_rule_of_an_earlier_fold_refuses_what_it_always_did(world, settings, tmp_path):
    file = tmp_path / "scenarios.toml"
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"scenarios": file})
    text = (Path(__file__).parents[3] / "scenarios.toml").read_text()
    file.write_text(text.replace("[attack]\n", "[attack]\nfold = 4\n", 1))
    now = now_ms()
    ahead = b'"reported_at":%d}' % (now + 400_000)
    reports = (GOOD[:-1] + b"," + ahead, GOOD[:-1] + b',"detail":[]}', UNKNOWN)
    leave = b'{"type":"leave","agent":"waf-1",' + ahead
    verdicts = [verdict_on(value, now) for value in (*reports, leave)]
    assert [each.reason for each in verdicts] == [
        "bad-time",
        "bad-field",
        "unknown-state",
        "bad-time",
    ]
    assert {each.note for each in verdicts} == {""}


def test_the_right_partition_is_told(world, admin):
    wrong = (partition_of(b"shop", 4) + 1) % 4
    topic = world.gateway.topics.reports("attack")
    headers = forward_headers(0, 17, now_ms(), ())
    world.gateway.producer().send_and_wait(topic, b"shop", GOOD, headers=headers, partition=wrong)
    world.write()
    page = admin.get(url(DeadLetter.objects.get())).content.decode()
    assert f"expected partition {partition_of(b'shop', 4)}, got" in page
    assert "the job would take it as it is" in page


def test_no_letter_is_not_found(world, admin):
    for number in ("1", "9" * 30):
        for what in ("", "redrive/", "discard/", "find-out/"):
            send = admin.post if what else admin.get
            assert send(f"{LIST}{number}/{what}").status_code == 404


# ---- redriven -----------------------------------------------------------------------------------


def test_an_edited_record_is_sent_once_and_reaches_the_board(world, admin):
    one = letter(world)
    form = {"key": "shop", "value": GOOD.decode()}
    response = admin.post(url(one, "redrive/"), form)
    assert (response.status_code, response["Location"]) == (302, url(one))
    one.refresh_from_db()
    (sent,) = log_of(world)
    assert (sent.key, sent.value) == (b"shop", GOOD)
    assert sent.headers == (
        (redrive.REDRIVE_OF, f"{one.topic}/{one.partition}/{one.offset}".encode()),
    )
    assert (one.status, one.edited, one.status_by) == (REDRIVEN, True, "admin")
    assert (one.new_partition, one.new_offset) == (sent.partition, sent.offset)
    assert sent.partition == partition_of(b"shop", 4)
    world.write()
    assert "Clear" in admin.get("/s/attack/a/shop/").content.decode()
    again = admin.post(url(one, "redrive/"), form)
    assert (again.status_code, len(log_of(world))) == (409, 1)
    head, _, rest = again.content.decode().partition("What is wrong")
    assert "Nothing was done." in head  # where who was second sees it
    assert 'id="status-h"' in rest


def test_what_would_be_refused_is_named_and_not_sent(world, admin):
    one = letter(world)
    form = {"key": "shop", "value": '{"type":"report","agent":"user:x","state":"clear"}'}
    response = admin.post(url(one, "redrive/"), form)
    page = response.content.decode()
    assert response.status_code == 422
    assert "Not sent: bad-agent" in page
    assert '<mark class="fault">&quot;user:x&quot;</mark>' in page
    assert "user:x" in page.partition("<textarea")[2]
    assert log_of(world) == []
    one.refresh_from_db()
    assert one.status == OPEN


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"type":"tick"}', "not-redriven"),
        ('{"type":"set","id":"x"}', "bad-command"),
        (
            '{"type":"purge","id":"0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55","user":"olga"}',
            "bad-user",
        ),
        (
            '{"type":"set","id":"0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55","user":"admin"}',
            "refused-command",
        ),
        ("", "not-json"),
    ],
)
def test_nobody_writes_what_is_not_theirs(world, admin, value: str, reason: str):
    response = admin.post(url(letter(world), "redrive/"), {"key": "shop", "value": value})
    assert response.status_code == 422
    assert f"Not sent: {reason}" in response.content.decode()
    assert log_of(world) == []


@pytest.mark.parametrize("active", [False, True])
def test_a_command_is_not_sent_again_in_the_name_of_who_may_not_command(world, admin, active):
    gone = make_user("manager")
    gone.is_active = active
    gone.save()
    purge = (
        b'{"type":"purge","id":"0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55",'
        b'"user":"manager","reason":"r"}'
    )
    topic = world.gateway.topics.reports("attack")
    verdict = judge(topic, b"shop", purge, now_ms())
    assert (verdict.reason, verdict.taken) == ("bad-user", False)
    assert verdict.fault
    why = "no longer has a role that may command" if active else "is deactivated"
    assert f"manager {why}" in verdict.fault.text
    anew = purge.replace(b"manager", b"admin")
    assert judge(topic, b"shop", anew, now_ms(), "admin").taken


def test_a_redrive_that_is_refused_again_is_linked_both_ways(world, admin):
    first = letter(world, value=UNKNOWN)
    sending = redrive.Sending(first, b"shop", b"{", partition_of(b"shop", 4))
    redrive.redrive([sending], "admin", now_ms)
    world.write()
    second = DeadLetter.objects.latest("id")
    assert (second.pk != first.pk, second.reason) == (True, "not-json")
    assert f'href="{url(first)}"' in admin.get(url(second)).content.decode()
    assert f'href="{url(second)}"' in admin.get(url(first)).content.decode()


def test_without_kafka_nothing_is_claimed(world, admin, monkeypatch):
    monkeypatch.setattr(redrive, "REACH_S", 0.01)
    one = letter(world)
    world.bus.stop()
    response = admin.post(url(one, "redrive/"), {"key": "shop", "value": GOOD.decode()})
    world.bus.start()
    assert response.status_code == 503
    assert "Kafka does not answer" in response.content.decode()
    one.refresh_from_db()
    assert one.status == OPEN


@pytest.fixture
def unconfirmed(world, admin, monkeypatch) -> DeadLetter:
    """A letter whose new record Kafka has not confirmed."""
    one = letter(world)
    producer = world.gateway.producer()

    def lose(*args: Any, on_delivery: Any, **more: Any) -> None:
        on_delivery(Unavailable("timed out"))

    monkeypatch.setattr(producer, "send", lose)
    admin.post(url(one, "redrive/"), {"key": "shop", "value": GOOD.decode()})
    monkeypatch.undo()
    one.refresh_from_db()
    assert one.status == SENDING
    return one


def test_an_unconfirmed_record_is_found_in_the_log(world, admin, unconfirmed):
    assert "Kafka has not confirmed" in admin.get(url(unconfirmed)).content.decode()
    put(world, b"shop", GOOD, redrive.redrive_headers(unconfirmed))
    admin.post(url(unconfirmed, "find-out/"))
    unconfirmed.refresh_from_db()
    assert unconfirmed.status == REDRIVEN
    assert log_of(world)[0].offset == unconfirmed.new_offset


def test_an_unconfirmed_record_that_never_came_is_open_again_after_a_while(
    world, admin, unconfirmed
):
    put(world, b"shop", GOOD)
    admin.post(url(unconfirmed, "find-out/"))
    unconfirmed.refresh_from_db()
    assert unconfirmed.status == SENDING
    DeadLetter.objects.update(status_at=now_ms() - redrive.SETTLED_MS - 1)
    admin.post(url(unconfirmed, "find-out/"))
    unconfirmed.refresh_from_db()
    assert unconfirmed.status == OPEN


# ---- many ---------------------------------------------------------------------------------------


def ids(page: str) -> str:
    return page.partition('name="ids" value="')[2].partition('"')[0]


def test_many_are_reviewed_and_redriven_each_once(world, admin):
    for key in (b"shop", b"mail", b"desk"):
        put(world, key, GOOD.replace(b"clear", b"calm"))
    put(world, b"shop", b"{")
    world.write()
    DeadLetter.objects.filter(reason="unknown-state").update(
        value=GOOD  # as if the scenario had got the state meanwhile
    )
    every = {"do": "redrive-all", "filter": "status=open"}
    page = admin.post(f"{LIST}many/", every, follow=True).content.decode()
    assert "Redrive 3 of 4?" in page
    assert "1 not-json" in page
    done = admin.post(f"{LIST}many/redrive/", {"ids": ids(page)}, follow=True).content.decode()
    assert "3 redriven" in done
    assert len(log_of(world)) == 3
    assert DeadLetter.objects.filter(status=REDRIVEN, edited=False).count() == 3
    again = admin.post(f"{LIST}many/redrive/", {"ids": ids(page)}, follow=True).content.decode()
    assert "0 redriven" in again
    assert "3 handled before" in again
    assert len(log_of(world)) == 3


def test_all_that_match_are_those_of_the_whole_filter(world, admin):
    letter(world)
    others = " ".join(f'-"{"ü" * 18}{n}"' for n in range(40))
    wanted = urlencode({"q": f"{others} reason:not-json"})
    assert len(wanted) > 4_000
    every = {"do": "discard-all", "filter": wanted}
    page = admin.post(f"{LIST}many/", every, follow=True).content.decode()
    assert "No letter is selected" in page


def test_a_state_that_the_scenario_has_got_meanwhile_lets_letters_pass(
    world, admin, settings, tmp_path
):
    one = letter(world)
    ask = {"do": "redrive", "id": one.pk}
    assert "Redrive 0 of 1?" in admin.post(f"{LIST}many/", ask, follow=True).content.decode()
    file = tmp_path / "scenarios.toml"
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"scenarios": file})
    text = (Path(__file__).parents[3] / "scenarios.toml").read_text()
    state = 'states = [\n  { name = "on-fire", label = "On fire", colour = "red", icon = "flag" },'
    file.write_text(text.replace("states = [", state, 1))
    assert "Redrive 1 of 1?" in admin.post(f"{LIST}many/", ask, follow=True).content.decode()
    file.write_text("[")
    assert "Redrive 0 of 1?" in admin.post(f"{LIST}many/", ask, follow=True).content.decode()


def test_a_review_counts_what_would_be_in_doubt(world, admin):
    for ahead in (0, 3_600_000, 7_200_000):
        refused_before(world, GOOD[:-1] + b',"reported_at":%d}' % (now_ms() + ahead), "bad-time")
    every = {"do": "redrive-all", "filter": "status=open"}
    page = admin.post(f"{LIST}many/", every, follow=True).content.decode()
    assert "Redrive 3 of 3?" in page
    assert "are, 2 of them in doubt." in page


def test_two_who_claim_at_once_send_once(world):
    one = letter(world, value=b"{")
    sending = redrive.Sending(one, b"shop", GOOD, partition_of(b"shop", 4))
    outcomes = redrive.redrive([sending, sending], "admin", now_ms)
    assert sorted(outcome.became for outcome in outcomes) == ["redriven", "taken"]
    assert len(log_of(world)) == 1


def test_many_keep_the_order_of_their_log(world):
    for n in range(5):
        put(world, b"shop", f'{{"n":{n}'.encode())
    world.write()
    letters = list(DeadLetter.objects.order_by("-id"))
    sendings = [redrive.Sending(one, b"shop", one.record_value, 0) for one in letters]
    redrive.redrive(sendings, "admin", now_ms)
    assert [message.value for message in log_of(world)] == [f'{{"n":{n}'.encode() for n in range(5)]


def test_a_cut_record_is_not_sent_again(world, admin):
    one = letter(world, value=b"x" * 70_000)
    page = admin.post(f"{LIST}many/", {"do": "redrive", "id": one.pk}, follow=True).content.decode()
    assert "Redrive 0 of 1?" in page
    assert "only its beginning was stored" in page


def test_at_most_a_thousand_at_once(world, admin):
    named = ",".join(map(str, range(1, 1_002)))
    response = admin.post(f"{LIST}many/redrive/", {"ids": named}, follow=True)
    assert (response.status_code, "1,000" in response.content.decode()) == (422, True)


def test_many_are_discarded_for_a_reason(world, admin):
    for _ in range(3):
        put(world, b"shop", b"{")
    world.write()
    form = {"do": "discard", "id": [one.pk for one in DeadLetter.objects.all()]}
    page = admin.post(f"{LIST}many/", form, follow=True).content.decode()
    without = admin.post(f"{LIST}many/discard/", {"ids": ids(page), "why": ""}, follow=True)
    assert (without.status_code, error_of(without, "why")) == (422, "This field is required.")
    given = {"ids": ids(page), "why": "a test"}
    done = admin.post(f"{LIST}many/discard/", given, follow=True).content.decode()
    assert "3 discarded" in done
    assert set(DeadLetter.objects.values_list("status", "status_by", "why")) == {
        (DISCARDED, "admin", "a test")
    }


def test_one_is_discarded_once(world, admin):
    one = letter(world)
    assert admin.post(url(one, "discard/"), {"why": "noise"}).status_code == 302
    again = admin.post(url(one, "discard/"), {"why": "again"})
    assert again.status_code == 409
    assert "Nothing was done." in again.content.decode()
    assert "Somebody has handled it already." in again.content.decode()
    assert "noise" in admin.get(url(one)).content.decode()


@pytest.mark.parametrize("form", [{}, {"do": "x"}, {"do": "redrive"}, {"do": "redrive", "id": "x"}])
def test_a_choice_that_is_none_is_named(world, admin, form: Any):
    assert admin.post(f"{LIST}many/", form, follow=True).status_code == 422


# ---- exported -----------------------------------------------------------------------------------


def body(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def test_every_letter_is_exported(world, admin, monkeypatch):
    monkeypatch.setattr(views.LETTER_FILE, "portion_size", 2)
    for n in range(5):
        put(world, f"asset-{n}".encode(), b"\xff" if n else b"{")
    world.write()
    DeadLetter.objects.update(appended_at=1_000)  # all at one moment
    lines = [json.loads(x) for x in body(admin.get(f"{LIST}export/ndjson/")).splitlines()]
    assert sorted(one["key"] for one in lines) == [f"asset-{n}" for n in range(5)]
    assert {one.get("value_base64", one.get("value")) for one in lines} == {"{", "/w=="}
    text = body(admin.get(f"{LIST}export/csv/?reason=not-json")).decode()
    (row,) = csv.DictReader(text.splitlines())
    assert (row["asset"], row["reason"], row["value"]) == ("asset-0", "not-json", "{")


@pytest.mark.django_db(transaction=True)
async def test_a_server_sends_a_file_in_portions(monkeypatch):
    monkeypatch.setattr(views.LETTER_FILE, "portion_size", 2)
    client = AsyncClient()
    await client.aforce_login(await sync_to_async(make_user)("admin"))
    await sync_to_async(ingest_letters)(
        DeadLetter(
            reason="not-json", topic="attack.reports", partition=0, offset=n, appended_at=1_000,
            noted_at=1_000, size=0, dead_partition=0, dead_offset=n, last_dead_offset=n,
        )
        for n in range(5)
    )  # fmt: skip
    response: Any = await client.get(f"{LIST}export/ndjson/")
    parts = [part async for part in response.streaming_content]
    assert [part.count(b"\n") for part in parts] == [2, 2, 1]


def test_no_cell_is_a_formula(world, admin):
    letter(world, b'=cmd|"/c calc"!A1', b"+1")
    (row,) = csv.DictReader(body(admin.get(f"{LIST}export/csv/")).decode().splitlines())
    assert row["key"] == row["asset"] == '\'=cmd|"/c calc"!A1'
    assert row["value"] == "'+1"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", "  =1"])
def test_a_guarded_cell_is_text(text: str):
    assert safe_cell(text) == f"'{text}"


def test_a_file_of_another_kind_is_not_found(world, admin):
    assert admin.get(f"{LIST}export/xls/").status_code == 404
    assert admin.get(f"{LIST}export/csv/?reason=x").status_code == 422


def test_a_gateway_is_in_use(world):
    """What these tests send goes to memory."""
    assert kafka.gateway() is world.gateway


# ---- what the job would make of one --------------------------------------------------------------


def judged(world: World, **fields: Any) -> Any:
    value = json.dumps({"type": "report", "agent": "late", "state": "clear", **fields}).encode()
    return judge(world.gateway.topics.reports("attack"), b"shop", value, now_ms())


def test_among_many_agents_a_vote_takes_the_place_of_a_milder_one(world):
    agents = [f"waf-{n:03}" for n in range(MAX_VOTERS)]
    world.report("shop", "under-attack", *agents)
    world.write()
    full = judged(world)
    assert full.reason == "too-many-agents"
    assert "none of their votes gives way" in full.fault.text
    assert judged(world, state="under-attack").taken, "it is as bad as theirs"
    world.report("shop", "clear", agents[7])
    world.write()
    assert judged(world).taken
    assert judged(world, agent=agents[3]).taken, "it has a place already"


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (1, "If its agent has reported on this asset since"),
        (5, "its agent's last word"),
        (60, "count it as stale"),
    ],
)
def test_what_an_old_report_would_do_is_said(world, minutes: int, words: str):
    verdict = judged(world, reported_at=now_ms() - minutes * 60_000)
    assert verdict.taken
    assert words in verdict.note


def test_a_leave_is_sent_again_too(world):
    verdict = judged(world, type="leave", reported_at=now_ms() - 60_000)
    assert verdict.taken
    assert "If its agent has reported" in verdict.note


def test_the_list_says_what_a_reason_means(admin: Client, world: World) -> None:
    put(world, b"shop", b"{")
    world.write()
    page = admin.get(LIST).content.decode()
    assert "<small>The value is not JSON, or there is none.</small>" in page
    assert 'title="The value is not JSON, or there is none."' in page
