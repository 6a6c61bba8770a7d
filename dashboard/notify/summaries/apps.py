"""The app of summaries."""

from typing import Any

from django.apps import AppConfig


class SummariesConfig(AppConfig):
    """The summaries app."""

    name = "dashboard.notify.summaries"

    def ready(self) -> None:
        """Have sums updated when maintenance windows change."""
        from dashboard.watch.incidents.models import windows_changed

        windows_changed.connect(sum_up_again, dispatch_uid="summaries")


def sum_up_again(scenario: str, begin: int, **_: Any) -> None:
    """Have a scenario ("": all of them) summed up again from a time on, Unix ms."""
    from dashboard.notify.summaries.models import Progress

    known = Progress.objects.filter(scenario=scenario) if scenario else Progress.objects.all()
    known.mark_all(begin)
