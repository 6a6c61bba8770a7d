"""Status pages for customers: what they show, and the pages on which admins make them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any

from allauth.core.internal.ratelimit import truncate_ip
from csp.constants import NONE, SELF
from csp.decorators import csp
from django import forms
from django.contrib.auth.decorators import login_not_required
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, address_of, record
from dashboard.core.common.access import ADMINS, Limit, TooMany, user_of
from dashboard.core.common.forms import FormPage, scenario_choices
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import DAY_MS, now_ms, utc_minute
from dashboard.core.job.status import problems, unwatched_since
from dashboard.core.states.board_rows import beneath_of
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed
from dashboard.notify.summaries.models import MAX_ADDRESS, MAX_INTRO, MAX_TITLE, StatusPage
from dashboard.watch.annotations.labels import fault
from dashboard.watch.incidents.models import Incident, Window
from domain.scenario import Scenario
from wire.sink import state_value

# ---- what a page shows ---------------------------------------------------------------------------
# Names of assets and words that an admin has chosen, times, and nothing else: no agent, vote, user,
# reason or scenario. A state in doubt is never shown as good, and no state is where the board is
# not live.

MOST_ASSETS = 500
"""Most assets that a page lists, the worst ones."""
MOST_WINDOWS, MOST_INCIDENTS, MOST_NAMES = 50, 100, 20
"""Most windows and incidents on a page, most assets that one line names."""
AHEAD_MS = 14 * DAY_MS
"""How long ahead maintenance is announced."""


class Level(IntEnum):
    """How an asset fares, the worst first."""

    BAD = 0
    LIMITED = 1
    UNCLEAR = 2
    GOOD = 3


MARKS = {
    Level.BAD: ("cross", "red"),
    Level.LIMITED: ("triangle", "amber"),
    Level.UNCLEAR: ("question", "grey"),
    Level.GOOD: ("check", "green"),
}
"""Shape and colour of each level."""
WORDS = {Level.BAD: "Disrupted", Level.LIMITED: "Limited", Level.GOOD: "Working"}
"""What a page calls states for which nobody has chosen a word."""
CHECKED, UNKNOWN = "Being checked", "Not known now"


@dataclass(frozen=True, order=True, slots=True)
class AssetLine:
    """An asset on a page. checked: whether its state is in doubt."""

    level: Level
    name: str
    word: str
    checked: bool

    @property
    def mark(self) -> tuple[str, str]:
        """Return the shape and the colour of its state."""
        return MARKS[self.level]


@dataclass(frozen=True, slots=True)
class Announcement:
    """Maintenance. begin, end: Unix ms; names: of assets; more: how many are not named."""

    begin: int
    end: int
    names: Sequence[str]
    more: int
    running: bool

    @property
    def text(self) -> str:
        """Return when it is."""
        return f"{utc_minute(self.begin)} to {utc_minute(self.end)}"


@dataclass(frozen=True, slots=True)
class PastIncident:
    """An incident. began_at: Unix ms; lasted: in words; ended: whether it is over."""

    began_at: int
    name: str
    word: str
    lasted: str
    ended: bool

    @property
    def begin(self) -> str:
        """Return when it began."""
        return utc_minute(self.began_at)


@dataclass(frozen=True, slots=True)
class PublicStatus:
    """What a page says at a time. late_since: since when the board is not live, None where it is
    live, 0 where nobody knows; more: whether there are assets that are not listed."""

    at: int
    late_since: int | None
    lines: Sequence[AssetLine]
    more: bool
    announcements: Sequence[Announcement]
    incidents: Sequence[PastIncident]

    @property
    def counts(self) -> list[tuple[str, int, tuple[str, str]]]:
        """Return each word with its number of assets and its mark, the worst first."""
        counted = Counter((line.level, line.word) for line in self.lines)
        return [(word, n, MARKS[level]) for (level, word), n in sorted(counted.items())]


def report_of(page: StatusPage, now: int) -> PublicStatus:
    """Return what a page says at `now` (Unix ms)."""
    late = _late_since(page, now)
    by_scenario = {each.name: list(page.rows(each.name)[: MOST_ASSETS + 1])
                   for each in page.configured_scenarios}  # fmt: skip
    lines = _worst_by_name(
        line
        for name, rows in by_scenario.items()
        for line in _lines(page, scenarios()[name], rows, now, live=late is None)
    )
    names = {name: [row.asset for row in rows] for name, rows in by_scenario.items()}
    return PublicStatus(
        now,
        late,
        lines[:MOST_ASSETS],
        len(lines) > MOST_ASSETS,
        list(islice(_announcements(names, now), MOST_WINDOWS)),
        _incidents(page, now),
    )


def _late_since(page: StatusPage, now: int) -> int | None:
    """Return since when a page's states are old; 0 if that is not known, None if they are not.

    They are read from the database, so a database that is late makes them old, too.
    """
    stale = [
        each
        for scenario in page.configured_scenarios
        for each in problems(now, scenario.name)
        if each["stale"] or each["kind"] == "database"
    ]
    return min((each["since"] or 0 for each in stale), default=None)


def _lines(
    page: StatusPage, scenario: Scenario, rows: Iterable[AssetState], now: int, *, live: bool
) -> Iterator[AssetLine]:
    """Yield a line for each of these assets. live: whether the board is."""
    silent = unwatched_since(scenario, now) is not None
    for row in rows:
        level = level_of(scenario, row.state)
        checked = silent or is_doubted(scenario, row)
        word = _word(page, scenario, row.state)
        if level is Level.GOOD and (checked or not live):
            level, word = Level.UNCLEAR, CHECKED if live else UNKNOWN
        yield AssetLine(level, row.asset, word, checked and level < Level.UNCLEAR)


def level_of(scenario: Scenario, state: str) -> Level:
    """Return how an asset in this state fares."""
    spec = next((each for each in scenario.states if each.name == state), None)
    if spec is None:
        return Level.UNCLEAR
    if scenario.is_good(state):
        return Level.GOOD
    return Level.BAD if spec.colour == "red" else Level.LIMITED


def _word(page: StatusPage, scenario: Scenario, state: str) -> str:
    """Return what a page calls a state."""
    own = page.words.get(scenario.name, {}).get(state)
    return own or WORDS.get(level_of(scenario, state), UNKNOWN)


def is_doubted(scenario: Scenario, row: AssetState) -> bool:
    """Return whether the board marks a state as one not to rely on, or a worse one is pinned
    away."""
    if row.unconfirmed or row.disputed is not None or row.doubt is not None:
        return True
    return row.overridden and beneath_of(scenario, state_value(row.record)) is not None


def _worst_by_name(lines: Iterable[AssetLine]) -> list[AssetLine]:
    """Return one line for each name, as several scenarios may watch an asset; the worst first."""
    by_name: dict[str, AssetLine] = {}
    for line in sorted(lines):
        by_name.setdefault(line.name, line)
    return list(by_name.values())


def _announcements(names: Mapping[str, list[str]], now: int) -> Iterator[Announcement]:
    """Yield the maintenance that goes on or is to come of these assets, given by scenario."""
    windows = Window.objects.shown().filter(
        scenario__in=["", *names], cancelled_at=None, end__gt=now, begin__lt=now + AHEAD_MS
    )
    for window in windows.order_by("begin", "pk"):
        covered = sorted(_covered(window, names, now))
        if covered:
            shown = covered[:MOST_NAMES]
            more = len(covered) - len(shown)
            yield Announcement(window.begin, window.end, shown, more, window.begin <= now)


def _covered(window: Window, names: Mapping[str, list[str]], now: int) -> set[str]:
    covered: set[str] = set()
    for scenario in window.configured_scenarios:
        if mine := names.get(scenario.name):
            to_come = window.is_filter_to_come
            rows = window.matching(scenario, now) if to_come else window.on_board(scenario)
            covered.update(rows.filter(asset__in=listed(mine)).values_list("asset", flat=True))
    return covered


def _incidents(page: StatusPage, now: int) -> list[PastIncident]:
    """Return the incidents of the page's days, newest first."""
    since = now - page.days * DAY_MS
    rows = [
        _past(page, scenario, row)
        for scenario in page.configured_scenarios
        for row in page.incidents(scenario.name, since)[:MOST_INCIDENTS]
    ]
    return sorted(rows, key=lambda each: -each.began_at)[:MOST_INCIDENTS]


def _past(page: StatusPage, scenario: Scenario, row: Incident) -> PastIncident:
    word = _word(page, scenario, row.worst)
    return PastIncident(row.began_at, row.asset, word, row.lasted, row.ended_at is not None)


# ---- the page for customers ----------------------------------------------------------------------
# Read without a login. A process makes it at most once in CACHED_S. It knows no session, and says
# the same of a page that is not published as of one that was never made.

CACHED_S = 5
_MAKING = Lock()
VISITS = Limit("status-pages", 60, cache="visitors")
"""How often one address, or one network of IPv6, may open status pages, a minute."""
POLICY = {
    "default-src": [NONE],
    "style-src": [SELF],
    "script-src": [SELF],
    "connect-src": [SELF],
    "img-src": [SELF],
    "base-uri": [NONE],
    "form-action": [NONE],
    "frame-ancestors": [NONE],
}
HEADERS = {"X-Robots-Tag": "noindex, nofollow, noarchive", "Referrer-Policy": "no-referrer"}


@login_not_required
@require_safe
@csp(POLICY)  # type: ignore[arg-type] # the library knows no views with arguments
def status_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Return a published page to anybody; 404 without one, 429 to a network that asks too much."""
    now = now_ms()
    try:
        VISITS.take(truncate_ip(address_of(request)), now)
    except TooMany as error:
        return _answer(_absent("Too many visits. Try again in a minute."), 429, error.retry_after)
    page = StatusPage.objects.published(slug)
    if page is None:
        return _answer(_absent("There is no such page."), 404)
    key = f"status-page:{page.pk}:{page.changed_at}"
    with _MAKING:  # whoever waited finds what another one made
        body = caches["figures"].get_or_set(key, partial(_page, page, now), CACHED_S)
    return _answer(str(body), 200)


def _page(page: StatusPage, now: int) -> str:
    context = {"page": page, "report": report_of(page, now), "now": now}
    return render_to_string("summaries/status_pages/public.html", context)


def _absent(words: str) -> str:
    return render_to_string("summaries/status_pages/public.html", {"words": words})


def _answer(body: str, status: int, retry_after: int = 0) -> HttpResponse:
    cached = f"public, max-age={CACHED_S}" if status == 200 else "no-store"
    headers = HEADERS | {"Cache-Control": cached}
    if retry_after:
        headers |= {"Retry-After": str(retry_after)}
    return HttpResponse(body, status=status, headers=headers)


# ---- admins' pages -------------------------------------------------------------------------------

MOST_LABELS, MAX_WORD, MAX_LINES = 50, 60, 20_000
TABLE = Table("status-pages", "Title", "Status", "Address", "Labels", Column.time("Changed"))
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text that are not blank."""
    return [line for line in map(str.strip, text.split("\n")) if line]


class LinesField(forms.CharField):
    """A text of one entry a line."""

    def __init__(self, label: str, help_text: str, *, required: bool) -> None:
        attrs = {"rows": 4, "spellcheck": "false", "autocomplete": "off"}
        super().__init__(
            label=label,
            help_text=help_text,
            required=required,
            max_length=MAX_LINES,
            widget=forms.Textarea(attrs=attrs),
        )


class StatusPageForm(forms.Form):
    """A status page: its name, what is on it, and what it calls states."""

    title = forms.CharField(max_length=MAX_TITLE, label="Title")
    slug = forms.CharField(
        max_length=MAX_ADDRESS,
        label="Name in the address",
        help_text="Small letters, digits and single hyphens. Whoever knows it can read the page.",
    )
    intro = forms.CharField(
        required=False,
        max_length=MAX_INTRO,
        label="Introduction",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    scenarios = forms.MultipleChoiceField(label="Scenarios", widget=forms.CheckboxSelectMultiple)
    labels = LinesField(
        "Labels, one per line",
        "Such as <code>customer=Acme</code>. Assets to which people (not agents) gave one of "
        "them are on the page, with their names.",
        required=True,
    )
    words = LinesField(
        "Words for states, one per line",
        "Such as <code>attack/under-attack=Slow</code>. Others are Disrupted, Limited or Working.",
        required=False,
    )
    days = forms.IntegerField(min_value=0, max_value=90, initial=7, label="Days of incidents")
    published = forms.BooleanField(
        required=False, label="Published: everybody may read it without a login"
    )

    def __init__(self, data: Any = None, row: StatusPage | None = None) -> None:
        super().__init__(data, initial=typed_page(plain_page(row)) if row else None)
        self.row = row
        choice = self.fields["scenarios"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = scenario_choices()

    def clean_slug(self) -> str:
        """Return the name. Raises ValidationError if it is none, or another page has it."""
        slug = str(self.cleaned_data["slug"])
        if not _SLUG.fullmatch(slug):
            raise forms.ValidationError("Expected small letters, digits and single hyphens.")
        others = StatusPage.objects.filter(slug=slug)
        if others.exclude(pk=self.row.pk if self.row else 0).exists():
            raise forms.ValidationError("Expected a name that no other page has.")
        return slug

    def clean_labels(self) -> list[list[str]]:
        """Return the labels as pairs of key and value. Raises ValidationError."""
        labels = [_pair(line, "customer=Acme") for line in lines_of(self.cleaned_data["labels"])]
        if len(labels) > MOST_LABELS:
            raise forms.ValidationError(f"Expected at most {MOST_LABELS} labels.")
        for key, value in labels:
            if why := fault(key, value):
                raise forms.ValidationError(f"{key}={value}: {why}.")
        return labels

    def clean_words(self) -> dict[str, dict[str, str]]:
        """Return the words by scenario and state. Raises ValidationError."""
        words: dict[str, dict[str, str]] = {}
        for line in lines_of(self.cleaned_data["words"]):
            place, word = _pair(line, "attack/under-attack=Slow")
            name, _, state = place.partition("/")
            scenario = scenarios().get(name)
            if scenario is None or state not in [each.name for each in scenario.states]:
                raise forms.ValidationError(f"{place}: expected a scenario and one of its states.")
            if not word or len(word) > MAX_WORD or not word.isprintable():
                raise forms.ValidationError(
                    f"{place}: expected 1 to {MAX_WORD} printable characters."
                )
            words.setdefault(name, {})[state] = word
        return words

    def save(self, request: HttpRequest, now: int) -> StatusPage:
        """Store the page of a valid form at `now` (Unix ms), and record that in the audit."""
        row = self.row or StatusPage()
        row.user = getattr(request, "auth", None) or user_of(request)
        row.username, row.changed_at = row.user.get_username(), now
        for name, value in self.cleaned_data.items():
            setattr(row, name, value)
        row.save()
        action = "status-page.changed" if self.row else "status-page.created"
        record(Actor.of(request), action, target=row.slug, **self.cleaned_data)
        return row


PLAIN_FIELDS = ("title", "slug", "intro", "scenarios", "words", "days", "published")
"""The fields that a page has as the API gives them."""


def plain_page(row: StatusPage) -> dict[str, Any]:
    """Return a page as the API gives it."""
    labels = ["=".join(pair) for pair in row.labels]
    same = {name: getattr(row, name) for name in PLAIN_FIELDS}
    return same | {"labels": labels, "changed_at": row.changed_at}


def typed_page(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of the API as it is typed into the form."""
    words = (
        f"{scenario}/{state}={word}"
        for scenario, states in plain["words"].items()
        for state, word in states.items()
    )
    return {**plain, "labels": "\n".join(plain["labels"]), "words": "\n".join(words)}


def _pair(line: str, example: str) -> list[str]:
    """Return what is before and after the sign of equality. Raises ValidationError."""
    key, equals, value = (part.strip() for part in line.partition("="))
    if not key or not equals:
        raise forms.ValidationError(f"{line}: expected a pair, such as {example}.")
    return [key, value]


def delete_page(request: HttpRequest, row: StatusPage) -> None:
    """Delete a page, and record that in the audit."""
    row.delete()
    record(Actor.of(request), "status-page.deleted", target=row.slug)


class StatusPageList(FormPage):
    """The list of status pages."""

    template_name = "summaries/status_pages/pages.html"
    roles = ADMINS

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the pages, by title."""
        rows = StatusPage.objects.order_by("title", "pk")
        return super().get_context_data(rows=rows, table=TABLE, **context)


class StatusPageEditor(FormPage):
    """The form for a status page, new or not."""

    queryset = StatusPage.objects.all()
    template_name = "summaries/status_pages/page.html"
    form_class = StatusPageForm
    form_takes = ("row",)
    permission = "command"
    roles = ADMINS

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Store the page, or delete it."""
        if self.row is None or request.POST.get("do") != "delete":
            return super().post(request, *args, **kwargs)
        title = self.row.title
        delete_page(request, self.row)
        return self.done(f"The page {title} is deleted.", "status:pages")

    def form_valid(self, form: StatusPageForm) -> HttpResponse:
        """Store the page."""
        row = form.save(self.request, self.now)
        return self.done(f"The page {row.title} is saved.", "status:pages")
