"""What the product's own words mean: the page that says it, which words on other pages lead to."""

from __future__ import annotations

from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required


class Term(NamedTuple):
    """A word and its meaning. name: as its place on the page is called."""

    name: str
    word: str
    meaning: str


GROUPS: dict[str, tuple[Term, ...]] = {
    "On a board": (
        Term("asset", "Asset", "What is watched: a site, a network, an order, a client address."),
        Term("agent", "Agent", "Who reports: a WAF proxy, a scrubber, a probe, a station."),
        Term("report", "Report", "One agent's claim about one asset's state."),
        Term("vote", "Vote", "An agent's latest report on an asset. It is live until it expires; "
             "then it is silent, and stands as the agent's last word."),
        Term("tally", "Tally", "The scenario's rule applied to the votes on an asset."),
        Term("raise", "Raise and lower", "A state is raised when it gets worse, and lowered when "
             "it gets better. Live votes alone raise a state. To lower it takes enough live votes "
             "that say better, and nobody who said worse may merely have fallen silent."),
        Term("hold", "Hold", "How long the votes must bear a state out before it is the state."),
        Term("pending", "Pending", "A state that is waiting out its hold."),
        Term("pin", "Pin, or override", "A state that an operator has set, whatever is reported. "
             "The tally goes on underneath, and shows again when the pin ends."),
        Term("unconfirmed", "Unconfirmed", "Too few agents vote, or nobody says that it is this "
             "good or this bad. The mark says which."),
        Term("disputed", "Disputed", "Somebody, live or silent, says worse than what is shown."),
        Term("mute", "Mute", "An agent's votes count nothing for now. They are kept and shown."),
        Term("acknowledged", "Acknowledged", "Somebody has it in hand, for a while."),
        Term("purge", "Purge", "To take an asset off the board. The next report on it brings it "
             "back, afresh."),
        Term("reminder", "Reminder", "A record that is repeated while an asset stays in a state."),
        Term("life-cycle", "Life cycle", "A scenario whose states follow each other, such as the "
             "steps of an order. None is worse than another."),
    ),
    "In the job": (
        Term("log", "Log", "The records of a scenario's source topic in Kafka, in their order. "
             "The board is what the job makes of them, and of nothing else."),
        Term("partition", "Partition", "A part of a log. All records of an asset are in the same "
             "one; a record is found by its partition and offset."),
        Term("offset", "Offset", "A record's number in its partition."),
        Term("bucket", "Bucket", "All assets of one partition: what the job works on as a whole. "
             "Each has its state, its order of records and its clock."),
        Term("log-time", "Log time", "A bucket's clock: the newest time at which the broker "
             "appended one of the records it has applied. Expiries, holds and ends go by it, so a "
             "job that is behind delays them and never changes what comes of them."),
        Term("tick", "Tick", "A record that the job appends to every partition, so that time "
             "passes where nobody reports."),
        Term("due", "Due", "Something that time will cause: an end, an expiry, a hold, a reminder, "
             "a purge."),
        Term("kernel", "Kernel", "The query that carries rules of the built-in kinds, in Java "
             "inside Spark."),
        Term("engine", "Engine", "What carries a scenario's rule out: the kernel, or Python for a "
             "rule that is written in it. Both give the same states."),
        Term("epoch", "Epoch", "How many times a query has begun anew from its log. Each rebuild "
             "raises it, so that new versions are higher than all before."),
        Term("version", "Version", "Epoch, offset and step of a state record: 3.3040.0. It rises "
             "with each record of an asset; of two records the higher one counts."),
        Term("checkpoint", "Checkpoint", "What Spark keeps on disk of a query: how far it has "
             "come, and its state. From there it goes on after a restart."),
        Term("trigger", "Trigger", "How Spark takes records up: each as it comes (real-time), or "
             "many together (micro-batches)."),
        Term("dead-letter", "Dead letter", "A record that the job could not read, or refused."),
    ),
}  # fmt: skip
"""By where one meets them."""

TERMS = {term.name: term for terms in GROUPS.values() for term in terms}


@require_safe
@role_required("read")
def glossary(request: HttpRequest) -> HttpResponse:
    """Every word and its meaning."""
    return render(request, "glossary.html", {"groups": GROUPS})
