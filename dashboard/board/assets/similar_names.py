"""Assets whose names read like another one's: two rows where somebody meant one."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from dashboard.core.states.models import AssetState

_FORMS: tuple[Callable[[str], str], ...] = (
    str,
    *(lambda name, form=form: unicodedata.normalize(form, name) for form in ("NFC", "NFD", "NFKC")),
)
_CASES: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    str.upper,
    str.title,
    str.capitalize,
)
_BLANKS: tuple[Callable[[str], str], ...] = (str, str.strip, lambda name: f"{name} ")
_QUOTES: tuple[Callable[[str], str], ...] = (str, lambda name: name.strip('"'), '"{}"'.format)


def similar_names(scenario: str, asset: str) -> list[str]:
    """Return the other assets on the board whose names differ in case, blanks, quotes or form of
    Unicode alone."""
    rows = AssetState.objects.filter(scenario=scenario, asset__in=_variants(asset), purged=False)
    return sorted(rows.values_list("asset", flat=True))


def _variants(asset: str) -> set[str]:
    """Return the names that read like this one, without itself."""
    return {each for quoted in _QUOTES for each in _in_words(quoted(asset))} - {asset, ""}


def _in_words(name: str) -> Iterator[str]:
    for form in _FORMS:
        for case in _CASES:
            for blank in _BLANKS:
                yield blank(case(form(name)))
