"""Batch queries: request one from the job, follow it until its result is stored, cancel it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import msgspec
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    Role,
    TooMany,
    form_of,
    is_fragment,
    role_of,
    role_required,
    user_of,
)
from dashboard.core.common.forms import FormPage
from dashboard.core.common.retention import Retention
from dashboard.core.common.tables import Table
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.job.models import SETTLED, BucketStatus, JobRequest
from dashboard.core.job.requests import RequestProgress, send
from dashboard.core.states.models import FoldSnapshot, LogBound
from domain.scenario import Scenario
from wire.batch_query import Snapshot
from wire.job import Action, bucket_name

# ---- snapshots -----------------------------------------------------------------------------------
# Daily snapshots that a batch query may start from. Times in Unix ms.


def snapshots_before(scenario: Scenario, moment: int) -> dict[str, Snapshot]:
    """Return, by bucket, the newest snapshot before `moment` that still matches the log."""
    kept = FoldSnapshot.objects.filter(scenario=scenario.name, partition__lt=scenario.partitions)
    terms = {at: LogBound.terms_of(scenario.name, at) for at in range(scenario.partitions)}
    return newest_before((row for row in kept if row.fits(terms[row.partition])), moment)


def newest_before(kept: Iterable[FoldSnapshot], moment: int) -> dict[str, Snapshot]:
    """Return, by bucket, the newest of the `kept` snapshots from before `moment`."""
    newest: dict[str, FoldSnapshot] = {}
    for row in kept:
        name = bucket_name(row.scenario, row.partition)
        if row.clock < moment and (name not in newest or row.clock > newest[name].clock):
            newest[name] = row
    return {name: Snapshot(row.next_offset, row.file, row.digest) for name, row in newest.items()}


# ---- submission ----------------------------------------------------------------------------------
# Requesting a batch query from the job that carries its scenario.


class NoQuery(Exception):
    """The job has not reported that it carries the scenario."""

    def __init__(self) -> None:
        super().__init__("The job has not reported this scenario yet. Is it running?")


def submit(
    action: Action, parameters: msgspec.Struct, detail: Any, user: User, now: int, reason: str = ""
) -> None:
    """Request a batch query from the job and save `detail` with the request.

    `detail` is a new row for the page that shows the result; it names the scenario and shares the
    request's id.

    Raises NoQuery and rate_limits.TooMany; in both cases nothing has been saved or sent.
    """
    query = query_of(detail.scenario)
    if query is None:
        raise NoQuery
    detail.query, detail.username, detail.asked_at = query, user.get_username(), now
    plain = msgspec.to_builtins(parameters)
    send(query, action, user, now, reason=reason, id_=detail.pk, parameters=plain, detail=detail)


def query_of(scenario: str) -> str | None:
    """Return the query that carries a scenario, by its buckets' last reports, or None."""
    beats = BucketStatus.objects.filter(scenario=scenario).order_by("-epoch", "-at", "-pk")
    newest = beats.first()
    return newest.query if newest else None


# ---- progress ------------------------------------------------------------------------------------
# Progress of a batch query until its whole result is in the database. Times in Unix ms.

# A result that has not arrived this long after its query ended may never arrive.
SILENT_MS = 60_000

Step = Literal["waiting", "running", "arriving", "done", "bad"]


@dataclass(frozen=True)
class QueryProgress(RequestProgress):
    """A batch query as its page shows it. complete: the whole result is in the database."""

    id: UUID
    complete: bool

    @property
    def step(self) -> Step:
        """Return the step that the query has reached."""
        if self.complete:  # the result may arrive before the answer that ends the request
            return "done"
        if self.request is None or self.tone == "bad":
            return "bad"
        if self.request.status == "done":
            late = self.now - (self.request.answered_at or self.now) > SILENT_MS
            return "bad" if late else "arriving"
        return "running" if self.request.status == "accepted" else "waiting"

    @property
    def moving(self) -> bool:
        """Return whether the query can still make progress."""
        return self.step in ("waiting", "running", "arriving")

    @property
    def text(self) -> str:
        """Return the step as a sentence, with the reason where there is one."""
        match self.step:
            case "done":
                return (self.request.outcome if self.request else "") or "Done."
            case "waiting":
                return "Sent. If the job runs, it answers within a second or two."
            case "running":
                return self._running()
            case "arriving":
                return "Done. Its result is on its way."
        if self.request is None:
            return "It ended long ago. Its outcome is no longer stored."
        if self.request.status == "done":
            return (
                "It is done, but its result has not arrived: is the materialiser running? "
                "Run it again."
            )
        return f"{self.word.capitalize()}: {super().text}"

    def _running(self) -> str:
        done, of, what = self.row.step_done, self.row.step_of, self.row.step_what
        if self.percent is None:
            return f"Running: {what or 'starting'}."
        return f"Running: {done:,} of {of:,} {what}."

    @property
    def percent(self) -> int | None:
        """Return the progress as a percentage, or None while it is unknown."""
        if self.step == "arriving":
            return 100
        done, of = (self.row.step_done, self.row.step_of) if self.request else (None, None)
        return None if done is None or not of else min(100, 100 * done // of)


def progress_of(row: Any, now: int) -> QueryProgress:
    """Return the progress of the query whose result is `row`."""
    return progress_of_all([row], now)[0]


def progress_of_all(rows: Iterable[Any], now: int) -> list[QueryProgress]:
    """Return the progress of each query, in the order of its result rows."""
    rows = list(rows)
    requests = JobRequest.objects.in_bulk([row.pk for row in rows])
    return [QueryProgress(requests.get(row.pk), now, row.pk, row.complete) for row in rows]


# ---- pages ---------------------------------------------------------------------------------------
# What all batch query pages share: the form with earlier queries, one query, cancelling it.


class QueryList(FormPage):
    """A list of an action's newest batch queries, with a form that requests another.

    A subclass names the rows and makes a row from the form.
    """

    kept: Retention
    """How long and how many of the queries' rows are kept."""
    table: Table
    action: Action
    detail: str
    """The URL name of a query's page."""

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the context with the newest queries and their progress."""
        rows = self.kept.model._default_manager.order_by("-asked_at", "-pk")  # noqa: SLF001 - documented
        newest = list(rows[: self.kept.at_most])
        shown = {
            "table": self.table,
            "queries": list(zip(newest, progress_of_all(newest, self.now), strict=True)),
            "kept": self.kept.at_most,
            "kept_days": (self.kept.kept_ms or 0) // DAY_MS,
        }
        return super().get_context_data(**shown | context)

    def form_valid(self, form: Any) -> HttpResponse:
        """Request the query and redirect to its page, or say why nothing was sent."""
        parameters, row, facts = self.query(form)
        reason, user = form.cleaned_data.get("reason", ""), user_of(self.request)
        try:
            submit(self.action, parameters, row, user, self.now, reason)
        except (NoQuery, TooMany) as error:
            form.add_error(None, str(error))
            return self.form_invalid(form, 409 if isinstance(error, NoQuery) else 429)
        self.kept.apply(self.now)
        action = f"job.{self.action}"
        record(Actor.of(self.request), action, scenario=row.scenario, **facts)
        return redirect(self.detail, row.pk)

    def query(self, form: Any) -> tuple[msgspec.Struct, Any, dict[str, Any]]:
        """Return the query's parameters, the row for its result, and the facts for the audit."""
        raise NotImplementedError


class QueryDetail(FormPage):
    """One batch query with its progress and result; scripts get only the part that refreshes."""

    def get_template_names(self) -> list[str]:
        """Return the template of the page, or of the part that refreshes."""
        assert self.template_name
        folder, _, name = self.template_name.rpartition("/")
        return [f"{folder}/_{name}" if is_fragment(self.request) else self.template_name]

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the context with the progress and whether the user may cancel the query."""
        return super().get_context_data(
            followed=progress_of(self.row, self.now),
            admin=role_of(self.request.user) is Role.ADMIN,
            back=self.request.path,
            address=self.request.get_full_path(),
            **context,
        )


ACTIONS = ("read-state", "what-if")


@form_of("console:job")
@role_required("read", (Role.ADMIN,))
def cancel(request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Ask the job to end a batch query; the query's page shows when it has ended."""
    query = get_object_or_404(JobRequest, pk=id, action__in=ACTIONS)
    if query.status in SETTLED:
        messages.info(request, "It had ended already.")
    else:
        try:
            send(
                query.query, "cancel", user_of(request), now_ms(), parameters={"ask": str(query.pk)}
            )
            messages.info(request, "The request to cancel it is sent.")
        except TooMany as error:
            messages.error(request, str(error))
    back = request.POST.get("back", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, None) else "/")
