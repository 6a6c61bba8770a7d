"""A page with a form, as every page with one has it."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.http import HttpResponse
from django.test import Client
from django.urls import include, path

from dashboard import urls
from dashboard.core.common.access import ADMINS, Role
from dashboard.core.common.forms import FormPage
from dashboard.watch.annotations.models import Label

pytestmark = [pytest.mark.django_db, pytest.mark.role(Role.ADMIN)]


class ValueForm(forms.Form):
    """A label's value."""

    value = forms.CharField(max_length=5)

    def __init__(self, data: Any = None, row: Label | None = None) -> None:
        super().__init__(data, initial={"value": row.value} if row else None)


class LabelPage(FormPage):
    queryset = Label.objects.all()
    template_name = "notifications/rotas.html"
    roles = ADMINS
    form_class = ValueForm
    form_takes: tuple[str, ...] = ("row",)

    def form_valid(self, form: Any) -> HttpResponse:
        Label.objects.filter(pk=self.row.pk).update(value=form.cleaned_data["value"])
        return self.done("It is changed.", "labels-of-test:label", self.row.pk)


class Removal(LabelPage):
    form_class: Any = forms.Form
    form_takes = ()
    page = "labels-of-test:label"

    def form_valid(self, form: Any) -> HttpResponse:
        self.row.delete()
        return self.done("It is gone.", "labels:labels")


PAGES = [
    path("label/<int:number>/", LabelPage.as_view(), name="label"),
    path("label/<int:number>/remove/", Removal.as_view(), name="remove"),
]
urlpatterns = [path("", include((PAGES, "labels-of-test"))), *urls.urlpatterns]


@pytest.fixture
def label(settings: Any) -> Label:
    settings.ROOT_URLCONF = __name__
    return Label.objects.create(scenario="attack", asset="a", key="tier", value="gold", at=1)


def test_a_form_has_the_row_of_its_address(client: Client, label: Label) -> None:
    page = client.get(f"/label/{label.pk}/")
    assert (page.status_code, page.context["row"]) == (200, label)
    assert page.context["form"]["value"].value() == "gold"
    assert "no-store" in page["Cache-Control"]
    assert client.get("/label/999/").status_code == 404


def test_what_is_wrong_comes_back_with_what_was_typed(client: Client, label: Label) -> None:
    page = client.post(f"/label/{label.pk}/", {"value": "platinum"})
    assert page.status_code == 422
    assert page.context["form"].errors["value"]
    assert "platinum" in page.content.decode()
    label.refresh_from_db()
    assert label.value == "gold"


def test_what_was_done_is_said_on_the_next_page(client: Client, label: Label) -> None:
    page = client.post(f"/label/{label.pk}/", {"value": "tin"}, follow=True)
    assert page.redirect_chain == [(f"/label/{label.pk}/", 302)]
    assert "It is changed." in page.content.decode()
    assert page.context["form"]["value"].value() == "tin"


def test_an_address_that_only_a_form_is_sent_to_leads_to_its_page(
    client: Client, label: Label
) -> None:
    here = f"/label/{label.pk}/"
    assert client.get(f"{here}remove/").headers["Location"] == here
    assert client.delete(f"{here}remove/").status_code == 405
    assert Label.objects.exists()
    assert client.post(f"{here}remove/").headers["Location"] == "/labels/"
    assert not Label.objects.exists()


def test_a_form_answers_no_other_method(client: Client, label: Label) -> None:
    refused = client.put(f"/label/{label.pk}/")
    assert (refused.status_code, refused["Allow"]) == (405, "GET, HEAD, POST")


@pytest.mark.role(Role.OPERATOR)
def test_a_form_is_kept_to_its_roles(client: Client, label: Label) -> None:
    assert client.get(f"/label/{label.pk}/").status_code == 403
    assert client.post(f"/label/{label.pk}/remove/").status_code == 403
    assert Label.objects.exists()
