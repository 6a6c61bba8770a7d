"""A month materialised and summed up in the configured database; its summaries, and the page of a
recount of it, as JSON.

Run as a program by tests that compare databases: `python tests/summed_month.py`.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def main() -> None:
    """Materialise, sum up, ask and recount; print what came of it."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from database import migrate
    from django.test.utils import setup_test_environment
    from lived_month import BEGUN, ENDED, Topic, lived, set_up

    migrate()
    setup_test_environment()
    set_up()
    topic = Topic()
    lived(topic, BEGUN, ENDED, seed=7)
    _materialise(topic.messages)
    print(json.dumps(_answers() | _counted(topic.messages) | _recounted(), default=str))


def _materialise(messages: list[Any]) -> None:
    from lived_month import ENDED

    from dashboard.core.scenarios import scenarios, topics
    from dashboard.materialiser.batch import sort_out
    from dashboard.materialiser.writer import write
    from dashboard.summaries.rollups import sum_up_day

    for n in range(0, len(messages), 7):
        write(sort_out(messages[n : n + 7], topics()), scenarios(), 0)
    while sum_up_day("attack", ENDED):
        pass


def _answers() -> dict[str, Any]:
    """Return the summaries of each unit, in the middle of an hour and of history."""
    from lived_month import ENDED, HOUR, MINUTE

    from dashboard.summaries.calculation import summary
    from dashboard.summaries.figures import Question
    from domain.history.periods import UNITS, containing

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
    from lived_month import ENDED, ZONE, history

    from dashboard.summaries.calculation import summary
    from dashboard.summaries.figures import Question
    from domain.history.periods import containing

    answer = summary(Question(("attack",), containing("month", date(2026, 3, 1))), ENDED)
    independent = history(messages).count(*answer.span, ZONE, {}, None)
    return {"month": list(answer.whole.now.times), "independent": list(independent.total())}


def _recounted() -> dict[str, Any]:
    """Return what the pages say of March, and of a recount that came to the same."""
    from lived_month import HOUR, ZONE
    from web_fixtures import logged_in_as

    from dashboard.recounts.ingestion import FIELDS, take_in
    from dashboard.recounts.models import Recount
    from dashboard.summaries.models import HourRow
    from wire.batch_query import Recounted, RecountTotals, SummedHour

    hours = HourRow.objects.filter(scenario="attack").order_by("begin")
    rows = [SummedHour(*row) for row in hours.values_list(*FIELDS)]
    since, until = rows[0].begin, rows[-1].begin + HOUR
    row = Recount.objects.create(
        id=uuid.uuid4(), scenario="attack", since=since, until=until, zone=ZONE, asked_at=until
    )
    end = RecountTotals(since, until, {0: (0, 9)}, {}, 9, 2, 1, 1, "kernel", 5)
    take_in(row.pk, Recounted(str(row.pk), 0, rows, last=True, totals=end), until)
    browser = logged_in_as("admin")
    recount = browser.get(f"/summary/recounts/{row.pk}/")
    page = browser.get("/summary/?period=month&date=2026-03-01&scenario=attack")
    return {
        "hours": len(rows),
        "agree": f"All {len(rows):,} hours agree" in " ".join(recount.content.decode().split()),
        "tiles": [tile.value for tile in page.context["tiles"]],
    }


if __name__ == "__main__":
    main()
