"""Pages of lists, as generic views: a filter in the address, rows in an order, and the same as a
file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import EVERY_ROLE, Role, role_required
from dashboard.core.common.exports import attachment, written
from dashboard.core.common.extension_point import Provider
from dashboard.core.common.forms import ListForm
from dashboard.core.common.navigation import render_page
from dashboard.core.common.tables import (
    NEWEST_FIRST,
    Listing,
    ListOrder,
    Page,
    Pager,
    Table,
    file_refusal,
    portions,
)
from dashboard.core.common.times import now_ms


def _nobody_notes(_request: HttpRequest, listed: str, _file: str, _query: str) -> None:
    raise RuntimeError(f"{listed}: nobody notes that a list leaves as a file")


record_export: Provider[[HttpRequest, str, str, str], None] = Provider(_nobody_notes)
"""Notes that a list leaves as a file, whose filter is this query; the audit does."""


class NoFilter(ListForm):
    """The form of a list that is whole, or reads its address itself."""

    before = None


class ListPage(View):
    """A list of rows: its page, which scripts renew, and the same as a file.

    A subclass says what it lists, as one of `django.views.generic.ListView` does; `addresses` is
    for its `urls.py`. While a request is answered, `request`, `form` and `now` (Unix ms) are set.
    """

    name: str
    """Of the file."""
    form_class: type[ListForm] = NoFilter
    template: str
    """Such as `board/events`."""
    table: Table
    roles: Collection[Role] = EVERY_ROLE
    order: ListOrder = NEWEST_FIRST
    page_size = 100
    looked_at = 50_000
    """Most rows that are looked at for one page, whether or not they pass the filter."""
    renews = True
    """Whether a part of the page renews itself: that of the template's name after `_`."""
    fields: tuple[str, ...] = ()
    """What a line of CSV has."""
    portion_size = 1_000
    at_most: int | None = None
    """Most rows of a file."""
    exported_as = ""
    """What the audit says that a file has, by default the file's name."""

    form: ListForm
    now: int

    @classmethod
    def addresses(cls, folder: str, page: str, file: str = "") -> list[URLPattern]:
        """Return the addresses of the list. page, file: their names; no `file`: there is none."""
        view = require_safe(never_cache(role_required("read", cls.roles)(cls.as_view())))
        found = [path(folder, view, name=page)]
        if file:
            found.append(path(f"{folder}{cls.name}.<str:suffix>", view, name=file))
        return found

    def get(self, request: HttpRequest, suffix: str = "") -> HttpResponseBase:
        """Return the page, or the file with this suffix; 422 where the filter has faults."""
        self.form, self.now = self.form_class(request.GET), now_ms()
        return self.file(suffix) if suffix else self.page()

    # ---- the page

    def page(self) -> HttpResponse:
        """Return the page; to a script, the part of it that renews itself."""
        valid = self.form.is_valid()
        context = {
            "now": self.now,
            "form": self.form,
            "table": self.table,
            "query": self.form.query(),
            "address": self.request.get_full_path(),
            **self.list_context(),
            **self.context(),
        }
        status = 200 if valid else 422
        if self.renews:
            return render_page(self.request, self.template, context, status)
        return render(self.request, f"{self.template}.html", context, status=status)

    def context(self) -> dict[str, Any]:
        """Return what the template of this list needs besides."""
        return {}

    def list_context(self) -> dict[str, Any]:
        """Return the rows of the page, None where the filter has faults, and its pager."""
        valid, query = self.form.is_valid(), self.form.query()
        before = self.form.cleaned_data["before"] if valid else None
        found = self.paginate(self.form.rows(), before) if valid else None
        following = found.following if found else None
        titles = ("The newest", "Older")
        pager = Pager.by_key(query, "before", before, following, titles)
        return {"found": found, "first": not before, "narrowed": bool(query), "pager": pager}

    def paginate(self, rows: QuerySet[Any], before: Any) -> Page[Any]:
        """Return the first rows as entries, or those that follow a place."""
        listing = Listing(self.entry, self.order, self.page_size, self.looked_at)
        return listing.page(rows, before or 0)

    def entry(self, row: Any) -> Any:
        """Return a row for the template."""
        return row

    # ---- the file, and the API

    def file(self, suffix: str) -> HttpResponseBase:
        """Return the rows as CSV or NDJSON, and log that in the audit. Raises Http404."""
        if refusal := file_refusal(suffix, self.form):
            return refusal
        record_export(
            self.request, self.exported_as or self.name, f"{self.name}.{suffix}", self.form.query()
        )
        lines = (map(self.plain, portion) for portion in self.portions())
        return attachment(self.request, written(suffix, self.fields, lines), self.name, suffix)

    def portions(self) -> Iterable[Iterable[Any]]:
        """Return the rows of the file, a portion at a time."""
        return portions(self.form.rows(), self.order, self.portion_size, self.at_most)

    def plain(self, row: Any) -> dict[str, Any]:
        """Return a row as an object of NDJSON or of the API, or a line of CSV."""
        return {name: getattr(row, name) for name in self.fields}

    def answer(self, rows: QuerySet[Any], limit: int, before: int | None) -> dict[str, Any]:
        """Return rows as the API lists them: `items`, and where the next page begins.

        before: the number of the row that they follow.
        """
        ordered = self.order.of(rows) if before is None else self.order.after_number(rows, before)
        listed = list(ordered[: limit + 1])
        following = listed[limit - 1].pk if len(listed) > limit else None
        return {"items": [self.plain(row) for row in listed[:limit]], "next": following}
