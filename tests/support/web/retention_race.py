"""Old changes are deleted while others write and read; how long those waited, as JSON.

Run as a program by tests of both databases: `python tests/support/web/retention_race.py`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
OLD, PORTION = 40_000, 900


def main() -> None:
    """Do it and look."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from django.db import connection

    from support.web.database import migrate

    migrate()
    fill(OLD)
    done, waits = Event(), {"write": [0.0], "read": [0.0]}
    others = [
        Thread(target=repeat, args=(done, waits["write"], write)),
        Thread(target=repeat, args=(done, waits["read"], read)),
    ]
    for other in others:
        other.start()
    begun = time.monotonic()
    deleted, largest = delete()
    took = time.monotonic() - begun
    done.set()
    for other in others:
        other.join()
    outcome = {
        "vendor": connection.vendor,
        "deleted": deleted,
        "largest": largest,
        "took_s": round(took, 2),
        "longest_s": {name: round(max(of), 3) for name, of in waits.items()},
        "written": len(waits["write"]) - 1,
        "left": left(),
    }
    print(json.dumps(outcome))


def fill(many: int) -> None:
    """Store as many changes that are old."""
    from dashboard.core.states.models import Transition

    for begin in range(0, many, 1_000):
        Transition.objects.bulk_create(
            change(f"old-{n}", n + 1) for n in range(begin, begin + 1_000)
        )


def change(asset: str, at: int) -> Any:
    """A change of an asset's state at a time (Unix ms)."""
    from dashboard.core.states.models import Transition

    return Transition(
        scenario="attack", asset=asset, place=f"{at:020d}", version="1", at=at, state="clear",
        cause_type="report", cause="{}",
    )  # fmt: skip


def delete() -> tuple[int, int]:
    """Apply the retention of changes. Returns how many rows went, and the most in a transaction."""
    from dashboard.core.common.retention import Retention, delete_rows
    from dashboard.core.states.models import Transition

    portions = [0]

    def counted(rows: Any) -> int:
        portions.append(delete_rows(rows))
        return portions[-1]

    kept = Retention("changes", Transition, "at", 1_000, by_scenario=True, delete=counted)
    return kept.apply(int(time.time() * 1000)), max(portions)


def repeat(done: Event, waits: list[float], act: Callable[[int], None]) -> None:
    """Act again and again, as a process of its own would, and note how long each time took, s."""
    from django.db import connection

    number = 0
    while not done.is_set():
        number += 1
        begun = time.monotonic()
        act(number)
        waits.append(time.monotonic() - begun)
        done.wait(0.01)
    connection.close()


def write(number: int) -> None:
    """Store a change of now, as the materialiser does."""
    change(f"new-{number}", int(time.time() * 1000) + 3_600_000).save()


def read(_number: int) -> None:
    """Read the newest changes, as pages do."""
    from dashboard.core.states.models import Transition

    list(Transition.objects.order_by("-pk")[:50])


def left() -> int:
    """How many old changes are left."""
    from dashboard.core.states.models import Transition

    return Transition.objects.filter(asset__startswith="old-").count()


if __name__ == "__main__":
    main()
