"""The handover: its page, the page as text, and the marks of a shift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.assets.overrides import PinnedAsset
from dashboard.board.handover.summary import (
    INCIDENTS,
    MOVES,
    PINS,
    About,
    ChangedAsset,
    Doubted,
    Situation,
    UnhealthyAsset,
    situation,
)
from dashboard.core.audit.log import Actor
from dashboard.core.audit.log import record as audit
from dashboard.core.common.access import (
    OPERATORS,
    Limit,
    TooMany,
    form_of,
    is_fragment,
    may,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.exports import faults_of, unprocessable
from dashboard.core.common.forms import FilterForm, scenario_choices, typed_end
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import escaped, plain
from dashboard.core.common.times import DAY_MS, HOUR_MS, duration, now_ms, utc_minute
from dashboard.core.job.status import problems
from dashboard.core.states.caveats import sentence
from dashboard.operate.requests.replays import ReplayProgress
from dashboard.operate.scenarios.proposal import RuleChangeRow
from dashboard.watch.agents.models import AgentFinding, MuteRequest
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.acknowledgements import Since
from dashboard.watch.annotations.forms import HandoverForm
from dashboard.watch.annotations.models import SHIFT_MS, Acknowledgement, Handover, Note, Shift
from dashboard.watch.bulk.models import Run
from dashboard.watch.commands.models import Command, ScheduledTask
from dashboard.watch.incidents.models import Case, Window
from domain.records import Mute
from domain.scenario import Scenario

OLDEST_MS = 30 * DAY_MS
"""Furthest back that changes are shown."""
HOURS = (1, 4, 8, 12, 24, 72)
FEW = 10
"""A list of more changed assets than this is folded, to keep what follows close."""
LIMIT = Limit("handovers", 30)


class SinceForm(FilterForm):
    """The form for a time to look back to, and for a scenario."""

    collapses = True
    PLACES = ("at", "zone")

    scenario = forms.ChoiceField(required=False)
    hours = forms.ChoiceField(required=False, label="Changes in")
    at = forms.IntegerField(required=False, min_value=0, widget=forms.HiddenInput)
    since = forms.CharField(
        required=False,
        max_length=40,
        label="or since",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
    )
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, data: Any, now: int) -> None:
        super().__init__(data, auto_id="since_%s")
        self.now = now
        hours = [(str(n), f"the last {n} hours" if n > 1 else "the last hour") for n in HOURS]
        self.offer("scenario", [("", "All scenarios"), *scenario_choices()])
        self.offer("hours", [("", "my last shift"), *hours])

    def clean_since(self) -> int | None:
        """Return the typed time, Unix ms. Raises ValidationError."""
        typed = self.cleaned_data["since"]
        if not typed:
            return None
        at = typed_end(typed, str(self.data.get("zone", ""))[:64], 0)
        if at > self.now:
            raise forms.ValidationError("This time is in the future; expected a past one.")
        if at < self.now - OLDEST_MS:
            raise forms.ValidationError("Expected a time in the last 30 days.")
        return at

    def chosen(self, user: User) -> Since:
        """Return the time to look back to: typed, chosen, or that of the user's last shift.

        The form must be valid.
        """
        data, oldest = self.cleaned_data, self.now - OLDEST_MS
        at = data["since"] or data["at"]
        if at is not None:
            return Since(min(max(at, oldest), self.now), "as chosen")
        if data["hours"]:
            return Since(self.now - int(data["hours"]) * HOUR_MS, "as chosen")
        last = acknowledgements.last_shift(user, self.now)
        return Since(max(last.at, oldest), last.why)


def _known(form: SinceForm) -> dict[str, Scenario]:
    name = form.cleaned_data["scenario"]
    return {name: scenarios()[name]} if name else dict(scenarios())


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes(*SinceForm.parameters())
def handover(request: HttpRequest) -> HttpResponse:
    """Return the page; scripts get only the part that refreshes."""
    if not is_fragment(request):
        acknowledgements.record_presence(user_of(request), now_ms())
    form = SinceForm(request.GET, now_ms())
    return _page(request, form, HandoverForm(), 200 if form.is_valid() else 422)


def _page(request: HttpRequest, form: SinceForm, text: HandoverForm, status: int) -> HttpResponse:
    user, now = user_of(request), form.now
    context: dict[str, Any] = {"now": now, "form": form, "text": text}
    if form.is_valid():
        since = form.chosen(user)
        known = _known(form)
        query = urlencode({"scenario": form.cleaned_data["scenario"], "at": since.at})
        context |= {
            "situation": situation(known, user.get_username(), since.at, now),
            "incident_table": INCIDENTS,
            "pin_table": PINS,
            "move_table": MOVES,
            "problems": problems(now),
            "since": since,
            "query": query,
            "address": f"{reverse('handover:handover')}?{query}",
        }
    context |= {
        "may_hand_over": may(user, "command"),
        "shift": Shift.objects.current(user, now),
        "shift_ms": SHIFT_MS,
        "few": FEW,
    }
    return render_page(request, "handover/handover", context, status=status)


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes(*SinceForm.parameters())
def as_text(request: HttpRequest) -> HttpResponse:
    """Return the page as Markdown."""
    form = SinceForm(request.GET, now_ms())
    if not form.is_valid():
        return unprocessable(faults_of(form))
    current = _situation(form, user_of(request))
    return HttpResponse(as_markdown(current), content_type="text/markdown; charset=utf-8")


def _situation(form: SinceForm, user: User) -> Situation:
    return situation(_known(form), user.get_username(), form.chosen(user).at, form.now)


# ---- the marks of a shift -------------------------------------------------------------------


@form_of("handover:handover")
@role_required("command")
def shift(request: HttpRequest, step: str) -> HttpResponseBase:
    """Begin a shift, end it, or store its text, and redirect to the page.

    step: `begin`, `end`, or `text`: what was written for the next shift, which `end` stores too.
    Raises Http404.
    """
    user, now = user_of(request), now_ms()
    if step not in ("begin", "end", "text"):
        raise Http404
    form = HandoverForm(request.POST)
    try:
        LIMIT.take(user.pk, now)
    except TooMany as error:
        form.is_valid()
        form.add_error(None, str(error))
        return _again(request, form, 429)
    if step == "begin":
        return _begin(request, user, now)
    written = bool(request.POST.get("text", "").strip())
    if (written or step == "text") and not form.is_valid():
        return _again(request, form, 422)
    if written:
        if Handover.objects.leave(user, form.cleaned_data["text"], now):
            audit(Actor.of(request), "handover.written", text=form.cleaned_data["text"])
        messages.success(request, "The text is saved for the next shift.")
    if step == "end":
        Shift.objects.end(user, now)
        audit(Actor.of(request), "shift.ended")
        messages.success(request, "Your shift has ended. The next handover begins here.")
    return redirect("handover:handover")


def _begin(request: HttpRequest, user: User, now: int) -> HttpResponseBase:
    Shift.objects.take_over(user, now)
    audit(Actor.of(request), "shift.began")
    messages.success(request, "Your shift has begun.")
    return redirect("handover:handover")


def _again(request: HttpRequest, form: HandoverForm, status: int) -> HttpResponseBase:
    return _page(request, SinceForm({}, now_ms()), form, status)


# ---- text ----------------------------------------------------------------------------------------
# The handover as Markdown that is also readable as plain text. Times are in UTC.


def as_markdown(situation: Situation) -> str:
    """Return the whole page; what people wrote is quoted, so that none of it becomes markup."""
    return "\n".join(_lines(situation)) + "\n"


def _lines(situation: Situation) -> Iterator[str]:
    yield f"# Handover, {utc_minute(situation.now)}"
    yield from ("", f"Changes since {utc_minute(situation.since)}.")
    yield from _section("Incidents by owner", [_case(each) for each in situation.cases])
    yield from _section("Open: incidents and disputes", [
        _incident(line, situation.now) for each in situation.incidents for line in each.listed
    ])  # fmt: skip
    more = situation.open - sum(len(each.listed) for each in situation.incidents)
    if more > 0:
        yield f"- and {more} more"
    yield from _section("In a good state, but in doubt", [_doubted(d) for d in situation.doubted])
    yield from _section("Overrides that end within an hour", [_pin(o) for o in situation.ending])
    yield from _section("Overrides without an end", [_pin(o) for o in situation.endless])
    yield from _section("Acknowledgements that end within an hour", _each(situation.acks))
    yield from _section("Agents to look at", [_finding(*each) for each in situation.findings])
    yield from _section("Muted agents", [_mute(mute) for _, mute in situation.mutes])
    yield from _section("Maintenance", [_window(each) for each in situation.windows])
    yield from _section("Tasks", [_task(*each) for each in situation.tasks])
    yield from _section("Bulk runs", [_run(*each) for each in situation.actions.runs])
    yield from _section("Mute requests", [_ask(*each) for each in situation.actions.mutes])
    yield from _section("Rule changes", [_rule(*each) for each in situation.actions.rules])
    yield from _section("Replays", [_replay(each) for each in situation.actions.replays])
    yield from _section("Changes", [
        _moved(line) for _, each in situation.moves for line in each.listed
    ])  # fmt: skip
    yield from _section("Commands given", _each(situation.commands))
    yield from _section("Notes", _each(situation.notes))
    if situation.texts:
        text = situation.texts[0]
        yield from (
            "",
            "## From the last shift",
            "",
            f"{plain(text.username)}, {utc_minute(text.at)}:",
            "",
        )
        yield from (f"> {plain(line)}" for line in text.text.splitlines())


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from (f"- {line}" for line in lines or ["none"])


def _each(entries: list[About]) -> list[str]:
    """Return a line for each entry."""
    return [_said(each) for each in entries]


def _case(case: Case) -> str:
    ticket = f", ticket {plain(case.ticket)}" if case.ticket else ""
    going_on = f"{case.facts.going_on} of {case.facts.assets} in trouble"
    return (
        f"{plain(case.owner) or 'nobody'}: **{case.number}** {plain(case.subject)}, {case.status}, "
        f"{going_on}, since {utc_minute(case.began_at)}{ticket}"
    )


def _incident(line: UnhealthyAsset, now: int) -> str:
    label = line.scenario.spec(line.state).label
    text = f"**{plain(line.asset)}**: {plain(label)} for {duration(now - line.since)}"
    if line.disputed is not None:
        text += (
            f", disputed: somebody says, or said, {plain(line.scenario.spec(line.disputed).label)}"
        )
    if line.doubted:
        text += f", in doubt: {escaped(sentence(line.doubted))}"
    if line.held and line.mark is not None and line.mark.ack is not None:
        ack = line.mark.ack
        why = f" ({plain(ack.reason)})" if ack.reason else ""
        text += f"; acknowledged by {plain(ack.by)} until {utc_minute(ack.until)}{why}"
    if line.note is not None:
        text += f"; note of {plain(line.note.username)}: {plain(line.note.text)}"
    return text


def _doubted(line: Doubted) -> str:
    label = line.scenario.spec(line.state).label
    return f"**{plain(line.asset)}**: {plain(label)}, in doubt: {escaped(sentence(line.doubted))}"


def _pin(pin: PinnedAsset) -> str:
    end = f"until {utc_minute(pin.until)}" if pin.until else "without end"
    label = plain(pin.scenario.spec(pin.state).label)
    return f"**{plain(pin.asset)}**: {label} {end}, by {plain(pin.user)} ({plain(pin.reason)})"


def _mute(mute: Mute) -> str:
    end = f"until {utc_minute(mute.until)}" if mute.until else "without end"
    why = f" ({plain(mute.reason)})" if mute.reason else ""
    return f"**{plain(mute.agent)}** {end}, by {plain(mute.user)}{why}"


def _finding(scenario: Scenario, row: AgentFinding) -> str:
    since = utc_minute(row.since)
    return f"**{plain(row.agent)}** ({plain(scenario.title)}): {plain(row.words)}, since {since}"


def _window(row: Window) -> str:
    why = f" ({plain(row.why)})" if row.why else ""
    times = f"{utc_minute(row.begin)} to {utc_minute(row.end)}, by {plain(row.username)}{why}"
    return f"**{plain(row.name)}**, {plain(row.scenario_title)}: {times}"


def _task(scenario: Scenario, row: ScheduledTask) -> str:
    to = f" {plain(scenario.spec(row.state).label)}" if row.state else ""
    when = f"set aside: {plain(row.aside)}" if row.aside else utc_minute(row.next_at or 0)
    why = f" ({plain(row.reason)})" if row.reason else ""
    return f"**{plain(row.asset)}**: {row.action}{to}, {when}, of {plain(row.owner)}{why}"


def _run(scenario: Scenario, run: Run) -> str:
    to = f" to {plain(scenario.spec(run.state).label)}" if run.state else ""
    by = plain(run.sender_name)
    by += f" (prepared by {plain(run.username)})" if run.sender_name != run.username else ""
    problem = f" ({plain(run.problem)})" if run.problem else ""
    return (
        f"**{run.kind}{to}** of {run.matched} in {plain(scenario.title)}, {plain(run.chosen)}, by "
        f"{by}, {utc_minute(run.started_at or 0)} ({plain(run.reason)}): {run.status_text}{problem}"
        f", {run.applied} applied, {run.refused} refused"
    )


def _ask(scenario: Scenario, ask: MuteRequest) -> str:
    end = ""
    if ask.kind == "mute":
        end = f" until {utc_minute(ask.until)}" if ask.until else " without end"
    why = f" ({plain(ask.reason)})" if ask.reason else ""
    what = "muted" if ask.kind == "mute" else "unmuted"
    who = f"by {plain(ask.username)}, {utc_minute(ask.created_at)}{why}"
    return f"**{plain(ask.agent)}** ({plain(scenario.title)}): {what}{end}, {who}"


def _rule(scenario: Scenario, change: RuleChangeRow) -> str:
    keys = ", ".join(each.title for each in change.moves) or "nothing"
    row = change.row
    who = f"by {plain(row.username)}, {utc_minute(row.asked_at)} ({plain(row.reason)})"
    return f"**{plain(scenario.title)}**: {keys}, {who}: {change.word}"


def _replay(replay: ReplayProgress) -> str:
    row = replay.row
    of = f"{plain(row.query)}{', ' + plain(row.scenario) if row.scenario else ''}"
    who = f"by {plain(row.username)}, {utc_minute(row.asked_at)} ({plain(row.reason)})"
    return f"**{of}** from {plain(row.start)}, {who}: {replay.word}"


def _moved(line: ChangedAsset) -> str:
    def label(state: str) -> str:
        return plain(line.scenario.spec(state).label) if state else "not on the board"

    worst = f", {label(line.worst)} in between" if line.worse_between else ""
    times = "once" if line.n == 1 else f"{line.n} times"
    return f"**{plain(line.asset)}**: {label(line.before)} → {label(line.after)}, {times}{worst}"


def _said(about: About) -> str:
    item = about.said
    who = f"**{plain(item.asset)}**: "
    if isinstance(item, Note):
        return f"{who}{plain(item.username)}, {utc_minute(item.at)}: {plain(item.text)}"
    if isinstance(item, Acknowledgement):
        return f"{who}{plain(item.username)} until {utc_minute(item.until)} ({plain(item.reason)})"
    assert isinstance(item, Command)
    state = f" to {plain(item.state)}" if item.state else ""
    why = f" ({plain(item.reason)})" if item.reason else ""
    return f"{who}{item.kind}{state} by {plain(item.username)}, {utc_minute(item.created_at)}{why}"
