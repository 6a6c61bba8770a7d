"""The pages of incidents, incident groups and maintenance windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor
from dashboard.core.common.access import (
    TooMany,
    form_of,
    is_fragment,
    may,
    role_of,
    role_required,
    user_of,
)
from dashboard.core.common.forms import FormPage, ListForm, PeriodForm, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.navigation import OPERATORS, render_page
from dashboard.core.common.scenarios import scenario_or_404, scenario_or_first, scenarios
from dashboard.core.common.text import isolated
from dashboard.core.common.times import FIELD_SECOND, field_text, now_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.watch.annotations.acknowledgements import shift_ends
from dashboard.watch.annotations.forms import AckForm, NoteForm
from dashboard.watch.annotations.labels import keys
from dashboard.watch.annotations.models import MAX_VALUE
from dashboard.watch.incidents import cases
from dashboard.watch.incidents.cases import CaseRefused, colleagues
from dashboard.watch.incidents.models import (
    FILTER,
    LISTED,
    MAX_TICKET,
    MAX_WHY,
    PLANNED,
    RUNNING,
    Case,
    CaseQuerySet,
    Incident,
    IncidentQuerySet,
    Notified,
    Window,
    WindowRefused,
    case_number,
    messages_about,
)
from dashboard.watch.incidents.queries import (
    GROUP_FIELDS,
    GROUP_TABLE,
    MEMBER_TABLE,
    MOST_MEMBERS,
    WORST_TABLE,
    GroupResult,
    IncidentGroup,
    find_groups,
    group_of,
)
from dashboard.watch.incidents.report import (
    case_as_markdown,
    group_as_markdown,
    timeline,
    worst_votes,
)
from dashboard.watch.incidents.windows import (
    COVERED_TABLE,
    SHOWN,
    WINDOW_INCIDENT_TABLE,
    WindowForm,
    coverage_of,
)
from domain.names import name_ok

# ---- incidents -----------------------------------------------------------------------------------
# The page of an incident as people work on it, a `Case`, the forms on it, and its report.


class CasePage(FormPage):
    """The page of an incident; scripts get only the part that refreshes."""

    template_name = "incidents/incident.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Return the response; the number of a merged incident leads to what it was merged into."""
        merged = Case.objects.filter(pk=kwargs["number"], merged_into__isnull=False).first()
        if merged is not None:
            return redirect("incidents:incident", merged.merged_into_id)
        return super().dispatch(request, *args, **kwargs)

    def get_queryset(self) -> CaseQuerySet:
        """Return the incidents that have pages."""
        return Case.objects.shown()

    def get_template_names(self) -> list[str]:
        """Return the page's template, or that of the part that refreshes."""
        return ["incidents/_incident.html" if is_fragment(self.request) else self.template_name]

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the template's context: the incident, its assets, its timeline and the forms."""
        case, user = self.row, user_of(self.request)
        members = list(case.members[:MOST_MEMBERS])
        return super().get_context_data(
            **self._forms(user)
            | {
                "case": case,
                "scenario": scenarios()[case.scenario],
                "members": members,
                "moments": timeline(members, case, _messages(user, members)),
                "worst_votes": worst_votes(members),
                "worst_table": WORST_TABLE,
                "table": MEMBER_TABLE,
                "may_command": may(user, "command"),
                "address": reverse("incidents:incident", args=[case.pk]),
                "as_of": _board_as_it_began(case),
            }
            | context
        )

    def _forms(self, user: User) -> dict[str, Any]:
        """Return the page's forms as they are before anybody fills them in."""
        return {
            "ack": AckForm(self.now, shift_ends(user, self.now)),
            "owner": OwnerForm(case=self.row),
            "note": NoteForm(),
            "ticket": TicketForm(initial={"ticket": self.row.ticket}),
            "resolution": ResolutionForm(),
            "merging": MergeForm(),
            "splitting": SplitForm(case=self.row),
        }


NUMBER_HINT = {"placeholder": "INC-1042", "autocomplete": "off"}


class OwnerForm(forms.Form):
    """Hands an incident over to a colleague, or to nobody. seen: the owner that the page showed."""

    owner = forms.ChoiceField(required=False, label="To")
    text = forms.CharField(required=False, max_length=MAX_WHY, label="Note")
    seen = forms.CharField(required=False, max_length=150, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, case: Case) -> None:
        owner = {"owner": case.owner, "seen": case.owner}
        super().__init__(data, auto_id="owner_%s", initial=owner)
        names = colleagues().values_list("username", flat=True)
        choice = self.fields["owner"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [("", "nobody"), *((name, name) for name in names)]


class TicketForm(forms.Form):
    """Sets the reference of an incident's ticket elsewhere, or takes it away."""

    ticket = forms.CharField(required=False, max_length=MAX_TICKET, label="Reference")


class ResolutionForm(forms.Form):
    """Resolves an incident, or opens it again, with why."""

    text = forms.CharField(required=False, max_length=MAX_WHY, label="Why")


class MergeForm(forms.Form):
    """Merges an incident into another one."""

    into = forms.CharField(max_length=24, label="Into", widget=forms.TextInput(NUMBER_HINT))

    def clean_into(self) -> Case:
        """Return the other incident. Raises ValidationError."""
        number = case_number(self.cleaned_data["into"])
        case = None if number is None else Case.objects.shown().filter(pk=number).first()
        if case is None:
            raise forms.ValidationError("Expected the number of an incident, such as INC-1042.")
        return case


class SplitForm(forms.Form):
    """Makes assets of an incident one of their own."""

    assets = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple)

    def __init__(self, data: Any = None, *, case: Case) -> None:
        super().__init__(data, auto_id="split_%s")
        rows = case.members.values_list("asset", flat=True)[:MOST_MEMBERS]
        choice = self.fields["assets"]
        assert isinstance(choice, forms.MultipleChoiceField)
        choice.choices = [(asset, asset) for asset in dict.fromkeys(rows)]


class CaseAct(CasePage):
    """An address that receives one of the forms on an incident's page.

    A subclass says in `act` what is done with the valid form, and what the audit keeps of it.
    """

    permission = "command"
    page = "incidents:incident"
    action: str
    words: str
    """What was done, with the incident's number before it."""

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Change the incident, and return the audit's facts. Raises CaseRefused and TooMany."""
        raise NotImplementedError

    def form_valid(self, form: Any) -> HttpResponse:
        """Change the incident, and show its page; with why not if that is refused."""
        try:
            facts = self.act(form.cleaned_data, self.row, user_of(self.request))
        except (CaseRefused, TooMany) as error:
            form.add_error(None, str(error))
            return self.form_invalid(form, 429 if isinstance(error, TooMany) else 409)
        cases.log(self.row, Actor.of(self.request), self.action, **facts)
        return self.done(f"{self.row.number} {self.words}.", "incidents:incident", self.row.pk)


class AcknowledgeCase(CaseAct):
    """Acknowledges all assets of an incident at once."""

    form_class = AckForm
    form_name = "ack"
    form_takes = ("now", "shift_ends")
    action, words = "acknowledged", "is acknowledged"

    @property
    def shift_ends(self) -> int:
        """When the user's shift ends, Unix ms."""
        return shift_ends(user_of(self.request), self.now)

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Acknowledge its assets that are in trouble."""
        facts = {"until": data["until"], "reason": data["reason"]}
        return facts | {"assets": cases.acknowledge(case, user, now=self.now, **facts)}


class HandOver(CaseAct):
    """Hands an incident over."""

    form_class = OwnerForm
    form_name = "owner"
    action, words = "owner", "is handed over"

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return the form's arguments."""
        return {"data": self.request.POST, "case": self.row}

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Give it to who was chosen, unless another owner than the page showed has it."""
        cases.hand_over(case, user, data["owner"], data["text"], self.now, seen=data["seen"])
        return {"owner": data["owner"], "text": data["text"]}


class WriteNote(CaseAct):
    """Adds a note to an incident."""

    form_class = NoteForm
    form_name = "note"
    action, words = "note", "got your note"

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Add the note."""
        cases.write_note(case, user, data["text"], self.now)
        return {"text": data["text"]}


class SetTicket(CaseAct):
    """Sets the ticket of an incident."""

    form_class = TicketForm
    form_name = "ticket"
    action, words = "ticket", "is updated"

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Set the ticket."""
        cases.set_ticket(case, user, data["ticket"], self.now)
        return {"ticket": data["ticket"]}


class Resolve(CaseAct):
    """Resolves an incident."""

    form_class = ResolutionForm
    form_name = "resolution"
    action, words = "resolved", "is resolved"

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Resolve it."""
        cases.resolve(case, user, data["text"], self.now)
        return {"text": data["text"]}


class Reopen(CaseAct):
    """Opens an incident again."""

    form_class = ResolutionForm
    form_name = "resolution"
    action, words = "reopened", "is reopened"

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Open it again."""
        cases.reopen(case, user, data["text"], self.now)
        return {"text": data["text"]}


class Merge(CaseAct):
    """Merges an incident into another one, whose page then has all of it."""

    form_class = MergeForm
    form_name = "merging"
    action, words = "merged", "is merged"

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Merge it."""
        cases.merge(case, user, data["into"], self.now)
        return {"into": data["into"].number}


class Split(CaseAct):
    """Makes some assets of an incident one of their own."""

    form_class = SplitForm
    form_name = "splitting"
    action, words = "split", "is split"

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return the form's arguments."""
        return {"data": self.request.POST, "case": self.row}

    def act(self, data: dict[str, Any], case: Case, user: User) -> dict[str, Any]:
        """Split the assets off."""
        own = cases.split(case, user, data["assets"], self.now)
        return {"off": own.number, "assets": data["assets"]}


CASE_ACTS: dict[str, type[CaseAct]] = {
    "acknowledge": AcknowledgeCase,
    "owner": HandOver,
    "note": WriteNote,
    "ticket": SetTicket,
    "resolve": Resolve,
    "reopen": Reopen,
    "merge": Merge,
    "split": Split,
}
"""What an incident's page has forms for, by the ends of their addresses."""


@require_safe
@never_cache
@role_required("read")
def incident_report(request: HttpRequest, number: int) -> HttpResponse:
    """Return the report on an incident as a Markdown file."""
    case = get_object_or_404(Case.objects.shown(), pk=number)
    response = HttpResponse(
        case_as_markdown(case, MOST_MEMBERS, role_of(request.user) in OPERATORS),
        content_type="text/markdown; charset=utf-8",
    )
    response["Content-Disposition"] = f'attachment; filename="{case.number}.md"'
    return response


@require_safe
@never_cache
@role_required("read")
def incident_of_asset(request: HttpRequest, scenario: str, asset: str) -> HttpResponse:
    """Redirect to the newest incident of an asset, or to the asset's page if it had none."""
    known = scenario_or_404(scenario)
    case = Case.objects.of_asset(known.name, asset) if name_ok(asset) else None
    if case is not None:
        return redirect(case)
    messages.info(request, f"No incident of {isolated(asset)} is known.")
    return redirect(asset_path(known.name, asset))


def _messages(user: User, incidents: list[Incident]) -> Sequence[Notified]:
    """Return the messages about incidents, for those who may read messages."""
    return messages_about(incidents) if role_of(user) in OPERATORS else ()


def _board_as_it_began(case: Case) -> str:
    """Return the URL of the past board of the moment at which an incident began."""
    begun = case.began_at + 999  # a form's times are to the second; by then it had begun
    query = {"scenario": case.scenario, "at": field_text(begun, FIELD_SECOND)}
    return f"{reverse('board:as-of')}?{urlencode(query)}"


# ---- group views ---------------------------------------------------------------------------------
# The pages of incident groups: their list, one group, and its report.


class GroupFilterForm(ListForm, PeriodForm):
    """The filter of groups in the URL. Times in UTC."""

    before = None
    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    label = forms.ChoiceField(required=False)
    value = forms.CharField(required=False, max_length=MAX_VALUE, label="With this value")
    without = forms.BooleanField(required=False, label="Assets without the label")

    field_order = ("scenario", "label", "value", "without")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        named = self._given("scenario") or []
        known = [each for name, each in scenarios().items() if name in named]
        self.chosen = known or [scenario_or_first("")]
        self.keys = list(dict.fromkeys(key for each in self.chosen for key in keys(each.name)))
        self.offer("scenario", scenario_choices())
        self.offer("label", [(key, key) for key in self.keys])

    @property
    def key(self) -> str:
        """The chosen label of a valid form, by default the scenario's first; "" if it has none."""
        return self.cleaned_data["label"] or next(iter(self.keys), "")

    def rows(self) -> IncidentQuerySet:
        """Return the incidents to group."""
        data = self.criteria()
        rows = Incident.objects.shown().within(data["start"], data["end"])
        value = "" if data["without"] else data["value"]
        return rows.labelled(self.key, value) if value or data["without"] else rows

    def groups(self) -> GroupResult | None:
        """Return the groups, or None if the filter is invalid or the scenario has no labels."""
        if not self.is_valid() or not self.key:
            return None
        rows, without = self.rows(), self.cleaned_data["without"]
        return GroupResult.joined(
            find_groups(rows, each, self.key, without=without) for each in self.chosen
        )


class GroupList(ListPage):
    """The list of incidents grouped by a label, newest first."""

    name = "groups"
    form: GroupFilterForm
    form_class = GroupFilterForm
    template = "incidents/groups"
    table = GROUP_TABLE
    renews = False
    fields = GROUP_FIELDS
    exported_as = "incidents"

    def list_context(self) -> dict[str, Any]:
        """Return the groups."""
        return {"grouped": self.form.groups()}

    def context(self) -> dict[str, Any]:
        """Return the label and scenario of the groups."""
        key = self.form.key if self.form.is_valid() else ""
        return {"key": key, "scenario": self.form.chosen[0]}

    def portions(self) -> Iterable[Iterable[IncidentGroup]]:
        """Return the groups for the file."""
        grouped = self.form.groups()
        return [grouped.groups] if grouped else []

    def plain(self, row: IncidentGroup) -> dict[str, Any]:
        """Return a group as an NDJSON object or a CSV line."""
        return row.plain()


@require_safe
@never_cache
@role_required("read")
def group(request: HttpRequest, number: int, key: str) -> HttpResponse:
    """Return the page of an incident's group for a label."""
    known = _group(number, key)
    members = known.incidents[:MOST_MEMBERS]
    context = {
        "now": now_ms(),
        "group": known,
        "scenario": known.scenario,
        "members": members,
        "moments": timeline(members),
        "table": MEMBER_TABLE,
    }
    return render(request, "incidents/group.html", context)


@require_safe
@never_cache
@role_required("read")
def group_report(_request: HttpRequest, number: int, key: str) -> HttpResponse:
    """Return the report on a group as a Markdown file."""
    text = group_as_markdown(_group(number, key), MOST_MEMBERS)
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="group-{number}.md"'
    return response


def _group(number: int, key: str) -> IncidentGroup:
    """Return the group of an incident. Raises Http404."""
    row = get_object_or_404(Incident.objects.shown(), pk=number)
    incident_group = group_of(row, scenarios()[row.scenario], key)
    if incident_group is None:
        raise Http404
    return incident_group


# ---- maintenance ---------------------------------------------------------------------------------
# The pages of a maintenance window, and the form that plans or changes one.


@require_safe
@never_cache
@role_required("read")
def window(request: HttpRequest, number: int) -> HttpResponse:
    """Return a window's page; scripts get only the part that refreshes."""
    row, now = _window(number), now_ms()
    context = {
        "now": now,
        "window": row,
        "covered": coverage_of(row, now),
        "incidents": row.incidents(now)[:SHOWN],
        "covered_table": COVERED_TABLE,
        "incident_table": WINDOW_INCIDENT_TABLE,
        "most": SHOWN,
        "address": request.get_full_path(),
        "may_command": may(request.user, "command"),
        "planned": row.status == PLANNED,
        "running": row.status == RUNNING,
    }
    return render_page(request, "incidents/maintenance/window", context)


class WindowFormPage(FormPage):
    """The form for a new window, which the URL may fill in partly, or for a planned one."""

    template_name = "incidents/maintenance/form.html"
    permission = "command"
    form_class = WindowForm
    form_takes = ("now",)
    parameters = ("scenario", "q", "asset")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Return the response, or redirect if the window is no longer planned. Raises Http404."""
        self.row = _window(kwargs.pop("number")) if kwargs else None
        if self.row and self.row.status != PLANNED:
            messages.error(request, "It is no longer planned, so it cannot be changed.")
            return redirect("maintenance:window", self.row.pk)
        return super().dispatch(request, *args, **kwargs)

    def get_form(self, form_class: Any = None) -> Any:
        """Return the submitted form, or one filled in from the window or the URL."""
        if self.request.method != "POST":
            if self.row:
                return WindowForm.of(self.row, self.now)
            return WindowForm(self.now, initial=_suggested(self.request))
        form = super().get_form(form_class)
        if self.row:
            seen = self.request.POST.get("revision", "")
            self.row.revision = int(seen) if seen.isdigit() and len(seen) < 9 else 0
            form.once()
        return form

    def form_valid(self, form: WindowForm) -> HttpResponse:
        """Store the window, unless somebody has changed it in the meantime."""
        try:
            saved = form.save(user_of(self.request), self.row)
        except TooMany as error:
            form.add_error(None, str(error))
            saved = None
        if saved is None:
            return self.form_invalid(form)
        action = f"maintenance.{'changed' if self.row else 'planned'}"
        saved.log(Actor.of(self.request), action)
        return self.done("Saved.", "maintenance:window", saved.pk)


@form_of("maintenance:window", "number")
@role_required("command")
def end(request: HttpRequest, number: int) -> HttpResponseBase:
    """End a running window now."""
    return _do(request, number, Window.end_early, "maintenance.ended", "The maintenance has ended.")


@form_of("maintenance:window", "number")
@role_required("command")
def cancel(request: HttpRequest, number: int) -> HttpResponseBase:
    """Cancel a window, so that it counts as if it had never been."""
    if request.POST.get("do") == "all":
        words = "Cancelled, with those that follow."
        return _do(request, number, Window.cancel_all, "maintenance.cancelled", words)
    return _do(request, number, Window.cancel, "maintenance.cancelled", "Cancelled.")


def _do(
    request: HttpRequest,
    number: int,
    change: Callable[[Window, User, int], list[Window] | None],
    action: str,
    words: str,
) -> HttpResponseBase:
    row = _window(number)
    try:
        more = change(row, user_of(request), now_ms()) or []
    except (WindowRefused, TooMany) as error:
        messages.error(request, str(error))
        return redirect("maintenance:window", number)
    for each in (row, *more):
        each.log(Actor.of(request), action)
    messages.success(request, words)
    return redirect("maintenance:window", number)


def _suggested(request: HttpRequest) -> dict[str, str]:
    """Return the initial values that a link to the form gives."""
    given = {name: request.GET.get(name, "") for name in ("scenario", "q", "asset")}
    suggested = {"scenario": given["scenario"] if given["scenario"] in scenarios() else ""}
    if given["asset"]:
        return suggested | {"covers": LISTED, "assets": given["asset"]}
    if given["q"]:
        return suggested | {"covers": FILTER, "filter": given["q"]}
    return suggested


def _window(number: int) -> Window:
    """Return a window. Raises Http404."""
    return get_object_or_404(Window.objects.shown(), pk=number)
