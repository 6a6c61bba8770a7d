"""The pages of rules: their list, one of them, and the form that writes and previews one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.forms import BaseFormSet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.navigation import OPERATORS
from dashboard.core.rate_limits import TooMany
from dashboard.core.tables import Column, Table
from dashboard.core.times import DAY_MS, now_ms
from dashboard.notifications import rule_changes, trials
from dashboard.notifications.models import Message, Rule
from dashboard.notifications.preview import preview
from dashboard.notifications.rule_changes import ChangedMeanwhile, checked, in_use
from dashboard.notifications.rule_forms import RuleForm, StageForm, plain_stages, stage_forms
from dashboard.notifications.rule_words import described, target_names, whom
from domain.notifications.rule import Rule as Definition
from domain.notifications.rule_parser import RuleError, rule_from_plain

PREVIEWED_MS = 7 * DAY_MS
"""How much of the history a preview takes."""
RULES = Table(
    "notification-rules", "Rule", "Status", "Tells", Column.time("Last message"),
    Column.number("Messages in 7 days"),
)  # fmt: skip
PREVIEW = Table("", "When", "Message", Column("Tells of", numeric=True), "Whom", Column("Outcome"))
MOST_PREVIEWED = 500
"""Most messages that a preview lists, the newest."""


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def rules(request: HttpRequest) -> HttpResponse:
    """Return the page of rules."""
    now, names = now_ms(), target_names()
    rows = [_listed(row, now, names) for row in in_use()]
    context = {"now": now, "rows": rows, "table": RULES}
    return render(request, "notifications/rules.html", context)


def _listed(row: Rule, now: int, names: dict[tuple[str, int], str]) -> dict[str, Any]:
    sent = Message.objects.filter(rule=row)
    newest = sent.order_by("-created_at").values_list("created_at", flat=True).first()
    stages = rule_from_plain(row.definition).stages
    return {
        "row": row,
        "whom": whom(names, stages[0].channels, stages[0].rotas),
        "newest": newest,
        "count": sent.filter(created_at__gt=now - PREVIEWED_MS).count(),
    }


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def rule(request: HttpRequest, number: int) -> HttpResponse:
    """Return the page of one rule."""
    row, now = _rule(number), now_ms()
    definition = rule_from_plain(row.definition)
    context = {
        "now": now,
        "row": row,
        "facts": described(definition),
        "groups": row.groups.filter(closed_at=None).order_by("-pk")[:50],
    }
    return render(request, "notifications/rule.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("command")
def new_rule(request: HttpRequest) -> HttpResponse:
    """Return the form of a new rule; store it, or show what it would have sent."""
    return _edited(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("command")
def edit_rule(request: HttpRequest, number: int) -> HttpResponse:
    """Return the form of a rule; store it, or show what it would have sent."""
    return _edited(request, _rule(number))


def _edited(request: HttpRequest, row: Rule | None) -> HttpResponse:
    data = request.POST if request.method == "POST" else None
    form, stages = RuleForm(data, row), stage_forms(data, row)
    definition = _definition(form, stages) if data is not None else None
    if definition is None:
        return _form_page(request, form, stages, row, 200 if data is None else 422)
    if "preview" in request.POST:
        return _previewed(request, form, stages, row, definition)
    stored = _store(request, form, row, definition)
    if stored is None:
        return _form_page(request, form, stages, row, 422)
    messages.success(request, f"The rule {stored.name} is stored.")
    return redirect("notifications:rule", stored.pk)


def _definition(form: RuleForm, stages: BaseFormSet[StageForm]) -> Definition | None:
    """Return the rule of the forms; None where something is wrong, which they show."""
    if not form.is_valid() or not stages.is_valid():
        return None
    try:
        return checked(form.plain(plain_stages(stages)))
    except RuleError as error:
        form.refuse(error)
        return None


def _store(
    request: HttpRequest, form: RuleForm, row: Rule | None, definition: Definition
) -> Rule | None:
    """Store a rule. Returns None where that cannot be, which the form says."""
    data, user, now = form.cleaned_data, user_of(request), now_ms()
    try:
        if row is None:
            stored = rule_changes.create(user, data["name"], definition, data["enabled"], now)
        else:
            stored = row
            rule_changes.change(
                row, data["name"], definition, data["enabled"], now, data["revision"]
            )
    except RuleError as error:
        form.refuse(error)
        return None
    except ChangedMeanwhile:
        form.add_error(None, "Somebody has changed the rule meanwhile: load the page again.")
        return None
    action = "notify.rule.changed" if row else "notify.rule.created"
    note(Actor.of(request), action, target=stored.name, definition=stored.definition)
    return stored


def _previewed(
    request: HttpRequest,
    form: RuleForm,
    stages: BaseFormSet[StageForm],
    row: Rule | None,
    definition: Definition,
) -> HttpResponse:
    now = now_ms()
    shown = preview(definition, now - PREVIEWED_MS, now)
    rows = sorted((*shown.messages, *shown.held), key=lambda each: -each.at)[:MOST_PREVIEWED]
    more = {"preview": shown, "preview_rows": rows, "preview_table": PREVIEW}
    return _form_page(request, form, stages, row, 200, **more)


def _form_page(
    request: HttpRequest,
    form: RuleForm,
    stages: BaseFormSet[StageForm],
    row: Rule | None,
    status: int,
    **more: Any,
) -> HttpResponse:
    context = {"form": form, "stages": stages, "row": row, "now": now_ms(), **more}
    return render(request, "notifications/rule_form.html", context, status=status)


@never_cache
@form_of("notifications:rule", "number")
@role_required("command")
def act_on_rule(request: HttpRequest, number: int) -> HttpResponse:
    """Enable, disable, retire or try a rule."""
    row, do = _rule(number), request.POST.get("do", "")
    try:
        words = _act(request, row, do)
    except ChangedMeanwhile:
        messages.error(request, "Somebody has changed the rule meanwhile.")
        return redirect("notifications:rules")
    except TooMany as why:
        messages.error(request, str(why))
        return redirect("notifications:rule", number)
    messages.success(request, words)
    return redirect("notifications:rules" if do == "retire" else "notifications:rule", *_args(row))


def _args(row: Rule) -> list[int]:
    return [] if row.retired_at else [row.pk]


def _act(request: HttpRequest, row: Rule, do: str) -> str:
    """Do it, and return what was done. Raises ChangedMeanwhile, TooMany."""
    user, now = user_of(request), now_ms()
    if do == "test":
        trials.LIMIT.take(user.pk, now)
        sent = trials.send_by_rule(row, user.get_username(), now)
        note(Actor.of(request), "notify.tested", target=row.name, messages=len(sent))
        return _sent_words(len(sent))
    if do == "retire":
        rule_changes.retire(row, now)
    else:
        rule_changes.switch(row, do == "enable", now)
    done = {"retire": "retired", "enable": "enabled"}.get(do, "disabled")
    note(Actor.of(request), f"notify.rule.{done}", target=row.name)
    return f"The rule {row.name} is {done}."


def _sent_words(count: int) -> str:
    if not count:
        return "Nobody is reached: no address, and nobody on call."
    return f"{count} test message{'' if count == 1 else 's'} on the way."


def _rule(number: int) -> Rule:
    """Return a rule in use. Raises Http404."""
    return get_object_or_404(Rule, retired_at=None, pk=number)
