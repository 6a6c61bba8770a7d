"""List pages as generic views: a filter in the URL, rows in an order, and the list as a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import EVERY_ROLE, Role, role_required, takes
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
"""Records that a list, filtered by this query, leaves as a file; provided by the audit."""


class NoFilter(ListForm):
    """The form of a list that is complete, or reads its URL itself."""

    before = None


class ListPage(View):
    """A list of rows: its page, which scripts refresh, and the same list as a file.

    A subclass says what it lists, as with `django.views.generic.ListView`; `addresses` is for its
    `urls.py`. During a request, `request`, `form` and `now` (Unix ms) are set.
    """

    name: str
    """Name of the file."""
    form_class: type[ListForm] = NoFilter
    template: str
    """The template, such as `board/events`."""
    table: Table
    roles: Collection[Role] = EVERY_ROLE
    order: ListOrder = NEWEST_FIRST
    pager_titles = ("The newest", "Older")
    page_size = 100
    looked_at = 50_000
    """Most rows that are examined for one page, whether or not they pass the filter."""
    renews = True
    """Whether part of the page refreshes itself: the template of the same name after `_`."""
    fields: tuple[str, ...] = ()
    """The fields of a CSV line."""
    portion_size = 1_000
    at_most: int | None = None
    """Most rows in a file."""
    exported_as = ""
    """The audit's name for the file's contents; by default the file's name."""

    parameters: tuple[str, ...] = ()
    """Query parameters that the page reads besides those of its form."""

    form: ListForm
    now: int

    @classmethod
    def addresses(cls, folder: str, page: str, file: str = "") -> list[URLPattern]:
        """Return the list's URL patterns. page, file: their names; without `file` there is none."""
        names = (*cls.form_class.parameters(), *cls.parameters)
        listed = takes(*names, "complete")(cls.as_view())
        patterns = [path(folder, cls._restricted(listed), name=page)]
        if file:
            whole = cls._restricted(takes(*names, blank=False)(cls.as_view()))
            patterns.append(path(f"{folder}{cls.name}.<str:suffix>", whole, name=file))
        return patterns

    @classmethod
    def _restricted(cls, view: Any) -> Any:
        """Return a view that is read alone, by the list's roles, and never cached."""
        return require_safe(never_cache(role_required("read", cls.roles)(view)))

    def get(self, request: HttpRequest, suffix: str = "") -> HttpResponseBase:
        """Return the page, or the file with this suffix; 422 if the filter is invalid.

        With `complete`, return what may stand at the end of that beginning of a filter, as JSON.
        """
        if "complete" in request.GET:
            begun = request.GET["complete"]
            return JsonResponse(self.form_class.offers(begun, len(begun)))
        self.form, self.now = self.form_class(request.GET), now_ms()
        return self.file(suffix) if suffix else self.page()

    # ---- the page

    def page(self) -> HttpResponse:
        """Return the page; scripts get only the part that refreshes."""
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
        """Return further context for this list's template."""
        return {}

    def list_context(self) -> dict[str, Any]:
        """Return the rows of the page, None if the filter is invalid, and its pager."""
        valid, query = self.form.is_valid(), self.form.query()
        before = self.form.cleaned_data["before"] if valid else None
        page = self.paginate(self.form.rows(), before) if valid else None
        following = page.following if page else None
        if page:
            self.complete(page.rows)
        pager = Pager.by_key(query, "before", before, following, self.pager_titles)
        return {"page": page, "first": not before, "narrowed": self.form.narrows, "pager": pager}

    def paginate(self, rows: QuerySet[Any], before: Any) -> Page[Any]:
        """Return the first rows as entries, or those after the row with the number `before`."""
        listing = Listing(self.entry, self.order, self.page_size, self.looked_at)
        return listing.page(rows, before or 0)

    def complete(self, rows: list[Any]) -> None:
        """Give rows that are shown, or leave, what they have besides their own columns."""

    def entry(self, row: Any) -> Any:
        """Return a row for the template."""
        return row

    # ---- the file, and the API

    def file(self, suffix: str) -> HttpResponseBase:
        """Return the rows as CSV or NDJSON, and record that in the audit. Raises Http404."""
        if refusal := file_refusal(suffix, self.form):
            return refusal
        record_export(
            self.request, self.exported_as or self.name, f"{self.name}.{suffix}", self.form.query()
        )
        lines = written(suffix, self.fields, self.file_rows())
        return attachment(self.request, lines, self.name, suffix)

    def file_rows(self) -> Iterable[Iterable[dict[str, Any]]]:
        """Yield the lines of the file in portions."""
        return (map(self.plain, portion) for portion in self.portions())

    def portions(self) -> Iterable[Iterable[Any]]:
        """Yield the rows of the file in portions."""
        return portions(self.form.rows(), self.order, self.portion_size, self.at_most)

    def plain(self, row: Any) -> dict[str, Any]:
        """Return a row as an object for NDJSON or the API, or as a CSV line."""
        return {name: getattr(row, name) for name in self.fields}

    def answer(self, rows: QuerySet[Any], limit: int, before: int | None) -> dict[str, Any]:
        """Return rows as the API lists them: `items`, and where the next page begins.

        before: the number of the row that they follow.
        """
        ordered = self.order.of(rows) if before is None else self.order.after_number(rows, before)
        listed = list(ordered[: limit + 1])
        self.complete(listed)
        following = listed[limit - 1].pk if len(listed) > limit else None
        return {"items": [self.plain(row) for row in listed[:limit]], "next": following}
