"""How each figure of a summary is counted, in a few sentences; docs/summary.md has the whole."""

from __future__ import annotations

EXPLAINED = {
    "availability": (
        "The time in good states, divided by the time in good and bad states, added up "
        "over all assets. Unconfirmed time and maintenance are in neither."
    ),
    "budget": (
        "What the target leaves for bad time: of a target of 99.5 %, half a percent of "
        "the good and bad time that was observed so far. What was bad is taken off it."
    ),
    "incidents": (
        "Incidents that were going on at some time of the period. An incident is the "
        "unbroken time that an asset spends outside its good states."
    ),
    "bad": (
        "The time that assets spent in a state that is not good, added up over assets: "
        "two assets for one hour are two hours. Unconfirmed time and maintenance are not "
        "in it."
    ),
    "acknowledged": (
        "From the beginning of an incident to its first acknowledgement, of those that "
        "began in the period and were acknowledged. 95 of 100 took no longer than the "
        "second figure."
    ),
    "cleared": (
        "From the beginning of an incident to its end, of those that ended in the period. "
        "95 of 100 took no longer than the second figure."
    ),
    "flapping": (
        "Incidents that began in the period, less than 15 minutes after the one before of "
        "the same asset had ended."
    ),
    "false_alarms": "Times in which an asset was about to enter a worse state, and did not.",
    "unconfirmed": (
        "Time in which too few agents voted to be sure of the state, or no vote said it. It "
        "is neither good nor bad."
    ),
    "maintenance": (
        "Time of planned work that is not to count. It is neither good nor bad; incidents "
        "in it are still listed."
    ),
    "heat": (
        "The time in bad states of each day of the reporting zone, added up over assets. "
        "The darker, the more; the figure is in each day. What is hatched was not observed."
    ),
    "week": (
        "The time in bad states by weekday and hour of the reporting zone, over the whole period. "
        "What is hatched was not observed."
    ),
    "worst": "The assets with most time in bad states in the period.",
    "timelines": (
        "The incidents of the period, of the assets with most time in them. What is hatched was "
        "not observed."
    ),
    "labels": (
        "An asset counts by the label that it has now. Incidents are those of the label as "
        "one: unbroken times in which at least one of its assets had one."
    ),
    "overrides": "States that somebody pinned in the period, by hand, with their reason.",
    "runs": "Commands for many assets at once that were started in the period.",
}
