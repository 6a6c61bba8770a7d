"""Lists that leave as files, noted in the audit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBase

from dashboard.audit.log import Actor, note
from dashboard.core.filter_forms import FilterForm
from dashboard.core.listing import TableFile, file_refusal

M = TypeVar("M", bound=Model)


def export(
    request: HttpRequest,
    file: TableFile[M],
    form: str,
    filter_form: FilterForm,
    rows: Callable[[], QuerySet[M]],
) -> HttpResponseBase:
    """Return the rows of a filter as a file of a form, which the audit notes; what is wrong with
    the filter as 422. rows: called once the filter is known to be valid. Raises Http404 where
    there is no such form."""
    if refusal := file_refusal(form, filter_form):
        return refusal
    facts = {"form": form, "filter": filter_form.query()}
    note(Actor.of(request), f"export.{file.name}", target=f"{file.name}.{form}", **facts)
    return file.response(request, form, rows())
