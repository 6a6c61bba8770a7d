"""What the page of one letter shows."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.urls import reverse

from dashboard.dead_letters.byte_display import MAX_HEX, Run, Span, hex_lines, runs
from dashboard.dead_letters.diagnosis import (
    ADVICE,
    Advice,
    Fault,
    Sample,
    doubt_of,
    fault_of,
    fields_of,
)
from dashboard.dead_letters.forms import RecordForm, WhyForm
from dashboard.dead_letters.models import FATES, OPEN, SENDING, DeadLetter
from dashboard.dead_letters.redrive import REDRIVE_OF
from dashboard.dead_letters.stored_records import headers_of, place_of, sample_of
from dashboard.dead_letters.validation import Verdict, judge, scenario_of
from dashboard.rules.active_rule import in_force
from dashboard.states.board_rows import asset_path
from domain.names import name_ok

# How much of a decoded field is shown, bytes.
MAX_SHOWN = 300
MAX_FIELDS = 50


class Line(NamedTuple):
    """A decoded field."""

    name: str
    value: list[Run]
    at_fault: bool


def letter_context(
    letter: DeadLetter,
    now: int,
    form: RecordForm | None = None,
    why_form: WhyForm | None = None,
    verdict: Verdict | None = None,
) -> dict[str, Any]:
    """Return the page's context. verdict: on what a form held, if that was refused."""
    sample, scenario = sample_of(letter), scenario_of(letter.topic)
    fault = fault_of(letter.reason, sample, scenario)
    known = name_ok(letter.asset) and "\ufffd" not in letter.asset
    return {
        "letter": letter,
        "place": place_of(letter),
        "fate": FATES.get(letter.fate, letter.fate),
        "is_open": letter.fate == OPEN,
        "is_sending": letter.fate == SENDING,
        "now": now,
        "scenario": scenario,
        "advice": ADVICE.get(letter.reason, Advice("", "")),
        "fault": fault,
        "fault_text": fault.told(sample),
        "doubt": scenario and doubt_of(sample, in_force(scenario, letter.partition, letter.offset)),
        **_bytes(sample, fault),
        "fields": _lines(sample, fault),
        "headers": [(name, runs(value)) for name, value in headers_of(letter)],
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
    """Return the address of the page of a record in the scenario's source topic."""
    return reverse("board:record", args=[scenario, partition, offset])


def _bytes(sample: Sample, fault: Fault) -> dict[str, Any]:
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


def _span(fault: Fault | None, where: str) -> Span | None:
    return fault.span if fault is not None and fault.where == where else None


def _lines(sample: Sample, fault: Fault) -> list[Line]:
    """Return the fields that could be read, and the one that is missing."""
    found = fields_of(sample.value)
    lines = [
        Line(name[:MAX_SHOWN], runs(_part(sample, field.span)), fault.field == name)
        for name, field in list(found.items())[:MAX_FIELDS]
    ]
    if fault.field and fault.field not in found:
        lines.append(Line(fault.field, [Run("missing", "", at_fault=True)], at_fault=True))
    return lines


def _part(sample: Sample, span: Span) -> bytes:
    """Return a field's value as it came, or its first MAX_SHOWN bytes."""
    return (sample.value or b"")[span[0] : min(span[1], span[0] + MAX_SHOWN)]


def _form(sample: Sample) -> RecordForm:
    key, value = sample.key or b"", sample.value or b""
    return RecordForm(
        initial={"key": key.decode(errors="replace"), "value": value.decode(errors="replace")}
    )


def _edited_runs(form: RecordForm | None, verdict: Verdict | None) -> list[Run]:
    """Return what a form held, with the place marked for which it was refused."""
    if form is None or verdict is None or not form.is_valid():
        return []
    key, value = form.record()
    span = _span(verdict.fault, "value")
    return runs(value, span) if span else runs(key, _span(verdict.fault, "key"))


def _chain(letter: DeadLetter) -> dict[str, Any]:
    """Return the letter that this record was a redrive of, and the one that its redrive became."""
    return {"before": _redrive_of(letter), "after": _refused_again(letter)}


def _redrive_of(letter: DeadLetter) -> DeadLetter | None:
    place = dict(headers_of(letter)).get(REDRIVE_OF, b"").decode(errors="replace").split("/")
    if len(place) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 19 for p in place[1:]):
        return None
    topic, partition, offset = place
    return _at(topic, int(partition), int(offset))


def _refused_again(letter: DeadLetter) -> DeadLetter | None:
    if letter.new_offset is None or letter.new_partition is None:
        return None
    return _at(letter.new_topic, letter.new_partition, letter.new_offset)


def _at(topic: str, partition: int, offset: int) -> DeadLetter | None:
    rows = DeadLetter.objects.filter(topic=topic, partition=partition, offset=offset)
    return rows.only("id", "reason").first()
