"""The states on the board and how they came about. Times in Unix ms of the broker's clock."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.models import AssetRow, ScenarioRow

VERSION = 40
"""Length of a version in its sortable form."""
PLACE = 33
"""Length of its part without the epoch."""

CHANGE = "change"
"""Kind of a transition that changed the state."""
UNCONFIRMED, CONFIRMED = "unconfirmed", "confirmed"
"""Kinds of one that changed the mark `unconfirmed` alone."""


class AssetState(AssetRow):
    """The newest state record of one asset.

    record: the record's JSON as it stands in the topic (of a purged asset, the last one); rank: its
    place on the board before time and name, see `dashboard.states.caveats`, empty once purged;
    disputed: the worst state that a vote says where that is worse than the state, else empty;
    silent: how many votes that count are silent, empty for none; doubt: how many agents that count
    are in doubt, with or without a vote, empty for none; changed_at: the time of its cause;
    reported_at: of the newest live vote of an agent, empty without one; reported_in: its quarter of
    an hour since 1970; voteless_in: that of changed_at where there is no such vote; override_*: of
    an override, empty without one; purged rows stay hidden for a week, so that a replay cannot
    bring an asset back. Its names are indexed by their parts too, see
    `dashboard.states.name_search`.
    """

    partition = models.IntegerField()
    state = models.CharField(max_length=64)
    severity = models.IntegerField()
    rank = models.IntegerField(null=True)
    previous = models.CharField(max_length=64, blank=True)
    since = models.BigIntegerField()
    unconfirmed = models.BooleanField(default=False)
    unconfirmed_reason = models.CharField(max_length=200, null=True)  # noqa: DJ001 - as the others
    disputed = models.CharField(max_length=64, null=True)  # noqa: DJ001 - as the others
    silent = models.IntegerField(null=True)
    doubt = models.IntegerField(null=True)
    version = models.CharField(max_length=VERSION)
    changed_at = models.BigIntegerField()
    cause_type = models.CharField(max_length=20)
    reported_at = models.BigIntegerField(null=True)
    reported_in = models.IntegerField(null=True)
    voteless_in = models.IntegerField(null=True)
    overridden = models.BooleanField(default=False)
    override_since = models.BigIntegerField(null=True)
    override_until = models.BigIntegerField(null=True)
    override_user = models.CharField(max_length=255, null=True)  # noqa: DJ001 - as the others
    pending_due = models.BigIntegerField(null=True)
    record = models.TextField()
    purged = models.BooleanField(default=False)
    purged_at = models.BigIntegerField(null=True)

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "asset"], name="one_row_per_asset"),)
        # Each row is in one of the two. The state stands in the first so that a filter, by state
        # or by text, is answered from the index alone.
        indexes = (
            Index(
                fields=["scenario", "rank", "-since", "asset", "state"],
                condition=Q(purged=False),
                name="board_order",
            ),
            Index(fields=["purged_at"], condition=Q(purged=True), name="purged_rows"),
            Index(
                fields=["scenario", "override_until", "override_since"],
                condition=Q(overridden=True),
                name="overrides",
            ),
            # Two, of rows that no other question is about: a planner would take one over all rows
            # for questions that the board's order answers without looking at a row. Not of the
            # times themselves: each record has others, and would be written to the index as well.
            Index(
                fields=["scenario", "reported_in", "id"],
                condition=Q(purged=False, reported_in__isnull=False),
                name="last_reports",
            ),
            Index(
                fields=["scenario", "voteless_in", "id"],
                condition=Q(purged=False, voteless_in__isnull=False),
                name="voteless",
            ),
            # Four, each of the rows alone that a filter asks for by it: most often few.
            Index(
                fields=["scenario"],
                condition=Q(purged=False, disputed__isnull=False),
                name="disputed_rows",
            ),
            Index(
                fields=["scenario"],
                condition=Q(purged=False, unconfirmed=True),
                name="unconfirmed_rows",
            ),
            Index(
                fields=["scenario"],
                condition=Q(purged=False, silent__isnull=False),
                name="silent_rows",
            ),
            Index(
                fields=["scenario"],
                condition=Q(purged=False, doubt__isnull=False),
                name="doubt_rows",
            ),
        )


class NameRun(models.Model):
    """One or two characters in a row, ASCII in upper case, that are or were in an asset's name.

    What is not here is in no name. The materialiser adds them in the transactions that add rows; a
    name that goes leaves its own behind.
    """

    run = models.CharField(max_length=2, primary_key=True)

    def __str__(self) -> str:
        return self.run


class StateCount(ScenarioRow):
    """The number of visible assets in a state: of a million rows nobody wants to count them.

    The materialiser keeps it in the transactions that write the rows.
    """

    state = models.CharField(max_length=64)
    n = models.BigIntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "state"], name="one_count_per_state"),)


class DoubtCount(ScenarioRow):
    """The number of visible assets that have a doubt: disputed, unconfirmed, with silent votes, or
    with an agent in doubt.

    Kept as `StateCount` is, one row for each. doubt: of `dashboard.states.caveats.DOUBTS`.
    """

    doubt = models.CharField(max_length=20)
    n = models.BigIntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "doubt"], name="one_count_per_doubt"),)


class Transition(AssetRow):
    """A change of an asset's state, or a record that changed none and is of its history.

    kind: `change` (an empty `state` is a purge), `unconfirmed` or `confirmed` where only that mark
    changed, or the cause of a record after which the state stayed: `reminder`, `override-end`. Who
    queries changes queries that kind. place: offset and step of the version. unconfirmed: the mark
    after it; empty for what was written before it was kept. A rebuild reports the same again in a
    new epoch: it takes the place of what was reported before.
    """

    kind = models.CharField(max_length=20, default=CHANGE, db_default=CHANGE)
    version = models.CharField(max_length=VERSION)
    place = models.CharField(max_length=PLACE)
    at = models.BigIntegerField()
    previous = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=64, blank=True)
    unconfirmed = models.BooleanField(null=True)
    cause_type = models.CharField(max_length=20)
    cause = models.TextField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "place"], name="one_transition_per_place"
            ),
        )
        indexes = (
            Index(fields=["scenario", "at"], name="transitions_by_age"),
            Index(fields=["at", "id"], name="transitions_newest"),
        )


class Answer(AssetRow):
    """The first answer to a command, whoever sent it. `version`: of the answering record."""

    command = models.CharField(max_length=36, unique=True)
    outcome = models.CharField(max_length=200)
    version = models.CharField(max_length=VERSION)
    at = models.BigIntegerField()

    class Meta:
        indexes = (Index(fields=["at"], name="answer_age"),)
