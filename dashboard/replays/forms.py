"""Forms of what is to be read again, and of the confirmation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django import forms

from dashboard.core.fields import UtcTimeField
from dashboard.core.scenarios import scenarios
from dashboard.replays.plan import Choice, Edges, ahead
from wire.job import MAX_REASON, bucket_name

STARTS = {
    "earliest": "The beginning of the log",
    "time": "A time",
    "offsets": "An offset in each partition",
}


class ChoiceForm(forms.Form):
    """The form of a query and scenario, and from where.

    Offsets are fields of their own, by bucket.
    """

    query = forms.ChoiceField(label="Query")
    scenario = forms.ChoiceField(label="Scenario", required=False)
    start = forms.ChoiceField(
        label="Read again from",
        choices=list(STARTS.items()),
        initial="earliest",
        widget=forms.RadioSelect,
    )
    time = UtcTimeField(label="Time (UTC)", seconds=True)
    exactly = forms.BooleanField(label="Exactly there, without any state", required=False)
    bound = UtcTimeField(label="Last time that counts (UTC)", seconds=True)

    def __init__(
        self, queries: Mapping[str, Sequence[str]], edges: Edges | None, data: Any = None
    ) -> None:
        """Prepare the form.

        queries: what each carries; edges: of their logs, None where Kafka does not answer.
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
        """Return the fields of the buckets' offsets, by scenario."""
        fields: dict[str, list[forms.BoundField]] = {}
        for name, (scenario, _) in self.buckets.items():
            fields.setdefault(scenario, []).append(self[f"offset-{name}"])
        return list(fields.items())

    def given(self) -> list[tuple[str, str]]:
        """Return what was typed, field by field, to be sent once more."""
        values = [(name, str(self.data.get(name, ""))) for name in self.fields]
        return [(name, value) for name, value in values if value]

    def clean(self) -> dict[str, Any]:
        """Return the cleaned data, with errors added for what does not fit together."""
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

    def choice(self) -> Choice:
        """Return what was chosen, of a form that is valid."""
        data = self.cleaned_data
        offsets = {name: data[f"offset-{name}"] for name in self.buckets}
        filled = {name: offset for name, offset in offsets.items() if offset is not None}
        by_offsets = data["start"] == "offsets"
        return Choice(
            query=data["query"],
            scenario=data["scenario"],
            start=data["start"],
            time=int(data["time"].timestamp() * 1000) if data["start"] == "time" else 0,
            offsets=filled if by_offsets else {},
            exactly=data["exactly"],
            bound=int(data["bound"].timestamp() * 1000) if data["bound"] else None,
        )


class ConfirmForm(forms.Form):
    """The confirmation of a plan: why, and its name typed.

    `id`: made with the form; seen: the plan.
    """

    id = forms.UUIDField(widget=forms.HiddenInput)
    seen = forms.CharField(max_length=64, widget=forms.HiddenInput)
    typed = forms.CharField(max_length=100)
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")

    def __init__(self, word: str, seen: str, data: Any = None) -> None:
        """Prepare the form.

        word: what is to be typed; seen: the digest of the plan that is shown.
        """
        initial = {"id": uuid4(), "seen": seen}
        super().__init__(data, auto_id="confirm-%s", initial=initial)
        self._word = word
        self.fields["typed"].label = f"Type {word} to confirm"
        for name in ("typed", "reason"):
            self.fields[name].widget.attrs["autocomplete"] = "off"

    def clean_typed(self) -> str:
        """Return the name, letter by letter. Raises ValidationError."""
        typed: str = self.cleaned_data["typed"]
        if typed != self._word:
            raise forms.ValidationError(f"Expected {self._word}, letter by letter.")
        return typed
