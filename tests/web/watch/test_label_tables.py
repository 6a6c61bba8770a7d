"""Label files: sent, read, compared, applied, at once or by the worker; stopped, killed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common import resumable
from dashboard.watch.annotations import label_files, label_uploads, label_views, models, tasks
from dashboard.watch.annotations import labels as annotation_labels
from dashboard.watch.annotations.label_uploads import ImportCounts
from dashboard.watch.annotations.models import Label, LabelPortion, LabelUpload
from support.web.retention import apply_all
from support.web.web_fixtures import bearer, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the worker was told to do; it does so when a test lets it. No turn takes a rest."""
    started_tasks: list[Any] = []
    monkeypatch.setattr(label_views, "start_task", started_tasks.append)
    monkeypatch.setattr(tasks, "start_task", started_tasks.append)
    monkeypatch.setattr(label_files, "REST_S", 0.0)
    cache.clear()
    return started_tasks


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is one for the worker, in portions of four labels."""
    monkeypatch.setattr(label_files, "AT_ONCE", -1)
    monkeypatch.setattr(label_files, "AT_ONCE_BYTES", -1)
    monkeypatch.setattr(label_files, "WRITE_PORTION", 4)


@pytest.fixture
def shops() -> None:
    """Two shops have labels."""
    annotation_labels.put(
        "attack", {"shop-1": {"tier": "gold"}, "shop-2": {"tier": "silver"}}, "ada", 1
    )


def upload(client: Client, data: str, name: str = "labels.csv", **more: str) -> Any:
    sent = SimpleUploadedFile(name, data.encode())
    return client.post("/labels/upload/", {"scenario": "attack", "file": sent, **more})


def ten(value: str = "gold") -> str:
    return "asset,tier\n" + "".join(f"site-{n},{value}\n" for n in range(10))


def counts(page: str) -> dict[str, int]:
    """The figures of a table's page."""
    return {word: int(n) for word, n in re.findall(r"<dt>([^<]+)</dt><dd>([\d,]+)</dd>", page)}


def text(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def given() -> dict[str, str]:
    """What the ten sites have."""
    by_asset = annotation_labels.labels_of("attack", [f"site-{n}" for n in range(10)])
    return {asset: labels["tier"] for asset, labels in by_asset.items() if "tier" in labels}


def audited() -> list[tuple[str, int]]:
    """Outcome and number of new labels of each entry, the oldest first."""
    rows = AuditEntry.objects.filter(action="labels.changed").order_by("number")
    return [(row.outcome, json.loads(row.facts).get("new", 0)) for row in rows]


# ---- at once ------------------------------------------------------------------------------------


def test_a_small_table_is_looked_at_and_applied_at_once(
    shops: None, client: Client, woken: list[Any]
) -> None:
    table = "asset,key,value\nshop-1,tier,gilt\nshop-2,tier,\nmail,owner,<b>bob\nmail,state,x\n"
    answer = upload(client, table, "<i>mine.csv", empty_removes="on")
    page = text(client, answer.url)
    one_each = {"New": 1, "Changed": 1, "Removed": 1, "Refused": 1, "In the file": 4}
    assert counts(page) == one_each
    assert '<td class="num" data-value="5">5</td>' in page, "the line that is refused"
    assert "state is a word of the filter" in page
    assert "&lt;b&gt;bob" in page
    assert "&lt;i&gt;mine.csv" in page
    assert annotation_labels.labels_of("attack", ["shop-1"]) == {"shop-1": {"tier": "gold"}}
    done = client.post(f"{answer.url}apply/", follow=True).content.decode()
    assert counts(done) == one_each
    assert ">Done</h2>" in done
    assert '<td class="num" data-value="5">5</td>' in done
    by_asset = annotation_labels.labels_of("attack", ["shop-1", "shop-2", "mail"])
    assert by_asset == {"shop-1": {"tier": "gilt"}, "mail": {"owner": "<b>bob"}}
    assert woken == []
    assert audited() == [("done", 1)]
    assert f'href="{answer.url}"' in text(client, "/labels/"), "what came of it stays"
    assert counts(text(client, answer.url)) == one_each


def test_a_table_is_applied_once(client: Client) -> None:
    answer = upload(client, ten())
    for _ in range(2):
        assert client.post(f"{answer.url}apply/")["Location"] == answer.url
    assert annotation_labels.state("attack").n == 1
    assert audited() == [("done", 10)]


def test_a_table_is_its_users_alone(client: Client) -> None:
    answer = upload(client, ten())
    other = Client()
    other.force_login(make_user("admin"))
    assert other.get(answer.url).status_code == 404
    for do in ("apply", "stop"):
        assert other.post(f"{answer.url}{do}/").status_code == 404
    assert answer.url not in text(other, "/labels/")


def test_a_file_that_is_no_table_says_why(client: Client) -> None:
    answer = upload(client, "name,tier\n")
    assert answer.status_code == 422
    assert "file: the header: expected asset,key,value" in answer.content.decode()
    assert not LabelUpload.objects.exists()


def test_a_file_that_is_too_large_is_not_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.watch.annotations.label_files.MAX_BYTES", 10)
    assert upload(client, ten()).status_code == 422
    assert not LabelUpload.objects.exists()


def test_a_table_of_refused_lines_alone_is_not_applied(client: Client) -> None:
    page = text(client, upload(client, "asset,key,value\na,Ti er,x\n").url)
    assert "Nothing to apply" in page
    assert "apply/" not in page


def test_what_a_table_would_do_is_bounded(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.report("site-1", "clear")
    world.write()
    monkeypatch.setattr(label_uploads, "LISTED", 3)
    monkeypatch.setattr(label_uploads, "MOST_REFUSED", 2)
    page = text(client, upload(client, ten() + "a\nb\nc\n").url)
    assert counts(page) == {"New": 10, "Refused": 3, "In the file": 13}
    assert "9 are not on the board" in page
    assert page.count("<bdi>site-") == 3
    assert page.count("expected 2 cells") == 2


# ---- by the worker ------------------------------------------------------------------------------


def test_a_large_table_is_the_workers(large: None, client: Client, woken: list[Any]) -> None:
    answer = upload(client, ten() + "site-1,tin\n")
    assert woken == [tasks.carry_on]
    assert "Reading the file" in text(client, answer.url)
    assert not tasks.carry_on()
    page = text(client, answer.url)
    assert counts(page) == {"New": 10, "Refused": 1, "In the file": 11}
    assert ">To be confirmed</h2>" in page
    assert given() == {}
    client.post(f"{answer.url}apply/")
    assert woken == [tasks.carry_on] * 2
    assert given() == {}
    tasks.carry_on()
    done = text(client, answer.url)
    assert counts(done) == {"New": 10, "Refused": 1, "In the file": 11}
    assert '<td class="num" data-value="12">12</td>' in done
    assert set(given()) == {f"site-{n}" for n in range(10)}
    assert audited() == [("started", 0), ("done", 10)]
    assert not LabelPortion.objects.exists()


def test_the_page_tells_how_far_it_is(large: None, client: Client) -> None:
    answer = upload(client, ten())
    kept = LabelUpload.objects.get()
    for done, status in ((0, "comparing"), (4, "comparing"), (8, "comparing"), (10, "comparing")):
        label_files.UploadTask(kept).step()
        assert (kept.done, kept.status) == (done, status)
    label_files.UploadTask(kept).step()
    client.post(f"{answer.url}apply/")
    label_files.UploadTask(kept).step()
    page = client.get(answer.url, headers={"HX-Request": "true"}).content.decode()
    assert page.startswith('<div id="table"')
    assert 'data-every="1"' in page
    assert 'aria-valuetext="4 of 10"' in page
    assert "<strong>4</strong> of 10 labels" in page
    assert "Nothing has been done since" not in page
    LabelUpload.objects.update(moved_at=1)
    assert "Nothing has been done since" in text(client, answer.url)
    assert "40.0 %" in text(client, "/labels/")


def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    large: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotation_labels.put("attack", {"site-5": {"tier": "tin"}}, "ada", 1)
    answer = upload(client, ten())
    tasks.carry_on()
    client.post(f"{answer.url}apply/")
    kept, stale = LabelUpload.objects.get(), LabelUpload.objects.get()
    label_files.UploadTask(kept).step()

    class Killed(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ImportCounts, "take", die)  # its labels are written, and not yet counted
        with pytest.raises(Killed):
            label_files.UploadTask(kept).step()
    assert sum(value == "gold" for value in given().values()) == 4
    portion = stale.portions.get(number=0)
    label_files.UploadTask(stale)._pass(
        portion
    )  # by another worker, which has not seen that it is done
    tasks.carry_on()
    assert counts(text(client, answer.url)) == {"New": 9, "Changed": 1, "In the file": 10}
    assert set(given().values()) == {"gold"}
    assert audited() == [("started", 0), ("done", 9)]


def test_the_rest_is_cancelled(large: None, client: Client) -> None:
    answer = upload(client, ten())
    tasks.carry_on()
    client.post(f"{answer.url}apply/")
    label_files.UploadTask(LabelUpload.objects.get()).step()
    for _ in range(2):
        assert client.post(f"{answer.url}stop/")["Location"] == answer.url
    tasks.carry_on()
    page = text(client, answer.url)
    assert ">Cancelled</h2>" in page
    assert counts(page) == {"New": 4, "Left out by cancelling": 6, "In the file": 10}
    assert len(given()) == 4
    assert audited() == [("started", 0), ("cancelled", 4)]


def test_what_was_not_begun_is_thrown_away(large: None, client: Client) -> None:
    answer = upload(client, ten())
    held = LabelUpload.objects.get()
    assert client.post(f"{answer.url}stop/")["Location"] == "/labels/"
    assert client.get(answer.url).status_code == 404
    assert label_files.UploadTask(held).take_turn() is False


def test_a_label_too_many_is_refused_with_its_line(large: None, client: Client) -> None:
    annotation_labels.put("attack", {"site-3": {f"k{n}": "v" for n in range(16)}}, "ada", 1)
    answer = upload(client, ten())
    tasks.carry_on()
    client.post(f"{answer.url}apply/")
    tasks.carry_on()
    page = text(client, answer.url)
    assert counts(page) == {"New": 9, "Refused": 1, "In the file": 10}
    assert (
        '<td class="num" data-value="5">5</td><td class="wrap"><bdi>site-3, tier: an asset has'
        in page
    )


def test_a_large_file_that_is_no_table_says_why_on_its_page(large: None, client: Client) -> None:
    answer = upload(client, "name,tier\n")
    tasks.carry_on()
    page = text(client, answer.url)
    assert ">Not a table</h2>" in page
    assert "the header: expected asset,key,value" in page
    assert client.post(f"{answer.url}apply/")["Location"] == answer.url
    assert "Not a table" in text(client, answer.url)


def test_a_fault_holds_up_one_table_alone(
    large: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = upload(client, ten())
    other = Client()
    other.force_login(make_user("admin"))
    well = upload(other, "asset,tier\nshop,gold\n")
    tasks.carry_on()
    for each, answer in ((client, broken), (other, well)):
        each.post(f"{answer.url}apply/")
    put = annotation_labels.put

    def fail(scenario: str, wanted: annotation_labels.LabelEdits, by: str, now: int) -> Any:
        if by == "operator":
            raise OSError("no room")
        return put(scenario, wanted, by, now)

    monkeypatch.setattr(annotation_labels, "put", fail)
    tasks.carry_on()
    assert "The worker failed: no room" in text(client, broken.url)
    assert ">Done</h2>" in text(other, well.url)
    monkeypatch.setattr(annotation_labels, "put", put)
    tasks.carry_on()
    assert "no room" not in text(client, broken.url)
    assert len(given()) == 10


def test_turns_end_and_go_on(
    large: None, client: Client, woken: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "TURN_S", 0.0)
    upload(client, ten())
    assert tasks.carry_on()
    assert woken == [tasks.carry_on] * 2


# ---- kept ---------------------------------------------------------------------------------------


def test_of_what_was_not_applied_the_newest_is_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_uploads, "UPLOADS_OF_USER", 2)
    for n in range(3):
        answer = upload(client, ten(f"gold-{n}"), f"{n}.csv")
        client.post(f"{answer.url}apply/")
    upload(client, ten("silver"), "3.csv")
    upload(client, ten("silver"), "4.csv")
    assert sorted(LabelUpload.objects.values_list("name", flat=True)) == ["2.csv", "4.csv"]


def test_tables_go_after_their_time(client: Client) -> None:
    applied = upload(client, ten(), "applied.csv")
    client.post(f"{applied.url}apply/")
    upload(client, ten(), "never.csv")
    now = LabelUpload.objects.latest("sent_at").sent_at
    assert apply_all(models.KEPT, now + DAY_MS - 10_000) == 0
    assert apply_all(models.KEPT, now + DAY_MS + 1) == 1
    assert LabelUpload.objects.get().name == "applied.csv"
    assert apply_all(models.KEPT, now + 91 * DAY_MS) == 1


def test_so_many_a_minute(client: Client) -> None:
    for _ in range(label_uploads.UPLOADS.count):
        assert upload(client, ten()).status_code == 302
    assert upload(client, ten()).status_code == 429


# ---- REST ---------------------------------------------------------------------------------------


def test_rest_takes_so_many_and_writes_all_or_none() -> None:
    headers = bearer(make_user("admin"))

    def put(items: list[dict[str, Any]]) -> Any:
        body = json.dumps({"items": items})
        path = "/api/v1/scenarios/attack/labels"
        return Client().put(path, body, content_type="application/json", headers=headers)

    many = [{"asset": f"site-{n}", "labels": {"tier": "gold"}} for n in range(1_001)]
    assert put(many).status_code == 422
    assert given() == {}
    annotation_labels.ingest_reported_labels(
        "attack", {"site-9": {f"k{n}": ("v", "waf-1") for n in range(16)}}, 1
    )
    refused = put(many[:10])
    assert (refused.status_code, "site-9" in refused.content.decode()) == (422, True)
    assert given() == {}
    assert put(many[:9]).status_code == 200
    assert len(given()) == 9
    too_large = [{"asset": "x" * 255, "labels": {"tier": "y" * 100}}] * 8_000
    assert put(too_large).status_code == 413


def test_a_table_stops_when_who_had_it_applied_may_not_any_more(
    large: None, client: Client, woken: list[Any]
) -> None:
    upload(client, ten())
    label_files.work()
    kept = LabelUpload.objects.get()
    client.post(f"/labels/upload/{kept.pk}/apply/")
    kept.refresh_from_db()
    label_files.UploadTask(kept).step()
    User.objects.filter(username="operator").update(is_active=False)
    label_files.work()
    kept.refresh_from_db()
    assert (kept.status, kept.problem, kept.done) == ("stopped", "operator is deactivated", 4)
    taker = Client()
    taker.force_login(make_user("admin"))
    assert "operator is deactivated" in text(taker, "/labels/")
    assert "Take over and resume as admin" in text(taker, f"/labels/upload/{kept.pk}/")
    taker.post(f"/labels/upload/{kept.pk}/apply/")
    label_files.work()
    kept.refresh_from_db()
    assert (kept.status, kept.done, kept.user.username) == ("done", 10, "admin")
    names = Label.objects.order_by("pk").values_list("name", flat=True)
    assert list(names) == ["operator"] * 4 + ["admin"] * 6
    entries = AuditEntry.objects.filter(action="labels.changed").order_by("number")
    assert [(row.name, row.outcome) for row in entries] == [
        ("operator", "started"), ("worker", "stopped: operator is deactivated"),
        ("admin", "taken over"), ("admin", "done"),
    ]  # fmt: skip


def test_a_stopped_table_is_cancelled_by_anybody_who_may(large: None, client: Client) -> None:
    upload(client, ten())
    label_files.work()
    kept = LabelUpload.objects.get()
    client.post(f"/labels/upload/{kept.pk}/apply/")
    kept.refresh_from_db()
    label_files.UploadTask(kept).step()
    User.objects.get(username="operator").groups.clear()
    label_files.work()
    other = Client()
    other.force_login(make_user("admin"))
    other.post(f"/labels/upload/{kept.pk}/stop/")
    kept.refresh_from_db()
    assert kept.status == "cancelled"
    entry = AuditEntry.objects.filter(action="labels.changed").order_by("number").last()
    assert entry
    assert (entry.name, entry.outcome) == ("admin", "cancelled")
