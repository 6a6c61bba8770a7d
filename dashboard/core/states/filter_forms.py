"""The form of a list's filter in the filter language, and its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet

from dashboard.core.common.forms import ListForm
from dashboard.core.common.times import now_ms
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError
from dashboard.core.states.vocabularies import ListFilter, Vocabulary


class FilterText(forms.TextInput):
    """An input of a filter, with a list of what may be typed next."""

    input_type = "search"
    template_name = "forms/filter_text.html"

    def __init__(self) -> None:
        super().__init__(
            attrs={
                "autocomplete": "off",
                "spellcheck": "false",
                "role": "combobox",
                "aria-autocomplete": "list",
                "aria-expanded": "false",
                "aria-controls": "offers",
            }
        )


class VocabularyForm(ListForm):
    """A list's filter as one line. A subclass says its `vocabulary`, and which `rows` there are."""

    vocabulary: Vocabulary
    completes = True

    q = forms.CharField(required=False, max_length=MAX_TEXT, label="Filter", widget=FilterText)

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(self.vocabulary.renewed(data))
        self.fields["q"].widget.attrs["placeholder"] = self.vocabulary.example
        self.asked = ListFilter()

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the query parameters that the filter reads: its fields, and terms of their own."""
        return (*super().parameters(), *cls.vocabulary.parameters)

    def clean_q(self) -> str:
        """Return the text, and keep its terms. Raises ValidationError."""
        text = str(self.cleaned_data["q"])
        try:
            self.asked = self.vocabulary.read(text, now_ms())
        except FilterError as error:
            raise forms.ValidationError(f"{error} (character {error.start + 1}).") from None
        return text

    def query(self) -> str:
        """Return the filter as a query string; that of no filter says so if there is a default."""
        return super().query() or ("q=" if self.vocabulary.default else "")

    @property
    def narrows(self) -> bool:
        """Return whether the list shows another filter's rows than by itself."""
        return str(self.data.get("q", "")) != self.vocabulary.default

    @classmethod
    def offers(cls, text: str, at: int) -> dict[str, Any]:
        """Return what may stand at position `at` of the filter, for the browser."""
        return cls.vocabulary.offers(text[:MAX_TEXT], at).plain()

    def every(self) -> QuerySet[Any]:
        """Return the list's rows."""
        raise NotImplementedError

    def rows(self) -> QuerySet[Any]:
        """Return the rows that pass. The form must be valid."""
        return self.every().filter(self.asked.condition)
