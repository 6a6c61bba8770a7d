"""The list of dead letters, the page of one letter, and the filtered letters as a file."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    ADMINS,
    REPORTS,
    Role,
    TooMany,
    form_of,
    is_fragment,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.exports import CONTENT_TYPES
from dashboard.core.common.kafka import NotSigned, gateway
from dashboard.core.common.tables import ListOrder, Pager, TableFile
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.rules.models import in_force
from dashboard.core.states.board_rows import asset_path
from dashboard.operate.dead_letters.diagnosis import (
    ADVICE,
    MAX_HEX,
    Advice,
    RecordFault,
    Sample,
    Span,
    TextRun,
    doubt_of,
    fault_of,
    fields_of,
    hex_lines,
    runs,
)
from dashboard.operate.dead_letters.models import (
    KEPT_MS,
    MAX_LETTERS,
    OPEN,
    OUTCOMES,
    SENDING,
    DeadLetter,
    deleted_count,
)
from dashboard.operate.dead_letters.queries import (
    LETTERS,
    MAX_MANY,
    LetterFilter,
    LetterFilterForm,
    RecordForm,
    WhyForm,
    figures,
    page,
)
from dashboard.operate.dead_letters.redrive import (
    REDRIVE_OF,
    Sending,
    discard,
    find_out,
    log_discarded,
    log_redriven,
    redrive,
)
from dashboard.operate.dead_letters.validation import RecordVerdict, judge, scenario_of
from domain.names import name_ok
from domain.records import Command

# ---- exports -------------------------------------------------------------------------------------
# The letters that pass a filter as a file: NDJSON or CSV, streamed in portions.

FIELDS = (
    "id", "reason", "scenario", "topic", "partition", "offset", "appended_at", "noted_at",
    "repeats", "size", "whole", "asset", "agent", "status", "status_at", "status_by", "why",
    "edited", "new_topic", "new_partition", "new_offset",
)  # fmt: skip
BYTES = ("key", "value")


@require_safe
@never_cache
@role_required("read", frozenset((Role.ADMIN,)))
@takes(*LetterFilterForm.parameters())
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return all letters that pass the filter as a file, oldest first."""
    if form not in CONTENT_TYPES:
        raise Http404
    asked = LetterFilterForm(request.GET)
    if not asked.is_valid():
        context = {"fault": "The filter cannot be read: use the list's filter."}
        return render(request, "dead_letters/refused.html", context, status=422)
    facts = {"form": form, "filter": asked.criteria().query()}
    record(Actor.of(request), "export.letters", target=f"dead-letters.{form}", **facts)
    return LETTER_FILE.response(request, form, asked.criteria().rows())


def _object(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as an NDJSON object; bytes that are not UTF-8 go into `…_base64`."""
    data = {name: getattr(letter, name) for name in FIELDS}
    for name, value in (("key", letter.record_key), ("value", letter.record_value)):
        data |= _text_or_base64(name, value)
    data["headers"] = [
        {"name": name, **_text_or_base64("value", v)} for name, v in letter.record_headers
    ]
    return data


def _text_or_base64(name: str, value: bytes | None) -> dict[str, Any]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": value}


def _cells(letter: DeadLetter) -> dict[str, Any]:
    data = {name: getattr(letter, name) for name in FIELDS}
    for name, value in (("key", letter.record_key), ("value", letter.record_value)):
        data[name] = (value or b"").decode(errors="replace")
    return data


LETTER_FILE = TableFile(
    "dead-letters",
    (*FIELDS, *BYTES),
    _object,
    cells=_cells,
    order=ListOrder("appended_at", down=False),
    portion_size=200,
)


# ---- detail --------------------------------------------------------------------------------------
# The context of a letter's page.

# How many bytes of a decoded field are shown.
MAX_SHOWN = 300
MAX_FIELDS = 50


class DecodedField(NamedTuple):
    name: str
    value: list[TextRun]
    at_fault: bool


def letter_context(
    letter: DeadLetter,
    now: int,
    form: RecordForm | None = None,
    why_form: WhyForm | None = None,
    verdict: RecordVerdict | None = None,
) -> dict[str, Any]:
    """Return the page's context. verdict: on the submitted record, if it was refused."""
    sample, scenario = letter.sample, scenario_of(letter.topic)
    fault = fault_of(letter.reason, sample, scenario)
    known = name_ok(letter.asset) and "\ufffd" not in letter.asset
    return {
        "letter": letter,
        "is_open": letter.status == OPEN,
        "is_sending": letter.status == SENDING,
        "now": now,
        "scenario": scenario,
        "advice": ADVICE.get(letter.reason, Advice("", "")),
        "fault": fault,
        "fault_text": fault.located_text(sample),
        "doubt": scenario and doubt_of(sample, in_force(scenario, letter.partition, letter.offset)),
        **_bytes(sample, fault),
        "fields": _lines(sample, fault),
        "headers": [(name, runs(value)) for name, value in letter.record_headers],
        "source_url": scenario and record_url(scenario.name, letter.partition, letter.offset),
        "new_url": scenario
        and letter.new_offset is not None
        and record_url(scenario.name, letter.new_partition or 0, letter.new_offset),
        "asset_url": scenario and known and asset_path(scenario.name, letter.asset),
        "verdict": judge(letter.topic, sample.key, sample.value, now),
        "form": form or _form(sample),
        "why_form": why_form or WhyForm(),
        "edited_verdict": verdict,
        "edited_runs": _edited_runs(form, verdict),
        **_chain(letter),
    }


def record_url(scenario: str, partition: int, offset: int) -> str:
    """Return the URL of the page of a record in the scenario's source topic."""
    return reverse("board:record", args=[scenario, partition, offset])


def _bytes(sample: Sample, fault: RecordFault) -> dict[str, Any]:
    value, key = sample.value or b"", sample.key or b""
    return {
        "has_key": sample.key is not None,
        "has_value": sample.value is not None,
        "key_runs": runs(key, _span(fault, "key")),
        "value_runs": runs(value, _span(fault, "value")),
        "value_hex": hex_lines(value),
        "key_hex": hex_lines(key),
        "hex_cut": len(value) > MAX_HEX,
    }


def _span(fault: RecordFault | None, where: str) -> Span | None:
    return fault.span if fault is not None and fault.where == where else None


def _lines(sample: Sample, fault: RecordFault) -> list[DecodedField]:
    """Return the fields that could be read, and the missing one."""
    fields = fields_of(sample.value)
    lines = [
        DecodedField(name[:MAX_SHOWN], runs(_part(sample, field.span)), fault.field == name)
        for name, field in list(fields.items())[:MAX_FIELDS]
    ]
    if fault.field and fault.field not in fields:
        lines.append(
            DecodedField(fault.field, [TextRun("missing", "", at_fault=True)], at_fault=True)
        )
    return lines


def _part(sample: Sample, span: Span) -> bytes:
    """Return a field's value as it arrived, at most its first MAX_SHOWN bytes."""
    return (sample.value or b"")[span[0] : min(span[1], span[0] + MAX_SHOWN)]


def _form(sample: Sample) -> RecordForm:
    key, value = sample.key or b"", sample.value or b""
    return RecordForm(
        initial={"key": key.decode(errors="replace"), "value": value.decode(errors="replace")}
    )


def _edited_runs(form: RecordForm | None, verdict: RecordVerdict | None) -> list[TextRun]:
    """Return the submitted value as runs, with the place of the fault marked."""
    if form is None or verdict is None or not form.is_valid():
        return []
    key, value = form.record()
    span = _span(verdict.fault, "value")
    return runs(value, span) if span else runs(key, _span(verdict.fault, "key"))


def _chain(letter: DeadLetter) -> dict[str, Any]:
    """Return the letter that this one was redriven from, and the letter its redrive became."""
    return {"before": _redrive_of(letter), "after": _refused_again(letter)}


def _redrive_of(letter: DeadLetter) -> DeadLetter | None:
    place = dict(letter.record_headers).get(REDRIVE_OF, b"").decode(errors="replace").split("/")
    if len(place) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 19 for p in place[1:]):
        return None
    topic, partition, offset = place
    return _at(topic, int(partition), int(offset))


def _refused_again(letter: DeadLetter) -> DeadLetter | None:
    if letter.new_offset is None or letter.new_partition is None:
        return None
    return _at(letter.new_topic, letter.new_partition, letter.new_offset)


def _at(topic: str, partition: int, offset: int) -> DeadLetter | None:
    rows = DeadLetter.objects.of_record(topic, partition, offset)
    return rows.only("id", "reason").order_by("-appended_at", "-id").first()


# ---- dead letters --------------------------------------------------------------------------------
# The list of dead letters and the page of one: inspect, edit, redrive, discard.


@require_safe
@never_cache
@role_required("read", ADMINS)
@takes(*LetterFilterForm.parameters(), "complete", "seen")
def letters(request: HttpRequest) -> HttpResponse:
    """Return the list of letters that pass the filter; scripts get only the refreshing figures.

    With `complete`, return what may stand at the end of that beginning of a filter, as JSON.
    """
    if "complete" in request.GET:
        begun = request.GET["complete"]
        return JsonResponse(LetterFilterForm.offers(begun, len(begun)))
    form, now = LetterFilterForm(request.GET), now_ms()
    valid = form.is_valid()
    criteria = form.criteria() if valid else LetterFilter()
    context = _list_context(request, criteria, now) | {"form": form}
    if is_fragment(request):
        return render(request, "dead_letters/_figures.html", context)
    list_page = page(criteria) if valid else None
    following = list_page.following if list_page else None
    context |= {
        "page": list_page,
        "table": LETTERS.ordered(criteria.sort, lambda order: f"?{criteria.query(order)}"),
        "pager": Pager.by_key(criteria.query(), "after", criteria.after, following),
    }
    return render(request, "dead_letters/letters.html", context, status=200 if valid else 422)


def _list_context(request: HttpRequest, criteria: LetterFilter, now: int) -> dict[str, Any]:
    return {
        "figures": figures(criteria, now),
        "criteria": criteria,
        "now": now,
        "address": request.get_full_path(),
        "shown_up_to": request.GET.get("seen", ""),
        "statuses": OUTCOMES,
        "most": MAX_MANY,
        "thinned": deleted_count(),
        "kept_days": KEPT_MS // DAY_MS,
        "kept_rows": MAX_LETTERS,
    }


@require_safe
@never_cache
@role_required("read", ADMINS)
def letter(request: HttpRequest, number: int) -> HttpResponse:
    """Return the page of one letter: what is wrong with it, its contents, and what can be done."""
    return _letter_page(request, get_object_or_404(DeadLetter, pk=number))


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def redrive_one(request: HttpRequest, number: int) -> HttpResponse:
    """Send the record as edited in the form, if the job would take it."""
    dead_letter, form = get_object_or_404(DeadLetter, pk=number), RecordForm(request.POST)
    if not form.is_valid():
        return _letter_page(request, dead_letter, form=form, status=422)
    key, value = form.record()
    edited = (key, value) != (dead_letter.record_key, dead_letter.record_value)
    user = user_of(request)
    verdict = judge(dead_letter.topic, key, value, now_ms(), user.username if edited else "")
    if not verdict.taken:
        return _letter_page(request, dead_letter, form=form, verdict=verdict, status=422)
    if edited and isinstance(verdict.record, Command):  # signed by who edited it
        try:
            value = gateway().signed(dead_letter.topic, key, value.strip())
        except NotSigned as problem:
            form.add_error(None, str(problem))
            return _letter_page(request, dead_letter, form=form, status=503)
    return _redrive(
        request, dead_letter, Sending(dead_letter, key, value, verdict.partition, edited), form
    )


def _redrive(
    request: HttpRequest, dead_letter: DeadLetter, sending: Sending, form: RecordForm
) -> HttpResponse:
    user = user_of(request)
    try:
        REPORTS.take(user.pk, now_ms())
    except TooMany as error:
        form.add_error(None, str(error))
        return _letter_page(request, dead_letter, form=form, status=429)
    (outcome,) = redrive([sending], user.username, now_ms)
    log_redriven(request, [outcome])
    if outcome.became in ("unsent", "taken"):
        form.add_error(None, outcome.text)
        status = 503 if outcome.became == "unsent" else 409
        dead_letter.refresh_from_db()
        return _letter_page(request, dead_letter, form=form, status=status)
    if outcome.place is None:
        messages.error(request, outcome.text)
    else:
        place = outcome.place
        text = f"Redriven: partition {place.partition}, offset {place.offset}."
        messages.success(request, text)
    return redirect("dead_letters:letter", dead_letter.pk)


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def discard_one(request: HttpRequest, number: int) -> HttpResponse:
    """Discard the letter, for a reason."""
    dead_letter, form = get_object_or_404(DeadLetter, pk=number), WhyForm(request.POST)
    if not form.is_valid():
        return _letter_page(request, dead_letter, why_form=form, status=422)
    done = discard([dead_letter.pk], user_of(request).username, form.cleaned_data["why"], now_ms())
    log_discarded(request, [dead_letter.pk], done, form.cleaned_data["why"])
    if not done:
        form.add_error(None, "Somebody has handled it already.")
        dead_letter.refresh_from_db()
        return _letter_page(request, dead_letter, why_form=form, status=409)
    messages.success(request, "Discarded.")
    return redirect("dead_letters:letter", dead_letter.pk)


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def find_out_one(request: HttpRequest, number: int) -> HttpResponse:
    """Search the log for a record that Kafka has not confirmed."""
    dead_letter = get_object_or_404(DeadLetter, pk=number)
    messages.info(request, find_out(dead_letter, now_ms()))
    return redirect("dead_letters:letter", dead_letter.pk)


def _letter_page(
    request: HttpRequest,
    dead_letter: DeadLetter,
    *,
    form: RecordForm | None = None,
    why_form: WhyForm | None = None,
    verdict: RecordVerdict | None = None,
    status: int = 200,
) -> HttpResponse:
    context = letter_context(dead_letter, now_ms(), form, why_form, verdict)
    return render(request, "dead_letters/letter.html", context, status=status)
