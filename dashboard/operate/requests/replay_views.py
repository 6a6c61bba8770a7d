"""The replays page: choose, review, request and follow a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    ADMINS,
    TooMany,
    form_of,
    is_fragment,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.forms import UtcTimeField
from dashboard.core.common.kafka import gateway
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import BucketStatus, JobProgress, JobRequest
from dashboard.core.job.requests import send
from dashboard.operate.console import job
from dashboard.operate.console.partitions import edges
from dashboard.operate.requests.models import Replay
from dashboard.operate.requests.replays import (
    BucketReplay,
    Edges,
    ReplayChoice,
    ReplayPlan,
    ahead,
    carried,
    dump_parts,
    newest,
    plan,
    with_moments,
)
from wire.job import MAX_REASON, bucket_name

# ---- replays -------------------------------------------------------------------------------------
# Forms for choosing a replay and for confirming it.

STARTS = {
    "earliest": "The beginning of the log",
    "time": "A time",
    "offsets": "An offset in each partition",
}


class ChoiceForm(forms.Form):
    """The form that chooses a query, a scenario and a starting point.

    Each bucket's offset has a field of its own.
    """

    query = forms.ChoiceField(label="Query")
    scenario = forms.ChoiceField(label="Scenario", required=False)
    start = forms.ChoiceField(
        label="Replay from",
        choices=list(STARTS.items()),
        initial="earliest",
        widget=forms.RadioSelect,
    )
    time = UtcTimeField(label="Time (UTC)", seconds=True)
    exactly = forms.BooleanField(label="Exactly there, without any state", required=False)
    bound = UtcTimeField(label="Latest time that counts (UTC)", seconds=True)

    def __init__(
        self, queries: Mapping[str, Sequence[str]], edges: Edges | None, data: Any = None
    ) -> None:
        """Prepare the form.

        queries: the scenarios that each query carries; edges: of their logs, None if Kafka does not
        answer.
        """
        super().__init__(data, auto_id="replay-%s")
        self.ahead = {query: names for query in queries if (names := list(ahead(query)))}
        if self.ahead:
            self.fields["bound"].initial = datetime.now(UTC).replace(microsecond=0)
        self._queries, self._edges = queries, edges or {}
        names = [name for carried in queries.values() for name in carried]
        self._choose("query", [(name, name) for name in queries], queries)
        titles = [(name, scenarios()[name].title) for name in names]
        self._choose("scenario", [("", "all of the query"), *titles], names)
        if len(queries) == 1:
            self.fields["query"].initial = next(iter(queries))
            self.fields["query"].widget = forms.HiddenInput()
        self.buckets = {
            bucket_name(name, at): (name, at)
            for name in names
            for at in range(scenarios()[name].partitions)
        }
        for bucket, place in self.buckets.items():
            self.fields[f"offset-{bucket}"] = self._offset(bucket, *self._edges.get(place, (0, 0)))

    def _choose(self, name: str, choices: list[tuple[str, str]], known: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        wrong = f"Expected one of: {', '.join(known)}."
        field.error_messages |= {"required": wrong, "invalid_choice": wrong}

    @staticmethod
    def _offset(bucket: str, begin: int, end: int) -> forms.IntegerField:
        widget = forms.TextInput(
            attrs={"placeholder": f"{begin} to {end}", "inputmode": "numeric", "maxlength": 20}
        )
        wrong = {"invalid": f"Expected an offset of its log, {begin} to {end}."}
        return forms.IntegerField(label=bucket, required=False, widget=widget, error_messages=wrong)

    def offset_fields(self) -> list[tuple[str, list[forms.BoundField]]]:
        """Return the fields for the buckets' offsets, by scenario."""
        fields: dict[str, list[forms.BoundField]] = {}
        for name, (scenario, _) in self.buckets.items():
            fields.setdefault(scenario, []).append(self[f"offset-{name}"])
        return list(fields.items())

    def given(self) -> list[tuple[str, str]]:
        """Return the non-empty fields as they were typed, to be posted again."""
        values = [(name, str(self.data.get(name, ""))) for name in self.fields]
        return [(name, value) for name, value in values if value]

    def clean(self) -> dict[str, Any]:
        """Return the cleaned data, and add errors for values that do not fit together."""
        data = super().clean() or {}
        query, scenario, start = (data.get(name) for name in ("query", "scenario", "start"))
        if scenario and query and scenario not in self._queries[query]:
            carried = ", ".join(self._queries[query])
            self.add_error("scenario", f"Expected one that {query} carries: {carried}.")
        if start == "time" and not data.get("time") and "time" not in self.errors:
            self.add_error("time", "Expected a time to begin at.")
        if data.get("exactly") and start != "offsets":
            self.add_error("exactly", "Expected offsets with it: without any, it begins nowhere.")
        if start == "offsets":
            self._check_offsets(data)
        if data.get("bound"):
            self._check_bound(data)
        return data

    def _check_bound(self, data: Mapping[str, Any]) -> None:
        if data["bound"] > datetime.now(UTC):
            self.add_error("bound", "Expected a past time: present records must count.")
        elif data.get("query") and data["query"] not in self.ahead:
            self.add_error("bound", "Expected no time: no clock of this query's buckets is ahead.")

    def _check_offsets(self, data: Mapping[str, Any]) -> None:
        for bucket, place in self.buckets.items():
            name, (begin, end) = f"offset-{bucket}", self._edges.get(place, (0, 0))
            offset = data.get(name)
            if offset is not None and not begin <= offset <= end:
                self.add_error(name, self.fields[name].error_messages["invalid"])

    def choice(self) -> ReplayChoice:
        """Return the choice. The form must be valid."""
        data = self.cleaned_data
        offsets = {name: data[f"offset-{name}"] for name in self.buckets}
        filled = {name: offset for name, offset in offsets.items() if offset is not None}
        by_offsets = data["start"] == "offsets"
        return ReplayChoice(
            query=data["query"],
            scenario=data["scenario"],
            start=data["start"],
            time=int(data["time"].timestamp() * 1000) if data["start"] == "time" else 0,
            offsets=filled if by_offsets else {},
            exactly=data["exactly"],
            bound=int(data["bound"].timestamp() * 1000) if data["bound"] else None,
        )


class ReplayConfirmForm(forms.Form):
    """The form that confirms a plan: a reason and its name, typed.

    `id`: made with the form; seen: the digest of the plan that was shown.
    """

    id = forms.UUIDField(widget=forms.HiddenInput)
    seen = forms.CharField(max_length=64, widget=forms.HiddenInput)
    typed = forms.CharField(max_length=100)
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")

    def __init__(self, word: str, seen: str, data: Any = None) -> None:
        """Prepare the form.

        word: the word to type; seen: the digest of the plan that is shown.
        """
        initial = {"id": uuid4(), "seen": seen}
        super().__init__(data, auto_id="confirm-%s", initial=initial)
        self._word = word
        self.fields["typed"].label = f"Type {word} to confirm"
        for name in ("typed", "reason"):
            self.fields[name].widget.attrs["autocomplete"] = "off"

    def clean_typed(self) -> str:
        """Return the typed name. Raises ValidationError unless it matches exactly."""
        typed: str = self.cleaned_data["typed"]
        if typed != self._word:
            raise forms.ValidationError(f"Expected exactly {self._word}.")
        return typed


# ---- submission ----------------------------------------------------------------------------------
# Requesting a reviewed plan from the job.


def submit(request: HttpRequest, plan: ReplayPlan, fields: Mapping[str, Any]) -> JobRequest:
    """Store and send a replay request, once per id. Returns the request.

    fields: the form's `id` and `reason`. Raises rate_limits.TooMany.
    """
    user, choice, now = user_of(request), plan.choice, now_ms()
    epoch = BucketStatus.objects.carried_by(choice.query).aggregate(at=Max("epoch"))["at"]
    replay = Replay(
        id=fields["id"],
        query=choice.query,
        scenario=choice.scenario,
        start=start_words(choice),
        reason=fields["reason"],
        username=user.get_username(),
        asked_at=now,
        whole=plan.whole,
        epoch=epoch or 0,
        plan=dump_parts(plan),
    )
    sent, fresh = send(
        choice.query,
        plan.action,
        user,
        now,
        reason=replay.reason,
        id_=replay.pk,
        parameters=plan.parameters(),
        detail=replay,
    )
    if fresh:
        _log_request(request, plan, sent, replay.reason)
    return sent


def _log_request(request: HttpRequest, plan: ReplayPlan, sent: JobRequest, reason: str) -> None:
    record(
        Actor.of(request),
        f"job.{plan.action}",
        scenario=plan.choice.scenario,
        target=plan.choice.query,
        outcome=sent.status,
        reason=reason,
        start=start_words(plan.choice),
        records=plan.records,
        forgets=plan.left if not plan.whole else None,
        bound=plan.choice.bound,
        id=str(sent.pk),
    )


def start_words(choice: ReplayChoice) -> str:
    """Return the place where the replay was to begin, in words."""
    match choice.start:
        case "earliest":
            return "the beginning of the log"
        case "time":
            at = datetime.fromtimestamp(choice.time / 1000, UTC)
            return f"{at:%Y-%m-%d %H:%M:%S} UTC"
        case _:
            return "given offsets" + (", without state" if choice.exactly else "")


# ---- replays -------------------------------------------------------------------------------------
# The console's replays page: choose, review, request, follow.

MEANS = {
    "log": "its whole log, from an empty state",
    "snapshot": "the snapshot's state, then what came since",
    "forgets": "no state: everything before is forgotten",
    "nothing": "nothing: its log is empty",
}
PLAN = Table(
    "replay-plan", "Bucket", Column.number("Log begins"), Column.number("Read from"),
    Column.time("From time"), Column.number("To"), Column.number("Records"),
    Column.number("Takes", "its part of the whole"), "Begins with",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read", ADMINS)
@takes(*ChoiceForm.base_fields, "offset-*")
def replay(request: HttpRequest) -> HttpResponse:
    """Return the form, its plan and the newest replays; scripts get only the replays."""
    if is_fragment(request):
        return render(request, "requests/replays/_replays.html", _list())
    carry, log_edges, fault = _logs()
    data = request.GET if "query" in request.GET else None
    form = ChoiceForm(carry, log_edges, data)
    reviewed = _reviewed(form, log_edges) if data is not None and log_edges is not None else None
    confirm = ReplayConfirmForm(reviewed.word, reviewed.digest()) if reviewed else None
    status = 422 if form.errors else 503 if data is not None and fault else 200
    return _page(request, form, reviewed, confirm, fault, status)


@form_of("replays:replay")
@role_required("read", ADMINS)
def start(request: HttpRequest) -> HttpResponse:
    """Request the reviewed plan from the job if it is still what would be done."""
    carry, log_edges, fault = _logs()
    form = ChoiceForm(carry, log_edges, request.POST)
    reviewed = None if log_edges is None else _reviewed(form, log_edges)
    if reviewed is None:
        return _page(request, form, None, None, fault, 503 if fault else 422)
    confirm = ReplayConfirmForm(reviewed.word, reviewed.digest(), request.POST)
    if not confirm.is_valid():
        return _page(request, form, reviewed, confirm, "", 422)
    if confirm.cleaned_data["seen"] != reviewed.digest():
        fresh = ReplayConfirmForm(reviewed.word, reviewed.digest())
        moved = "The logs have changed meanwhile: review the replay again."
        return _page(request, form, reviewed, fresh, moved, 409)
    try:
        sent = submit(request, reviewed, confirm.cleaned_data)
    except TooMany as error:
        confirm.add_error(None, str(error))
        return _page(request, form, reviewed, confirm, "", 429)
    if sent.status == "unsent":
        messages.error(request, f"Not sent: {sent.outcome}")
    return redirect(reverse("replays:replay") + "#replays-title")


def _logs() -> tuple[dict[str, list[str]], Edges | None, str]:
    """Return what each query carries, the edges of its logs, and why the edges are unknown."""
    carry = {name: mine for name in sorted(job.names()) if (mine := carried(name))}
    names = [name for mine in carry.values() for name in mine]
    logs = edges([gateway().topics.reports(name) for name in names])
    if logs.fault:
        return carry, None, logs.fault
    scenario_of = gateway().topics.scenario_of
    by_place = {(scenario_of(topic) or "", at): edge for (topic, at), edge in logs.offsets.items()}
    return carry, by_place, ""


def _reviewed(form: ChoiceForm, log_edges: Edges) -> ReplayPlan | None:
    """Return the form's plan, or None if the form is not valid."""
    if not form.is_valid():
        return None
    return with_moments(plan(form.choice(), log_edges), gateway().bus, gateway().topics)


def _page(
    request: HttpRequest,
    form: ChoiceForm,
    reviewed: ReplayPlan | None,
    confirm: ReplayConfirmForm | None,
    problem: str,
    status: int,
) -> HttpResponse:
    last = JobProgress.objects.order_by("-id").first()
    context = _list() | {
        "form": form,
        "plan": reviewed,
        "plan_table": PLAN,
        "rows": _rows(reviewed) if reviewed else [],
        "confirm": confirm,
        "problem": problem,
        "reported": last is not None and bool(form.buckets),
    }
    return render(request, "requests/replays/replay.html", context, status=status)


def _rows(plan: ReplayPlan) -> list[tuple[BucketReplay, str, float]]:
    """Return each bucket, what it starts from in words, and how long its records take, s."""
    return [(each, MEANS[each.means], plan.seconds_of(each)) for each in plan.buckets]


def _list() -> dict[str, Any]:
    now = now_ms()
    return {"now": now, "address": "/replay/", "replays": newest(now)}
