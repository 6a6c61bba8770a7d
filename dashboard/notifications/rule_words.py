"""Rules of notifications in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dashboard.core.scenarios import scenarios
from dashboard.core.times import exact_span
from dashboard.notifications.models import Channel, Rota
from dashboard.notifications.rule_forms import AGENT_CHOICES
from domain.notifications.hours import Hours
from domain.notifications.rule import Rule

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def described(rule: Rule) -> list[tuple[str, str]]:
    """Return what a rule does, as titles and words."""
    return list(_described(rule))


def _described(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "Which incidents", "; ".join(_which(rule)) if rule.incidents else "none"
    yield "Agents", _agents(rule)
    names = target_names()
    for stage in rule.stages:
        after = f"After {exact_span(stage.after_ms)} unacknowledged" if stage.after_ms else "Whom"
        yield after, whom(names, stage.channels, stage.rotas)
    alike = f"incidents with the same {', '.join(rule.group_by)}"
    yield "In one message", alike if rule.group_by else "all incidents"
    yield "Waits for more", _span(rule.window_ms)
    yield "Reminder", f"every {exact_span(rule.repeat_ms)}" if rule.repeat_ms else "none"
    yield "When it is over", "says so" if rule.resolved else "says nothing"
    yield "Scheduled tasks", "told of when they notify" if rule.tasks else "not told of"
    yield "At most", f"{rule.most} messages in {exact_span(rule.per_ms)}"
    if rule.hours:
        yield "Only", hours(rule.hours)
    if rule.quiet:
        exempt = f", except {_state(rule.quiet.exempt)} or worse" if rule.quiet.exempt else ""
        yield "Quiet hours", f"{hours(rule.quiet.hours)}{exempt}"


def _agents(rule: Rule) -> str:
    words = [label for kind, label in AGENT_CHOICES if kind in rule.agents]
    return "; ".join([_scenarios(rule), *words]) if words else "none"


def _scenarios(rule: Rule) -> str:
    known = scenarios()
    titles = [known[name].title if name in known else name for name in rule.scenarios]
    return ", ".join(titles) or "every scenario"


def _which(rule: Rule) -> Iterator[str]:
    yield _scenarios(rule)
    if rule.labels:
        yield "any of " + ", ".join(f"{key}={value}" for key, value in rule.labels)
    if rule.states:
        yield ", ".join(_state(state) for state in rule.states)
    yield f"{_state(rule.at_least)} or worse" if rule.at_least else "any state that is not good"
    if rule.after_ms:
        yield f"lasting at least {exact_span(rule.after_ms)}"


def hours(given: Hours) -> str:
    """Return hours of the week in words."""
    begin, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (given.begin, given.end))
    days = ", ".join(DAYS[day] for day in sorted(given.days))
    return f"{begin} to {end} {given.zone}, {'every day' if len(given.days) == 7 else days}"


def _state(name: str) -> str:
    labels = (
        state.label
        for scenario in scenarios().values()
        for state in scenario.states
        if state.name == name
    )
    return next(labels, name)


def _span(ms: int) -> str:
    return exact_span(ms) if ms else "not at all"


def target_names() -> dict[tuple[str, int], str]:
    """Return the names of all channels and rotas, by kind and number."""
    channels = {("channel", row.pk): row.name for row in Channel.objects.all()}
    return channels | {("rota", row.pk): f"{row.name} (rota)" for row in Rota.objects.all()}


def whom(
    names: Mapping[tuple[str, int], str], channels: Iterable[int], rotas: Iterable[int]
) -> str:
    """Return the targets of a stage in words."""
    keys = [("channel", number) for number in channels] + [("rota", number) for number in rotas]
    return ", ".join(names.get(key, f"{key[0]} {key[1]}") for key in keys)
