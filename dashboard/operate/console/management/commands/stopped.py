"""`manage.py stopped`: which queries of the job were stopped on purpose, by whom and since when."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import utc
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.core.job.status import stopped


class Command(BaseCommand):
    """A line for each of them; nothing where none was."""

    help = "List the queries that were stopped from the job's page: by whom, since when and why."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Print a line for each query that was stopped on purpose."""
        for progress in stopped():
            self.stdout.write(_in_words(progress))


def _in_words(progress: JobProgress) -> str:
    """Return a line for a terminal, which is to obey nothing of what people wrote."""
    carried = BucketStatus.objects.carried_by(progress.query).values_list("scenario", flat=True)
    names = {name: scenario.title for name, scenario in scenarios().items()}
    titles = ", ".join(sorted({names[name] for name in carried if name in names}))
    of = f" ({titles})" if titles else ""
    text = f"{progress.query}{of} was stopped by {progress.stopped_by} on {utc(progress.since)}: "
    text += progress.stopped_reason
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
