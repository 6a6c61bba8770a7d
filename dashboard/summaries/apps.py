"""The summaries' app."""

from typing import Any

from django.apps import AppConfig


class SummariesConfig(AppConfig):
    """The app of summaries."""

    name = "dashboard.summaries"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have sums follow the changes of maintenance windows."""
        from dashboard.maintenance.windows import windows_changed

        windows_changed.connect(sum_up_again, dispatch_uid="summaries")


def sum_up_again(scenario: str, begin: int, **_: Any) -> None:
    """Sum up a scenario again from a time on, Unix ms; "": all of them."""
    from dashboard.summaries.models import Progress
    from dashboard.summaries.recorder import mark

    names = Progress.objects.values_list("scenario", flat=True)
    mark({name: begin for name in names if scenario in ("", name)})
