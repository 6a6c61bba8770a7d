"""The page, or htmx's part of it, that shows one record of the log."""

from __future__ import annotations

from typing import Any, cast, get_args

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from bus.base import Message
from dashboard.board.log_records import STATUSES, NotShown, Shown, Way, fetch, seek, show
from dashboard.core.access import is_fragment, role_required, user_of
from dashboard.core.kafka_gateway import gateway
from dashboard.core.metrics import LOG_RECORDS
from dashboard.core.rate_limits import Limit, TooMany
from dashboard.core.roles import Role, role_of
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.dead_letters.models import DeadLetter
from dashboard.rules.active_rule import in_force
from dashboard.states.board_rows import asset_path
from domain.names import MAX_NAME
from domain.scenario import Scenario
from wire.source import MAX_PART

FETCHES = Limit("fetches", 120)
WAYS = get_args(Way)


@require_safe
@never_cache
@role_required("read")
def record(request: HttpRequest, scenario: str, partition: int, offset: int) -> HttpResponse:
    """Render the record at this place of the scenario's source topic, decoded and raw."""
    known = scenarios().get(scenario)
    if known is None or offset > MAX_PART:
        raise Http404
    key = request.GET.get("key", "")[:MAX_NAME]
    context: dict[str, Any] = {
        "key": key,
        "keyed": f"?{urlencode({'key': key})}" if key else "",
        "scenario": known,
        "tab": scenario,
        "topic": gateway().topics.reports(scenario),
        "partition": partition,
        "offset": offset,
        "now": now_ms(),
        "fragment": is_fragment(request),
    }
    status = 200
    try:
        if (way := request.GET.get("seek", "")) in WAYS:
            at = _sought(request, known, partition, offset, key, cast("Way", way))
            place = reverse("board:record", args=(scenario, partition, at))
            return redirect(f"{place}{context['keyed']}")
        found = _fetched(request, known, partition, offset)
        context |= {"shown": found, "asset_url": found.asset and asset_path(scenario, found.asset)}
        LOG_RECORDS.labels("shown").inc()
    except NotShown as refusal:
        context["refusal"], status = refusal, STATUSES[refusal.reason]
        LOG_RECORDS.labels(refusal.reason).inc()
    if is_fragment(request):  # htmx swaps only what succeeds
        return render(request, "board/_record.html", context)
    return render(request, "board/record.html", context, status=status)


def _sought(
    request: HttpRequest, scenario: Scenario, partition: int, offset: int, key: str, way: Way
) -> int:
    """Return the offset of the next or the previous record; with a key, of one that has it.

    Raises NotShown.
    """
    if not key:
        return max(0, offset + (1 if way == "next" else -1))
    _take(request)
    to = gateway()
    topic = to.topics.reports(scenario.name)
    return seek(to.bus, topic, partition, offset, key.encode(errors="replace"), way)


def _take(request: HttpRequest) -> None:
    """Count a look at Kafka. Raises NotShown."""
    try:
        FETCHES.take(user_of(request).pk, now_ms())
    except TooMany as error:
        raise NotShown("too-many", str(error)) from error


def _fetched(request: HttpRequest, scenario: Scenario, partition: int, offset: int) -> Shown:
    _take(request)
    to = gateway()
    message = fetch(to.bus, to.topics.reports(scenario.name), partition, offset)
    found = show(message, scenario.partitions, in_force(scenario, partition, offset))
    if role_of(request.user) is not Role.ADMIN and (found.refused or _is_letter(message)):
        raise NotShown("refused", "The job refused this record: only admins may see it.")
    return found


def _is_letter(message: Message) -> bool:
    """Return whether the job has reported that it refused the record."""
    at = {"topic": message.topic, "partition": message.partition, "offset": message.offset}
    return DeadLetter.objects.filter(**at).exists()
