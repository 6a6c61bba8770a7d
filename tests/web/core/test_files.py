"""Files byte for byte: lines and their ends, the order of fields, what a spreadsheet may not take
for a formula, what stands in JSON for what has no text."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common import exports
from dashboard.core.common.times import iso, now_ms
from dashboard.core.states.models import Transition
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.operate.requests.models import Reading, StoredRow
from dashboard.watch.annotations import labels
from dashboard.watch.bulk.models import Item, Run
from domain.version import Version
from support.web.web_fixtures import show

pytestmark = pytest.mark.django_db

ID = uuid.UUID("6f1d7a9e-0000-4000-8000-000000000001")


def file(client: Client, path: str, **given: str) -> str:
    response: Any = client.get(path, given)
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()


def csv(*lines: str) -> str:
    return "".join(f"{line}\r\n" for line in lines)


def changed(asset: str, at: int, offset: int) -> None:
    """An asset came under attack by a report."""
    version = Version(1, offset, 0)
    cause = f'{{"type":"report","partition":3,"offset":{offset},"time":1,"agent":"waf-1"}}'
    Transition.objects.create(
        scenario="attack", asset=asset, version=version.sortable(), place=f"{offset}", at=at,
        previous="clear", state="under-attack", cause_type="report", cause=cause,
    )  # fmt: skip


def test_events(admin: Client) -> None:
    changed("Zürich, West", 1_000, 7)
    changed("=cmd()", 2_000, 8)
    assert file(admin, "/events/events.csv") == csv(
        "scenario,asset,kind,previous,state,at,version,cause,partition,offset",
        "attack,'=cmd(),change,clear,under-attack,1970-01-01T00:00:02.000Z,1.8.0,"
        "reported by waf-1,3,8",
        'attack,"Zürich, West",change,clear,under-attack,1970-01-01T00:00:01.000Z,1.7.0,'
        "reported by waf-1,3,7",
    )
    assert file(admin, "/events/events.ndjson", q="cmd") == (
        '{"scenario":"attack","asset":"=cmd()","kind":"change","previous":"clear",'
        '"state":"under-attack","at":2000,"version":"1.8.0","cause":"reported by waf-1",'
        '"partition":3,"offset":8}\n'
    )


def test_the_audit(admin: Client) -> None:
    AuditEntry.objects.all().delete()
    AuditEntry.objects.create(
        number=1, at=1_000, name="+ada", role="admin", source="page", address="::1",
        action="logout", target="x", outcome="done", facts='{"n":[1,"ü"]}',
        previous="p", digest="d",
    )  # fmt: skip
    assert file(admin, "/audit/audit.csv", action="logout") == csv(
        "number,at,user_id,name,role,source,token,address,action,scenario,target,outcome,facts,"
        "previous,digest",
        '1,1970-01-01T00:00:01.000Z,,\'+ada,admin,page,,::1,logout,,x,done,"{""n"":[1,""ü""]}",p,d',
    )
    assert file(admin, "/audit/audit.ndjson", action="logout") == (
        '{"number":1,"at":1000,"user_id":null,"name":"+ada","role":"admin","source":"page",'
        '"token":"","address":"::1","action":"logout","scenario":"","target":"x",'
        '"outcome":"done","facts":{"n":[1,"ü"]},"previous":"p","digest":"d"}\n'
    )


def test_a_board_of_the_past(admin: Client) -> None:
    now = now_ms() // 1_000 * 1_000
    then = datetime.fromtimestamp(now / 1_000 - 3_600, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    show("attack", "-shop", "under-attack")
    changed("-shop", now - 60_000, 7)
    given = {"scenario": "attack", "at": then}
    assert file(admin, "/as-of/as-of.csv", **given) == csv(
        "scenario,asset,state,now,worst,changes,at",
        f"attack,'-shop,clear,under-attack,under-attack,1,{iso(now - 60_000)}",
    )
    assert file(admin, "/as-of/as-of.ndjson", **given) == (
        '{"scenario":"attack","asset":"-shop","state":"clear","now":"under-attack",'
        f'"worst":"under-attack","changes":1,"at":{now - 60_000}}}\n'
    )
    assert file(admin, "/as-of/as-of.csv", **given, view="board") == csv(
        "scenario,asset,state,since", "attack,'-shop,clear,"
    )
    assert file(admin, "/as-of/as-of.ndjson", **given, view="board") == (
        '{"scenario":"attack","asset":"-shop","state":"clear","since":0}\n'
    )


def test_dead_letters(admin: Client) -> None:
    letter = DeadLetter.objects.create(
        reason="not-json", scenario="attack", topic="attack.reports", partition=1, offset=2,
        appended_at=3, noted_at=4, size=5, dead_partition=0, dead_offset=0, last_dead_offset=0,
        asset="@a", key=b"@a", value=b"\xff", headers='[["h", "/w=="]]',
    )  # fmt: skip
    assert file(admin, "/dead-letters/export/csv/") == csv(
        "id,reason,scenario,topic,partition,offset,appended_at,noted_at,repeats,size,whole,asset,"
        "agent,status,status_at,status_by,why,edited,new_topic,new_partition,new_offset,key,value",
        f"{letter.pk},not-json,attack,attack.reports,1,2,1970-01-01T00:00:00.003Z,"
        "1970-01-01T00:00:00.004Z,0,5,True,'@a,,open,,,,False,,,,'@a,\ufffd",
    )
    assert file(admin, "/dead-letters/export/ndjson/") == (
        f'{{"id":{letter.pk},"reason":"not-json","scenario":"attack","topic":"attack.reports",'
        '"partition":1,"offset":2,"appended_at":3,"noted_at":4,"repeats":0,"size":5,"whole":true,'
        '"asset":"@a","agent":"","status":"open","status_at":null,"status_by":"","why":"",'
        '"edited":false,"new_topic":"","new_partition":null,"new_offset":null,"key":"@a",'
        '"value_base64":"/w==","headers":[{"name":"h","value_base64":"/w=="}]}\n'
    )


def test_outcomes_of_a_run(admin: Client) -> None:
    run = Run.objects.create(
        id=ID, scenario="attack", kind="purge", reason="r", chosen="all", matched=2, username="ada",
        status="done", created_at=1, ended_at=2, tallies={"applied": 1, "skipped": 1},
    )  # fmt: skip
    answered = {"partition": 3, "offset": 7, "answered_at": 9, "outcome": "applied"}
    version = Version(1, 7, 0).sortable()
    Item.objects.create(
        run=run,
        number=0,
        asset="=a",
        was="clear",
        command="c",
        answered_version=version,
        **answered,
    )
    Item.objects.create(run=run, number=1, asset="b", outcome="skipped", text="why", command="d")
    assert file(admin, f"/bulk/{run.pk}/outcomes.csv") == csv(
        "asset,was,outcome,why,command,partition,offset,version,answered_at",
        "'=a,clear,Applied,,c,3,7,1.7.0,1970-01-01T00:00:00.009Z",
        "b,,Left out by the review,why,d,,,,",
    )


def test_labels(admin: Client) -> None:
    labels.put("attack", {"=b": {"tier": "'x"}, "a": {"tier": "x,y"}}, "ada", 1)
    labels.ingest_reported_labels("attack", {"a": {"zone": ("-", "waf-1")}}, 1)
    assert file(admin, "/labels/labels.csv", scenario="attack") == csv(
        "asset,key,value,source",
        "'=b,tier,''x,person",
        'a,tier,"x,y",person',
        "a,zone,'-,agent waf-1",
    )


def test_rows_of_the_state_store(admin: Client) -> None:
    reading = Reading.objects.create(
        id=ID, scenario="attack", query="kernel", username="ada", asked_at=1, complete=True
    )
    StoredRow.objects.create(
        reading=reading, asset="a", partition=1, verdict="differs", fields="state", version="1.7.0",
        record='{"state": "clear"}', board="",
    )  # fmt: skip
    assert file(admin, f"/state-store/{ID}/rows.ndjson") == (
        '{"asset":"a","partition":1,"standing":"differs","fields":"state",'
        '"store_version":"1.7.0","board_version":null,"store":{"state": "clear"},"board":null}\n'
    )


def test_nothing_found_is_a_head_alone(admin: Client) -> None:
    assert file(admin, "/events/events.csv").count("\r\n") == 1
    assert file(admin, "/events/events.ndjson") == ""


def test_a_portion_without_rows_does_not_end_a_file() -> None:
    portions: list[list[dict[str, str]]] = [[], [{"a": "1"}], [], [{"a": "2"}]]
    assert list(exports.written("ndjson", ("a",), portions)) == [b'{"a":"1"}\n', b'{"a":"2"}\n']
