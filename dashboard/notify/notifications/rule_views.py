"""The pages of rules, and the preview of what a rule would have sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from django.contrib import messages
from django.db.models import Q
from django.forms import BaseFormSet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import cached_property
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import TooMany, form_of, role_required, user_of
from dashboard.core.common.forms import FormPage
from dashboard.core.common.navigation import OPERATORS
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.states.models import CHANGE, Transition
from dashboard.core.states.queries import listed
from dashboard.notify.notifications import channel_views, rule_forms, texts
from dashboard.notify.notifications.decisions import Assets, Holds, agent_event, traits_of
from dashboard.notify.notifications.ingestion import AGENT_KIND_OF
from dashboard.notify.notifications.ingestion import agent_event as stored_event
from dashboard.notify.notifications.models import ChangedMeanwhile, Channel, Message, Rota
from dashboard.notify.notifications.models import Rule as RuleRow
from dashboard.notify.notifications.on_call import waits_for
from dashboard.notify.notifications.rule_forms import (
    RuleForm,
    StageForm,
    checked,
    plain_stages,
    stage_forms,
)
from dashboard.notify.notifications.texts import described, target_names, whom
from dashboard.watch.agents.models import AgentFinding
from dashboard.watch.annotations.models import Acknowledgement
from dashboard.watch.incidents.models import Incident
from domain.notifications.events import BEGUN, CHANGED, ENDED, MARKED, Ack, Event
from domain.notifications.group import SUMMARY
from domain.notifications.machine import Hold, Send, Summary, World
from domain.notifications.rehearsal import Played, Rehearsal
from domain.notifications.rule import Rule as Definition
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.rule_parser import RuleError

# ---- preview -------------------------------------------------------------------------------------
# The preview of what a rule would have sent: a rehearsal with past incidents and findings about
# agents, by the same machine.

MOST_INCIDENTS = 5_000
"""Most incidents, and most findings about agents, in a rehearsal, the newest ones."""


class Previewed(NamedTuple):
    """A message that a rule would have sent or held back at a time, Unix ms.

    stage: the first that it would have gone to, from 0; targets: the names of the channels and
    rotas of its stages; incidents: how many it is about; reason: why it was held back, empty if it
    was sent.
    """

    at: int
    kind: str
    subject: str
    text: str
    stage: int
    targets: list[str]
    incidents: int
    reason: str = ""


class Preview(NamedTuple):
    """The messages that a rule would have sent, and those that it would have held back, in order.

    incidents, findings: how many incidents, and findings about agents, there were to consider;
    is_cut: whether there were more than were considered.
    """

    messages: list[Previewed]
    held: list[Previewed]
    incidents: int
    is_cut: bool
    findings: int = 0


def preview(rule: RuleValue, since: int, until: int) -> Preview:
    """Return what a rule would have sent between two times (Unix ms).

    It is based on the incidents and findings of that time, with the assets' labels, and what agents
    add, of now.
    """
    rows, more = _incidents(rule, since, until)
    findings = _findings(rule, since, until)
    labels = _labels(rows)
    matching = [
        row for row in rows if rule.matches_labels(labels.get((row.scenario, row.asset), {}))
    ]
    events = [*_events(matching, labels, since, until), *_agent_events(findings, until)]
    events.sort(key=lambda event: event.at)
    assets: Assets = {}
    for row in matching:
        assets.setdefault(row.scenario, set()).add(row.asset)
    begin = min((row.began_at for row in matching), default=since)
    world = World(scenarios(), Holds(assets, begin, until + 1).why)
    rehearsal = Rehearsal(rule, world)
    played = [each for each in rehearsal.play(events, until) if each.at >= since]
    names = _Names(rule)
    messages = [names.sent(each) for each in played if isinstance(each.action, Send | Summary)]
    held = [
        names.held(each.at, each.action)
        for each in played
        if isinstance(each.action, Hold) and not each.action.renewed
    ]
    is_cut = more or len(findings) == MOST_INCIDENTS or rehearsal.is_cut
    return Preview(messages, held, len(rows), is_cut, len(findings))


def _incidents(rule: RuleValue, since: int, until: int) -> tuple[list[Incident], bool]:
    """Return the newest incidents that began between two times, and whether there are more."""
    if not rule.incidents:
        return [], False
    rows = Incident.objects.shown().filter(began_at__gte=since, began_at__lt=until)
    if rule.scenarios:
        rows = rows.filter(scenario__in=rule.scenarios)
    newest = list(rows.order_by("-began_at", "-pk")[: MOST_INCIDENTS + 1])
    return newest[:MOST_INCIDENTS], len(newest) > MOST_INCIDENTS


def _findings(rule: RuleValue, since: int, until: int) -> list[AgentFinding]:
    """Return the newest findings made between two times that a rule reports."""
    kinds = [kind for kind, name in AGENT_KIND_OF.items() if name in rule.agents]
    names = rule.scenarios or tuple(scenarios())
    rows = AgentFinding.objects.filter(found_at__gte=since, found_at__lt=until, kind__in=kinds)
    known = [name for name in names if name in scenarios()]
    return list(rows.filter(scenario__in=known).order_by("-found_at", "-pk")[:MOST_INCIDENTS])


def _agent_events(rows: Iterable[AgentFinding], until: int) -> Iterator[Event]:
    """Yield the begin and end events of findings, in no particular order."""
    for row in rows:
        yield agent_event(stored_event(row, BEGUN, row.found_at, row.found_at))
        if row.ended_at is not None and row.ended_at <= until:
            yield agent_event(stored_event(row, ENDED, row.ended_at, row.ended_at))


def _by_scenario(rows: Iterable[Incident]) -> dict[str, list[Incident]]:
    by_scenario: dict[str, list[Incident]] = {}
    for row in rows:
        by_scenario.setdefault(row.scenario, []).append(row)
    return by_scenario


Labels = dict[tuple[str, str], dict[str, str]]


def _labels(rows: Iterable[Incident]) -> Labels:
    return {
        (scenario, asset): labels
        for scenario, incidents in _by_scenario(rows).items()
        for asset, labels in traits_of(scenario, {row.asset for row in incidents}).items()
    }


def _events(rows: list[Incident], labels: Labels, since: int, until: int) -> Iterator[Event]:
    """Yield the events of incidents, in no particular order."""
    for scenario, incidents in _by_scenario(rows).items():
        for chunk in chunks(incidents, STATEMENT):
            yield from _changes(scenario, chunk, labels, until)
            yield from _marks(scenario, {row.asset for row in chunk}, since, until)


def _changes(scenario: str, rows: list[Incident], labels: Labels, until: int) -> Iterator[Event]:
    moves = _transitions(scenario, rows)
    for row in rows:
        own = labels.get((row.scenario, row.asset), {})
        during = [
            move
            for move in moves.get(row.asset, ())
            if move.place >= row.place and (row.ended_at is None or move.at < row.ended_at)
        ]
        # The history may be deleted before the incident is: then its worst state stands for all.
        began = during[0].state if during and during[0].place == row.place else row.worst
        first = Event(BEGUN, row.scenario, row.asset, row.began_at, row.place, began, own)
        yield first
        for move in during:
            if move.place > row.place and move.at <= until:
                yield Event(CHANGED, row.scenario, row.asset, move.at, row.place, move.state, own)
        if row.ended_at is not None and row.ended_at <= until:
            yield Event(ENDED, row.scenario, row.asset, row.ended_at, row.place)


def _transitions(scenario: str, rows: list[Incident]) -> dict[str, list[Transition]]:
    """Return the changes to states that are not good since the first of these incidents, in order,
    by asset."""
    first = min(row.place for row in rows)
    transitions = Transition.objects.filter(
        scenario=scenario,
        asset__in=listed(sorted({row.asset for row in rows})),
        kind=CHANGE,
        at__gte=min(row.began_at for row in rows),
    ).exclude(Q(state="") | Q(state__in=scenarios()[scenario].good_states))
    moves: dict[str, list[Transition]] = {}
    for move in transitions.filter(place__gte=first).order_by("place"):
        moves.setdefault(move.asset, []).append(move)
    return moves


def _marks(scenario: str, assets: set[str], since: int, until: int) -> Iterator[Event]:
    acks = Acknowledgement.objects.filter(
        scenario=scenario, asset__in=listed(sorted(assets)), at__gte=since, at__lte=until
    )
    for ack in acks:
        given = Ack(ack.until, ack.severity)
        yield Event(MARKED, scenario, ack.asset, ack.at, ack=given)
        if ack.ended_at is not None and ack.ended_why == "taken back" and ack.ended_at <= until:
            yield Event(MARKED, scenario, ack.asset, ack.ended_at)


class _Names:
    """Converts the messages of a rehearsal to words, with the names of their recipients."""

    def __init__(self, rule: RuleValue) -> None:
        self.rule = rule
        self._channels = {row.pk: row.name for row in Channel.objects.all()}
        self._rotas = {row.pk: row.name for row in Rota.objects.all()}

    def sent(self, played: Played) -> Previewed:
        """Return a message that would have been sent."""
        action = played.action
        assert isinstance(action, Send | Summary)
        parts = action.parts if isinstance(action, Summary) else (action,)
        stages = sorted({stage for part in parts for stage in part.stages})
        incidents = sum(len(part.members) for part in parts)
        if isinstance(action, Summary):
            kind, subject = SUMMARY, texts.summary_subject(action)
            text = "\n".join(texts.subject(part) for part in parts)
        else:
            kind, subject = action.kind, texts.subject(action)
            text = texts.as_text(texts.worst_first(action), "", "")
        return Previewed(
            played.at, kind, subject, text, stages[0], self._targets(stages), incidents
        )

    def held(self, at: int, hold: Hold) -> Previewed:
        """Return a message that would have been held back."""
        send = texts.worst_first(Send(hold.key, hold.opened_at, hold.kind, (0,), hold.members))
        subject, text = texts.subject(send), texts.as_text(send, "", "")
        to, reason = self._targets([0]), waits_for(hold.reason, hold.until)
        return Previewed(at, hold.kind, subject, text, 0, to, len(hold.members), reason)

    def _targets(self, stages: Iterable[int]) -> list[str]:
        """Return the names of the channels and rotas of these stages, each once."""
        names: dict[str, None] = {}
        for number in stages:
            stage = self.rule.stages[number]
            names |= dict.fromkeys(self._channels.get(pk, f"channel {pk}") for pk in stage.channels)
            names |= dict.fromkeys(self._rotas.get(pk, f"rota {pk}") for pk in stage.rotas)
        return list(names)


# ---- rule views ----------------------------------------------------------------------------------
# The pages of rules: the list, a single rule, and the form that stores or previews one.

PREVIEWED_MS = 7 * DAY_MS
"""How much of the history a preview covers."""
RULES = Table(
    "notification-rules", "Rule", "Status", "Notifies", Column.time("Last message"),
    Column.number("Messages in 7 days"),
)  # fmt: skip
PREVIEW = Table("", "When", "Message", Column("Covers", numeric=True), "To", Column("Outcome"))
ACTS = ("test", "enable", "disable", "retire")
MOST_PREVIEWED, FIRST_PREVIEWED = 500, 10
"""Most messages in a preview, the newest, and how many of them are open at first."""


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def rules(request: HttpRequest) -> HttpResponse:
    """Show the list of rules."""
    now, names = now_ms(), target_names()
    rows = [_listed(row, now, names) for row in RuleRow.objects.in_use()]
    context = {"now": now, "rows": rows, "table": RULES}
    return render(request, "notifications/rules.html", context)


def _listed(row: RuleRow, now: int, names: dict[tuple[str, int], str]) -> dict[str, Any]:
    sent = Message.objects.filter(rule=row)
    newest = sent.order_by("-created_at").values_list("created_at", flat=True).first()
    stages = row.parsed().stages
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
    """Show one rule."""
    row, now = _rule(number), now_ms()
    definition = row.parsed()
    context = {
        "now": now,
        "row": row,
        "facts": described(definition),
        "groups": row.groups.open().order_by("-pk")[:50],
    }
    return render(request, "notifications/rule.html", context)


class RuleFormPage(FormPage):
    """The form for a rule, new or in use, which stores it or previews what it would have sent."""

    queryset = RuleRow.objects.in_use()
    template_name = "notifications/rule_form.html"
    permission = "command"
    form_class = RuleForm
    form_takes = ("row",)

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Add the forms of the stages."""
        return super().get_context_data(stages=self.stages, **context)

    @cached_property
    def stages(self) -> BaseFormSet[StageForm]:
        """The forms of the stages."""
        return stage_forms(self.get_form_kwargs()["data"], self.row)

    def post(self, request: HttpRequest, *_args: Any, **_kwargs: Any) -> HttpResponse:
        """Store the rule or show its preview; show the form again (422) if it is invalid."""
        form = self.get_form()
        try:
            if form.is_valid() and self.stages.is_valid():
                definition = checked(form.plain(plain_stages(self.stages)))
                if "preview" in request.POST:
                    return self.previewed(form, definition)
                return self.stored(form, definition)
        except RuleError as error:
            form.refuse(error)
        except ChangedMeanwhile:
            form.add_error(None, "Somebody has changed the rule meanwhile: load the page again.")
        return self.form_invalid(form)

    def previewed(self, form: RuleForm, definition: Definition) -> HttpResponse:
        """Show the page with what the rule would have sent."""
        shown = preview(definition, self.now - PREVIEWED_MS, self.now)
        rows = sorted((*shown.messages, *shown.held), key=lambda each: -each.at)[:MOST_PREVIEWED]
        context = {
            "preview": shown,
            "preview_rows": rows[:FIRST_PREVIEWED],
            "more_rows": rows[FIRST_PREVIEWED:],
            "preview_table": PREVIEW,
        }
        return self.render_to_response(self.get_context_data(form=form, **context))

    def stored(self, form: RuleForm, definition: Definition) -> HttpResponse:
        """Store the rule. Raises RuleError and ChangedMeanwhile."""
        data, row, now = form.cleaned_data, self.row, self.now
        if row is None:
            row = rule_forms.create_rule(
                user_of(self.request), data["name"], definition, data["enabled"], now
            )
        else:
            rule_forms.change_rule(
                row, data["name"], definition, data["enabled"], now, data["revision"]
            )
        action = "notify.rule.changed" if self.row else "notify.rule.created"
        record(Actor.of(self.request), action, target=row.name, definition=row.definition)
        return self.done(f"The rule {row.name} is saved.", "notifications:rule", row.pk)


@never_cache
@form_of("notifications:rule", "number")
@role_required("command")
def act_on_rule(request: HttpRequest, number: int) -> HttpResponse:
    """Enable, disable, retire or test a rule."""
    row, do = _rule(number), request.POST.get("do", "")
    if do not in ACTS:
        messages.error(request, f"Nothing was done. do: expected {', '.join(ACTS)}.")
        return redirect("notifications:rule", number)
    try:
        words = _act(request, row, do)
    except ChangedMeanwhile:
        messages.error(
            request,
            "Somebody has changed the rule meanwhile. Nothing was done: look at it, and try again.",
        )
        return redirect("notifications:rules")
    except TooMany as why:
        messages.error(request, str(why))
        return redirect("notifications:rule", number)
    messages.success(request, words)
    return redirect("notifications:rules" if do == "retire" else "notifications:rule", *_args(row))


def _args(row: RuleRow) -> list[int]:
    return [] if row.retired_at else [row.pk]


def _act(request: HttpRequest, row: RuleRow, do: str) -> str:
    """Carry out the action, and return what was done. Raises ChangedMeanwhile, TooMany."""
    user, now = user_of(request), now_ms()
    if do == "test":
        channel_views.TEST_LIMIT.take(user.pk, now)
        sent = channel_views.send_test_by_rule(row, user.get_username(), now)
        record(Actor.of(request), "notify.tested", target=row.name, messages=len(sent))
        return _sent_words(len(sent))
    if do == "retire":
        row.retire(now)
    else:
        row.switch(do == "enable", now)
    done = f"{do.removesuffix('e')}ed"
    record(Actor.of(request), f"notify.rule.{done}", target=row.name)
    return f"The rule {row.name} is {done}."


def _sent_words(count: int) -> str:
    if not count:
        return "The test reaches nobody: nobody is on call, or has an address."
    return f"{count} test message{'' if count == 1 else 's'} on the way."


def _rule(number: int) -> RuleRow:
    """Return a rule in use. Raises Http404."""
    return get_object_or_404(RuleRow.objects.in_use(), pk=number)
