"""A run once more, for the assets whose state had moved on when the job came to its command."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import QuerySet

from dashboard.bulk.models import REFUSED, Item, Run
from dashboard.commands.stale_forms import STATE_MOVED_ON
from dashboard.core.times import utc
from domain.records import REFUSED as PREFIX


def moved_on_meanwhile(run: Run) -> QuerySet[Item]:
    """Return the assets for which the job refused the command as the state had moved on."""
    text = STATE_MOVED_ON.removeprefix(PREFIX)
    return Item.objects.filter(run=run, fate=REFUSED, text=text).order_by("number")


def renewal_fault(run: Run, now: int) -> str:
    """Return why a run cannot be reviewed again at `now` (Unix ms); empty where it can."""
    passed = [at for at in (run.until, run.schedule.get("at")) if at is not None and at <= now]
    if passed:
        return f"Its time, {utc(passed[0])}, has passed: choose these by name, with a new one."
    return "" if moved_on_meanwhile(run).exists() else "None was refused as its state moved on."


def renewal_of(run: Run, user: User, now: int, *, unchanged: bool) -> Run:
    """Return a run with the same command and reason, not saved yet.

    unchanged: whether it, too, is to be refused where the state is not that of its review any more.
    """
    n = moved_on_meanwhile(run).count()
    return Run(
        scenario=run.scenario,
        kind=run.kind,
        state=run.state,
        until=run.until,
        reason=run.reason,
        schedule=run.schedule,
        unchanged=unchanged,
        chosen=f"{n:,} refused before, as their state had moved on",
        user=user,
        username=user.get_username(),
        created_at=now,
    )
