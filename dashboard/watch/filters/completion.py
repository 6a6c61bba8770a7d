"""Completion of a filter as it is typed, and terms to show as examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import Max

from dashboard.core.common.text import isolated
from dashboard.core.states.board_rows import amount
from dashboard.core.states.filter_terms import FLAGS, KEYS, WORDS, quoted
from dashboard.core.states.models import AssetState
from dashboard.core.states.vocabularies import MOST, Completion, Offers, completed
from dashboard.watch.agents.models import Agent
from dashboard.watch.annotations.labels import keys, values
from dashboard.watch.annotations.models import Mark
from domain.scenario import Scenario

# ---- examples ------------------------------------------------------------------------------------
# Example terms, taken from what exists, so that each can be tried as it is.


def examples(scenario: Scenario) -> list[str]:
    """Return one term of each kind that this scenario's filter knows, as it would be typed."""
    worded = ["is:unhandled", "is:disputed", "has:doubt", "has:silent"]
    own = [] if scenario.life_cycle else worded
    state = f"state:{quoted(scenario.states[0].label)}"
    said = [*_details(scenario), *_labels(scenario)]
    return [state, "since:<1h", *_agents(scenario), "override:yes", *own, *said]


def placeholder(scenario: Scenario) -> str:
    """Return the placeholder of an empty box: an agent or a label, and a time."""
    likely = [*_labels(scenario), *_agents(scenario)][:1]
    return ", ".join(("a name", *map(isolated, likely), "since:<1h"))


def _agents(scenario: Scenario) -> list[str]:
    """Return a term for the agent with the most live votes, or none if no agent has reported."""
    agent = Agent.objects.filter(scenario=scenario.name).order_by("-votes", "agent").first()
    return [f"agent:{quoted(agent.agent)}"] if agent else []


def _details(scenario: Scenario) -> list[str]:
    """Return a term for each detail that some asset has."""
    details = ((key, _detail_values(scenario, key, "")) for key in scenario.detail_keys)
    return [f"{key}:{values[0].text}" for key, values in details if values]


def _labels(scenario: Scenario) -> list[str]:
    """Return a term for a label that some asset has, or none if no asset has one."""
    for key in keys(scenario.name):
        if of_key := values(scenario.name, key, "", 1):
            return [f"{key}:{quoted(of_key[0])}"]
    return []


# ---- completion ----------------------------------------------------------------------------------
# What may follow at a position in a filter: keys, states, agents, users, labels and their values.

# How many agents, overrides and acknowledgements are examined.
LOOKED = 300

_HINTS = {
    "state": "the state that it shows",
    "since": "how long it has been in its state: >1h, <10m",
    "agent": "an agent with a live vote; NAME* for many, NAME=STATE for its vote",
    "override": "pinned: yes, no, or by whom",
    "until": "when its override ends: <15m, none",
    "pending": "a state is pending: yes, no, or which",
    "is": "unhandled: nobody is working on it; disputed: a vote says worse; unconfirmed",
    "has": "silent: votes of agents that no longer report; doubt: agents in doubt",
    "unconfirmed": "too few votes support it: yes, no",
    "ack": "acknowledged: yes, no, or by whom",
    "in": "maintenance: a maintenance window covers it now",
    "muted": "a live vote of it is muted: yes, no",
    "name": "the whole name, or its beginning and *",
}
DETAIL_HINT = "what agents add: VALUE, VALUE*, >10000"
_WORDS = {
    "unhandled": "not in a good state, not acknowledged, not in maintenance",
    "disputed": "an agent, live, silent or in doubt, says worse than what is shown",
    "unconfirmed": "too few live votes support it",
    "silent": "an agent that voted on it no longer reports",
    "doubt": "a clock is wrong, an agent contradicts itself, or its reports cannot be taken",
    "maintenance": "a maintenance window covers it now",
}
_SPANS = {
    "since": ("<10m", "<1h", "<1d", ">10m", ">1h", ">1d", ">1w"),
    "until": ("<15m", "<1h", ">1h", ">1d"),
}


def offers(scenario: Scenario, text: str, at: int, viewer: str) -> Offers:
    """Return what may stand at position `at` of the text.

    viewer: the name of the user who types.
    """
    return completed(
        text,
        at,
        lambda typed: _keys(scenario, typed),
        lambda key, typed: _values(scenario, key, typed, viewer),
    )


def _keys(scenario: Scenario, typed: str) -> list[Completion]:
    own = [Completion(f"{key}:", key, _HINTS[key]) for key in KEYS]
    own += [Completion(f"{key}:", key, DETAIL_HINT) for key in scenario.detail_keys]
    known = (*KEYS, *scenario.detail_keys)
    labels = [
        Completion(f"{key}:", key, "label") for key in keys(scenario.name) if key not in known
    ]
    begun = [each for each in (*own, *labels) if each.label.startswith(typed.lower())]
    return begun[: MOST + len(known)]


def _values(scenario: Scenario, key: str, typed: str, viewer: str) -> Iterable[Completion]:
    """Return the values that the key may have, without a long search, likeliest first."""
    if key in _SPANS:
        none = [Completion("none", "none", "without an end")] if key == "until" else []
        return [*(Completion(span, span, _in_words(key, span)) for span in _SPANS[key]), *none]
    if key == "state":
        return _states(scenario)
    if key == "agent":
        return _completion_agents(scenario, typed)
    if key in WORDS:
        return [Completion(word, word, _WORDS[word]) for word in WORDS[key]]
    if key in FLAGS:
        return _flags()
    if key == "pending":
        return [*_flags(), *_states(scenario)]
    if key == "override":
        return [*_flags(), *_users(viewer, _pinned_by(scenario))]
    if key == "ack":
        return [*_flags(), *_users(viewer, _acknowledged_by(scenario))]
    return [] if key == "name" else _added_values(scenario, key, typed)


def _added_values(scenario: Scenario, key: str, typed: str) -> Iterable[Completion]:
    """Return the values of a detail or a label."""
    if key in scenario.detail_keys:
        return _detail_values(scenario, key, typed)
    named = (Completion(quoted(value), value) for value in values(scenario.name, key, typed, MOST))
    return [*named, *([] if typed else [Completion("*", "*", "any value")])]


def _detail_values(scenario: Scenario, key: str, typed: str) -> list[Completion]:
    """Return a detail's texts, and powers of ten that its numbers exceed, the highest first."""
    place = scenario.detail_keys.index(key) + 1
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
    texts = rows.filter(**{f"detail_{place}__icontains": typed})
    values = texts.values_list(f"detail_{place}", flat=True)
    named = values.order_by(f"detail_{place}").distinct()[:MOST]
    most = rows.aggregate(most=Max(f"amount_{place}"))["most"] or 0
    numbers = [f">{10**n}" for n in range(14, -1, -1) if most > 10**n][:3]
    return [
        *(Completion(quoted(text), text) for text in named if text),
        *(Completion(number, number, f"the highest is {amount(most)}") for number in numbers),
    ]


def _in_words(key: str, span: str) -> str:
    if key == "since":
        return "for longer" if span[0] == ">" else "for less"
    return "ends later" if span[0] == ">" else "ends sooner"


def _flags() -> list[Completion]:
    return [Completion("yes", "yes"), Completion("no", "no")]


def _states(scenario: Scenario) -> list[Completion]:
    return [Completion(quoted(spec.name), spec.name, spec.label) for spec in scenario.states]


def _completion_agents(scenario: Scenario, typed: str) -> list[Completion]:
    """Return the agents whose names contain what was typed, those with most live votes first."""
    rows = Agent.objects.filter(scenario=scenario.name, agent__icontains=typed)
    rows = rows.order_by("-votes", "agent")[:LOOKED]
    return [Completion(quoted(row.agent), row.agent, _votes(row.votes)) for row in rows]


def _votes(n: int) -> str:
    return f"{n:,} vote{'' if n == 1 else 's'}" if n else ""


def _users(viewer: str, others: Iterable[str]) -> Iterator[Completion]:
    yield Completion(quoted(viewer), viewer, "you")
    for user in sorted(set(others) - {viewer}):
        yield Completion(quoted(user), user)


def _pinned_by(scenario: Scenario) -> list[str]:
    rows = AssetState.objects.filter(scenario=scenario.name, overridden=True).order_by()
    return [user for user in rows.values_list("override_user", flat=True)[:LOOKED] if user]


def _acknowledged_by(scenario: Scenario) -> list[str]:
    rows = Mark.objects.filter(scenario=scenario.name, ack_until__isnull=False)
    return list(rows.values_list("ack_by", flat=True)[:LOOKED])
