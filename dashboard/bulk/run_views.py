"""The page of one run: its review, its progress, what became of each asset; and its file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.accounts.access import form_of, is_fragment, role_required
from dashboard.accounts.roles import may
from dashboard.audit.trail import Actor
from dashboard.audit.trail import note as audit
from dashboard.bulk import retention
from dashboard.bulk.models import (
    CANCELLED,
    FATES,
    PAUSED,
    REFUSED,
    REVIEW,
    RUNNING,
    SKIPPED,
    Item,
    Run,
)
from dashboard.bulk.reviewing import back, moved_on
from dashboard.bulk.tasks import carry_on
from dashboard.bulk.telling import Told, reasons, tell
from dashboard.commands.sending import now_ms
from dashboard.exporting import attachment, written
from dashboard.waking import wake
from domain.version import Version

PAGE = 100
"""Assets of one page."""
ASK_ABOVE = 1_000
"""For more assets their number must be typed."""
PORTION = 1_000
"""Assets written to a file at a time."""
ASKS = {"pause": (RUNNING, PAUSED), "resume": (PAUSED, RUNNING)}
"""What is asked of a run: of which status it must be, and which it has then."""
FIELDS = (
    "asset", "was", "fate", "why", "command", "partition", "offset", "version", "answered_at",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read")
def run(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """A run; to a script, the part of the page that renews itself."""
    return _page(request, _known(id))


@form_of("bulk:run", "id")
@role_required("command")
def start(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Have the worker carry out what was reviewed. A run is started once."""
    known = _known(id)
    told = tell(known)
    typed = "".join(request.POST.get("confirm", "").split()).replace(",", "")[:20]
    if known.status == REVIEW and told.will > ASK_ABOVE and typed != str(told.will):
        fault = f"confirm: expected {told.will}, the number of assets"
        return _page(request, known, fault, 422)
    if not told.will or not known.matched:
        return _page(request, known, "Nothing of this would change.", 422)
    now, user = now_ms(), request.user.get_username()
    reviewed = Run.objects.filter(pk=known.pk, status=REVIEW)
    if reviewed.update(status=RUNNING, started_at=now, changed_by=user):
        _audit(request, known, "bulk.started", "started", told)
        wake(carry_on)
    return redirect("bulk:run", known.pk)


@form_of("bulk:run", "id")
@role_required("command")
def ask(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Pause a run, go on with it, cancel it; or throw a review away."""
    known, do = _known(id), request.POST.get("do", "")
    if do == "discard" and known.status == REVIEW:
        retention.delete(Run.objects.filter(pk=known.pk, status=REVIEW))
        return redirect("bulk:bulk")
    if do not in (*ASKS, "cancel", "discard"):
        fault = "do: expected pause, resume, cancel or discard"
        return _page(request, known, fault, 422)
    if _asked(known, do, request.user.get_username()):
        action = "bulk.started" if do == "resume" else "bulk.stopped"
        _audit(request, known, action, do, tell(known))
        wake(carry_on)
    return redirect("bulk:run", known.pk)


def _asked(known: Run, do: str, user: str) -> bool:
    """Whether the run was one of which this can be asked; it is so now."""
    open_ones = Run.objects.filter(pk=known.pk, ended_at=None)
    if do == "cancel":
        running = open_ones.filter(status__in=(RUNNING, PAUSED))
        return bool(running.update(status=CANCELLED, changed_by=user))
    if do not in ASKS:
        return False
    before, after = ASKS[do]
    return bool(open_ones.filter(status=before).update(status=after, changed_by=user, trouble=""))


def _audit(request: HttpRequest, known: Run, action: str, outcome: str, told: Told) -> None:
    audit(
        Actor.of(request),
        action,
        scenario=known.scenario,
        target=str(known.pk),
        outcome=outcome,
        kind=known.kind,
        state=known.state or None,
        reason=known.reason,
        chosen=known.chosen,
        assets=told.will,
        counts=dict(told.counts),
    )


@require_safe
@never_cache
@role_required("read")
def outcomes(request: HttpRequest, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - as in the URL
    """What became of each asset, as CSV."""
    known = _known(id)
    lines = written("csv", FIELDS, _portions(tell(known)))
    return attachment(request, lines, f"bulk-{str(known.pk)[:8]}", "csv")


def _portions(told: Told) -> Iterator[list[dict[str, Any]]]:
    items, last = told.run.items.order_by("number"), -1
    while portion := list(items.filter(number__gt=last)[:PORTION]):
        yield [_plain(told, item) for item in portion]
        last = portion[-1].number


def _plain(told: Told, item: Item) -> dict[str, Any]:
    version = str(Version.parse(item.answered_version)) if item.answered_version else ""
    where = (item.partition, item.offset, version, item.answered_at)
    cells = (item.asset, item.was, told.word(item.fate), item.text, item.command, *where)
    return dict(zip(FIELDS, cells, strict=True))


def _known(id: uuid.UUID) -> Run:  # noqa: A002 - as in the URL
    return get_object_or_404(Run, pk=id)


def _address(request: HttpRequest, known: Run) -> str:
    """Where the page renews itself from: also one that a form was answered with."""
    return (
        request.get_full_path() if request.method == "GET" else reverse("bulk:run", args=[known.pk])
    )


def _page(request: HttpRequest, known: Run, fault: str = "", status: int = 200) -> HttpResponse:
    told = tell(known)
    show = request.GET.get("show", "")
    show = show if show in FATES else ""
    items = known.items.order_by("number")
    shown = Paginator(items.filter(fate=show) if show else items, PAGE)
    context: dict[str, Any] = {
        "told": told,
        "run": known,
        "scenario": told.scenario,
        "show": show,
        "page": shown.get_page(request.GET.get("page")),
        "skipped": reasons(known, SKIPPED),
        "refused": reasons(known, REFUSED),
        "fault": fault,
        "ask_above": ASK_ABOVE,
        "may_command": may(request.user, "command"),
        "address": _address(request, known),
        "now": now_ms(),
    }
    if known.status == REVIEW:
        context["moved"] = moved_on(known) if known.unchanged else 0
        context["back"] = back(known) if known.kind == "purge" else None
    name = "_run" if is_fragment(request) else "run"
    return render(request, f"bulk/{name}.html", context, status=status)
