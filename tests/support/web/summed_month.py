"""A month materialised and summed up in the configured database; its summaries as JSON.

Run as a program by tests that compare databases: `python tests/support/web/summed_month.py`.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def main() -> None:
    """Materialise, sum up, ask and check; print what came of it."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from django.test.utils import setup_test_environment

    from support.web.database import migrate
    from support.web.lived_month import BEGUN, ENDED, Topic, lived, set_up
    from support.web.summaries import materialise, sum_up

    migrate()
    setup_test_environment()
    set_up()
    topic = Topic()
    lived(topic, BEGUN, ENDED, seed=7)
    materialise(topic.messages)
    sum_up(ENDED)
    print(json.dumps(_answers() | _counted(topic.messages) | _checked(), default=str))


def _answers() -> dict[str, Any]:
    """Return the summaries of each unit, in the middle of an hour and of history."""
    from dashboard.notify.summaries.calculation import summary
    from dashboard.notify.summaries.figures import Question
    from domain.history.periods import UNITS, containing
    from support.web.lived_month import ENDED, HOUR, MINUTE

    answers = {}
    for unit in UNITS:
        period = containing(unit, date(2026, 3, 31))
        for label, service in (("", False), ("tier", True)):
            question = Question(("attack",), period, label, service)
            answer = asdict(summary(question, ENDED - 30 * HOUR - 17 * MINUTE))
            answers[f"{unit} {label}"] = _without_ids(answer)
    return {"answers": answers}


def _without_ids(answer: dict[str, Any]) -> dict[str, Any]:
    incidents = [list(each)[1:] for each in answer.pop("incidents")]
    return answer | {"incidents": incidents}


def _counted(messages: list[Any]) -> dict[str, Any]:
    """Return the times of March, by the sums and by an independent count."""
    from dashboard.notify.summaries.calculation import summary
    from dashboard.notify.summaries.figures import Question
    from domain.history.periods import containing
    from support.web.lived_month import ENDED, ZONE, history

    answer = summary(Question(("attack",), containing("month", date(2026, 3, 1))), ENDED)
    independent = history(messages).count(*answer.span, ZONE, {}, None)
    return {"month": list(answer.whole.now.times), "independent": list(independent.total())}


def _checked() -> dict[str, Any]:
    """Return where the changes contradict the sums, and what the page says of March."""
    from dashboard.notify.summaries.check import differences
    from dashboard.notify.summaries.models import HourRow
    from support.web.web_fixtures import logged_in_as

    hours = list(HourRow.objects.filter(scenario="attack").order_by("begin"))
    begin, end = hours[0].begin, hours[-1].end
    page = logged_in_as("admin").get("/summary/?period=month&date=2026-03-01&scenario=attack")
    return {
        "hours": len(hours),
        "differences": list(differences("attack", begin, end)),
        "tiles": [tile.value for tile in page.context["tiles"]],
    }


if __name__ == "__main__":
    main()
