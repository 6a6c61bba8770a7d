"""The summaries' app."""

from typing import Any

from django.apps import AppConfig


class SummariesConfig(AppConfig):
    """The app of summaries."""

    name = "dashboard.notify.summaries"

    def ready(self) -> None:
        """Have sums follow the changes of maintenance windows."""
        from dashboard.watch.incidents.models import windows_changed

        windows_changed.connect(sum_up_again, dispatch_uid="summaries")


def sum_up_again(scenario: str, begin: int, **_: Any) -> None:
    """Sum up a scenario again from a time on, Unix ms; "": all of them."""
    from dashboard.notify.summaries.models import Progress

    known = Progress.objects.filter(scenario=scenario) if scenario else Progress.objects.all()
    known.mark_all(begin)
