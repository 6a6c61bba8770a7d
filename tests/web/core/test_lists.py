"""Pages of lists: what one that says the least has, and that no file leaves unnoted."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django import forms
from django.test import Client
from django.urls import include, path

from dashboard import urls
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common import lists
from dashboard.core.common.access import Role
from dashboard.core.common.extension_point import Provider
from dashboard.core.common.forms import ListForm
from dashboard.core.common.lists import ListPage
from dashboard.core.common.tables import Table
from dashboard.watch.annotations.models import Label
from support.web.web_fixtures import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.role("admin")]


class LabelForm(ListForm):
    key = forms.CharField(required=False, max_length=5)

    def rows(self) -> Any:
        given = {name: value for name, value in self.criteria().items() if value}
        return Label.objects.filter(**given)


class LabelList(ListPage):
    name = "labels"
    form_class = LabelForm
    template = "glossary"
    table = Table("", "Asset")
    renews = False
    roles = frozenset((Role.ADMIN,))
    page_size = 2
    fields = ("asset", "key")


urlpatterns = [
    path("", include((LabelList.addresses("listed/", "all", "file"), "listed"))),
    *urls.urlpatterns,
]


@pytest.fixture(autouse=True)
def labels(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    for asset in "abc":
        Label.objects.create(
            scenario="attack", asset=asset, key="tier", value=asset, shown=True, at=1
        )


def test_a_list_has_pages_newest_first(client: Client) -> None:
    first = client.get("/listed/?key=tier").context
    assert [row.asset for row in first["page"].rows] == ["c", "b"]
    assert first["narrowed"]
    assert first["query"] == "key=tier"
    older = client.get(f"/listed/{first['pager'].links['Older']}").context
    assert [row.asset for row in older["page"].rows] == ["a"]
    assert not client.get("/listed/").context["narrowed"]


def test_a_list_is_a_file_which_the_audit_notes(client: Client) -> None:
    response: Any = client.get("/listed/labels.csv?key=tier")
    assert response["Content-Disposition"] == 'attachment; filename="labels.csv"'
    text = b"".join(response.streaming_content).decode()
    assert [line["asset"] for line in csv.DictReader(io.StringIO(text))] == ["c", "b", "a"]
    entry = AuditEntry.objects.get(action="export.labels")
    assert (entry.target, entry.facts) == ("labels.csv", '{"form":"csv","filter":"key=tier"}')


def test_a_filter_with_faults_is_refused(client: Client) -> None:
    for query in ("key=123456", "before=x"):
        page = client.get(f"/listed/?{query}")
        assert page.status_code == 422
        assert page.context["page"] is None
        assert client.get(f"/listed/labels.csv?{query}").status_code == 422
    assert client.get("/listed/labels.xml").status_code == 404
    assert not AuditEntry.objects.filter(action="export.labels")


def test_a_list_is_read_alone_and_by_its_roles() -> None:
    operator = Client()
    operator.force_login(make_user("operator"))
    for address in ("/listed/", "/listed/labels.csv"):
        assert operator.get(address).status_code == 403
        assert Client().get(address).status_code == 302
        assert operator.post(address).status_code == 405


def test_no_file_leaves_where_nobody_notes_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody: Any = Provider(lists._nobody_notes)
    monkeypatch.setattr(lists, "record_export", nobody)
    with pytest.raises(RuntimeError, match="nobody notes"):
        client.get("/listed/labels.csv")


def test_rows_of_the_api_say_where_the_next_page_begins() -> None:
    listed = LabelList()
    first = listed.answer(Label.objects.all(), 2, None)
    assert first["items"] == [{"asset": "c", "key": "tier"}, {"asset": "b", "key": "tier"}]
    rest = listed.answer(Label.objects.all(), 2, first["next"])
    assert (rest["items"], rest["next"]) == ([{"asset": "a", "key": "tier"}], None)
