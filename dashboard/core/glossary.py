"""What the product's own words mean: the page that says it, which words on other pages lead to."""

from __future__ import annotations

from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required


class Term(NamedTuple):
    """A word and its meaning. name: its anchor on the page."""

    name: str
    word: str
    meaning: str


# Grouped by where the reader meets the words.
GROUPS: dict[str, tuple[Term, ...]] = {
    "On a board": (
        Term("asset", "Asset", "Something that is watched: a site, a network, an order, a client "
             "address."),
        Term("agent", "Agent", "A program that reports: a WAF proxy, a scrubber, a probe, a "
             "station."),
        Term("report", "Report", "One agent's claim about one asset's state."),
        Term("vote", "Vote", "An agent's latest report on an asset. It is live until it expires; "
             "then it is silent, and counts only against an all-clear."),
        Term("tally", "Tally", "The scenario's rule applied to the votes on an asset."),
        Term("raise", "Raise and lower", "A state is raised when it gets worse, and lowered when "
             "it gets better. Live votes alone raise a state. To lower it takes enough live votes "
             "that say better, and no agent that said worse may merely have fallen silent."),
        Term("hold", "Hold", "How long the votes must support a state before the asset enters "
             "it."),
        Term("pending", "Pending", "A state whose hold is running."),
        Term("pin", "Pin, or override", "A state that an operator has set, whatever is reported. "
             "Votes are still tallied underneath; that state shows again when the pin ends."),
        Term("unconfirmed", "Unconfirmed", "Too few agents vote, or no vote says that the state is "
             "this good or this bad. The mark says which."),
        Term("disputed", "Disputed", "An agent says worse than what is shown: by a vote, live or "
             "silent, by one that goes to and fro, or in doubt."),
        Term("in-doubt", "In doubt", "An agent's clock is wrong, it contradicts itself, or its "
             "reports cannot be taken. What it says may raise an alarm, and gives no all-clear."),
        Term("to-and-fro", "Flapping agent", "An agent whose vote has turned worse twice within a "
             "vote's lifetime, and milder in between. For a lifetime that state disputes a "
             "milder one."),
        Term("mute", "Mute", "An agent's votes do not count for a time. They are kept and shown."),
        Term("acknowledged", "Acknowledged", "Somebody has said that they are working on it, for a "
             "limited time."),
        Term("purge", "Purge", "To take an asset off the board. The next report on it brings it "
             "back as new."),
        Term("reminder", "Reminder", "A record that is repeated while an asset stays in a state."),
        Term("life-cycle", "Life cycle", "A scenario whose states follow each other, such as the "
             "steps of an order. None is worse than another."),
    ),
    "In a summary": (
        Term("availability", "Availability", "The time in good states, divided by the time in good "
             "and bad states, added up over assets. Unconfirmed time and maintenance are in "
             "neither."),
        Term("error-budget", "Error budget", "The bad time that a target leaves: of 99.5 percent, "
             "half a percent of the good and bad time."),
        Term("not-observed", "Not observed", "A time before a scenario's first record, one in "
             "which nothing was heard of the job, or one to come. It counts in no figure."),
        Term("incident", "Incident", "The unbroken time that an asset spends outside "
             "its good states."),
        Term("flapping", "Flapping", "An incident that begins less than 15 minutes after the one "
             "before of the same asset has ended."),
        Term("false-alarm", "False alarm", "A time in which an asset was about to enter a worse "
             "state, and did not."),
        Term("service-hours", "Service hours", "The hours of a week in which a scenario's "
             "availability matters, in the reporting zone."),
    ),
    "In the job": (
        Term("log", "Log", "The records of a scenario's source topic in Kafka, in their order. "
             "The board is computed from them, and from nothing else."),
        Term("partition", "Partition", "A part of a log. All records of an asset are in the same "
             "one; a record is identified by its partition and offset."),
        Term("offset", "Offset", "A record's number in its partition."),
        Term("bucket", "Bucket", "All assets of one partition, which the job processes together. "
             "Each bucket has its state, its order of records and its clock."),
        Term("log-time", "Log time", "A bucket's clock: the newest time at which the broker "
             "appended one of the records it has applied. Expiries, holds and ends follow it, so a "
             "job that is behind delays them but never changes their outcome."),
        Term("tick", "Tick", "A record that the job appends to every partition, so that time "
             "passes where nobody reports."),
        Term("timer", "Timer", "An event that time will cause: an end, an expiry, a hold, a "
             "reminder, a purge."),
        Term("kernel", "Kernel", "The engine for rules of the built-in kinds, in Java inside "
             "Spark."),
        Term("engine", "Engine", "The part of the job that applies a scenario's rule: the kernel, "
             "or Python for a rule that is written in it. Both give the same states."),
        Term("epoch", "Epoch", "How many times a query has begun again from its log. Each rebuild "
             "raises it, so that new versions are higher than all before."),
        Term("version", "Version", "Epoch, offset and step of a state record: 3.3040.0. It rises "
             "with each record of an asset; of two records the higher version counts."),
        Term("checkpoint", "Checkpoint", "Spark's files of a query: the offsets that it has "
             "reached, and its state. It continues from there after a restart."),
        Term("trigger", "Trigger", "How Spark processes records: each as it comes (real-time), or "
             "many together (micro-batches)."),
        Term("dead-letter", "Dead letter", "A record that the job could not read, or refused."),
    ),
}  # fmt: skip

TERMS = {term.name: term for terms in GROUPS.values() for term in terms}


@require_safe
@role_required("read")
def glossary(request: HttpRequest) -> HttpResponse:
    """Return the page of every word and its meaning."""
    return render(request, "glossary.html", {"groups": GROUPS})
