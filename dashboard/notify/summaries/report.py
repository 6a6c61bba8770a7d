"""A summary as its page shows it: figures, what has changed, and links to the lists behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import whole_percent
from dashboard.core.common.times import field_text
from dashboard.core.states.board_rows import asset_path
from dashboard.notify.summaries import phrases
from dashboard.notify.summaries.calculation import has_sums_before
from dashboard.notify.summaries.charts import (
    BudgetLine,
    bar,
    budget_line,
    calendar,
    gaps,
    plotted,
    timelines,
    week,
)
from dashboard.notify.summaries.figures import (
    EXPLAINED,
    BulkRun,
    Burn,
    Delays,
    FigureGroup,
    Figures,
    OverrideSpan,
    PeriodSummary,
    Question,
    TargetStatus,
    WorstAsset,
)
from dashboard.notify.summaries.forms import SERVICE, address
from dashboard.notify.summaries.lists import BAD, MAINTENANCE, UNCONFIRMED
from dashboard.notify.summaries.models import FALSE, FigureCheck, ImportedHistory
from dashboard.notify.summaries.phrases import FigureTrend, changed, count, length, percent
from domain.history.periods import Period

# ---- links ---------------------------------------------------------------------------------------
# The addresses of the lists behind the figures of a summary.


@dataclass(frozen=True)
class Links:
    """Addresses of the lists behind a summary's figures, of all its scenarios or of one, of all
    assets or of those with a value of its label ("": without it).

    If the period goes on, they cover it to its end, so that a list is current whenever it is
    opened.
    """

    summary: PeriodSummary
    scenario: str = ""
    value: str | None = None

    @property
    def incidents(self) -> str:
        """The list of the incidents that were going on in the period; of a value, of its groups."""
        return self.of_incidents() if self.value is None else self._groups()

    @property
    def acknowledged(self) -> str:
        """The list of the incidents whose delay until acknowledgement counts."""
        return self.of_incidents(of_time="began", status="acknowledged")

    @property
    def cleared(self) -> str:
        """The list of the incidents whose delay until the all-clear counts."""
        return self.of_incidents(of_time="ended")

    @property
    def flapping(self) -> str:
        """The list of the incidents that flapped."""
        return self.of_incidents(of_time="began", flapping="on")

    @property
    def bad(self) -> str:
        """The list of the times in bad states."""
        return self._spans(BAD)

    @property
    def unconfirmed(self) -> str:
        """The list of the unconfirmed times."""
        return self._spans(UNCONFIRMED)

    @property
    def maintenance(self) -> str:
        """The list of the times of maintenance."""
        return self._spans(MAINTENANCE)

    @property
    def false_alarms(self) -> str:
        """The list of the alarms that ended in the period and came to nothing."""
        return self._address("summaries:alarms", [("outcome", FALSE), *self._label])

    def of_asset(self, scenario: str, asset: str) -> str:
        """Return the list of the incidents of one asset."""
        return Links(self.summary, scenario).of_incidents(asset=asset)

    def _spans(self, kind: str) -> str:
        hours = [("hours", SERVICE)] if self.summary.question.service else []
        return self._address("summaries:spans", [("kind", kind), *hours, *self._label])

    def of_incidents(self, **more: str) -> str:
        """Return the list of incidents by asset. more: of its filter."""
        return self._address("incidents:by-asset", [*more.items(), *self._label])

    def _groups(self) -> str:
        value = ("value", self.value) if self.value else ("without", "on")
        return self._address("incidents:groups", [("label", self.summary.question.label), value])

    def _address(self, name: str, parts: Iterable[tuple[str, str]]) -> str:
        scenarios = [self.scenario] if self.scenario else self.summary.counting
        zone = ZoneInfo(self.summary.zone)
        whole = self.summary.question.period.span(zone)
        time = [("start", field_text(whole.begin, zone=zone))]
        time += [("end", field_text(whole.end, zone=zone)), ("zone", self.summary.zone)]
        query = [*(("scenario", each) for each in scenarios), *time, *parts]
        return f"{reverse(name)}?{urlencode(query)}"

    @property
    def _label(self) -> list[tuple[str, str]]:
        key = self.summary.question.label
        return [] if self.value is None else [("label", f"{key}:{self.value}")]


# ---- report --------------------------------------------------------------------------------------
# A summary as its page shows it: figures with what has changed, and how each is counted.

FEW = 10
"""How many of the worst assets are shown at first."""


class Tile(NamedTuple):
    """A figure with its explanation. name: from EXPLAINED; link: to the list behind it; bar: 0 to
    100, or None for no bar."""

    name: str
    title: str
    value: str
    note: str = ""
    change: FigureTrend | None = None
    link: str = ""
    bar: int | None = None

    @property
    def explanation(self) -> str:
        """How the figure is counted."""
        return EXPLAINED[self.name]


class FiguresRow(NamedTuple):
    """The figures of a scenario or of a label's value, as a row of a table."""

    group: FigureGroup
    links: Links
    target: str
    left: str
    bar: int | None
    change: FigureTrend | None
    observed: str
    bad_states: str

    @property
    def now(self) -> Figures:
        """The figures of the period."""
        return self.group.now


class TargetRow(NamedTuple):
    """How a scenario did by its target, as a row of a table."""

    status: TargetStatus
    target: str
    left: str
    line: BudgetLine | None
    burn: list[tuple[str, Burn]]
    link: str


class Worst(NamedTuple):
    """An asset with much time in bad states."""

    asset: WorstAsset
    scenario: str
    url: str
    link: str
    change: FigureTrend | None


@dataclass(frozen=True)
class SummaryReport:
    """Everything that the page of a summary shows."""

    summary: PeriodSummary

    @property
    def question(self) -> Question:
        """The question that was asked."""
        return self.summary.question

    @property
    def noun(self) -> str:
        """The word for an incident."""
        return phrases.incident_noun(self.summary)

    @property
    def links(self) -> Links:
        """The links to the lists behind the figures."""
        return Links(self.summary)

    def context(self) -> dict[str, Any]:
        """Return the template's context."""
        summary, check = self.summary, FigureCheck.objects.newest_ended()
        return {
            "summary": summary,
            "zone": ZoneInfo(summary.zone),
            "empty": summary.empty
                     and (summary.first_at is None or summary.whole.now.observed.seen),
            "period": self.question.period,
            "sentence": phrases.sentence(summary),
            "before_name": phrases.before_name(summary),
            "title": phrases.period_title(self.question.period),
            "days": phrases.days_in_words(self.question.period),
            "organisation": settings.TALLYBOARD.organisation,
            "bad_states": phrases.bad_states_of(summary),
            "query": address(self.question),
            "ways": self._ways(),
            "tiles": self._tiles(),
            "classes": self._classes(),
            "scenario_rows": [self._row(each, Links(summary, each.name),
                                        phrases.bad_states(scenarios()[each.name]))
                              for each in summary.scenarios],
            "label_rows": [self._row(each, Links(summary, value=each.name))
                           for each in summary.labels],
            "target_rows": [self._target_row(each) for each in summary.targets],
            "calendar": calendar(summary.heat, self._page_of),
            "week": week(summary),
            "timelines": timelines(summary, scenarios()),
            "gaps": gaps(summary),
            "worst": self._worst()[:FEW],
            "more_worst": self._worst()[FEW:],
            "plotted": plotted(summary),
            "sums_alone": has_sums_before(summary),
            "uncompared": phrases.uncompared(summary),
            "check": check,
            "imported": ImportedHistory.objects.within(summary.question.scenarios, summary.span),
            "imported_before": ImportedHistory.objects.within(
                summary.question.scenarios, summary.before
            ),
            "checked": phrases.checked(check, summary),
            "before_observed": phrases.observed(summary.whole.before.observed),
            "explained": EXPLAINED,
            "overrides": [(each, _scenario_of(each.scenario), _state_of(each),
                           asset_path(each.scenario, each.asset)) for each in summary.overrides],
            "runs": [(each, _scenario_of(each.scenario), _state_of(each),
                      reverse("bulk:run", args=[each.id])) for each in summary.runs],
        }  # fmt: skip

    def _ways(self) -> dict[str, str]:
        """Return the addresses of the previous and the next period, "" if that has not begun."""
        period = self.question.period
        after = "" if self.summary.running else self._page_of(period.next)
        return {"before": self._page_of(period.before), "next": after}

    def _page_of(self, period: Period) -> str:
        question = self.question
        other = Question(question.scenarios, period, question.label, question.service)
        return f"{reverse('summaries:summary')}?{address(other)}"

    # ---- tiles --------------------------------------------------------------------------------

    def _tiles(self) -> list[Tile]:
        """Return the tiles of the figures, or say that nothing was observed."""
        return self._seen([*self._figures(), *self._delays(), *self._numbers()])

    def _seen(self, tiles: list[Tile]) -> list[Tile]:
        if self.summary.whole.now.observed.seen:
            return tiles
        return [Tile(tile.name, tile.title, phrases.NOT_OBSERVED) for tile in tiles]

    def _figures(self) -> list[Tile]:
        now, before = self.summary.whole.now, self.summary.whole.before
        return [
            Tile(
                "availability", "Availability", percent(now.times.availability),
                self._target_note(),
                self._changed(now.times.availability, before.times.availability, phrases.of_share,
                        less_is="worse"),
                self.links.incidents,
            ),
            self._budget_tile(),
            Tile(
                "incidents", phrases.plural(self.noun).capitalize(), f"{now.incidents:,}",
                f"on {count(now.assets, 'asset')}",
                self._changed(now.incidents, before.incidents, phrases.of_number),
                self.links.incidents,
            ),
            Tile(
                "bad", "Time in bad states", length(now.times.bad), self._bad_note(),
                self._changed(now.times.bad, before.times.bad, phrases.of_time),
                self.links.bad,
            ),
        ]  # fmt: skip

    def _bad_note(self) -> str:
        states = phrases.bad_states_of(self.summary)
        return f"{states}; all assets together" if states else "all assets together"

    def _delays(self) -> list[Tile]:
        now, before = self.summary.whole.now, self.summary.whole.before
        return [
            self._delay("acknowledged", "To acknowledge", now.acknowledged, before.acknowledged,
                        self.links.acknowledged),
            self._delay("cleared", "To all-clear", now.cleared, before.cleared,
                        self.links.cleared),
        ]  # fmt: skip

    def _numbers(self) -> list[Tile]:
        now, before = self.summary.whole.now, self.summary.whole.before
        return [
            Tile(
                "flapping", "Flapping", f"{now.flapping:,}", "began again within 15 minutes",
                self._changed(now.flapping, before.flapping, phrases.of_number),
                self.links.flapping,
            ),
            Tile(
                "false_alarms", "False alarms", f"{now.false_alarms:,}", "came to nothing",
                self._changed(now.false_alarms, before.false_alarms, phrases.of_number),
                self.links.false_alarms,
            ),
        ]  # fmt: skip

    def _changed(
        self,
        now: float | None,
        before: float | None,
        text: Callable[[float], str],
        *,
        less_is: str = "better",
        group: FigureGroup | None = None,
    ) -> FigureTrend | None:
        """Return how a figure differs, by default one of the total; None if its periods cannot be
        compared."""
        if not (group or self.summary.whole).comparable:
            return None
        return changed(now, before, text, less_is=less_is)

    def _delay(self, name: str, title: str, now: Delays, before: Delays, link: str) -> Tile:
        if not now.count:
            return Tile(name, title, phrases.NOTHING, "none in this time", None, link)
        note = f"95 of 100 within {length(now.p95)}; {count(now.count, self.noun)}"
        change = self._changed(now.median, before.median, phrases.of_time)
        return Tile(name, title, length(now.median), f"median; {note}", change, link)

    def _target_note(self) -> str:
        budget = self.summary.whole.now.budget
        if budget is None:
            return "targets are by scenario" if self.summary.targeted else "no target is set"
        own = phrases.observed(self.summary.whole.now.observed)
        return f"target {phrases.target(budget.target)}, judged over {own}"

    def _budget_tile(self) -> Tile:
        budget = self.summary.whole.now.budget
        if budget is None:
            return _targets_tile(self.summary)
        if self.summary.whole.now.times.availability is None:
            note = "not judged: no asset had a confirmed state"
            return Tile("budget", "Error budget left", phrases.NOTHING, note)
        share = "" if budget.share is None else f"{whole_percent(budget.share)} of "
        note = f"{share}{length(budget.whole)}"
        link = self.links.bad
        return Tile("budget", "Error budget left", length(budget.left), note, None, link,
                    bar(budget))  # fmt: skip

    def _classes(self) -> list[Tile]:
        """Return the tiles of the times that are neither good nor bad."""
        now, before = self.summary.whole.now.times, self.summary.whole.before.times
        return self._seen([
            Tile(
                "unconfirmed", "Unconfirmed", length(now.unconfirmed), _part(now.unconfirmed, now),
                self._changed(now.unconfirmed, before.unconfirmed, phrases.of_time),
                self.links.unconfirmed,
            ),
            Tile(
                "maintenance", "Maintenance", length(now.maintenance), _part(now.maintenance, now),
                self._changed(now.maintenance, before.maintenance, phrases.of_time, less_is=""),
                self.links.maintenance,
            ),
        ])  # fmt: skip

    # ---- tables -------------------------------------------------------------------------------

    def _row(self, group: FigureGroup, links: Links, bad_states: str = "") -> FiguresRow:
        budget, times = group.now.budget, group.now.times
        judged = budget is not None and times.availability is not None
        shares = (group.now.times.availability, group.before.times.availability)
        return FiguresRow(
            group,
            links,
            phrases.verdict(group.now),
            length(budget.left) if budget is not None and judged else phrases.NOTHING,
            bar(budget) if judged else None,
            self._changed(*shares, phrases.of_share, less_is="worse", group=group),
            phrases.observed(group.now.observed),
            bad_states,
        )

    def _target_row(self, status: TargetStatus) -> TargetRow:
        known = status.figures.target_met is not None
        return TargetRow(
            status,
            phrases.verdict(status.figures),
            length(status.budget.left) if known else phrases.NOTHING,
            budget_line(status) if known else None,
            [(phrases.burn(each), each) for each in status.burn],
            Links(self.summary, status.scenario).bad,
        )

    def _worst(self) -> list[Worst]:
        groups = {group.name: group for group in self.summary.scenarios}
        return [
            Worst(
                each,
                _scenario_of(each.scenario),
                asset_path(each.scenario, each.asset),
                self.links.of_asset(each.scenario, each.asset),
                self._changed(each.bad, each.before, phrases.of_time, group=groups[each.scenario]),
            )
            for each in self.summary.worst
        ]


def _targets_tile(summary: PeriodSummary) -> Tile:
    """Return the tile of several scenarios' targets, or that says that there is none."""
    if not summary.targeted:
        return Tile("budget", "Targets met", phrases.NOTHING, "no target is set")
    judged = [each for each in summary.targeted if each.now.target_met is not None]
    met = sum(bool(each.now.target_met) for each in judged)
    value = f"{met} of {len(judged)}" if judged else phrases.NOTHING
    missed = ", ".join(each.title for each in judged if not each.now.target_met)
    return Tile("budget", "Targets met", value, f"missed: {missed}" if missed else _unmet(summary))


def _unmet(summary: PeriodSummary) -> str:
    without = [each.title for each in summary.counted if not each.now.budget]
    return f"without a target: {', '.join(without)}" if without else "each by itself, as below"


def _part(ms: int, times: Any) -> str:
    return f"{percent(ms / times.present)} of all time" if times.present else ""


def _state_of(action: OverrideSpan | BulkRun) -> str:
    """Return the label of the state that was set, "" for none."""
    known = scenarios().get(action.scenario)
    return known.spec(action.state).label if known and action.state else action.state


def _scenario_of(name: str) -> str:
    known = scenarios().get(name)
    return known.title if known else name
