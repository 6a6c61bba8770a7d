"""The page of one run: its review, its progress, what became of each asset; and its file."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor
from dashboard.bulk import pins, retention
from dashboard.bulk.models import (
    CANCELLED,
    FATES,
    PAUSED,
    REFUSED,
    REVIEW,
    RUNNING,
    SKIPPED,
    STOPPED,
    Item,
    Run,
)
from dashboard.bulk.renewals import moved_on_meanwhile
from dashboard.bulk.review import back, hiding, moved_on
from dashboard.bulk.run_owners import sent_as
from dashboard.bulk.run_progress import RunProgress, note_run, progress_of, reasons
from dashboard.bulk.tasks import carry_on
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.filter_forms import Choice
from dashboard.core.listing import Order, TableFile
from dashboard.core.pages import render_page
from dashboard.core.resumable import wake
from dashboard.core.roles import may
from dashboard.core.tables import Column, Pager, Table
from dashboard.core.times import now_ms
from domain.version import Version

PAGE = 100
"""Assets of one page."""
ASK_ABOVE = 1_000
"""For more assets their number must be typed."""
ASKS = {"pause": ((RUNNING,), PAUSED), "resume": ((PAUSED, STOPPED), RUNNING)}
"""What is asked of a run: of which status it must be, and which it has then."""
PINS_ONLY = "replace: expected the tick, as each of these is pinned by a colleague"
PINNED = "pinned"
"""Shows the assets that colleagues had pinned at the review."""
ITEMS = Table("bulk-items", "Asset", "Was at the review", "Outcome", "Why", "In the log")
PURGED_ITEMS = Table(
    "bulk-items",
    *ITEMS.columns[:-1],
    Column.time("Last report", "age of the newest live vote of an agent at the review"),
    ITEMS.columns[-1],
)
FIELDS = (
    "asset", "was", "fate", "why", "command", "partition", "offset", "version", "answered_at",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read")
def run(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Return the page of a run; to a script, the part of the page that renews itself."""
    return run_page(request, _known(id))


@form_of("bulk:run", "id")
@role_required("command")
def start(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Have the worker carry out what was reviewed, in the name of who starts it, once.

    Pins of colleagues are left as they are without `replace`.
    """
    known, replace = _known(id), "replace" in request.POST
    fault = _start_fault(request, known, replace) if known.status == REVIEW else ""
    if fault:
        return run_page(request, known, fault, 422)
    if _started(request, known, replace):
        wake(carry_on)
    return redirect("bulk:run", known.pk)


def _start_fault(request: HttpRequest, known: Run, replace: bool) -> str:
    """Return why a review cannot be started so; empty where it can."""
    colleagues = pins.colleagues(known, request.user.get_username()).count()
    will = progress_of(known).will - (0 if replace else colleagues)
    if not known.matched or not will:
        return PINS_ONLY if colleagues else "Nothing of this would change."
    typed = "".join(request.POST.get("confirm", "").split()).replace(",", "")[:20]
    if will > ASK_ABOVE and typed != str(will):
        return f"confirm: expected {will}, the number of assets"
    return ""


def _started(request: HttpRequest, known: Run, replace: bool) -> bool:
    user, now = user_of(request), now_ms()
    name = user.get_username()
    ended = pins.pins(known, name) if replace else None
    with transaction.atomic():
        reviewed = Run.objects.filter(pk=known.pk, status=REVIEW)
        begun = {"status": RUNNING, "started_at": now, "changed_by": name}
        if not reviewed.update(**begun, **sent_as(known, user, now)):
            return False
        left = pins.leave_new(known, name) + (0 if replace else pins.leave(known, name))
    known.refresh_from_db()
    facts = {"pins_left": left or None, "pins_ended": dict(ended.by) if ended else None}
    note_run(Actor.of(request), known, "bulk.started", "started", **facts)
    return True


@form_of("bulk:run", "id")
@role_required("command")
def ask(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Pause a run, go on with it in one's own name, cancel it; or throw a review away."""
    known, do = _known(id), request.POST.get("do", "")
    if do == "discard" and known.status == REVIEW:
        retention.delete(Run.objects.filter(pk=known.pk, status=REVIEW))
        return redirect("bulk:bulk")
    if do not in (*ASKS, "cancel", "discard"):
        fault = "do: expected pause, resume, cancel or discard"
        return run_page(request, known, fault, 422)
    if _asked(known, do, user_of(request)):
        before = known.sender_name
        known.refresh_from_db()
        action = "bulk.started" if do == "resume" else "bulk.stopped"
        taken = before if known.sender_name != before else None
        note_run(Actor.of(request), known, action, do, taken_over_from=taken)
        wake(carry_on)
    return redirect("bulk:run", known.pk)


def _asked(known: Run, do: str, user: User) -> bool:
    """Request this of the run, if it can be requested now. Returns whether it could."""
    open_ones = Run.objects.filter(pk=known.pk, ended_at=None)
    by: dict[str, Any] = {"changed_by": user.get_username()}
    if do == "cancel":
        running = open_ones.filter(status__in=(RUNNING, PAUSED, STOPPED))
        return bool(running.update(status=CANCELLED, trouble="", **by))
    if do not in ASKS:
        return False
    before, after = ASKS[do]
    if do == "resume":
        by |= {"trouble": "", **sent_as(known, user, now_ms())}
    # What is asked for is about the run as it was seen: nobody takes over what somebody else has.
    same = open_ones.filter(status__in=before, sender=known.sender_id)
    return bool(same.update(status=after, **by))


@require_safe
@never_cache
@role_required("read")
def outcomes(request: HttpRequest, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - as in the URL
    """Return what became of each asset, as CSV."""
    known = _known(id)
    progress = progress_of(known)
    oldest_first = Order("number", down=False)
    name = f"bulk-{str(known.pk)[:8]}"
    file = TableFile(name, FIELDS, partial(_plain, progress), order=oldest_first)
    return file.response(request, "csv", known.items.all())


def _plain(progress: RunProgress, item: Item) -> dict[str, Any]:
    version = str(Version.parse(item.answered_version)) if item.answered_version else ""
    where = (item.partition, item.offset, version, item.answered_at)
    cells = (item.asset, item.was, progress.word(item.fate), item.text, item.command, *where)
    return dict(zip(FIELDS, cells, strict=True))


def _known(id: uuid.UUID) -> Run:  # noqa: A002 - as in the URL
    return get_object_or_404(Run, pk=id)


def _address(request: HttpRequest, known: Run) -> str:
    """Return the address from which the page renews itself: also a page that answered a form."""
    return (
        request.get_full_path() if request.method == "GET" else reverse("bulk:run", args=[known.pk])
    )


def run_page(request: HttpRequest, known: Run, fault: str = "", status: int = 200) -> HttpResponse:
    """Return the page of a run, or its part that renews itself. fault: why a form of it was
    refused."""
    progress = progress_of(known)
    show = request.GET.get("show", "")
    show = show if show in FATES or show == PINNED else ""
    name = request.user.get_username()
    items = Paginator(_shown(known, show, name), PAGE).get_page(request.GET.get("page"))
    context: dict[str, Any] = {
        "told": progress,
        "run": known,
        "scenario": progress.scenario,
        "show": show,
        "table": PURGED_ITEMS if known.kind == "purge" else ITEMS,
        "items": items,
        "pager": Pager.numbered(items, f"?show={show}&page={{}}".format),
        "skipped": reasons(known, SKIPPED),
        "refused": reasons(known, REFUSED),
        "moved_on": moved_on_meanwhile(known).count() if progress.is_over else 0,
        "fault": fault,
        "ask_above": ASK_ABOVE,
        "mine": known.sender_id == request.user.pk,
        "viewer": name,
        "may_command": may(request.user, "command"),
        "address": _address(request, known),
        "now": now_ms(),
    }
    context["choices"] = _choices(progress, show)
    if known.status == REVIEW:
        context["moved"] = moved_on(known) if known.unchanged else 0
        context["back"] = back(known) if known.kind == "purge" else None
        context["hiding"] = hiding(known, progress.scenario)
        colleagues_pins = pins.pins(known, name)
        context |= {"pins": colleagues_pins, "without": progress.ready - colleagues_pins.n}
        if colleagues_pins.n:
            title = f"Pinned by a colleague {colleagues_pins.n:,}"
            context["choices"].append(Choice(title, f"?show={PINNED}", show == PINNED))
    return render_page(request, "bulk/run", context, status=status)


def _choices(progress: RunProgress, show: str) -> list[Choice]:
    lines = [("", "All", progress.run.matched), *progress.lines]
    return [
        Choice(f"{word} {n:,}", f"?show={fate}" if fate else "?", fate == show)
        for fate, word, n in lines
    ]


def _shown(known: Run, show: str, name: str) -> QuerySet[Item]:
    """Return the assets that the page shows: those of a fate, or pinned by others than this
    user."""
    items = known.items.order_by("number")
    if show == PINNED:
        return items.exclude(pinned_by="").exclude(pinned_by=name)
    return items.filter(fate=show) if show else items
